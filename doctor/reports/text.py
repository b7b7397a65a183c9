"""The report for a person: the answer first, then the chain in order, then proof, then the next command.

On a terminal it is laid out and coloured with rich. In a pipe there is one finding a line, nothing is wrapped, and
rich is not even imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flexdoctor import __version__
from flexdoctor.chain import Check
from flexdoctor.facts import Facts
from flexdoctor.findings import Evidence, Finding, Report
from flexdoctor.knowledge import newest_date
from flexdoctor.reports.rendering import Detail, Diagnosis, Page
from flexdoctor.reports.sentences import also, capabilities, headline, remedy, state_of, used_settings, where
from flexdoctor.reports.words import LABEL, STATUS, WORST
from flexdoctor.text import Language, Text
from flexdoctor.waivers import words

_STYLE = {"fail": "bold red", "crashed": "bold red", "warn": "yellow", "unknown": "magenta", "pass": "green"}
#: How many lines of proof a finding shows unless asked for all.
_PROOF = 3


@dataclass(frozen=True)
class TextOptions:
    """How to render: language, how much, and for which kind of output."""

    language: Language = "en"
    detail: Detail = "normal"
    terminal: bool = False
    width: int = 80
    colour: bool = False
    #: Codes that `flexdoctor fix` would mend here.
    mended_by_fix: frozenset[str] = frozenset()
    #: The file whose settings were used, and the one beside it that was not.
    configuration: str | None = None
    not_read: str | None = None


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return the report for a person to read on `page`."""
    options = TextOptions(
        language=page.language,
        detail=page.detail,
        terminal=page.terminal,
        width=page.width,
        colour=page.colour,
        mended_by_fix=frozenset(diagnosis.plan.opens if diagnosis.plan else ()),
        configuration=diagnosis.configuration,
        not_read=diagnosis.not_read,
    )
    return render_text(diagnosis.report, diagnosis.facts, diagnosis.chain, options)


def render_text(report: Report, facts: Facts, chain: Sequence[Check], options: TextOptions) -> str:
    """Return the report as text, for a terminal or for a pipe."""
    if options.detail == "quiet":
        return headline(report, options.language) + "\n"
    if options.terminal:
        return _Terminal(report, facts, chain, options).render()
    return "".join(f"{line}\n" for line in _plain(report, facts, options))


def _head(facts: Facts, language: Language) -> str:
    interpreter = facts.interpreter
    python = [f"Python {interpreter.version}" if interpreter.version else "", interpreter.architecture or ""]
    about = ", ".join(part for part in python if part)
    return Text(
        "flexdoctor {version} · knowledge of {date} · examining {target}",
        "flexdoctor {version} · 知识库 {date} · 检查对象 {target}",
    ).format(version=__version__, date=newest_date(), target=facts.target.description).to(language) + (
        f" ({about})" if about else ""
    )


def _settings(options: TextOptions) -> str | None:
    """Say which file of settings was used; nothing when there is none."""
    if options.configuration is None:
        return None
    said = used_settings(options.configuration)
    if options.not_read:
        beside = Text("({path} is not read beside it)", "（同目录的 {path} 未读取）").format(path=options.not_read)
        said += beside
    return said.to(options.language)


def _evidence(evidence: Evidence, facts: Facts) -> str:
    place = where(evidence, facts.target.site_packages)
    source = f" [{evidence.source}]" if evidence.source else ""
    if evidence.kind == "file" and evidence.line:
        return f"{place}  {evidence.text}{source}"
    return (f"{place}: {evidence.text}" if place else evidence.text) + source


def _plain(report: Report, facts: Facts, options: TextOptions) -> Iterator[str]:
    language = options.language
    colon = "：" if language == "zh" else ": "
    yield _head(facts, language)
    if settings := _settings(options):
        yield settings
    yield headline(report, language)
    if second := also(report, language):
        yield second
    for finding in report.findings:
        code = finding.code or finding.blocked_by or "-"
        line = f"{state_of(finding).upper()} {code} {finding.link} {finding.title.to(language)}"
        if finding.waiver:
            line += f" {LABEL['waived'].to(language)}{colon}{words(finding.waiver).to(language)}"
        elif finding.status in ("fail", "warn") and (
            mending := remedy(finding, options.language, options.mended_by_fix)
        ):
            line += f" {LABEL['fix'].to(language)}{colon}{mending}"
        yield line
        if options.detail == "verbose":
            for item in finding.evidence:
                yield f"  {LABEL['proof'].to(language)}{colon}{_evidence(item, facts)}"
            for error in finding.predicted_errors:
                yield f"  {LABEL['see'].to(language)}{colon}{error}"
            if finding.detail.en:
                yield f"  {LABEL['why'].to(language)}{colon}{finding.detail.to(language)}"
    separator = "；" if language == "zh" else ", "
    yield f"{LABEL['can'].to(language)}{colon}{separator.join(text for _, text in capabilities(report, language))}"


