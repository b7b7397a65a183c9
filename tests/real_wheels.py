"""Real distributions from the package index, downloaded once into a cache folder and unpacked."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

CACHE = Path(os.environ.get("FLEXDOCTOR_TEST_CACHE", "~/.cache/flexdoctor-tests/wheels")).expanduser()


def _pip(*arguments: str, environment: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, env={**os.environ, **(environment or {})})


@functools.cache
def unpacked(name: str, version: str) -> Path:
    """Return a folder of packages that holds one pure Python distribution and nothing else."""
    stem = f"{name.replace('-', '_')}-{version}"
    folder = CACHE / "unpacked" / stem
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    if not list(CACHE.glob(f"{stem}-*.whl")):
        _pip("download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(CACHE), f"{name}=={version}")
    (wheel,) = CACHE.glob(f"{stem}-*.whl")
    partial = folder.with_name(f".{stem}-{os.getpid()}")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial)
    partial.rename(folder)
    return folder


def sdist(name: str, version: str, stubs: Path | None = None) -> Path:
    """Return the unpacked source distribution of a package.

    Downloading runs its setup.py, which may want to import a torch: `stubs` is a folder with look-alikes of it.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    folder = CACHE / "unpacked" / f"{stem}-source"
    if folder.is_dir():
        return folder / stem
    if not list(CACHE.glob(f"{stem}.tar.gz")):
        options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
        environment = {"PYTHONPATH": str(stubs), "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"} if stubs else None
        _pip("download", "-q", *options, "-d", str(CACHE), f"{name}=={version}", environment=environment)
    partial = folder.with_name(f".{stem}-{os.getpid()}")
    with tarfile.open(CACHE / f"{stem}.tar.gz") as archive:
        for member in archive.getmembers():
            if member.isfile() and member.name.endswith(".py"):
                archive.extract(member, partial, filter="data")
    partial.rename(folder)
    return folder / stem


def environment(folder: Path, *distributions: tuple[str, str]) -> Path:
    """Make a folder of packages out of unpacked distributions, by links."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, version in distributions:
        for entry in unpacked(name, version).iterdir():
            if not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    return folder
