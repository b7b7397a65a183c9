"""A plan, its outcome and the journal, for a person and as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flexdoctor.findings import CAPABILITIES, Capability, Report
from flexdoctor.reports.words import CAPABILITY
from flexdoctor.text import NOTHING, Language, Text
from flexdoctor.treatment.plan import answer_of_packages

if TYPE_CHECKING:
    from flexdoctor.facts import Facts
    from flexdoctor.treatment.course import Outcome
    from flexdoctor.treatment.journal import Entry
    from flexdoctor.treatment.plan import Plan, Step

_AVAILABLE = {"yes": Text("yes", "可用"), "no": Text("no", "不可用"), "unknown": Text("not known", "未知")}
_LABEL = {
    "plan": Text("plan", "计划"),
    "why": Text("why", "原因"),
    "manual": Text("by hand", "需手动"),
    "after": Text("after this", "修复之后"),
    "stack": Text("ends in", "目标组合"),
    "others": Text("others", "其他组合"),
    "untouched": Text("not touched", "不会改动"),
    "warning": Text("warning", "警告"),
    "mended": Text("mended", "已修复"),
    "remains": Text("remains", "仍存在"),
    "undo": Text("to undo", "撤销"),
}
NO_MACHINE = Text(
    "this machine has no CANN or no device, so nothing runs here; the packages alone were judged",
    "本机没有 CANN 或昇腾设备，无法运行；仅判断了软件包本身",
)
_STATE = {
    "preparing": Text("cut off before anything was changed", "中断，尚未做任何更改"),
    "interrupted": Text("CUT OFF: complete it (fix --continue) or undo it", "已中断：请继续（fix --continue）或撤销"),
    "done": Text("applied and verified", "已执行并验证"),
}


@dataclass(frozen=True)
class Line:
    """One thing that is said. What a person will copy is never wrapped."""

    text: str
    label: str = ""
    indent: int = 0
    copy: bool = False


_COLUMN = 12


def render(lines: Iterable[Line], width: int | None = None) -> str:
    """Return lines as text; `width` is that of a terminal, None elsewhere: then nothing is wrapped."""
    return "".join(f"{row.rstrip()}\n" for line in lines for row in _rows(line, width))


def _rows(line: Line, width: int | None) -> Iterator[str]:
    from rich.cells import cell_len  # noqa: PLC0415 - only a treatment comes here

    head = " " * line.indent + line.label
    column = _COLUMN if line.label and not line.indent else line.indent
    head += " " * max(column - cell_len(head), 2 if line.label else 0)
    if width is None or line.copy or cell_len(head + line.text) <= width:
        yield head + line.text
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text as RichText  # noqa: PLC0415

    wrapped = RichText(line.text).wrap(Console(width=width), max(width - cell_len(head), 30))
    for number, row in enumerate(wrapped):
        yield (" " * cell_len(head) if number else head) + row.plain


def plan_lines(plan: Plan, language: Language) -> Iterator[Line]:
    """Yield the plan, one thing a line."""
    if plan.steps:
        yield Line(_headline(plan).to(language), _LABEL["plan"].to(language))
        for number, step in enumerate(plan.steps, 1):
            yield from _step(number, step, language)
    elif not plan.manual and not plan.hopeless.en:
        yield Line(Text("nothing to mend", "无需修复").to(language))
    else:
        yield Line(Text("there is no step that a tool may take", "没有可由工具执行的步骤").to(language))
    if plan.hopeless.en:
        yield Line(plan.hopeless.to(language), _LABEL["why"].to(language))
    for step in plan.manual:
        codes = f"  [{' '.join(step.opens)}]" if step.opens else ""
        yield Line(f"{step.title.to(language)}{codes}", _LABEL["manual"].to(language))
        if step.command.en:
            yield Line(step.command.to(language), indent=_COLUMN)
    if plan.steps:
        yield from _afterwards(plan, language)


def _afterwards(plan: Plan, language: Language) -> Iterator[Line]:
    there = Text(" (on a machine with CANN and a device)", "（在有 CANN 与设备的机器上）").to(language)
    yield Line(_capabilities(plan.expected, language) + (there if plan.elsewhere else ""), _LABEL["after"].to(language))
    if plan.stack:
        note = f": {plan.stack_note}" if plan.stack_note else ""
        owner = Text(" of {owner}", "（{owner} 提供）").format(owner=plan.stack_owner) if plan.stack_owner else NOTHING
        yield Line(
            f"{plan.stack}{owner.to(language)} (CANN {', '.join(plan.stack_cann)}){note}", _LABEL["stack"].to(language)
        )
    if plan.alternatives:
        hint = Text(" (take one with --stack NAME)", "（用 --stack NAME 选择）").to(language)
        yield Line(", ".join(plan.alternatives) + hint, _LABEL["others"].to(language))
    yield Line(
        Text(
            "{count} other packages; what the new ones need and is missing is added, nothing else moves",
            "其余 {count} 个软件包；仅补装新装软件包所缺的依赖，其他一律不动",
        )
        .format(count=plan.untouched)
        .to(language),
        _LABEL["untouched"].to(language),
    )
    for warning in plan.warnings:
        yield Line(warning.to(language), _LABEL["warning"].to(language))


def _headline(plan: Plan) -> Text:
    if len(plan.steps) == 1:
        return Text("1 step, reversible", "1 步，可撤销")
    return Text("{count} steps, reversible", "{count} 步，可撤销").format(count=len(plan.steps))


def _step(number: int, step: Step, language: Language) -> Iterator[Line]:
    codes = f"  [{' '.join(step.opens)}]" if step.opens else ""
    yield Line(f"{step.title.to(language)}{codes}", str(number), indent=2)
    if step.command.en:
        yield Line(f"$ {step.command.to(language)}", indent=5, copy=True)
    if step.touches.en:
        yield Line(Text("touches ", "涉及 ").to(language) + step.touches.to(language), indent=5)
    if step.note.en:
        yield Line(step.note.to(language), indent=5)
    if step.patch:
        yield from (Line(row, indent=5, copy=True) for row in step.patch.diff.splitlines())


def _capabilities(answers: dict[Capability, Any], language: Language) -> str:
    return " · ".join(
        f"{CAPABILITY[name].to(language)} {_AVAILABLE[answers[name]].to(language)}"
        for name in CAPABILITIES
        if name in answers
    )


def outcome_lines(outcome: Outcome, language: Language) -> Iterator[Line]:
    """Yield how a treatment ended: before and after."""
    if outcome.rolled_back:
        yield Line(
            Text("the fix made nothing better, so everything was put back:", "修复未见效，已全部还原：").to(language)
        )
        yield from (Line(problem.to(language), indent=2) for problem in outcome.problems)
        return
    colon = "：" if language == "zh" else ": "
    pins = ", ".join(f"{name} {version}" for name, version in outcome.installed)
    yield Line(Text("applied and verified", "已执行并验证").to(language) + (f"{colon}{pins}" if pins else ""))
    if outcome.opened:
        yield Line(" ".join(outcome.opened), _LABEL["mended"].to(language))
    for name in CAPABILITIES:
        before, after = (answer_of_packages(report, name) for report in (outcome.before, outcome.after))
        yield Line(
            f"{CAPABILITY[name].to(language)}{colon}{_answer(before.available, before.because, language)}"
            f" → {_answer(after.available, after.because, language)}",
            indent=_COLUMN,
        )
    if any(item.machine_only for item in outcome.after.findings):
        yield Line(NO_MACHINE.to(language), indent=_COLUMN)
    for item in outcome.after.findings:
        if item.status == "fail" and item.waiver is None:
            yield Line(f"{item.title.to(language)}  [{item.code}]", _LABEL["remains"].to(language))
            if item.remedy.en:
                yield Line(item.remedy.to(language), indent=_COLUMN)
    yield Line(f"flexdoctor undo {outcome.entry_id}", _LABEL["undo"].to(language), copy=True)


def _answer(available: str, because: str | None, language: Language) -> str:
    return _AVAILABLE[available].to(language) + (f" ({because})" if because else "")


def journal_lines(entries: Sequence[Entry], language: Language) -> Iterator[Line]:
    """Yield the journal of an environment, newest last."""
    if not entries:
        yield Line(Text("no fix to undo here", "此处没有可撤销的修复").to(language))
    for entry in entries:
        yield Line(f"{entry.id}  {_STATE[entry.state].to(language)}", copy=True)
        yield from (Line(step.title.to(language), indent=4) for step in entry.plan().steps)


def undone_lines(entry: Entry, problems: Sequence[str], language: Language) -> Iterator[Line]:
    """Yield what an undo did."""
    if not problems:
        yield Line(Text("undone: {id}", "已撤销 {id}").format(id=entry.id).to(language))
        return
    yield Line(Text("{id}: these could not be put back:", "{id}：以下路径未能还原：").format(id=entry.id).to(language))
    yield from (Line(problem, indent=2, copy=True) for problem in problems)


def plan_document(plan: Plan, language: Language) -> list[dict[str, Any]]:
    """Return the plan as data: one object a remedy, in order, and what is left to a person last."""
    groups: dict[str, list[Step]] = {}
    for step in (*plan.steps, *plan.manual):
        groups.setdefault(step.fix, []).append(step)
    return [
        {
            "fix": name,
            "title": "; ".join(step.title.to(language) for step in steps),
            "reversible": all(step.reversible for step in steps),
            "steps": [_step_document(step, plan, language) for step in steps],
        }
        for name, steps in groups.items()
    ]


def _step_document(step: Step, plan: Plan, language: Language) -> dict[str, Any]:
    return {
        "order": plan.steps.index(step) + 1 if step in plan.steps else None,
        "kind": step.kind,
        "title": step.title.to(language),
        "opens": list(step.opens),
        "distribution": step.distribution or None,
        "version": step.version or None,
        "before": step.before or None,
        "index": step.index or None,
        "path": step.path or None,
        "command": step.command.to(language) or None,
        "touches": step.touches.to(language) or None,
        "note": step.note.to(language) or None,
        "diff": step.patch.diff if step.patch else None,
        "reversible": step.reversible,
    }


def treatment_document(plan: Plan, outcome: Outcome | None, language: Language) -> dict[str, Any]:
    """Return what a treatment adds to the report."""
    return {
        "applied": outcome is not None and not outcome.rolled_back,
        "rolled_back": outcome is not None and outcome.rolled_back,
        "entry": outcome.entry_id if outcome and not outcome.rolled_back else None,
        "expected": dict(plan.expected) or None,
        "stack": plan.stack,
        "alternatives": list(plan.alternatives),
        "hopeless": plan.hopeless.to(language) or None,
        "warnings": [item.to(language) for item in plan.warnings],
        "problems": [item.to(language) for item in outcome.problems] if outcome else [],
        "before": _summary(outcome.before) if outcome else None,
    }


def _summary(report: Report) -> dict[str, Any]:
    return {
        "verdict": report.verdict,
        "root_cause": report.root_cause.code if report.root_cause else None,
        "capabilities": {
            name: {"available": answer.available, "because": answer.because}
            for name, answer in report.capabilities.items()
        },
    }


def head_line(facts: Facts, language: Language) -> Line:
    """Return the line that says which environment is treated."""
    interpreter = facts.interpreter
    about = ", ".join(part for part in (f"Python {interpreter.version}", interpreter.architecture) if part)
    return Line(
        Text("treating {target} ({about})", "修复对象 {target}（{about}）")
        .format(target=facts.target.description, about=about)
        .to(language),
        copy=True,
    )
