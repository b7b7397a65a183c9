"""The real pip and the real uv on real environments, with stand-in wheels: broken, fixed, healthy, undone."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import builders
import jsonschema
import pytest
import standins
from stacks_for_tests import KNOWLEDGE, PACKAGES, STACKS

from flexdoctor.chain import diagnose
from flexdoctor.facts import Facts
from flexdoctor.findings import Report
from flexdoctor.fixes import FIXES
from flexdoctor.readers.environment import read_installed
from flexdoctor.text import Text
from flexdoctor.treatment import course, journal
from flexdoctor.treatment.course import Options
from flexdoctor.treatment.installers import IndexOptions, InstallerName
from flexdoctor.treatment.plan import Plan, Step, TreatmentError
from flexdoctor.treatment.planning import Knowledge, make_plan
from flexdoctor.treatment.target import survey

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    house = standins.full_house(tmp_path_factory.mktemp("house"))
    standins.package(house, "xgrammar", "0.1", requires=("triton>=3",))
    standins.package(house, "dep-of-torch", "1.5")
    standins.package(house, "dep-of-torch", "0.9")
    standins.torch(
        house,
        "2.13.0",
        requires=("dep-of-torch>=1", "triton==3.7.1", 'nothing-here; python_version < "3"'),
        has_triton=builders.HAS_TRITON_CAPABLE,
    )
    return house


@pytest.fixture(scope="module", autouse=True)
def _own_installer_settings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
            patch.delenv(name)
        for name, value in standins.INSTALLER_SETTINGS.items():
            patch.setenv(name, value)
        if UV:
            patch.setenv("PATH", f"{Path(UV).parent}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("template") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
    return prefix


@pytest.fixture(scope="module")
def overwritten_template(tmp_path_factory: pytest.TempPathFactory, template: Path, house: Path) -> Path:
    prefix = standins.clone(template, tmp_path_factory.mktemp("overwritten") / "env")
    pip_install(prefix, house, "torch==2.13.0", "torch-npu==2.13.0", "pybind11", "psutil", "triton-ascend==3.2.2")
    pip_install(prefix, house, "triton==3.7.1", "xgrammar")
    return prefix


@pytest.fixture(scope="module")
def old_template(tmp_path_factory: pytest.TempPathFactory, template: Path, house: Path) -> Path:
    prefix = standins.clone(template, tmp_path_factory.mktemp("old") / "env")
    pip_install(
        prefix, house, "torch==2.7.1", "torch-npu==2.7.1", "triton-ascend==3.2.0", "dep-of-torch==0.9", "psutil"
    )
    return prefix


@pytest.fixture
def overwritten(tmp_path: Path, overwritten_template: Path) -> Path:
    return standins.clone(overwritten_template, tmp_path / "env")


@pytest.fixture
def old(tmp_path: Path, old_template: Path) -> Path:
    return standins.clone(old_template, tmp_path / "env")


def pip_install(env: Path, house: Path, *pins: str) -> None:
    """As a user would."""
    command = [str(env / "bin" / "python"), "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*command, "--find-links", str(house), *pins], check=True, capture_output=True)


def examine(env: Path) -> tuple[Facts, Report]:
    facts = read_installed(env)
    return facts, diagnose(facts, PACKAGES)


def errors(env: Path) -> list[str | None]:
    return [item.code for item in examine(env)[1].findings if item.severity == "error"]


def treat(
    env: Path,
    options: IndexOptions,
    *,
    knowledge: Knowledge = KNOWLEDGE,
    installer: InstallerName = "auto",
    with_dependencies: bool = False,
    stack: str | None = None,
) -> course.Outcome:
    facts, report = examine(env)
    plan = make_plan(facts, report, FIXES, knowledge, stack=stack)
    assert plan.steps
    return course.apply(
        plan,
        survey(facts),
        report,
        lambda: examine(env),
        Options(options, installer, with_dependencies),
        lambda _: None,
    )


def undo(env: Path) -> None:
    assert course.undo(course.pick(env, None)) == []


def wheelhouse(house: Path) -> IndexOptions:
    return IndexOptions(find_links=(str(house),), no_index=True)


def test_overwritten_by_upstream_triton_from_a_wheelhouse(overwritten: Path, house: Path) -> None:
    before = standins.snapshot(overwritten)
    assert errors(overwritten) == ["FD213"]
    outcome = treat(overwritten, wheelhouse(house))
    assert (outcome.rolled_back, outcome.opened) == (False, ("FD213",))
    assert errors(overwritten) == []
    facts, report = examine(overwritten)
    assert make_plan(facts, report, FIXES, KNOWLEDGE).steps == ()  # a second run plans nothing
    undo(overwritten)
    assert standins.snapshot(overwritten) == before
    assert errors(overwritten) == ["FD213"]


def test_undo_takes_back_what_python_compiled_since_and_spares_what_is_not_ours(overwritten: Path, house: Path) -> None:
    before = standins.snapshot(overwritten)
    treat(overwritten, wheelhouse(house))
    site = standins.site_of(overwritten)
    cache = site / "triton" / "__pycache__" / "grown_later.cpython-311.pyc"
    cache.write_bytes(b"")
    (site / "triton" / "my_notes.txt").write_text("mine")
    standins.unpack(site, house / "dep_of_torch-1.5-py3-none-any.whl")
    undo(overwritten)
    paths = standins.differences(before, standins.snapshot(overwritten))
    own = {path.removeprefix(f"{site.relative_to(overwritten)}/").partition("/")[0] for path in paths}
    assert own == {"triton", "dep_of_torch", "dep_of_torch-1.5.dist-info"}
    assert [path for path in paths if "/triton/" in path] == [
        str((site / "triton/my_notes.txt").relative_to(overwritten))
    ]


def test_the_next_install_that_wants_upstream_triton_is_foreseen_and_mended_again(
    overwritten: Path, house: Path
) -> None:
    facts, report = examine(overwritten)
    assert "xgrammar 0.1: triton>=3" in make_plan(facts, report, FIXES, KNOWLEDGE).warnings[0].en
    treat(overwritten, wheelhouse(house))
    assert errors(overwritten) == []
    standins.unpack(standins.site_of(overwritten), house / "triton-3.7.1-py3-none-any.whl")
    assert errors(overwritten) == ["FD213"]
    treat(overwritten, wheelhouse(house))
    assert errors(overwritten) == []
    first, second = journal.entries(overwritten)
    with pytest.raises(TreatmentError, match="stands on it"):
        course.pick(overwritten, first.id)
    undo(overwritten)
    assert course.pick(overwritten, None).id == first.id
    assert second.id not in [entry.id for entry in journal.entries(overwritten)]


def test_undo_refuses_to_lose_what_was_installed_since_and_restores_by_force(overwritten: Path, house: Path) -> None:
    before = standins.snapshot(overwritten)
    treat(overwritten, wheelhouse(house))
    pip_install(overwritten, house, "triton-ascend==3.2.0")
    with pytest.raises(TreatmentError, match="were changed after the fix"):
        undo(overwritten)
    assert errors(overwritten) == ["FD232"]
    assert course.undo(course.pick(overwritten, None), force=True) == []
    assert standins.snapshot(overwritten) == before


@pytest.fixture
def indexes(house: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A default index without any triton-ascend that has extra.cann, and a vendor's with nothing else."""
    default, vendor = tmp_path / "default", tmp_path / "vendor"
    default.mkdir()
    vendor.mkdir()
    for wheel in house.glob("*.whl"):
        shutil.copy(wheel, vendor if wheel.name.startswith("triton_ascend-3.2.2") else default)
    with (
        standins.simple_index(default, tmp_path / "served") as first,
        standins.simple_index(vendor, tmp_path / "vendors") as second,
    ):
        yield first, second


