"""Faults that a user lives with: shown, counted for nothing, until they expire or match nothing."""

from __future__ import annotations

import dataclasses
import datetime
import json
from importlib.resources import files
from pathlib import Path

import builders
import jsonschema
import pytest
import samples
from in_process import run

from flexdoctor import pages, waivers
from flexdoctor.chain import Check, diagnose
from flexdoctor.facts import Facts
from flexdoctor.findings import COMPILED, Capability, Fault, Finding, Report, Waiver, exit_code, found, passed, skipped
from flexdoctor.findings import unknown as doubt
from flexdoctor.plugins import loading
from flexdoctor.text import Text

TODAY = datetime.date(2026, 11, 30)
SCHEMA = json.loads(files("flexdoctor.reports").joinpath("report.schema.json").read_text(encoding="utf-8"))
GATE = Fault("FD901", Text("the gate is closed", "门禁未放行"), affects=COMPILED)
NOISE = Fault("FD902", Text("noise", "噪声"), severity="warning")
PLANNED = dataclasses.replace(samples.HEALTHY, target=dataclasses.replace(samples.HEALTHY.target, kind="requirements"))
INSTALLED = dataclasses.replace(samples.HEALTHY, target=dataclasses.replace(samples.HEALTHY.target, kind="environment"))
HOLDS = passed("gate", Text("open", "已放行"))


def link(name: str, *findings: Finding, faults: tuple[Fault, ...] = (), requires: tuple[str, ...] = ()) -> Check:
    said = Text(name, name)
    return Check(name, said, said, faults, lambda _: iter(findings), requires=requires)


def judge(
    *chain: Check,
    waive: tuple[Waiver, ...] = (),
    facts: Facts = INSTALLED,
    required: Capability = "compiled_forward",
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
) -> Report:
    return diagnose(facts, chain, waivers=waive, today=TODAY, required=required, select=select, ignore=ignore)


def until(day: str | None, code: str = "FD901") -> tuple[Waiver, ...]:
    return (Waiver(code, "known", datetime.date.fromisoformat(day) if day else None, "~/flexdoctor.toml"),)


def codes(report: Report) -> list[str | None]:
    return [item.code for item in report.findings]


def test_without_waivers_nothing_changes() -> None:
    gate = link("gate", found("gate", GATE), faults=(GATE,))
    report = judge(gate)
    assert report == diagnose(INSTALLED, (gate,))
    assert (report.verdict, exit_code(report)) == ("broken", 1)


@pytest.mark.parametrize("day", [None, "2026-11-30", "2027-01-01"])
def test_a_waived_fault_is_shown_and_counts_for_nothing(day: str | None) -> None:
    report = judge(link("gate", found("gate", GATE), faults=(GATE,)), waive=until(day))
    (finding,) = report.findings
    assert (finding.status, finding.severity, finding.waiver) == ("fail", "none", until(day)[0])
    assert report.root_cause is None
    assert [exit_code(report, fail_on=level, strict=True) for level in ("error", "warning")] == [0, 0]


def test_what_can_run_does_not_change_and_the_verdict_says_why() -> None:
    report = judge(link("gate", found("gate", GATE), faults=(GATE,)), waive=until(None))
    assert report.capabilities["compiled_forward"].available == "no"
    assert report.capabilities["compiled_forward"].because == "FD901"
    assert report.verdict == "waived"
    assert judge(link("gate", found("gate", GATE)), waive=until(None), required="eager").verdict == "healthy"


def test_a_second_fault_still_counts() -> None:
    other = Fault("FD903", Text("another", "另一个"), affects=COMPILED)
    chain = (link("gate", found("gate", GATE), faults=(GATE,)), link("next", found("next", other), faults=(other,)))
    report = judge(*chain, waive=until(None))
    assert report.root_cause
    assert (report.root_cause.code, report.verdict, exit_code(report)) == ("FD903", "broken", 1)


def test_what_hangs_on_a_waived_fault_stays_blocked() -> None:
    behind = link("behind", HOLDS, requires=("gate",))
    report = judge(link("gate", found("gate", GATE), faults=(GATE,)), behind, waive=until(None))
    assert [item.status for item in report.findings] == ["fail", "blocked"]
    assert exit_code(report, strict=True) == 0


def test_something_unknown_can_be_waived_for_strict_runs() -> None:
    gate = link("gate", doubt("gate", GATE, Text("unreadable", "不可读")), faults=(GATE,))
    assert exit_code(judge(gate), strict=True) == 3
    report = judge(gate, waive=until(None))
    assert exit_code(report, strict=True) == 0
    assert report.verdict == "unknown"


def test_an_expired_waiver_counts_no_more_and_is_named() -> None:
    report = judge(link("gate", found("gate", GATE), faults=(GATE,)), waive=until("2026-11-29"))
    assert codes(report) == ["FD901", "FD003"]
    gate, notice = report.findings
    assert (gate.severity, gate.waiver) == ("error", None)
    assert (notice.status, notice.severity, notice.link) == ("warn", "warning", waivers.LINK)
    assert notice.title == Text(
        "the waiver of FD901 expired on 2026-11-29, so it counts again",
        "对 FD901 的豁免已于 2026-11-29 到期，该问题重新计入",
    )
    assert notice.evidence[0].path == "~/flexdoctor.toml"
    assert report.root_cause == gate
    assert exit_code(report) == 1


