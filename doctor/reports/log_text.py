"""What a log tells, for a person: the answer first, then each kind of error, the first in time first."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor import __version__
from flexdoctor.log_findings import LogFinding, LogReport
from flexdoctor.reports.log_words import Explainers, about, headline, place, quote, rows, summary
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Language, Text

_COLUMN = 13
#: Kinds of unknown errors that are shown.
_UNKNOWN = 5


def render(report: LogReport, explainers: Explainers, page: Page) -> str:
    """Return the report as text, laid out on a terminal, unwrapped in a pipe."""
    language = page.language
    head = Text("flexdoctor {version} · reading {what}", "flexdoctor {version} · 读取 {what}")
    head = head.format(version=__version__, what=about(report.facts, language))
    shown, left_out = _shown(report)
    ending = Text("and {n} further unknown errors", "另有 {n} 个未知错误").format(n=left_out).to(language)
    answers = [head.to(language), headline(report, language)]
    if len(report.findings) > 1 or report.facts.dropped:
        answers.append(summary(report, language))
    if not page.terminal:
        lines = [*answers, *(line for finding in shown for line in _plain(finding, report, explainers, page))]
        return "".join(f"{line.rstrip()}\n" for line in [*lines, *([ending] if left_out else [])])
    from flexdoctor.reports.sheet import Sheet  # noqa: PLC0415 - only a terminal needs it

    sheet = Sheet(page.width, colour=page.colour)
    for answer, style in zip(answers, ("dim", "bold", ""), strict=False):
        sheet.prose(answer, style=style)
        if style == "dim":
            sheet.blank()
    for finding in shown:
        sheet.blank()
        sheet.line((_head(finding, language), "bold"))
        for row in rows(finding, report, explainers, language):
            sheet.labelled(row.label, row.text, column=_COLUMN, copy=row.copy)
    if left_out:
        sheet.blank()
        sheet.prose(ending)
    return sheet.text()


def _shown(report: LogReport) -> tuple[list[LogFinding], int]:
    """Return the findings to show and how many are left out: of the unknown ones the first few will do."""
    unknown = [finding for finding in report.findings if finding.kind == "unknown"]
    hidden = {id(finding) for finding in unknown[_UNKNOWN:]}
    return [finding for finding in report.findings if id(finding) not in hidden], len(hidden) + report.facts.dropped


def _head(finding: LogFinding, language: Language) -> str:
    colon = "：" if language == "zh" else ": "
    return f"{place(finding.incident, language)}{colon}{quote(finding.incident.root.headline)}"


def _plain(finding: LogFinding, report: LogReport, explainers: Explainers, page: Page) -> Iterator[str]:
    colon = "：" if page.language == "zh" else ": "
    yield _head(finding, page.language)
    for row in rows(finding, report, explainers, page.language):
        yield f"  {row.label}{colon if row.label else '  '}{row.text}"
