"""What CI systems are given: valid by the schemas of their makers, and its steps run as a runner would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import builders
import cann_trees
import jsonschema
import pytest
import typer
import yaml

from flexdoctor import hook
from flexdoctor.cli import app

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / ".github/actions/check/action.yml").read_text(encoding="utf-8"))
JOB: dict[str, Any] = yaml.safe_load((ROOT / ".gitlab/flexdoctor.yml").read_text(encoding="utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
BROKEN = "torch==2.7.1\ntorch-npu==2.7.1\ntriton-ascend==3.2.0\n"
HEALTHY = "torch==2.14.0\ntorch-npu==2.14.0\ntriton-ascend==3.2.2\n"


@pytest.mark.parametrize(("document", "schema"), [(ACTION, "github-actions"), (JOB, "gitlab-ci")])
def test_valid_by_the_schema_of_its_maker(document: dict[str, Any], schema: str) -> None:
    folder = files("check_jsonschema.builtin_schemas.vendor")
    jsonschema.validate(document, json.loads(folder.joinpath(f"{schema}.json").read_text(encoding="utf-8")))


def step(identity: str) -> dict[str, Any]:
    (only,) = [item for item in ACTION["runs"]["steps"] if item.get("id") == identity]
    return dict(only)


def test_no_input_is_put_into_a_script() -> None:
    assert [item for item in ACTION["runs"]["steps"] if "${{" in item.get("run", "")] == []


def run_step(
    identity: str, folder: Path, *, checkout: Path = ROOT, **inputs: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run a step of the action in `folder` as the runner does: `bash -e -o pipefail`, inputs by variables."""
    given = {name: item["default"] for name, item in ACTION["inputs"].items()} | inputs
    temp = folder / ".runner"
    temp.mkdir(exist_ok=True)
    if identity != "install" and not (temp / "flexdoctor").exists():
        # What the install step makes, from what is installed here.
        (temp / "flexdoctor").symlink_to(sys.prefix)
    script, output = temp / "step.sh", temp / "output"
    script.write_text(step(identity)["run"], encoding="utf-8")
    output.write_text("")
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: given[match[1]], value)
        for name, value in step(identity)["env"].items()
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=folder,
        env={
            **os.environ,
            **variables,
            "RUNNER_TEMP": str(temp),
            "GITHUB_WORKSPACE": str(folder),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(temp / "summary"),
            "GITHUB_ACTION_PATH": str(checkout / ".github/actions/check"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done, dict(line.split("=", 1) for line in output.read_text().splitlines())


def test_action_annotates_the_line_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(BROKEN)
    done, outputs = run_step("check", tmp_path, target="-r requirements.txt")
    assert done.returncode == 1
    assert "::error file=requirements.txt,line=1,title=flexdoctor FD201::" in done.stdout
    assert outputs == {"sarif": "flexdoctor.sarif", "exit-code": "1"}
    log = json.loads((tmp_path / "flexdoctor.sarif").read_text())
    assert log["runs"][0]["invocations"][0]["exitCode"] == 1
    assert "FD201" in (tmp_path / ".runner/summary").read_text()


def test_action_on_a_healthy_plan_with_quoted_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "with blank"
    folder.mkdir()
    (folder / "requirements.txt").write_text(HEALTHY)
    done, outputs = run_step(
        "check", tmp_path, target='-r "with blank/requirements.txt"', args="--python-version 3.11", sarif="a b.sarif"
    )
    assert (done.returncode, outputs) == (0, {"sarif": "a b.sarif", "exit-code": "0"}), done.stderr
    assert (tmp_path / "a b.sarif").is_file()


def test_action_tells_a_target_that_is_not_there(tmp_path: Path) -> None:
    done, outputs = run_step("check", tmp_path, target="-r nothing.txt")
    assert (done.returncode, outputs["exit-code"]) == (3, "3")
    assert done.stdout.startswith("::error title=flexdoctor ended with 3::nothing.txt cannot be read")


def test_action_runs_nothing_of_its_inputs(tmp_path: Path) -> None:
    run_step("check", tmp_path, target="-r $(touch evil) `touch evil` ; touch evil", args="'; touch evil")
    assert not (tmp_path / "evil").exists()


def test_action_without_a_target_examines_the_python_of_the_job(tmp_path: Path) -> None:
    other = tmp_path / "job"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    done, _ = run_step("check", tmp_path, python=str(other / "bin/python"), args="--format json")
    # The action's own format stands last and holds.
    assert "::error title=flexdoctor FD111::torch is not installed here" in done.stdout
    (run,) = json.loads((tmp_path / "flexdoctor.sarif").read_text())["runs"]
    assert run["properties"]["target"].startswith(str(other))


def gitlab(folder: Path, **variables: str) -> int:
    """Run the last line of the job's script, with the program that is installed here."""
    defaults = {name: item["value"] for name, item in JOB["variables"].items()}
    line = JOB["flexdoctor"]["script"][-1]
    own = Path(sys.executable).with_name("flexdoctor")
    theirs = '"$CI_PROJECT_DIR/.flexdoctor-venv/bin/flexdoctor"'
    assert line.startswith(f"{theirs} check ")
    return subprocess.run(
        ["sh", "-e", "-c", line.replace(theirs, f'"{own}"')],
        cwd=folder,
        env={**os.environ, **defaults, **variables, "CI_PROJECT_DIR": str(folder)},
        capture_output=True,
        check=False,
    ).returncode


def test_gitlab_job_leaves_the_report_that_it_promises(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(BROKEN)
    assert gitlab(tmp_path) == 1
    report = tmp_path / JOB["flexdoctor"]["artifacts"]["reports"]["junit"]
    assert 'name="FD201"' in report.read_text()
    assert gitlab(tmp_path, FLEXDOCTOR_ARGS="--ignore FD201,FD214,FD241 --exit-zero") == 0


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        ("requirements.txt", True),
        ("deploy/requirements-npu.txt", True),
        ("requirements/npu.txt", True),
        ("uv.lock", True),
        ("pylock.toml", True),
        ("a/pylock.npu.toml", True),
        ("pyproject.toml", False),
        ("requirements.in", False),
        ("docs/notes.txt", False),
        ("poetry.lock", False),
    ],
)
def test_files_that_the_hook_takes(name: str, is_taken: bool) -> None:
    assert bool(re.search(HOOK["files"], name)) is is_taken


def run_hook(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *HOOK["entry"].split()[1:], *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_hook_judges_each_file_alone(tmp_path: Path) -> None:
    (tmp_path / "requirements-a.txt").write_text(HEALTHY)
    (tmp_path / "requirements-b.txt").write_text(BROKEN)
    (tmp_path / "requirements-docs.txt").write_text("sphinx==8.0\ntorch==2.7.1\n")
    code, said = run_hook(tmp_path, "requirements-a.txt", "requirements-b.txt", "requirements-docs.txt")
    assert code == 1
    assert [line.split("examining ")[1].split(",")[0] for line in said.splitlines() if "examining" in line] == [
        "requirements-a.txt",
        "requirements-b.txt",
    ]
    assert run_hook(tmp_path, "--fail-on", "warning", "requirements-a.txt", "requirements-docs.txt")[0] == 1


def test_hook_ends_with_the_worst(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends = {"a": 0, "b": 3, "c": 1}
    for name in ends:
        (tmp_path / name).write_text("triton_ascend==3.2.2")
    monkeypatch.chdir(tmp_path)

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[3:5] == ["check", "-r"]
        return subprocess.CompletedProcess(command, ends[command[5]])

    monkeypatch.setattr(subprocess, "run", run)
    assert hook.main(["a", "b", "c"]) == 3
    assert hook.main(["--strict", "a", "c"]) == 1
    assert hook.main([]) == 0


def test_hook_could_not_complete_where_a_check_was_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("torch-npu")
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, -9))
    assert hook.main([str(tmp_path / "a")]) == 3


def test_hook_does_not_judge_the_value_of_an_option(tmp_path: Path) -> None:
    (tmp_path / "flexdoctor.toml").write_text('[ignore]\nFD201 = "torch-npu is patched"\n')
    (tmp_path / "requirements.txt").write_text(BROKEN)
    code, said = run_hook(tmp_path, "--config", "flexdoctor.toml", "requirements.txt")
    assert [line.split("examining ")[1].split(",")[0] for line in said.splitlines() if "examining" in line] == [
        "requirements.txt"
    ]
    assert "WAIVED FD201" in said, (code, said)
    assert run_hook(tmp_path, "--config", "flexdoctor.toml") == (0, "")


def test_hook_knows_the_options_that_take_a_value() -> None:
    group: Any = typer.main.get_command(app)
    check = group.get_command(None, "check")
    assert {
        name for item in check.params if not getattr(item, "is_flag", True) for name in item.opts
    } == hook.WITH_VALUE


@pytest.mark.parametrize(
    ("torch", "npu", "options", "code"),
    [
        # A pair that the vendor's tables name: an image without device and driver passes at build time.
        ("2.9.0", "2.9.0.post6", ["--strict"], 0),
        # A release that no table names yet: strict says so until that is accepted.
        ("2.13.0", "2.13.0", ["--strict"], 3),
        ("2.13.0", "2.13.0", ["--strict", "--ignore", "FD142"], 0),
        # What must be there at run time cannot be there at build time.
        ("2.9.0", "2.9.0.post6", ["--strict", "--require", "compiled_forward"], 1),
    ],
)
def test_image_build(tmp_path: Path, torch: str, npu: str, options: list[str], code: int) -> None:
    machine = cann_trees.machine(tmp_path / "image", nodes=(), pci=None, driver=False, torch=torch, npu=npu)
    (machine.root / ".dockerenv").touch()
    variables = [word for item in machine.variables.items() for word in ("--env", "=".join(item))]
    target = ["--site-packages", str(machine.site), "--root", str(machine.root), *variables]
    command = [sys.executable, "-m", "flexdoctor", "check", *options, *target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr


def test_image_build_fails_on_broken_packages(tmp_path: Path) -> None:
    machine = cann_trees.machine(tmp_path / "image", nodes=(), pci=None, driver=False)
    builders.install_triton(machine.site)
    target = ["--site-packages", str(machine.site), "--root", str(machine.root)]
    command = [sys.executable, "-m", "flexdoctor", "check", "--strict", *target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAIL FD213 triton_install" in done.stdout
