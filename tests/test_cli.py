"""The command line as a user runs it: a process, its two streams, its exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import builders
import jsonschema
import pytest

SCHEMA = json.loads(files("flexdoctor.reports").joinpath("report.schema.json").read_text(encoding="utf-8"))


def run(
    *arguments: str, stdin: bytes = b"", cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "flexdoctor", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(encoding), done.stderr.decode("utf-8")
    )


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, SCHEMA)
    return data


@pytest.fixture
def broken(site: Path) -> Path:
    builders.install_healthy(site)
    builders.install_triton(site)
    return site


@pytest.fixture
def healthy(site: Path) -> Path:
    builders.install_healthy(site)
    return site


def test_broken_environment_in_a_pipe(broken: Path) -> None:
    done = run("check", "--site-packages", str(broken))
    assert done.returncode == 1
    assert done.stderr == ""
    head, verdict, *lines = done.stdout.splitlines()
    assert head.startswith("flexdoctor ")
    assert str(broken) in head
    assert verdict.startswith("compiled flex_attention cannot run here: triton was written over triton-ascend")
    assert verdict.endswith("FD213")
    assert any(line.startswith("FAIL FD213 triton_install triton was written over") for line in lines)
    assert any(line.startswith("BLOCKED FD213 module_rename ") for line in lines)
    assert lines[-1].startswith("can run: eager yes, compiled forward no (FD213)")
    assert "\x1b" not in done.stdout


def test_healthy_environment(healthy: Path) -> None:
    done = run("check", "--site-packages", str(healthy))
    assert done.returncode == 0
    assert "nothing found that keeps it from running here" in done.stdout


def test_json_and_text_lead_to_the_same_exit_code(broken: Path) -> None:
    for flags, code in (((), 1), (("--exit-zero",), 0), (("--require", "eager"), 0), (("--ignore", "FD213"), 0)):
        text = run("check", "--site-packages", str(broken), *flags)
        as_json = run("check", "--site-packages", str(broken), "--format", "json", *flags)
        assert (text.returncode, as_json.returncode) == (code, code), flags
        document(as_json)


def test_json_document(broken: Path) -> None:
    data = document(run("check", "--site-packages", str(broken), "--format", "json"))
    assert data["verdict"] == "broken"
    assert data["root_cause"] == "FD213"
    assert data["capabilities"]["eager"] == {"available": "yes", "because": None}
    assert data["capabilities"]["compiled_forward"] == {"available": "no", "because": "FD213"}
    blocked = next(item for item in data["findings"] if item["status"] == "blocked")
    assert (blocked["link"], blocked["blocked_by"]) == ("module_rename", "FD213")
    proof = next(item for item in data["findings"] if item["code"] == "FD213")["evidence"][0]
    assert Path(proof["path"]).is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["check", "--python", "/nonexistent"], 3, "/nonexistent does not exist"),
        (["check", "--site-packages", "/nonexistent"], 3, "is not a folder of packages: No such file"),
        (["check", "--snapshot", "/nonexistent"], 3, "cannot be read"),
        (["check", "-r", "/nonexistent"], 3, "cannot be read"),
        (["check", "--wheels", "/nonexistent"], 3, "cannot be read"),
        (["check", "--example", "nothing"], 3, "there is no example nothing; there are 1-gate-closed"),
        (["check", "--python", "a", "--site-packages", "b"], 2, "are 2 targets; name one"),
        (["check", "--root", "/"], 2, "--root goes with --site-packages"),
        (["check", "--platform", "linux_aarch64"], 2, "go with -r or --wheels"),
        (["check", "-r", "-", "--platform", "win32"], 2, "expected linux_aarch64 or linux_x86_64"),
        (["check", "-r", "-", "--python-version", "2"], 2, "expected a version like 3.11"),
        (["check", "--format", "xml"], 2, "xml"),
        (["check", "--no-such-option"], 2, "No such option"),
        (["check", "--select", "FD299"], 2, "there is no FD299"),
        (["check", "--ignore", "triton_install"], 2, "there is no triton_install"),
        (["check", "--select", "triton_instal"], 2, "did you mean triton_install?"),
        (["check", "/some/venv"], 2, "goes behind --python, --site-packages, -r"),
        (["check", "--wheels", str(Path(__file__).parent)], 3, "holds no wheel (*.whl)"),
        (["list"], 2, "Choose from: checks, stacks, fixes (see `flexdoctor list --help`)"),
        (["no-such-command"], 2, "No such command"),
    ],
)
def test_errors_are_one_clear_line_and_one_document(arguments: list[str], code: int, message: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    if "xml" not in arguments and arguments[0] == "check":
        as_json = run(*arguments, "--format", "json")
        assert as_json.returncode == code
        assert message in document(as_json)["error"]["message"]


def test_module_and_script_are_the_same_program() -> None:
    script = Path(sys.executable).with_name("flexdoctor")
    by_script = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=True)
    assert by_script.stdout == run("--version").stdout
    assert by_script.stdout.startswith("flexdoctor ")


def test_quiet_is_one_line_and_verbose_has_the_proof(broken: Path) -> None:
    quiet = run("check", "--site-packages", str(broken), "-q")
    assert len(quiet.stdout.splitlines()) == 1
    verbose = run("check", "--site-packages", str(broken), "-v").stdout
    assert "proof: torch_npu/utils/patch_flexattention.py:3  module._validate_device = accept" in verbose
    assert "you see: RuntimeError: 0 active drivers ([]). There should only be one." in verbose


def test_select_shows_only_that(broken: Path) -> None:
    lines = run("check", "--site-packages", str(broken), "--select", "device_validation").stdout.splitlines()
    assert [line.split()[2] for line in lines if line.startswith(("PASS", "FAIL"))] == ["device_validation"]


def test_fail_on_warning(healthy: Path) -> None:
    assert run("check", "--site-packages", str(healthy), "--fail-on", "warning").returncode == 1
    assert run("check", "--site-packages", str(healthy), FLEXDOCTOR_FAIL_ON="warning").returncode == 1


def test_strict_makes_unknown_count(site: Path) -> None:
    builders.install_healthy(site)
    (site / "torch/nn/attention/flex_attention.py").write_text("def _validate_device(q):\n    check(q)\n")
    builders.install(site, "x", "1")
    (site / "torch_npu/_init/patches/npu_patches.py").write_text("")
    assert run("check", "--site-packages", str(site)).returncode == 0
    assert run("check", "--site-packages", str(site), "--strict").returncode == 3


def test_output_goes_to_a_file_that_is_opened_late(healthy: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("precious")
    failed = run("check", "--python", "/nonexistent", "-o", str(target))
    assert (failed.returncode, target.read_text()) == (3, "precious")
    done = run("check", "--site-packages", str(healthy), "--format", "json", "-o", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    jsonschema.validate(json.loads(target.read_text()), SCHEMA)


def test_output_that_cannot_be_written(healthy: Path) -> None:
    done = run("check", "--site-packages", str(healthy), "-o", "/nonexistent/report")
    assert done.returncode == 3
    assert "cannot write /nonexistent/report: No such file" in done.stderr


def test_chinese(broken: Path) -> None:
    by_flag = run("check", "--site-packages", str(broken), "--lang", "zh")
    assert "编译版 flex_attention 在此环境无法运行：triton-ascend 的文件被上游 triton 覆盖" in by_flag.stdout
    by_locale = run("check", "--site-packages", str(broken), LC_ALL="zh_CN.UTF-8", PYTHONIOENCODING="utf-8")
    assert by_locale.stdout == by_flag.stdout
    codes = {line.split()[1] for line in by_flag.stdout.splitlines() if line.startswith("FAIL")}
    assert codes == {"FD213"}


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "cp1252"])
def test_every_encoding_gets_a_report(broken: Path, encoding: str) -> None:
    done = run("check", "--site-packages", str(broken), "--lang", "zh", PYTHONIOENCODING=encoding)
    assert done.returncode == 1
    assert "FD213" in done.stdout
    assert ("覆盖" in done.stdout) is (encoding == "gbk")


def test_a_reader_that_goes_away_is_no_error(broken: Path) -> None:
    command = f'"{sys.executable}" -m flexdoctor check --site-packages "{broken}" -v | head -n 1'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("flexdoctor ")


def on_terminal(arguments: list[str], columns: int, **environment: str) -> str:
    """Run in a pseudo terminal of that width and return what it shows."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "flexdoctor", *arguments],
        stdout=terminal,
        stderr=terminal,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environment},
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            block = os.read(controller, 65536)
        except OSError:
            break
        if not block:
            break
        shown += block
    process.wait()
    os.close(controller)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_terminal(broken: Path, columns: int) -> None:
    shown = on_terminal(["check", "--site-packages", str(broken)], columns, NO_COLOR="1")
    assert "\x1b" not in shown
    lines = shown.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  1  interpreter"))
    chain = lines[start : start + 9]
    assert [line.split()[0] for line in chain] == [str(number) for number in range(1, 10)]
    assert all(len(line) <= columns for line in chain)
    assert "  you see  RuntimeError: 0 active drivers ([]). There should only be one." in shown
    assert "can run   eager yes" in shown


