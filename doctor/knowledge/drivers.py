"""Which driver (HDK) lines a CANN line was published with."""

from __future__ import annotations

import datetime
import functools
import re
from typing import Literal

from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table
from flexdoctor.knowledge.cann import CannVersion


@dataclass(frozen=True)
class DriverRow:
    """A published statement on a CANN line and driver lines."""

    cann: str
    kind: Literal["pair", "compatible"]
    hdk: tuple[str, ...]
    source: str
    date: datetime.date
    track: str = ""
    doubt: str = ""


@functools.cache
def driver_rows() -> tuple[DriverRow, ...]:
    """Return every row."""
    return tuple(DriverRow(**{**row, "hdk": tuple(row["hdk"])}) for row in load_table("drivers")["row"])


def rows_for_line(cann: CannVersion) -> tuple[DriverRow, ...]:
    """Return the rows that speak of the line of `cann`: 8.0 speaks of 8.0.RC1 too."""
    line = cann.line
    return tuple(row for row in driver_rows() if line == row.cann or line.startswith(f"{row.cann}."))


def driver_line(version: str) -> str | None:
    """Return major.minor of a driver version such as 25.3.rc1."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return f"{match[1]}.{match[2]}" if match else None
