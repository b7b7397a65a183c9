"""Treatments of environments made of the real torch-npu, triton-ascend and triton wheels."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import builders
import pytest
import standins
from real import wheelhouse
from stacks_for_tests import PACKAGES

from flexdoctor.chain import diagnose
from flexdoctor.facts import Facts
from flexdoctor.findings import Report
from flexdoctor.fixes import FIXES
from flexdoctor.knowledge.stacks import Stack
from flexdoctor.readers.environment import read_installed
from flexdoctor.treatment import course, journal, patches
from flexdoctor.treatment.course import Options
from flexdoctor.treatment.installers import IndexOptions
from flexdoctor.treatment.planning import Knowledge, known, make_plan
from flexdoctor.treatment.target import survey

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or sys.version_info[:2] != (3, 11),
        reason="the wheels of these environments are for CPython 3.11 on x86_64",
    ),
]

CACHE = Path(os.environ.get("FLEXDOCTOR_TEST_CACHE", "~/.cache/flexdoctor-tests")).expanduser() / "wheels"
REAL = (
    "torch==2.13.0",
    "torch-npu==2.7.1",
    "torch-npu==2.7.1.post4",
    "torch-npu==2.12.0",
    "torch-npu==2.13.0",
    "triton-ascend==3.2.0",
    "triton==3.3.1",
    "pybind11==3.0.1",
    "psutil==6.0.0",
    "numpy==1.26.4",
)


def cached(pin: str, *options: str, matching: str = "*") -> Path:
    """The real wheel of a pin, from the cache or the package registry."""
    name, _, version = pin.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}[+-]{matching}.whl"
    if not list(CACHE.glob(pattern)):
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", *options]
        subprocess.run([*command, "-d", str(CACHE), pin], check=True)
    return min(CACHE.glob(pattern))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real wheels; of torch 2.7.1, whose x86_64 wheel is a CUDA build of 800 MB, the real sources alone."""
    house = tmp_path_factory.mktemp("house")
    for pin in REAL:
        matching = "*any" if pin.startswith("pybind11") else "*x86_64*"
        wheel = cached(pin, matching=matching)
        (house / wheel.name).symlink_to(wheel)
    arm = ("--platform", "manylinux_2_28_aarch64", "--python-version", "3.11")
    _sources_of(cached("torch==2.7.1", *arm, matching="*aarch64"), house)
    for version in ("3.2.1", "3.2.2"):
        standins.triton_ascend(house, version)
    return house


def _sources_of(wheel: Path, house: Path) -> None:
    with ZipFile(wheel) as archive:
        files = {
            name: archive.read(name)
            for name in archive.namelist()
            if name.endswith(".py") and name.startswith("torch/")
        }
    standins.wheel(house, lambda site: builders.install(site, "torch", "2.7.1", files))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("template") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(prefix)], check=True)
    return prefix


@pytest.fixture
def env(tmp_path: Path, template: Path) -> Path:
    return standins.clone(template, tmp_path / "env")


@pytest.fixture
def vendor(house: Path, tmp_path: Path) -> Iterator[str]:
    """What the vendor's index has and the default index has not."""
    only = tmp_path / "only"
    only.mkdir()
    for wheel in house.glob("triton_ascend-3.2.[12]-*.whl"):
        shutil.copy(wheel, only)
    with standins.simple_index(only, tmp_path / "served") as url:
        yield url


def pip_install(env: Path, house: Path, *pins: str) -> None:
    command = [str(env / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*command, "--find-links", str(house), *pins], check=True, capture_output=True)


def examine(env: Path) -> tuple[Facts, Report]:
    facts = read_installed(env)
    return facts, diagnose(facts, PACKAGES)


def errors(env: Path) -> list[str | None]:
    return [item.code for item in examine(env)[1].findings if item.severity == "error"]


def served_by(vendor: str) -> Knowledge:
    """The shipped knowledge, with the vendor's index on the loopback."""
    shipped = known()

    def fitting(*arguments: str | None) -> list[Stack]:
        return [
            dataclasses.replace(item, indexes=dict.fromkeys(item.indexes, vendor))
            for item in shipped.fitting(*arguments)
        ]

    return dataclasses.replace(shipped, fitting=fitting, cpu_index="")


