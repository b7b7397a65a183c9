"""The report as data: the shape that every machine-readable format and `compare` start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flexdoctor import __version__
from flexdoctor.facts import Facts
from flexdoctor.findings import CAPABILITIES, Finding, Report, Waiver
from flexdoctor.knowledge import newest_date
from flexdoctor.profile import environment_profile, fingerprint
from flexdoctor.reports.plan_text import plan_document
from flexdoctor.serialise import to_json
from flexdoctor.text import Language

if TYPE_CHECKING:
    from flexdoctor.treatment.plan import Fix, Plan

SCHEMA_VERSION = 1


def report_document(
    report: Report,
    facts: Facts,
    language: Language = "en",
    *,
    plan: Plan | None = None,
    fixes: Sequence[Fix] = (),
    configuration: str | None = None,
) -> dict[str, Any]:
    """Return `report` as the JSON object that report.schema.json describes; sentences are in `language`.

    Args:
        plan: what `flexdoctor fix` would do.
        fixes: the remedies that there are.
        configuration: the file whose settings were used.
    """
    interpreter = facts.interpreter
    environment = environment_profile(facts)
    return {
        **head(),
        "target": {
            "kind": facts.target.kind,
            "description": facts.target.description,
            "python": interpreter.version,
            "architecture": interpreter.architecture,
            "executable": interpreter.executable,
            "site_packages": list(facts.target.site_packages),
            "machine_examined": facts.target.machine_examined,
        },
        "verdict": report.verdict,
        "required": report.required,
        "root_cause": report.root_cause.code if report.root_cause else None,
        "capabilities": {name: to_json(report.capabilities[name]) for name in CAPABILITIES},
        "findings": [
            {**finding_document(item, language), "fixes": [fix.name for fix in fixes if _opens(fix, item)]}
            for item in report.findings
        ],
        "plan": plan_document(plan, language) if plan else [],
        "configuration": configuration,
        "fingerprint": fingerprint(environment),
        "environment": environment,
        "error": None,
    }


def node_document(report: Report, facts: Facts) -> dict[str, Any]:
    """Return the document that one node leaves for a comparison: its sentences are there in both languages."""
    document = report_document(report, facts)
    for shown, finding in zip(document["findings"], report.findings, strict=True):
        shown["zh"] = {"title": finding.title.zh, "detail": finding.detail.zh, "remedy": finding.remedy.zh}
    return document


def error_document(message: str, exit_code: int) -> dict[str, Any]:
    """Return the document of a run that could not diagnose anything: the same keys, and `error` filled."""
    return {
        **head(),
        "target": None,
        "verdict": "unknown",
        "required": None,
        "root_cause": None,
        "capabilities": {name: {"available": "unknown", "because": None} for name in CAPABILITIES},
        "findings": [],
        "plan": [],
        "configuration": None,
        "fingerprint": None,
        "environment": {},
        "error": {"message": message, "exit_code": exit_code},
    }


def head() -> dict[str, Any]:
    """Return what every document begins with."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "flexdoctor", "version": __version__, "knowledge_date": newest_date().isoformat()},
    }


def _opens(fix: Fix, finding: Finding) -> bool:
    return finding.status in ("fail", "warn") and finding.code in fix.opens


def finding_document(finding: Finding, language: Language) -> dict[str, Any]:
    """Return a finding with its proof, as a report and a comparison show it."""
    return {
        "code": finding.code,
        "link": finding.link,
        "status": finding.status,
        "severity": finding.severity,
        "title": finding.title.to(language),
        "detail": finding.detail.to(language),
        "evidence": [to_json(item) for item in finding.evidence],
        "blocked_by": finding.blocked_by,
        "predicted_errors": list(finding.predicted_errors),
        "affects": list(finding.affects),
        "remedy": finding.remedy.to(language),
        "waiver": _waiver(finding.waiver) if finding.waiver else None,
    }


def _waiver(waiver: Waiver) -> dict[str, Any]:
    expires = waiver.expires.isoformat() if waiver.expires else None
    return {"code": waiver.code, "reason": waiver.reason, "expires": expires}
