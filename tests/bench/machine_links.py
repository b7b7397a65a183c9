"""What links 1, 3 and 4 cost: processor time of a fresh process, imports and tables included.

    python tests/bench/machine_links.py [RUNS]

Each run is a child that has imported what `check` needs in any case, then reads the machine and judges its links. A
first run, which is not counted, leaves compiled modules in a folder of its own. The least of all runs is what the work
costs; the rest is what else the machine was doing. The budget is 50 ms.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

BUDGET_MS = 50.0
CHILD = """
import sys, time
import subprocess, packaging.specifiers, packaging.tags, tomllib
import flexdoctor.chain, flexdoctor.knowledge, flexdoctor.readers.interpreter, flexdoctor.readers.packages
import flexdoctor.readers.torch, flexdoctor.readers.torch_npu, flexdoctor.readers.triton
import importlib.util, types
# The package of the checks imports all links; here only those that are measured may count.
checks = types.ModuleType("flexdoctor.checks")
checks.__path__ = list(importlib.util.find_spec("flexdoctor.checks").submodule_search_locations)
sys.modules["flexdoctor.checks"] = checks
import flexdoctor.checks._words
start = time.process_time()
from flexdoctor.readers.machine import read_machine
machine = read_machine()
import dataclasses
from flexdoctor.facts import Facts, TargetFacts
facts = Facts(target=TargetFacts("environment", "", (), True), machine=machine)
from flexdoctor.checks import cann, devices, interpreter
for link in (interpreter, cann, devices):
    list(link.examine(facts))
print((time.process_time() - start) * 1000)
"""


def measure(cache: str) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = cache
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as cache:
        measure(cache)
        times = sorted(measure(cache) for _ in range(runs))
    print(f"links 1, 3, 4: least {times[0]:.1f} ms, median {times[len(times) // 2]:.1f} ms of {runs} runs")
    return 0 if times[0] <= BUDGET_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
