"""Small pieces that several checks say in the same way."""

from __future__ import annotations

from collections.abc import Iterable

from flexdoctor.facts import Distribution, Patch, Place, Unread
from flexdoctor.findings import Evidence
from flexdoctor.text import Text


def at(place: Place | None) -> tuple[Evidence, ...]:
    """Evidence for a line of a file; none when there is no such place."""
    return () if place is None else (Evidence("file", place.text, path=place.path, line=place.line),)


def metadata(dist: Distribution, text: str) -> Evidence:
    """Evidence in the metadata of a distribution."""
    return Evidence("metadata", text, path=dist.metadata_path)


def patch_evidence(patch: Patch) -> tuple[Evidence, ...]:
    """Evidence for a patch: where it is made and, if known, which line makes it happen."""
    return (*at(patch.place), *at(patch.via))


def unreadable(items: Iterable[Unread]) -> tuple[Evidence, ...]:
    """Evidence for files that could not be read."""
    return tuple(Evidence("file", item.reason, path=item.path) for item in items)


def could_not_read(what: str) -> Text:
    """Say that a question stays open because its file could not be read."""
    return Text("could not tell: {what} cannot be read", "无法判断：{what} 不可读").format(what=what)
