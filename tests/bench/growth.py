"""What `flexdoctor check` takes with 50, 300 and 1,000 distributions.

    python tests/bench growth [RUNS]

Budget: 1,000 take less than one and a half times what 50 take.
"""

from __future__ import annotations

import sys

from bench import environments
from bench.processes import HEADER, flexdoctor, take_turns

COUNTS = (50, 300, 1000)


def main(runs: int) -> None:
    commands = {
        f"{count} distributions": flexdoctor("check", "--python", environments.environment(count)) for count in COUNTS
    }
    costs = take_turns(commands, runs)
    least = costs[f"{COUNTS[0]} distributions"]
    print(f"{runs} runs in turns; ratio = processor time to that of the first line, least to least")
    print("\n".join(f"{'':24} {line}" for line in HEADER.splitlines()) + "   ratio")
    for name, cost in costs.items():
        print(f"{name:24} {cost.row()} {cost.ratio(least)}")
    print("budget: 1.50 for the last line")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
