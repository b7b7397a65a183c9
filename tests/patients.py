"""Interpreters whose torch misbehaves: a folder with a `torch` of a few lines, found before any other."""

from __future__ import annotations

import os
import select
import textwrap
from pathlib import Path

import pytest


def make_torch(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `import torch` run `code` in every child."""
    package = folder / "patient" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(textwrap.dedent(code))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


def is_gone(pid: int) -> bool:
    """Wait for the end of a process that was killed; the kernel may take a moment on a busy machine."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


def announced_pid(pipe: Path) -> int:
    """Wait for the number that a patient writes into a named pipe."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert select.select([descriptor], [], [], 60)[0], "the patient did not start"
        return int(os.read(descriptor, 64))
    finally:
        os.close(descriptor)


def recorded_pids(file: Path) -> list[int]:
    """The numbers that a patient wrote down before it misbehaved."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def memory_cgroup() -> Path | None:
    """A folder in which a memory limit can be set, where the kernel and our rights allow it."""
    for root in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        if (root / "memory.limit_in_bytes").exists() and os.access(root, os.W_OK):
            return root
    return None
