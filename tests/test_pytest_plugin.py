"""The guard for other people's test runs, in a test run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import builders
import hub_consumers
import kernel_trees as trees
import pytest

FA2 = "kernels-community/flash-attn2"


def run(folder: Path, site: Path, *arguments: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    (folder / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    environment = {"PYTHONPATH": str(site), "HF_HOME": str(site.parent / "hf")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def broken(site: Path) -> Path:
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    trees.write_cached(site.parent / "hf" / "hub", trees.flash_attn2(wrapped=False), refs=["v1"])
    return site


def test_off_unless_asked_for(broken: Path, tmp_path: Path) -> None:
    done = run(tmp_path / "theirs", broken)
    assert "1 passed" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(("arguments", "ini"), [(["--flexdoctor-kernels"], ""), ([], "flexdoctor_kernels = true")])
def test_a_cached_kernel_that_does_not_fit_fails_the_run(
    arguments: list[str], ini: str, broken: Path, tmp_path: Path
) -> None:
    done = run(tmp_path / "theirs", broken, *arguments, ini=ini)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert (
        "FD301 diffusers 0.41.0 flash_hub: kernels-community/flash-attn2@7ac8ea1f has no flash_attn_interface._wrapped"
        in done.stdout
    )
    assert "AttributeError: Kernel module '_flash_attn2_cuda_1abcdef' does not define attribute path" in done.stdout
    assert "Traceback" not in done.stdout


def test_kernels_that_fit_and_no_kernels_pass(site: Path, tmp_path: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    assert "2 passed" in run(tmp_path / "none", site, "--flexdoctor-kernels").stdout
    trees.write_cached(site.parent / "hf" / "hub", trees.flash_attn2(wrapped=False), refs=["v3"])
    assert "2 passed" in run(tmp_path / "fits", site, "--flexdoctor-kernels").stdout


def test_what_is_only_a_warning_is_shown_as_one(site: Path, tmp_path: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False, requires=("huggingface-hub<1.0",))
    builders.install(site, "huggingface_hub", "1.33.0")
    done = run(tmp_path / "theirs", site, "--flexdoctor-kernels")
    assert "2 passed, 1 warning" in done.stdout
    assert "FD306 diffusers 0.42.1 does not work with huggingface_hub 1.33.0" in done.stdout


def test_a_named_kernel_and_a_wrong_name(broken: Path, tmp_path: Path) -> None:
    good = trees.write_kernel(tmp_path / "good", trees.flash_attn2(wrapped=True))
    assert "2 passed" in run(tmp_path / "theirs", broken, "--flexdoctor-kernel", f"{FA2}={good}").stdout
    done = run(tmp_path / "theirs", broken, "--flexdoctor-kernel", "no such kernel")
    assert done.returncode
    assert "neither org/name" in done.stdout + done.stderr
