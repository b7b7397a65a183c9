"""Several formats in one run, and files that hold the old content or the new one, whatever happens."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol
from xml.etree import ElementTree

import cann_trees
import jsonschema
import pytest
from test_cli import SCHEMA, document

from flexdoctor.cli import main
from flexdoctor.files import write_whole
from flexdoctor.reports.rendering import Format


class Run(Protocol):
    """Run the command line."""

    def __call__(self, *arguments: str, cwd: Path | None = None, **environment: str) -> CompletedProcess[str]: ...


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process, as many runs are needed here."""

    def one(*arguments: str, cwd: Path | None = None, **environment: str) -> CompletedProcess[str]:
        with monkeypatch.context() as patch:
            if cwd:
                patch.chdir(cwd)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["flexdoctor", *arguments])
            with pytest.raises(SystemExit) as end:
                main()
        written = capsys.readouterr()
        return CompletedProcess(arguments, int(end.value.code or 0), written.out, written.err)

    return one


BROKEN = ("check", "--example", "1-gate-closed")
MACHINES = [item for item in Format if not item.is_for_people]


def test_every_format_in_one_run(run: Run, tmp_path: Path) -> None:
    also = [word for item in Format for word in ("--also", f"{item.value}={tmp_path / item.value}")]
    done = run(*BROKEN, *also)
    assert (done.returncode, done.stderr) == (1, "")
    alone = {item: run(*BROKEN, "--format", item.value).stdout for item in Format}
    assert done.stdout == alone[Format.text]
    for item in Format:
        assert (tmp_path / item.value).read_text(encoding="utf-8") == alone[item], item


