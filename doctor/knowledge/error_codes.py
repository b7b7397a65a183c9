"""Error codes of the CANN runtime, its operators and the driver."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

from flexdoctor.knowledge import load_table


@dataclass(frozen=True)
class ErrorCode:
    """What is known of one code. `doubt` says what of it is not first-hand; empty when all of it is."""

    family: str
    code: str
    name: str
    meaning: str
    source: str
    date: datetime.date
    causes: str = ""
    doubt: str = ""


@functools.cache
def error_codes() -> tuple[ErrorCode, ...]:
    """Return every known code."""
    return tuple(
        ErrorCode(family=table["family"], source=table["source"], date=table["date"], **row)
        for table in load_table("error_codes")["table"]
        for row in table["rows"]
    )


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
