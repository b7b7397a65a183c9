"""Whole processes, measured: processor time of a command and of what it starts, time on the wall, memory.

On a machine that does other things besides, the least of several runs is what the work costs, and the median tells how
much else was going on. Commands that are compared take turns, so that a busy minute hits all of them.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import real_environments


@dataclass(frozen=True)
class Cost:
    """What one command took: seconds of processor time and on the wall in each run, and MiB at the most."""

    processor: tuple[float, ...]
    wall: tuple[float, ...]
    memory: float

    def row(self) -> str:
        return (
            f"{min(self.processor) * 1000:7.0f} {statistics.median(self.processor) * 1000:7.0f}"
            f" {min(self.wall) * 1000:7.0f} {statistics.median(self.wall) * 1000:7.0f} {self.memory:6.1f}"
        )

    def ratio(self, other: Cost) -> str:
        """Return this cost as a part of another, by the least of the runs."""
        return f"{min(self.processor) / min(other.processor):7.2f}"


HEADER = f"{'processor ms':>15} {'wall ms':>15} {'MiB':>6}\n{'least':>7} {'median':>7} {'least':>7} {'median':>7}"


def take_turns(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, Cost]:
    """Run each command once without counting it, which compiles its modules, and then all of them in turns.

    The order is another one each time: what runs behind a large process finds its files and caches driven out.
    """
    order = list(commands)
    chance = random.Random(0)
    costs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        chance.shuffle(order)
        for name in order:
            cost = _run(commands[name])
            if turn:
                costs[name].append(cost)
    return {
        name: Cost(tuple(item[0] for item in kept), tuple(item[1] for item in kept), max(item[2] for item in kept))
        for name, kept in costs.items()
    }


def clean_environment() -> dict[str, str]:
    """Return the variables of a measured process: it keeps its compiled modules, and torch does not load torch_npu."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "FLEXDOCTOR_"))}
    return {**kept, "HOME": str(_home()), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def _home() -> Path:
    """Return an empty home, where some keep logs. Commands run in it: the settings of this project are not theirs."""
    home = real_environments.cache() / "bench-home"
    home.mkdir(exist_ok=True)
    return home


def _run(command: Sequence[str]) -> tuple[float, float, float]:
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=clean_environment(), cwd=_home()
    )
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    process.stderr.close()
    # A child that was waited for counts with what it started itself; nobody else may take its exit code.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    # 1 and 2 are how these tools say that they found something.
    if process.returncode not in (0, 1, 2) or "Traceback (most recent call last)" in said:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{said[-2000:]}")
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024


def flexdoctor(*arguments: str | Path) -> list[str]:
    """Return the command line of the flexdoctor that is installed beside this interpreter."""
    return [str(Path(sys.executable).with_name("flexdoctor")), *map(str, arguments)]
