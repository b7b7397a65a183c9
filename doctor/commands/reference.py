"""Write the reference of codes into the README, between its markers: `python -m flexdoctor.commands.reference`."""

from __future__ import annotations

import sys
from pathlib import Path

from flexdoctor.commands.explain import list_codes
from flexdoctor.commands.options import ExplainFormat
from flexdoctor.reports.rendering import Page

BEGIN, END = "<!-- reference:begin -->", "<!-- reference:end -->"


def with_reference(text: str) -> str:
    """Return `text` with the reference between the markers.

    Raises:
        ValueError: a marker is missing.
    """
    before, marker, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not marker or not end:
        raise ValueError(f"expected {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{list_codes(ExplainFormat.markdown, Page())}\n{END}{after}"


def main() -> None:
    """Bring a README, ./README.md if none is named, up to date."""
    readme = Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")
    readme.write_text(with_reference(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
