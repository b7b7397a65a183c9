"""What a log tells, as one JSON document."""

from __future__ import annotations

from typing import Any

from flexdoctor.log_findings import LogFinding, LogReport
from flexdoctor.reports.document import head
from flexdoctor.reports.explanations import title_of
from flexdoctor.reports.json import render_json
from flexdoctor.reports.log_words import Explainers, commands
from flexdoctor.reports.rendering import Page
from flexdoctor.serialise import to_json
from flexdoctor.text import Language


def render(report: LogReport, explainers: Explainers, page: Page) -> str:
    """Return the report as JSON; sentences are in the language of `page`."""
    facts = report.facts
    log = to_json(facts)
    del log["incidents"]
    return render_json(
        {
            **head(),
            "log": log,
            "verdict": report.verdict,
            "exit_code": report.exit_code,
            "codes": list(dict.fromkeys(code for finding in report.findings for code in finding.codes)),
            "findings": [_finding(finding, explainers, page.language) for finding in report.findings],
        }
    )


def _finding(finding: LogFinding, explainers: Explainers, language: Language) -> dict[str, Any]:
    incident = to_json(finding.incident)
    entries = [explainers.entries[code] for code in finding.codes if code in explainers.entries]
    return {
        "kind": finding.kind,
        "codes": [
            {"code": entry.code, "link": entry.link, "title": title_of(entry.fault, language)} for entry in entries
        ],
        "confidence": finding.confidence,
        "because": finding.because.to(language) or None,
        "meaning": finding.meaning.to(language) or None,
        "follows_line": finding.follows,
        "error": incident.pop("root"),
        "telling_line": finding.telling or None,
        **incident,
        "runtime_codes": [
            {
                "code": row.code,
                "name": row.name,
                "meaning": row.meaning.to(language),
                "causes": row.causes.to(language),
                "source": row.source,
            }
            for row in finding.runtime
        ],
        "also": to_json(finding.also),
        "commands": [command for _, command in commands(finding, explainers)],
        "source": finding.source or None,
    }
