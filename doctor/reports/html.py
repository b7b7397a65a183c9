"""The report as one HTML page: the answer, the chain as a strip, what to do, and every finding with its proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flexdoctor import __version__
from flexdoctor.findings import CAPABILITIES, Capability, Finding, Status, Verdict
from flexdoctor.knowledge import newest_date
from flexdoctor.reports.html_page import (
    anchor,
    code_link,
    commands,
    fields,
    mark,
    open_and_close,
    proof,
    render_page,
    section,
)
from flexdoctor.reports.markup import Child, Markup, fragment, tag
from flexdoctor.reports.plan_text import plan_lines
from flexdoctor.reports.rendering import Diagnosis, Page
from flexdoctor.reports.text import (
    _AVAILABLE,
    _CAPABILITY,
    _LABEL,
    _STATUS,
    _WORST,
    TextOptions,
    _also,
    _headline,
    _remedy,
    _where,
)
from flexdoctor.text import Language, Text

if TYPE_CHECKING:
    from flexdoctor.treatment.plan import Plan

_VERDICT: dict[Verdict, Status] = {"healthy": "pass", "broken": "fail", "unknown": "unknown"}
_ANSWER_CLASS = {"yes": "yes", "no": "no", "unknown": "maybe"}
_CHAIN = Text("The chain", "检查链")
_CAN = Text("What can run", "可运行的模式")
_DO = Text("What to do", "如何处理")
_FINDINGS = Text("Findings", "检查结果")
_NOTHING_TO_DO = Text("Nothing has to be done.", "无需处理。")
_REQUIRED = Text("* the verdict is about this one", "* 结论针对此项")
_SKIPPED = Text("skipped", "跳过")
_WAIVED = Text("accepted", "已接受")
_EXPIRES = Text("until {date}", "有效期至 {date}")
_BLOCKED_BY = Text("settle this one first: ", "须先解决：")
_EXPLAIN = Text("more", "详情")
_APPLY = Text("to do it", "执行")
_EXAMINED = Text("examined", "检查对象")
_PYTHON = Text("interpreter", "解释器")
_FOOT = Text(
    "Written by flexdoctor {version}, knowledge of {date}. This page is one file and loads nothing.",
    "由 flexdoctor {version} 生成，知识库 {date}。本页为单个文件，不加载任何外部内容。",
)


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return the report as a page."""
    return _Report(diagnosis, page.language).render()


