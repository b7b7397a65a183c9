"""Measure what flexdoctor costs.

    python tests/bench                    every measurement, one after the other
    python tests/bench NAME [RUNS]        one of them
    python tests/bench --list             what there is

Each is a module of its own beside this one, with a `main`, and runs in a process of its own. The environments lie in
the cache of the tests (FLEXDOCTOR_TEST_CACHE); the first run makes them and installs the other tools from the package
registry. Nothing here is a test: how long something takes is measured, never asserted.
"""

from __future__ import annotations

import ast
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def _measurements() -> dict[str, str]:
    """Return the name and the first sentence of each measurement."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        is_one = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in module.body)
        if is_one and path.name != "__main__.py":
            found[path.stem] = (ast.get_docstring(module) or "").split("\n\n")[0].replace("\n", " ")
    return found


def main(arguments: list[str]) -> int:
    measurements = _measurements()
    if arguments[:1] == ["--list"]:
        print("\n".join(f"{name:16} {title}" for name, title in measurements.items()))
        return 0
    if arguments and arguments[0] not in measurements:
        print(f"{arguments[0]}: expected one of {', '.join(measurements)}", file=sys.stderr)
        return 2
    chosen, rest = ([arguments[0]], arguments[1:]) if arguments else (list(measurements), [])
    variables = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    print(f"{datetime.datetime.now():%Y-%m-%d}, Python {platform.python_version()}, {platform.machine()}", end="")
    print(f", {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    failed = []
    for name in chosen:
        print(f"\n== {name}: {measurements[name]}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py"), *rest], check=False, env=variables).returncode:
            failed.append(name)
    if failed:
        print(f"\nover budget or broken off: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
