"""JUnit: what fails, what is skipped, what is an error, and that no text can make it ill-formed."""

from __future__ import annotations

import dataclasses
from typing import Any
from xml.etree import ElementTree

import diagnoses
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flexdoctor.findings import Evidence, Finding, Waiver, found, passed, skipped, unknown
from flexdoctor.reports.junit import render, render_error
from flexdoctor.reports.rendering import Diagnosis, Page
from flexdoctor.text import Text

OPEN = unknown("invented", diagnoses.OPEN, Text("could not tell", "无法判断"))


def suite(diagnosis: Diagnosis) -> ElementTree.Element:
    root = ElementTree.fromstring(render(diagnosis, Page()))
    only = root.find("testsuite")
    assert only is not None
    cases = only.findall("testcase")
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert int(only.get(name, "")) == sum(case.find(tag) is not None for case in cases)
    assert int(only.get("tests", "")) == int(root.get("tests", "")) == len(cases)
    return only


def outcome(diagnosis: Diagnosis) -> tuple[str, str | None]:
    (case,) = suite(diagnosis).findall("testcase")
    (child,) = case
    return child.tag, child.get("type")


@pytest.mark.parametrize(
    ("finding", "flags", "expected"),
    [
        (passed("invented", Text("it is", "是")), {}, ("system-out", None)),
        (found("invented", diagnoses.WARNS), {}, ("system-out", None)),
        (found("invented", diagnoses.WARNS), {"fail_on": "warning"}, ("failure", "warning")),
        (found("invented", diagnoses.FAILS, name="x"), {}, ("failure", "error")),
        # Whoever asks for exit code 0 still wants to see what is wrong.
        (found("invented", diagnoses.FAILS, name="x"), {"exit_zero": True}, ("failure", "error")),
        (OPEN, {}, ("skipped", None)),
        (OPEN, {"strict": True}, ("failure", "unknown")),
        (skipped("invented", Text("not asked for", "未要求")), {"strict": True}, ("skipped", None)),
        (Finding("invented", "blocked", Text("b", "b"), blocked_by="FD901"), {}, ("skipped", None)),
        (Finding("invented", "crashed", Text("a bug", "缺陷"), code="FD001"), {}, ("error", "crashed")),
    ],
)
def test_outcomes(finding: Finding, flags: dict[str, Any], expected: tuple[str, str | None]) -> None:
    assert outcome(diagnoses.of(finding, **flags)) == expected


def test_a_waived_fault_is_skipped_with_its_reason() -> None:
    diagnosis = diagnoses.of(found("invented", diagnoses.FAILS, name="x"), waivers=[Waiver("FD901", "we know")])
    (case,) = suite(diagnosis).findall("testcase")
    (child,) = case
    assert (child.tag, child.get("message")) == ("skipped", "x is at fault (waived: we know)")


def test_names_are_told_apart_and_stay_the_same_in_chinese() -> None:
    twice = diagnoses.of(*[found("invented", diagnoses.FAILS, name=name) for name in ("a", "b")])
    names = [(case.get("classname"), case.get("name")) for case in suite(twice).findall("testcase")]
    assert names == [("flexdoctor.invented", "FD901"), ("flexdoctor.invented", "FD901 (2)")]
    chinese = ElementTree.fromstring(render(twice, Page(language="zh")))
    assert [(case.get("classname"), case.get("name")) for case in chinese.iter("testcase")] == names
    assert {item.get("message") for item in chinese.iter("failure")} == {"a 有问题", "b 有问题"}


def test_the_line_of_the_plan_is_in_the_text() -> None:
    facts = diagnoses.planned(("torch", "2.7.1", 4))
    (failure,) = suite(diagnoses.of(found("invented", diagnoses.FAILS, name="torch"), facts=facts)).iter("failure")
    assert (failure.text or "").splitlines()[1] == "requirements.txt:4"


def test_a_run_that_ended_early() -> None:
    root = ElementTree.fromstring(render_error("/x does not exist", 3))
    (error,) = root.iter("error")
    assert (error.get("message"), error.get("type")) == ("/x does not exist", "exit code 3")


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text())
def test_no_text_makes_it_ill_formed(title: str, quoted: str) -> None:
    finding = dataclasses.replace(
        found("invented", diagnoses.FAILS, name="x"),
        title=Text(title, title),
        evidence=(Evidence("file", quoted, path=quoted, line=1),),
    )
    written = render(diagnoses.of(finding), Page())
    assert written.isascii()
    (failure,) = ElementTree.fromstring(written).iter("failure")
    assert failure.get("message") == "".join(map(as_xml, title.replace("\r\n", "\n")))


def as_xml(character: str) -> str:
    """What XML 1.0 (section 2.2) makes of a character: itself, or its number where it is forbidden."""
    number = ord(character)
    if character == "\r":
        return "\n"
    if number in (0x9, 0xA) or 0x20 <= number <= 0xD7FF or 0xE000 <= number <= 0xFFFD or number >= 0x10000:
        return character
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}"