def test_colour_only_where_it_is_wanted(broken: Path) -> None:
    command = ["check", "--site-packages", str(broken)]
    assert "\x1b[1;31mFAIL" in on_terminal(command, 80)
    assert "\x1b" not in on_terminal([*command, "--color", "never"], 80)
    assert "\x1b" not in on_terminal(command, 80, TERM="dumb")


def test_an_empty_environment_is_a_diagnosis_and_no_error(site: Path) -> None:
    done = run("check", "--site-packages", str(site))
    assert done.returncode == 1
    assert "torch is not installed here" in done.stdout
    assert done.stderr == ""


def test_list_checks_names_every_code_in_both_languages() -> None:
    english, chinese = run("list", "checks").stdout, run("list", "checks", "--lang", "zh").stdout
    for code in ("FD101", "FD201", "FD213", "FD243"):
        assert code in english
        assert code in chinese
    assert "triton/" in english
    assert not {"{", "}"} & set(english + chinese)


def test_list_stacks_fits_and_says_when_nothing_does() -> None:
    shown = run("list", "stacks", "--python", "3.11", "--arch", "x86_64", "--cann", "9.0.0").stdout
    assert "torch-npu==2.7.1.post4" in shown
    assert "torch-npu==2.14.0" not in shown
    assert "no known set gives flex_attention" in run("list", "stacks", "--cann", "8.0.0").stdout


