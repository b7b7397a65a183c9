"""Link 8: do the `triton.language.extra` names that torch-npu uses exist in this triton."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flexdoctor.chain import Check
from flexdoctor.checks._words import at
from flexdoctor.facts import ExtraStep, Facts
from flexdoctor.findings import COMPILED, Evidence, Fault, Finding, found, passed, skipped
from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import stacks
from flexdoctor.text import Text

LINK = "module_rename"

NAME_GONE = Fault(
    "FD231",
    Text(
        "torch-npu {npu} needs triton.language.extra.{wanted}, which {triton} does not have",
        "torch-npu {npu} 需要 triton.language.extra.{wanted}，而 {triton} 没有",
    ),
    affects=COMPILED,
    blocks=False,
)
SILENTLY_UNDEFINED = Fault(
    "FD232",
    Text(
        "{triton} has no triton.language.extra.{wanted}; torch-npu {npu} goes on without it, but its kernels import it",
        "{triton} 没有 triton.language.extra.{wanted}；torch-npu {npu} 静默跳过，但生成的内核会导入它",
    ),
    affects=COMPILED,
    blocks=False,
)


@dataclass(frozen=True)
class Outcome:
    """What importing the triton helpers of torch-npu ends in: names bound, and the step that raises, if any."""

    bound: frozenset[str]
    fatal: ExtraStep | None
    missed: tuple[ExtraStep, ...]


def import_helpers(steps: Sequence[ExtraStep], offered: frozenset[str]) -> Outcome:
    """Run the look-ups of the helper module against the names that a triton offers.

    Within a try, the first failing look-up hands over to the except branch; a failing look-up outside of a try, or in
    an except branch, ends the import.
    """
    bound, missed = set[str](), list[ExtraStep]()
    for block in dict.fromkeys(step.block for step in steps):
        of_block = [step for step in steps if step.block == block]
        failed = False
        for step in of_block:
            if step.branch == "except" and not failed:
                continue
            if step.branch == "try" and failed:
                continue
            if step.name in offered:
                bound.add(step.binds)
                continue
            missed.append(step)
            if step.branch != "try":
                return Outcome(frozenset(bound), step, tuple(missed))
            failed = True
    return Outcome(frozenset(bound), None, tuple(missed))


def examine(facts: Facts) -> Iterator[Finding]:
    """Compare what torch-npu looks up, in order and with its fallbacks, with what this triton offers."""
    npu, triton = facts.torch_npu, facts.triton
    if npu is None:
        return
    if not npu.extra_steps:
        yield skipped(
            LINK,
            Text("torch-npu {npu} uses no such name", "torch-npu {npu} 不使用此类名称").format(npu=npu.version),
        )
        return
    offered = frozenset(triton.extra)
    outcome = import_helpers(npu.extra_steps, offered)
    claim = next((item for item in triton.claims if item.has_ascend_backend), None)
    name = f"{claim.name} {claim.version}" if claim else "this triton"
    offers = Evidence(
        "file",
        f"offers {', '.join(item for item in triton.extra if '.' in item) or 'nothing'}",
        path=f"{triton.path}/language/extra",
    )
    undefined = [
        step for step in outcome.missed if step.binds in npu.kernel_imports and step.binds not in outcome.bound
    ]
    remedy = Text(
        "install a triton-ascend that has triton.language.extra.{wanted}: {oldest} or later, from {index}",
        "请安装带有 triton.language.extra.{wanted} 的 triton-ascend：{oldest} 及以上，软件源 {index}",
    )
    if outcome.fatal:
        yield found(
            LINK,
            NAME_GONE,
            npu=npu.version,
            wanted=outcome.fatal.name,
            triton=name,
            evidence=[*(item for step in outcome.missed for item in at(step.place)), offers],
            predicted_errors=[_error(outcome.fatal)],
            remedy=_remedy(outcome.fatal, remedy),
        )
    elif undefined:
        helpers = undefined[0].place.path.rpartition("torch_npu/")[2].removesuffix(".py").replace("/", ".")
        yield found(
            LINK,
            SILENTLY_UNDEFINED,
            npu=npu.version,
            wanted=undefined[0].name,
            triton=name,
            evidence=[*at(undefined[0].place), *at(npu.kernel_imports_at), offers],
            predicted_errors=[f"ImportError: cannot import name '{undefined[0].binds}' from 'torch_npu.{helpers}'"],
            remedy=_remedy(undefined[0], remedy),
        )
    else:
        taken = sorted({step.name for step in npu.extra_steps if step.name in offered and step.binds in outcome.bound})
        yield passed(
            LINK,
            Text("torch-npu finds {names}", "torch-npu 可找到 {names}").format(names=", ".join(taken)),
            evidence=[offers],
        )


def _error(step: ExtraStep) -> str:
    if step.place.text.startswith(("import ", "from ")):
        return f"ModuleNotFoundError: No module named 'triton.language.extra.{step.name.partition('.')[0]}'"
    return f"AttributeError: module 'triton.language.extra' has no attribute '{step.name.partition('.')[0]}'"


def _remedy(step: ExtraStep, newer: Text) -> Text:
    if step.name.startswith("cann"):
        return newer.format(
            wanted=step.name, oldest=stacks.oldest_compiling_triton_ascend(), index=stacks.index("vendor").url
        )
    return Text(
        "move to a torch-npu that looks for extra.cann first, or to a triton-ascend that still has extra.{wanted}",
        "请换用优先查找 extra.cann 的 torch-npu，或仍带有 extra.{wanted} 的 triton-ascend",
    ).format(wanted=step.name)


CHECK = Check(
    link=LINK,
    title=Text("module rename", "模块改名"),
    question=Text(
        "Which triton.language.extra names does torch-npu use, with which fallback, and does this triton have them?",
        "torch-npu 使用哪些 triton.language.extra 名称、如何回退？此 triton 是否具备？",
    ),
    faults=(NAME_GONE, SILENTLY_UNDEFINED),
    examine=examine,
    requires=("triton_install",),
    pages=Path(__file__).with_suffix(".toml"),
)
