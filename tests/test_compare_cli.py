"""`flexdoctor compare` as a user runs it: every format, both languages, exit codes and clear errors."""

from __future__ import annotations

import dataclasses
import datetime
import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from node_folders import UNEXAMINED, document_of, overwritten, slurm_node, write_job, write_node, write_trace
from typer.testing import CliRunner

from flexdoctor.cli import app
from flexdoctor.comparing import Gathering
from flexdoctor.comparison import Comparison
from flexdoctor.findings import Waiver
from flexdoctor.nodes import NodeReport, StartedTrace, Unusable
from flexdoctor.reports.compare_rendering import CompareFormat, render
from flexdoctor.reports.rendering import Page
from flexdoctor.snapshots import dump

SCHEMA = json.loads((Path(__file__).parents[1] / "doctor" / "reports" / "compare.schema.json").read_text())
WELL = document_of(UNEXAMINED)
BROKEN = document_of(overwritten(UNEXAMINED))
runner = CliRunner()


def compare(*arguments: object) -> Any:
    return runner.invoke(app, ["compare", *map(str, arguments)])


def whole(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program itself: what ends a run outside of a command is the business of `main`."""
    command = [sys.executable, "-m", "flexdoctor", "compare", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with planted drifts, a missing node, one that never finished, and files that are no reports."""
    folder = tmp_path_factory.mktemp("job")
    write_job(folder, 12, distributions=10)
    write_trace(folder, slurm_node(7))
    (folder / "other.json").write_text('{"tool": {"name": "<ruff> & \\u0007"}}')
    (folder / "node00011.rank88.json").write_bytes((folder / "node00011.rank88.json").read_bytes()[:900])
    return folder


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """One of everything, hostile names included."""
    gathering = Gathering()
    hostile = dataclasses.replace(slurm_node(2), host="<b>|`x`|</b>\x07")
    gathering.add(NodeReport("a.json", WELL, slurm_node(0)))
    gathering.add(NodeReport("b.json", BROKEN, hostile))
    gathering.add(
        NodeReport("c.json", {**WELL, "error": {"message": "no | such python", "exit_code": 3}}, slurm_node(3))
    )
    gathering.add_trace(StartedTrace("d.started.json", slurm_node(4)))
    gathering.add_unusable(Unusable("e.json", "cut off", "ends after 10 bytes"))
    return gathering.compare()


def test_two_files_say_which_one_works(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(WELL))
    (tmp_path / "bad.json").write_text(json.dumps(BROKEN))
    result = compare(tmp_path / "bad.json", tmp_path / "good.json")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1].startswith("good works, bad does not: triton was written over triton-ascend")
    assert lines[1].endswith("FD213")
    differs = [line for line in lines if line.startswith("DIFFERS")]
    assert differs[0] == "DIFFERS group 2 package triton: not there → 3.7.1 (see FD213, found only here)"


def test_snapshots_and_reports_go_together(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(WELL))
    (tmp_path / "snapshot.json").write_text(dump(UNEXAMINED))
    result = compare(tmp_path / "report.json", tmp_path / "snapshot.json")
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "2 nodes, all alike, no fault found")
    (tmp_path / "snapshot.json").write_text(dump(overwritten(UNEXAMINED)))
    assert "report works, snapshot does not" in compare(tmp_path / "report.json", tmp_path / "snapshot.json").stdout


def test_a_folder_in_a_pipe_is_one_fact_a_line(job: Path) -> None:
    result = compare(job, "--hosts", "node[00000-00011]")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1] == (
        "2 of 9 nodes broken (FD213), 1 drifted, 1 missing, 1 never finished, 1 with a report that cannot be read"
    )
    assert "MISSING node00010" in lines
    assert any(line.startswith("UNFINISHED node00007 (2026-09-21") for line in lines)
    assert any(line.startswith("UNUSABLE") and "cut off" in line for line in lines)
    assert result.stderr == ""