def test_a_waiver_that_matches_nothing_is_a_warning_that_does_not_fail() -> None:
    report = judge(link("gate", HOLDS, faults=(GATE,)), waive=until(None))
    assert codes(report) == [None, "FD002"]
    assert (exit_code(report), exit_code(report, fail_on="warning")) == (0, 1)
    assert report.verdict == "healthy"
    # One file for machines that differ: accept this too.
    both = (*until(None), *until(None, "FD002"))
    assert exit_code(judge(link("gate", HOLDS, faults=(GATE,)), waive=both), fail_on="warning") == 0


@pytest.mark.parametrize(
    "finding",
    [
        skipped("gate", Text("not asked for", "未要求")),
        doubt("gate", NOISE, Text("unreadable", "不可读")),
        found("gate", Fault("FD904", Text("first", "先"), affects=COMPILED)),
        found("gate", Fault("FD905", Text("no devices", "没有设备"), affects=COMPILED), machine_only=True),
    ],
    ids=["skipped", "unknown", "broken by another fault", "a machine without devices"],
)
def test_it_is_not_said_where_the_link_was_not_judged_to_its_end(finding: Finding) -> None:
    assert "FD002" not in codes(judge(link("gate", finding, faults=(GATE,)), waive=until(None)))


def test_it_is_not_said_of_a_blocked_link_a_plan_or_a_selection() -> None:
    holds = link("gate", HOLDS, faults=(GATE,))
    broken = link("first", found("first", NOISE), found("first", Fault("FD904", Text("x", "x"), affects=COMPILED)))
    blocked = dataclasses.replace(holds, requires=("first",))
    assert "FD002" not in codes(judge(broken, blocked, waive=until(None)))
    assert "FD002" not in codes(judge(holds, waive=until(None), facts=PLANNED))
    assert "FD002" not in codes(judge(holds, waive=until(None), select=("other",)))
    assert "FD002" not in codes(judge(holds, waive=until(None), select=("gate",)))
    assert "FD002" not in codes(judge(holds, waive=until(None), ignore=("FD002",)))


def test_an_expired_waiver_is_named_only_beside_what_is_shown() -> None:
    gate = link("gate", found("gate", GATE), faults=(GATE,))
    assert codes(judge(gate, waive=until("2026-01-01"), select=("gate",))) == ["FD901", "FD003"]
    assert codes(judge(gate, waive=until("2026-01-01"), select=("other",))) == []


def test_a_crash_cannot_be_waived() -> None:
    def examine(_: Facts) -> list[Finding]:
        raise ZeroDivisionError

    said = Text("x", "x")
    report = judge(Check("gate", said, said, (GATE,), examine), waive=until(None, "FD001"))
    assert exit_code(report) == 3


def test_its_codes_have_pages_in_both_languages() -> None:
    known = {entry.code: entry for entry in pages.entries(())}
    for fault in (*waivers.FAULTS, *loading.FAULTS):
        page = pages.page_of(known[fault.code])
        assert page
        assert page.means.text.en
        assert page.means.text.zh


@pytest.fixture
def broken(tmp_path: Path, site: Path) -> Path:
    builders.install_healthy(site)
    builders.install_triton(site)
    (tmp_path / ".git").mkdir()
    settings = '[ignore]\nFD213 = "the image does that"\nFD243 = { reason = "no masks", expires = 2099-12-31 }\n'
    (tmp_path / "flexdoctor.toml").write_text(settings)
    return tmp_path


def test_text_and_json_show_the_reason_and_agree(broken: Path) -> None:
    done = run("check", "--site-packages", "site-packages", cwd=broken)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[2].startswith("compiled flex_attention cannot run here, which is accepted: triton was written over")
    (line,) = [line for line in lines if " FD213 triton_install " in line]
    assert line.startswith("WAIVED FD213 triton_install triton was written over")
    assert line.endswith("waived: the image does that")
    report = run("check", "--site-packages", "site-packages", "-f", "json", cwd=broken)
    data = json.loads(report.stdout)
    jsonschema.validate(data, SCHEMA)
    assert report.returncode == 0
    assert (data["verdict"], data["root_cause"]) == ("waived", None)
    waived = {item["code"]: item["waiver"] for item in data["findings"] if item["waiver"]}
    assert waived["FD213"] == {"code": "FD213", "reason": "the image does that", "expires": None}


def test_chinese(broken: Path) -> None:
    done = run("check", "--site-packages", "site-packages", "--lang", "zh", cwd=broken)
    assert "编译版 flex_attention 在此环境无法运行，但已被豁免：" in done.stdout
    assert "豁免：the image does that" in done.stdout


def test_an_unknown_code_is_an_error_with_the_nearest(broken: Path) -> None:
    path = broken / "flexdoctor.toml"
    path.write_text('[ignore]\nFD2133 = "x"\n')
    done = run("check", "--site-packages", "site-packages", cwd=broken)
    assert done.returncode == 2
    assert done.stderr.startswith(f"flexdoctor: {path}: ignore: there is no code FD2133; did you mean FD213?")


def test_a_waived_fault_is_not_mended_unless_it_is_named(broken: Path) -> None:
    """What the user lives with is no reason to change packages; --select says otherwise."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415
    from flexdoctor.fixes import FIXES  # noqa: PLC0415
    from flexdoctor.readers.environment import read_site_packages  # noqa: PLC0415
    from flexdoctor.treatment.planning import known, make_plan  # noqa: PLC0415

    facts = read_site_packages(broken / "site-packages")
    report = diagnose(facts, CHAIN, waivers=until(None, "FD213"), today=TODAY)
    assert make_plan(facts, report, FIXES, known()).steps == ()
    assert "FD213" in make_plan(facts, report, FIXES, known(), select=("FD213",)).opens
