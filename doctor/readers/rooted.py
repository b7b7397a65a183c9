"""System paths of a machine or of an unpacked image, whose absolute links must not lead out of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from flexdoctor.facts import Unread
from flexdoctor.readers.trees import fold_home

#: As many links as the kernel follows in one path before it calls them a loop.
_MAX_LINKS = 40
_MAX_TEXT_BYTES = 1024 * 1024


class Root:
    """A file system seen from its own root. Nothing raises; what cannot be read is noted."""

    def __init__(self, top: Path = Path("/")) -> None:
        self.top = Path(os.path.abspath(top))  # noqa: PTH100 - a link to the root is the user's to keep
        self.live = self.top == Path("/")
        self._unread: dict[str, Unread] = {}

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not be read so far."""
        return tuple(self._unread.values())

    def real(self, path: str) -> str:
        """Return `path` without links, as the system itself would resolve it."""
        if self.live:
            return os.path.realpath(path)
        parts, done, links = [part for part in path.split("/") if part], "", 0
        while parts:
            part = parts.pop(0)
            if part == ".":
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            host = f"{self.top}{done}/{part}"
            try:
                target = os.readlink(host)  # noqa: PTH115
            except OSError:
                done = f"{done}/{part}"
                continue
            links += 1
            if links > _MAX_LINKS:
                return f"{done}/{part}"
            if target.startswith("/"):
                done = ""
            parts = [item for item in target.split("/") if item] + parts
        return done or "/"

    def host(self, path: str) -> str:
        """Return where `path` lies on this machine."""
        return path if self.live else f"{self.top}{self.real(path)}"

    def inside(self, host: Path) -> str | None:
        """Return the path, as the system sees it, of a folder of this machine; None when it lies elsewhere."""
        if self.live:
            return str(host)
        text, top = os.path.realpath(host), os.path.realpath(self.top)
        return text[len(top) :] or "/" if text == top or text.startswith(top + "/") else None

    def shown(self, path: str) -> str:
        """Return `path` as a report writes it."""
        return fold_home(path) if self.live else path

    def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder; what cannot be looked at does not exist."""
        return os.path.exists(self.host(path))  # noqa: PTH110 - takes a string, and many are asked for

    def is_folder(self, path: str) -> bool:
        """Return whether there is such a folder."""
        return os.path.isdir(self.host(path))  # noqa: PTH112

    def is_program(self, path: str) -> bool:
        """Return whether there is a file with an executable bit."""
        host = self.host(path)
        return os.path.isfile(host) and (  # noqa: PTH113
            os.access(host, os.X_OK) or not self.live
        )

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder; none when there is no such folder."""
        try:
            return tuple(sorted(os.listdir(self.host(path))))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            self._note(path, error)
            return ()

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of what `path` leads to."""
        try:
            return os.stat(self.host(path))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._note(path, error)
            return None

    def read(self, path: str, limit: int = _MAX_TEXT_BYTES) -> str | None:
        """Return the text of a regular file, or None when it is absent or unreadable (the latter is noted)."""
        host = self.host(path)
        if not os.path.isfile(host):  # noqa: PTH113 - a pipe in its place would never end
            return None
        try:
            with open(host, "rb") as file:  # noqa: PTH123
                return file.read(limit).decode("utf-8", errors="replace")
        except OSError as error:
            self._note(path, error)
            return None

    def values(self, path: str) -> dict[str, str] | None:
        """Return the `key=value` lines of a file with their keys in lower case; None when it cannot be read."""
        text = self.read(path)
        if text is None:
            return None
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
        return {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}

    def first(self, paths: Iterable[str]) -> str | None:
        """Return the first of `paths` that exists."""
        return next((path for path in paths if self.exists(path)), None)

    def _note(self, path: str, error: OSError) -> None:
        self._unread.setdefault(path, Unread(self.shown(path), error.strerror or str(error)))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts the numbers in a name by their value: 8.10 after 8.9."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