def test_json_is_valid_and_agrees_with_the_exit_code(job: Path, tmp_path: Path) -> None:
    result = compare(job, "--expect", 12, "--format", "json", "-o", tmp_path / "out.json")
    assert (result.exit_code, result.stdout) == (1, "")
    document = json.loads((tmp_path / "out.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert document["verdict"] == "faulty"
    assert document["missing"] == {"count": 1, "hosts": []}
    assert compare(job, "--exit-zero").exit_code == 0


def test_json_tells_what_a_node_was_decided_to_live_with(tmp_path: Path) -> None:
    for number in range(3):
        write_node(tmp_path, WELL, slurm_node(number))
    waiver = Waiver("FD213", "until the next image", datetime.date(2099, 1, 31))
    write_node(tmp_path, document_of(overwritten(UNEXAMINED), waiver), slurm_node(3))
    document = json.loads(compare(tmp_path, "-f", "json").stdout)
    jsonschema.validate(document, SCHEMA)
    waived = [item for group in document["groups"] for item in group["only_here"] if item["code"] == "FD213"]
    assert [item["waiver"] for item in waived] == [
        {"code": "FD213", "reason": "until the next image", "expires": "2099-01-31"}
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("/no/such/folder",), 2, "there is no /no/such/folder"),
        (("{job}", "--hosts", "node[1-"), 2, "brackets do not match"),
        (("{job}", "--hosts", "no/such/file"), 2, "there is no file no/such/file"),
        (("{job}", "--hosts", "a,b", "--expect", "3"), 2, "--hosts names 2"),
        (("{job}", "--hosts", ","), 2, "names no host"),
        (("{job}", "--format", "yaml"), 2, "yaml"),
        ((), 2, "Missing argument"),
    ],
)
def test_usage_errors_are_one_line_and_one_document(
    job: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    filled = [item.replace("{job}", str(job)) for item in arguments]
    done = whole(*filled, "--format=json") if "--format" not in filled else whole(*filled)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    if "yaml" not in filled:
        document = json.loads(done.stdout)
        jsonschema.validate(document, SCHEMA)
        assert document["error"]["exit_code"] == code


def test_a_host_file_names_the_missing(job: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# all\n" + "".join(f"node{number:05d} slots=8\n" for number in range(12)))
    document = json.loads(compare(job, "--hosts", tmp_path / "hosts", "-f", "json").stdout)
    assert document["missing"]["hosts"] == ["node00010"]
    assert document["expected_by"] == "--hosts"


def test_an_empty_folder_could_not_complete(tmp_path: Path) -> None:
    result = compare(tmp_path)
    assert result.exit_code == 3
    assert "no report could be read" in result.stdout
    jsonschema.validate(json.loads(compare(tmp_path, "-f", "json").stdout), SCHEMA)


@pytest.mark.parametrize("format_", list(CompareFormat))
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("terminal", [True, False])
def test_every_format_tells_all_of_it(
    comparison: Comparison, format_: CompareFormat, language: Any, terminal: bool
) -> None:
    text = render(format_, comparison, Page(language=language, terminal=terminal, width=80, detail="verbose"))
    assert text.endswith("\n")
    assert "FD213" in text
    assert "node00004" in text
    assert "e.json" in text
    assert "such python" in text
    if format_ is not CompareFormat.json:
        shown = html.unescape(text)  # a page is written in ASCII
        assert bool(re.search(r"[\u4e00-\u9fff]", shown)) == (language == "zh")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_terminal_is_not_written_over_its_edge(comparison: Comparison, language: Any, width: int) -> None:
    from rich.cells import cell_len  # noqa: PLC0415

    text = render(CompareFormat.text, comparison, Page(language=language, terminal=True, width=width))
    prose = [line for line in text.splitlines() if "RECORD" not in line and "installed after" not in line]
    assert all(cell_len(line) <= width for line in prose)


def test_junit_has_a_case_a_node(comparison: Comparison) -> None:
    text = render(CompareFormat.junit, comparison, Page())
    root = ElementTree.fromstring(text)
    (suite,) = root
    cases = suite.findall("testcase")
    assert suite.attrib["tests"] == str(len(cases)) == "5"
    assert suite.attrib["failures"] == str(len(suite.findall("testcase/failure"))) == "2"
    assert suite.attrib["errors"] == str(len(suite.findall("testcase/error"))) == "2"
    by_name = {case.attrib["name"]: case for case in cases}
    assert by_name["node00000"].find("failure") is None
    broken = by_name["<b>|`x`|</b>\ufffd"].find("failure")
    assert broken is not None
    assert broken.attrib["type"] == "FD213"


def test_markdown_takes_no_name_for_markup(comparison: Comparison) -> None:
    text = render(CompareFormat.markdown, comparison, Page())
    assert "<b>" not in text.replace(r"\<b\>", "")
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


@pytest.mark.parametrize("silent", [1, 3])
def test_nothing_is_claimed_of_an_environment_that_is_not_told(tmp_path: Path, silent: int) -> None:
    for number in range(3):
        document = {**WELL, "environment": {}, "fingerprint": None} if number < silent else WELL
        write_node(tmp_path, document, slurm_node(number))
    headline = json.loads(compare(tmp_path, "-f", "json").stdout)["headline"]
    assert headline == f"no fault found; {silent} of 3 nodes do not tell their environment"


def test_quiet_is_the_headline_alone(job: Path) -> None:
    assert compare(job, "-q").stdout.count("\n") == 1


def test_many_groups_are_cut_short_on_a_terminal() -> None:
    gathering = Gathering()
    for number in range(30):
        changed = {
            **WELL,
            "fingerprint": f"{number:012x}",
            "environment": {**WELL["environment"], "package x": f"{number}"},
        }
        gathering.add(NodeReport(f"{number}.json", changed, slurm_node(number)))
    found = gathering.compare()
    page = Page(terminal=True)
    assert "20 more groups with -v" in render(CompareFormat.text, found, page)
    assert "more groups" not in render(CompareFormat.text, found, dataclasses.replace(page, detail="verbose"))


def test_help_fits_and_needs_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['flexdoctor', 'compare', '--help']\n"
        "from flexdoctor.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not {'rich', 'flexdoctor.checks', 'flexdoctor.readers.node_reports'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--expect" in done.stdout
    assert len(done.stdout.splitlines()) < 50


def test_comparing_reports_loads_no_check(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    code = (
        f"import sys; sys.argv = ['flexdoctor', 'compare', {str(tmp_path)!r}]\n"
        "from flexdoctor.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "bad = {'flexdoctor.checks', 'flexdoctor.readers.environment', 'packaging', 'rich'} & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
