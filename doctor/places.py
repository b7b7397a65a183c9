"""Where something lies, and what could not be read: the two things that every kind of fact refers to."""

from __future__ import annotations

from flexdoctor.frozen import dataclass


@dataclass(frozen=True)
class Place:
    """A line that a person can open. `path` is absolute with the home folder as `~`, or inside a wheel."""

    path: str
    line: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Unread:
    """Something that should have been readable and was not."""

    path: str
    reason: str
