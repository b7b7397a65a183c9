"""pip and uv, as far as a treatment uses them: fetch pinned wheels, install what was fetched, uninstall.

Everything is fetched before anything is changed, one distribution at a time, each with the index options that it
needs; then only what was fetched is installed, without network and without dependencies.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol
from zipfile import BadZipFile, ZipFile

from packaging.metadata import parse_email
from packaging.utils import canonicalize_name

from flexdoctor.text import Text
from flexdoctor.treatment.journal import Entry, Lock
from flexdoctor.treatment.plan import TreatmentError
from flexdoctor.treatment.target import ISOLATED, Target

InstallerName = Literal["auto", "pip", "uv"]
#: Settings of the user that would send an installation elsewhere. Everything about indexes is left alone.
_REDIRECTING = re.compile(
    r"PYTHON(HOME|PATH|STARTUP|USERBASE|PYCACHEPREFIX)"
    r"|PIP_(USER|TARGET|PREFIX|ROOT|REQUIRE_VIRTUALENV|PYTHON|DRY_RUN|REPORT|LOG|NO_DEPS|REQUIREMENT|EDITABLE)"
    r"|PIP_(UPGRADE|FORCE_REINSTALL|IGNORE_INSTALLED|NO_BINARY|ONLY_BINARY|PRE|DEST|QUIET|VERBOSE)"
    r"|UV_(PYTHON|SYSTEM_PYTHON|BREAK_SYSTEM_PACKAGES|PROJECT_ENVIRONMENT|COMPILE_BYTECODE|DRY_RUN|TARGET|PREFIX)"
)


@dataclass(frozen=True)
class IndexOptions:
    """Where to fetch from, as given on the command line; what is not given is left to the user's configuration."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    #: Indexes of a company: for what needs one of them, the default index and those named here are not asked.
    exclusive: tuple[str, ...] = ()

    def arguments(self, extra: str = "") -> list[str]:
        """Return the options for one distribution; `extra` is the index that it alone needs."""
        if extra in self.exclusive and not self.no_index:
            return ["--index-url", extra, *(part for place in self.find_links for part in ("--find-links", place))]
        given = ["--index-url", self.index_url] if self.index_url else []
        for url in (*self.extra_index_urls, *([extra] if extra and not self.no_index else [])):
            given += ["--extra-index-url", url]
        for place in self.find_links:
            given += ["--find-links", place]
        return [*given, *(["--no-index"] if self.no_index else [])]


@dataclass(frozen=True)
class Fetched:
    """One distribution, fetched: what it will write, and what it asks for."""

    name: str
    version: str
    requires: tuple[str, ...]
    #: Paths below site-packages, paths below the scripts folder, paths below the prefix.
    files: tuple[str, ...]
    scripts: tuple[str, ...]
    data: tuple[str, ...]
    sha256: str = ""
    size: int = 0


class Installer(Protocol):
    """What a treatment asks of an installer."""

    def fetch(self, name: str, version: str, index: str) -> Fetched:
        """Fetch one pinned distribution, without its dependencies."""

    def resolve(self, requirements: Sequence[str], constraints: Sequence[str]) -> list[tuple[str, str]]:
        """Return the pins that `requirements` need beyond what is installed."""

    def install(self, name: str, version: str, index: str) -> None:
        """Install one distribution that was fetched, over whatever version is there."""

    def uninstall(self, name: str) -> None:
        """Uninstall one distribution."""


class InstallerError(TreatmentError):
    """An installer ended with an error."""


def choose(wanted: InstallerName, target: Target, entry: Entry, lock: Lock, options: IndexOptions) -> Installer:
    """Return the installer to use: pip where the environment has it, else uv.

    Raises:
        TreatmentError: neither is there.
    """
    uv = shutil.which("uv")
    if wanted == "pip" or (wanted == "auto" and target.has_pip):
        if not target.has_pip:
            raise TreatmentError(
                Text("{python} has no pip; use --installer uv", "{python} 没有 pip；请使用 --installer uv").format(
                    python=target.executable
                )
            )
        return Pip(target, entry, lock, options)
    if uv is None:
        raise TreatmentError(
            Text(
                "{python} has no pip and there is no uv on PATH; {python} -m ensurepip gives it one",
                "{python} 没有 pip，PATH 中也没有 uv；可用 {python} -m ensurepip 安装 pip",
            ).format(python=target.executable)
        )
    return Uv(uv, target, entry, lock, options)


