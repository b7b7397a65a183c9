"""CANN's lines: versions and their spellings, published pairs, proven breaks, Python needs, rules at import."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table

Package = Literal["torch-npu", "triton-ascend"]
_STAGES = {"alpha": 0, "a": 0, "beta": 1, "b": 1, "rc": 2}
_FINAL = 9


class CannVersion(NamedTuple):
    """A version of CANN, however its channel spells it: 9.1.0-beta.3, 9.1.0b3 and 9.1.0.beta.3 are one.

    `candidate` is the RC number of lines that ended with one (8.3.RC2): there it is no preview but the release.
    """

    major: int
    minor: int
    patch: int
    candidate: int
    stage: int
    number: int

    @property
    def line(self) -> str:
        """Return the line: major.minor, and the candidate with it where candidates are separate releases."""
        name = f"{self.major}.{self.minor}"
        if name in _separate_lines():
            return f"{name}.RC{self.candidate}" if self.candidate != _FINAL else f"{name}.{self.patch}"
        return name


@functools.cache
def parse_cann(text: str) -> CannVersion | None:
    """Return the version that `text` spells, or None."""
    match = re.fullmatch(r"(?:cann-|v)?(\d+)\.(\d+)(?:\.(\d+))?(.*)", text.strip().lower())
    if match is None:
        return None
    major, minor, patch, rest = match.groups()
    candidate, stage, number = _FINAL, _FINAL, 0
    for name, digits in re.findall(r"(alpha|beta|rc|a|b)[.\-]?(\d+)", rest):
        if name == "rc" and patch is None:
            candidate = int(digits)
        else:
            stage, number = _STAGES[name], int(digits)
    return CannVersion(int(major), int(minor), int(patch or 0), candidate, stage, number)


@functools.cache
def _table() -> dict[str, Any]:
    return load_table("cann")


@functools.cache
def _separate_lines() -> frozenset[str]:
    return frozenset(line for row in _table()["separate_candidates"] for line in row["lines"])


@dataclass(frozen=True)
class Pair:
    """A row of a published table."""

    version: str
    cann: str
    standing: str
    source: str
    date: datetime.date
    note: str = ""


@functools.cache
def pairs(package: Package) -> tuple[Pair, ...]:
    """Return every published row of `package`."""
    return tuple(
        Pair(row["version"], row["cann"], table["standing"], table["source"], table["date"], table.get("note", ""))
        for table in _table()[package.replace("-", "_")]
        for row in table["rows"]
    )


def _same_release(left: str, right: str) -> bool:
    """Whether two versions of a package are one release; a local part (`+git1234`) is the builder's own."""
    try:
        return Version(left).public == Version(right).public
    except InvalidVersion:
        return left == right


def rows_for(package: Package, version: str) -> tuple[Pair, ...]:
    """Return the rows that name this version of `package`."""
    return tuple(row for row in pairs(package) if _same_release(row.version, version))


def rows_for_cann(package: Package, cann: CannVersion) -> tuple[Pair, ...]:
    """Return the rows that name the line of `cann`."""
    return tuple(row for row in pairs(package) if (other := parse_cann(row.cann)) and other.line == cann.line)


def best(versions: Iterable[str]) -> str:
    """Return the newest of some versions, a candidate or development build only where there is nothing else."""
    return max(versions, key=lambda text: (not Version(text).is_prerelease, Version(text)))


@dataclass(frozen=True)
class Break:
    """A pair that was shown not to work."""

    package: str
    versions: str
    cann_line: str
    instead: str
    statement: str
    source: str
    date: datetime.date


def breaks(package: Package, version: str, cann: CannVersion) -> tuple[Break, ...]:
    """Return the proven breaks of this version of `package` with the line of `cann`."""
    rows = (Break(**row) for row in _table()["break"])
    return tuple(
        row
        for row in rows
        if row.package == package and row.cann_line == cann.line and _satisfies(version, row.versions)
    )


def extra_index(package: Package, version: str) -> str | None:
    """Return the index that has this version, when the default one does not."""
    rows = (row for row in _table()["extra_index"] if row["package"] == package)
    return next((str(row["index"]) for row in rows if _satisfies(version, row["versions"])), None)


def bundles_compiler(version: str) -> bool:
    """Whether this triton-ascend looks for a bishengir-compile of its own before PATH."""
    return any(_satisfies(version, row["versions"]) for row in _table()["bundled_compiler"])


def _satisfies(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(version).public, prereleases=True)
    except InvalidVersion:
        return False


@dataclass(frozen=True)
class Need:
    """A Python package that CANN's operator compiler needs."""

    name: str
    module: str
    level: Literal["imported", "documented", "unjudged"]
    source: str
    date: datetime.date


@functools.cache
def python_needs() -> tuple[Need, ...]:
    """Return the Python packages of CANN's operator compiler."""
    return tuple(
        Need(item["name"], item["module"], row["level"], row["source"], row["date"])
        for row in _table()["need"]
        for item in row["packages"]
    )


@dataclass(frozen=True)
class Bound:
    """An upper bound of a Python package under some lines of CANN."""

    package: str
    below: str
    until: str
    python_below: str
    source: str
    date: datetime.date
    since: str = ""


def bounds(cann: CannVersion, python: str | None) -> tuple[Bound, ...]:
    """Return the bounds that hold under `cann` for this Python (any, when it is not known)."""
    found = []
    for row in _table()["bound"]:
        values: Mapping[str, Any] = {("since" if key == "from" else key): value for key, value in row.items()}
        bound = Bound(**values)
        first, last = parse_cann(bound.since), parse_cann(bound.until)
        if (first and cann < first) or (last and cann > last):
            continue
        if python and _satisfies(python, f">={bound.python_below}"):
            continue
        found.append(bound)
    return tuple(found)


def exceeds(version: str, bound: Bound) -> bool:
    """Whether a version of a package lies at or above its bound; one that cannot be read does not."""
    return _satisfies(version, f">={bound.below}")


def requirement(package: str, cann: CannVersion | None, python: str | None) -> str:
    """Return what to ask pip for when `package` is missing: bounded where this CANN bounds it."""
    if cann is None:
        return package
    bound = next((item for item in bounds(cann, python) if item.package == package), None)
    if bound is not None:
        return f'"{package}<{bound.below}"'
    for row in _table()["pin"]:
        last = parse_cann(row["until"])
        if row["package"] == package and last and cann <= last:
            return f'"{package}{row["versions"]}"'
    return package


@dataclass(frozen=True)
class ImportRule:
    """Something that torch-npu asks of CANN when it is imported, and what it says if that does not hold."""

    asks: str
    raises: str
    source: str
    date: datetime.date


@functools.cache
def import_rules() -> dict[str, ImportRule]:
    """Return torch-npu's rules at import by what they ask, in its order."""
    return {row["asks"]: ImportRule(**row) for row in _table()["import_rule"]}


def torch_abi(torch: str) -> int | None:
    """Return the C++ ABI (0 or 1) that every Linux build of this torch has, or None where builds differ."""
    return next((int(row["abi"]) for row in _table()["cxx_abi"] if _satisfies(torch, row["torch"])), None)
