"""A wheelhouse: metadata and sources are read inside the zip files, nothing is unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, NormalizedName, parse_wheel_filename
from packaging.version import Version

from flexdoctor.facts import Place, Unread
from flexdoctor.readers.packages import CHAIN_DISTRIBUTIONS, InstalledDistribution, RecordRow
from flexdoctor.readers.trees import MAX_SOURCE_BYTES, fold_home, source_text


class WheelTree:
    """A wheel as a tree. Names that leave the archive are never looked up, and no member is read beyond its bound."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unread: dict[str, Unread] = {}

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What could not be read so far."""
        return tuple(self._unread.values())

    @cached_property
    def _archive(self) -> zipfile.ZipFile | None:
        try:
            return zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            self._note("", f"not a wheel that can be read: {error}")
            return None

    @cached_property
    def names(self) -> dict[str, zipfile.ZipInfo]:
        """Every file of the wheel whose name stays inside it."""
        members = self._archive.NameToInfo if self._archive else {}
        return {name: info for name, info in members.items() if name[-1:] != "/" and not _leaves(name)}

    @cached_property
    def _children(self) -> dict[str, tuple[set[str], set[str]]]:
        children: dict[str, tuple[set[str], set[str]]] = {}
        for name in self.names:
            parts = name.split("/")
            for depth in range(len(parts) - 1):
                children.setdefault("/".join(parts[:depth]), (set(), set()))[0].add(parts[depth])
            children.setdefault("/".join(parts[:-1]), (set(), set()))[1].add(parts[-1])
        return children

    def read(self, name: str) -> str | None:
        """Return the text of a member, as `FolderTree.read` does of a file."""
        content = self.read_bytes(name)
        return None if content is None else source_text(content)

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a member; a member larger than a source file can be is not read."""
        info = self.names.get(name)
        if info is None or self._archive is None:
            return None
        if info.file_size > MAX_SOURCE_BYTES:
            self._note(name, f"{info.file_size} bytes, more than a source file can have")
            return None
        try:
            with self._archive.open(info) as member:
                return member.read(MAX_SOURCE_BYTES)
        except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
            self._note(name, f"damaged: {error}")
        except Exception as error:  # noqa: BLE001 - zlib.error and its like differ between Python versions
            self._note(name, f"damaged: {type(error).__name__}: {error}")
        return None

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the sorted names of the folders directly below `name`."""
        return tuple(sorted(self._children.get(name, (set(), set()))[0]))

    def files(self, name: str) -> tuple[str, ...]:
        """Return the sorted names of the files directly below `name`."""
        return tuple(sorted(self._children.get(name, (set(), set()))[1]))

    def sources(self, name: str, skip: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield every `.py` member below `name`, but for the files and folders in `skip`."""
        for member in sorted(self.names):
            is_source = member.startswith(f"{name}/") and member.endswith(".py")
            if is_source and not any(f"{member}/".startswith(f"{skipped}/") for skipped in skip):
                yield member

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""
        return name in self.names or name in self._children

    def place(self, name: str, line: int | None = None, text: str = "") -> Place:
        """Return the wheel's path with the member behind it."""
        return Place(f"{fold_home(self.path)}/{name}", line, text.strip())

    def _note(self, name: str, reason: str) -> None:
        path = f"{fold_home(self.path)}/{name}" if name else fold_home(self.path)
        self._unread.setdefault(name, Unread(path, reason))


def _leaves(name: str) -> bool:
    """Tell whether a member's name leads out of the archive."""
    return name[:1] == "/" or (".." in name and ".." in name.split("/"))


class WheelDistribution(InstalledDistribution):
    """A wheel as a distribution: RECORD is what it will install, and what it lists is there."""

    def __init__(self, name: NormalizedName, version: Version, tags: frozenset[Tag], tree: WheelTree) -> None:
        super().__init__(name, str(version), tree.path.parent, tree.path)
        self.tree = tree
        self.wheel_tags = tags

    @property
    def metadata_path(self) -> str:
        """The wheel itself."""
        return fold_home(self.tree.path)

    @cached_property
    def installed_at(self) -> int | None:
        """Nothing is installed."""
        return None

    @cached_property
    def _info_folder(self) -> str | None:
        return next((name for name in self.tree.folders("") if name.endswith(".dist-info")), None)

    def has_file(self, name: str) -> bool:
        """Return whether the wheel has the file."""
        return name in self.tree.names

    def has_other_content(self, row: RecordRow) -> bool:
        """Two wheels are not written over each other before they are installed."""
        del row
        return False

    def _read(self, name: str) -> bytes | None:
        return self.tree.read_bytes(f"{self._info_folder}/{name}") if self._info_folder else None


def open_wheelhouse(folder: Path) -> tuple[list[WheelDistribution], list[str]]:
    """List the wheels of a folder by their names, without opening them.

    Returns the wheels, and notes on files that are not usable ("name: reason").

    Raises:
        OSError: the folder cannot be listed.
    """
    wheels: list[WheelDistribution] = []
    notes: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.name.endswith((".tar.gz", ".zip")):
            notes.append(f"{path.name}: a source distribution; what it builds cannot be known")
        if path.suffix != ".whl":
            continue
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            notes.append(f"{path.name}: not the name of a wheel")
            continue
        wheels.append(WheelDistribution(name, version, tags, WheelTree(path)))
    return wheels, notes


def choose_wheels(
    wheels: Iterable[WheelDistribution], python: str | None, architecture: str | None
) -> tuple[list[WheelDistribution], list[str]]:
    """Pick one wheel a distribution: the newest that the platform can install, as an installer would.

    Of the chain's packages that have wheels for other platforms alone, the newest of those is taken: its tags tell that
    it does not fit, which is another fault than a package that is not there.

    Returns the chosen wheels and notes on what was passed over.
    """
    chosen: dict[str, WheelDistribution] = {}
    others: dict[str, WheelDistribution] = {}
    notes: list[str] = []
    for wheel in sorted(wheels, key=lambda item: Version(item.version)):
        name = PurePosixPath(wheel.tree.path).name
        if not fits_platform(wheel.wheel_tags, python, architecture):
            notes.append(f"{name}: not for Python {python or '?'} on {architecture or '?'}")
            if wheel.name in CHAIN_DISTRIBUTIONS:
                others[wheel.name] = wheel
            continue
        previous = chosen.get(wheel.name)
        if previous and previous.version != wheel.version:
            notes.append(f"{previous.tree.path.name}: passed over for {wheel.version}")
        chosen[wheel.name] = wheel
    return list({**others, **chosen}.values()), notes


def fits_platform(tags: Iterable[Tag], python: str | None, architecture: str | None) -> bool:
    """Tell whether a wheel with these tags can be installed on Linux; what is not known does not exclude it."""
    digits = "".join(python.split(".")[:2]) if python else None
    for tag in tags:
        by_python = digits is None or tag.interpreter in (f"cp{digits}", "py3", f"py{digits}", "py2.py3")
        if not by_python and tag.abi == "abi3" and tag.interpreter.startswith("cp3"):
            by_python = int(tag.interpreter[2:]) <= int(digits or 0)
        by_machine = tag.platform == "any" or (
            "linux" in tag.platform and (architecture is None or tag.platform.endswith(architecture))
        )
        if by_python and by_machine:
            return True
    return False
