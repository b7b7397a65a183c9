"""A wheelhouse is read inside its zip files, whatever those hold."""

from __future__ import annotations

import zipfile
from pathlib import Path

import builders
import hub_consumers
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import Facts
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.readers.locks import Platform
from flexdoctor.readers.planned import read_wheelhouse
from flexdoctor.readers.wheels import WheelTree, open_wheelhouse

PLATFORM = Platform()


@pytest.fixture
def house(site: Path, tmp_path: Path) -> Path:
    builders.install_healthy(site)
    builders.pack(site, tmp_path / "house")
    return tmp_path / "house"


def summary(facts: Facts) -> tuple[object, ...]:
    report = diagnose(facts, CHAIN)
    return report.verdict, report.root_cause and report.root_cause.code, report.capabilities


def test_same_answer_as_the_installed_folder(site: Path, house: Path) -> None:
    assert summary(read_wheelhouse(house, PLATFORM)) == summary(read_site_packages(site))


def test_a_broken_set_gets_the_same_answer_too(site: Path, tmp_path: Path) -> None:
    builders.install_torch(site)
    builders.install_torch_npu(site, builders.TorchNpuShape(gate="inductor_load"))
    builders.pack(site, tmp_path / "house")
    planned, installed = summary(read_wheelhouse(tmp_path / "house", PLATFORM)), summary(read_site_packages(site))
    assert planned == installed
    assert planned[1] == "FD202"


def test_evidence_points_into_the_wheel(house: Path) -> None:
    facts = read_wheelhouse(house, PLATFORM)
    assert facts.torch is not None
    assert facts.torch.gate is not None
    wheel = "torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl"
    assert facts.torch.gate.place.path == f"{house}/{wheel}/torch/nn/attention/flex_attention.py"


def test_the_newest_wheel_that_fits_is_chosen_and_the_others_are_named(house: Path) -> None:
    (house / "torch-2.12.0-cp311-cp311-manylinux_2_28_aarch64.whl").write_bytes(
        (house / "torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl").read_bytes()
    )
    (house / "torch-2.14.0-cp312-cp312-manylinux_2_28_aarch64.whl").write_bytes(b"")
    (house / "old-1.0.tar.gz").write_bytes(b"")
    (house / "nonsense.whl").write_bytes(b"")
    packages = read_wheelhouse(house, PLATFORM).packages
    torch = packages.find("torch")
    assert torch is not None
    assert torch.version == "2.13.0"
    assert any(note.startswith("torch-2.14.0-cp312") for note in packages.notes)
    assert any(note.startswith("torch-2.12.0") for note in packages.notes)
    assert any(note.startswith("old-1.0.tar.gz: a source distribution") for note in packages.notes)
    assert any(note.startswith("nonsense.whl: not the name") for note in packages.notes)


@pytest.mark.parametrize("platform", [Platform(python="3.12"), Platform(architecture="x86_64")])
def test_wheels_for_other_platforms_alone_are_another_fault_than_no_wheels(house: Path, platform: Platform) -> None:
    cause = diagnose(read_wheelhouse(house, platform), CHAIN).root_cause
    assert cause is not None
    assert (cause.code, "wheel" in cause.remedy.en) == ("FD162", True)
    assert "torch 2.13.0" in cause.title.en


@pytest.mark.parametrize("kept", [0, 10, 400])
def test_a_truncated_wheel_is_noted(house: Path, kept: int) -> None:
    path = house / "torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl"
    path.write_bytes(path.read_bytes()[:kept])
    facts = read_wheelhouse(house, PLATFORM)
    assert any(note.path == str(path) for note in facts.packages.unread)
    assert diagnose(facts, CHAIN).verdict != "healthy"


def test_a_damaged_member_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/a.py", "value = 1\n" * 100)
    data = bytearray(path.read_bytes())
    start = data.index(b"x/a.py") + len(b"x/a.py")
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(bytes(data))
    tree = WheelTree(path)
    assert tree.read("x/a.py") is None
    assert tree.unread[0].reason.startswith("damaged: ")


def test_a_zip_bomb_is_not_inflated(tmp_path: Path) -> None:
    path = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/bomb.py", b"\0" * (64 * 1024 * 1024))
    tree = WheelTree(path)
    assert tree.read("x/bomb.py") is None
    assert "more than a source file can have" in tree.unread[0].reason


def test_names_that_leave_the_archive_do_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("/etc/passwd", "../../outside.py", "x/../../outside.py", "x/inside.py"):
            archive.writestr(name, "")
    assert list(WheelTree(path).names) == ["x/inside.py"]
    wheels, _ = open_wheelhouse(tmp_path)
    assert len(wheels) == 1
    assert sorted(item.name for item in tmp_path.iterdir()) == ["x-1-py3-none-any.whl"]


@pytest.mark.parametrize(("hub", "code"), [("1.33.0", None), ("0.36.2", "FD306")])
def test_consumers_of_hub_kernels_are_read_in_their_wheels(hub: str, code: str | None, tmp_path: Path) -> None:
    site = tmp_path / "site"
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    hub_consumers.install_kernels(site)
    builders.install(site, "huggingface_hub", hub, {"huggingface_hub/__init__.py": ""})
    builders.pack(site, tmp_path / "house")
    facts = read_wheelhouse(tmp_path / "house", Platform())
    assert facts.hub is not None
    assert facts.hub.diffusers is not None
    assert [item.name for item in facts.hub.diffusers.backends] == ["flash_hub"]
    assert "diffusers-0.41.0" in facts.hub.diffusers.backends[0].place.path
    found = [item for item in diagnose(facts, CHAIN).findings if item.link == "hub_kernels"]
    assert {item.code for item in found} == {code}
    if code is None:
        assert "no kernel was looked at" in found[0].title.en
