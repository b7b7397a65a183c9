"""`check --collect`: one file a node in a shared folder, whole or not there, and a trace of nodes that did not finish.

The folder may be on NFS or be an object store in disguise, so nothing is locked and nothing is appended to: every
process writes files of its own name, complete under a temporary name first, and renames them where that is possible.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any

from flexdoctor.nodes import STARTED_KIND, STARTED_SUFFIX, NodeIdentity
from flexdoctor.serialise import to_json
from flexdoctor.text import Text, UserError

#: What a file system says that cannot do the thing at all; a full disk is not among them.
_UNABLE = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.EINVAL, errno.EXDEV, errno.ENOTTY}
_MAX_NAME = 180


class CollectError(UserError):
    """The folder cannot take a report; one line that says why."""


@dataclasses.dataclass(frozen=True)
class Collection:
    """The files of one process in the folder of a job."""

    folder: Path
    identity: NodeIdentity
    every_rank: bool = False

    @property
    def is_mine(self) -> bool:
        """Whether this process reports: one for each node does, unless all are asked to."""
        return self.every_rank or not self.identity.local_rank

    @property
    def report_path(self) -> Path:
        """Where the report goes: a name made of host and rank.

        Where a launcher tells the rank but not which of them share a node, all of a node write under the name of the
        host alone, each replacing the other: one report a node, without a lock.
        """
        return self.folder / f"{self._stem}.json"

    @property
    def trace_path(self) -> Path:
        """Where the trace goes that this process started."""
        return self.folder / f"{self._stem}{STARTED_SUFFIX}"

    @property
    def _stem(self) -> str:
        host = re.sub(r"[^A-Za-z0-9._-]", "_", self.identity.host).strip(".")[:_MAX_NAME] or "_"
        rank_is_told = self.identity.rank is not None and (self.every_rank or self.identity.local_rank is not None)
        return f"{host}.rank{self.identity.rank}" if rank_is_told else host

    def start(self) -> None:
        """Leave the trace.

        Raises:
            CollectError: the folder cannot be made or written to.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CollectError(
                Text(
                    "--collect: {folder} is no folder and cannot be made one: {why}",
                    "--collect：{folder} 不是目录，也无法创建：{why}",
                ).format(folder=self.folder, why=error.strerror or error)
            ) from error
        trace = {"kind": STARTED_KIND, "node": to_json(self.identity)}
        self._write(self.trace_path, json.dumps(trace) + "\n")

    def finish(self, document: dict[str, Any]) -> Path:
        """Write the report and take the trace away; return where it is.

        Raises:
            CollectError: it cannot be written; the trace stays.
        """
        node = dataclasses.replace(self.identity, finished=round(time.time(), 3))
        self._write(self.report_path, report_text(document, node))
        with contextlib.suppress(OSError):  # a trace of a start that has its report is known for what it is
            self.trace_path.unlink(missing_ok=True)
        return self.report_path

    def _write(self, path: Path, text: str) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            try:
                _write_whole(temporary, text)
                os.replace(temporary, path)  # noqa: PTH105 - the call whose promise is meant
            except OSError as error:
                if error.errno not in _UNABLE:
                    raise
                _write_whole(path, text)
        except OSError as error:
            raise CollectError(
                Text("--collect: cannot write {path}: {why}", "--collect：无法写入 {path}：{why}").format(
                    path=path, why=error.strerror or error
                )
            ) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def report_text(document: dict[str, Any], node: NodeIdentity) -> str:
    """Return the text of a node's report: one line, compact, what is the node's own ahead of what nodes share."""
    head = {key: document[key] for key in ("schema_version", "tool", "verdict", "root_cause", "fingerprint")}
    return json.dumps({**head, "node": to_json(node), **document}, separators=(",", ":")) + "\n"


def start(folder: Path, identity: NodeIdentity, *, every_rank: bool = False) -> Collection | None:
    """Leave the trace that this process started; None where another process of the node reports.

    Raises:
        CollectError: see `Collection.start`.
    """
    collection = Collection(folder, dataclasses.replace(identity, started=round(time.time(), 3)), every_rank)
    if not collection.is_mine:
        return None
    collection.start()
    return collection


def _write_whole(path: Path, text: str) -> None:
    """Write `text` so that what the file system could not take is known here and now."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        try:
            os.fsync(stream.fileno())
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
