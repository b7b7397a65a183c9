"""The comparison as one JSON document."""

from __future__ import annotations

from flexdoctor.comparison import Comparison
from flexdoctor.reports.compare_document import comparison_document
from flexdoctor.reports.json import render_json
from flexdoctor.reports.rendering import Page


def render(comparison: Comparison, page: Page) -> str:
    """Return the comparison as compare.schema.json describes it."""
    return render_json(comparison_document(comparison, page.language))
