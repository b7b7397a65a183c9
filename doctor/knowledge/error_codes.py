"""Error codes of the CANN runtime, its operators and the driver."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping

from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table
from flexdoctor.text import NOTHING, Text


@dataclass(frozen=True)
class ErrorCode:
    """What is known of one code. `doubt` says what of it is not first-hand; empty when all of it is.

    A meaning that was only read off the name has no Chinese: there the name itself says as much.
    """

    family: str
    code: str
    name: str
    meaning: Text
    source: str
    date: datetime.date
    causes: Text = NOTHING
    doubt: str = ""


@functools.cache
def error_codes() -> tuple[ErrorCode, ...]:
    """Return every known code."""
    return tuple(
        ErrorCode(
            family=table["family"],
            code=row["code"],
            name=row["name"],
            meaning=_text(row["meaning"]),
            source=table["source"],
            date=table["date"],
            causes=_text(row.get("causes", "")),
            doubt=row.get("doubt", ""),
        )
        for table in load_table("error_codes")["table"]
        for row in table["rows"]
    )


def _text(given: str | Mapping[str, str]) -> Text:
    return Text(given, "") if isinstance(given, str) else Text(given["en"], given["zh"])


def look_up(code: str | int) -> tuple[ErrorCode, ...]:
    """Return what is known of a code: nothing, or a row of each family that uses the number.

    A class like E2xxxx stands for the codes of its class that have no row of their own.
    """
    wanted = str(code).strip()
    exact = tuple(row for row in error_codes() if row.code == wanted)
    if exact:
        return exact
    return tuple(
        row
        for row in error_codes()
        if row.code.endswith("xxx") and len(row.code) == len(wanted) and wanted.startswith(row.code.rstrip("x"))
    )
