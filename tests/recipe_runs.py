"""Run the recipes of tests/recipes as they stand, with commands of ours on the PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).with_name("recipes")


def command(folder: Path, name: str, *words: str) -> None:
    """Put a command into `folder` that stands for these words."""
    folder.mkdir(exist_ok=True)
    quoted = " ".join(f"'{word}'" for word in words)
    script = folder / name
    script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', encoding="utf-8")
    script.chmod(0o755)


def commands(folder: Path) -> Path:
    """Return a folder for the PATH with this flexdoctor in it."""
    command(folder, "flexdoctor", sys.executable, "-m", "flexdoctor")
    return folder


def run(words: list[str], path: Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `cwd` with `path` before all else on the PATH."""
    environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}", **variables}
    return subprocess.run(words, check=False, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300)


def reports(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the reports in `folder` by file name."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.iterdir())}
