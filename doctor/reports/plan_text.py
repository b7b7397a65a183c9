"""A plan, its outcome and the journal, for a person and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flexdoctor.findings import CAPABILITIES, Capability, Report
from flexdoctor.text import Language, Text

if TYPE_CHECKING:
    from flexdoctor.facts import Facts
    from flexdoctor.treatment.course import Outcome
    from flexdoctor.treatment.journal import Entry
    from flexdoctor.treatment.plan import Plan, Step

_CAPABILITY = {
    "eager": Text("eager", "eager"),
    "compiled_forward": Text("compiled forward", "编译前向"),
    "compiled_backward": Text("compiled backward", "编译反向"),
    "compiled_captured": Text("captured tensors", "索引外部张量"),
}
_AVAILABLE = {"yes": Text("yes", "可用"), "no": Text("no", "不可用"), "unknown": Text("not known", "未知")}
_STATE = {
    "preparing": Text("cut off before anything was changed", "中断，尚未做任何更改"),
    "interrupted": Text("CUT OFF: complete it (fix --continue) or undo it", "已中断：请继续（fix --continue）或撤销"),
    "done": Text("applied and verified", "已应用并验证"),
}


def plan_lines(plan: Plan, language: Language) -> Iterator[str]:
    """Yield the plan, one thing a line; commands and paths are never wrapped."""
    if plan.steps:
        yield _headline(plan).to(language)
        for number, step in enumerate(plan.steps, 1):
            yield from _step(number, step, language)
    elif not plan.manual and not plan.hopeless.en:
        yield Text("nothing to mend", "无需修复").to(language)
        return
    else:
        yield Text("no step that a tool may take", "没有可由工具执行的步骤").to(language)
    if plan.hopeless.en:
        yield f"{Text('why', '原因').to(language)}  {plan.hopeless.to(language)}"
    for step in plan.manual:
        codes = f"  {' '.join(step.opens)}" if step.opens else ""
        yield f"{Text('by hand', '需手工').to(language)}  {step.title.to(language)}{codes}"
        if step.command.en:
            yield f"         {step.command.to(language)}"
    if plan.steps:
        yield from _afterwards(plan, language)


def _afterwards(plan: Plan, language: Language) -> Iterator[str]:
    yield f"{Text('after this', '修复之后').to(language)}  {_capabilities(plan.expected, language)}"
    if plan.stack:
        note = f" ({plan.stack_note})" if plan.stack_note else ""
        yield f"{Text('ends in', '目标组合').to(language)}  {plan.stack}{note}"
    if plan.alternatives:
        yield (
            f"{Text('others', '其他组合').to(language)}  {', '.join(plan.alternatives)}"
            f"  {Text('(choose with --stack NAME)', '（用 --stack NAME 选择）').to(language)}"
        )
    yield (
        Text(
            "not touched  {count} other packages; missing dependencies of what is installed are added, nothing else moves",
            "不会改动  其余 {count} 个包；仅补装所缺依赖，其他一律不动",
        )
        .format(count=plan.untouched)
        .to(language)
    )
    for warning in plan.warnings:
        yield f"{Text('warning', '警告').to(language)}  {warning.to(language)}"


def _headline(plan: Plan) -> Text:
    steps = Text("plan  1 step, reversible", "计划  1 步，可撤销")
    if len(plan.steps) > 1:
        steps = Text("plan  {count} steps, reversible", "计划  {count} 步，可撤销").format(count=len(plan.steps))
    return steps


def _step(number: int, step: Step, language: Language) -> Iterator[str]:
    codes = f"  [{' '.join(step.opens)}]" if step.opens else ""
    yield f"  {number}  {step.title.to(language)}{codes}"
    if step.command.en:
        yield f"     $ {step.command.to(language)}"
    if step.touches.en:
        yield f"     {Text('touches', '涉及').to(language)} {step.touches.to(language)}"
    if step.note.en:
        yield f"     {step.note.to(language)}"
    if step.patch:
        yield from (f"     {line}" for line in step.patch.diff.splitlines())


def _capabilities(answers: dict[Capability, Any], language: Language) -> str:
    return " · ".join(
        f"{_CAPABILITY[name].to(language)} {_AVAILABLE[answers[name]].to(language)}"
        for name in CAPABILITIES
        if name in answers
    )


def outcome_lines(outcome: Outcome, language: Language) -> Iterator[str]:
    """Yield how a treatment ended: before and after."""
    if outcome.rolled_back:
        yield Text("the fix made nothing better, so everything was put back:", "修复未见效，已全部还原：").to(language)
        for problem in outcome.problems:
            yield f"  {problem.to(language)}"
        return
    yield Text("applied and verified", "已应用并验证").to(language)
    for name, version in outcome.installed:
        yield f"  {name} {version}"
    for name in CAPABILITIES:
        before, after = outcome.before.capabilities[name], outcome.after.capabilities[name]
        yield (
            f"  {_CAPABILITY[name].to(language)}: {_answer(before.available, before.because, language)}"
            f" → {_answer(after.available, after.because, language)}"
        )
    remaining = [item for item in outcome.after.findings if item.status == "fail"]
    for item in remaining:
        yield f"{Text('remains', '仍存在').to(language)}  {item.code}  {item.title.to(language)}"
        if item.remedy.en:
            yield f"         {item.remedy.to(language)}"
    yield (
        Text("take it back: flexdoctor undo {id}", "撤销：flexdoctor undo {id}")
        .format(id=outcome.entry_id)
        .to(language)
    )


def _answer(available: str, because: str | None, language: Language) -> str:
    return _AVAILABLE[available].to(language) + (f" ({because})" if because else "")


def journal_lines(entries: Sequence[Entry], language: Language) -> Iterator[str]:
    """Yield the journal of an environment, newest last."""
    if not entries:
        yield Text("no fix to undo here", "此处没有可撤销的修复").to(language)
    for entry in entries:
        titles = [step.title.to(language) for step in entry.plan().steps]
        yield f"{entry.id}  {_STATE[entry.state].to(language)}  {'; '.join(titles)}"


def undone_lines(entry: Entry, problems: Sequence[str], language: Language) -> Iterator[str]:
    """Yield what an undo did."""
    if not problems:
        yield (
            Text("undone: {id}; everything is as it was before it", "已撤销 {id}，一切恢复原状")
            .format(id=entry.id)
            .to(language)
        )
        return
    yield Text("{id}: these could not be put back:", "{id}：以下路径未能还原：").format(id=entry.id).to(language)
    yield from (f"  {problem}" for problem in problems)


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


def head_line(facts: Facts, language: Language) -> str:
    """Return the line that says which environment is treated."""
    interpreter = facts.interpreter
    about = ", ".join(part for part in (f"Python {interpreter.version}", interpreter.architecture) if part)
    return (
        Text("treating {target} ({about})", "修复对象 {target}（{about}）")
        .format(target=facts.target.description, about=about)
        .to(language)
    )
