"""The line that pins a package, in every kind of list, as an editor counts lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.readers.locks import Platform, read_plan
from flexdoctor.readers.planned import read_requirements
from flexdoctor.reports.places import spot

UV_LOCK = """version = 1
requires-python = ">=3.11"

[[package]]
name = "app"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "torch" },
]

[package.metadata]
requires-dist = [{ name = "torch", specifier = "==2.7.1" }]

[[package]]
name = "torch"
version = "2.7.1"
source = { registry = "https://index.example/simple" }

[[package]]
name = "torch-npu"
source = { git = "https://git.example/torch-npu" }
"""
PYLOCK = """lock-version = "1.0"
created-by = "x"

[[packages]]
name = "torch"
version = "2.7.1"

[[packages.wheels]]
name = "torch-2.7.1-cp311-cp311-manylinux_2_28_aarch64.whl"
url = "https://files.example/torch-2.7.1-cp311-cp311-manylinux_2_28_aarch64.whl"
hashes = {sha256 = "00"}

[[packages]]
name = "torch-npu"
version = "2.7.1"

[[packages.wheels]]
name = "torch_npu-2.7.1-cp311-cp311-manylinux_2_28_aarch64.whl"
url = "https://files.example/torch_npu-2.7.1-cp311-cp311-manylinux_2_28_aarch64.whl"
hashes = {sha256 = "00"}
"""


def lines(content: str, path: Path) -> dict[str, int | None]:
    path.write_bytes(content.encode())
    plan = read_plan(path, None, Platform())
    for item in plan.packages:
        assert item.at is None or item.at.path == str(path)
    return {item.name: item.at.line if item.at else None for item in plan.packages}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("r.txt", "torch==2.7.1\ntorch-npu==2.7.1\n", {"torch": 1, "torch-npu": 2}),
        ("r.txt", "# why\r\n\r\ntorch==2.7.1  # pinned\r\n", {"torch": 3}),
        (
            "r.txt",
            "torch==2.7.1 \\\n  --hash=sha256:00 \\\n  --hash=sha256:11\nnumpy==1.26.4",
            {"torch": 1, "numpy": 4},
        ),
        ("r.txt", "--index-url \\\n  https://x.example\ntorch==2.7.1", {"torch": 3}),
        ("r.txt", "\ufefftorch==2.7.1\n", {"torch": 1}),
        ("r.txt", "a==1\ntorch==2.7.1 \\", {"a": 1, "torch": 2}),
        ("r.txt", "\n-e git+https://git.example/x#egg=torch-npu\n", {"torch-npu": 2}),
        ("r.txt", "\nhttps://x.example/torch-2.7.1-cp311-cp311-manylinux_2_28_aarch64.whl\n", {"torch": 2}),
        ("list.txt", "Package Version\n------- -------\ntorch   2.7.1\nnumpy   1.26.4\n", {"torch": 3, "numpy": 4}),
        ("uv.lock", UV_LOCK, {"torch": 17, "torch-npu": 21}),
        ("pylock.toml", PYLOCK, {"torch": 6, "torch-npu": 15}),
        # Valid TOML, written as nobody writes it: the packages are read, their lines stay open.
        ("uv.lock", 'version = 1\npackage = [{name = "torch", version = "2.7.1"}]\n', {"torch": None}),
    ],
)
def test_lines(name: str, content: str, expected: dict[str, int | None], tmp_path: Path) -> None:
    assert lines(content, tmp_path / name) == expected


def test_an_included_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/npu.txt").write_text("# ours\ntorch-npu==2.7.1\n")
    (tmp_path / "r.txt").write_text("-r sub/npu.txt\ntorch==2.7.1\n")
    plan = read_plan(tmp_path / "r.txt", None, Platform())
    places = {item.name: (item.at.path, item.at.line) for item in plan.packages if item.at}
    assert places == {"torch-npu": (str(tmp_path / "sub/npu.txt"), 2), "torch": (str(tmp_path / "r.txt"), 2)}


def test_home_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "r.txt").write_text("torch==2.7.1\n")
    (item,) = read_plan(tmp_path / "r.txt", None, Platform()).packages
    assert item.at is not None
    assert item.at.path == "~/r.txt"


def test_credentials_stay_out(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("torch @ https://me:secret@x.example/torch-2.7.1-py3-none-any.whl\n")
    (item,) = read_plan(tmp_path / "r.txt", None, Platform()).packages
    assert item.at is not None
    assert "secret" not in item.at.text


def test_a_finding_is_shown_at_the_pin_and_what_it_brings_at_the_same(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    path.write_text("transformers==4.57.0\ntorch-npu==2.7.1\ntriton-ascend==3.2.0\n")
    facts = read_requirements(read_plan(path, None, Platform()), path, Platform())
    report = diagnose(facts, CHAIN)
    shown = {item.code: spot(item, facts) for item in report.findings if item.code}
    # torch is not named: torch-npu's line is the one to change.
    gate, pybind11 = shown["FD201"], shown["FD214"]
    assert gate is not None
    assert pybind11 is not None
    assert (gate.path, gate.line, pybind11.line) == (str(path), 2, 3)
