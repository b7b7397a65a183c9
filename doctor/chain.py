"""From facts to a report: run the links in order, block what hangs on a broken one, name one root cause."""

from __future__ import annotations

import dataclasses
import datetime
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flexdoctor import waivers as waiving
from flexdoctor.facts import Facts
from flexdoctor.findings import (
    CAPABILITIES,
    Capability,
    CapabilityAnswer,
    Evidence,
    Fault,
    Finding,
    Report,
    Severity,
    Verdict,
    Waiver,
)
from flexdoctor.frozen import dataclass
from flexdoctor.text import Text

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

CRASH = Fault(
    "FD001",
    Text(
        "this check crashed, which is a bug of flexdoctor: {error}",
        "该检查自身崩溃，这是 flexdoctor 的缺陷：{error}",
    ),
    severity="none",
)
CRASHED = CRASH.code
#: The page of `CRASH`; those of a link's faults lie beside its check.
PAGES = Path(__file__).with_suffix(".toml")
#: What keeps the links behind from being judged: a fault, or not knowing.
_BROKEN = ("fail", "unknown")


@dataclass(frozen=True)
class Check:
    """One link of the chain: a pure function of facts, and the faults that it can name.

    `examine` returns at least one finding. `requires` names links that must hold before this one can be judged.
    """

    link: str
    title: Text
    question: Text
    faults: tuple[Fault, ...]
    examine: Callable[[Facts], Iterable[Finding]]
    requires: tuple[str, ...] = ()
    #: In place of `examine`, for a link that holds what it saw against what the links before it found.
    weigh: Callable[[Facts, Sequence[Finding]], Iterable[Finding]] | None = None
    #: The file with a page for each fault (see `flexdoctor.pages`); opened by `flexdoctor explain` only.
    pages: Traversable | None = None
    #: For a check that another distribution brings: the link behind which it stands. None: at the end.
    after: str | None = None

    @property
    def affects(self) -> tuple[Capability, ...]:
        """Every capability that some fault of this link takes away."""
        touched = {capability for fault in self.faults for capability in fault.affects}
        return tuple(capability for capability in CAPABILITIES if capability in touched)


def diagnose(
    facts: Facts,
    chain: Sequence[Check],
    *,
    required: Capability = "compiled_forward",
    hardware_required: bool = False,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    waivers: Iterable[Waiver] = (),
    today: datetime.date | None = None,
) -> Report:
    """Run `chain` over `facts`.

    Args:
        required: the capability that the verdict is about.
        hardware_required: the absence of an Ascend device or of CANN counts as an error too.
        select: codes, code prefixes or link names; other links and codes are left out. Empty: everything.
        ignore: codes or code prefixes whose findings are dropped.
        waivers: faults that are shown but count for nothing; those that expired or match nothing are told.
        today: the day on which the waivers are weighed. None: no waiver has expired.
    """
    select, ignore, waivers = tuple(select), tuple(ignore), tuple(waivers)
    today = today or datetime.date.min
    broken: dict[str, str] = {}
    everything: list[Finding] = []
    for check in chain:
        if cause := next((broken[link] for link in check.requires if link in broken), None):
            broken[check.link] = cause
            found: list[Finding] = [_blocked(check, cause)]
        else:
            found = [_settle(finding, required, hardware_required) for finding in _run(check, facts, everything)]
            # What was ignored by the user still stands in the way of the links behind it.
            if code := next((item.code for item in found if item.status in _BROKEN and item.blocks), None):
                broken[check.link] = code
        everything += found
    proven = {capability for item in everything for capability in item.proves}
    everything = [_without_refuted(item, proven, required) for item in everything]
    everything = waiving.apply(everything, waivers, today)
    findings = [item for item in everything if _is_wanted(item, select, ignore)]
    if waivers:
        links = {fault.code: check.link for check in chain for fault in check.faults}
        notices = [*waiving.notices(facts, everything, findings, waivers, links, today)]
        # What a selection leaves out is no reason to speak of its waivers.
        notices = [item for item in waiving.apply(notices, waivers, today) if _is_wanted(item, (), ignore)]
        findings += [item for item in notices if not select or item.code == waiving.EXPIRED.code]
    root_cause = _root_cause(findings, required)
    # What an environment can run does not change with what the user wants to see.
    capabilities = answers(everything)
    return Report(
        findings=tuple(findings),
        capabilities=capabilities,
        verdict=_verdict(findings, everything, capabilities[required], required),
        root_cause=root_cause,
        required=required,
        ignored=ignore,
    )


