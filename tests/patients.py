"""Interpreters whose torch misbehaves: a folder with a `torch` of a few lines, found before any other."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import pytest


def make_torch(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `import torch` run `code` in every child."""
    package = folder / "patient" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(code))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that is dead and not yet waited for has."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return True
        if state in (b"Z", b"X"):
            return True
        time.sleep(0.01)
    return False


def recorded_pids(file: Path) -> list[int]:
    """The numbers that a patient wrote down before it misbehaved."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def memory_cgroup() -> Path | None:
    """A folder in which a memory limit can be set, where the kernel and our rights allow it."""
    for root in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        if (root / "memory.limit_in_bytes").exists() and os.access(root, os.W_OK):
            return root
    return None