def _environment(temporary: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not _REDIRECTING.fullmatch(name)}
    return {**kept, "TMPDIR": str(temporary), "PIP_USER": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def _run(
    command: Sequence[str], entry: Entry, lock: Lock, *, what: Text, environment: dict[str, str] | None = None
) -> str:
    """Run an installer; its output goes to the journal, and it holds our lock as long as it lives.

    Raises:
        InstallerError: it did not end well; the message ends with its last words.
    """
    with entry.installer_log.open("ab") as log:
        log.write(f"\n$ {_without_secrets(' '.join(command))}\n".encode())
        log.flush()
        start = log.tell()
        try:
            process = subprocess.Popen(  # noqa: S603 - pip of the target, or uv
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=entry.temporary,
                env=environment or _environment(entry.temporary),
                pass_fds=(lock.handle,),
            )
        except OSError as error:
            raise InstallerError(
                Text("{command} does not start: {error}", "{command} 无法启动：{error}").format(
                    command=command[0], error=error.strerror or error
                )
            ) from error
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
    with entry.installer_log.open("rb") as log:
        log.seek(start)
        said = log.read().decode("utf-8", errors="replace")
    if code:
        raise InstallerError(
            what
            + Text("failed ({how}): {said}.", "失败（{how}）：{said}。").format(
                how=f"exit code {code}" if code > 0 else f"signal {-code}", said=_last_words(said)
            )
        )
    return said


def _without_secrets(text: str) -> str:
    return re.sub(r"://[^/\s@]+@", "://***@", text)


def _last_words(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error|×|OSError|\w*Error)\b", line)]
    return _without_secrets(" | ".join((errors or lines)[-3:])[-600:]) or "it said nothing"


@dataclass(frozen=True)
class Pip:
    """pip of the environment itself."""

    target: Target
    entry: Entry
    lock: Lock
    options: IndexOptions

    def fetch(self, name: str, version: str, index: str) -> Fetched:
        """Download one wheel into the journal."""
        what = Text("fetching {pin}", "获取 {pin}").format(pin=f"{name}=={version}")
        arguments = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(self.entry.wheels)]
        self._pip([*arguments, *self.options.arguments(index), f"{name}=={version}"], what)
        wheel = _wheel_of(self.entry.wheels, name, version)
        if wheel is None:
            raise InstallerError(
                Text(
                    "pip said that it fetched {pin}, but it is not there", "pip 声称已获取 {pin}，但未找到文件"
                ).format(pin=f"{name}=={version}")
            )
        return read_wheel(wheel)

    def resolve(self, requirements: Sequence[str], constraints: Sequence[str]) -> list[tuple[str, str]]:
        """Ask pip what it would install, with everything installed held in place."""
        report, held = self.entry.folder / "resolution.json", self.entry.folder / "constraints.txt"
        held.write_text("".join(f"{line}\n" for line in constraints), encoding="utf-8")
        what = Text("finding dependencies ({names})", "解析依赖（{names}）").format(names=", ".join(requirements))
        arguments = ["install", "--dry-run", "--only-binary", ":all:", "--report", str(report), "-c", str(held)]
        self._pip([*arguments, *self.options.arguments(), *requirements], what)
        items = json.loads(report.read_text(encoding="utf-8"))["install"]
        return [(canonicalize_name(item["metadata"]["name"]), str(item["metadata"]["version"])) for item in items]

    def install(self, name: str, version: str, index: str) -> None:
        """Install a wheel of the journal; without network, configuration and dependencies."""
        what = Text("installing {pin}", "安装 {pin}").format(pin=f"{name}=={version}")
        arguments = ["--isolated", "install", "--no-index", "--find-links", str(self.entry.wheels), "--no-deps"]
        self._pip([*arguments, "--force-reinstall", "--no-warn-script-location", f"{name}=={version}"], what)

    def uninstall(self, name: str) -> None:
        """Uninstall; pip removes what RECORD lists."""
        what = Text("uninstalling {name}", "卸载 {name}").format(name=name)
        self._pip(["--isolated", "uninstall", "-y", name], what)

    def _pip(self, arguments: Iterable[str], what: Text) -> None:
        common = ["-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color"]
        command = [str(self.target.executable), *ISOLATED, *common, *arguments]
        _run(command, self.entry, self.lock, what=what)


def _wheel_of(folder: Path, name: str, version: str) -> Path | None:
    for path in sorted(folder.glob("*.whl")):
        parts = path.name.split("-")
        if canonicalize_name(parts[0]) == name and parts[1].partition("+")[0] == version.partition("+")[0]:
            return path
    return None


def read_wheel(path: Path) -> Fetched:
    """Return what a wheel holds and will write.

    Raises:
        InstallerError: it is not a wheel.
    """
    try:
        with ZipFile(path) as archive:
            names = [item.filename for item in archive.infolist() if not item.is_dir()]
            info = next(name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)).partition("/")[0]
            metadata = archive.read(f"{info}/METADATA").decode("utf-8", errors="replace")
            points = archive.read(f"{info}/entry_points.txt").decode() if f"{info}/entry_points.txt" in names else ""
    except (OSError, BadZipFile, StopIteration, KeyError, UnicodeDecodeError) as error:
        raise InstallerError(
            Text("{wheel} is not a wheel: {error}", "{wheel} 不是有效的 wheel：{error}").format(
                wheel=path.name, error=error or "no METADATA"
            )
        ) from error
    return _fetched(metadata, _places(names, info, points), _sha256(path), path.stat().st_size)


