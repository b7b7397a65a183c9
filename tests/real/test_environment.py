"""A real virtual environment with the real packages, in which `import torch` dies because there is no CANN."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from real.wheelhouse import CACHE

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or sys.version_info[:2] != (3, 11),
        reason="the CPU build of torch that makes this environment small is for CPython 3.11 on x86_64",
    ),
]
PINS = ["torch==2.13.0", "torch-npu==2.13.0", "triton-ascend==3.2.0"]


@pytest.fixture(scope="module")
def environment() -> Path:
    prefix = CACHE / "env-torch-2.13.0"
    marker = prefix / "complete"
    if not marker.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(prefix)], check=True)
        subprocess.run([str(prefix / "bin/python"), "-m", "pip", "install", "-q", *PINS], check=True)
        marker.touch()
    return prefix


def test_torch_cannot_be_imported_here(environment: Path) -> None:
    done = subprocess.run(
        [str(environment / "bin/python"), "-c", "import torch"], capture_output=True, text=True, check=False
    )
    if os.environ.get("ASCEND_HOME_PATH") is None:
        assert "Failed to load the backend extension: torch_npu." in done.stderr


def test_check_names_the_first_broken_link(environment: Path) -> None:
    command = [sys.executable, "-m", "flexdoctor", "check", "--python", str(environment), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    by_code = {item["code"]: item for item in report["findings"] if item["code"]}
    assert report["root_cause"] == "FD121"
    assert by_code["FD121"]["predicted_errors"][0].startswith("RuntimeError: Failed to load the backend extension")
    assert {"FD214", "FD232"} <= set(by_code)
    # What keeps the packages from working is an error; that this machine has no NPU is not.
    assert by_code["FD121"]["severity"] == "warning"
    assert done.returncode == 1


def test_packages_alone_are_judged_with_site_packages(environment: Path) -> None:
    site = environment / "lib/python3.11/site-packages"
    command = [sys.executable, "-m", "flexdoctor", "check", "--site-packages", str(site), "--format", "json"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    for link in ("cann", "devices"):
        (finding,) = [item for item in report["findings"] if item["link"] == link]
        assert finding["status"] == "skipped"
        assert "the machine is not examined (--root)" in finding["title"]
    assert report["root_cause"] == "FD214"
