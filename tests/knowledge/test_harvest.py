"""The harvester: same readers, same wheels, same bytes."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import builders
import pytest

from flexdoctor import snapshots
from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.knowledge import harvest, versions
from flexdoctor.knowledge.record_examples import recipes, record
from flexdoctor.serialise import from_json

FIRST, LATER = "2026-01-01", "2026-06-30"


@pytest.fixture
def house(site: Path, tmp_path: Path) -> Path:
    builders.install_healthy(site)
    builders.pack(site, tmp_path / "house")
    return tmp_path / "house"


def test_a_folder_of_wheels(house: Path, tmp_path: Path) -> None:
    out = tmp_path / "versions"
    assert harvest.main([str(house), "--out", str(out), "--date", FIRST]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "torch-2.13.0.json",
        "torch-npu-2.13.0.json",
        "triton-ascend-3.2.2.json",
    ]
    data = json.loads((out / "torch-npu-2.13.0.json").read_text())
    release = from_json(versions.Release, data)
    assert release.requires == {"aarch64": ("torch==2.13.0.*",)}
    assert release.torch_npu is not None
    assert release.torch_npu.gate_patches[0].place.path == "torch_npu/utils/patch_flexattention.py"
    assert len(release.wheels[0].sha256) == 64
    assert str(tmp_path) not in json.dumps(data)


def test_harvesting_again_changes_nothing(house: Path, tmp_path: Path) -> None:
    out = tmp_path / "versions"
    harvest.main([str(house), "--out", str(out), "--date", FIRST])
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    harvest.main([str(house), "--out", str(out), "--date", LATER])
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_other_wheels_of_the_same_version_are_a_diff_with_a_new_date(house: Path, tmp_path: Path) -> None:
    out = tmp_path / "versions"
    harvest.main([str(house), "--out", str(out), "--date", FIRST])
    wheel = house / "torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl"
    wheel.rename(house / "torch-2.13.0-cp312-cp312-manylinux_2_28_aarch64.whl")
    harvest.main([str(house), "--out", str(out), "--date", LATER])
    assert json.loads((out / "torch-2.13.0.json").read_text())["date"] == LATER
    assert json.loads((out / "torch-npu-2.13.0.json").read_text())["date"] == FIRST


@pytest.mark.parametrize("arguments", [["nothing-of-ours", "1.0"], []])
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        harvest.main(arguments)
    assert caught.value.code == 2


def test_a_broken_wheel_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "torch-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl").write_bytes(b"PK")
    assert harvest.main([str(tmp_path), "--out", str(tmp_path)]) == 1
    assert "cannot be read" in capsys.readouterr().err


class Index(http.server.BaseHTTPRequestHandler):
    """A simple index with one release of torch-npu, and nothing else."""

    def do_GET(self) -> None:
        names = [
            "torch_npu-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl",
            "torch_npu-2.13.0-py3-none-any.whl",
            "x.tar.gz",
        ]
        body = json.dumps({"files": [{"filename": name, "hashes": {"sha256": "ab"}, "url": name} for name in names]})
        self.send_response(200 if self.path == "/torch-npu/" else 404)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_index_lists_linux_wheels_only(index: str) -> None:
    found = list(harvest.published_wheels("torch-npu", index))
    assert [(str(version), wheel.filename, wheel.sha256) for version, wheel, _ in found] == [
        ("2.13.0", "torch_npu-2.13.0-cp311-cp311-manylinux_2_28_aarch64.whl", "ab")
    ]
    with pytest.raises(harvest.HarvestError, match="does not list torch"):
        list(harvest.published_wheels("torch", index))


def test_a_release_that_the_index_lacks(
    index: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index)
    assert harvest.main(["torch-npu", "2.99.0"]) == 1
    assert "no Linux wheel of torch-npu 2.99.0" in capsys.readouterr().err


PINS_ONLY = [row for row in recipes() if "requirements" in row and "consumers" not in row]


@pytest.mark.parametrize("recipe", PINS_ONLY, ids=lambda row: row["name"])
def test_a_shipped_example_is_what_its_recipe_records(recipe: dict[str, object]) -> None:
    assert snapshots.load_example(str(recipe["name"])) == record(recipe, None)


def test_every_recipe_is_shipped() -> None:
    assert snapshots.example_names() == sorted(str(row["name"]) for row in recipes())


WALK = {
    "1-gate-closed": "FD201",
    "2-gate-too-late": "FD202",
    "3-triton-missing": "FD211",
    "4-pybind11-missing": "FD214",
    "5-major-none": "FD222",
    "6-extra-ascend-gone": "FD232",
    "7-subgraph-limit": None,
    "8-healthy": None,
    "triton-overwritten": "FD213",
    "cann-unsourced": "FD123",
    "hub-kernel-mismatch": "FD301",
}


@pytest.mark.parametrize("name", list(WALK))
def test_examples_walk_the_failure_chain(name: str) -> None:
    report = diagnose(snapshots.load_example(name), CHAIN)
    assert (report.root_cause.code if report.root_cause else None) == WALK[name]
    if name == "7-subgraph-limit":
        captured = diagnose(snapshots.load_example(name), CHAIN, required="compiled_captured")
        assert captured.root_cause is not None
        assert captured.root_cause.code == "FD243"
