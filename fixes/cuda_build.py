"""Replace a CUDA build of torch by the CPU build that torch-npu is made for, where an index has one."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.text import Text
from flexdoctor.treatment.plan import Fix, Situation, Step, install_step

NAME = "cuda_build"
OPENS = ("FD114",)


def propose(situation: Situation) -> Iterator[Step]:
    """Reinstall the same release as its +cpu build."""
    torch = situation.installed("torch").partition("+")[0]
    if situation.has(*OPENS) and torch:
        yield install_step(situation, NAME, "torch", f"{torch}+cpu", opens=OPENS, index=situation.cpu_index)


FIX = Fix(
    name=NAME,
    title=Text("replace a CUDA build of torch by its CPU build", "将 torch 的 CUDA 构建换成 CPU 构建"),
    opens=OPENS,
    propose=propose,
)
