"""What a log tells, as Markdown for a bug report or a step summary."""

from __future__ import annotations

from flexdoctor.log_findings import LogReport
from flexdoctor.reports.log_words import Explainers, about, headline, place, quote, rows
from flexdoctor.reports.rendering import Page


def render(report: LogReport, explainers: Explainers, page: Page) -> str:
    """Return the report as Markdown."""
    language = page.language
    lines = [f"### {_escaped(headline(report, language))}", "", _escaped(about(report.facts, language))]
    for finding in report.findings:
        root = finding.incident.root
        lines += [
            "",
            f"**{_escaped(place(finding.incident, language))}**",
            "",
            "```text",
            quote(root.headline).replace("```", "'''"),
            "```",
            "",
        ]
        for row in rows(finding, report, explainers, language):
            text = f"`{row.text}`" if row.copy else _escaped(row.text)
            lines.append(f"- {row.label}: {text}" if row.label else f"  - {text}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return text in which nothing is taken for Markdown or HTML."""
    return "".join(f"\\{character}" if character in "\\`*_[]<>#|" else character for character in text)
