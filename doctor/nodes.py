"""What is known of the nodes of a job: who they are, what they reported, and what came instead of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

#: What `check --collect` writes first, and removes once the report is there.
STARTED_KIND = "flexdoctor started"
STARTED_SUFFIX = ".started.json"

#: Why a file says nothing of a node. Only "foreign" and "folder" leave open whether it ever was a node's report.
UnusableKind = Literal["cut off", "empty", "binary", "unreadable", "newer", "malformed", "foreign", "folder"]


@dataclass(frozen=True)
class NodeIdentity:
    """One process of a job, as its launcher names it. What a launcher does not tell is None."""

    host: str
    rank: int | None = None
    local_rank: int | None = None
    #: Which node of the job this is, counted from 0.
    index: int | None = None
    launcher: str | None = None
    #: Which run of which job, so that what an earlier one left behind is known as such.
    run: str | None = None
    #: How many nodes the job has, and their names in the launcher's own notation.
    nodes: int | None = None
    node_names: str | None = None
    #: Seconds since the epoch.
    started: float | None = None
    finished: float | None = None


@dataclass(frozen=True)
class NodeReport:
    """A whole report: the document as parsed (see report.schema.json), and of which node it is, where it says so."""

    path: str
    document: dict[str, Any]
    identity: NodeIdentity | None = None


@dataclass(frozen=True)
class NodeSnapshot:
    """The text of a snapshot, which is still to be diagnosed."""

    path: str
    text: str


@dataclass(frozen=True)
class StartedTrace:
    """A node wrote that it starts. Without a report of the same start it never finished."""

    path: str
    identity: NodeIdentity


@dataclass(frozen=True)
class Unusable:
    """A file that is no report that can be read, and what was found instead."""

    path: str
    kind: UnusableKind
    detail: str = ""

    @property
    def costs_a_node(self) -> bool:
        """Whether a node may have gone unjudged by it."""
        return self.kind not in ("foreign", "folder")
