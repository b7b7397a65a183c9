"""The report as workflow commands: annotations on a GitHub run, at the line that pins the culprit where it is known.

An `::error` is what makes the step fail, `::warning` what does not, `::notice` what could not be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flexdoctor.reports.places import below, spot
from flexdoctor.reports.sentences import headline
from flexdoctor.text import Language, Text

if TYPE_CHECKING:
    from flexdoctor.findings import Finding
    from flexdoctor.reports.rendering import Diagnosis, Page

_SHOWN = ("fail", "warn", "unknown", "crashed")


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return a line a finding, those that make the step fail first: only ten of a kind are shown; then the answer."""
    shown = [item for item in diagnosis.report.findings if item.status in _SHOWN and item.waiver is None]
    shown.sort(key=lambda item: not diagnosis.counts(item))
    lines = [_annotation(item, diagnosis, page) for item in shown]
    return "".join(
        f"{line}\n" for line in (*lines, f"flexdoctor: {_one_line(headline(diagnosis.report, page.language))}")
    )


def render_error(message: str, exit_code: int) -> str:
    """Return the annotation of a run that could not diagnose anything."""
    return command("error", message, title=f"flexdoctor ended with {exit_code}") + "\n"


def _annotation(finding: Finding, diagnosis: Diagnosis, page: Page) -> str:
    level = "error" if diagnosis.counts(finding) else "notice" if finding.status == "unknown" else "warning"
    properties = {}
    place = spot(finding, diagnosis.facts)
    if place and place.line and (path := below(place.path, page.base)) is not None:
        properties = {"file": path, "line": str(place.line)}
    title = f"flexdoctor {finding.code or finding.link}"
    return command(level, _message(finding, page.language), **properties, title=title)


def _message(finding: Finding, language: Language) -> str:
    parts = [finding.title.to(language), finding.detail.to(language), *finding.predicted_errors]
    if remedy := finding.remedy.to(language):
        parts.append(Text("Fix: {remedy}", "修复：{remedy}").format(remedy=remedy).to(language))
    return "\n".join(part for part in parts if part)


def command(name: str, message: str, **properties: str) -> str:
    """Return a workflow command, escaped as the runner reads it."""
    given = ",".join(
        f"{key}={_escape(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in properties.items()
    )
    return f"::{name} {given}::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _one_line(text: str) -> str:
    return " ".join(text.split())
