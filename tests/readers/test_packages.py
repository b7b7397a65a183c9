"""Distributions on a search path, and every way in which their metadata can be broken."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import builders
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import Facts
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.readers.packages import find_distributions, find_shadows
from flexdoctor.readers.trees import FolderTree, fold_home


def read(site: Path) -> Facts:
    return read_site_packages(site)


def test_all_distributions_are_listed_and_those_of_the_chain_in_full(site: Path) -> None:
    builders.install_healthy(site)
    builders.install(site, "Some.Other_Package", "1.0")
    packages = read(site).packages
    assert {item.name for item in packages.distributions} == {
        "torch",
        "torch-npu",
        "triton-ascend",
        "pybind11",
        "some-other-package",
    }
    npu = packages.find("torch-npu")
    assert npu is not None
    assert npu.requires == ("torch==2.13.0.*",)
    assert npu.tags == ("cp311-cp311-manylinux_2_28_aarch64",)
    assert (npu.record, npu.missing_count) == ("present", 0)
    assert packages.unread == ()


def test_who_wants_upstream_triton_back(site: Path) -> None:
    builders.install(site, "xgrammar", "0.1.30", requires=["numpy", 'triton; platform_machine == "x86_64"'])
    builders.install(site, "other", "1", requires=["tritonclient", 'triton; extra == "gpu"', "not a requirement!"])
    assert read(site).packages.triton_wanted_by == ('xgrammar 0.1.30: triton; platform_machine == "x86_64"',)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            lambda info: (info / "RECORD").write_bytes(b"torch/__init__.py,sha256=\xff\xfe,1"), id="not utf-8"
        ),
        pytest.param(lambda info: (info / "RECORD").write_text('torch/__init__.py,"'), id="open quote"),
        pytest.param(lambda info: (info / "RECORD").write_text("torch/__init__.py"), id="cut off"),
        pytest.param(lambda info: (info / "RECORD").write_text(""), id="empty"),
        pytest.param(lambda info: (info / "RECORD").unlink(), id="absent"),
        pytest.param(lambda info: ((info / "RECORD").unlink(), (info / "RECORD").mkdir()), id="a folder"),
        pytest.param(
            lambda info: ((info / "RECORD").unlink(), (info / "RECORD").symlink_to("nowhere")), id="dead link"
        ),
        pytest.param(lambda info: ((info / "RECORD").unlink(), (info / "RECORD").symlink_to("RECORD")), id="link loop"),
        pytest.param(lambda info: (info / "METADATA").write_bytes(b"\x00\xff\xfe"), id="metadata is binary"),
        pytest.param(lambda info: (info / "METADATA").write_text(""), id="metadata is empty"),
        pytest.param(lambda info: (info / "WHEEL").write_bytes(b"Tag: \xff"), id="wheel is binary"),
        pytest.param(shutil.rmtree, id="no metadata at all"),
    ],
)
def test_broken_metadata_never_makes_the_reader_raise(site: Path, damage: Callable[[Path], object]) -> None:
    builders.install_healthy(site)
    damage(site / "torch-2.13.0.dist-info")
    facts = read(site)
    assert facts.torch is not None
    assert facts.torch.version == "2.13.0"
    assert facts.packages.find("torch-npu") is not None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=st.binary(max_size=200), metadata=st.binary(max_size=200), source=st.binary(max_size=200))
def test_no_bytes_make_the_reader_raise(site: Path, record: bytes, metadata: bytes, source: bytes) -> None:
    for entry in site.iterdir():
        shutil.rmtree(entry)
    builders.install_healthy(site)
    for info in site.glob("t*.dist-info"):
        (info / "RECORD").write_bytes(b"triton/x,sha256=a,1\n" + record)
        (info / "METADATA").write_bytes(metadata)
    for name in ("torch/nn/attention/flex_attention.py", "torch_npu/_inductor/__init__.py", "torch/version.py"):
        (site / name).write_bytes(source)
    assert read(site).torch is not None


def test_half_installed_names_a_sample_of_what_is_missing(site: Path) -> None:
    builders.install_healthy(site)
    (site / "torch/version.py").unlink()
    torch = read(site).packages.find("torch")
    assert torch is not None
    assert (torch.missing_count, torch.missing_files) == (1, ("torch/version.py",))


@pytest.mark.parametrize(
    ("text", "editable"),
    [
        ('{"url": "file:///src", "dir_info": {"editable": true}}', True),
        ('{"url": "file:///src", "dir_info": {}}', False),
        ("[1]", False),
        ("{", False),
    ],
)
def test_editable_installs(site: Path, text: str, editable: bool) -> None:
    (builders.install(site, "torch-npu", "2.13.0") / "direct_url.json").write_text(text)
    npu = read(site).packages.find("torch-npu")
    assert npu is not None
    assert npu.is_editable is editable


def test_two_sets_of_metadata(site: Path) -> None:
    builders.install_healthy(site)
    builders.install(site, "torch", "2.12.0")
    assert [item.version for item in read(site).packages.distributions if item.name == "torch"] == ["2.13.0", "2.12.0"]


@pytest.mark.parametrize(
    ("name", "version"), [("torch", "2.12.0"), ("torch-npu", "2.12.0"), ("triton-ascend", "3.2.0")]
)
def test_metadata_that_an_older_installation_left_does_not_stand_for_the_files(
    site: Path, name: str, version: str
) -> None:
    builders.install_healthy(site)
    left = builders.install(site, name, version, requires=["torch==2.12.0"])
    (left / "RECORD").write_text(f"{name.replace('-', '_')}/gone.py,,\n")
    os.utime(left / "RECORD", (1, 1))
    report = diagnose(read(site), CHAIN)
    assert [item.code for item in report.findings if item.status in ("fail", "unknown")] == []
    assert "FD118" in [item.code for item in report.findings if item.status == "warn"]


@pytest.mark.parametrize(("module", "code"), [("torch", "FD111"), ("torch_npu", "FD112")])
def test_a_folder_that_an_uninstall_left_is_no_package(site: Path, module: str, code: str) -> None:
    builders.install_healthy(site)
    for info in site.glob(f"{module}-*.dist-info"):
        shutil.rmtree(info)
    shutil.rmtree(site / module)
    (site / module / "lib").mkdir(parents=True)
    root_cause = diagnose(read(site), CHAIN).root_cause
    assert root_cause is not None
    assert root_cause.code == code


def test_metadata_without_its_main_file_leaves_open_whether_torch_fits(site: Path) -> None:
    builders.install_healthy(site)
    (info,) = site.glob("torch_npu-*.dist-info")
    for file in info.iterdir():
        file.unlink()
    (finding,) = [item for item in diagnose(read(site), CHAIN).findings if item.code == "FD110"]
    assert finding.status == "unknown"
    info.rename(site / "torch_npu-2.12.0.dist-info")
    builders.install(site, "torch-npu", "2.13.0", requires=["torch==2.13.0"])
    assert "FD110" not in [item.code for item in diagnose(read(site), CHAIN).findings]


@pytest.mark.parametrize(
    "rewrite",
    [
        pytest.param(lambda line: line.replace("/", "\\"), id="slashes of Windows"),
        pytest.param(lambda line: '"{}",{}'.format(*line.split(",", 1)), id="names in quotes"),
        pytest.param(lambda line: f"{line}\r", id="line ends of Windows"),
    ],
)
def test_record_may_be_spelled_otherwise(site: Path, rewrite: Callable[[str], str]) -> None:
    builders.install_healthy(site)
    for record in site.glob("*.dist-info/RECORD"):
        record.write_bytes("\n".join(map(rewrite, record.read_text().splitlines())).encode())
    report = diagnose(read(site), CHAIN)
    assert [item.code for item in report.findings if item.status in ("fail", "unknown")] == []


def test_a_name_that_cannot_be_decoded_is_not_called_missing(site: Path) -> None:
    builders.install_healthy(site)
    (record,) = site.glob("torch-*.dist-info/RECORD")
    record.write_bytes(record.read_bytes() + b"torch/caf\xe9.py,,\n")
    torch = read(site).packages.find("torch")
    assert torch is not None
    assert torch.missing_count == 0


def test_what_pip_is_about_to_delete_is_not_a_distribution(site: Path) -> None:
    (site / "~orch-2.13.0.dist-info").mkdir()
    assert find_distributions([site])[0] == []


def test_folder_without_permission(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    found, unread = find_distributions([site])
    assert found == []
    assert unread[0].reason == "Permission denied"


class TestTree:
    def test_not_a_file(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.py")
        tree = FolderTree(tmp_path)
        assert tree.read("pipe.py") is None
        assert tree.unread[0].reason == "not a regular file"

    def test_dead_link_and_loop(self, tmp_path: Path) -> None:
        (tmp_path / "dead.py").symlink_to("nowhere.py")
        (tmp_path / "loop.py").symlink_to("loop.py")
        tree = FolderTree(tmp_path)
        assert (tree.read("dead.py"), tree.read("loop.py")) == (None, None)
        assert tree.unread[0].reason == "dangling symbolic link"
        assert len(tree.unread) == 2

    def test_absent_is_no_problem(self, tmp_path: Path) -> None:
        tree = FolderTree(tmp_path)
        assert tree.read("a/b.py") is None
        assert tree.folders("a") == ()
        assert tree.unread == ()

    def test_folder_loops_end(self, tmp_path: Path) -> None:
        (tmp_path / "torch_npu").mkdir()
        (tmp_path / "torch_npu/again").symlink_to(tmp_path / "torch_npu")
        (tmp_path / "torch_npu/a.py").write_text("")
        assert list(FolderTree(tmp_path).sources("torch_npu")) == ["torch_npu/a.py"]

    def test_other_encodings_are_read_all_the_same(self, tmp_path: Path) -> None:
        (tmp_path / "gbk.py").write_bytes("# 昇腾\nvalue = 1\n".encode("gbk"))
        text = FolderTree(tmp_path).read("gbk.py")
        assert text is not None
        assert "value = 1" in text


def test_shadows(tmp_path: Path, site: Path) -> None:
    (tmp_path / "checkout/torch_npu").mkdir(parents=True)
    (tmp_path / "checkout/torch_npu/__init__.py").touch()
    (tmp_path / "checkout/torch").mkdir()  # a folder of data is at most a namespace package
    (tmp_path / "path").mkdir()
    (tmp_path / "path/triton.py").touch()
    found = find_shadows([site], tmp_path / "checkout", f"{tmp_path}/path{os.pathsep}{site}")
    assert [(item.module, item.via) for item in found] == [
        ("torch_npu", "working directory"),
        ("triton", "PYTHONPATH"),
    ]


def test_home_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert fold_home("/home/somebody/venv") == "~/venv"
    assert fold_home("/home/somebody-else") == "/home/somebody-else"
