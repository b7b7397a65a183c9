"""Keep has_triton from comparing a `.major` that is None, by a source patch."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.fixes import stack
from flexdoctor.text import Text
from flexdoctor.treatment.patches import file_of, patch_for
from flexdoctor.treatment.plan import Fix, Situation, Step
from flexdoctor.treatment.target import site_of

NAME = "major"
OPENS = ("FD221", "FD222")


def propose(situation: Situation) -> Iterator[Step]:
    """Patch the comparison of the torch that is there, or that the plan installs."""
    codes, torch, target = situation.has(*OPENS), situation.facts.torch, situation.target
    if not codes or torch is None:
        return
    release = target.torch if target and stack.needed(situation) else torch.version.partition("+")[0]
    replaced = torch.version.partition("+")[0] != release
    patch = patch_for("major", site_of(situation.facts, "torch"), release, replaced=replaced)
    if patch is None:
        return
    path = f"{site_of(situation.facts, 'torch', folded=True)}/{file_of('major')}"
    yield Step(
        "patch",
        NAME,
        Text("count a missing `.major` as 0 in has_triton", "在 has_triton 中将缺失的 `.major` 视为 0"),
        opens=codes,
        path=path,
        patch=patch,
        touches=Text("{path}, line {line}", "{path} 第 {line} 行").format(path=path, line=patch.line),
        note=Text(
            "gives torch.compile under transfer_to_npu; a reinstall of torch undoes it",
            "使 transfer_to_npu 下的 torch.compile 可用；重装 torch 后失效",
        ),
    )


FIX = Fix(
    name=NAME,
    title=Text("count a missing `.major` as 0 (source patch)", "将缺失的 `.major` 视为 0（源码补丁）"),
    opens=OPENS,
    propose=propose,
)
