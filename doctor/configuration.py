"""What a project has settled: `[tool.flexdoctor]` of pyproject.toml, or flexdoctor.toml.

The nearest one counts: of the current folder, else of the first parent that has one, up to the root of the repository
(.git, .hg, .svn) or the home folder. In one folder flexdoctor.toml wins. Flags beat environment variables, and both
beat the file. What is a matter of taste or of one run (format, language, colour, output) is not settled there.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from flexdoctor.findings import CAPABILITIES, Capability, Waiver
from flexdoctor.tables import Key, Shape, TableError, hold, read_toml

OWN_FILE, SHARED_FILE = "flexdoctor.toml", "pyproject.toml"
_ROOTS = (".git", ".hg", ".svn")
#: The code of a finding, of our own or of somebody else's check.
CODE = r"^[A-Z]{2,5}\d{2,4}$"
#: Of the target options at most one may be given; the others say more about it.
TARGETS = ("python", "site-packages", "requirements", "wheels", "snapshot")
PLUGIN_SECONDS = 10.0

_PATH = Key("text", means="a path, relative to the folder of this file")
SHAPE = Shape(
    title="flexdoctor settings: flexdoctor.toml, or [tool.flexdoctor] of pyproject.toml",
    keys={
        "select": Key("texts", means="show only these codes, code prefixes or links"),
        "ignore": Key(
            "table",
            names=CODE,
            looks="a code like FD114",
            each=Key(
                "table",
                short="reason",
                keys={
                    "reason": Key("text", required=True, means="why it is accepted"),
                    "expires": Key("date", means="the last day on which it is accepted"),
                },
            ),
            means='a table of codes with the reason for each: ignore.FD114 = "why"',
        ),
        "fail-on": Key("text", choices=("error", "warning"), means="exit with 1 from this severity on"),
        "strict": Key("flag", means="exit with 3 when something is unknown"),
        "require": Key("text", choices=CAPABILITIES, means="what must work; decides which faults are errors"),
        "target": Key(
            "table",
            keys={
                **dict.fromkeys(TARGETS, _PATH),
                "root": _PATH,
                "env-file": _PATH,
                "platform": Key("text", means="for requirements and wheels: linux_aarch64 or linux_x86_64"),
                "python-version": Key("text", means="for requirements and wheels: the Python"),
            },
            means="what to examine where the command line names nothing",
        ),
        "knowledge": Key("texts", single=True, means="files with sets of packages of your own"),
        "plugins": Key("texts", means="checks of other distributions to run, by the name of their entry point"),
        "plugin-time-limit": Key("seconds", means="how long a check of a plugin may take, 10 by default"),
    },
    elsewhere={
        "tool": "in a file of flexdoctor alone the keys stand at the top, without [tool.flexdoctor]",
        "format": "use --format or FLEXDOCTOR_FORMAT",
        "output": "use --output",
        "lang": "use --lang or FLEXDOCTOR_LANG",
        "color": "use --color, NO_COLOR or FORCE_COLOR",
        "exit-zero": "use --exit-zero",
    },
)


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


def load(path: Path) -> Configuration:
    """Return what one file settles; any name but pyproject.toml is taken for a file of ours alone.

    Raises:
        TableError: it cannot be used.
    """
    document = read_toml(path) or {}
    if path.name == SHARED_FILE:
        table = _own_table(document, path)
        if table is None:
            raise TableError(f"{path} has no table [tool.flexdoctor]")
        return _settle(table, path, f"{path}: tool.flexdoctor")
    return _settle(document, path, str(path))


def find(start: Path | None = None) -> Configuration:
    """Return what the nearest file settles, looked for from `start` upwards.

    Raises:
        TableError: it cannot be used.
    """
    try:
        folder = (start or Path.cwd()).absolute()
    except OSError:
        return Configuration()  # the current folder is gone
    for place in _upwards(folder):
        own, shared = place / OWN_FILE, place / SHARED_FILE
        in_shared = _own_table(read_toml(shared, only_with="flexdoctor") or {}, shared) if shared.is_file() else None
        if own.exists() or own.is_symlink():
            found = load(own)
            return Configuration(**{**found.__dict__, "beside": shared if in_shared is not None else None})
        if in_shared is not None:
            return _settle(in_shared, shared, f"{shared}: tool.flexdoctor")
    return Configuration()


def _upwards(folder: Path) -> Iterator[Path]:
    try:
        home: Path | None = Path.home()
    except RuntimeError:
        home = None
    for place in (folder, *folder.parents):
        yield place
        if place == home or any((place / name).exists() for name in _ROOTS):
            return


def _own_table(document: dict[str, Any], path: Path) -> dict[str, Any] | None:
    tool = document.get("tool", {})
    if not isinstance(tool, dict) or "flexdoctor" not in tool:
        return None
    if not isinstance(tool["flexdoctor"], dict):
        raise TableError(f"{path}: tool.flexdoctor: expected a table")
    return tool["flexdoctor"]


def _settle(table: dict[str, Any], path: Path, where: str) -> Configuration:
    data = hold(table, SHAPE, where)
    target = data.get("target", {})
    _refuse_contradictions(target, f"{where}: target")
    folder = path.absolute().parent
    return Configuration(
        path=path,
        select=tuple(data.get("select", ())),
        waivers=tuple(
            Waiver(code, row["reason"].strip(), row.get("expires"), path=str(path))
            for code, row in data.get("ignore", {}).items()
        ),
        fail_on=data.get("fail-on"),
        strict=data.get("strict"),
        require=data.get("require"),
        target={
            name.replace("-", "_"): value if name in ("platform", "python-version") else _below(folder, value)
            for name, value in target.items()
        },
        knowledge=tuple(_below(folder, item) for item in data.get("knowledge", ())),
        plugins=tuple(dict.fromkeys(data.get("plugins", ()))),
        plugin_seconds=data.get("plugin-time-limit", PLUGIN_SECONDS),
    )


def _refuse_contradictions(target: dict[str, Any], where: str) -> None:
    named = [name for name in TARGETS if name in target]
    if len(named) > 1:
        raise TableError(f"{where}: {' and '.join(named)} are {len(named)} targets; name one")
    if target and not named:
        raise TableError(f"{where}: {next(iter(target))} goes with a target; there are {', '.join(TARGETS)}")
    if "root" in target and named != ["site-packages"]:
        raise TableError(f"{where}: root goes with site-packages")
    if "env-file" in target and "root" not in target:
        raise TableError(f"{where}: env-file goes with root")
    planned = named[:1] in (["requirements"], ["wheels"])
    if stray := next((name for name in ("platform", "python-version") if name in target and not planned), None):
        raise TableError(f"{where}: {stray} goes with requirements or wheels")
    if target.get("requirements") == "-":
        raise TableError(f"{where}: requirements: expected a path; only -r reads stdin")


def _below(folder: Path, path: str) -> Path:
    try:
        return folder / Path(path).expanduser()
    except RuntimeError:
        return folder / path


def today() -> datetime.date:
    """Return the day on which waivers are weighed."""
    return datetime.datetime.now(tz=datetime.timezone.utc).astimezone().date()
