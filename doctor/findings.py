"""What a diagnosis says: faults, findings, capabilities and the report that holds them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import field
from typing import Literal

from flexdoctor.frozen import dataclass
from flexdoctor.text import NOTHING, Text

Capability = Literal["eager", "compiled_forward", "compiled_backward", "compiled_captured"]
COMPILED: tuple[Capability, ...] = ("compiled_forward", "compiled_backward", "compiled_captured")
CAPABILITIES: tuple[Capability, ...] = ("eager", *COMPILED)

Status = Literal["pass", "warn", "fail", "blocked", "skipped", "unknown", "crashed"]
Severity = Literal["error", "warning", "none"]
Availability = Literal["yes", "no", "unknown"]
#: `waived`: what is required does not run, for faults alone that the user has decided to live with.
Verdict = Literal["healthy", "broken", "unknown", "waived"]
EvidenceKind = Literal["file", "metadata", "variable", "device", "probe", "knowledge"]


@dataclass(frozen=True)
class Evidence:
    """Proof that a person can open: a line of a file, a metadata field, a variable, a knowledge row."""

    kind: EvidenceKind
    text: str
    path: str | None = None
    line: int | None = None
    source: str | None = None


@dataclass(frozen=True)
class Fault:
    """A kind of fault with a stable code.

    `affects` are the capabilities that it takes away. A fault that affects the required capability is an error,
    otherwise a warning; a fault that affects none has the severity that it states.
    """

    code: str
    title: Text
    affects: tuple[Capability, ...] = ()
    severity: Severity = "error"
    #: Whether the links that require this one can still be judged while the fault is there.
    blocks: bool = True


@dataclass(frozen=True)
class Waiver:
    """A user's decision to live with a fault, with the reason that they gave."""

    code: str
    reason: str
    expires: datetime.date | None = None
    #: The file in which it stands.
    path: str | None = None


@dataclass(frozen=True)
class Finding:
    """What one link says about one question.

    Checks state the question's answer; the chain settles `status` and `severity` of a fault against the required
    capability (see `flexdoctor.chain`).
    """

    link: str
    status: Status
    title: Text
    code: str | None = None
    severity: Severity = "none"
    detail: Text = NOTHING
    evidence: tuple[Evidence, ...] = ()
    predicted_errors: tuple[str, ...] = ()
    remedy: Text = NOTHING
    affects: tuple[Capability, ...] = ()
    blocked_by: str | None = None
    blocks: bool = False
    #: The absence of hardware is a fact about the machine: it leads the report, but does not decide its exit code.
    machine_only: bool = False
    #: Capabilities that were seen to work on an NPU: what else stands against them is refuted.
    proves: tuple[Capability, ...] = ()
    #: The fault is there and shown, but counts for nothing: its severity is "none".
    waiver: Waiver | None = None


@dataclass(frozen=True)
class CapabilityAnswer:
    """Whether flex_attention can run in this way, and the code that says why not."""

    available: Availability
    because: str | None = None


@dataclass(frozen=True)
class Report:
    """The diagnosis of one environment, independent of how it is rendered."""

    findings: tuple[Finding, ...]
    capabilities: dict[Capability, CapabilityAnswer]
    verdict: Verdict
    root_cause: Finding | None
    required: Capability
    ignored: tuple[str, ...] = field(default=())

    @property
    def is_incomplete(self) -> bool:
        """A check crashed: the doctor itself has a bug, and the report may lack something."""
        return any(finding.status == "crashed" for finding in self.findings)


def exit_code(report: Report, *, fail_on: Severity = "error", strict: bool = False, exit_zero: bool = False) -> int:
    """Return the exit code of `report`, the same for every format: 0 clean, 1 findings, 3 could not complete."""
    if exit_zero:
        return 0
    counted = ("error",) if fail_on == "error" else ("error", "warning")
    if any(finding.severity in counted for finding in report.findings):
        return 1
    if report.is_incomplete:
        return 3
    if strict and any(finding.status == "unknown" and finding.waiver is None for finding in report.findings):
        return 3
    return 0


def found(
    link: str,
    fault: Fault,
    *,
    evidence: Iterable[Evidence] = (),
    detail: Text = NOTHING,
    remedy: Text = NOTHING,
    predicted_errors: Iterable[str] = (),
    machine_only: bool = False,
    affects: tuple[Capability, ...] | None = None,
    **values: object,
) -> Finding:
    """Return a finding of `fault`; `values` fill the placeholders of its title.

    `affects` narrows what the fault takes away in this case.
    """
    return Finding(
        link=link,
        status="fail",
        code=fault.code,
        severity=fault.severity,
        title=fault.title.format(**values) if values else fault.title,
        detail=detail,
        evidence=tuple(evidence),
        predicted_errors=tuple(predicted_errors),
        remedy=remedy,
        affects=fault.affects if affects is None else affects,
        blocks=fault.blocks,
        machine_only=machine_only,
    )


def passed(link: str, title: Text, *, evidence: Iterable[Evidence] = (), detail: Text = NOTHING) -> Finding:
    """Return a finding that the link holds."""
    return Finding(link=link, status="pass", title=title, evidence=tuple(evidence), detail=detail)


def unknown(
    link: str,
    fault: Fault,
    reason: Text,
    *,
    evidence: Iterable[Evidence] = (),
    remedy: Text = NOTHING,
    affects: tuple[Capability, ...] | None = None,
    blocks: bool | None = None,
) -> Finding:
    """Return a finding that the question of `fault` could not be answered."""
    return Finding(
        link=link,
        status="unknown",
        code=fault.code,
        title=reason,
        evidence=tuple(evidence),
        remedy=remedy,
        affects=fault.affects if affects is None else affects,
        blocks=fault.blocks if blocks is None else blocks,
    )


def skipped(link: str, reason: Text) -> Finding:
    """Return a finding that the link does not apply here or was not asked for."""
    return Finding(link=link, status="skipped", title=reason)
