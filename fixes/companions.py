"""Install what is imported without being asked for: pybind11, psutil, and what CANN's compiler needs of Python."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.fixes import stack, triton
from flexdoctor.text import Text
from flexdoctor.treatment.plan import Fix, Situation, Step, install_step

NAME = "companions"
_TRITON, _BACKEND = "FD214", "FD244"
OPENS = (_TRITON, _BACKEND)
#: What a distribution that is brought in imports at load without asking for it in every release.
_COMES_WITH = {"triton-ascend": ("pybind11",), "torch-npu": ("psutil", "numpy")}
#: Distributions whose module has another name.
_DISTRIBUTIONS = {"attr": "attrs", "yaml": "pyyaml", "google": "protobuf"}


def propose(situation: Situation) -> Iterator[Step]:
    """Install each missing module's distribution at its known pin; what has no pin is left to a person."""
    for code in situation.has(*OPENS):
        names = [_DISTRIBUTIONS.get(module, module).replace("_", "-") for module in _modules(situation, code)]
        # A code is opened by all of its modules or not at all: one without a pin leaves it to a person.
        if all(name in situation.companions for name in names):
            for name in names:
                yield install_step(situation, NAME, name, situation.companions[name], opens=(code,))
    brought = {step.distribution for source in (stack, triton) for step in source.propose(situation)}
    for owner, modules in _COMES_WITH.items():
        for name in modules:
            if owner in brought and name in situation.companions and not situation.installed(name):
                yield install_step(situation, NAME, name, situation.companions[name])


def _modules(situation: Situation, code: str) -> list[str]:
    facts = situation.facts
    missing = facts.triton.missing_imports if code == _TRITON else ()
    if code == _BACKEND and facts.torch_npu:
        missing = facts.torch_npu.missing_imports
    return list(dict.fromkeys(item.module for item in missing))


FIX = Fix(
    name=NAME,
    title=Text("install what is imported but not asked for", "安装被导入却未声明的依赖"),
    opens=OPENS,
    propose=propose,
)
