"""What a log tells, for a person: the answer first, then each kind of error, the first in time first."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor import __version__
from flexdoctor.log_findings import LogFinding, LogReport
from flexdoctor.reports.log_words import Explainers, about, headline, place, quote, rows, summary
from flexdoctor.reports.rendering import Page
from flexdoctor.reports.wrapping import cells, wrap
from flexdoctor.text import Text

_COLUMN = 13
#: Kinds of unknown errors that are shown.
_UNKNOWN = 5


def render(report: LogReport, explainers: Explainers, page: Page) -> str:
    """Return the report as text, laid out on a terminal, unwrapped in a pipe."""
    language = page.language
    head = Text("flexdoctor {version} · reading {what}", "flexdoctor {version} · 读取 {what}")
    lines = [head.format(version=__version__, what=about(report.facts, language)).to(language)]
    if page.terminal:
        lines = [_styled(line, "2", page) for line in wrap(lines[0], page.width)]
        lines += ["", *(_styled(line, "1", page) for line in wrap(headline(report, language), page.width))]
    else:
        lines.append(headline(report, language))
    if not report.findings:
        return "\n".join(lines) + "\n"
    if len(report.findings) > 1 or report.facts.dropped:
        lines += [*([""] if page.terminal else []), *_prose(summary(report, language), page)]
    shown, left_out = _shown(report)
    for finding in shown:
        if page.terminal:
            lines.append("")
        lines += _finding(finding, report, explainers, page)
    if left_out:
        more = Text("and {n} further unknown errors", "另有 {n} 个未知错误").format(n=left_out).to(language)
        lines += [*([""] if page.terminal else []), more]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _prose(text: str, page: Page) -> list[str]:
    return wrap(text, page.width) if page.terminal else [text]


def _shown(report: LogReport) -> tuple[list[LogFinding], int]:
    """Return the findings to show and how many are left out: of the unknown ones the first few will do."""
    unknown = [finding for finding in report.findings if finding.kind == "unknown"]
    hidden = {id(finding) for finding in unknown[_UNKNOWN:]}
    return [finding for finding in report.findings if id(finding) not in hidden], len(hidden) + report.facts.dropped


def _finding(finding: LogFinding, report: LogReport, explainers: Explainers, page: Page) -> Iterator[str]:
    error, language = finding.incident.root, page.language
    colon = "：" if language == "zh" else ": "
    head = f"{place(finding.incident, language)}{colon}{quote(error.headline)}"
    yield _styled(head, "1", page)
    for row in rows(finding, report, explainers, language):
        if not page.terminal:
            yield f"  {row.label}{colon if row.label else '  '}{row.text}"
            continue
        label = f"  {row.label}"
        width = max(page.width - _COLUMN, 30)
        first, *rest = [row.text] if row.copy else wrap(row.text, width)
        yield f"{_styled(label, '2', page)}{' ' * max(_COLUMN - cells(label), 1)}{first}"
        for line in rest:
            yield " " * _COLUMN + line


def _styled(text: str, style: str, page: Page) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if page.colour and text.strip() else text