def test_snapshot_replays_byte_for_byte(broken: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    assert run("snapshot", "--site-packages", str(broken), "-o", str(path)).returncode == 0
    for form in ("text", "json"):
        direct = run("check", "--site-packages", str(broken), "--format", form)
        replayed = run("check", "--snapshot", str(path), "--format", form)
        assert replayed.stdout == direct.stdout
        assert replayed.returncode == direct.returncode


def test_a_fact_that_an_older_snapshot_lacks_is_unknown(healthy: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    run("snapshot", "--site-packages", str(healthy), "-o", str(path))
    data = json.loads(path.read_text())
    del data["facts"]["torch"]["gate"]
    path.write_text(json.dumps(data))
    report = document(run("check", "--snapshot", str(path), "--format", "json"))
    (finding,) = [item for item in report["findings"] if item["link"] == "device_validation"]
    assert (finding["status"], finding["code"]) == ("unknown", "FD205")
    assert report["verdict"] == "unknown"


def test_snapshot_holds_nothing_secret(healthy: Path) -> None:
    done = run(
        "snapshot",
        "--python",
        sys.executable,
        HF_TOKEN="hf_secret",
        PIP_INDEX_URL="https://user:password@host/simple",
        ASCEND_HOME_PATH=f"{Path.home()}/Ascend/x",
    )
    assert "hf_secret" not in done.stdout
    assert "password" not in done.stdout
    assert os.uname().nodename not in done.stdout
    data = json.loads(done.stdout)
    assert data["facts"]["machine"]["environment"]["ASCEND_HOME_PATH"] == "~/Ascend/x"
    assert str(Path.home()) + "/" not in done.stdout.replace(sys.executable, "")


def test_requirements_from_stdin_name_the_first_broken_link_and_a_set_to_move_to() -> None:
    pins = b"torch==2.7.1\ntorch-npu==2.7.1\ntriton-ascend==3.2.0\n"
    done = run("check", "-r", "-", stdin=pins)
    assert done.returncode == 1
    assert "FD201" in done.stdout.splitlines()[1]
    assert "move to the set torch-2.7" in done.stdout
    assert "planned for linux aarch64, assumed" in done.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--python", "/nonexistent"], "/nonexistent 不存在；应为 Python 解释器"),
        (["check", "--select", "triton_instal"], "是否想输入 triton_install？"),
        (["undo", "7"], "此处没有可撤销的修复"),
    ],
)
def test_errors_speak_the_language_of_the_locale(arguments: list[str], message: str) -> None:
    assert message in run(*arguments, LC_ALL="zh_CN.UTF-8", PYTHONIOENCODING="utf-8").stderr


@pytest.mark.parametrize("arguments", [["--ignore", "FD213"], ["--select", "packages"]])
def test_what_was_left_out_is_not_called_healthy(arguments: list[str]) -> None:
    done = run("check", "--example", "triton-overwritten", *arguments)
    assert done.stdout.splitlines()[1] == "compiled flex_attention cannot run here: FD213, which was left out here"
    assert done.returncode == 0