@pytest.mark.parametrize(
    ("also", "message"),
    [
        (["json"], "--also json: expected FORMAT=FILE, as in --also sarif=report.sarif"),
        (["json="], "--also json=: expected FORMAT=FILE"),
        (["=x"], "--also =x: there is no format ;"),
        (["jsn=x"], "there is no format jsn; there are text, json, jsonl, sarif, junit, github, markdown"),
        (["json=-"], "stdout holds the report already; name a file"),
        (["json=x", "sarif=./x"], "--also sarif=x: json goes to x; name a file of its own"),
        (["json=x", "sarif=link"], "json goes to x"),
        (["json=out"], "--also json=out: text goes to out"),
        (["{x}=a"], "--also {x}=a: there is no format {x}; there are text"),
    ],
)
def test_wrong_forms_say_what_to_type(run: Run, also: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("x")
    options = [word for item in also for word in ("--also", item)]
    done = run(*BROKEN, "-o", "out", *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_wrong_forms_in_chinese(run: Run) -> None:
    done = run(*BROKEN, "--also", "json=-", "--lang", "zh", LC_ALL="C.UTF-8", PYTHONIOENCODING="utf-8")
    assert "标准输出已用于报告本身" in done.stderr


def test_stdout_by_another_name_is_refused() -> None:
    command = [sys.executable, "-m", "flexdoctor", *BROKEN, "--also", "json=/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "text goes to stdout" in done.stderr


def test_the_null_device_takes_any_number(run: Run) -> None:
    assert run(*BROKEN, "-o", os.devnull, "--also", f"json={os.devnull}").returncode == 1


def test_an_unwritable_file_does_not_cost_the_others(run: Run, tmp_path: Path) -> None:
    done = run(*BROKEN, "-f", "json", "--also", "sarif=/nonexistent/x", "--also", f"junit={tmp_path / 'j.xml'}")
    assert done.returncode == 3
    assert done.stderr == "flexdoctor: cannot write /nonexistent/x: No such file or directory\n"
    # Exactly one document, which is the report.
    assert document(done)["root_cause"] == "FD201"
    assert ElementTree.parse(tmp_path / "j.xml").getroot().tag == "testsuites"


def test_an_unwritable_output_is_told_in_the_document(run: Run, tmp_path: Path) -> None:
    also = tmp_path / "s.sarif"
    done = run(*BROKEN, "-f", "json", "-o", "/nonexistent/x", "--also", f"sarif={also}")
    assert done.returncode == 3
    assert "cannot write /nonexistent/x" in document(done)["error"]["message"]
    assert json.loads(also.read_text())["runs"]


def test_a_failing_run_leaves_every_file_as_it_was(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("precious")
    done = run("check", "--python", "/nonexistent", "-o", str(tmp_path / "a"), "--also", f"json={tmp_path / 'b'}")
    assert done.returncode == 3
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "precious", "b": "precious"}


def test_a_reader_that_goes_away_does_not_cost_the_files(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    command = f'"{sys.executable}" -m flexdoctor check --example 1-gate-closed -v --also json="{file}" | head -n 1'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    jsonschema.validate(json.loads(file.read_text()), SCHEMA)


@pytest.mark.parametrize("format_", MACHINES)
def test_every_error_run_is_well_formed(run: Run, format_: Format) -> None:
    for arguments, code in ((["--python", "/nonexistent"], 3), (["--no-such-option"], 2)):
        done = run("check", *arguments, f"--format={format_.value}")
        assert done.returncode == code
        by_short_option = run("check", *arguments, f"-f{format_.value}")
        assert by_short_option.stdout == done.stdout
        message = done.stderr.removeprefix("flexdoctor: ").rstrip("\n")
        if format_ is Format.json:
            assert document(done)["error"] == {"message": message, "exit_code": code}
        elif format_ is Format.jsonl:
            assert json.loads(done.stdout)["error"] == {"message": message, "exit_code": code}
        elif format_ is Format.sarif:
            (invocation,) = json.loads(done.stdout)["runs"][0]["invocations"]
            assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, code)
            assert invocation["toolExecutionNotifications"][0]["message"]["text"] == message
        elif format_ is Format.junit:
            (error,) = ElementTree.fromstring(done.stdout).iter("error")
            assert error.get("message") == message
        else:
            assert done.stdout.startswith(f"::error title=flexdoctor ended with {code}::")
            assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(("format_", "encoding"), list(zip(MACHINES, itertools.cycle(["gbk", "ascii"]), strict=False)))
def test_no_encoding_makes_it_ill_formed(format_: Format, encoding: str) -> None:
    command = [sys.executable, "-m", "flexdoctor", *BROKEN, "--format", format_.value, "--lang", "zh"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, encoding=encoding, env=environment, check=False)
    assert done.returncode == 1
    if format_ is Format.junit:
        assert "在此环境" in "".join(ElementTree.fromstring(done.stdout).itertext()) or "torch" in done.stdout
    elif format_ in (Format.json, Format.sarif):
        assert "接受" in json.dumps(json.loads(done.stdout), ensure_ascii=False)
    else:
        assert "FD201" in done.stdout


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        for form in ("text", "json"):
            command = [sys.executable, "-m", "flexdoctor", *BROKEN, "--format", form]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            assert (done.returncode, done.stderr) == (3, "flexdoctor: cannot write stdout: No space left on device\n")


def test_step_summary_is_appended(run: Run, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("## before\n")
    done = run(*BROKEN, "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert done.stdout.startswith("::error ")
    before, _, report = summary.read_text(encoding="utf-8").partition("\n")
    assert before == "## before"
    assert report == run(*BROKEN, "--format", "markdown").stdout
    # Other formats leave it alone.
    run(*BROKEN, GITHUB_STEP_SUMMARY=str(summary))
    assert summary.read_text(encoding="utf-8") == f"## before\n{report}"


def test_step_summary_that_cannot_be_written(run: Run) -> None:
    done = run(*BROKEN, "--format", "github", GITHUB_STEP_SUMMARY="/nonexistent/summary")
    assert done.returncode == 3
    assert (
        done.stderr == "flexdoctor: cannot write $GITHUB_STEP_SUMMARY /nonexistent/summary: No such file or directory\n"
    )


def test_annotations_are_relative_to_the_checkout(run: Run, tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/requirements.txt").write_text("torch==2.7.1\ntorch-npu==2.7.1\n")
    arguments = ("check", "-r", "requirements.txt", "--format", "github")
    below = run(*arguments, cwd=tmp_path / "deploy", GITHUB_WORKSPACE=str(tmp_path))
    assert "::error file=deploy/requirements.txt,line=1,title=flexdoctor FD201::" in below.stdout
    (tmp_path / "link").symlink_to(tmp_path)
    linked = run(*arguments, cwd=tmp_path / "deploy", GITHUB_WORKSPACE=str(tmp_path / "link"))
    assert "::error file=deploy/requirements.txt,line=1,title=flexdoctor FD201::" in linked.stdout
    elsewhere = run(*arguments, cwd=tmp_path / "deploy", GITHUB_WORKSPACE="/somewhere")
    assert "::error file=requirements.txt,line=1," in elsewhere.stdout


# Files that are written as a whole.


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", "a")
    finally:
        os.umask(old)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_mode_and_link_stay(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old and longer")
    (tmp_path / "real").chmod(0o604)
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").readlink() == Path("real")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o604
    assert {path.name for path in tmp_path.iterdir()} == {"link", "real"}


def test_a_dangling_link_makes_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "new")
    assert ((tmp_path / "real").read_text(), (tmp_path / "link").is_symlink()) == ("new", True)


def test_a_second_name_sees_the_new_content(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("old and longer")
    (tmp_path / "other").hardlink_to(tmp_path / "one")
    write_whole(tmp_path / "one", "new")
    assert (tmp_path / "other").read_text() == "new"


def test_whoever_reads_meanwhile_has_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("old")
    with path.open() as reader:
        write_whole(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "chmod", fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


@pytest.mark.skipif(cann_trees.is_root(), reason="root may write anywhere")
def test_a_file_that_is_not_to_be_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        write_whole(path, "new")
    assert path.read_text() == "old"


def test_a_folder_that_takes_no_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "report").write_text("old and longer")
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    write_whole(tmp_path / "report", "new")
    assert (tmp_path / "report").read_text() == "new"
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "new", "new")


def test_a_pipe_gets_it_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_whole(tmp_path / "pipe", "x" * 200_000)
    reader.join()
    assert got == ["x" * 200_000]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("how", ["pipe", "file", "append"])
def test_stdout_by_its_path(tmp_path: Path, how: str) -> None:
    command = f'"{sys.executable}" -m flexdoctor {" ".join(BROKEN)} --format json -o /dev/stdout'
    target = tmp_path / "out"
    target.write_text("[]\n" if how == "append" else "")
    end = {"pipe": f"| cat > {target}", "file": f"> {target}", "append": f">> {target}"}[how]
    subprocess.run(["sh", "-c", f"{command} {end}"], capture_output=True, check=False)
    written = target.read_text().removeprefix("[]\n" if how == "append" else "")
    jsonschema.validate(json.loads(written), SCHEMA)
    assert how != "append" or target.read_text().startswith("[]\n")


def test_text_that_is_no_unicode_is_written_all_the_same(tmp_path: Path) -> None:
    write_whole(tmp_path / "x", "a\udcffb")
    assert (tmp_path / "x").read_bytes() == b"a\\udcffb"
