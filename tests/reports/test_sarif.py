"""SARIF: places, fingerprints, waivers, and nothing that tells whose machine it was. Its schema: tests/real."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import diagnoses
import pytest
import samples

from flexdoctor.facts import Facts, TargetFacts
from flexdoctor.findings import Evidence, Finding, Waiver, found, passed, unknown
from flexdoctor.reports.rendering import Diagnosis, Page, render_error
from flexdoctor.reports.rendering import Format as Formats
from flexdoctor.reports.sarif import render
from flexdoctor.text import Language, Text

PINS = diagnoses.planned(("torch", "2.7.1", 1), ("torch-npu", "2.7.1", 2), ("triton-ascend", "3.2.0", 5))


def run(diagnosis: Diagnosis, page: Page = Page()) -> dict[str, Any]:  # noqa: B008 - frozen
    log = json.loads(render(diagnosis, page))
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    return dict(only)


def fails(name: str = "something", *evidence: Evidence, **changes: Any) -> Finding:
    return dataclasses.replace(found("invented", diagnoses.FAILS, evidence=evidence, name=name), **changes)


def physical(diagnosis: Diagnosis, page: Page = Page()) -> dict[str, Any]:  # noqa: B008 - frozen
    (result,) = run(diagnosis, page)["results"]
    return dict(result["locations"][0]["physicalLocation"])


def test_what_holds_is_no_result() -> None:
    log = run(diagnoses.of(passed("invented", Text("it is", "是"))))
    assert log["results"] == []
    assert log["tool"]["driver"]["rules"] == []
    assert log["invocations"] == [{"executionSuccessful": True, "exitCode": 0, "toolExecutionNotifications": []}]


def test_a_fault_and_its_rule() -> None:
    log = run(diagnoses.of(fails("torch 2.13.0")))
    (result,), (rule,) = log["results"], log["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["ruleIndex"], result["level"], result["kind"]) == ("FD901", 0, "error", "fail")
    assert result["message"]["text"] == "torch 2.13.0 is at fault"
    assert rule["id"] == "FD901"
    assert rule["shortDescription"] == {"text": "… is at fault"}
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert log["invocations"][0]["exitCode"] == 1


def test_what_could_not_be_told_is_open_and_has_no_level() -> None:
    log = run(diagnoses.of(unknown("invented", diagnoses.OPEN, Text("could not tell", "无法判断")), strict=True))
    (result,) = log["results"]
    assert (result["kind"], result["level"], result["ruleId"]) == ("open", "none", "FD903")
    assert log["invocations"][0] == {"executionSuccessful": True, "exitCode": 3, "toolExecutionNotifications": []}


def test_a_crash_is_a_notification_and_no_result() -> None:
    log = run(diagnoses.of(Finding("invented", "crashed", Text("a bug", "缺陷"), code="FD001")))
    (invocation,) = log["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"], log["results"]) == (False, 3, [])
    (note,) = invocation["toolExecutionNotifications"]
    assert (note["level"], note["descriptor"], note["message"]["text"]) == ("error", {"id": "FD001"}, "invented: a bug")


def test_a_run_that_ended_early_is_a_log_too() -> None:
    log = json.loads(render_error(Formats.sarif, "/x does not exist", 3))
    (invocation,) = log["runs"][0]["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 3)
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "/x does not exist"


def test_a_waived_fault_is_suppressed_with_its_reason() -> None:
    log = run(diagnoses.of(fails(), waivers=[Waiver("FD901", "patched by hand")]))
    (result,) = log["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "patched by hand"}]
    assert (result["level"], log["invocations"][0]["exitCode"]) == ("error", 0)


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (fails("triton-ascend 3.2.0"), 5),
        (fails("torch-npu==2.7.1 beside torch"), 2),
        (fails("x", Evidence("file", "def f", path="torch/nn/attention/flex_attention.py", line=7)), 1),
        (fails("x", Evidence("file", "import x", path="triton/backends/ascend/utils.py", line=7)), 5),
        (fails("x", Evidence("metadata", "torch==2.7", path="requirements.txt", line=2)), 2),
        (fails("x", link="triton_install"), 5),
        (fails("no package is named"), 2),
    ],
    ids=["title", "first named", "torch's file", "triton's file", "evidence", "link", "nothing"],
)
def test_the_line_that_pins_the_culprit(
    finding: Finding, line: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    place = physical(diagnoses.of(finding, facts=PINS), Page(base=tmp_path))
    assert place["artifactLocation"] == {"uri": "requirements.txt", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": line}


#: Code scanning refuses a log with a result that lies nowhere.
NOWHERE = {"artifactLocation": {"uri": "flexdoctor", "uriBaseId": "%SRCROOT%"}}


def test_a_list_from_stdin_has_no_file() -> None:
    assert physical(diagnoses.of(fails(), facts=diagnoses.planned(("torch", "2.7.1", 1), file="stdin"))) == NOWHERE


@pytest.mark.parametrize(
    ("kind", "description", "expected"),
    [
        ("wheels", "/opt/wheels, planned for linux aarch64, assumed", {"uri": "file:///opt/wheels"}),
        ("wheels", "wheels, planned for linux x86_64", {"uri": "wheels", "uriBaseId": "%SRCROOT%"}),
        ("requirements", "reqs/a.txt, planned for linux aarch64", {"uri": "reqs/a.txt", "uriBaseId": "%SRCROOT%"}),
        ("requirements", "stdin, planned for linux aarch64, assumed", NOWHERE["artifactLocation"]),
        ("wheels", "example 1-gate-closed: the gate", NOWHERE["artifactLocation"]),
        ("environment", "the running interpreter", NOWHERE["artifactLocation"]),
    ],
)
def test_without_a_file_the_named_target_is_shown(
    kind: Any, description: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = Facts(TargetFacts(kind, description, (), machine_examined=False))
    assert physical(diagnoses.of(fails(), facts=facts), Page(base=tmp_path)) == {"artifactLocation": expected}


def test_a_file_inside_a_wheel_is_none_of_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    facts = Facts(TargetFacts("wheels", "wheels, planned for linux aarch64", (), machine_examined=False))
    finding = fails("x", Evidence("file", "x", path="torch_npu/__init__.py", line=3))
    assert physical(diagnoses.of(finding, facts=facts), Page(base=tmp_path)) == {
        "artifactLocation": {"uri": "wheels", "uriBaseId": "%SRCROOT%"}
    }


def test_a_checkout_behind_a_link_is_the_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/b.txt").symlink_to("a.txt")
    for one, other in (("real", "link"), ("link", "real")):
        finding = fails("x", Evidence("file", "x", path=f"{tmp_path}/{one}/b.txt", line=3))
        place = physical(diagnoses.of(finding), Page(base=tmp_path / other))
        assert place["artifactLocation"] == {"uri": "b.txt", "uriBaseId": "%SRCROOT%"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/venv/lib/a b.py", {"uri": "file:///opt/venv/lib/a%20b.py"}),
        ("~/venv/lib/ä.py", {"uri": "venv/lib/%C3%A4.py", "uriBaseId": "HOME"}),
        ("~", {"uri": ".", "uriBaseId": "HOME"}),
        ("/opt/x#1?.py", {"uri": "file:///opt/x%231%3F.py"}),
    ],
)
def test_other_places(path: str, expected: dict[str, str], tmp_path: Path) -> None:
    finding = fails("x", Evidence("file", "x", path=path, line=3))
    assert physical(diagnoses.of(finding), Page(base=tmp_path)) == {
        "artifactLocation": expected,
        "region": {"startLine": 3},
    }


def test_a_checkout_below_home_is_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    finding = fails("x", Evidence("file", "x", path="~/work/repo/reqs/a.txt", line=3))
    place = physical(diagnoses.of(finding), Page(base=tmp_path / "work/repo"))
    assert place["artifactLocation"] == {"uri": "reqs/a.txt", "uriBaseId": "%SRCROOT%"}


def test_without_a_file_the_folder_of_packages_is_shown() -> None:
    assert physical(diagnoses.of(fails()))["artifactLocation"] == {"uri": f"file://{samples.SITE}"}


def prints(diagnosis: Diagnosis, language: Language = "en") -> list[dict[str, str]]:
    return [dict(item["partialFingerprints"]) for item in run(diagnosis, Page(language=language))["results"]]


def moved(facts: Facts) -> Facts:
    """The same packages elsewhere, in other versions."""
    dists = tuple(
        dataclasses.replace(dist, version=f"9.{dist.version}", metadata_path=f"/else{dist.metadata_path}")
        for dist in facts.packages.distributions
    )
    return dataclasses.replace(
        facts,
        target=TargetFacts("environment", "/else", ("/else",), machine_examined=True),
        packages=dataclasses.replace(facts.packages, distributions=dists),
    )


def test_fingerprints_stay_over_machines_versions_and_languages() -> None:
    here = diagnoses.of(fails("torch 2.13.0", Evidence("file", "x", path="/a/x.py", line=1)), fails("numpy"))
    there = diagnoses.of(
        fails("torch 2.14.0", Evidence("file", "y", path="/b/x.py", line=9)),
        fails("numpy"),
        facts=moved(samples.HEALTHY),
    )
    assert prints(here) == prints(there) == prints(here, "zh")


def test_fingerprints_tell_faults_apart() -> None:
    several = prints(diagnoses.of(fails("torch"), fails("torch-npu"), fails("a"), fails("b")))
    assert len({tuple(item.values()) for item in several}) == 4


def test_a_link_in_a_name_stays_text() -> None:
    (result,) = run(diagnoses.of(fails("[click](https://evil.example)")))["results"]
    assert result["message"]["text"].startswith("\\[click](https://evil.example)")


def test_home_and_names_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    finding = fails("x", Evidence("file", "x", path="~/venv/x.py", line=3))
    assert "alice" not in render(diagnoses.of(finding), Page(base=Path("/home/alice/work")))
