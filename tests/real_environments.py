"""Environments of real wheels, installed once into a cache that tests share.

FLEXDOCTOR_TEST_CACHE names the cache (default ~/.cache/flexdoctor-tests). torch and torch-npu lie in a folder of
their own, which each environment takes in by a .pth file; what differs between the environments is small.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

TORCH = ("torch==2.13.0", "torch-npu==2.13.0")


def cache() -> Path:
    """Return the folder that outlives a test run."""
    folder = Path(os.environ.get("FLEXDOCTOR_TEST_CACHE") or Path("~/.cache/flexdoctor-tests").expanduser())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return `name` in the cache; it appears there whole or not at all, also when several make it."""
    target = cache() / name
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            half = cache() / f"{name}.half"
            shutil.rmtree(half, ignore_errors=True)
            make(half)
            half.rename(target)
    return target


def _pip(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip could not install: {done.stderr.strip().splitlines()[-1:]}")


@functools.cache
def torch_site() -> Path:
    """Return a folder with torch 2.13.0 and torch-npu 2.13.0. They exist for CPython 3.11 here as a CPU build."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("triton-ascend 3.2.0 exists up to CPython 3.11, and this runs another")
    return made_once("torch-2.13.0", lambda half: _pip("install", "-q", "--target", str(half), *TORCH))


def environment(name: str, *installs: Iterable[str]) -> Path:
    """Return a virtual environment with torch, and with these distributions installed one step after the other."""
    site = torch_site()

    def make(half: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(half)], check=True)
        (site_of(half) / "torch.pth").write_text(f"{site}\n")
        for packages in installs:
            _pip("--python", str(half / "bin" / "python"), "install", "-q", "--no-deps", *packages)

    return made_once(name, make)


def site_of(environment: Path) -> Path:
    """Return where the packages of an environment lie."""
    return next((environment / "lib").glob("python3.*/site-packages"))


def overlay(environment: Path, folder: Path, package: str, changes: dict[str, Callable[[str], str]]) -> Path:
    """Return a copy of `environment` in `folder` whose `package` differs from the real one in a few files."""
    shutil.copytree(environment, folder, symlinks=True, copy_function=os.link)
    owner = next(site for site in (site_of(environment), torch_site()) if (site / package).is_dir())
    copy = site_of(folder) / package
    if owner == torch_site():
        (metadata,) = owner.glob(f"{package}-*.dist-info")
        recorded = (metadata / "RECORD").read_text().splitlines()
        for name in {line.partition("/")[0] for line in recorded if "/" in line and not line.startswith("..")}:
            shutil.copytree(owner / name, site_of(folder) / name, copy_function=os.link)
    for name, change in changes.items():
        file = copy / name
        text = change(file.read_text() if file.exists() else "")
        file.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def tools(name: str, *packages: str) -> Path:
    """Return a virtual environment with these distributions and what they require.

    It was made in another place, so its scripts do not start; `python -m` does.
    """

    def make(half: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(half)], check=True)
        _pip("--python", str(half / "bin" / "python"), "install", "-q", *packages)

    return made_once(f"{name}-{sys.version_info[0]}.{sys.version_info[1]}", make)
