"""The report as one JSON document."""

from __future__ import annotations

import json
from typing import Any


def render_json(document: dict[str, Any]) -> str:
    """Return `document` as indented JSON, ASCII only so that no terminal or log can garble it."""
    return json.dumps(document, indent=2) + "\n"
