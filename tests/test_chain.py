"""The chain: order, blocking, root cause, what is required, what crashes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import samples

from flexdoctor.chain import CRASHED, Check, diagnose
from flexdoctor.facts import Facts
from flexdoctor.findings import (
    CAPABILITIES,
    COMPILED,
    Capability,
    Fault,
    Finding,
    Report,
    exit_code,
    found,
    passed,
    unknown,
)
from flexdoctor.text import Text


def said(text: str) -> Text:
    return Text(text, text)


ALL = Fault("FD901", said("all"), affects=CAPABILITIES)
COMPILE = Fault("FD902", said("compile"), affects=COMPILED)
CAPTURE = Fault("FD903", said("capture"), affects=("compiled_captured",))
HARMLESS = Fault("FD904", said("harmless"), severity="warning", blocks=False)


def link(name: str, *findings: Finding, requires: tuple[str, ...] = (), raises: Exception | None = None) -> Check:
    def examine(_: Facts) -> Iterable[Finding]:
        if raises:
            raise raises
        return findings

    return Check(name, said(name), said(name), (ALL, COMPILE, CAPTURE, HARMLESS), examine, requires)


def run(*chain: Check, required: Capability = "compiled_forward", hardware: bool = False) -> Report:
    return diagnose(samples.HEALTHY, chain, required=required, hardware_required=hardware)


def test_all_links_hold() -> None:
    report = run(link("a", passed("a", said("fine"))), link("b", passed("b", said("fine")), requires=("a",)))
    assert report.verdict == "healthy"
    assert report.root_cause is None
    assert {answer.available for answer in report.capabilities.values()} == {"yes"}
    assert exit_code(report) == 0


def test_first_broken_link_is_the_root_cause_and_blocks_what_hangs_on_it() -> None:
    report = run(
        link("a", found("a", COMPILE)),
        link("b", found("b", ALL), requires=("a",)),
        link("c", found("c", COMPILE), requires=("b",)),
        link("d", passed("d", said("fine"))),
    )
    assert [(item.status, item.blocked_by) for item in report.findings] == [
        ("fail", None),
        ("blocked", "FD902"),
        ("blocked", "FD902"),
        ("pass", None),
    ]
    assert report.root_cause is not None
    assert report.root_cause.code == "FD902"
    assert report.capabilities["eager"].available == "yes"
    assert report.capabilities["compiled_backward"].because == "FD902"
    assert exit_code(report) == 1


@pytest.mark.parametrize(
    ("required", "status", "verdict", "code"),
    [("eager", "warn", "healthy", 0), ("compiled_captured", "fail", "broken", 1)],
)
def test_what_is_required_decides_whether_a_fault_is_an_error(
    required: Capability, status: str, verdict: str, code: int
) -> None:
    report = run(link("a", found("a", CAPTURE)), required=required)
    assert report.findings[0].status == status
    assert report.verdict == verdict
    assert exit_code(report) == code
    assert report.capabilities["compiled_captured"].because == "FD903"


def test_a_warning_counts_only_when_asked() -> None:
    report = run(link("a", found("a", HARMLESS)))
    assert (report.verdict, exit_code(report), exit_code(report, fail_on="warning")) == ("healthy", 0, 1)
    assert report.root_cause is None


def test_absent_hardware_leads_the_report_without_deciding_it() -> None:
    finding = found("machine", ALL, machine_only=True)
    report = run(link("machine", finding), link("b", passed("b", said("fine"))))
    assert report.root_cause is not None
    assert report.root_cause.code == "FD901"
    assert (report.verdict, exit_code(report)) == ("unknown", 0)
    demanded = run(link("machine", finding), hardware=True)
    assert (demanded.verdict, exit_code(demanded)) == ("broken", 1)


def test_unknown_is_never_green() -> None:
    report = run(link("a", unknown("a", COMPILE, said("cannot tell"))), link("b", requires=("a",)))
    assert [item.status for item in report.findings] == ["unknown", "blocked"]
    assert report.capabilities["compiled_forward"].available == "unknown"
    assert report.verdict == "unknown"
    assert (exit_code(report), exit_code(report, strict=True)) == (0, 3)


def test_a_check_that_says_nothing_is_unknown() -> None:
    report = run(link("a"))
    assert report.findings[0].status == "unknown"
    assert report.verdict == "unknown"


def test_a_crashed_check_is_shown_and_the_others_still_run() -> None:
    report = run(link("a", raises=ZeroDivisionError("by zero")), link("b", found("b", CAPTURE)))
    assert [item.status for item in report.findings] == ["crashed", "warn"]
    crash = report.findings[0]
    assert crash.code == CRASHED
    assert "ZeroDivisionError: by zero" in crash.title.en
    assert crash.evidence[0].path is not None
    assert crash.evidence[0].path.endswith("test_chain.py")
    assert (report.verdict, exit_code(report)) == ("unknown", 3)


def test_an_error_outweighs_a_crash() -> None:
    report = run(link("a", raises=RuntimeError()), link("b", found("b", ALL)))
    assert exit_code(report) == 1
    assert exit_code(report, exit_zero=True) == 0


def test_ignored_codes_do_not_decide_but_stay_in_the_capabilities() -> None:
    chain = [link("a", found("a", COMPILE))]
    report = diagnose(samples.HEALTHY, chain, ignore=["FD90"])
    assert report.findings == ()
    assert report.capabilities["compiled_forward"].because == "FD902"
    assert exit_code(report) == 0
    assert report.verdict != "healthy"


def test_select_keeps_links_and_code_prefixes() -> None:
    chain = [link("a", found("a", COMPILE)), link("b", found("b", CAPTURE), passed("b", said("fine")))]
    assert [item.link for item in diagnose(samples.HEALTHY, chain, select=["b"]).findings] == ["b", "b"]
    assert [item.code for item in diagnose(samples.HEALTHY, chain, select=["FD902"]).findings] == ["FD902"]
