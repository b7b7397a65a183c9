"""A comparison of nodes as one HTML page: groups of equal nodes by links, what differs, and what never reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from flexdoctor.comparison import Comparison, Difference, Group, JobVerdict, Standing
from flexdoctor.findings import Finding, Status
from flexdoctor.hostlists import fold
from flexdoctor.reports.compare_rendering import NOT_THERE, UNUSABLE, headline
from flexdoctor.reports.html_page import (
    MARKS,
    entry,
    fields,
    foot,
    mark,
    mark_of,
    open_and_close,
    reasons,
    render_page,
    section,
    word_of,
)
from flexdoctor.reports.markup import Child, Markup, fragment, tag
from flexdoctor.reports.rendering import Page
from flexdoctor.reports.words import STATUS, WORST
from flexdoctor.text import Language, Text

#: How many groups the grid shows before it folds the rest, so that a job without two equal nodes can be scrolled.
_SHOWN = 200
#: How many differences a row names before it is opened.
_NAMED = 3
_VERDICT: dict[JobVerdict, Status] = {"alike": "pass", "drift": "warn", "faulty": "fail", "unknown": "unknown"}
_STANDING: dict[Standing, Text] = {
    "fault": Text("fault", "故障"),
    "drift": Text("drift", "不一致"),
    "other": Text("differs", "不同"),
}
_ORDER: tuple[Standing, ...] = ("fault", "drift", "other")
_STANDING_MARK: dict[Standing, Status] = {"fault": "fail", "drift": "warn", "other": "skipped"}
_GRID = Text("Nodes by links", "节点与检查链")
_HINT = Text(
    "A row is a group of equal nodes, the largest first. A framed mark is one that the reference does not have.",
    "每行为一组环境相同的节点，数量多的在前。加框的标记表示与参照组不同。",
)
_FILTER = Text("find a node", "查找节点")
_GROUP = Text("group", "组")
_NODES = Text("nodes", "节点数")
_REFERENCE = Text("reference", "参照组")
_MORE_NODES = Text("and {others} more", "等 {total} 个")
_MORE_GROUPS = Text("{count} more groups", "另外 {count} 组")
_DIFFERS = Text("What differs", "差异")
_ONE_BY_ONE = Text("one by one", "逐个列出")
_KEY = Text("what", "项目")
_USUAL = Text("reference", "参照组")
_HERE = Text("here", "此处")
_ELSEWHERE = Text("elsewhere", "其他节点")
_FOUND = Text("found only here", "仅此组有")
_NOT_FOUND = Text("only in the reference", "仅参照组有")
_ALSO_FOUND = Text("found here", "检查结果")
_ENVIRONMENT = Text("environment", "环境")
_ERROR = Text("could not be examined", "未能检查")
_SAME = Text("nothing differs from the reference", "与参照组无差异")
_LOST = Text("Not judged", "未判断的节点")
_MISSING = Text("missing", "缺失")
_MISSING_WHAT = Text("left neither a report nor a trace", "没有报告，也没有启动记录")
_UNFINISHED = Text("did not finish", "未完成")
_UNFINISHED_WHAT = Text("wrote that it starts, and no report", "有启动记录，没有报告")
_UNEXPECTED = Text("not in the list", "不在列表中")
_UNEXPECTED_WHAT = Text("reported, but nobody listed it", "有报告，但列表中没有")
_COUNTED = Text("{count} of them", "共 {count} 个")


def render(comparison: Comparison, page: Page) -> str:
    """Return the comparison as a page."""
    return _Comparison(comparison, page.language).render()


@dataclass
class _Subject:
    """A key that differs somewhere: its usual value, and which other values how many nodes have."""

    key: str
    usual: str | None
    standing: Standing
    codes: dict[str, None] = field(default_factory=dict)
    values: dict[str | None, int] = field(default_factory=dict)


class _Comparison:
    """The parts of the page, in the order in which they stand there."""

    def __init__(self, comparison: Comparison, language: Language) -> None:
        self.comparison, self.language = comparison, language
        self.links = _links(comparison.groups)
        self.reference = comparison.reference
        self.usual = self._cells(self.reference) if self.reference else {}

    def render(self) -> str:
        said = self._say(headline(self.comparison))
        return render_page(
            f"flexdoctor: {said}",
            self.language,
            (
                tag(
                    "header",
                    tag("h1", mark(_VERDICT[self.comparison.verdict]), tag("span", said)),
                    self._notes(),
                ),
                self._grid(),
                self._differences(),
                self._lost(),
                foot(self.language),
            ),
        )

    def _say(self, text: Text) -> str:
        return text.to(self.language)

    def _notes(self) -> Markup | None:
        notes = self.comparison.notes
        return tag("ul", (tag("li", self._say(note)) for note in notes), class_="notes") if notes else None

    def _grid(self) -> Markup:
        groups = self.comparison.groups
        shown, folded = groups[:_SHOWN], groups[_SHOWN:]
        return section(
            self._say(_GRID),
            tag("small", self._say(_HINT)),
            tag("p", map(self._explained, MARKS), class_="legend"),
            tag(
                "div",
                tag("div", self._columns(), class_="columns"),
                map(self._group, shown),
                tag(
                    "details",
                    tag("summary", self._say(_MORE_GROUPS.format(count=len(folded))), class_="more"),
                    map(self._group, folded),
                )
                if folded
                else None,
                class_="grid",
            ),
            tools=(
                tag(
                    "input",
                    type="search",
                    data_filter="nodes",
                    placeholder=self._say(_FILTER),
                    aria_label=self._say(_FILTER),
                    hidden=True,
                ),
                open_and_close(self.language),
            ),
        )

    def _explained(self, status: Status) -> Markup:
        return tag("span", mark(status), word_of(status, self.language))

    def _columns(self) -> Iterator[Markup]:
        yield tag("span", "#", title=self._say(_GROUP))
        yield tag("span", self._say(_NODES), class_="count")
        yield tag("span")
        for number, link in enumerate(self.links, 1):
            yield tag("span", tag("b", str(number)), tag("span", _title(link)), class_="link")

    def _cells(self, group: Group) -> dict[str, Finding]:
        """Return the finding that speaks for each link."""
        speakers: dict[str, Finding] = {}
        for item in group.findings:
            before = speakers.get(item.link)
            if before is None or WORST.index(item.status) < WORST.index(before.status):
                speakers[item.link] = item
        return speakers

    def _group(self, group: Group) -> Markup:
        cells = self._cells(group)
        first = group.nodes[0].name if group.nodes else ""
        return tag(
            "details",
            tag(
                "summary",
                tag("span", mark(self._standing_of(group)), tag("small", str(group.number)), class_="which"),
                tag("span", str(len(group.nodes)), class_="count"),
                tag(
                    "span",
                    tag("b", first),
                    self._others(len(group.nodes)),
                    tag("em", self._say(_REFERENCE)) if group.is_reference else None,
                    tag("small", self._summary(group)),
                    class_="who",
                ),
                (self._cell(link, cells.get(link)) for link in self.links),
            ),
            tag("div", self._body(group), class_="body"),
            class_="group",
        )

    def _others(self, total: int) -> str | None:
        if total < 2:
            return None
        return " " + self._say(_MORE_NODES.format(others=total - 1, total=total))

    def _standing_of(self, group: Group) -> Status:
        """Return the mark of a whole group: what was found there, else how it differs from the reference."""
        if group.has_errors:
            return "fail"
        standings = {item.standing for item in group.differences}
        if standings & {"fault", "drift"}:
            return "warn"
        if standings:
            return "skipped"
        return "unknown" if group.verdict == "unknown" else "pass"

    def _cell(self, link: str, finding: Finding | None) -> Markup:
        """Return a link's mark: quiet where the reference has the same, in full where this group is odd."""
        if finding is None:
            return tag("span", class_="cell")
        usual = self.usual.get(link)
        same = usual is not None and (usual.status, usual.code) == (finding.status, finding.code)
        word = self._say(STATUS["waived" if finding.waiver else finding.status])
        label = " ".join(part for part in (_title(link), word, finding.code) if part)
        if same and finding.status in ("pass", "skipped"):
            return tag("span", "·" if finding.status == "pass" else "-", class_="cell", aria_label=label, title=label)
        return tag("span", mark_of(finding, label), class_="cell same" if same else "cell odd")

    def _summary(self, group: Group) -> Iterator[Child]:
        """Yield in a few words what is odd about a group: what was found only here, then what else differs."""
        if group.error is not None:
            yield f"{self._say(_ERROR)}: {group.error}"
            return
        said = [
            (item.code or "", self._say(item.title))
            for item in (group.findings if group.is_reference else group.only_here)
            if item.status in ("fail", "warn", "crashed", "unknown")
        ]
        for code, title in said[:_NAMED]:
            yield tag("span", tag("b", code, class_="code"), f" {title}" if code else title)
        named = {code for code, _ in said}
        rest = [item for item in group.differences if not named.intersection(item.codes)]
        for item in rest[: max(_NAMED - len(said), 0)]:
            yield tag("span", f"{item.key}: ", tag("code", self._value(item.here)))
        if (hidden := len(said) + len(rest) - _NAMED) > 0:
            yield tag("span", f"+{hidden}")

    def _value(self, value: str | None) -> str:
        return self._say(NOT_THERE) if value is None else value

    def _body(self, group: Group) -> Iterator[Child]:
        yield fields(
            [
                (self._say(_NODES), self._names([node.name for node in group.nodes])),
                (self._say(_ERROR), group.error),
                ("fingerprint", tag("code", group.fingerprint) if group.fingerprint else None),
            ]
        )
        if group.differences:
            yield tag("h3", self._say(_DIFFERS))
            yield self._table(
                (self._say(_KEY), self._say(_USUAL), self._say(_HERE), ""),
                map(self._difference, group.differences),
            )
        noted = [item for item in group.findings if item.status not in ("pass", "skipped")]
        here = noted if group.is_reference else list(group.only_here)
        yield self._findings(_ALSO_FOUND if group.is_reference else _FOUND, here)
        yield self._findings(_NOT_FOUND, group.not_here)
        if group.is_reference:
            yield tag(
                "details",
                tag("summary", tag("h3", self._say(_ENVIRONMENT))),
                self._table(("", ""), self.comparison.environment.items()),
                class_="fold",
            )
        elif not group.differences and not group.only_here and not group.not_here and group.error is None:
            yield tag("p", self._say(_SAME))

    def _names(self, names: Sequence[str]) -> Markup:
        """Return names in the short notation, and one by one where that is another."""
        short = fold(names)
        if len(names) == 1:
            return tag("code", names[0], class_="names")
        every = tag(
            "details",
            tag("summary", self._say(_ONE_BY_ONE)),
            tag("div", " ".join(names), class_="names"),
            class_="fold",
        )
        return fragment(tag("code", short), every)

    def _difference(self, item: Difference) -> tuple[Markup | str | None, ...]:
        return item.key, item.usual, item.here, self._standing(item.standing, item.codes)

    def _standing(self, standing: Standing, codes: Sequence[str]) -> Markup:
        return fragment(
            mark(_STANDING_MARK[standing]),
            " ",
            self._say(_STANDING[standing]),
            (fragment(" ", tag("b", code, class_="code")) for code in codes),
        )

    def _table(self, heads: Sequence[str], rows: Iterable[Sequence[Markup | str | None]]) -> Markup:
        return tag(
            "table",
            tag("thead", tag("tr", (tag("th", head, scope="col") for head in heads))) if any(heads) else None,
            tag("tbody", (self._row(row) for row in rows)),
            class_="values changes" if any(heads) else "values",
        )

    def _row(self, row: Sequence[Markup | str | None]) -> Markup:
        key, *values = row
        return tag(
            "tr",
            tag("th", key, scope="row"),
            (tag("td", value if isinstance(value, Markup) else tag("code", self._value(value))) for value in values),
        )

    def _findings(self, title: Text, findings: Sequence[Finding]) -> Child:
        if not findings:
            return None
        return fragment(tag("h3", self._say(title)), tag("div", map(self._finding, findings), class_="findings"))

    def _finding(self, finding: Finding) -> Markup:
        more = reasons(finding, self.language, (), self._say(finding.remedy))
        return entry(finding, _title(finding.link), self.language, more)

    def _differences(self) -> Markup | None:
        """Return every key that differs anywhere, and how many nodes have which value."""
        subjects = self._subjects()
        if not subjects:
            return None
        at = self.reference
        return section(
            self._say(_DIFFERS),
            self._table(
                (
                    self._say(_KEY),
                    f"{self._say(_USUAL)} ({len(at.nodes)})" if at else self._say(_USUAL),
                    self._say(_ELSEWHERE),
                    "",
                ),
                (
                    (item.key, item.usual, self._values(item), self._standing(item.standing, list(item.codes)))
                    for item in subjects
                ),
            ),
        )

    def _subjects(self) -> list[_Subject]:
        subjects: dict[str, _Subject] = {}
        for group in self.comparison.groups:
            for item in group.differences:
                self._count(subjects, item, len(group.nodes))
        return sorted(
            subjects.values(), key=lambda item: (_ORDER.index(item.standing), -sum(item.values.values()), item.key)
        )

    def _count(self, subjects: dict[str, _Subject], item: Difference, nodes: int) -> None:
        subject = subjects.setdefault(item.key, _Subject(item.key, item.usual, item.standing))
        subject.standing = min(subject.standing, item.standing, key=_ORDER.index)
        subject.codes.update(dict.fromkeys(item.codes))
        subject.values[item.here] = subject.values.get(item.here, 0) + nodes

    def _values(self, subject: _Subject) -> Markup:
        most = sorted(subject.values.items(), key=lambda item: -item[1])
        return tag(
            "ul",
            (tag("li", tag("code", self._value(value)), tag("small", f" × {count}")) for value, count in most),
            class_="proof",
        )

    def _lost(self) -> Markup | None:
        rows = list(self._lost_rows())
        if not rows:
            return None
        return section(
            self._say(_LOST),
            tag("table", tag("tbody", (tag("tr", (tag("td", cell) for cell in row)) for row in rows)), class_="values"),
        )

    def _lost_rows(self) -> Iterator[tuple[Child, ...]]:
        comparison = self.comparison
        if comparison.missing_count:
            count = self._say(_COUNTED.format(count=comparison.missing_count))
            names = self._names(comparison.missing) if comparison.missing else count
            yield self._kind("fail", _MISSING), names, self._say(_MISSING_WHAT)
        for trace in comparison.unfinished:
            who = fragment(tag("b", trace.name), " ", tag("code", trace.path))
            yield self._kind("fail", _UNFINISHED), who, self._say(_UNFINISHED_WHAT)
        for file in comparison.unusable:
            detail = tag("small", file.detail) if file.detail else None
            what = fragment(self._say(UNUSABLE[file.kind]), " ", detail)
            yield mark("unknown" if file.costs_a_node else "skipped"), tag("code", file.path), what
        if comparison.unexpected:
            yield (
                self._kind("warn", _UNEXPECTED),
                self._names(comparison.unexpected),
                self._say(_UNEXPECTED_WHAT),
            )

    def _kind(self, status: Status, name: Text) -> Markup:
        return fragment(mark(status), " ", self._say(name))


def _links(groups: Iterable[Group]) -> list[str]:
    """Return the links that were looked at, in the order of the chain as the reports have it."""
    orders = [list(dict.fromkeys(item.link for item in group.findings)) for group in groups]
    longest = max(orders, key=len, default=[])
    return [*longest, *dict.fromkeys(link for order in orders for link in order if link not in longest)]


def _title(link: str) -> str:
    return link.replace("_", " ")
