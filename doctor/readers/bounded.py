"""A child that cannot take the doctor with it: bounded time, bounded output, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

#: How long to wait for a killed child: one that hangs in the kernel is not waited for.
_REAP_SECONDS = 1.0
_CHUNK = 65536


@dataclass(frozen=True)
class Outcome:
    """How a child ended, and what it wrote to stdout and stderr together, up to the limit."""

    ended: Literal["exited", "killed", "timed out", "too much", "not started"]
    output: bytes = b""
    exit_code: int | None = None
    signal: int | None = None
    error: str = ""


def run_bounded(
    command: Sequence[str],
    *,
    seconds: float,
    max_bytes: int = 256 * 1024,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run `command` in a process group of its own and return how it ended; never raises for what the child does."""
    try:
        child = subprocess.Popen(  # noqa: S603 - the callers name the program by its full path
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=None if environment is None else dict(environment),
        )
    except (OSError, ValueError) as error:
        return Outcome("not started", error=str(getattr(error, "strerror", None) or error))
    output = bytearray()
    verdict = _collect(child, output, time.monotonic() + seconds, max_bytes)
    deadline = time.monotonic() + _REAP_SECONDS
    if verdict is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=max(deadline - time.monotonic(), 0))
        if child.returncode is None:
            verdict = "timed out"  # it closed its output and stays
    # What the child left running in its group goes too, or it would hold the pipe and the devices.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=_REAP_SECONDS)
    if child.stdout is not None:
        child.stdout.close()
    if verdict is not None:
        return Outcome(verdict, bytes(output))
    code = child.returncode
    if code is not None and code < 0:
        return Outcome("killed", bytes(output), signal=-code)
    return Outcome("exited", bytes(output), exit_code=code)


def _collect(
    child: subprocess.Popen[bytes], output: bytearray, deadline: float, max_bytes: int
) -> Literal["timed out", "too much"] | None:
    """Read until the child closes its output; say why when it had to be stopped."""
    assert child.stdout is not None  # noqa: S101 - asked for with PIPE
    os.set_blocking(child.stdout.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timed out"
            # A grandchild may hold the pipe after the child itself is gone.
            if not selector.select(min(left, 0.2)):
                if child.poll() is not None:
                    return None
                continue
            try:
                chunk = child.stdout.read(_CHUNK)
            except OSError:
                return None
            if chunk is None:
                continue
            if not chunk:
                return None
            output += chunk[: max_bytes - len(output)]
            if len(output) >= max_bytes:
                return "too much"