def treat(
    env: Path, indexes: IndexOptions, knowledge: Knowledge, *, stack: str | None = None, select: tuple[str, ...] = ()
) -> course.Outcome:
    facts, report = examine(env)
    plan = make_plan(facts, report, FIXES, knowledge, stack=stack, select=select)
    outcome = course.apply(
        plan, survey(facts), report, lambda: examine(env), Options(indexes), lambda what: print(what.en)
    )
    assert not outcome.rolled_back, [item.en for item in outcome.problems]
    return outcome


@pytest.mark.parametrize("source", ["registry", "wheelhouse"])
def test_torch_npu_moves_to_post4_and_an_overwritten_triton_ascend_comes_back(
    env: Path, house: Path, vendor: str, source: str
) -> None:
    pip_install(env, house, "torch==2.7.1", "torch-npu==2.7.1", "pybind11", "psutil", "numpy", "triton-ascend==3.2.0")
    pip_install(env, house, "triton==3.3.1")
    before = standins.snapshot(env)
    assert {"FD201", "FD213", "FD241"} <= set(errors(env))
    indexes = IndexOptions() if source == "registry" else IndexOptions(find_links=(str(house),), no_index=True)
    outcome = treat(env, indexes, served_by(vendor), stack="torch-2.7-cann-9.0-captured")
    assert dict(outcome.installed) == {"torch-npu": "2.7.1.post4", "triton-ascend": "3.2.1"}
    facts, report = examine(env)
    assert [item.code for item in report.findings if item.severity == "error"] == []
    assert facts.torch is not None
    assert facts.torch.gate is not None
    assert "npu" in facts.torch.gate.accepted  # the patch of the real source of torch 2.7.1
    log = journal.entries(env)[0].installer_log.read_text()
    asked_vendor = [line for line in log.splitlines() if line.startswith("$") and vendor in line]
    assert [line.rpartition(" ")[2] for line in asked_vendor] == (
        ["triton-ascend==3.2.1"] if source == "registry" else []
    )
    assert make_plan(facts, report, FIXES, known()).steps == ()
    assert course.undo(course.pick(env, None)) == []
    assert standins.snapshot(env) == before


def test_a_real_triton_ascend_is_put_back_as_it_was_from_the_registry(env: Path, house: Path, vendor: str) -> None:
    pip_install(env, house, "torch==2.7.1", "torch-npu==2.7.1", "pybind11", "psutil", "numpy", "triton-ascend==3.2.0")
    clean = standins.snapshot(env)
    pip_install(env, house, "triton==3.3.1")
    before = standins.snapshot(env)
    outcome = treat(env, IndexOptions(), served_by(vendor), select=("FD213",))
    assert dict(outcome.installed) == {"triton-ascend": "3.2.0"}
    assert "FD213" not in errors(env)
    site = str(standins.site_of(env).relative_to(env)) + "/triton/"
    now = standins.snapshot(env)
    ours = {path: item[:3] for path, item in clean.items() if path.startswith(site)}
    assert {path: now[path][:3] for path in ours} == ours
    assert course.undo(course.pick(env, None)) == []
    assert standins.snapshot(env) == before


def test_torch_npu_follows_torch_2_13(env: Path, house: Path, vendor: str) -> None:
    pip_install(env, house, "torch==2.13.0", "torch-npu==2.12.0", "pybind11", "psutil", "numpy")
    before = standins.snapshot(env)
    assert "FD113" in errors(env)
    outcome = treat(env, IndexOptions(), served_by(vendor))
    pins = dict(outcome.installed)
    assert (pins["torch-npu"], pins["triton-ascend"]) == ("2.13.0", "3.2.2")
    assert "pyyaml" in pins  # the only thing that torch-npu 2.13.0 asks for and that is missing here
    assert errors(env) == []
    assert course.undo(course.pick(env, None)) == []
    assert standins.snapshot(env) == before


@pytest.mark.parametrize("row", patches.rows(), ids=lambda row: f"{row.name}-{row.release}")
def test_patch_rows_fit_the_real_files(row: patches.PatchRow) -> None:
    name = row.file.partition("/")[0]
    wheelhouse.wheel(f"{name}=={row.release}")
    for wheel in [*CACHE.glob(f"{name}-{row.release}-*.whl"), *CACHE.glob(f"{name}-{row.release}+cpu-*.whl")]:
        with ZipFile(wheel) as archive:
            content = archive.read(row.file)
        assert hashlib.sha256(content).hexdigest() == row.sha256
        changed = patches.changed(content, row.line, row.find, row.replace, row.also)
        compile(changed, row.file, "exec")
        assert len(changed.splitlines()) == len(content.splitlines())
