"""A read-only view of a folder of packages that turns every way to fail into a note."""

from __future__ import annotations

import codecs
import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from flexdoctor.facts import Place, Unread

#: No source file of the chain comes near this size; a larger one is not what its name says.
MAX_SOURCE_BYTES = 16 * 1024 * 1024


def fold_home(path: str | Path) -> str:
    """Return `path` with the home folder written as `~`, so that a report does not carry a user name."""
    text, home = str(path), _home(os.environ.get("HOME"))
    if home not in ("~", "/") and (text == home or text.startswith(home + os.sep)):
        return "~" + text[len(home) :]
    return text


@functools.lru_cache(maxsize=1)
def _home(_: str | None) -> str:
    """Return the home folder, which hangs on the variable alone and is asked for with every distribution."""
    return os.path.expanduser("~")  # noqa: PTH111 - a user without a home has no error


def read_regular(path: str, limit: int) -> bytes:
    """Return the content of a regular file, which a pipe or a device is not.

    Raises:
        OSError: it cannot be read, is something else, or has more than `limit` bytes; `strerror` says which.
    """
    # A check reads a thousand files: this costs half of what `open` does. A pipe would keep a blocking open waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes, more than such a file can have")
        content = os.read(descriptor, status.st_size + 1)
        # What ends where it said was asked for one byte more, so that this is all of it.
        while len(content) != status.st_size and (more := os.read(descriptor, 1 << 16)):
            content += more
        return content
    finally:
        os.close(descriptor)


def source_text(content: bytes) -> str:
    """Return the text of a source file; bytes that are not UTF-8 become U+FFFD, a byte order mark is dropped."""
    # The codec for text with a mark is written in Python, and a check decodes hundreds of files.
    return content.removeprefix(codecs.BOM_UTF8).decode(errors="replace")


class Tree(Protocol):
    """What a reader needs of a place where packages lie: names are `/`-separated and relative to it."""

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None when it is absent or unreadable (the latter is noted)."""

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the sorted names of the folders directly below `name`."""

    def files(self, name: str) -> tuple[str, ...]:
        """Return the sorted names of the files directly below `name`."""

    def sources(self, name: str, skip: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield every `.py` file below `name`, but for the files and folders (relative to the tree) in `skip`."""

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""

    def place(self, name: str, line: int | None = None, text: str = "") -> Place:
        """Return where a person finds this."""

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not be read so far."""


class FolderTree:
    """A folder of installed packages, such as site-packages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._unread: dict[str, Unread] = {}

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not be read so far, in the order in which it was met."""
        return tuple(self._unread.values())

    def read(self, name: str) -> str | None:
        """Return the text of a file (see `source_text`)."""
        path = f"{self.root}/{name}"
        try:
            return source_text(read_regular(path, MAX_SOURCE_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(path):  # noqa: PTH114
                self._note(name, "dangling symbolic link")
        except OSError as error:
            self._note(name, error.strerror or str(error))
        return None

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the sorted names of the folders directly below `name`."""
        return self._entries(name, want_folders=True)

    def files(self, name: str) -> tuple[str, ...]:
        """Return the sorted names of everything below `name` that is not a folder."""
        return self._entries(name, want_folders=False)

    def sources(self, name: str, skip: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield every `.py` file below `name`, in a stable order; symbolic links below `name` are not followed."""
        try:
            with os.scandir(f"{self.root}/{name}") as entries:
                found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError:
            return
        below = [(f"{name}/{entry}", is_folder) for entry, is_folder in found if f"{name}/{entry}" not in skip]
        yield from (entry for entry, is_folder in below if entry.endswith(".py") and not is_folder)
        for entry, is_folder in below:
            if is_folder:
                yield from self.sources(entry, skip)

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder; what cannot be looked at does not exist."""
        try:
            return (self.root / name).exists()
        except OSError:
            return False

    def place(self, name: str, line: int | None = None, text: str = "") -> Place:
        """Return the absolute path of `name`, home folded."""
        return Place(fold_home(self.root / name), line, text.strip())

    def _entries(self, name: str, *, want_folders: bool) -> tuple[str, ...]:
        found = []
        try:
            with os.scandir(self.root / name) as entries:
                for entry in entries:
                    try:
                        is_folder = entry.is_dir()
                    except OSError:
                        self._note(f"{name}/{entry.name}", "symbolic link loop")
                        continue
                    if is_folder == want_folders:
                        found.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            self._note(name, error.strerror or str(error))
        return tuple(sorted(found))

    def _note(self, name: str, reason: str) -> None:
        self._unread.setdefault(name, Unread(fold_home(self.root / name), reason))
