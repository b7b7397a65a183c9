"""The recipes for launchers, as far as they can be run without one: the shell's own check, and a stand-in for srun."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from recipe_runs import RECIPES, commands, reports, run
from test_cli import on_terminal

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
#: Starts the command once for each node of the allocation, with what Slurm tells a task; one node cannot start it.
SRUN = """#!/bin/bash
echo "srun $*" >> "$SRUN_LOG"
while [[ $1 == --* ]]; do shift; done
status=0
number=0
for node in node01 node02 node03 node04; do
  if [ "$node" = "$SRUN_BROKEN" ]; then status=1; else
    SLURM_PROCID=$number SLURM_LOCALID=0 SLURM_NODEID=$number SLURMD_NODENAME=$node "$@" || status=$?
  fi
  number=$((number + 1))
done
exit $status
"""


@pytest.mark.parametrize("name", ["torchrun.sh", "slurm.sbatch"])
def test_shell_recipes_parse(name: str) -> None:
    subprocess.run(["bash", "-n", str(RECIPES / name)], check=True)


@pytest.mark.parametrize("broken", ["", "node03"])
def test_slurm(tmp_path: Path, broken: str) -> None:
    path = commands(tmp_path / "bin")
    (path / "srun").write_text(SRUN)
    (path / "srun").chmod(0o755)
    done = run(
        ["bash", str(RECIPES / "slurm.sbatch")],
        path,
        tmp_path,
        SLURM_JOB_ID="4711",
        SLURM_SUBMIT_DIR=str(tmp_path),
        SLURM_JOB_NODELIST="node[01-04]",
        SRUN_LOG=str(tmp_path / "log"),
        SRUN_BROKEN=broken,
    )
    collected = reports(tmp_path / "flexdoctor-4711")
    hosts = {document["node"]["host"] for document in collected.values()}
    assert hosts == {"node01", "node02", "node03", "node04"} - {broken}
    assert {document["node"]["run"] for document in collected.values()} == {"Slurm 4711"}
    assert "--kill-on-bad-exit=0" in (tmp_path / "log").read_text()
    missing = [line for line in done.stdout.splitlines() if line.startswith("MISSING")]
    assert missing == ([f"MISSING {broken}"] if broken else [])
    assert not broken or done.returncode == 1


@pytest.mark.parametrize("command", ["check", "compare"])
def test_every_option_in_a_recipe_exists(command: str) -> None:
    lines = [line for path in RECIPES.iterdir() for line in path.read_text(encoding="utf-8").splitlines()]
    words = [line.partition(command)[2] for line in lines if re.search(rf"flexdoctor\W+{command}\b", line)]
    used = {option for text in words for option in OPTION.findall(text)}
    assert len(words) >= 6
    assert used <= set(OPTION.findall(on_terminal([command, "--help"], 200)))
