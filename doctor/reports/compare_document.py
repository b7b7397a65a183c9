"""The comparison as data: the shape that compare.schema.json describes."""

from __future__ import annotations

from typing import Any

from flexdoctor import __version__
from flexdoctor.comparison import Comparison, Group
from flexdoctor.knowledge import newest_date
from flexdoctor.reports.compare_rendering import headline, unusable_line
from flexdoctor.reports.document import finding_document
from flexdoctor.serialise import to_json
from flexdoctor.text import Language

SCHEMA_VERSION = 1


def comparison_document(comparison: Comparison, language: Language = "en") -> dict[str, Any]:
    """Return `comparison` as a JSON object; sentences are in `language`."""
    reference = comparison.reference
    return {
        **_head(),
        "verdict": comparison.verdict,
        "headline": headline(comparison).to(language),
        "nodes": comparison.node_count,
        "expected": comparison.expected,
        "expected_by": comparison.expected_by,
        "reference": reference.number if reference else None,
        "environment": comparison.environment,
        "groups": [_group(group, language) for group in comparison.groups],
        "missing": {"count": comparison.missing_count, "hosts": list(comparison.missing)},
        "unexpected": list(comparison.unexpected),
        "unfinished": [to_json(item) for item in comparison.unfinished],
        "unusable": [
            {
                "path": item.path,
                "kind": item.kind,
                "detail": item.detail,
                "costs_a_node": item.costs_a_node,
                "message": unusable_line(item, language),
            }
            for item in comparison.unusable
        ],
        "notes": [note.to(language) for note in comparison.notes],
        "error": None,
    }


def error_document(message: str, exit_code: int) -> dict[str, Any]:
    """Return the document of a run that could not compare anything: the same keys, and `error` filled."""
    return {
        **_head(),
        "verdict": "unknown",
        "headline": message,
        "nodes": 0,
        "expected": None,
        "expected_by": None,
        "reference": None,
        "environment": {},
        "groups": [],
        "missing": {"count": 0, "hosts": []},
        "unexpected": [],
        "unfinished": [],
        "unusable": [],
        "notes": [],
        "error": {"message": message, "exit_code": exit_code},
    }


def _head() -> dict[str, Any]:
    return {
        "kind": "flexdoctor comparison",
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "flexdoctor", "version": __version__, "knowledge_date": newest_date().isoformat()},
    }


def _group(group: Group, language: Language) -> dict[str, Any]:
    return {
        "number": group.number,
        "is_reference": group.is_reference,
        "fingerprint": group.fingerprint,
        "verdict": group.verdict,
        "root_cause": group.root_cause,
        "error": group.error,
        "nodes": [
            {
                "name": node.name,
                "host": node.host,
                "rank": node.rank,
                "index": node.index,
                "run": node.run,
                "path": node.path,
            }
            for node in group.nodes
        ],
        "differences": [to_json(item) for item in group.differences],
        "only_here": [finding_document(item, language) for item in group.only_here],
        "not_here": [finding_document(item, language) for item in group.not_here],
        "findings": [
            {
                "link": item.link,
                "code": item.code,
                "status": item.status,
                "severity": item.severity,
                "title": item.title.to(language),
            }
            for item in group.findings
        ],
    }
