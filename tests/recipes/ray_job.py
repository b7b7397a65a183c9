"""Ray: one task on each node that is alive, then one verdict.

ray job submit --working-dir . -- python ray_job.py /shared/reports
"""

import subprocess
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0, max_retries=0)
def check(reports: str) -> int:
    """Write the report of the node that this runs on."""
    return subprocess.run(["flexdoctor", "check", "--collect", reports, "--exit-zero"], check=False).returncode


def main(reports: str) -> int:
    """Check every node, and return the exit code of the comparison."""
    ray.init()
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    # A node that dies meanwhile is named as missing; it does not keep the others from being compared.
    ray.wait(
        [check.options(scheduling_strategy=strategy).remote(reports) for strategy in strategies],
        num_returns=len(nodes),
        timeout=300,
    )
    return subprocess.run(["flexdoctor", "compare", reports, "--expect", str(len(nodes))], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
