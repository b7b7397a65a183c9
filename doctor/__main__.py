"""`python -m flexdoctor` is the same program as the `flexdoctor` script."""

from __future__ import annotations

import gc
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line in a process of its own, without looking for garbage in it.

    A run is short and makes many small objects that nearly all live to its end: looking for cycles among them, while
    it runs and once more when it ends, was a sixth of a check.
    """
    gc.set_threshold(100_000)
    from flexdoctor.cli import main as run  # noqa: PLC0415 - what it imports is made without collections, too

    try:
        run()
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