def _without_refuted(finding: Finding, proven: set[Capability], required: Capability) -> Finding:
    """Let nothing count against a capability that was seen to work."""
    left = tuple(capability for capability in finding.affects if capability not in proven)
    if left != finding.affects and finding.status == "fail" and required not in left:
        return dataclasses.replace(finding, affects=left, status="warn", severity="warning")
    return dataclasses.replace(finding, affects=left)


def _run(check: Check, facts: Facts, before: Sequence[Finding]) -> list[Finding]:
    try:
        return list(check.weigh(facts, before) if check.weigh else check.examine(facts)) or [_silent(check)]
    except Exception as error:  # noqa: BLE001 - a bug in one check must not cost the user the other links
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return [
            Finding(
                link=check.link,
                status="crashed",
                code=CRASHED,
                title=CRASH.title.format(error=f"{type(error).__name__}: {error}"),
                evidence=(Evidence("probe", frame.line or "", path=frame.filename, line=frame.lineno),),
                affects=check.affects,
            )
        ]


def _silent(check: Check) -> Finding:
    return Finding(
        link=check.link,
        status="unknown",
        title=Text("nothing is known of what this link looks at", "缺少此环节所需的信息"),
        affects=check.affects,
    )


def _blocked(check: Check, cause: str) -> Finding:
    return Finding(
        link=check.link,
        status="blocked",
        title=Text("cannot be judged before {code} is settled", "须先解决 {code} 才能判断").format(code=cause),
        blocked_by=cause,
    )


def _settle(finding: Finding, required: Capability, hardware_required: bool) -> Finding:
    """Turn a fault into a failure or a warning, by what the user requires."""
    if finding.status != "fail":
        return finding
    severity: Severity = finding.severity
    if finding.machine_only and not hardware_required:
        severity = "warning"
    elif finding.affects:
        severity = "error" if required in finding.affects else "warning"
    return dataclasses.replace(finding, severity=severity, status="fail" if severity == "error" else "warn")


def _is_wanted(finding: Finding, select: tuple[str, ...], ignore: tuple[str, ...]) -> bool:
    if finding.code and finding.status not in ("pass", "crashed") and finding.code.startswith(ignore or ("\0",)):
        return False
    return not select or finding.link in select or (finding.code or "").startswith(select)


def _root_cause(findings: Iterable[Finding], required: Capability) -> Finding | None:
    """Return the first broken link, in the order of the chain, that stands in the way of what is required."""
    candidates = [item for item in findings if item.status in ("fail", "warn") and item.waiver is None]
    return next((item for item in candidates if item.status == "fail" or required in item.affects), None)


def answers(findings: Sequence[Finding]) -> dict[Capability, CapabilityAnswer]:
    """Return in which ways flex_attention can run, by what the findings take away."""
    return {capability: _answer(capability, findings) for capability in CAPABILITIES}


def _answer(capability: Capability, findings: Sequence[Finding]) -> CapabilityAnswer:
    def first(statuses: tuple[str, ...]) -> Finding | None:
        return next((item for item in findings if item.status in statuses and capability in item.affects), None)

    if culprit := first(("fail", "warn")):
        return CapabilityAnswer("no", culprit.code)
    if doubt := first(("unknown", "crashed")):
        return CapabilityAnswer("unknown", doubt.code)
    return CapabilityAnswer("yes")


def _verdict(
    findings: Iterable[Finding], everything: Iterable[Finding], answer: CapabilityAnswer, required: Capability
) -> Verdict:
    if any(finding.severity == "error" for finding in findings):
        return "broken"
    if answer.available == "yes":
        return "healthy"
    against = [item for item in everything if item.status in ("fail", "warn") and required in item.affects]
    return "waived" if against and all(item.waiver for item in against) else "unknown"
