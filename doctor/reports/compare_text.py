"""The comparison for a person: the answer, the groups in a table, what sets each apart with its proof, who is missing.

On a terminal it is laid out and coloured with rich. In a pipe there is one fact a line, nothing is wrapped, and rich
is not even imported.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from flexdoctor import __version__
from flexdoctor.comparison import Comparison, Difference, Group
from flexdoctor.findings import Evidence, Finding
from flexdoctor.knowledge import newest_date
from flexdoctor.reports.compare_rendering import (
    REFERENCE,
    SAME_ENVIRONMENT,
    VERDICT,
    change,
    count_nodes,
    headline,
    in_brackets,
    names,
    node_names,
    tie,
    unusable_line,
    why,
)
from flexdoctor.reports.rendering import Page
from flexdoctor.reports.sentences import state_of
from flexdoctor.text import Language, Text

#: Groups that are shown one by one unless asked for all.
_MOST_GROUPS = 10
_MOST_OTHER = 8
_PROOF = 3
_UNNAMED = Text("which ones is not known", "无法得知是哪些")
_STYLE = {"healthy": "green", "broken": "bold red", "unknown": "magenta", "waived": "yellow"}
_LABEL = {
    "nodes": Text("nodes", "节点"),
    "found": Text("found", "检查结果"),
    "only here": Text("only here", "仅在此组"),
    "not here": Text("not here", "此组没有"),
    "proof": Text("proof", "证据"),
    "fix": Text("fix", "修复"),
    "more": Text("more", "详情"),
    "differs": Text("differs", "差异"),
    "missing": Text("missing", "缺失"),
    "never finished": Text("never finished", "未完成"),
    "not expected": Text("not expected", "不在名单中"),
    "no report": Text("no report", "无效文件"),
    "note": Text("note", "注意"),
    "error": Text("error", "错误"),
}


def render(comparison: Comparison, page: Page) -> str:
    """Return the comparison for a terminal or for a pipe."""
    if page.detail == "quiet":
        return headline(comparison).to(page.language) + "\n"
    if page.terminal:
        return _Terminal(comparison, page).render()
    return "".join(f"{line}\n" for line in _plain(comparison, page))


def _head(comparison: Comparison, language: Language) -> str:
    expected = ""
    if comparison.expected:
        expected = (
            Text(" of {expected} (by {by})", "，应有 {expected} 个（依据 {by}）")
            .format(expected=comparison.expected, by=comparison.expected_by or "?")
            .to(language)
        )
    return (
        Text(
            "flexdoctor {version} · knowledge of {date} · {nodes}",
            "flexdoctor {version} · 知识库 {date} · {count} 个节点",
        )
        .format(
            version=__version__,
            date=newest_date(),
            count=comparison.node_count,
            nodes=count_nodes(comparison.node_count),
        )
        .to(language)
        + expected
    )


def _shown_groups(comparison: Comparison, page: Page) -> tuple[Group, ...]:
    return comparison.groups if page.detail == "verbose" else comparison.groups[:_MOST_GROUPS]


def _more_groups(hidden: int, language: Language) -> str:
    return Text("{n} more groups with -v", "另有 {n} 组，见 -v").format(n=hidden).to(language)


def _shown_differences(group: Group, page: Page) -> tuple[list[Difference], int]:
    """Return what is worth a line, and how many of the rest are not shown."""
    if page.detail == "verbose":
        return list(group.differences), 0
    matter = [item for item in group.differences if item.standing != "other"]
    rest = [item for item in group.differences if item.standing == "other"]
    return matter + rest[:_MOST_OTHER], max(len(rest) - _MOST_OTHER, 0)


def _evidence(item: Evidence) -> str:
    place = f"{item.path}:{item.line}" if item.path and item.line else item.path or ""
    return ": ".join(part for part in (place, item.text) if part)


def _since(started: float | None) -> str:
    if started is None:
        return ""
    try:
        moment = datetime.datetime.fromtimestamp(started, tz=datetime.timezone.utc)
    except (OverflowError, OSError, ValueError):
        return ""
    return f" ({moment:%Y-%m-%d %H:%M:%S}Z)"


def _plain(comparison: Comparison, page: Page) -> Iterator[str]:
    language = page.language
    yield _head(comparison, language)
    yield headline(comparison).to(language)
    for group in comparison.groups:
        yield from _plain_group(group, page)
    yield from _plain_rest(comparison, language)


def _plain_group(group: Group, page: Page) -> Iterator[str]:
    language = page.language
    mark = " reference" if group.is_reference else ""
    colon = "：" if language == "zh" else ": "
    label = f"GROUP {group.number}{mark} {group.verdict} {len(group.nodes)}"
    said = why(group)
    told = "" if said is REFERENCE else f"{colon}{said.to(language)}"
    yield f"{label} {node_names(group, everything=page.detail == 'verbose')}{told}"
    for finding in group.noteworthy:
        fix = finding.remedy.to(language)
        line = f"{state_of(finding).upper()} group {group.number} {finding.code or '-'} {finding.link}"
        line += f" {finding.title.to(language)}"
        yield line + (f" {_LABEL['fix'].to(language)}{colon}{fix}" if fix else "")
    for finding in group.not_here:
        code = finding.code or "-"
        yield f"WITHOUT group {group.number} {code} {finding.link} {finding.title.to(language)}"
    shown, hidden = _shown_differences(group, page)
    for item in shown:
        told = in_brackets(tie(item, group, language), language)
        yield f"DIFFERS group {group.number} {change(item, language)}{told}"
    if hidden:
        yield f"DIFFERS group {group.number} " + Text("{n} more with -v", "另有 {n} 处，见 -v").format(n=hidden).to(
            language
        )


def _plain_rest(comparison: Comparison, language: Language) -> Iterator[str]:
    for host in comparison.missing:
        yield f"MISSING {host}"
    if comparison.missing_count > len(comparison.missing):
        unnamed = in_brackets(_UNNAMED.to(language), language)
        yield f"MISSING {comparison.missing_count - len(comparison.missing)}{unnamed}"
    for unfinished in comparison.unfinished:
        yield f"UNFINISHED {unfinished.name}{_since(unfinished.started)}"
    for host in comparison.unexpected:
        yield f"UNEXPECTED {host}"
    for unusable in comparison.unusable:
        yield f"UNUSABLE {unusable_line(unusable, language)}"
    for note in comparison.notes:
        yield f"NOTE {note.to(language)}"


class _Terminal:
    """The laid-out form."""

    def __init__(self, comparison: Comparison, page: Page) -> None:
        from flexdoctor.reports.sheet import Sheet  # noqa: PLC0415 - only a terminal needs it

        self.comparison, self.page, self.language = comparison, page, page.language
        self.sheet = Sheet(page.width, colour=page.colour)

    def render(self) -> str:
        comparison = self.comparison
        self.sheet.prose(_head(comparison, self.language), style="dim")
        self.sheet.blank()
        style = {"alike": "bold green", "faulty": "bold red"}.get(comparison.verdict, "bold")
        self.sheet.prose(headline(comparison).to(self.language), style=style)
        shown = _shown_groups(comparison, self.page)
        if len(comparison.groups) > 1 or comparison.node_count > 1:
            self.sheet.blank()
            self._table(shown)
        for group in shown:
            if group.noteworthy or group.differences or group.not_here or group.error or len(group.nodes) > 1:
                self.sheet.blank()
                self._group(group)
        self._rest()
        return self.sheet.text()

    def _table(self, shown: tuple[Group, ...]) -> None:
        from flexdoctor.reports.wrapping import cells  # noqa: PLC0415

        heads = [
            Text("group", "组"),
            Text("nodes", "节点数"),
            Text("verdict", "结论"),
            Text("what", "说明"),
        ]
        rows = [
            (f"{group.number}", f"{len(group.nodes):,}", VERDICT[group.verdict].to(self.language), why(group))
            for group in shown
        ]
        titles = [head.to(self.language) for head in heads]
        widths = [max(cells(titles[i]), *(cells(str(row[i])) for row in rows)) for i in range(3)]
        line = "  ".join(_pad(titles[i], widths[i], right=i < 2) for i in range(3))
        self.sheet.line((f"  {line}  {titles[3]}", "dim"))
        for group, row in zip(shown, rows, strict=True):
            self.sheet.line(
                (f"  {_pad(row[0], widths[0], right=True)}  {_pad(row[1], widths[1], right=True)}  ", ""),
                (f"{_pad(row[2], widths[2])}  ", _STYLE[group.verdict]),
                (row[3].to(self.language), ""),
                cut=True,
            )
        if hidden := len(self.comparison.groups) - len(shown):
            self.sheet.line((f"  {_more_groups(hidden, self.language)}", "dim"))

    def _group(self, group: Group) -> None:
        everything = self.page.detail == "verbose"
        title = Text("group {n}", "第 {n} 组").format(n=group.number).to(self.language)
        self._labelled(title, node_names(group, everything=everything), indent=0, label_style=_STYLE[group.verdict])
        if group.error:
            self._labelled("error", group.error)
        for finding in group.noteworthy:
            self._finding(finding, "found" if group.is_reference else "only here")
        for number, finding in enumerate(group.not_here):
            text = f"{finding.code or finding.link}  {finding.title.to(self.language)}"
            self._labelled("not here" if not number else "", text)
        self._differences(group)

    def _finding(self, finding: Finding, label: str) -> None:
        style = "bold red" if finding.severity == "error" else "yellow"
        self._labelled(label, f"{finding.code or finding.link}  {finding.title.to(self.language)}", style=style)
        shown = finding.evidence if self.page.detail == "verbose" else finding.evidence[:_PROOF]
        for number, item in enumerate(shown):
            self._labelled("proof" if not number else "", _evidence(item), copy=True)
        if fix := finding.remedy.to(self.language):
            self._labelled("fix", fix)
        if finding.code and finding.severity == "error":
            self._labelled("more", f"flexdoctor explain {finding.code}", copy=True)

    def _differences(self, group: Group) -> None:
        if not group.differences:
            if not group.is_reference and group.fingerprint is not None:
                self._labelled("differs", SAME_ENVIRONMENT.to(self.language))
            return
        shown, hidden = _shown_differences(group, self.page)
        previous = ""
        for number, item in enumerate(shown):
            told = tie(item, group, self.language)
            self._labelled("differs" if not number else "", change(item, self.language))
            following = tie(shown[number + 1], group, self.language) if number + 1 < len(shown) else ""
            # One remark for all the lines above it that it is true of.
            if told != following:
                self._labelled("", f" {in_brackets(told, self.language)}", style="dim")
            previous = told
        if hidden:
            more = Text("{n} more with -v ({told})", "另有 {n} 处，见 -v（{told}）")
            self._labelled("", more.format(n=hidden, told=previous).to(self.language), style="dim")

    def _rest(self) -> None:
        comparison = self.comparison
        everything = self.page.detail == "verbose"
        rows: list[tuple[str, list[str]]] = []
        if comparison.missing_count:
            hosts = names(list(comparison.missing), everything=everything)
            unnamed = _UNNAMED.to(self.language)
            rows.append(("missing", [f"{comparison.missing_count}: {hosts or unnamed}"]))
        if comparison.unfinished:
            rows.append(("never finished", [f"{item.name}{_since(item.started)}" for item in comparison.unfinished]))
        if comparison.unexpected:
            rows.append(("not expected", [names(list(comparison.unexpected), everything=everything)]))
        if comparison.unusable:
            rows.append(("no report", [unusable_line(item, self.language) for item in comparison.unusable]))
        if comparison.notes:
            rows.append(("note", [note.to(self.language) for note in comparison.notes]))
        if rows:
            self.sheet.blank()
        for label, lines in rows:
            limit = len(lines) if everything else 10
            for number, line in enumerate(lines[:limit]):
                self._labelled(label if not number else "", line, indent=0, column=16)
            if len(lines) > limit:
                more = Text("{n} more with -v", "另有 {n} 条，见 -v").format(n=len(lines) - limit)
                self._labelled("", more.to(self.language), indent=0, column=16)

    def _labelled(
        self,
        label: str,
        text: str,
        *,
        copy: bool = False,
        style: str = "",
        label_style: str = "dim",
        indent: int = 2,
        column: int = 13,
    ) -> None:
        shown = _LABEL[label].to(self.language) if label in _LABEL else label
        self.sheet.labelled(shown, text, column=column, indent=indent, label_style=label_style, style=style, copy=copy)


def _pad(text: str, width: int, *, right: bool = False) -> str:
    from flexdoctor.reports.wrapping import cells  # noqa: PLC0415

    blank = " " * max(width - cells(text), 0)
    return blank + text if right else text + blank
