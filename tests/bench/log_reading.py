"""What reading a log costs, against `grep -E` of the same patterns: time, and the memory of a fresh process.

    python tests/bench/log_reading.py [--megabytes N] [--folder DIR]

The log is that of a training job of eight ranks: information, progress bars, warnings, now and then a traceback. It is
written once, then read by each in turn, three times, the least counts. A second log, a twentieth as long, has an error
on every line: the worst that there is. The budget is three times grep on the first, and memory that does not grow.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from flexdoctor.knowledge.signatures import signatures

BUDGET = 3.0
#: So much is made up; the rest repeats it.
PART = 50_000_000
CHILD = """
import resource, sys
from flexdoctor.readers.logs import read_log
with open(sys.argv[1], "rb") as stream:
    facts = read_log(stream)
usage = resource.getrusage(resource.RUSAGE_SELF)
# The kernel's peak of this program alone; that of getrusage counts the parent up to the start of this one.
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(usage.ru_utime + usage.ru_stime, peak / 1024, sum(item.count for item in facts.incidents))
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/job/train.py", line 41, in main
    loss = model(batch)
  File "/opt/venv/lib/python3.11/site-packages/triton/runtime/driver.py", line 9, in _create_driver
    raise RuntimeError(
RuntimeError: {message}
"""


def ordinary(size: int) -> Iterator[str]:
    """Yield the lines of a training job."""
    chance = random.Random(1)
    written = number = 0
    while written < size:
        number += 1
        rank, kind = number % 8, chance.random()
        stamp = f"[rank{rank}]: 2026-11-30 11:{number // 60 % 60:02}:{number % 60:02},{number % 1000:03}"
        if kind < 0.7:
            line = (
                f"{stamp} [INFO] trainer.py:{chance.randint(10, 900)} step {number} loss={chance.random() * 9:.4f} "
                f"grad_norm={chance.random():.3f} lr=3.0e-05 tokens/s={chance.randint(1000, 90000)} mem=41.3GiB\n"
            )
        elif kind < 0.9:
            line = f"{stamp} [DEBUG] data.loader: shard-{number:06}.tar opened, 10000 samples, cache 0.93, errors 0\n"
        elif kind < 0.97:
            line = f"\rEpoch 1:  {number % 100}%|###       | {number % 5000}/5000 [03:22<1:02:33,  1.23it/s, loss=2.13]"
        else:
            line = f"{stamp} [WARNING] torch/utils/checkpoint.py:434: UserWarning: use_reentrant should be passed\n"
        if number % 100_000 == 0:
            message = "0 active drivers ([]). There should only be one." if number % 200_000 else f"lost step {number}"
            line += "".join(f"[rank{rank}]: {part}\n" for part in TRACEBACK.format(message=message).splitlines())
        written += len(line)
        yield line


def errors(size: int) -> Iterator[str]:
    """Yield nothing but errors."""
    written = number = 0
    while written < size:
        number += 1
        line = f"[rank{number % 8}]: 2026-11-30 11:50:07,{number % 1000:03} ERROR RuntimeError: lost step {number}\n"
        written += len(line)
        yield line


def grep_patterns() -> list[str]:
    """Return the patterns of the table as far as `grep -E` can express them."""
    patterns = []
    for signature in signatures():
        text = re.sub(r"\(\?<?!.*?\)|\(\?i\)|\\b|^\^", "", signature.message.pattern)
        for old, new in (
            (r"\w", "[A-Za-z0-9_]"),
            (r"\d", "[0-9]"),
            (r"\S", "[^ ]"),
            ("(?:", "("),
            ("(?i:", "("),
            (r"\.[[", "[.["),
        ):
            text = text.replace(old, new)
        patterns.append(re.sub(r"\[\[A-Za-z0-9_\]\.\]", "[A-Za-z0-9_.]", text))
    return [pattern for pattern in patterns if pattern]


def grep(log: Path, patterns: Path) -> tuple[float, int]:
    """Return the processor time of grep and how many lines it found."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [shutil.which("grep") or "grep", "-a", "-c", "-E", "-f", str(patterns), str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(done.stdout)


def read(log: Path) -> tuple[float, float, int]:
    """Return the processor time, the memory in MiB and the number of errors of a process that reads the log."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(log)], capture_output=True, text=True, check=True)
    seconds, memory, found = done.stdout.split()
    return float(seconds), float(memory), int(found)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--megabytes", type=int, default=1000)
    options.add_argument("--folder")
    given = options.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        patterns, empty = Path(folder, "patterns"), Path(folder, "empty.log")
        patterns.write_text("\n".join(grep_patterns()) + "\n", encoding="utf-8")
        empty.touch()
        _, base, _ = read(empty)
        part = min(given.megabytes * 1_000_000, PART)
        for name, size, lines in (
            ("training job", given.megabytes * 1_000_000, ordinary(part)),
            ("nothing but errors", given.megabytes * 50_000, errors(min(part, given.megabytes * 50_000))),
        ):
            log = Path(folder, "log")
            start = time.perf_counter()
            text = "".join(lines).encode()
            with log.open("wb") as stream:
                for _ in range(-(-size // len(text))):
                    stream.write(text)
            print(f"{name}: {log.stat().st_size / 1e6:.0f} MB, written in {time.perf_counter() - start:.0f} s")
            least_grep, hits = min(grep(log, patterns) for _ in range(3))
            least, memory, found = min(read(log) for _ in range(3))
            ratio = least / least_grep
            worst = max(worst, ratio if name == "training job" else 0)
            print(f"  grep -E {least_grep:.2f} s ({hits} lines), flexdoctor {least:.2f} s ({found} errors)")
            print(f"  {ratio:.1f} times grep")
            print(f"  memory {memory:.0f} MiB, {memory - base:.0f} more than for an empty log")
    return 0 if worst <= BUDGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
