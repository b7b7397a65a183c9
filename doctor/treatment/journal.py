"""The journal of a treatment, inside the prefix that it treats: what was begun, how far it came, what was kept.

An entry is a folder `<prefix>/.flexdoctor/journal/<id>`. Its log is append-only and flushed to disk before the event
that it announces; the state of an entry is what its last whole line says, so a kill at any moment leaves one of the
states below.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from flexdoctor import __version__
from flexdoctor.frozen import dataclass
from flexdoctor.serialise import DocumentError, from_json, to_json
from flexdoctor.text import Text
from flexdoctor.treatment.plan import Plan, TreatmentError

FOLDER = ".flexdoctor"
#: preparing: nothing was changed yet. interrupted: something may have been. done: applied and verified.
State = Literal["preparing", "interrupted", "done"]


@dataclass(frozen=True)
class Entry:
    """One treatment."""

    folder: Path

    @property
    def id(self) -> str:
        """How `flexdoctor undo` calls it: the moment at which it began, in UTC."""
        return self.folder.name

    @property
    def prefix(self) -> Path:
        """The environment that it belongs to, wherever that was moved to since."""
        return self.folder.parent.parent.parent

    @property
    def wheels(self) -> Path:
        """What was fetched, until the treatment is verified."""
        return self.folder / "wheels"

    @property
    def kept(self) -> Path:
        """What was replaced, at the same path as below the prefix."""
        return self.folder / "kept"

    @property
    def temporary(self) -> Path:
        """Where the installer may put what it moves away for the moment."""
        return self.folder / "tmp"

    @property
    def installer_log(self) -> Path:
        """What the installer said."""
        return self.folder / "installer.log"

    def note(self, event: str, **data: object) -> None:
        """Append one line to the log and flush it to the disk, before what it announces."""
        with (self.folder / "log.jsonl").open("ab") as log:
            log.write(b"\n" + json.dumps({"event": event, "at": _now().isoformat(), **data}).encode())
            log.flush()
            os.fsync(log.fileno())

    def events(self) -> list[dict[str, Any]]:
        """Return the log; a last line that was cut off by a kill does not count."""
        found = []
        for line in _read(self.folder / "log.jsonl").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [item for item in found if isinstance(item, dict)]

    @property
    def state(self) -> State:
        """How far it came."""
        names = [str(item.get("event")) for item in self.events()]
        if "ready" not in names:
            return "preparing"
        return "done" if names[-1] == "done" else "interrupted"

    def save(self, name: str, data: object) -> None:
        """Write one JSON file of the entry, whole or not at all."""
        write_whole(self.folder / name, json.dumps(data).encode())

    def load(self, name: str) -> Any:
        """Return the content of one JSON file of the entry.

        Raises:
            TreatmentError: it is not there or not JSON.
        """
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TreatmentError(
                Text(
                    "the journal entry {id} is damaged: {name}: {error}",
                    "修复记录 {id} 已损坏：{name}：{error}",
                ).format(id=self.id, name=name, error=error)
            ) from error

    def plan(self) -> Plan:
        """Return the plan that was applied.

        Raises:
            TreatmentError: the entry is damaged.
        """
        try:
            return from_json(Plan, self.load("plan.json"), f"{self.id}/plan.json")
        except DocumentError as error:
            raise TreatmentError(Text(str(error), str(error))) from error

    def discard(self) -> None:
        """Remove the entry, and the journal with it when it was the last: first by one rename, then at leisure."""
        grave = self.folder.with_name(f"{self.id}.gone")
        with contextlib.suppress(OSError):
            self.folder.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace a file in one step; its neighbour that is written first has a name that undo knows to be ours."""
    beside = path.with_name(f"{path.name}.flexdoctor-new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if mode is not None:
        beside.chmod(mode)
    beside.replace(path)


def begin(prefix: Path, plan: Plan, about: dict[str, object]) -> Entry:
    """Open an entry for `plan`."""
    journal = prefix / FOLDER / "journal"
    journal.mkdir(parents=True, exist_ok=True)
    stamp = _now().strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f".{number}" for number in range(1, 100))):
        entry = Entry(journal / f"{stamp}{suffix}")
        try:
            entry.folder.mkdir()
        except FileExistsError:
            continue
        for folder in (entry.wheels, entry.kept, entry.temporary):
            folder.mkdir()
        entry.save("plan.json", to_json(plan))
        entry.save("about.json", {"flexdoctor": __version__, "began": _now().isoformat(), **about})
        entry.note("begun")
        return entry
    raise TreatmentError(Text("cannot open a journal entry", "无法创建修复记录"))


def entries(prefix: Path) -> list[Entry]:
    """Return the entries of an environment, oldest first."""
    try:
        names = sorted(path.name for path in (prefix / FOLDER / "journal").iterdir() if path.is_dir())
    except OSError:
        return []
    return [Entry(prefix / FOLDER / "journal" / name) for name in names if not name.endswith(".gone")]


def interrupted(prefix: Path) -> Entry | None:
    """Return the treatment that was cut off after it began to change things, if there is one."""
    return next((entry for entry in entries(prefix) if entry.state == "interrupted"), None)


def sweep(prefix: Path) -> None:
    """Remove entries that were cut off before anything was changed, and remains of removed ones. Needs the lock."""
    for entry in entries(prefix):
        if entry.state == "preparing":
            entry.discard()
    for grave in (prefix / FOLDER / "journal").glob("*.gone"):
        shutil.rmtree(grave, ignore_errors=True)


@dataclass(frozen=True)
class Lock:
    """The right to change one environment. The installer inherits `handle`, so it holds the lock as long as it runs."""

    handle: int


@contextlib.contextmanager
def lock(prefix: Path) -> Iterator[Lock]:
    """Hold the lock of an environment.

    Raises:
        TreatmentError: another process holds it, or the prefix cannot be written.
    """
    folder = prefix / FOLDER
    path = folder / "lock"
    try:
        handle = _open_lock(path)
    except OSError as error:
        raise TreatmentError(
            Text("cannot write in {prefix}: {error}", "无法写入 {prefix}：{error}").format(
                prefix=prefix, error=error.strerror or error
            )
        ) from error
    if handle is None:
        raise TreatmentError(
            Text(
                "another flexdoctor (process {pid}), or an installer that it started, is changing {prefix}; "
                "nothing was done",
                "另一个 flexdoctor（进程 {pid}）或其启动的安装器正在修改 {prefix}；未做任何更改",
            ).format(pid=_read(path).strip() or "?", prefix=prefix)
        )
    try:
        os.truncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield Lock(handle)
    finally:
        # The file goes before the lock does, and whoever waits for it looks whether it is still the one on disk.
        if not entries(prefix):
            with contextlib.suppress(OSError):
                path.unlink()
                folder.rmdir()
        os.close(handle)


def _open_lock(path: Path) -> int | None:
    while True:
        path.parent.mkdir(exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # the holder before us has just removed the folder
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        try:
            if os.fstat(handle).st_ino == path.stat().st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)
