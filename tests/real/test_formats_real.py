"""The reports held against the schemas of their formats, and the CI pieces installed as their users install them.

The schemas are those that others ship: that of SARIF 2.1.0, by OASIS, in the npm package @microsoft/jest-sarif, and
that of JUnit, by which the xunit plugin of Jenkins reads, in the source distribution of pytest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diagnoses
import jsonschema
import pytest
import xmlschema
from real.wheelhouse import CACHE
from reports.test_agreement import CRASHES, FAILS, OPEN, PASSES, SKIPS, WARNS, case, everything
from test_ci_pieces import BROKEN, HEALTHY, ROOT, run_step

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.findings import Evidence, Waiver, found
from flexdoctor.reports.rendering import Diagnosis, Format, Page, render, render_error
from flexdoctor.snapshots import load_example

pytestmark = pytest.mark.real

SARIF = ("@microsoft/jest-sarif@1.0.0-beta.0", "package/lib/schemas/sarif-2.1.0-rtm.5.json")
JUNIT = ("pytest==9.2.0", "pytest-9.2.0/testing/example_scripts/junit-10.xsd")


def cached(name: str, member: str, fetch: list[str]) -> bytes:
    """Return a file of an archive that `fetch` downloads into the folder it runs in; once."""
    folder = CACHE / "schemas"
    path = folder / Path(member).name
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(fetch, cwd=folder, check=True, capture_output=True)
        (archive,) = folder.glob(f"*{name}*gz")
        with tarfile.open(archive) as content:
            file = content.extractfile(member)
            assert file is not None
            path.write_bytes(file.read())
    return path.read_bytes()


@pytest.fixture(scope="module")
def sarif_schema() -> jsonschema.Draft4Validator:
    if shutil.which("npm") is None and not (CACHE / "schemas" / Path(SARIF[1]).name).is_file():
        pytest.skip("no npm here, which serves the schema of SARIF")
    schema = json.loads(cached("jest-sarif", SARIF[1], ["npm", "pack", "--silent", SARIF[0]]))
    assert schema["$schema"] == "http://json-schema.org/draft-04/schema#"
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())


@pytest.fixture(scope="module")
def junit_schema() -> xmlschema.XMLSchema:
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", JUNIT[0]]
    return xmlschema.XMLSchema(cached("pytest", JUNIT[1], fetch).decode())


def diagnosed() -> Iterator[Diagnosis]:
    """Every case and example, and what they lack."""
    for name, is_example in everything():
        facts = load_example(name) if is_example else case(name)
        yield Diagnosis(diagnose(facts, CHAIN), facts, CHAIN, strict=is_example)
    for finding in (CRASHES, FAILS, OPEN, PASSES, SKIPS, WARNS):
        yield diagnoses.of(finding, strict=True)
    plan = diagnoses.planned(("torch", "2.7.1", 3))
    yield diagnoses.of(FAILS, facts=plan, waivers=[Waiver("FD901", "known")])
    hostile = "[x](y) \x1b \ud800 <b>&]]>\n"
    evidence = [Evidence("file", hostile, path="/a b/#?.py", line=3), Evidence("file", "x", path="~/ä.py")]
    yield diagnoses.of(found("invented", diagnoses.FAILS, name=hostile, evidence=evidence))


def test_sarif(sarif_schema: jsonschema.Draft4Validator) -> None:
    for diagnosis in diagnosed():
        for page in (Page(base=Path.cwd()), Page(language="zh")):
            sarif_schema.validate(json.loads(render(Format.sarif, diagnosis, page)))
    sarif_schema.validate(json.loads(render_error(Format.sarif, "/x does not exist", 3)))


def test_the_schema_of_sarif_would_tell(sarif_schema: jsonschema.Draft4Validator) -> None:
    log: dict[str, Any] = json.loads(render(Format.sarif, diagnoses.of(FAILS), Page()))
    del log["runs"][0]["results"][0]["message"]
    assert not sarif_schema.is_valid(log)


def test_junit(junit_schema: xmlschema.XMLSchema) -> None:
    for diagnosis in diagnosed():
        junit_schema.validate(render(Format.junit, diagnosis, Page()))
    junit_schema.validate(render_error(Format.junit, "/x does not exist", 3))


def test_the_schema_of_junit_would_tell(junit_schema: xmlschema.XMLSchema) -> None:
    written = render(Format.junit, diagnoses.of(FAILS), Page())
    assert not junit_schema.is_valid(written.replace('classname="flexdoctor.invented" name=', "wrong="))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a user gets of this repository."""
    folder = tmp_path / "flexdoctor"
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("doctor", "checks", "fixes", ".github"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def committed(folder: Path) -> Path:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    return folder


def test_action_installs_itself(tmp_path: Path, checkout: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / "requirements.txt").write_text(BROKEN)
    installed, _ = run_step("install", job, checkout=checkout, python=sys.executable)
    assert installed.returncode == 0, installed.stderr
    done, outputs = run_step("check", job, checkout=checkout, target="-r requirements.txt", args="--lang en")
    assert (done.returncode, outputs["exit-code"]) == (1, "1")
    assert "::error file=requirements.txt,line=1,title=flexdoctor FD201::" in done.stdout


def test_pre_commit_installs_the_hook_and_runs_it(tmp_path: Path, checkout: Path) -> None:
    tool = tmp_path / "tool"
    subprocess.run([sys.executable, "-m", "venv", str(tool)], check=True)
    subprocess.run([str(tool / "bin/pip"), "install", "-q", "pre-commit"], check=True, capture_output=True)
    project = tmp_path / "project"
    project.mkdir()
    (project / "requirements.txt").write_text(HEALTHY)
    (project / "README.md").write_text("torch-npu\n")
    committed(project)
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "store")}
    command = [str(tool / "bin/pre-commit"), "try-repo", str(committed(checkout)), "flexdoctor", "--all-files"]

    def hook() -> tuple[int, str]:
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, said = hook()
    assert code == 0, said
    assert "Passed" in said
    (project / "requirements-old.txt").write_text(BROKEN)
    git(project, "add", "-A")
    code, said = hook()
    assert code == 1
    assert "examining requirements-old.txt" in said
    assert "FAIL FD201 device_validation" in said
