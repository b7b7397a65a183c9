"""Diagnoses of hand-made findings, and what each format says of one, read back by means of their own."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

import samples

from flexdoctor.chain import Check, diagnose
from flexdoctor.facts import Distribution, Facts, PackagesFacts, Place, TargetFacts
from flexdoctor.findings import Fault, Finding, Waiver
from flexdoctor.reports.rendering import Diagnosis
from flexdoctor.text import Text

#: What a report says in the end: how the run ends, and every code that something is the matter with.
Answer = tuple[int, set[str]]
WARNS = Fault("FD902", Text("a warning", "警告"), severity="warning")
FAILS = Fault("FD901", Text("{name} is at fault", "{name} 有问题"), affects=("compiled_forward",))
OPEN = Fault("FD903", Text("an open question", "未知"), affects=("eager",))


def planned(*pins: tuple[str, str, int], file: str = "requirements.txt") -> Facts:
    """Facts of a list of pins: name, version, line."""
    dists = tuple(
        Distribution(name, version, file, pinned_at=Place(file, line, f"{name}=={version}"))
        for name, version, line in pins
    )
    return Facts(
        TargetFacts("requirements", file, (), machine_examined=False), packages=PackagesFacts(distributions=dists)
    )


def of(*findings: Finding, facts: Facts = samples.HEALTHY, waivers: Iterable[Waiver] = (), **flags: Any) -> Diagnosis:
    """Diagnose with a chain of one link that says `findings`."""
    check = Check(
        "invented",
        Text("an invented link", "虚构环节"),
        Text("Is it?", "是吗？"),
        (FAILS, WARNS, OPEN),
        lambda _: findings,
    )
    report = diagnose(facts, [check])
    by_code = {waiver.code: waiver for waiver in waivers}
    waived = tuple(
        dataclasses.replace(item, waiver=by_code[item.code], severity="none") if item.code in by_code else item
        for item in report.findings
    )
    return Diagnosis(dataclasses.replace(report, findings=waived), facts, [check], **flags)


def answer_of_text(text: str, fail_on: str, strict: bool) -> Answer:
    found = re.findall(r"^(FAIL|WARN|UNKNOWN|CRASHED) (\S+)", text, re.MULTILINE)
    return _code({status for status, _ in found}, fail_on, strict), {code for _, code in found}


def answer_of_json(text: str, fail_on: str, strict: bool) -> Answer:
    return _of_findings(json.loads(text)["findings"], fail_on, strict)


def answer_of_jsonl(text: str, fail_on: str, strict: bool) -> Answer:
    lines = [json.loads(line) for line in text.splitlines()]
    assert (lines[0]["type"], lines[-1]["type"]) == ("report", "summary")
    code, codes = _of_findings([line for line in lines if line["type"] == "finding"], fail_on, strict)
    assert lines[-1]["exit_code"] == code
    return code, codes


def _of_findings(findings: list[dict[str, Any]], fail_on: str, strict: bool) -> Answer:
    shown = [item for item in findings if item["status"] in ("fail", "warn", "unknown", "crashed")]
    statuses = {item["status"].upper() for item in shown}
    return _code(statuses, fail_on, strict), {item["code"] for item in shown}


def _code(statuses: set[str], fail_on: str, strict: bool) -> int:
    if "FAIL" in statuses or ("WARN" in statuses and fail_on == "warning"):
        return 1
    return 3 if "CRASHED" in statuses or (strict and "UNKNOWN" in statuses) else 0


def answer_of_sarif(text: str, fail_on: str, strict: bool) -> Answer:
    (run,) = json.loads(text)["runs"]
    (invocation,) = run["invocations"]
    notes = invocation["toolExecutionNotifications"]
    results = [item for item in run["results"] if not item.get("suppressions")]
    levels = {item["level"] for item in results if item["kind"] == "fail"}
    if "error" in levels or ("warning" in levels and fail_on == "warning"):
        code = 1
    else:
        is_open = any(item["kind"] == "open" for item in results)
        code = 3 if not invocation["executionSuccessful"] or (strict and is_open) else 0
    assert invocation["exitCode"] == code
    return code, {item["ruleId"] for item in run["results"]} | {item["descriptor"]["id"] for item in notes}


def answer_of_junit(text: str, *_: object) -> Answer:
    suite = ElementTree.fromstring(text).find("testsuite")
    assert suite is not None
    kinds = {item.get("type") for item in suite.iter("failure")}
    code = 1 if kinds & {"error", "warning"} else 3 if kinds or suite.find("testcase/error") is not None else 0
    # Which codes nothing is the matter with cannot be told from a name: a link that holds has no code.
    names = {(case.get("name") or "").partition(" ")[0] for case in suite.iter("testcase")}
    return code, {name for name in names if re.fullmatch(r"FD\d{3}", name)}


def answer_of_github(text: str, *_: object) -> Answer:
    found = re.findall(r"^::(\w+) .*?title=flexdoctor (\S+?)::(.*)$", text, re.MULTILINE)
    levels = {level for level, _, _ in found}
    return int("error" in levels), {code for _, code, _ in found}
