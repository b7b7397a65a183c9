"""Which distributions lie on a search path, which files they own, and whether those are there."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from flexdoctor.facts import Distribution, ModuleFolder, PackagesFacts, Shadow, Unread
from flexdoctor.frozen import dataclass
from flexdoctor.readers.trees import fold_home, read_regular

#: Modules whose owner and completeness the chain asks about.
CHAIN_MODULES = ("torch", "torch_npu", "triton")
#: Distributions whose metadata is read in full: the chain's own and those that are built against one torch.
CHAIN_DISTRIBUTIONS = ("torch", "torch-npu", "triton-ascend", "triton", "torchvision", "torchaudio")
#: Distributions that others ask for in ways that the chain minds.
_WANTED = ("triton", "diffusers")
_CHAIN_FOLDERS = tuple(f"{module}/".encode() for module in CHAIN_MODULES)
_CHAIN_FILE = re.compile(f"\n(?:{'|'.join(CHAIN_MODULES)})/".encode())
_HEADER_END = re.compile(rb"\n\r?\n")
_SAMPLE = 5
#: Above this size a file is compared by its recorded size alone: a compiled library of another build always differs
#: in size, and hashing hundreds of megabytes would cost more than the whole check.
MAX_HASHED_BYTES = 4 * 1024 * 1024
_METADATA_FOLDER = re.compile(r"(?P<name>.+?)(?:-(?P<version>[^-]+))?(?:-py[\d.]+)?\.(?:dist|egg)-info\Z")
_MAX_METADATA_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class RecordRow:
    """One file of a RECORD: name relative to site-packages, url-safe base64 of its SHA-256, size in bytes."""

    name: str
    sha256: str | None
    size: int | None


class InstalledDistribution:
    """A dist-info or egg-info folder, read lazily. Problems are collected in `unread`."""

    def __init__(self, name: str, version: str, site: Path, folder: Path) -> None:
        self.name = name
        self.version = version
        self.site = site
        self.folder = folder
        self._path = str(folder)
        self.unread: list[Unread] = []

    @property
    def metadata_path(self) -> str:
        """Where the metadata lies, home folded."""
        return fold_home(self._path)

    @cached_property
    def _record(self) -> bytes | None:
        return self._read("RECORD")

    @property
    def record_text(self) -> str | None:
        """The text of RECORD, or None when it is absent or unreadable (the latter is noted)."""
        return None if self._record is None else self._text("RECORD", self._record)

    @cached_property
    def listed_modules(self) -> frozenset[str]:
        """The modules of the chain below which RECORD lists files. The content of the many without any is not kept."""
        content = _plainly(self._record or b"")
        # One look tells that there is none, as with nearly all distributions.
        modules = CHAIN_MODULES if content.startswith(_CHAIN_FOLDERS) or _CHAIN_FILE.search(content) else ()
        found = frozenset(module for module in modules if _has_file_of(module, content))
        if not found and self.name not in CHAIN_DISTRIBUTIONS:
            if self._record and not self._record.isascii():
                self._text("RECORD", self._record)
            del self._record
        return found

    def rows_under(self, folder: str) -> tuple[RecordRow, ...]:
        """Return what RECORD lists below a top-level folder. Only those lines are parsed: torch has 12,000."""
        # A newline is found far faster than `^` is.
        lines = re.findall(rf"\n(\"?{re.escape(folder)}[/\\\\][^\n]*)", f"\n{self.record_text or ''}")
        return tuple(_parse_record(lines))

    @property
    def all_rows(self) -> tuple[RecordRow, ...]:
        """Everything that RECORD lists. Parsing it whole takes long for torch; only a treatment needs it."""
        return tuple(_parse_record((self.record_text or "").splitlines()))

    @property
    def shallow_names(self) -> list[str]:
        """The files that RECORD lists in the first two levels: enough to tell whether an installation broke off."""
        # Digests are written without slashes, so those of a line are its name's: a tenth of torch's lines is parsed.
        lines = [line for line in (self._record or b"").split(b"\n") if line.count(b"/") < 3]
        rows = _record_rows(self._text("RECORD", b"\n".join(lines)).split("\n"))
        return [row[0].replace("\\", "/") for row in rows if len(row) > 1]

    @cached_property
    def metadata_header(self) -> str:
        """The metadata without the description."""
        content = self._read("METADATA") or self._read("PKG-INFO") or b""
        end = _HEADER_END.search(content)
        return self._text("METADATA", content[: end.start()] if end else content)

    def note_absent_metadata(self) -> None:
        """Note a folder of metadata without its main file, as an uninstall that broke off leaves it."""
        if not self.metadata_header and self.folder.is_dir():
            self._note("METADATA", "absent or empty")

    @cached_property
    def requires(self) -> tuple[str, ...]:
        """Requires-Dist of the metadata, as written."""
        unfolded = re.sub(r"\r?\n[ \t]+", " ", self.metadata_header)
        return tuple(re.findall(r"^Requires-Dist:[ \t]*(.*\S)", unfolded, re.MULTILINE | re.IGNORECASE))

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Tag lines of WHEEL."""
        return tuple(re.findall(r"^Tag:\s*(\S+)", self._text("WHEEL", self._read("WHEEL") or b""), re.MULTILINE))

    @cached_property
    def wanted(self) -> frozenset[str]:
        """Which of those that the chain minds the metadata mentions. The text of the many others is not kept."""
        found = frozenset(name for name in _WANTED if name in self.metadata_header)
        if not found and self.name not in CHAIN_DISTRIBUTIONS:
            del self.metadata_header
        return found

    @cached_property
    def installed_at(self) -> int | None:
        """When RECORD was written, in seconds since the epoch."""
        try:
            return int((self.folder / "RECORD").stat().st_mtime)
        except OSError:
            return None

    @property
    def is_editable(self) -> bool:
        """Whether direct_url.json says that this is an editable install (PEP 610)."""
        content = self._read("direct_url.json")
        if not content:
            return False
        import json  # noqa: PLC0415 - what comes from an index has no such file

        try:
            data = json.loads(content)
            return bool(data.get("dir_info", {}).get("editable"))
        except (ValueError, AttributeError):
            return False

    @property
    def record(self) -> str:
        """How RECORD is: present, absent or unreadable."""
        if self._record is not None:
            return "present"
        return "unreadable" if any(item.path.endswith("RECORD") for item in self.unread) else "absent"

    def has_file(self, name: str) -> bool:
        """Return whether a file of RECORD is there."""
        try:
            return os.path.exists(f"{self.site}/{name}")  # noqa: PTH110 - asked thousands of times
        except (OSError, ValueError):
            return False

    def has_other_content(self, row: RecordRow) -> bool:
        """Return whether a file that is there is not the one that RECORD describes; False when that cannot be told."""
        path = self.site / row.name
        try:
            size = path.stat().st_size
            if row.size is not None and size != row.size:
                return True
            if row.sha256 is None or size > MAX_HASHED_BYTES:
                return False
            # OpenSSL comes with it, and most environments have no file of two owners.
            import base64  # noqa: PLC0415
            import hashlib  # noqa: PLC0415

            digest = hashlib.sha256(path.read_bytes()).digest()
        except OSError:
            return False
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != row.sha256

    def _read(self, name: str) -> bytes | None:
        try:
            return read_regular(f"{self._path}/{name}", _MAX_METADATA_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._note(name, error.strerror or str(error))
            return None

    def _text(self, name: str, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError:
            self._note(name, "not UTF-8")
            return content.decode(errors="replace")

    def _note(self, name: str, reason: str) -> None:
        note = Unread(fold_home(f"{self._path}/{name}"), reason)
        if note not in self.unread:
            self.unread.append(note)


def _plainly(record: bytes) -> bytes:
    """Return a RECORD in which a name may stand in quotes, or with the slashes of Windows, as nearly all are."""
    if b'"' in record or b"\\" in record:
        return record.replace(b'"', b"").replace(b"\\", b"/")
    return record


def _has_file_of(module: str, record: bytes) -> bool:
    folder = f"{module}/".encode()
    return record.startswith(folder) or b"\n" + folder in record


def _record_rows(lines: Iterable[str]) -> Iterator[list[str]]:
    try:
        yield from (row for row in csv.reader(lines) if row and row[0])
    except csv.Error:
        return


def _parse_record(lines: Iterable[str]) -> Iterator[RecordRow]:
    for row in _record_rows(lines):
        digest = row[1].removeprefix("sha256=") if len(row) > 1 and row[1].startswith("sha256=") else None
        size = int(row[2]) if len(row) > 2 and row[2].isdigit() else None
        yield RecordRow(row[0].replace("\\", "/"), digest, size)


def find_distributions(search_path: Iterable[Path]) -> tuple[list[InstalledDistribution], list[Unread]]:
    """List the distributions on a search path by the names of their metadata folders, without opening them."""
    found, unread = [], []
    for site in search_path:
        try:
            names = sorted(entry.name for entry in os.scandir(site) if entry.name.endswith((".dist-info", ".egg-info")))
        except OSError as error:
            unread.append(Unread(fold_home(site), error.strerror or str(error)))
            continue
        for name in names:
            if name.startswith("~"):
                continue  # pip's name for what it is about to delete
            match = _METADATA_FOLDER.match(name)
            if match:
                found.append(
                    InstalledDistribution(canonicalize_name(match["name"]), match["version"] or "", site, site / name)
                )
    return found, unread


def true_first(
    distributions: Iterable[InstalledDistribution], versions: Mapping[str, str]
) -> list[InstalledDistribution]:
    """Put what an older installation left of its metadata behind the metadata of the files that are there.

    Args:
        distributions: those of a search path.
        versions: what the files of a package call their version, by the package's name. Where they do not tell, the
            RECORD that was written last counts.
    """
    by_place: dict[tuple[Path, str], list[InstalledDistribution]] = {}
    for item in distributions:
        by_place.setdefault((item.site, item.name), []).append(item)

    def is_left_over(item: InstalledDistribution) -> bool:
        return item.name in versions and _public(item.version) != _public(versions[item.name])

    for items in by_place.values():
        if len(items) > 1:
            items.sort(key=lambda item: (is_left_over(item), -(item.installed_at or 0)))
    return [item for items in by_place.values() for item in items]


def _public(version: str) -> str:
    return version.partition("+")[0]


def top_level_modules(search_path: Iterable[Path]) -> frozenset[str]:
    """Return the names that `import` finds at the top of a search path."""
    names = set[str]()
    for site in search_path:
        try:
            entries = list(os.scandir(site))
        except OSError:
            continue
        for entry in entries:
            stem, dot, ending = entry.name.partition(".")
            if not dot or ending == "py" or ending.endswith(("so", "pyd")):
                names.add(stem)
    return frozenset(names)


def read_packages(
    search_path: Sequence[Path],
    distributions: Sequence[InstalledDistribution],
    shadows: tuple[Shadow, ...] = (),
    unread: Sequence[Unread] = (),
) -> PackagesFacts:
    """Return what is installed on `search_path`."""
    chain_folders = tuple(_folder(module, search_path, distributions) for module in CHAIN_MODULES)
    facts = tuple(describe(item) for item in distributions)
    return PackagesFacts(
        distributions=facts,
        folders=tuple(folder for folder in chain_folders if folder),
        shadows=shadows,
        triton_wanted_by=tuple(wanting_triton(distributions)),
        unread=(*unread, *(note for item in distributions for note in item.unread)),
    )


def describe(item: InstalledDistribution) -> Distribution:
    """Return the facts of one distribution; those of the chain in full."""
    if item.name not in CHAIN_DISTRIBUTIONS:
        return Distribution(item.name, item.version, item.metadata_path)
    # Only files inside site-packages: scripts and data files are allowed to be elsewhere. A name that could not be
    # decoded cannot be looked for.
    files = [name for name in item.shallow_names if not name.startswith(("/", "..")) and not name.endswith(".pyc")]
    files = [name for name in files if "\N{REPLACEMENT CHARACTER}" not in name]
    missing = [name for name in files if not item.has_file(name)]
    item.note_absent_metadata()
    return Distribution(
        name=item.name,
        version=item.version or _version_in(item),
        metadata_path=item.metadata_path,
        requires=item.requires,
        tags=item.tags,
        record=item.record,  # type: ignore[arg-type]
        recorded_files=len(files),
        missing_files=tuple(missing[:_SAMPLE]),
        missing_count=len(missing),
        is_editable=item.is_editable,
    )


def _version_in(item: InstalledDistribution) -> str:
    match = re.search(r"^Version:\s*(\S+)", item.metadata_header, re.MULTILINE)
    return match[1] if match else ""


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def is_leftover_folder(path: Path) -> bool:
    """Tell whether a module's folder has nothing that makes it a package; False when it cannot be looked into."""
    try:
        return not any(name.startswith("__init__.") for name in os.listdir(path))  # noqa: PTH208 - names are enough
    except OSError:
        return False


def owners_of(module: str, distributions: Iterable[InstalledDistribution]) -> list[InstalledDistribution]:
    """Return the distributions whose RECORD lists files under the top-level folder `module`, one of the chain."""
    return [item for item in distributions if module in item.listed_modules]


def _folder(
    module: str, search_path: Iterable[Path], distributions: Sequence[InstalledDistribution]
) -> ModuleFolder | None:
    for site in search_path:
        path = site / module
        if _is_there(path):
            here = [item for item in distributions if item.site == site]
            owners = tuple(item.name for item in owners_of(module, here))
            return ModuleFolder(module, fold_home(path), owners, _is_there(path / "__init__.py"))
    return None


def wanting_triton(distributions: Iterable[InstalledDistribution]) -> Iterator[str]:
    """Yield what will bring upstream triton back with its next install. Markers are kept as written."""
    for item in distributions:
        if item.name in ("triton", "triton-ascend") or "triton" not in item.wanted:
            continue
        for line in item.requires:
            if "triton" not in line.lower():
                continue
            try:
                requirement = Requirement(line)
            except InvalidRequirement:
                continue
            if canonicalize_name(requirement.name) == "triton" and "extra" not in str(requirement.marker or ""):
                yield f"{item.name} {item.version}: {line}"


def find_shadows(search_path: Sequence[Path], working_directory: Path | None, python_path: str) -> tuple[Shadow, ...]:
    """Find modules of the chain that Python would take from the working directory or PYTHONPATH instead."""
    places = [(working_directory, "working directory")] if working_directory else []
    places += [(Path(entry), "PYTHONPATH") for entry in python_path.split(os.pathsep) if entry]
    known = {_resolved(site) for site in search_path}
    found = []
    for folder, via in places:
        if _resolved(folder) in known:
            continue
        for module in CHAIN_MODULES:
            for candidate in (folder / module, folder / f"{module}.py"):
                if _is_module(candidate):
                    found.append(Shadow(module, fold_home(candidate), via))  # type: ignore[arg-type]
    return tuple(found)


def _is_module(path: Path) -> bool:
    # A folder without any Python file (data, a checkout's parent) is at most a namespace package, which loses
    # against a regular package further down the path.
    return path.is_file() if path.suffix == ".py" else _is_there(path / "__init__.py")


def _resolved(path: Path) -> str:
    return os.path.realpath(path)
