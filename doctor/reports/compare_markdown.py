"""The comparison in Markdown, for a support thread or a step summary."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flexdoctor import __version__
from flexdoctor.comparison import Comparison, Group
from flexdoctor.reports.compare_rendering import (
    SAME_ENVIRONMENT,
    VERDICT,
    headline,
    names,
    node_names,
    tie,
    unusable_line,
    value,
    why,
)
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Language, Text

_MOST_GROUPS = 20


def render(comparison: Comparison, page: Page) -> str:
    """Return the headline, one table of the groups, and what sets each of them apart."""
    return "\n".join(_lines(comparison, page)).rstrip("\n") + "\n"


def _lines(comparison: Comparison, page: Page) -> Iterator[str]:
    language = page.language
    yield f"### {_cell(headline(comparison).to(language))}"
    yield ""
    columns = Text("| group | nodes | verdict | what |", "| 组 | 节点数 | 结论 | 说明 |").to(language)
    if comparison.groups:
        yield columns
        yield "|---|---|---|---|"
    shown = comparison.groups if page.detail == "verbose" else comparison.groups[:_MOST_GROUPS]
    for group in shown:
        verdict = VERDICT[group.verdict].to(language)
        yield f"| {group.number} | {len(group.nodes)} | {verdict} | {_cell(why(group).to(language))} |"
    if rest := len(comparison.groups) - len(shown):
        yield Text("| | | | {n} more groups |", "| | | | 另有 {n} 组 |").format(n=rest).to(language)
    for group in shown:
        yield from _group(group, language)
    yield from _lost(comparison, language)
    yield ""
    yield f"<sub>flexdoctor {__version__}</sub>"


def _group(group: Group, language: Language) -> Iterator[str]:
    yield ""
    title = Text("Group {n}: {nodes}", "第 {n} 组：{nodes}").format(n=group.number, nodes=_cell(node_names(group)))
    yield f"**{title.to(language)}**"
    for finding in group.noteworthy:
        yield ""
        yield f"- **{finding.code or finding.link}** {_cell(finding.title.to(language))}"
        for proof in finding.evidence[:3]:
            place = f"{proof.path}:{proof.line}" if proof.path and proof.line else proof.path or ""
            yield f"  - {_code(f'{place} {proof.text}'.strip())}"
        if finding.remedy.en:
            yield "  - " + Text("fix: ", "修复：").to(language) + _cell(finding.remedy.to(language))
    if group.differences:
        yield ""
        yield Text("| what | reference | here | |", "| 项目 | 参照组 | 此组 | |").to(language)
        yield "|---|---|---|---|"
        for item in group.differences:
            usual, here = (
                _code(given) if given is not None else value(item, None, language) for given in (item.usual, item.here)
            )
            yield f"| {_cell(item.key)} | {usual} | {here} | {_cell(tie(item, group, language))} |"
    elif not group.is_reference and group.fingerprint is not None:
        yield ""
        yield SAME_ENVIRONMENT.to(language)


def _lost(comparison: Comparison, language: Language) -> Iterator[str]:
    if comparison.missing_count:
        yield ""
        hosts = names(list(comparison.missing), everything=True) or "?"
        yield (
            Text("**Missing ({n})**: {hosts}", "**缺失（{n}）**：{hosts}")
            .format(n=comparison.missing_count, hosts=_cell(hosts))
            .to(language)
        )
    if comparison.unfinished:
        yield ""
        hosts = names([item.name for item in comparison.unfinished], everything=True)
        yield (
            Text("**Started, never finished**: {hosts}", "**已启动但未完成**：{hosts}")
            .format(hosts=_cell(hosts))
            .to(language)
        )
    if comparison.unexpected:
        yield ""
        hosts = names(list(comparison.unexpected), everything=True)
        yield Text("**Not expected**: {hosts}", "**不在名单中**：{hosts}").format(hosts=_cell(hosts)).to(language)
    for unusable in comparison.unusable:
        yield ""
        yield f"- {_cell(unusable_line(unusable, language))}"
    for note in comparison.notes:
        yield ""
        yield f"> {_cell(note.to(language))}"


def _cell(text: str) -> str:
    """Return text that neither ends a cell nor is taken for markup."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall(r"`+", flat)), default=0) + 1)
    pad = " " if "`" in flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"
