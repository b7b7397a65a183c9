"""Facts recorded elsewhere: a snapshot is the JSON of Facts, so that a diagnosis can be replayed anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flexdoctor import __version__
from flexdoctor.facts import SCHEMA_VERSION, Facts
from flexdoctor.knowledge import FOLDER
from flexdoctor.serialise import DocumentError, from_json, to_json

KIND = "flexdoctor snapshot"
MAX_BYTES = 64 * 1024 * 1024


class SnapshotError(Exception):
    """The file is no snapshot that this doctor can read; one line that says why."""


def dump(facts: Facts) -> str:
    """Return `facts` as the text of a snapshot."""
    document = {"kind": KIND, "written_by": __version__, "facts": to_json(facts)}
    return json.dumps(document, indent=1) + "\n"


def load(path: Path) -> Facts:
    """Return the facts that a snapshot file holds.

    Raises:
        SnapshotError: it cannot be read, is cut off, is something else, or is from a newer doctor.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SnapshotError(f"{path} is too large to be a snapshot")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{path} is not a snapshot: it is not UTF-8 text") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Facts:
    """Return the facts in the text of a snapshot; `name` stands in messages.

    Raises:
        SnapshotError: see `load`.
    """
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{name} is not a whole snapshot: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise SnapshotError(f"{name} is not a snapshot (`flexdoctor snapshot` writes them)")
    facts = document.get("facts")
    version = facts.get("schema_version") if isinstance(facts, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise SnapshotError(
            f"{name} was written by flexdoctor {document.get('written_by')} with schema {version}; "
            f"this one reads up to {SCHEMA_VERSION}: update flexdoctor"
        )
    try:
        return from_json(Facts, facts, "facts")
    except DocumentError as error:
        raise SnapshotError(f"{name} is not a whole snapshot: {error}") from error


def example_names() -> list[str]:
    """Return the names of the shipped examples."""
    folder = FOLDER / "examples"
    return sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))


def load_example(name: str) -> Facts:
    """Return the facts of a shipped example.

    Raises:
        SnapshotError: there is none of that name; the message lists those that exist.
    """
    if name not in example_names():
        raise SnapshotError(f"there is no example {name}; there are {', '.join(example_names())}")
    path = FOLDER / "examples" / f"{name}.json"
    return parse(path.read_text(encoding="utf-8"), name)
