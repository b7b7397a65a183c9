"""From many reports to one answer: which nodes are alike, what differs between them, and which of it is a fault.

Nodes are grouped by the fingerprint of their environment and by what was found there. One group is the reference:
the largest of those that are best off. Every other group is told by what sets it apart from that one. A difference
is called a fault only where a finding names it that the reference does not have; anything else only differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flexdoctor.findings import Finding, Verdict
from flexdoctor.nodes import Unusable
from flexdoctor.text import Text

#: "fault": a finding that only this group has names it. "drift": a part that the chain asks about. "other": the rest.
Standing = Literal["fault", "drift", "other"]
#: From which kind of difference on the exit code is 1; each includes those before it.
FailOn = Literal["error", "drift", "warning", "any"]
#: "alike": nothing differs and nothing is wrong. "drift": it differs, and nothing is wrong. "faulty": a node is broken,
#: missing or did not finish. "unknown": there is something that could not be judged.
JobVerdict = Literal["alike", "drift", "faulty", "unknown"]


@dataclass(frozen=True, slots=True)
class Node:
    """One judged node. `name` is the host, with the node's number or rank where the host alone is not unique."""

    name: str
    path: str
    host: str | None = None
    rank: int | None = None
    index: int | None = None
    run: str | None = None
    tool_version: str | None = None
    knowledge_date: str | None = None


@dataclass(frozen=True)
class Difference:
    """One key of the environment: the reference's value and this group's. None: the key is not there."""

    key: str
    usual: str | None
    here: str | None
    standing: Standing = "other"
    #: Codes of the findings that name it and that only this group has.
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Nodes with the same environment and the same findings. The first of `nodes` speaks for its evidence."""

    number: int
    fingerprint: str | None
    nodes: tuple[Node, ...]
    verdict: Verdict
    root_cause: str | None
    #: In the order of the chain, those that passed included.
    findings: tuple[Finding, ...]
    is_reference: bool = False
    #: Against the reference, what matters most first.
    differences: tuple[Difference, ...] = ()
    #: Findings other than passed ones that the reference does not have, and those that only the reference has.
    only_here: tuple[Finding, ...] = ()
    not_here: tuple[Finding, ...] = ()
    #: Why the environment could not be examined at all.
    error: str | None = None

    @property
    def noteworthy(self) -> tuple[Finding, ...]:
        """What to tell of this group: what only it has, and of the reference the errors."""
        if not self.is_reference:
            return self.only_here
        return tuple(item for item in self.findings if item.severity == "error")

    @property
    def cause(self) -> Finding | None:
        """The finding that speaks for the group: an error that only it has, else its root cause."""
        errors = [item for item in self.noteworthy if item.severity == "error"]
        named = [item for item in self.findings if item.code and item.code == self.root_cause]
        return next((item for item in errors if item in named), next(iter(errors or named), None))

    @property
    def has_drifted(self) -> bool:
        """Whether something differs from the reference that counts by itself or that a finding is about."""
        return any(item.standing != "other" for item in self.differences)

    @property
    def has_errors(self) -> bool:
        """Whether something found here is an error."""
        return self.error is not None or any(item.severity == "error" for item in self.findings)

    @property
    def has_warnings(self) -> bool:
        """Whether something found here is a warning."""
        return any(item.severity == "warning" for item in self.findings)


@dataclass(frozen=True)
class Unfinished:
    """A node that wrote that it starts and left no report of that start."""

    name: str
    path: str
    started: float | None = None
    run: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The answer for a whole job. Groups are in order of size, the largest first."""

    groups: tuple[Group, ...]
    verdict: JobVerdict
    #: The environment of the reference group.
    environment: dict[str, str]
    #: How many nodes there should be, and how that is known ("--expect", "--hosts", a launcher); None: nobody said.
    expected: int | None = None
    expected_by: str | None = None
    #: Nodes that left nothing: their names where a list was given, and how many they are.
    missing: tuple[str, ...] = ()
    missing_count: int = 0
    #: Nodes that nobody listed.
    unexpected: tuple[str, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    unusable: tuple[Unusable, ...] = ()
    #: What to bear in mind: several runs, versions or knowledge dates in one comparison.
    notes: tuple[Text, ...] = ()

    @property
    def reference(self) -> Group | None:
        """The group that the others are held against."""
        return next((group for group in self.groups if group.is_reference), None)

    @property
    def node_count(self) -> int:
        """How many nodes were judged."""
        return sum(len(group.nodes) for group in self.groups)


def exit_code(comparison: Comparison, *, fail_on: FailOn = "drift", strict: bool = False) -> int:
    """Return the exit code, the same for every format: 0 as wished, 1 not so, 3 nothing or not all could be judged."""
    if comparison.verdict == "faulty":
        return 1
    if not comparison.groups:
        return 3
    groups = comparison.groups
    if fail_on != "error" and any(group.has_drifted for group in groups):
        return 1
    if fail_on in ("warning", "any") and any(group.has_warnings for group in groups):
        return 1
    if fail_on == "any" and len(groups) > 1:
        return 1
    statuses = {item.status for group in groups for item in group.findings}
    if "crashed" in statuses:
        return 3
    return 3 if strict and (comparison.unusable or "unknown" in statuses) else 0
