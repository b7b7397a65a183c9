"""Workflow commands: levels, places, escaping as the runner undoes it."""

from __future__ import annotations

from pathlib import Path

import diagnoses
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flexdoctor.findings import Evidence, Waiver, found, passed, unknown
from flexdoctor.reports.github import command, render, render_error
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Text

FAILS = found("invented", diagnoses.FAILS, name="torch")
WARNS = found("invented", diagnoses.WARNS)
OPEN = unknown("invented", diagnoses.OPEN, Text("could not tell", "无法判断"))


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Undo a workflow command as the runner documents it."""

    def undo(text: str) -> str:
        for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(code, character)
        return text

    assert line.startswith("::")
    head, _, message = line[2:].partition("::")
    name, _, given_properties = head.partition(" ")
    properties = dict(item.split("=", 1) for item in given_properties.split(","))
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        message = message.replace(code, character)
    return name, {key: undo(value) for key, value in properties.items()}, message


def test_the_line_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    facts = diagnoses.planned(("torch-npu", "2.7.1", 3), ("torch", "2.7.1", 4), file="reqs/a,b.txt")
    first, last = render(diagnoses.of(FAILS, facts=facts), Page(base=tmp_path)).splitlines()
    assert first.startswith("::error file=reqs/a%2Cb.txt,line=4,title=flexdoctor FD901::")
    assert read(first) == (
        "error",
        {"file": "reqs/a,b.txt", "line": "4", "title": "flexdoctor FD901"},
        "torch is at fault",
    )
    assert last.startswith("flexdoctor: compiled flex_attention cannot run here: torch is at fault")


def test_a_place_outside_of_the_checkout_is_not_named(tmp_path: Path) -> None:
    finding = found("invented", diagnoses.FAILS, name="x", evidence=[Evidence("file", "x", path="/opt/x.py", line=2)])
    assert "file=" not in render(diagnoses.of(finding), Page(base=tmp_path))


def test_levels_follow_the_exit_code() -> None:
    def levels(text: str) -> list[str]:
        return [read(line)[0] for line in text.splitlines() if line.startswith("::")]

    # What fails the step stands first: a run shows ten annotations of a kind.
    assert levels(render(diagnoses.of(OPEN, WARNS, FAILS), Page())) == ["error", "notice", "warning"]
    assert levels(render(diagnoses.of(WARNS, fail_on="warning"), Page())) == ["error"]
    assert levels(render(diagnoses.of(OPEN, strict=True), Page())) == ["error"]
    assert levels(render(diagnoses.of(FAILS, waivers=[Waiver("FD901", "known")]), Page())) == []
    assert levels(render(diagnoses.of(passed("invented", Text("it is", "是"))), Page())) == []


def test_a_run_that_ended_early() -> None:
    assert render_error("a: b\nc", 3) == "::error title=flexdoctor ended with 3::a: b%0Ac\n"


@settings(max_examples=60, deadline=None)
@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    st.text(alphabet=st.characters(exclude_categories=["Cs"])),
)
def test_nothing_breaks_out_of_a_command(message: str, title: str) -> None:
    line = command("error", message, title=title)
    assert "\n" not in line
    assert "\r" not in line
    assert read(line) == ("error", {"title": title}, message)


def test_no_name_becomes_a_command() -> None:
    finding = found("invented", diagnoses.FAILS, name="x\n::add-mask::y\r::set-output name=z::")
    lines = render(diagnoses.of(finding), Page()).splitlines()
    assert len(lines) == 2
    assert not lines[1].startswith("::")