def test_a_set_is_moved_from_a_registry_and_the_vendors_index_for_one_package(
    old: Path, indexes: tuple[str, str]
) -> None:
    before = standins.snapshot(old)
    assert errors(old) == ["FD201", "FD214", "FD241"]
    default, vendor = indexes
    stacks = [dataclasses.replace(item, indexes={"triton-ascend": vendor}) for item in STACKS if item.name == "new"]
    knowledge = Knowledge(lambda *_: stacks, KNOWLEDGE.companions)
    outcome = treat(old, IndexOptions(index_url=default), knowledge=knowledge, with_dependencies=True)
    assert errors(old) == []
    assert dict(outcome.installed) == {
        "dep-of-torch": "1.5",  # torch 2.13.0 asks for it; triton, which it asks for too, is not followed
        "torch": "2.13.0",
        "torch-npu": "2.13.0",
        "pybind11": "3.0.1",
        "triton-ascend": "3.2.2",
    }
    log = (journal.entries(old)[0].installer_log).read_text()
    with_vendor = [line for line in log.splitlines() if line.startswith("$") and vendor in line]
    assert len(with_vendor) == 1
    assert with_vendor[0].endswith("triton-ascend==3.2.2")
    assert (old / "bin" / "pybind11-config").exists()
    undo(old)
    assert standins.snapshot(old) == before


def test_what_has_no_pin_is_pinned_before_anything_is_changed(overwritten: Path, house: Path) -> None:
    facts, report = examine(overwritten)
    step = Step("install", "companions", Text("", ""), distribution="dep-of-torch", requirement="dep-of-torch<1")
    options = Options(wheelhouse(house))
    outcome = course.apply(
        Plan(steps=(step,)), survey(facts), report, lambda: examine(overwritten), options, lambda _: None
    )
    assert outcome.installed == (("dep-of-torch", "0.9"),)


