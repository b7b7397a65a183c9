"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`, which holds the old content or the new one at any moment.

    A symbolic link stays one, and an existing file keeps its mode and owner. Where a file cannot be replaced (a
    device, a pipe, a file that is mounted alone or that others hold by a second name), it is written in place.

    Raises:
        OSError: it cannot be written.
    """
    data = text.encode("utf-8", errors="backslashreplace")
    target = Path(os.path.realpath(path))
    try:
        old = path.stat()
    except FileNotFoundError:
        old = None
    if old is not None and not _is_replaceable(path, old):
        _write_in_place(path, data)
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, os.strerror(13), str(path))
    try:
        _replace(target, data, old)
    except PermissionError:
        # The folder is not ours, though the file may be.
        if old is None:
            raise
        _write_in_place(path, data)


def _is_replaceable(path: Path, old: os.stat_result) -> bool:
    """Tell whether another file may take the name: `/dev/stdout` is the stream, whatever it leads to."""
    streams = (os.sep + "dev" + os.sep, os.sep + "proc" + os.sep)
    names = [str(path.absolute())]
    if path.is_symlink():
        names.append(str(path.readlink()))
    return stat.S_ISREG(old.st_mode) and old.st_nlink == 1 and not any(name.startswith(streams) for name in names)


def _write_in_place(path: Path, data: bytes) -> None:
    is_stream = not stat.S_ISREG(path.stat().st_mode) or str(path.absolute()).startswith(("/dev/", "/proc/"))
    with path.open("ab" if is_stream else "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _replace(target: Path, data: bytes, old: os.stat_result | None) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", suffix=".part", dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if old is None:
            partial.chmod(0o666 & ~_umask())
        else:
            partial.chmod(stat.S_IMODE(old.st_mode))
            if (old.st_uid, old.st_gid) != (partial.stat().st_uid, partial.stat().st_gid):
                os.chown(partial, old.st_uid, old.st_gid)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
