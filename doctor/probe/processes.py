"""Keep hold of every process that a child starts, however it tries to get away. Linux; elsewhere its group only."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


@contextlib.contextmanager
def orphans_come_to_us() -> Iterator[None]:
    """Make orphaned descendants children of this process, so that none is lost by forking twice or by setsid."""
    try:
        import ctypes  # noqa: PLC0415 - only the live run needs it

        prctl = ctypes.CDLL(None, use_errno=True).prctl
        before = ctypes.c_int(0)
        prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        yield
        return
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def _parents() -> dict[int, int]:
    """Return the parent of each process that still runs; the dead that nobody has waited for are left out."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        # The second field is the name in brackets, which may itself hold brackets and blanks.
        state, parent = status.rpartition(b")")[2].split()[:2]
        if state not in (b"Z", b"X"):
            found[int(folder.name)] = int(parent)
    return found


def children(of: int) -> set[int]:
    """Return the processes whose parent is `of`."""
    return {pid for pid, parent in _parents().items() if parent == of}


def descendants(roots: set[int]) -> set[int]:
    """Return `roots` that run, and all that they started."""
    parents = _parents()
    found = {pid for pid in roots if pid in parents}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def name_of(pid: int) -> str:
    """Return the number and the command of a process."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        command = ""
    return f"{pid} {command[:200]}".strip()


def reap(pids: set[int]) -> None:
    """Wait for those of `pids` that ended and are ours to wait for."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError, OSError):
            os.waitpid(pid, os.WNOHANG)


class Family:
    """A child, its process group, and everything that descends from it."""

    def __init__(self, leader: int, strangers: set[int]) -> None:
        """`strangers` are children that this process had before it started `leader`."""
        self.leader, self.strangers = leader, strangers
        self._seen: set[int] = set()

    def others(self) -> set[int]:
        """Return every process of the family that runs, but for the leader."""
        ours = children(os.getpid()) - self.strangers
        found = descendants(ours | {self.leader}) - {self.leader}
        self._seen |= found
        return found

    def send(self, number: int, pids: set[int]) -> None:
        """Send a signal to `pids`; those that are gone do not matter."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def wait_for_others(self, seconds: float) -> set[int]:
        """Give the family some time to end by itself. Returns those that did not."""
        end = time.monotonic() + seconds
        while (left := self.others()) and time.monotonic() < end:
            reap(left)
            time.sleep(0.02)
        reap(self._seen)
        return left

    def kill(self, seconds: float = 5.0) -> set[int]:
        """Kill the whole family, and again whatever it starts meanwhile. Returns those that cannot be killed."""
        end = time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, signal.SIGKILL)
        while (left := self.others()) and time.monotonic() < end:
            self.send(signal.SIGKILL, left)
            time.sleep(0.01)
            reap(left)
        reap(self._seen)
        return left