class _Report:
    """The parts of the page, in the order in which they stand there."""

    def __init__(self, diagnosis: Diagnosis, language: Language) -> None:
        self.report, self.facts, self.chain = diagnosis.report, diagnosis.facts, diagnosis.chain
        self.plan, self.language = diagnosis.plan, language
        self.options = TextOptions(
            language=language, mended_by_fix=frozenset(self.plan.opens if self.plan else ()), detail="verbose"
        )
        self.findings = self.report.findings
        self.by_link: dict[str, list[tuple[int, Finding]]] = {}
        for number, finding in enumerate(self.findings):
            self.by_link.setdefault(finding.link, []).append((number, finding))

    def render(self) -> str:
        headline = _headline(self.report, self.language)
        return render_page(
            f"flexdoctor: {headline}",
            self.language,
            (
                self._header(headline),
                section(self._say(_CHAIN), tag("ol", self._strip(), class_="chain")),
                self._capabilities(),
                section(self._say(_DO), self._what_to_do()),
                section(
                    self._say(_FINDINGS),
                    tag("div", (self._finding(*item) for item in enumerate(self.findings)), class_="findings"),
                    tools=open_and_close(self.language),
                ),
                tag("footer", self._say(_FOOT.format(version=__version__, date=newest_date()))),
            ),
        )

    def _say(self, text: Text) -> str:
        return text.to(self.language)

    def _header(self, headline: str) -> Markup:
        interpreter = self.facts.interpreter
        about = " · ".join(
            part
            for part in (
                f"Python {interpreter.version}" if interpreter.version else "",
                interpreter.architecture,
                interpreter.executable,
            )
            if part
        )
        also = _also(self.report, self.language)
        return tag(
            "header",
            tag("h1", mark(_VERDICT[self.report.verdict]), tag("span", *self._verdict(headline))),
            tag("p", also) if also else None,
            fields(
                [
                    (self._say(_EXAMINED), tag("code", self.facts.target.description)),
                    (self._say(_PYTHON), about and tag("code", about)),
                ]
            ),
        )

    def _verdict(self, headline: str) -> Iterator[Child]:
        """Yield the verdict with its code, which stands at the end, as a link to the finding."""
        sentence, separator, code = headline.rpartition("   ")
        yield sentence if separator else headline
        if separator:
            yield " "
            yield self._code(code)

    def _strip(self) -> Iterator[Markup]:
        for number, check in enumerate(self.chain, 1):
            found = self.by_link.get(check.link)
            if not found:
                continue
            place, speaker = min(found, key=lambda item: _WORST.index(item[1].status))
            said = f"{speaker.code} " if speaker.code and speaker.status in ("fail", "warn", "unknown") else ""
            yield tag(
                "li",
                tag(
                    "a",
                    tag("span", str(number), class_="number"),
                    tag("span", self._say(check.title), class_="name"),
                    tag("span", *self._state(speaker), class_=f"state {speaker.status}"),
                    tag("span", said + self._say(speaker.title), class_="said"),
                    href=f"#{anchor(place)}",
                    title=said + self._say(speaker.title),
                ),
                class_=speaker.status,
            )

    def _state(self, finding: Finding) -> Iterator[Markup]:
        yield mark(finding.status)
        yield tag("span", self._status(finding), class_="word")

    def _status(self, finding: Finding) -> str:
        if finding.waiver:
            return self._say(_WAIVED)
        return self._say(_SKIPPED if finding.status == "skipped" else _STATUS[finding.status]).lower()

    def _capabilities(self) -> Markup:
        return section(
            self._say(_CAN),
            tag("ul", (self._capability(name) for name in CAPABILITIES), class_="can"),
            tag("small", self._say(_REQUIRED)),
        )

    def _capability(self, name: Capability) -> Markup:
        answer = self.report.capabilities[name]
        return tag(
            "li",
            tag("b", self._say(_CAPABILITY[name])),
            tag("span", self._say(_AVAILABLE[answer.available]), class_=_ANSWER_CLASS[answer.available]),
            " " if answer.because else None,
            self._code(answer.because),
            class_="required" if name == self.report.required else None,
        )

    def _code(self, code: str | None) -> Markup | None:
        """Return a code, as a link where there is a finding of it."""
        if code is None:
            return None
        place = next((number for number, item in enumerate(self.findings) if item.code == code), None)
        return tag("span", code, class_="code") if place is None else code_link(code, place)

    def _what_to_do(self) -> Child:
        """Return the plan where there is one, else what the findings say, the root cause first."""
        if self.plan is not None:
            return tag("div", tag("table", self._plan_rows(self.plan), class_="plan"), class_="panel")
        faults = [item for item in self.findings if item.status in ("fail", "warn") and not item.waiver]
        faults.sort(key=lambda item: item is not self.report.root_cause)
        remedies = [(item.code or item.link, _remedy(item, self.options)) for item in faults]
        rows = [(code, text) for code, text in remedies if text]
        if not rows:
            return tag("p", self._say(_NOTHING_TO_DO)) if not faults else None
        return tag("div", fields([(code, text) for code, text in rows]), class_="panel")

    def _plan_rows(self, plan: Plan) -> Iterator[Markup]:
        for line in plan_lines(plan, self.language):
            yield _plan_row(line.label, commands(line.text.removeprefix("$ ")) if line.copy else line.text)
        if plan.steps:
            yield _plan_row(self._say(_APPLY), commands("flexdoctor fix"))

    def _finding(self, number: int, finding: Finding) -> Markup:
        check = next((item for item in self.chain if item.link == finding.link), None)
        row = (
            mark(finding.status),
            tag("span", self._status(finding), class_="word"),
            tag("span", self._say(check.title) if check else finding.link, class_="name"),
            tag("span", finding.code if finding.status not in ("pass", "skipped") else None, class_="codes code"),
            tag("span", self._say(finding.title), class_="title"),
        )
        body = self._body(finding)
        if body is None:
            return tag("div", row, class_=f"row {finding.status}", id=anchor(number))
        return tag(
            "details",
            tag("summary", row, class_=f"row {finding.status}"),
            # The id is inside, so that a link to it opens what is around it, without any script.
            tag("div", body, class_="body", id=anchor(number)),
            open=finding is self.report.root_cause,
        )

    def _body(self, finding: Finding) -> Markup | None:
        sites = self.facts.target.site_packages
        evidence = [(_where(item, sites), item.text, item.source or "") for item in finding.evidence]
        rows: list[tuple[str, Child]] = [
            (self._say(_LABEL["proof"]), proof(evidence) if evidence else None),
            (
                self._say(_LABEL["see"]),
                tag("div", map(commands, finding.predicted_errors), lang="en") if finding.predicted_errors else None,
            ),
            (self._say(_LABEL["why"]), self._say(finding.detail)),
            (self._say(_LABEL["fix"]), _remedy(finding, self.options)),
            (self._say(_WAIVED), self._waiver(finding)),
        ]
        if finding.blocked_by:
            rows.append(
                (self._say(_STATUS["blocked"]), fragment(self._say(_BLOCKED_BY), self._code(finding.blocked_by)))
            )
        if finding.code and finding.status in ("fail", "warn"):
            rows.append((self._say(_EXPLAIN), tag("code", f"flexdoctor explain {finding.code}")))
        return fields(rows) if any(content for _, content in rows) else None

    def _waiver(self, finding: Finding) -> str | None:
        if finding.waiver is None:
            return None
        until = f" ({self._say(_EXPIRES.format(date=finding.waiver.expires))})" if finding.waiver.expires else ""
        return finding.waiver.reason + until


def _plan_row(label: str, content: Child) -> Markup:
    return tag("tr", tag("th", label, scope="row"), tag("td", content))