@dataclass(frozen=True)
class _Places:
    files: tuple[str, ...]
    scripts: tuple[str, ...]
    data: tuple[str, ...]


def _fetched(metadata: str, places: _Places, sha256: str = "", size: int = 0) -> Fetched:
    raw, _ = parse_email(metadata)
    return Fetched(
        name=canonicalize_name(raw.get("name", "")),
        version=raw.get("version", ""),
        requires=tuple(raw.get("requires_dist", [])),
        files=places.files,
        scripts=places.scripts,
        data=places.data,
        sha256=sha256,
        size=size,
    )


def _places(names: Iterable[str], info: str, points: str) -> _Places:
    """Sort the members of a wheel by where they go; pip adds INSTALLER, REQUESTED and RECORD to the dist-info."""
    data_root = f"{info.removesuffix('.dist-info')}.data/"
    files, scripts, data = (
        [f"{info}/{name}" for name in ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")],
        [],
        [],
    )
    for name in names:
        scheme, _, rest = name.removeprefix(data_root).partition("/")
        if not name.startswith(data_root):
            files.append(name)
        elif scheme in ("purelib", "platlib"):
            files.append(rest)
        elif scheme == "scripts":
            scripts.append(rest)
        elif scheme == "headers":
            data.append(f"include/{rest}")
        else:
            data.append(rest)
    section = ""
    for line in points.splitlines():
        if match := re.fullmatch(r"\s*\[(.+)\]\s*", line):
            section = match[1]
        elif section in ("console_scripts", "gui_scripts") and "=" in line:
            scripts.append(line.partition("=")[0].strip())
    return _Places(tuple(files), tuple(scripts), tuple(data))


def _sha256(path: Path) -> str:
    import hashlib  # noqa: PLC0415 - only a treatment needs it

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class Uv:
    """uv, for environments that have no pip. What it fetched lies in its cache; a copy shows what will be written."""

    uv: str
    target: Target
    entry: Entry
    lock: Lock
    options: IndexOptions

    def fetch(self, name: str, version: str, index: str) -> Fetched:
        """Install into a folder of the journal, which fills uv's cache and shows the files."""
        what = Text("fetching {pin}", "获取 {pin}").format(pin=f"{name}=={version}")
        stage = self.entry.wheels / f"{name}-{version}"
        arguments = ["--no-deps", "--only-binary", ":all:", "--target", str(stage), "--link-mode", "copy"]
        self._uv("install", [*arguments, *self.options.arguments(index), f"{name}=={version}"], what)
        return self._read_stage(stage, what)

    def resolve(self, requirements: Sequence[str], constraints: Sequence[str]) -> list[tuple[str, str]]:
        """Ask uv what it would install, with everything installed held in place."""
        held = self.entry.folder / "constraints.txt"
        held.write_text("".join(f"{line}\n" for line in constraints), encoding="utf-8")
        what = Text("finding dependencies ({names})", "解析依赖（{names}）").format(names=", ".join(requirements))
        arguments = ["--dry-run", "--only-binary", ":all:", "-c", str(held), *self.options.arguments()]
        said = self._uv("install", [*arguments, *requirements], what)
        found = re.findall(r"^ \+ (\S+)==(\S+)", said, re.MULTILINE)
        return [(canonicalize_name(name), version) for name, version in found]

    def install(self, name: str, version: str, index: str) -> None:
        """Install from uv's cache."""
        what = Text("installing {pin}", "安装 {pin}").format(pin=f"{name}=={version}")
        arguments = ["--no-deps", "--only-binary", ":all:", "--offline", "--reinstall-package", name]
        self._uv("install", [*arguments, *self.options.arguments(index), f"{name}=={version}"], what)

    def uninstall(self, name: str) -> None:
        """Uninstall; uv removes what RECORD lists."""
        self._uv("uninstall", [name], Text("uninstalling {name}", "卸载 {name}").format(name=name))

    def _uv(self, command: str, arguments: Iterable[str], what: Text) -> str:
        common = [self.uv, "pip", command, "--python", str(self.target.executable), "--color", "never", "--no-progress"]
        return _run([*common, *arguments], self.entry, self.lock, what=what)

    def _read_stage(self, stage: Path, what: Text) -> Fetched:
        try:
            (info,) = stage.glob("*.dist-info")
            metadata = (info / "METADATA").read_text(encoding="utf-8", errors="replace")
            rows = csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines())
            names = [row[0] for row in rows if row]
        except (OSError, ValueError, csv.Error) as error:
            raise InstallerError(what + Text(f"left nothing: {error}", f"没有结果：{error}")) from error
        scripts = [name.removeprefix("bin/") for name in names if name.startswith("bin/")]
        inside = [name for name in names if not name.startswith(("bin/", "share/", "etc/", "include/"))]
        data = [name for name in names if name not in inside and not name.startswith("bin/")]
        files = _places(inside, info.name, "").files
        return _fetched(metadata, _Places(files, tuple(scripts), tuple(data)))
