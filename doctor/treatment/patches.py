"""Source patches: lines of one file, and only where the whole file is the one that the patch was written for."""

from __future__ import annotations

import functools
import stat
from collections.abc import Iterable
from pathlib import Path

from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table
from flexdoctor.text import Text
from flexdoctor.treatment.plan import SourcePatch, TreatmentError


@dataclass(frozen=True)
class PatchRow:
    """One row of knowledge/patches.toml."""

    name: str
    file: str
    release: str
    sha256: str
    line: int
    find: str
    replace: str
    #: More lines in which the same is replaced.
    also: tuple[int, ...] = ()


@functools.cache
def rows() -> tuple[PatchRow, ...]:
    """Return every known patch."""
    keys = PatchRow.__dataclass_fields__
    return tuple(
        PatchRow(
            **{key: row[key] for key in keys if key in row and key != "also"},
            name=name,
            file=table["file"],
            also=tuple(row.get("also", ())),
        )
        for name, table in load_table("patches")["patch"].items()
        for row in table["rows"]
    )


def patch_for(name: str, site: Path, release: str, *, replaced: bool = False) -> SourcePatch | None:
    """Return the patch for the file of one release, None when there is none that fits.

    Args:
        replaced: the file will be that release's only after an earlier step, so what is there now does not matter.
    """
    for row in rows():
        if row.name != name or row.release != release.partition("+")[0]:
            continue
        if replaced:
            head = f"--- a/{row.file}\n+++ b/{row.file}\n@@ -{row.line} +{row.line} @@\n"
            diff = f"{head}-{row.find}\n+{row.replace}\n"
            return SourcePatch(row.sha256, row.line, row.find, row.replace, diff, row.also)
        try:
            content = (site / row.file).read_bytes()
        except OSError:
            return None
        if _sha256(content) != row.sha256:
            return None
        return SourcePatch(row.sha256, row.line, row.find, row.replace, _diff(row, content), row.also)
    return None


def file_of(name: str) -> str:
    """Return which file the patch of that name changes, below site-packages."""
    file: str = load_table("patches")["patch"][name]["file"]
    return file


def _sha256(content: bytes) -> str:
    import hashlib  # noqa: PLC0415 - takes in OpenSSL, which only a patch needs

    return hashlib.sha256(content).hexdigest()


def _diff(row: PatchRow, content: bytes) -> str:
    import difflib  # noqa: PLC0415 - only where there is a patch

    old = content.decode("utf-8").splitlines(keepends=True)
    new = changed(content, row.line, row.find, row.replace, row.also).decode("utf-8").splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"a/{row.file}", f"b/{row.file}"))


def changed(content: bytes, line: int, find: str, replace: str, also: Iterable[int] = ()) -> bytes:
    """Return `content` with `find` replaced once in one line, and in those of `also`.

    Raises:
        TreatmentError: a line does not hold it exactly once.
    """
    lines = content.decode("utf-8").splitlines(keepends=True)
    for number in (line, *also):
        if number > len(lines) or lines[number - 1].count(find) != 1:
            raise TreatmentError(
                Text(
                    "line {line} is not the one that the patch was written for", "第 {line} 行与补丁所针对的内容不符"
                ).format(line=number)
            )
        lines[number - 1] = lines[number - 1].replace(find, replace)
    return "".join(lines).encode("utf-8")


def apply_patch(path: Path, patch: SourcePatch) -> None:
    """Change the file, whole or not at all.

    Raises:
        TreatmentError: it is not the file that the patch was written for.
    """
    content = path.read_bytes()
    if _sha256(content) != patch.sha256:
        raise TreatmentError(
            Text(
                "{path} is not the file that the patch was written for, so it is left alone",
                "{path} 不是补丁所针对的文件，保持不变",
            ).format(path=path)
        )
    mode = stat.S_IMODE(path.stat().st_mode)
    from flexdoctor.treatment.journal import write_whole  # noqa: PLC0415 - a check plans patches and applies none

    write_whole(path, changed(content, patch.line, patch.find, patch.replace, patch.also), mode)
