"""The pre-commit hook: `flexdoctor check -r FILE` for each file that plans torch-npu or triton-ascend.

    python -m flexdoctor.hook [OPTIONS OF CHECK] FILE...

Each file plans an environment of its own, so that each is judged alone; one that names neither package (those of a
documentation build, say) is passed over. pre-commit appends the files that are committed to the options.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ASCEND = re.compile(rb"(?i)\b(?:torch[-_.]+npu|triton[-_.]+ascend)\b")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge every file, and return the worst exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    first = len(given)
    while first and Path(given[first - 1]).is_file():
        first -= 1
    options, files = given[:first], given[first:]
    commands = [[sys.executable, "-m", "flexdoctor", "check", "-r", name, *options] for name in files if _plans(name)]
    return max((subprocess.run(command, check=False).returncode for command in commands), default=0)  # noqa: S603


def _plans(name: str) -> bool:
    try:
        return _ASCEND.search(Path(name).read_bytes()) is not None
    except OSError:
        return True  # the check says why it cannot be read


if __name__ == "__main__":
    sys.exit(main())
