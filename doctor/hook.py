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
#: The options of `check` that take a value, which may be the name of a file.
_VALUED = """
--also --collect --color --config --device --env --env-file --example --fail-on --format -f --ignore
--kernel --lang --npu-smi-limit --output -o --platform --plugin --python --python-version --ranks
--require -r --root --select --site-packages --snapshot --timeout --wheels
"""
WITH_VALUE = frozenset(_VALUED.split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge every file, and return the worst exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    first = _first_file(given)
    options, files = given[:first], given[first:]
    commands = [[sys.executable, "-m", "flexdoctor", "check", "-r", name, *options] for name in files if _plans(name)]
    codes = [subprocess.run(command, check=False).returncode for command in commands]  # noqa: S603
    # A check that was killed has a negative one: it could not complete.
    return max((code if code >= 0 else 3 for code in codes), default=0)


def _first_file(given: Sequence[str]) -> int:
    """Return where the files begin: a file before them may be the value of an option, such as `--config FILE`."""
    first = len(given)
    while first and Path(given[first - 1]).is_file():
        first -= 1
    return first + 1 if 0 < first < len(given) and given[first - 1] in WITH_VALUE else first


def _plans(name: str) -> bool:
    try:
        return _ASCEND.search(Path(name).read_bytes()) is not None
    except OSError:
        return True  # the check says why it cannot be read


if __name__ == "__main__":
    sys.exit(main())
