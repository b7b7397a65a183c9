"""The report as one HTML page: the answer, the chain as a strip, what to do, and every finding with its proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flexdoctor.findings import CAPABILITIES, Capability, Finding, Status
from flexdoctor.reports.html_page import (
    anchor,
    code_link,
    commands,
    entry,
    fields,
    foot,
    mark,
    mark_of,
    open_and_close,
    reasons,
    render_page,
    section,
    state_of,
    status_word,
)
from flexdoctor.reports.markup import Child, Markup, fragment, tag
from flexdoctor.reports.plan_text import plan_lines
from flexdoctor.reports.rendering import Diagnosis, Page
from flexdoctor.reports.sentences import also, headline, remedy
from flexdoctor.reports.words import AVAILABLE, CAPABILITY, STATUS, WORST
from flexdoctor.text import Language, Text

if TYPE_CHECKING:
    from flexdoctor.treatment.plan import Plan

_VERDICT: dict[str, Status] = {"healthy": "pass", "broken": "fail", "unknown": "unknown", "waived": "warn"}
_ANSWER_CLASS = {"yes": "yes", "no": "no", "unknown": "maybe"}
_CHAIN = Text("The chain", "检查链")
_CAN = Text("What can run", "能力")
_DO = Text("What to do", "如何处理")
_FINDINGS = Text("Findings", "检查结果")
_NOTHING_TO_DO = Text("Nothing has to be done.", "无需处理。")
_REQUIRED = Text("* the verdict is about this one", "* 结论针对此项")
_BLOCKED_BY = Text("settle this one first: ", "须先解决：")
_EXPLAIN = Text("more", "详情")
_APPLY = Text("to do it", "执行")
_EXAMINED = Text("examined", "检查对象")
_PYTHON = Text("interpreter", "解释器")


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return the report as a page."""
    return _Report(diagnosis, page.language).render()


class _Report:
    """The parts of the page, in the order in which they stand there."""

    def __init__(self, diagnosis: Diagnosis, language: Language) -> None:
        self.report, self.facts, self.chain = diagnosis.report, diagnosis.facts, diagnosis.chain
        self.plan, self.language = diagnosis.plan, language
        self.mended_by_fix = frozenset(self.plan.opens if self.plan else ())
        self.findings = self.report.findings
        self.by_link: dict[str, list[tuple[int, Finding]]] = {}
        for number, finding in enumerate(self.findings):
            self.by_link.setdefault(finding.link, []).append((number, finding))

    def render(self) -> str:
        answer = headline(self.report, self.language)
        return render_page(
            f"flexdoctor: {answer}",
            self.language,
            (
                self._header(answer),
                section(self._say(_CHAIN), tag("ol", self._strip(), class_="chain")),
                self._capabilities(),
                section(self._say(_DO), self._what_to_do()),
                section(
                    self._say(_FINDINGS),
                    tag("div", (self._finding(*item) for item in enumerate(self.findings)), class_="findings"),
                    tools=open_and_close(self.language),
                ),
                foot(self.language),
            ),
        )

    def _say(self, text: Text) -> str:
        return text.to(self.language)

    def _header(self, answer: str) -> Markup:
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
        second = also(self.report, self.language)
        return tag(
            "header",
            tag("h1", mark(_VERDICT[self.report.verdict]), tag("span", *self._verdict(answer))),
            tag("p", second) if second else None,
            fields(
                [
                    (self._say(_EXAMINED), tag("code", self.facts.target.description)),
                    (self._say(_PYTHON), about and tag("code", about)),
                ]
            ),
        )

    def _verdict(self, answer: str) -> Iterator[Child]:
        """Yield the verdict with its code, which stands at the end, as a link to the finding."""
        sentence, separator, code = answer.rpartition("   ")
        yield sentence if separator else answer
        if separator:
            yield " "
            yield self._code(code)

    def _strip(self) -> Iterator[Markup]:
        for number, check in enumerate(self.chain, 1):
            found = self.by_link.get(check.link)
            if not found:
                continue
            place, speaker = min(found, key=lambda item: WORST.index(item[1].status))
            said = f"{speaker.code} " if speaker.code and speaker.status in ("fail", "warn", "unknown") else ""
            yield tag(
                "li",
                tag(
                    "a",
                    tag("span", str(number), class_="number"),
                    tag("span", self._say(check.title), class_="name"),
                    tag("span", *self._state(speaker), class_=f"state {state_of(speaker)}"),
                    tag("span", said + self._say(speaker.title), class_="said"),
                    href=f"#{anchor(place)}",
                    title=said + self._say(speaker.title),
                ),
                class_=state_of(speaker),
            )

    def _state(self, finding: Finding) -> Iterator[Markup]:
        yield mark_of(finding)
        yield tag("span", status_word(finding, self.language), class_="word")

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
            tag("b", self._say(CAPABILITY[name])),
            tag("span", self._say(AVAILABLE[answer.available]), class_=_ANSWER_CLASS[answer.available]),
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
        remedies = [(item.code or item.link, self._remedy(item)) for item in faults]
        rows = [(code, text) for code, text in remedies if text]
        if not rows:
            return tag("p", self._say(_NOTHING_TO_DO)) if not faults else None
        return tag("div", fields([(code, text) for code, text in rows]), class_="panel")

    def _plan_rows(self, plan: Plan) -> Iterator[Markup]:
        for line in plan_lines(plan, self.language):
            yield _plan_row(line.label, commands(line.text.removeprefix("$ ")) if line.copy else line.text)
        if plan.steps:
            yield _plan_row(self._say(_APPLY), commands("flexdoctor fix"))

    def _remedy(self, finding: Finding) -> str:
        return remedy(finding, self.language, self.mended_by_fix)

    def _finding(self, number: int, finding: Finding) -> Markup:
        check = next((item for item in self.chain if item.link == finding.link), None)
        more = reasons(finding, self.language, self.facts.target.site_packages, self._remedy(finding))
        if finding.blocked_by:
            cause = fragment(self._say(_BLOCKED_BY), self._code(finding.blocked_by))
            more.append((self._say(STATUS["blocked"]), cause))
        if finding.code and finding.status in ("fail", "warn"):
            more.append((self._say(_EXPLAIN), tag("code", f"flexdoctor explain {finding.code}")))
        return entry(
            finding,
            self._say(check.title) if check else finding.link,
            self.language,
            more,
            at=anchor(number),
            is_open=finding is self.report.root_cause,
        )


def _plan_row(label: str, content: Child) -> Markup:
    return tag("tr", tag("th", label, scope="row"), tag("td", content))
