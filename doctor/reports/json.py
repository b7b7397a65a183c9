"""The report as one JSON document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flexdoctor.reports.rendering import Diagnosis, Page


def render_json(document: dict[str, Any]) -> str:
    """Return `document` as indented JSON, ASCII only so that no terminal or log can garble it."""
    return json.dumps(document, indent=2) + "\n"


def render_error(message: str, exit_code: int) -> str:
    """Return the one document of a run that could not diagnose anything."""
    from flexdoctor.reports.document import error_document  # noqa: PLC0415

    return render_json(error_document(message, exit_code))


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return the report as report.schema.json describes it."""
    from flexdoctor.reports.document import report_document  # noqa: PLC0415 - an error document needs less

    document = report_document(
        diagnosis.report,
        diagnosis.facts,
        page.language,
        plan=diagnosis.plan,
        fixes=diagnosis.fixes,
        configuration=diagnosis.configuration,
    )
    return render_json(document)
