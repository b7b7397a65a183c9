"""Open the device check of torch's flex_attention by a source patch."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.fixes import stack
from flexdoctor.text import Text
from flexdoctor.treatment.patches import file_of, patch_for
from flexdoctor.treatment.plan import Fix, Situation, Step
from flexdoctor.treatment.target import site_of

NAME = "gate"
OPENS = ("FD201", "FD202", "FD203")


def propose(situation: Situation) -> Iterator[Step]:
    """Patch the check where that is all it takes, or where the set that is moved to replaces it too late."""
    target, moves = situation.target, stack.needed(situation)
    torch = situation.facts.torch
    if moves and target and target.early_import:
        replaced = situation.installed("torch").partition("+")[0] != target.torch
        patch = patch_for("gate", site_of(situation.facts, "torch"), target.torch, replaced=replaced)
        codes = situation.has(*OPENS)
    elif not moves and torch and situation.has(*OPENS):
        patch = patch_for("gate", site_of(situation.facts, "torch"), torch.version)
        codes = situation.has(*OPENS)
    else:
        return
    if patch is None:
        return
    path = f"{site_of(situation.facts, 'torch', folded=True)}/{file_of('gate')}"
    gives_eager_only = (
        situation.facts.torch_npu is not None and situation.facts.torch_npu.lowering is None and not moves
    )
    yield Step(
        "patch",
        NAME,
        Text("let npu through torch's device check", "让 torch 的设备校验接受 npu"),
        opens=codes,
        path=path,
        patch=patch,
        touches=Text("{path}, line {line}", "{path} 第 {line} 行").format(path=path, line=patch.line),
        note=Text(
            "gives eager flex_attention only: this torch-npu has no NPU kernel for it",
            "只能得到 eager 模式：此 torch-npu 没有对应的 NPU 内核",
        )
        if gives_eager_only
        else Text(
            "gives the first compiled call, before torch-npu's inductor backend has loaded; "
            "a reinstall of torch undoes it",
            "使首次编译调用（torch-npu 的 inductor 后端加载之前）可用；重装 torch 后失效",
        ),
    )


FIX = Fix(
    name=NAME,
    title=Text("let npu through torch's device check (source patch)", "让 torch 的设备校验接受 npu（源码补丁）"),
    opens=OPENS,
    propose=propose,
)
