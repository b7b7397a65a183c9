"""What is known beyond the environment at hand, as data: each row with its source and date."""

from __future__ import annotations

import datetime
import functools
import sys
from pathlib import Path
from typing import Any

from flexdoctor.frozen import dataclass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Where the data lies. An installed wheel is always a folder: importlib.resources would only cost its import.
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Claim:
    """A public statement about a fault, and how far the files bear it out."""

    about: str
    text: str
    standing: str
    source: str
    date: datetime.date


@functools.cache
def load_table(name: str) -> dict[str, Any]:
    """Return the content of one shipped TOML file, by its name without ending. Nobody may change what is returned."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@functools.cache
def claims() -> tuple[Claim, ...]:
    """Return every public statement that is shown beside a finding."""
    return tuple(Claim(**row) for row in load_table("claims")["claim"])


def claims_about(code: str) -> tuple[Claim, ...]:
    """Return the public statements about one fault."""
    return tuple(claim for claim in claims() if claim.about == code)


def newest_date() -> datetime.date:
    """Return the date of the newest row: how fresh this doctor's knowledge is."""
    return max(claim.date for claim in claims())