def test_a_broken_wheel_fails_half_way_and_all_is_put_back(overwritten: Path, house: Path, tmp_path: Path) -> None:
    before = standins.snapshot(overwritten)
    bad = tmp_path / "bad"
    bad.mkdir()
    for wheel in house.glob("*.whl"):
        shutil.copy(wheel, bad)
    content = bytearray((bad / "triton_ascend-3.2.2-py3-none-any.whl").read_bytes())
    where = content.index(b"import pybind11")  # stored, not deflated: the member's CRC no longer fits
    content[where : where + 6] = b"IMPORT"
    (bad / "triton_ascend-3.2.2-py3-none-any.whl").write_bytes(content)
    with pytest.raises(TreatmentError, match="Everything was put back") as raised:
        treat(overwritten, wheelhouse(bad))
    assert raised.value.exit_code == 4
    assert standins.snapshot(overwritten) == before


def test_what_was_not_installed_by_pip_is_left_alone(overwritten: Path, house: Path) -> None:
    (info,) = standins.site_of(overwritten).glob("triton-3.7.1.dist-info")
    (info / "RECORD").unlink()
    before = standins.snapshot(overwritten)
    facts, report = examine(overwritten)
    plan = Plan(steps=(Step("uninstall", "triton", Text("", ""), distribution="triton"),))
    with pytest.raises(TreatmentError, match="was not installed by pip"):
        course.apply(
            plan, survey(facts), report, lambda: examine(overwritten), Options(wheelhouse(house)), lambda _: None
        )
    assert standins.snapshot(overwritten) == before


@pytest.mark.skipif(UV is None, reason="uv is not installed")
def test_uv_treats_an_environment_without_pip(tmp_path: Path, house: Path) -> None:
    env = tmp_path / "env"
    subprocess.run([str(UV), "venv", "-q", "--no-config", "--python", sys.executable, str(env)], check=True)
    common = [str(UV), "pip", "install", "-q", "--no-config", "--python", str(env), "--no-deps", "--no-index"]
    for pin in ("torch==2.7.1", "torch-npu==2.7.1", "triton-ascend==3.2.0"):
        subprocess.run([*common, "--find-links", str(house), pin], check=True)
    before = standins.snapshot(env)
    assert not survey(examine(env)[0]).has_pip
    outcome = treat(env, wheelhouse(house), stack="new")
    assert not outcome.rolled_back, outcome.problems
    assert errors(env) == []
    assert dict(outcome.installed)["dep-of-torch"] == "1.5"
    undo(env)
    assert standins.differences(before, standins.snapshot(env)) == []


def test_an_externally_managed_python_is_refused_with_the_way_out(overwritten: Path, house: Path) -> None:
    facts, report = examine(overwritten)
    marker = overwritten / "EXTERNALLY-MANAGED"
    target = dataclasses.replace(survey(facts), externally_managed=marker)
    plan = make_plan(facts, report, FIXES, KNOWLEDGE)
    with pytest.raises(TreatmentError, match="-m venv") as raised:
        course.apply(plan, target, report, lambda: (facts, report), Options(wheelhouse(house)), lambda _: None)
    assert str(marker) in raised.value.message.en


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flexdoctor", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, **(env or {})},
        check=False,
    )


def test_the_command_line_shows_refuses_applies_lists_and_undoes(overwritten: Path, house: Path) -> None:
    before = standins.snapshot(overwritten)
    where = ("--python", str(overwritten))
    places = ("--no-index", "--find-links", str(house))
    shown = run("fix", *where, *places)
    assert shown.returncode == 1
    assert "--yes" in shown.stderr
    assert "-m pip uninstall -y triton" in shown.stdout
    assert standins.snapshot(overwritten) == before
    assert run("fix", *where, "--dry-run").returncode == 0
    done = run("fix", *where, *places, "--yes", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    schema = json.loads(files("flexdoctor.reports").joinpath("report.schema.json").read_text())
    jsonschema.validate(document, schema)
    assert document["treatment"]["applied"] is True
    assert [step["distribution"] for remedy in document["plan"] for step in remedy["steps"]] == [
        "triton",
        "triton-ascend",
    ]
    again = run("fix", *where)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "nothing to mend")
    listed = run("undo", "--list", *where, "--lang", "zh")
    assert document["treatment"]["entry"] in listed.stdout
    assert "已执行并验证" in listed.stdout
    undone = run("undo", *where)
    assert undone.returncode == 0
    assert standins.snapshot(overwritten) == before
    assert run("undo", *where).returncode == 2


def test_the_json_of_a_refusal_is_one_document(overwritten: Path) -> None:
    refused = run("fix", "--python", str(overwritten), "--format", "json", "--yes", "--no-index")
    document = json.loads(refused.stdout)
    assert refused.returncode == 3
    assert "Nothing was changed" in document["error"]["message"]


def test_check_carries_plan_and_fixes_in_json(overwritten: Path) -> None:
    document = json.loads(run("check", "--python", str(overwritten), "--format", "json").stdout)
    jsonschema.validate(document, json.loads(files("flexdoctor.reports").joinpath("report.schema.json").read_text()))
    (finding,) = [item for item in document["findings"] if item["code"] == "FD213"]
    assert finding["fixes"] == ["triton"]
    assert [remedy["fix"] for remedy in document["plan"]] == ["triton"]
