"""What a project has settled, if anything: the values, and where they may lie.

The reader of the files is `flexdoctor.configuration_file`; a run without such a file never loads it.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from flexdoctor.findings import Capability, Waiver
from flexdoctor.frozen import dataclass

OWN_FILE, SHARED_FILE = "flexdoctor.toml", "pyproject.toml"
_ROOTS = (".git", ".hg", ".svn")
PLUGIN_SECONDS = 10.0


@dataclass(frozen=True)
class Configuration:
    """What was settled, and where. Nothing, when there is no file."""

    path: Path | None = None
    #: The file that lies beside it and was not read, although it has something to say.
    beside: Path | None = None
    select: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    fail_on: Literal["error", "warning"] | None = None
    strict: bool | None = None
    require: Capability | None = None
    #: By the names of the options in Python: site_packages, env_file. Paths are whole.
    target: dict[str, Any] = field(default_factory=dict)
    knowledge: tuple[Path, ...] = ()
    plugins: tuple[str, ...] = ()
    plugin_seconds: float = PLUGIN_SECONDS

    @property
    def is_of_a_project(self) -> bool:
        """Whether a file was used at all."""
        return self.path is not None


def folders_with_files(start: Path | None = None) -> Iterator[Path]:
    """Yield the folders that hold a file which may settle something, the nearest first.

    From `start`, or the current folder, up to the root of the repository or the home folder.
    """
    try:
        folder = (start or Path.cwd()).absolute()
    except OSError:
        return  # the current folder is gone
    for place in _upwards(folder):
        own, shared = place / OWN_FILE, place / SHARED_FILE
        # These do not raise where a parent folder may not be entered.
        if os.path.lexists(own) or os.path.isfile(shared):  # noqa: PTH113
            yield place


def _upwards(folder: Path) -> Iterator[Path]:
    try:
        home: Path | None = Path.home()
    except RuntimeError:
        home = None
    for place in (folder, *folder.parents):
        yield place
        if place == home or any(os.path.exists(place / name) for name in _ROOTS):  # noqa: PTH110
            return


def today() -> datetime.date:
    """Return the day on which waivers are weighed."""
    return datetime.datetime.now(tz=datetime.timezone.utc).astimezone().date()
