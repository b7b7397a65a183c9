"""Planned environments: requirements files, `pip freeze`, `pip list`, pylock.toml and uv.lock."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from packaging.markers import Marker
from packaging.pylock import Pylock, PylockValidationError
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from flexdoctor.places import Place
from flexdoctor.readers.trees import fold_home
from flexdoctor.text import Text, UserError, unreadable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 16 * 1024 * 1024
MAX_INCLUDES = 50
_TOO_LARGE = Text("{name} is too large to be a list of packages", "{name} 过大，不像软件包清单")


class LockError(UserError):
    """The file cannot be used as a list of packages."""


@dataclass(frozen=True)
class Platform:
    """The machine for which a plan is judged."""

    architecture: str = "aarch64"
    python: str = "3.11"
    #: Whether a person said so, or it is the common case of Ascend servers.
    is_stated: bool = False

    def environment(self) -> dict[str, str]:
        """Return the variables of environment markers for CPython on Linux."""
        full = self.python if self.python.count(".") > 1 else f"{self.python}.0"
        return {
            "implementation_name": "cpython",
            "implementation_version": full,
            "os_name": "posix",
            "platform_machine": self.architecture,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": full,
            "python_version": ".".join(self.python.split(".")[:2]),
            "sys_platform": "linux",
            "extra": "",
        }

    def wants(self, marker: Marker | None) -> bool:
        """Tell whether a requirement with this marker applies."""
        return marker is None or marker.evaluate(self.environment())


@dataclass(frozen=True)
class Planned:
    """One package of a plan. `version` is None when the plan does not settle it."""

    name: str
    version: str | None
    line: str
    #: Where it stands.
    at: Place | None = None


@dataclass
class Plan:
    """The packages of a plan in its order, and what could not be used, as "line: reason"."""

    packages: list[Planned] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_plan(path: Path | None, text: bytes | None, platform: Platform) -> Plan:
    """Return the packages that a file names for `platform`.

    Args:
        path: the file, or None for `text` from a pipe.

    Raises:
        LockError: the file cannot be read or is no list of packages.
    """
    content = _decode(text if text is not None else _read(path), path)
    name = path.name if path else "stdin"
    if name.endswith((".toml", ".lock")) or re.match(r"\s*(lock-version|version) *= *", content):
        plan = _read_toml(content, name, describe_source(path), platform)
    elif re.match(r"\s*Package\s+Version\b", content):
        plan = Plan(list(_read_pip_list(content, describe_source(path))))
    else:
        plan = Plan()
        _read_requirements(content, path, platform, plan, seen=set())
    if not plan.packages:
        note = f" ({plan.notes[0]})" if plan.notes else ""
        raise LockError(
            Text("{name} names no package{note}", "{name} 中没有任何软件包{note}").format(name=name, note=note)
        )
    return plan


def _read(path: Path | None) -> bytes:
    if path is None:
        raise LockError(Text("nothing to read", "没有可读取的内容"))
    try:
        if path.stat().st_size > MAX_BYTES:
            raise LockError(_TOO_LARGE.format(name=path))
        return path.read_bytes()
    except OSError as error:
        raise LockError(unreadable(path, error)) from error


def _decode(data: bytes, path: Path | None) -> str:
    """Decode as pip does: a byte order mark first, then UTF-8. PowerShell's `>` writes UTF-16."""
    if len(data) > MAX_BYTES:
        raise LockError(_TOO_LARGE.format(name=path or "stdin"))
    marks = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
    encoding = next((name for mark, name in marks.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        message = Text("{name} is not text in {encoding}", "{name} 不是 {encoding} 编码的文本")
        raise LockError(message.format(name=path or "stdin", encoding=encoding)) from error
    if "\0" in text:
        raise LockError(Text("{name} is not text", "{name} 不是文本文件").format(name=path or "stdin"))
    return text


def _read_requirements(content: str, path: Path | None, platform: Platform, plan: Plan, seen: set[str]) -> None:
    source = describe_source(path)
    raw = ["", *content.splitlines()]
    for number, line in _logical_lines(content):
        include = re.match(r"(?:-r|--requirement)[ =]?\s*(\S+)|(?:-c|--constraint)[ =]?\s*(\S+)", line)
        if include and include[1]:
            _include(include[1], path, platform, plan, seen)
        elif line.startswith("-"):
            _note_option(line, raw[number - 1], Place(source, number, _redact(line)), plan)
        else:
            _take(line, Place(source, number, _redact(line)), platform, plan)


def _logical_lines(content: str) -> Iterator[tuple[int, str]]:
    """Yield what stands on each line with its number; a line that a backslash continues is one with the next."""
    start, joined = 0, ""
    for number, raw in enumerate([*content.splitlines(), ""], 1):
        start = start if joined else number
        if raw.rstrip(" \t").endswith("\\"):
            joined += raw.rstrip(" \t")[:-1] + " "
            continue
        line = re.sub(r"(?:^|\s)#.*$", "", joined + raw).strip()
        joined = ""
        if line:
            yield start, line


def _include(name: str, path: Path | None, platform: Platform, plan: Plan, seen: set[str]) -> None:
    if path is None:
        plan.notes.append(f"-r {name}: an include cannot be followed from stdin")
        return
    included = (path.parent / name).resolve()
    if "://" in name or str(included) in seen or len(seen) > MAX_INCLUDES:
        plan.notes.append(f"-r {name}: not followed ({'a URL' if '://' in name else 'already read'})")
        return
    seen.add(str(included))
    try:
        content = _decode(_read(included), included)
    except LockError as error:
        plan.notes.append(f"-r {name}: {error}")
        return
    _read_requirements(content, included, platform, plan, seen)


def _note_option(line: str, above: str, at: Place, plan: Plan) -> None:
    option = line.split(maxsplit=1)[0].partition("=")[0]
    if option in ("-e", "--editable"):
        # `pip freeze` names what has no URL of version control in a comment of its own.
        name = re.search(r"[#&]egg=([\w.-]+)", line) or re.match(r"# Editable .*\(([\w.-]+)==[^()]*\)", above)
        if name:
            plan.packages.append(Planned(canonicalize_name(name[1]), None, _redact(line), at))
        plan.notes.append(f"{_redact(line)}: an editable install; its version is not pinned here")
    # Index options and the like change where packages come from, not which.


def _take(line: str, at: Place, platform: Platform, plan: Plan) -> None:
    text = re.split(r"\s--(?:hash|config-settings|global-option)\b", line)[0].strip()
    if "://" in text and " @ " not in text:
        _take_url(text, at, plan)
        return
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        if text.endswith(".whl"):
            _take_url(text, at, plan)
        else:
            plan.notes.append(f"{_redact(text)[:80]}: not a requirement")
        return
    if not platform.wants(requirement.marker):
        return
    name = canonicalize_name(requirement.name)
    if requirement.url:
        version = _wheel_version(requirement.url)
        plan.packages.append(Planned(name, version, _redact(text), at))
    else:
        plan.packages.append(Planned(name, _pinned(requirement.specifier), text, at))


def _take_url(text: str, at: Place, plan: Plan) -> None:
    try:
        name, version, _, _ = parse_wheel_filename(_file_of(text))
    except InvalidWheelFilename:
        plan.notes.append(f"{_redact(text)}: a URL; what it installs is not known")
        return
    plan.packages.append(Planned(name, str(version), _redact(text), at))


def _file_of(url: str) -> str:
    """Return the name of the file that a URL leads to; the `+` of a local version is written `%2B` there."""
    return unquote(url.split("#", maxsplit=1)[0].split("?", maxsplit=1)[0].rpartition("/")[2])


def _wheel_version(url: str) -> str | None:
    try:
        return str(parse_wheel_filename(_file_of(url))[1])
    except InvalidWheelFilename:
        return None


def _pinned(specifier: SpecifierSet) -> str | None:
    pins = [item.version for item in specifier if item.operator in ("==", "===") and not item.version.endswith(".*")]
    return pins[0] if len(pins) == 1 else None


def _redact(text: str) -> str:
    """Drop credentials from URLs."""
    return re.sub(r"://[^/\s@]*@", "://", text)


def _read_pip_list(content: str, source: str) -> Iterator[Planned]:
    for number, line in enumerate(content.splitlines(), 1):
        fields = line.split()
        if number > 1 and len(fields) >= 2 and not set(fields[0]) <= {"-"}:
            at = Place(source, number, line.strip())
            yield Planned(canonicalize_name(fields[0]), fields[1], line.strip(), at)


def _read_toml(content: str, name: str, source: str, platform: Platform) -> Plan:
    try:
        data = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        message = Text("{name} is not TOML: {why}", "{name} 不是有效的 TOML：{why}")
        raise LockError(message.format(name=name, why=error)) from error
    if "lock-version" in data:
        return _read_pylock(data, name, _pin_lines(content, "packages", source), platform)
    if isinstance(data.get("package"), list):
        return Plan(list(_read_uv_lock(data["package"], _pin_lines(content, "package", source))))
    raise LockError(
        Text(
            "{name} is neither a pylock.toml nor a uv.lock; other lists are read line by line, as *.txt",
            "{name} 既不是 pylock.toml 也不是 uv.lock；其他清单请用 .txt，每行一个软件包",
        ).format(name=name)
    )


def _pin_lines(content: str, table: str, source: str) -> list[Place]:
    """Return where each `[[table]]` states its version, else its name, in their order."""
    places: list[Place] = []
    is_inside = has_version = False
    for number, line in enumerate(content.split("\n"), 1):
        text = line.strip()
        if text.startswith("["):
            is_inside = re.match(rf"\[\[\s*{table}\s*\]\]", text) is not None
            has_version = False
            if is_inside:
                places.append(Place(source, number, text))
        elif is_inside and not has_version and (key := re.match(r"(name|version)\s*=", text)):
            has_version = key[1] == "version"
            places[-1] = Place(source, number, text)
    return places


def _place_of(number: int, packages: Sequence[object], places: Sequence[Place]) -> Place | None:
    """Return the place of a package. Tables that are written in another way than usual leave it open."""
    return places[number] if len(places) == len(packages) else None


def _read_pylock(data: Mapping[str, Any], name: str, places: Sequence[Place], platform: Platform) -> Plan:
    try:
        lock = Pylock.from_dict(data)
    except PylockValidationError as error:
        message = Text("{name} is not a valid pylock.toml: {why}", "{name} 不是有效的 pylock.toml：{why}")
        raise LockError(message.format(name=name, why=error)) from error
    return Plan(
        [
            Planned(
                package.name,
                str(package.version) if package.version else None,
                package.name,
                _place_of(number, lock.packages, places),
            )
            for number, package in enumerate(lock.packages)
            if platform.wants(package.marker)
        ]
    )


def _read_uv_lock(packages: list[Any], places: Sequence[Place]) -> Iterator[Planned]:
    for number, package in enumerate(packages):
        if not isinstance(package, dict) or not isinstance(package.get("name"), str):
            continue
        source = package.get("source", {})
        if isinstance(source, dict) and {"editable", "virtual"} & set(source):
            continue  # the project itself
        version = package.get("version")
        yield Planned(
            canonicalize_name(package["name"]),
            version if isinstance(version, str) else None,
            package["name"],
            _place_of(number, packages, places),
        )


def describe_source(path: Path | None) -> str:
    """Return how to call the source of a plan."""
    return "stdin" if path is None else fold_home(path)
