"""Reports of many nodes from disk, one at a time; whatever is no report is named and never stops the rest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flexdoctor.nodes import (
    STARTED_KIND,
    NodeIdentity,
    NodeReport,
    NodeSnapshot,
    StartedTrace,
    Unusable,
)

#: What a report says it is, and the newest that can be read here.
SCHEMA_VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
_SNAPSHOT_KIND = "flexdoctor snapshot"
_VERDICTS = ("healthy", "broken", "unknown", "waived")

#: What follows the head of a collected report, how far into the file that may be, and how many are kept.
_SEAM = b',"target":'
_MAX_HEAD = 8192
_MOST_PARSED = 16
#: Control characters and halves of surrogate pairs, as JSON writes them and as they are then.
_ODD_ESCAPE = re.compile(rb"\\u(?:00[0-18-9]|007[fF]|[dD][89a-fA-F])|\\[bf]")
_ODD_CHARACTER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

Item = NodeReport | NodeSnapshot | StartedTrace | Unusable


class ReportReader:
    """Reads reports; what many nodes wrote alike, which is nearly all of it, is parsed once.

    `check --collect` writes who the node is ahead of everything else. What follows is the same text, byte for byte,
    wherever the environment is the same.
    """

    def __init__(self) -> None:
        self._parsed: dict[bytes, dict[str, Any]] = {}

    def read_folder(self, folder: Path) -> Iterator[Item]:
        """Yield what each `*.json` directly below `folder` holds, in the order of the names.

        Raises:
            OSError: the folder itself cannot be listed.
        """
        with os.scandir(folder) as entries:
            # A pipe would be waited for without end.
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(".json")
                and entry.name[0] != "."
                and (entry.is_file() or entry.is_dir() or entry.is_symlink())
            )
        for name in names:
            yield self.read_file(f"{folder}/{name}")

    def read_file(self, path: str) -> Item:
        """Return what one file holds."""
        item = self._read(path)
        # The name of a file may be no text at all.
        return item if path.isascii() else dataclasses.replace(item, path=path.encode(errors="replace").decode())

    def _read(self, path: str) -> Item:
        try:
            with open(path, "rb") as stream:  # noqa: PTH123 - ten thousand times, and a Path each costs a second
                content = stream.read(MAX_BYTES + 1)
        except IsADirectoryError:
            return Unusable(path, "folder")
        except OSError as error:
            return Unusable(path, "unreadable", error.strerror or str(error))
        if len(content) > MAX_BYTES:
            return Unusable(path, "foreign", "too large to be a report")
        try:
            document = self._parse(content)
        except UnicodeDecodeError:
            return Unusable(path, "binary")
        except json.JSONDecodeError as error:
            return _broken(path, content, error)
        except (ValueError, RecursionError):
            return Unusable(path, "foreign", "no JSON that can be read")
        return _identify(path, document, content)

    def _parse(self, content: bytes) -> Any:
        seam = content.find(_SEAM, 0, _MAX_HEAD)
        if seam < 0:
            return _loads(content)
        digest = hashlib.sha256(memoryview(content)[seam:]).digest()
        known = self._parsed.get(digest)
        if known is not None:
            return {**known, **_loads(content[:seam] + b"}")}
        document = _loads(content)
        if isinstance(document, dict):
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed.clear()
            self._parsed[digest] = document
        return document


def _loads(content: bytes) -> Any:
    """Return the parsed JSON, rid of what would garble a terminal or cannot be written: it is text for people."""
    document = json.loads(content)
    return _cleaned(document) if _ODD_ESCAPE.search(content) else document


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _ODD_CHARACTER.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _broken(path: str, content: bytes, error: json.JSONDecodeError) -> Unusable:
    if not content.strip():
        return Unusable(path, "empty")
    if b"\0" in content[:4096]:
        return Unusable(path, "binary")
    ends = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
    if content.lstrip()[:1] == b"{" and (ends or b'"flexdoctor' in content[:4096]):
        return Unusable(path, "cut off", f"ends after {len(content)} bytes" if ends else str(error))
    return Unusable(path, "foreign", f"no JSON: {error}")


def _identify(path: str, document: Any, content: bytes) -> Item:
    if not isinstance(document, dict):
        return Unusable(path, "foreign", "no JSON object")
    kind, tool = document.get("kind"), document.get("tool")
    if kind == STARTED_KIND:
        identity = _identity(document.get("node"))
        return StartedTrace(path, identity) if identity else Unusable(path, "malformed", "a trace that names no node")
    if kind == _SNAPSHOT_KIND:
        return NodeSnapshot(path, content.decode("utf-8", errors="replace"))
    if not isinstance(tool, dict) or tool.get("name") != "flexdoctor":
        name = tool.get("name") if isinstance(tool, dict) else None
        return Unusable(path, "foreign", f"written by {name}" if isinstance(name, str) else "no report of flexdoctor")
    if kind is not None or not {"verdict", "findings"} & document.keys():
        return Unusable(path, "foreign", "written by flexdoctor, but no report of a node")
    version = document.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        return Unusable(path, "newer", f"schema {version}, this flexdoctor reads up to {SCHEMA_VERSION}")
    if problem := _problem(document):
        return Unusable(path, "malformed", problem)
    return NodeReport(path, document, _identity(document.get("node")))


def _problem(document: dict[str, Any]) -> str | None:
    """Return what keeps a document from being judged; the whole shape is the schema's business."""
    if document.get("schema_version") != SCHEMA_VERSION:
        return f"schema_version is {document.get('schema_version')!r}"
    if document.get("verdict") not in _VERDICTS:
        return f"verdict is {document.get('verdict')!r}"
    findings, environment = document.get("findings"), document.get("environment", {})
    if not isinstance(findings, list) or not all(isinstance(item, dict) for item in findings):
        return "findings is no list of objects"
    if not isinstance(environment, dict):
        return "environment is no object"
    return None


def _identity(data: object) -> NodeIdentity | None:
    """Return who a node is, as far as it is told in the right form; without a host nobody is named."""
    if not isinstance(data, dict) or not isinstance(data.get("host"), str) or not data["host"].strip():
        return None

    def number(key: str) -> int | None:
        value = data.get(key)
        is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000_000
        return value if is_number else None

    def text(key: str) -> str | None:
        value = data.get(key)
        return " ".join(value.split()) if isinstance(value, str) else None

    def moment(key: str) -> float | None:
        value = data.get(key)
        # Ten digits are enough for any second; JSON may also hold NaN and numbers beyond a float.
        return float(value) if isinstance(value, int | float) and abs(value) < 1e11 else None

    return NodeIdentity(
        host=" ".join(data["host"].split()),
        rank=number("rank"),
        local_rank=number("local_rank"),
        index=number("index"),
        launcher=text("launcher"),
        run=text("run"),
        nodes=number("nodes") or None,
        node_names=text("node_names"),
        started=moment("started"),
        finished=moment("finished"),
    )
