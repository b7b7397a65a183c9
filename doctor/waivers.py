"""Faults that a user has decided to live with: still found, still shown, counted for nothing, until they expire."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flexdoctor.facts import Facts
from flexdoctor.findings import Evidence, Fault, Finding, Waiver, found
from flexdoctor.text import Text

#: What is said about the configuration itself stands under this name, behind the links of the chain.
LINK = "configuration"
UNUSED = Fault(
    "FD002",
    Text(
        "the waiver of {code} matches nothing here; it can go if that holds everywhere",
        "对 {code} 的豁免在此处没有匹配到任何结果；若各处均如此，可将其删除",
    ),
    severity="warning",
)
EXPIRED = Fault(
    "FD003",
    Text(
        "the waiver of {code} expired on {date}, so it counts again",
        "对 {code} 的豁免已于 {date} 到期，该问题重新计入",
    ),
    severity="warning",
)
FAULTS = (UNUSED, EXPIRED)
PAGES = Path(__file__).with_suffix(".toml")
#: What can be waived. A crash is a bug, and a link that was not judged has nothing to waive.
_WAIVABLE = ("fail", "warn", "unknown")


def apply(findings: Iterable[Finding], waivers: Sequence[Waiver], today: datetime.date) -> list[Finding]:
    """Return `findings` with the waivers that hold today put on them. What each takes away does not change."""
    valid = {item.code: item for item in waivers if not has_expired(item, today)}
    return [
        dataclasses.replace(item, waiver=valid[item.code], severity="none")
        if item.code in valid and item.status in _WAIVABLE
        else item
        for item in findings
    ]


def has_expired(waiver: Waiver, today: datetime.date) -> bool:
    """Tell whether the last day of a waiver has passed."""
    return waiver.expires is not None and waiver.expires < today


def notices(
    facts: Facts,
    everything: Sequence[Finding],
    shown: Sequence[Finding],
    waivers: Sequence[Waiver],
    links: dict[str, str],
    today: datetime.date,
) -> Iterator[Finding]:
    """Yield what there is to say about the waivers themselves.

    Args:
        everything: all that was found.
        shown: what the user wanted to see of it.
        links: the link that can name each code.
    """
    judged = _links_without_doubt(everything)
    for waiver in waivers:
        matches = [item for item in everything if item.code == waiver.code and item.status in _WAIVABLE]
        if matches and has_expired(waiver, today):
            if any(item in shown for item in matches):
                yield _notice(EXPIRED, waiver)
        elif not matches and facts.target.kind == "environment" and links.get(waiver.code) in judged:
            yield _notice(UNUSED, waiver)


def _links_without_doubt(everything: Sequence[Finding]) -> set[str]:
    """Return the links that were judged to their end: only there does the absence of a code mean something.

    Elsewhere, on a machine without devices or for a plan, the same configuration may be right for another machine.
    """
    doubtful = {
        item.link
        for item in everything
        if item.status in ("blocked", "skipped", "unknown", "crashed") or item.machine_only or item.status == "fail"
    }
    return {item.link for item in everything} - doubtful


def _notice(fault: Fault, waiver: Waiver) -> Finding:
    finding = found(
        LINK,
        fault,
        evidence=[Evidence("file", f"{waiver.code}: {waiver.reason}", path=waiver.path)],
        remedy=Text("remove the waiver, or give it a later date", "删除该豁免，或改为更晚的日期")
        if fault is EXPIRED
        else Text(
            'remove it, or accept this too where one file serves different machines: FD002 = "why"',
            '删除该豁免；若同一份配置用于不同机器，也可一并豁免：FD002 = "原因"',
        ),
        code=waiver.code,
        date=waiver.expires,
    )
    return dataclasses.replace(finding, status="warn")


def words(waiver: Waiver) -> Text:
    """Return why, and until when, a fault is accepted."""
    if waiver.expires is None:
        return Text(waiver.reason, waiver.reason)
    return Text("{reason} (until {date})", "{reason}（至 {date}）").format(reason=waiver.reason, date=waiver.expires)
