"""One verdict, many renderings: every format leads to the same exit code and names the same codes."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import diagnoses
import jsonschema
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from test_cli import SCHEMA

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.cli import main
from flexdoctor.facts import Facts
from flexdoctor.findings import Finding, found, passed, skipped, unknown
from flexdoctor.readers.locks import Platform, read_plan
from flexdoctor.readers.planned import read_requirements
from flexdoctor.reports.rendering import Diagnosis, Format, Page, render, render_error
from flexdoctor.snapshots import example_names, load_example
from flexdoctor.text import Text

CASES = Path(__file__).parents[1] / "cases"
ANSWERS: dict[Format, Callable[[str, str, bool], diagnoses.Answer]] = {
    Format.text: diagnoses.answer_of_text,
    Format.json: diagnoses.answer_of_json,
    Format.jsonl: diagnoses.answer_of_jsonl,
    Format.sarif: diagnoses.answer_of_sarif,
    Format.junit: diagnoses.answer_of_junit,
    Format.github: diagnoses.answer_of_github,
}


PASSES = passed("invented", Text("it is", "是"))
SKIPS = skipped("invented", Text("not asked for", "未要求"))
FAILS = found("invented", diagnoses.FAILS, name="torch")
WARNS = found("invented", diagnoses.WARNS)
OPEN = unknown("invented", diagnoses.OPEN, Text("could not tell", "无法判断"))
CRASHES = Finding("invented", "crashed", Text("a bug", "缺陷"), code="FD001")


def case(name: str) -> Facts:
    data: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    assumed = Platform()
    platform = Platform(data.get("architecture", assumed.architecture), data.get("python", assumed.python))
    plan = read_plan(None, "\n".join(data["requirements"]).encode(), platform)
    return read_requirements(plan, None, platform)


def every_result_lies_somewhere(text: str) -> bool:
    """Whether code scanning takes the log: it refuses it as a whole for one result without a file."""
    (run,) = json.loads(text)["runs"]
    return all(item["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for item in run["results"])


def everything() -> Iterator[tuple[str, bool]]:
    yield from ((path.stem, False) for path in sorted(CASES.glob("*.json")))
    yield from ((name, True) for name in example_names())


def agree(diagnosis: Diagnosis) -> int:
    """Hold every format against the report, and return the exit code."""
    findings = diagnosis.report.findings
    expected = {item.code for item in findings if item.status in ("fail", "warn", "unknown", "crashed")}
    for format_, read in ANSWERS.items():
        code, codes = read(render(format_, diagnosis, Page()), diagnosis.fail_on, diagnosis.strict)
        if format_ is Format.github:
            # A step knows only success and failure.
            assert bool(code) == bool(diagnosis.exit_code), format_
        else:
            assert code == diagnosis.exit_code, format_
        assert codes == expected, format_
    return diagnosis.exit_code


@pytest.mark.parametrize(("name", "is_example"), list(everything()))
def test_every_format_says_the_same(name: str, is_example: bool) -> None:
    facts = load_example(name) if is_example else case(name)
    report = diagnose(facts, CHAIN)
    for fail_on, strict in itertools.product(("error", "warning"), (False, True)):
        agree(Diagnosis(report, facts, CHAIN, fail_on=fail_on, strict=strict))  # type: ignore[arg-type]
    assert every_result_lies_somewhere(render(Format.sarif, Diagnosis(report, facts, CHAIN), Page()))


def test_the_cases_are_of_many_kinds() -> None:
    reports = [diagnose(load_example(name) if is_example else case(name), CHAIN) for name, is_example in everything()]
    assert {item.status for report in reports for item in report.findings} >= {"pass", "warn", "fail", "blocked"}
    assert {report.verdict for report in reports} >= {"healthy", "broken"}


@pytest.mark.parametrize(
    ("findings", "error", "error_strict", "warning", "warning_strict"),
    [
        ([PASSES], 0, 0, 0, 0),
        ([WARNS], 0, 0, 1, 1),
        ([FAILS], 1, 1, 1, 1),
        ([OPEN], 0, 3, 0, 3),
        ([OPEN, WARNS], 0, 3, 1, 1),
        ([OPEN, FAILS, WARNS], 1, 1, 1, 1),
        ([SKIPS, PASSES], 0, 0, 0, 0),
        ([CRASHES], 3, 3, 3, 3),
        ([CRASHES, FAILS], 1, 1, 1, 1),
    ],
)
def test_every_mixture(
    findings: list[Finding], error: int, error_strict: int, warning: int, warning_strict: int
) -> None:
    assert agree(diagnoses.of(*findings)) == error
    assert agree(diagnoses.of(*findings, strict=True)) == error_strict
    assert agree(diagnoses.of(*findings, fail_on="warning")) == warning
    assert agree(diagnoses.of(*findings, fail_on="warning", strict=True)) == warning_strict


@pytest.mark.parametrize("format_", list(Format))
@pytest.mark.parametrize(
    ("example", "options", "expected"),
    [
        ("8-healthy", [], 0),
        ("8-healthy", ["--fail-on", "warning"], 1),
        ("1-gate-closed", [], 1),
        ("1-gate-closed", ["--exit-zero"], 0),
    ],
)
def test_the_process_ends_with_it(
    format_: Format,
    example: str,
    options: list[str],
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["flexdoctor", "check", "--example", example, "--format", format_.value, *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == expected
    assert capsys.readouterr().out


def test_json_lines_have_the_shape_of_the_schema() -> None:
    schema = Registry().with_resource("urn:report", DRAFT202012.create_resource(SCHEMA))
    line = jsonschema.Draft202012Validator({"$ref": "urn:report#/$defs/line"}, registry=schema)
    facts = load_example("1-gate-closed")
    shown = render(Format.jsonl, Diagnosis(diagnose(facts, CHAIN), facts, CHAIN), Page())
    objects = [json.loads(text) for text in shown.splitlines()]
    assert [item["type"] for item in objects] == ["report", *["finding"] * (len(objects) - 2), "summary"]
    (error,) = map(json.loads, render_error(Format.jsonl, "no such file", 3).splitlines())
    assert error["error"] == {"message": "no such file", "exit_code": 3}
    for item in [*objects, error]:
        line.validate(item)
    for wrong in ({"type": "else"}, {**objects[1], "type": "summary"}, {**objects[1], "more": 1}, {}):
        assert not line.is_valid(wrong), wrong
