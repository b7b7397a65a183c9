"""Real wheels from the package registry, downloaded once and unpacked once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from flexdoctor.knowledge.record_examples import lay_out

CACHE = Path(os.environ.get("FLEXDOCTOR_TEST_CACHE", Path.home() / ".cache" / "flexdoctor-tests"))


def wheel(pin: str, *, architecture: str = "aarch64", python: str = "3.11") -> Path:
    """Return the wheel of `name==version` for CPython on Linux, downloading it when the cache lacks it."""
    folder = CACHE / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    name, _, version = pin.partition("==")
    for path in folder.glob("*.whl"):
        found_name, found_version, _, tags = parse_wheel_filename(path.name)
        fits = any(
            tag.platform == "any"
            or (tag.interpreter == f"cp{python.replace('.', '')}" and tag.platform.endswith(architecture))
            for tag in tags
        )
        if fits and found_name == canonicalize_name(name) and str(found_version) == version:
            return path
    policies = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
    platforms = [part for policy in policies for part in ("--platform", f"{policy}_{architecture}")]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    subprocess.run(
        [*command, *platforms, "--implementation", "cp", "--python-version", python, "-d", str(folder), pin], check=True
    )
    return wheel(pin, architecture=architecture, python=python)


def unpacked(pin: str) -> Path:
    """Return a folder with the files of a wheel; compiled libraries have their size and no content."""
    source = wheel(pin)
    target = CACHE / "unpacked" / source.stem
    if not target.is_dir():
        scratch = target.with_suffix(f".{os.getpid()}")
        lay_out(source, scratch)
        scratch.rename(target)
    return target


def site_of(pins: list[str], site: Path) -> Path:
    """Fill `site` with the top-level entries of the unpacked wheels, as links; the wheels share no folder."""
    site.mkdir(parents=True, exist_ok=True)
    for pin in pins:
        for entry in unpacked(pin).iterdir():
            if not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    return site
