"""What `flexdoctor list` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flexdoctor.chain import Check
from flexdoctor.knowledge.stacks import Stack, fitting, historic, stacks
from flexdoctor.reports.explanations import title_of
from flexdoctor.text import Language, Text


def list_checks(chain: Sequence[Check], language: Language) -> str:
    """Return the links in order, each with the question it asks and the codes it can name."""
    lines = []
    for number, check in enumerate(chain, 1):
        lines.append(f"{number:>2}  {check.link}: {check.question.to(language)}")
        lines += [f"    {fault.code}  {title_of(fault, language)}" for fault in check.faults]
    return "\n".join(lines) + "\n"


def list_stacks(python: str | None, architecture: str | None, cann: str | None, language: Language) -> str:
    """Return the sets that fit, best first, with what they give, what they need and how that is known."""
    fits = fitting(python, architecture, cann)
    lines = [line for stack in fits for line in (*_stack(stack, language), "")]
    useful = [stack for stack in fits if stack.capabilities]
    if not useful:
        lines += _nothing(python, architecture, cann, language)
    for pin in historic():
        if any(stack.name == pin.today for stack in fits):
            text = Text("«{said}» is today {today}: {note}", "“{said}”如今对应 {today}：{note}")
            lines.append(text.format(said=pin.said, today=pin.today, note=pin.note).to(language))
    return "\n".join(lines).rstrip("\n") + "\n"


def _stack(stack: Stack, language: Language) -> Iterator[str]:
    gives = " · ".join(stack.capabilities) or Text("no flex_attention", "不支持 flex_attention").to(language)
    pins = "  ".join(f"{name}=={stack.pin(name)}" for name in stack.order)
    yield f"{stack.label}: {gives}"
    yield f"  {pins}"
    yield (f"  CANN {', '.join(stack.cann)} · Python {', '.join(stack.pythons)} · {', '.join(stack.architectures)}")
    for distribution, url in stack.indexes.items():
        yield (
            Text("  index for {name}: {url}", "  {name} 的软件源：{url}")
            .format(name=distribution, url=url)
            .to(language)
        )
    if stack.early_import:
        yield Text(
            "  needs `import torch_npu._inductor` before the first call",
            "  首次调用前需要 `import torch_npu._inductor`",
        ).to(language)
    if stack.note:
        yield f"  {stack.note}"
    yield f"  {stack.evidence}, {stack.date}: {stack.source}"


def _nothing(python: str | None, architecture: str | None, cann: str | None, language: Language) -> Iterator[str]:
    asked = ", ".join(
        f"{name} {value}" for name, value in (("Python", python), ("", architecture), ("CANN", cann)) if value
    )
    yield (
        Text("no known set gives flex_attention for {asked}", "没有已知组合能在 {asked} 上运行 flex_attention")
        .format(asked=asked.strip())
        .to(language)
    )
    lines = sorted({version for stack in stacks() if stack.capabilities for version in stack.cann})
    yield (
        Text("CANN versions that have one: {lines}", "已有可用组合的 CANN 版本：{lines}")
        .format(lines=", ".join(lines))
        .to(language)
    )
