"""`flexdoctor check` beside what else judges an environment, on the same 300 distributions with torch and torch-npu.

    python tests/bench doctors [RUNS]

Doctors of machine-learning environments, from the package registry, those that run here:

- env-doctor, mlenvdoctor, cuda-doctor, ai-infradr: each asks whether torch, its build and what lies below it fit
  together, which is the question of flexdoctor for another vendor. They examine the interpreter that runs them, so each
  is installed into an environment of its own that sees the packages of the measured one. All of them import torch.
  env-doctor asks the network for newer data first and goes on without.
- torch.utils.collect_env: the report that bug trackers ask for.

Budgets: three quarters of the fastest doctor, a tenth of collect_env, 60 MiB.

For comparison, three that judge nothing but version numbers: pip check, pipdeptree and pip-check-resolve; and uv pip
check, which is not written in Python.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import real_environments
from bench import environments
from bench.processes import HEADER, flexdoctor, take_turns

COUNT = 300
#: Distribution, and what it is started with below `bin`.
DOCTORS = {
    "env-doctor check": ("env-doctor==0.3.5", ["env-doctor", "check"]),
    "mlenvdoctor diagnose": ("mlenvdoctor==0.1.6", ["mlenvdoctor", "diagnose"]),
    "cuda-doctor diagnose": ("cuda-doctor==0.2.0", ["cuda-doctor", "diagnose"]),
    "ai-infradr": ("ai-infradr==0.1.0", ["ai-infradr"]),
}
COLLECT_ENV = "torch.utils.collect_env"


def main(runs: int) -> None:
    environment = environments.environment(COUNT)
    python = str(environment / "bin" / "python")
    commands = {
        "flexdoctor check": flexdoctor("check", "--python", environment),
        COLLECT_ENV: [python, "-m", COLLECT_ENV],
        **{name: _doctor(environment, *how) for name, how in DOCTORS.items()},
        "pip check": [python, "-m", "pip", "check"],
        "pipdeptree --warn fail": [*_tool("pipdeptree==4.2.15"), "--python", python, "--warn", "fail"],
        "pip-check-resolve": [*_tool("pip-check-resolve==0.1.0"), "--python", python],
    }
    if uv := shutil.which("uv", path=str(Path(sys.executable).parent)):
        commands["uv pip check"] = [uv, "pip", "check", "--python", python]
    costs = take_turns(commands, runs)
    own = costs["flexdoctor check"]
    print(f"{COUNT} distributions, {runs} runs in turns; ratio: flexdoctor's least processor time to this one's")
    print("\n".join(f"{'':24} {line}" for line in HEADER.splitlines()) + "   ratio")
    for name, cost in costs.items():
        print(f"{name:24} {cost.row()} {own.ratio(cost)}")
    fastest = min(DOCTORS, key=lambda name: min(costs[name].processor))
    print(f"budgets: {own.ratio(costs[fastest]).strip()} of {fastest} (0.75), ", end="")
    print(f"{own.ratio(costs[COLLECT_ENV]).strip()} of collect_env (0.10), {own.memory:.0f} MiB (60)")


def _tool(requirement: str, *sees: Path) -> list[str]:
    """Return the script of a tool in a virtual environment of its own, which may see other folders of packages."""
    name = requirement.partition("==")[0]

    def make(half: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(half)], check=True)
        pip = [str(half / "bin" / "python"), "-m", "pip", "install", "-q", requirement]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)

    tool = real_environments.made_once(f"bench-tool-{sys.version_info.minor}-{name}", make)
    (real_environments.site_of(tool) / "measured.pth").write_text("".join(f"{folder}\n" for folder in sees))
    return [str(tool / "bin" / "python"), str(tool / "bin" / name)]


def _doctor(environment: Path, requirement: str, command: list[str]) -> list[str]:
    return [*_tool(requirement, *environments.sites_of(environment)), *command[1:]]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
