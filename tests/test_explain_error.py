"""`flexdoctor explain --error` as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import on_terminal, run

from flexdoctor.reports.wrapping import cells

LOGS = Path(__file__).parent / "logs"
DRIVER = str(LOGS / "3279-no-driver.log")


def explain(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "flexdoctor", "explain", "--error", *arguments]
    return subprocess.run(command, input=text, capture_output=True, check=False, env={**os.environ, "LANG": "C.UTF-8"})


def test_a_pipe_gets_the_answer_first_and_a_line_for_each_thing() -> None:
    done = run("explain", "--error", DRIVER, "--lang", "en", COLUMNS="40")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("3279-no-driver.log (23 lines)")
    assert lines[1].startswith("triton has no driver for this device")
    assert lines[1].endswith("   FD213 or FD212 or FD215 or FD149")
    assert lines[2] == "line 21: RuntimeError: 0 active drivers ([]). There should only be one."
    assert "  sure: medium: several faults end in this error" in lines
    assert "  where: lines 21 to 22, 2 times, ranks 0-1" in lines
    assert "  check: flexdoctor check --select FD213,FD212,FD215,FD149" in lines
    assert "  next: flexdoctor explain FD213 FD212 FD215 FD149" in lines
    assert "  next: flexdoctor fix" in lines


def test_chinese() -> None:
    lines = run("explain", "--error", DRIVER, "--lang", "zh").stdout.splitlines()
    assert "  把握：中：多种故障都会报出此错误" in lines
    assert "  位置：第 21 至 22 行，2 次，rank 0-1" in lines
    assert lines[2].startswith("第 21 行：RuntimeError")


@pytest.mark.parametrize("columns", [60, 80, 140])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_terminal_gets_lines_that_fit_but_for_what_is_copied(columns: int, language: str) -> None:
    shown = on_terminal(["explain", "--error", DRIVER, "--lang", language, "--color", "never"], columns)
    long = [line for line in shown.splitlines() if cells(line) > columns]
    assert all(any(word in line for word in ("site-packages", "RuntimeError", "3279", "--select")) for line in long), (
        long
    )


def test_json_is_one_document_with_the_same_answer() -> None:
    done = run("explain", "--error", DRIVER, "--format", "json")
    document = json.loads(done.stdout)
    assert (document["verdict"], document["exit_code"], done.returncode) == ("known", 1, 1)
    (finding,) = document["findings"]
    assert [item["code"] for item in finding["codes"]] == document["codes"] == ["FD213", "FD212", "FD215", "FD149"]
    assert (finding["error"]["line"], finding["count"], finding["ranks"]) == (21, 2, [0, 1])
    assert finding["commands"][0] == "flexdoctor check --select FD213,FD212,FD215,FD149"


def test_markdown_cannot_be_led_astray_by_a_log() -> None:
    done = explain("-", "-f", "markdown", text=b"KeyError: '```' <b> | [x](y)\n")
    first, *lines = done.stdout.decode().splitlines()
    assert [line for line in lines if line.startswith("```")] == ["```text", "```"]
    assert not set("`<|[") & set(re.sub(r"\\.", "", first))


def test_stdin_and_nothing_wrong() -> None:
    done = explain("-", "--lang", "en", text=b"step 1\nstep 2\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines()[1] == "no error in it that could be read"


def test_an_unknown_error_is_said_to_be_unknown_with_its_line() -> None:
    done = explain("-", "--lang", "en", text=b"step 1\nKeyError: 'lm_head'\n")
    assert done.returncode == 3
    headline = done.stdout.decode().splitlines()[1]
    assert headline.startswith("not known to flexdoctor; the line that looks most like the cause is 2: KeyError")


def test_several_unknown_errors_name_one_command() -> None:
    done = explain("-", "--lang", "en", text=b"KeyError: 'lm_head'\nFileNotFoundError: no weights\nOddError: x\n")
    lines = done.stdout.decode().splitlines()
    assert lines.count("  what: not known to flexdoctor") > 1
    assert lines.count("  check: flexdoctor check") == 1


def test_without_an_exception_the_line_that_looks_most_like_the_cause_is_told() -> None:
    done = explain("-", "--lang", "en", text=b"[ERROR] odd\nx.cpp:1: fatal error: y.h: No such file\n[ERROR] end\n")
    assert done.returncode == 3
    assert "is 2: x.cpp:1: fatal error" in done.stdout.decode()


def test_what_a_log_says_does_nothing_to_a_terminal() -> None:
    done = explain("-", text=b"ValueError: \x1b]0;title\x07\x1b[2J \x08\x9b1m odd\n")
    assert b"\x1b" not in done.stdout
    assert b"\x08" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (["/nowhere/x.log"], 3, "cannot read /nowhere/x.log: No such file or directory; give a file"),
        (["."], 3, "cannot read .: Is a directory"),
        ([DRIVER, "FD213"], 2, "--error stands without a code, found FD213"),
        ([], 2, "--error"),
    ],
)
def test_errors_say_what_is_wrong(arguments: list[str], exit_code: int, says: str) -> None:
    done = explain(*arguments)
    assert (done.returncode, done.stdout) == (exit_code, b"")
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_an_archive_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log.zip"
    log.write_bytes(b"PK\x03\x04")
    done = explain(str(log))
    assert done.returncode == 3
    assert b"a zip archive: unpack it first" in done.stderr


def test_stdin_that_is_no_text_is_named() -> None:
    done = explain("-", "--lang", "en", text=bytes(range(1, 8)) * 200)
    assert done.returncode == 3
    assert "cannot read stdin: it is not text" in done.stderr.decode()
    assert "give a file" not in done.stderr.decode()


def test_a_code_alone_has_a_chinese_headline() -> None:
    done = explain("-", "--lang", "zh", text=b"aclrtX failed, error code is 507011\n")
    assert done.returncode == 1
    assert done.stdout.decode().splitlines()[1] == "错误码 507011（ACL_ERROR_RT_MODEL_EXECUTE）：模型执行失败"
