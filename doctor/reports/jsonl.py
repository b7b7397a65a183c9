"""The report as JSON lines, for log collectors: a line that says of what, a line a finding, a line with the verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flexdoctor.reports.document import error_document, report_document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flexdoctor.reports.rendering import Diagnosis, Page

#: What the first line says; the rest of the document but for its findings is on the last one.
_HEAD = ("schema_version", "tool", "target", "required", "configuration")


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return one JSON object a line, as `$defs/line` of report.schema.json describes them."""
    document = report_document(
        diagnosis.report,
        diagnosis.facts,
        page.language,
        plan=diagnosis.plan,
        fixes=diagnosis.fixes,
        configuration=diagnosis.configuration,
    )
    head = {name: document.pop(name) for name in _HEAD if name in document}
    findings = document.pop("findings")
    del document["error"]
    return _lines(
        (
            {"type": "report", **head},
            *({"type": "finding", **item} for item in findings),
            {"type": "summary", **document, "exit_code": diagnosis.exit_code},
        )
    )


def render_error(message: str, exit_code: int) -> str:
    """Return the one line of a run that could not diagnose anything."""
    document = error_document(message, exit_code)
    return _lines(({"type": "error", **{key: document[key] for key in ("schema_version", "tool", "error")}},))


def _lines(objects: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(item)}\n" for item in objects)