class _Terminal:
    """The laid-out form."""

    def __init__(self, report: Report, facts: Facts, chain: Sequence[Check], options: TextOptions) -> None:
        from flexdoctor.reports.sheet import Sheet  # noqa: PLC0415 - only a terminal needs it

        self.report, self.facts, self.chain, self.options = report, facts, chain, options
        self.language = options.language
        self.sheet = Sheet(options.width, colour=options.colour)

    def render(self) -> str:
        self.sheet.prose(_head(self.facts, self.language), style="dim")
        if settings := _settings(self.options):
            self.sheet.prose(settings, style="dim")
        self.sheet.blank()
        style = "bold green" if self.report.verdict == "healthy" else "bold"
        self.sheet.prose(headline(self.report, self.language), style=style)
        if second := also(self.report, self.language):
            self.sheet.prose(second)
        self.sheet.blank()
        self._chain()
        for finding in self._shown():
            self.sheet.blank()
            self._finding(finding)
        self.sheet.blank()
        self._can_run()
        return self.sheet.text()

    def _shown(self) -> list[Finding]:
        """Faults with their proof; with -v also the proof that the other links hold."""
        wanted = ("fail", "warn", "crashed", "unknown")
        if self.options.detail == "verbose":
            return [item for item in self.report.findings if item.status in wanted or item.evidence]
        faults = [item for item in self.report.findings if item.status in wanted]
        links = {check.link for check in self.chain}
        return [
            item
            for item in faults
            if item.status != "warn"
            or item is self.report.root_cause
            or item.affects
            or item.waiver
            or item.link not in links
        ]

    def _chain(self) -> None:
        from flexdoctor.reports.wrapping import cells  # noqa: PLC0415

        by_link: dict[str, list[Finding]] = {}
        for finding in self.report.findings:
            by_link.setdefault(finding.link, []).append(finding)
        widest = max(cells(check.title.to(self.language)) for check in self.chain)
        for number, check in enumerate(self.chain, 1):
            found = by_link.get(check.link)
            if not found:
                continue
            speaker = min(found, key=lambda item: WORST.index(state_of(item)))
            title = check.title.to(self.language)
            state = state_of(speaker)
            status = STATUS[state].to(self.language)
            code = f"{speaker.code} " if speaker.code and speaker.status in ("fail", "warn", "unknown") else ""
            self.sheet.line(
                (f" {number:>2}  {title}{' ' * (widest - cells(title))}  ", ""),
                (f"{status}{' ' * (8 - cells(status))}", _STYLE.get(state, "dim")),
                (code + speaker.title.to(self.language), ""),
                cut=True,
            )

    def _finding(self, finding: Finding) -> None:
        head = f"{finding.code or finding.link}  "
        style = _STYLE.get(state_of(finding), "")
        self._labelled(head, finding.title.to(self.language), label_style=style, indent=0)
        if finding.waiver:
            self._labelled("waived", words(finding.waiver).to(self.language))
            if self.options.detail != "verbose":
                return
        shown = finding.evidence if self.options.detail == "verbose" else finding.evidence[:_PROOF]
        for number, item in enumerate(shown):
            self._labelled("proof" if not number else "", _evidence(item, self.facts), copy=True)
        if hidden := len(finding.evidence) - len(shown):
            more = Text("{count} more with -v", "另有 {count} 条，见 -v").format(count=hidden)
            self._labelled("", more.to(self.language))
        for number, error in enumerate(finding.predicted_errors):
            self._labelled("see" if not number else "", error, copy=True)
        if finding.detail.en:
            self._labelled("why", finding.detail.to(self.language))
        if mending := remedy(finding, self.language, self.options.mended_by_fix):
            self._labelled("fix", mending)
        if finding.code and finding.status in ("fail", "warn", "unknown"):
            self._labelled("more", f"flexdoctor explain {finding.code}", copy=True)

    def _labelled(
        self, label: str, text: str, *, copy: bool = False, label_style: str = "dim", indent: int = 2
    ) -> None:
        shown = LABEL[label].to(self.language) if label in LABEL else label
        column = 11 if indent else 7
        self.sheet.labelled(shown, text, column=column, indent=indent, label_style=label_style, copy=copy)

    def _can_run(self) -> None:
        from flexdoctor.reports.wrapping import cells  # noqa: PLC0415

        colours = {"yes": "green", "no": "red", "unknown": "magenta"}
        head = LABEL["can"].to(self.language) + "   "
        parts, used = [(head, "")], cells(head)
        for available, text in capabilities(self.report, self.language):
            separator = " · " if len(parts) > 1 else ""
            if used + cells(separator + text) > self.sheet.width:
                self.sheet.line(*parts)
                parts, used, separator = [(" " * cells(head), "")], cells(head), ""
            parts += [(separator, ""), (text, colours[available])]
            used += cells(separator + text)
        self.sheet.line(*parts)
