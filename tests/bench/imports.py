"""What each command imports: number of modules, milliseconds, those above 5 ms, and none of the heavy ones.

    python tests/bench imports [RUNS]

Each module counts with the least of its times in all runs. rich may appear with --help and for a terminal only,
huggingface_hub with --online only, and neither pydantic, nor torch or triton, ever.
"""

from __future__ import annotations

import subprocess
import sys

from bench import environments
from bench.processes import clean_environment

HEAVY = ("rich", "huggingface_hub", "pydantic", "torch", "torch_npu", "triton", "numpy", "email", "requests", "httpx")
SLOW_MS = 5.0


def main(runs: int) -> None:
    environment = str(environments.environment(300))
    commands = {
        "--version": ["--version"],
        "--help": ["--help"],
        "check": ["check", "--python", environment],
        "check --format json": ["check", "--format", "json", "--python", environment],
        "check --help": ["check", "--help"],
        "fix --dry-run": ["fix", "--dry-run", "--python", environment],
        "undo --list": ["undo", "--list", "--python", environment],
        "snapshot": ["snapshot", "--python", environment],
        "list checks": ["list", "checks"],
    }
    # A command that is not named above is not left out: its help imports the module that it lives in.
    commands |= {f"{name} --help": [name, "--help"] for name in _names() if not any(name in key for key in commands)}
    for name, arguments in commands.items():
        own: dict[str, int] = {}
        for _ in range(runs):
            for module, microseconds in _imports(arguments):
                own[module] = min(own.get(module, microseconds), microseconds)
        slow = {module: time / 1000 for module, time in own.items() if time / 1000 > SLOW_MS}
        heavy = sorted({module.partition(".")[0] for module in own} & set(HEAVY))
        print(f"{name:24} {len(own):4} modules {sum(own.values()) / 1000:6.0f} ms", end="")
        print(f"   over {SLOW_MS:.0f} ms: {', '.join(f'{key} {ms:.0f}' for key, ms in slow.items()) or 'none'}", end="")
        print(f"   heavy: {', '.join(heavy) or 'none'}")


def _names() -> list[str]:
    from flexdoctor.cli import COMMANDS  # noqa: PLC0415

    return list(COMMANDS)


def _imports(arguments: list[str]) -> list[tuple[str, int]]:
    """Return the modules that a command line imports, each with its own time in microseconds."""
    command = [sys.executable, "-X", "importtime", "-m", "flexdoctor", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
    rows = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if "import time:" in line]
    return [(row[2].strip(), int(row[0])) for row in rows if row[0].strip().isdigit()]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
