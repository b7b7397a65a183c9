"""What `compare` costs with many nodes: time and memory of a whole process, for 100, 1,000 and 10,000 reports.

    python tests/bench/many_nodes.py [COUNT...]

Each folder holds three planted drifts and two missing nodes, and a run that does not find them all ends the bench.
Nothing here is asserted by a test; the numbers are of the machine that they are measured on.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from node_folders import Planted, write_job

COUNTS = (100, 1_000, 10_000)
DISTRIBUTIONS = 300
#: Runs in a child of its own, so that the peak memory is that of the command alone.
CHILD = "import resource, sys; from flexdoctor.cli import main\ntry:\n    main()\nfinally:\n"
CHILD += "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"


def compare(folder: Path, count: int) -> tuple[float, float, dict[str, object]]:
    """Run `flexdoctor compare` on a folder; return seconds, MiB, and what it found."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", CHILD, "compare", str(folder), "--hosts", f"node[00000-{count - 1:05d}]"]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode != 1:
        raise SystemExit(f"compare ended with {done.returncode}: {done.stderr}")
    return seconds, int(done.stderr.split()[-1]) / 1024, json.loads(done.stdout)


def is_found(planted: Planted, found: dict[str, object]) -> bool:
    """Return whether the three drifts and the missing nodes are all in the answer, and nothing else is."""
    groups = [sorted(node["index"] for node in group["nodes"]) for group in found["groups"]]  # type: ignore[attr-defined]
    wanted = [planted.overwritten, planted.other_torch_npu, planted.other_numpy]
    hosts = [f"node{number:05d}" for number in planted.missing]
    return sorted(map(tuple, groups[1:])) == sorted(wanted) and found["missing"]["hosts"] == hosts  # type: ignore[index]


def main() -> None:
    """Print one line for each number of nodes."""
    counts = [int(item) for item in sys.argv[1:]] or list(COUNTS)
    print(f"{'nodes':>7} {'MB read':>8} {'seconds':>8} {'MiB':>6} {'us a node':>10}  found")
    for count in counts:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "reports"
            planted = write_job(folder, count, distributions=DISTRIBUTIONS)
            size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            seconds, memory, found = compare(folder, count)
        verdict = "all" if is_found(planted, found) else "NOT ALL"
        row = f"{count:>7,} {size:>8.1f} {seconds:>8.2f} {memory:>6.0f} {seconds / count * 1e6:>10.0f}  {verdict}"
        print(row, flush=True)
        if verdict != "all":
            raise SystemExit(1)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"Python {sys.version.split()[0]}, processor time of all runs {children.ru_utime + children.ru_stime:.1f} s")


if __name__ == "__main__":
    main()
