"""Keeping what a treatment replaces, and putting it back: marks of a tree, hard links of what may be touched.

Paths are relative to the prefix, so that a kept environment may be moved. A kept file is a hard link where the file
system has them: installers unlink or rename what they replace, so the old content lives on under the kept name at no
cost; what the treatment did not replace after all is dropped from the keep when it is done.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flexdoctor.text import Text
from flexdoctor.treatment.journal import FOLDER, Entry
from flexdoctor.treatment.plan import TreatmentError

Kind = Literal["file", "folder", "link", "other"]
_NEW = ".flexdoctor-new"
#: File systems say so in different ways that they cannot link a file.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True)
class Mark:
    """What tells one state of a path from another without reading it."""

    kind: Kind
    mode: int
    size: int
    changed: int
    target: str = ""

    @property
    def content(self) -> tuple[str, int, int, str]:
        """What must be equal for the content to be; a folder's size and time say nothing."""
        return (self.kind, 0, 0, "") if self.kind == "folder" else (self.kind, self.size, self.changed, self.target)


Marks = dict[str, Mark]


def mark(path: Path) -> Mark | None:
    """Return the mark of `path` itself, None when there is nothing."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        return Mark("link", 0, 0, 0, str(path.readlink()))
    kind: Kind = "folder" if stat.S_ISDIR(status.st_mode) else "file" if stat.S_ISREG(status.st_mode) else "other"
    return Mark(kind, stat.S_IMODE(status.st_mode), status.st_size, status.st_mtime_ns)


def look(prefix: Path, scopes: Iterable[Path]) -> Marks:
    """Return the marks of everything below `scopes`, which lie below `prefix`; the journal is not looked at."""
    marks: Marks = {}
    for scope in scopes:
        for path in _walk(prefix, scope):
            if found := mark(path):
                marks[os.path.relpath(path, prefix)] = found
    return marks


def _walk(prefix: Path, scope: Path) -> Iterator[Path]:
    yield scope
    for folder, folders, files in os.walk(scope):
        if Path(folder) == prefix and FOLDER in folders:
            folders.remove(FOLDER)
        for name in (*folders, *files):
            yield Path(folder, name)


def dump(marks: Mapping[str, Mark]) -> list[list[object]]:
    """Return marks as JSON data."""
    return [[path, item.kind, item.mode, item.size, item.changed, item.target] for path, item in marks.items()]


def restore_marks(data: Iterable[list[object]]) -> Marks:
    """Return what `dump` wrote.

    Raises:
        TreatmentError: it is not what `dump` wrote.
    """
    try:
        return {str(path): Mark(*rest) for path, *rest in data}  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise TreatmentError(Text(f"the journal is damaged: {error}", f"修复记录已损坏：{error}")) from error


@dataclass(frozen=True)
class Ground:
    """What a treatment may touch: single paths, and folders in which everything that appears is its own."""

    touched: frozenset[str]
    #: Top-level folders of the packages in the plan; what appears below them meanwhile came from the treatment.
    own: tuple[str, ...]
    #: Folders of packages, in which an installer puts its temporary folders (`~name`).
    sites: tuple[str, ...]
    #: Names of distributions, whose dist-info is ours in whatever version it appears.
    names: tuple[str, ...]

    def owns(self, path: str) -> bool:
        """Tell whether something new at `path` must have come from the treatment."""
        if path in self.touched or path.endswith(_NEW):
            return True
        if any(path == folder or path.startswith(f"{folder}/") for folder in self.own):
            return True
        for site in self.sites:
            if path.startswith(f"{site}/"):
                top = path[len(site) + 1 :].partition("/")[0]
                stem = top.partition("-")[0].lower().replace("-", "_").replace(".", "_")
                if top.startswith("~") or (top.endswith(".dist-info") and stem in self.names):
                    return True
        return False

    def to_json(self) -> dict[str, object]:
        """Return it as JSON data."""
        return {
            "touched": sorted(self.touched),
            "own": list(self.own),
            "sites": list(self.sites),
            "names": list(self.names),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, list[str]]) -> Ground:
        """Return what `to_json` wrote."""
        return cls(frozenset(data["touched"]), *(tuple(data[key]) for key in ("own", "sites", "names")))


def keep(prefix: Path, entry: Entry, paths: Iterable[str], before: Mapping[str, Mark]) -> None:
    """Keep every file of `paths` that is there.

    Raises:
        OSError: it cannot be kept (the disk is full, a file is unreadable).
    """
    made = set[Path]()
    for path in paths:
        there = before.get(path)
        if there is None or there.kind != "file":
            continue
        kept = entry.kept / path
        if kept.parent not in made:
            kept.parent.mkdir(parents=True, exist_ok=True)
            made.add(kept.parent)
        _link_or_copy(prefix / path, kept)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(source, target, follow_symlinks=False)
        with target.open("rb") as copy:
            os.fsync(copy.fileno())


def put_back(
    prefix: Path, entry: Entry, ground: Ground, before: Mapping[str, Mark], created: frozenset[str] | None
) -> list[str]:
    """Make the tree what it was, and return what could not be: paths with the reason.

    Every step can be repeated, so a restore that was cut off is finished by the next one.

    Args:
        created: what the treatment made, when it came to its end; None: everything of ours that was not there before.
    """
    problems: list[str] = []
    scopes = [prefix / site for site in ground.sites]
    now = look(prefix, scopes)
    for path in ground.touched:
        if path not in now and (found := mark(prefix / path)):
            now[path] = found
    folders = []
    for path, here in now.items():
        if path in before or not _is_ours(path, ground, created):
            continue
        if here.kind == "folder":
            folders.append(path)
        else:
            _try(problems, path, lambda path=path: (prefix / path).unlink(missing_ok=True))
    for path in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # something of the user's is left in it
            (prefix / path).rmdir()
    _put_folders_back(prefix, ground, before, problems)
    for path in sorted(ground.touched):
        if there := before.get(path):
            _try(problems, path, lambda path=path, there=there: _put_file_back(prefix, entry, path, there))
    return problems


def _is_ours(path: str, ground: Ground, created: frozenset[str] | None) -> bool:
    if created is None:
        return ground.owns(path)
    # What Python has compiled since, of sources that the treatment brought: their folders must not outlive them.
    return path in created or ("__pycache__" in path.split("/")[-2:] and ground.owns(path))


def _put_folders_back(prefix: Path, ground: Ground, before: Mapping[str, Mark], problems: list[str]) -> None:
    wanted = {parent for path in ground.touched if path in before for parent in _parents(path)}
    wanted |= {path for path, item in before.items() if item.kind == "folder" and ground.owns(path)}
    for path in sorted(wanted, key=len):
        item = before.get(path)
        if item is None or item.kind != "folder":
            continue
        folder = prefix / path
        here = mark(folder)
        if here is not None and here.kind != "folder":
            _try(problems, path, folder.unlink)
            here = None
        if here is None:
            _try(problems, path, folder.mkdir)
        if here is None or here.mode != item.mode:
            _try(problems, path, lambda folder=folder, item=item: folder.chmod(item.mode))


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _try(problems: list[str], path: str, act: object) -> None:
    try:
        act()  # type: ignore[operator]
    except OSError as error:
        problems.append(f"{path}: {error.strerror or error}")


def _put_file_back(prefix: Path, entry: Entry, path: str, there: Mark) -> None:
    place, kept = prefix / path, entry.kept / path
    here = mark(place)
    if there.kind in ("folder", "other"):
        return
    if here is not None and here.content == there.content:
        if here.mode != there.mode and there.kind == "file":
            place.chmod(there.mode)
        if there.kind == "link" or not kept.exists() or place.samefile(kept):
            return
    beside = place.with_name(f"{place.name}{_NEW}")
    beside.unlink(missing_ok=True)
    if there.kind == "link":
        beside.symlink_to(there.target)
    elif not kept.exists():
        raise OSError(errno.ENOENT, "it was changed after the fix, which had not touched it")
    else:
        _link_or_copy(kept, beside)
    if here is not None and here.kind == "folder":
        shutil.rmtree(place)
    beside.replace(place)


def drop_unchanged(prefix: Path, entry: Entry, ground: Ground) -> None:
    """Drop from the keep what is still in its place, so that no kept file shares its content with a living one."""
    for path in ground.touched:
        kept = entry.kept / path
        with contextlib.suppress(OSError):
            if (prefix / path).samefile(kept):
                kept.unlink()
    for folder, _, _ in os.walk(entry.kept, topdown=False):
        with contextlib.suppress(OSError):
            if Path(folder) != entry.kept:
                Path(folder).rmdir()


def changed_since(prefix: Path, ground: Ground, after: Mapping[str, Mark]) -> list[str]:
    """Return what of ours is no longer as the treatment left it, compiled files aside."""
    found = []
    for path in sorted(ground.touched | {path for path in after if ground.owns(path)}):
        if path.endswith(".pyc"):
            continue
        was, here = after.get(path), mark(prefix / path)
        if (was.content if was else None) != (here.content if here else None):
            found.append(path)
    return found
