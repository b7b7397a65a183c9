"""`flexdoctor check --live` as a user calls it: one document on stdout, progress on stderr, an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import patients
import pytest

GOOD = "__version__ = '9.9'\n__file__ = 'x'\ndef get_num_threads(): return 1\n"


def check(*options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flexdoctor", "check", "--python", sys.executable, *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env={**os.environ})


def test_noise_of_the_patient_stays_out_of_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients.make_torch(tmp_path, f"import os\nos.write(1, b'noise ' * 400000)\n{GOOD}", monkeypatch)
    done = check("--live", "--device", "cpu", "--timeout", "60", "--format", "json", cwd=tmp_path)
    document = json.loads(done.stdout)
    live = {item["code"]: item for item in document["findings"] if item["link"] == "live_run"}
    assert "to stdout" in live["FD412"]["title"]
    assert "noise noise" not in done.stdout
    assert "live torch passed" in done.stderr
    # This torch has no tensors, which no table knows.
    assert "an error that flexdoctor does not know: AttributeError" in live["FD403"]["title"]
    assert done.returncode == 1


def test_a_death_is_told_in_plain_lines_and_in_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients.make_torch(tmp_path, "import ctypes\nctypes.string_at(0)\n", monkeypatch)
    done = check("--live", "--device", "cpu", "--lang", "en", cwd=tmp_path)
    assert "FAIL FD405 live_run import torch died of SIGSEGV\n" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "live torch died" in done.stderr
    assert "live compiled_forward" not in done.stderr
    done = check("--live", "--device", "cpu", "--lang", "zh", cwd=tmp_path)
    assert "导入 torch 因 SIGSEGV 崩溃" in done.stdout


def test_without_live_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients.make_torch(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\n", monkeypatch)
    done = check(cwd=tmp_path)
    assert "SKIPPED - live_run not asked for (--live)\n" in done.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--device", "cpu"), "--device goes with --live"),
        (("--ranks", "2"), "--ranks goes with --live"),
        (("--keep-cache",), "--keep-cache goes with --live"),
        (("--live", "--timeout", "0"), "--timeout"),
        (("--live", "--device", "tpu"), "--device"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    done = check(*options, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_a_bare_folder_has_no_interpreter_to_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flexdoctor", "check", "--site-packages", str(tmp_path), "--live"]
    done = subprocess.run([*command, "--format", "json"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["exit_code"] == 2
