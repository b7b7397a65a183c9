"""The machine's side of the command line, as a user runs it."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cann_trees as trees
import pytest

from flexdoctor.cli import main


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def flexdoctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str | Path, **variables: str) -> Done:
        for key, value in variables.items():
            monkeypatch.setenv(key, value)
        monkeypatch.setattr(sys, "argv", ["flexdoctor", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        written = capsys.readouterr()
        return Done(int(end.value.code or 0), written.out, written.err)

    return run


@pytest.fixture
def machine(tmp_path: Path) -> trees.Machine:
    return trees.machine(tmp_path / "root")


def test_image_from_outside_with_an_env_file(flexdoctor: Run, machine: trees.Machine, tmp_path: Path) -> None:
    lines = ["# variables of the image", "", *(f"export {key}={value!r}" for key, value in machine.variables.items())]
    file = trees.write(tmp_path / "env", "\n".join(lines))
    done = flexdoctor("check", "--site-packages", machine.site, "--root", machine.root, "--env-file", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS - cann 9.1.0 at /usr/local/Ascend/cann-9.1.0, sourced" in done.stdout


def test_what_env_printed_in_the_image_will_do(flexdoctor: Run, machine: trees.Machine, tmp_path: Path) -> None:
    lines = ["BASH_FUNC_ml%%=() {  eval `x`", "}", *(f"{key}={value}" for key, value in machine.variables.items())]
    file = trees.write(tmp_path / "env", "\n".join([*lines, "PS1=\\u", "second line of a value"]))
    done = flexdoctor("check", "--site-packages", machine.site, "--root", machine.root, "--env-file", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_env_beats_the_file(flexdoctor: Run, machine: trees.Machine, tmp_path: Path) -> None:
    file = trees.write(tmp_path / "env", "\n".join(f"{key}={value}" for key, value in machine.variables.items()))
    done = flexdoctor(
        "check", "--site-packages", machine.site, "--root", machine.root, "--env-file", file,
        "--env", "ASCEND_RT_VISIBLE_DEVICES=", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stdout)["root_cause"] == "FD137"


def test_variables_of_this_process_say_nothing_about_an_image(flexdoctor: Run, machine: trees.Machine) -> None:
    done = flexdoctor(
        "check", "--site-packages", machine.site, "--root", machine.root, "--format", "json",
        ASCEND_HOME_PATH="/usr/local/Ascend/cann", ASCEND_RT_VISIBLE_DEVICES="77",
    )  # fmt: skip
    assert json.loads(done.stdout)["root_cause"] == "FD123"


def test_chinese_says_the_same(flexdoctor: Run, machine: trees.Machine) -> None:
    done = flexdoctor("check", "--site-packages", machine.site, "--root", machine.root, "--lang", "zh")
    assert "CANN 9.1.0 已安装但未加载环境变量   FD123" in done.stdout.splitlines()[1]
    assert "source /usr/local/Ascend/cann/set_env.sh" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "A=1"], "go with --root"),
        (["--root", "/nonexistent-root"], "is not a folder"),
        (["--env", "no-separator"], "expected KEY=VALUE"),
        (["--env", "=x"], "expected KEY=VALUE"),
        (["--env-file", "/nonexistent-env"], "No such file"),
        (["--env-file", "/dev/null"], "has no line KEY=VALUE"),
    ],
)
def test_wrong_use_is_one_line(flexdoctor: Run, machine: trees.Machine, arguments: list[str], message: str) -> None:
    rooted = [] if arguments[:2] == ["--env", "A=1"] else ["--root", str(machine.root)]
    if arguments[0] == "--root":
        rooted = []
    done = flexdoctor("check", "--site-packages", machine.site, *rooted, *arguments)
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_deep_without_its_reader_names_the_extra(
    flexdoctor: Run, machine: trees.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "elftools" else real(name, *rest)
    )
    done = flexdoctor("check", "--site-packages", machine.site, "--deep")
    assert done.returncode == 2
    assert "pip install 'flexdoctor[deep]'" in done.stderr


def test_help_says_how_missing_hardware_counts(
    flexdoctor: Run,
) -> None:
    text = " ".join(flexdoctor("check", "--help-all").stdout.split())
    assert "only with --require does the missing hardware count too" in text


def test_no_ascend_at_all_is_told_in_the_first_lines_and_decides_only_on_demand(
    flexdoctor: Run, tmp_path: Path
) -> None:
    root = tmp_path / "bare"
    (root / "dev").mkdir(parents=True)
    trees.lay_system(root)
    site = trees.lay_site(root)
    arguments = ("check", "--site-packages", site, "--root", root)
    done = flexdoctor(*arguments)
    assert done.returncode == 0, done.stdout
    assert "there is no CANN and no Ascend device on this machine   FD121" in done.stdout.splitlines()[1]
    assert "have no fault" in done.stdout.splitlines()[2]
    assert flexdoctor(*arguments, "--require", "compiled_forward").returncode == 1


def test_packages_at_fault_too_name_both_in_the_first_lines(flexdoctor: Run, tmp_path: Path, site: Path) -> None:
    root = tmp_path / "bare"
    root.mkdir()
    head = flexdoctor("check", "--site-packages", site, "--root", root).stdout.splitlines()[:4]
    assert "FD111" in head[1]
    assert "FD121" in head[2]
