"""The ELF comparison (`--deep`): every symbol that torch-npu's libraries need, against what is installed to offer it.

Nothing is loaded or run. The libraries are linked with BIND_NOW and Python loads them with RTLD_NOW, so one symbol
that nobody exports is an ImportError, whichever it is. pyelftools reads the files; it comes with the extra `deep`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flexdoctor.facts import CannInstallation, LinkageFacts, SymbolGap, Unread
from flexdoctor.readers.rooted import Root
from flexdoctor.readers.toolchain import LIBRARY_FOLDERS
from flexdoctor.readers.trees import fold_home

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

#: Loaded by `import torch_npu`; libop_plugin_atb.so is not, it waits for its first operator.
_ROOTS = ("lib/libtorch_npu.so", "lib/libnpu_profiler.so")
_TORCH_LIBRARIES = ("libtorch_cpu.so", "libc10.so", "libtorch_python.so", "libtorch.so")
#: The C library, the compiler's and the loader: their symbols carry versions and are the wheel tag's matter.
_SYSTEM = re.compile(
    r"(lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s|gomp|atomic|z)\.so(\.\d+)*|ld-linux.*|linux-vdso.*)$"
)
#: What every Python process has loaded. Some references to it carry no version (dlopen, pthread_create), so its
#: symbols are looked up like all others.
_LOADED_ANYWAY = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "libgcc_s.so.1",
)
#: The driver's libraries: CANN needs them, torch-npu takes nothing from them, a build container has none.
_DRIVER = re.compile(r"lib(ascend_hal|c_sec|mmpa|drv\w*|dcmi|devmmap|slog|alog|unified_dlog|error_manager)\.so")
#: Mangled names that speak of torch's namespaces anywhere; CANN knows nothing of torch.
_OF_TORCH = re.compile(r"_Z\w*N[VrKR]*(2at|3c10|5torch|6caffe2)|THP|torch_")
#: torch-npu's own: what it lacks of itself is neither torch's nor CANN's doing.
_OF_TORCH_NPU = re.compile(r"_Z(T[ISTV]|GV)?N?[VrKR]*(9torch_npu|7c10_npu|6at_npu|9op_plugin)")
_OF_PYTHON = re.compile(r"_?Py[A-Z_]")
_SHOWN_GAPS = 12


class ReaderMissingError(Exception):
    """pyelftools is not installed."""


def require_reader() -> None:
    """Make sure that the ELF reader is there.

    Raises:
        ReaderMissingError: it is not.
    """
    import importlib.util  # noqa: PLC0415 - only for --deep

    if importlib.util.find_spec("elftools") is None:
        raise ReaderMissingError


@dataclass
class _Library:
    """An opened library: what it needs, and a way to ask for one of its symbols."""

    name: str
    path: str
    elf: ELFFile
    needed: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    _hash: Any = None
    _names: frozenset[str] | None = None

    def exports(self, symbol: str) -> bool:
        """Return whether the library defines `symbol` for others."""
        if self._hash is None and self._names is None:
            self._index()
        if self._names is not None:
            return symbol in self._names
        found = self._hash.get_symbol(symbol)
        return found is not None and found["st_shndx"] != "SHN_UNDEF"

    def _index(self) -> None:
        for name in (".gnu.hash", ".hash"):
            section = self.elf.get_section_by_name(name)
            if section is not None and hasattr(section, "get_symbol"):
                self._hash = section
                return
        symbols = _symbol_table(self.elf)
        self._names = frozenset(
            item.name for item in (symbols.iter_symbols() if symbols else ()) if item["st_shndx"] != "SHN_UNDEF"
        )


def read_linkage(
    torch: Path | None, torch_npu: Path | None, cann: Sequence[CannInstallation], library_path: str, root: Root
) -> LinkageFacts | None:
    """Compare; None when there is no torch-npu to compare.

    Args:
        torch: the folder of the torch package.
        torch_npu: the folder of the torch_npu package.
        cann: the installed toolkits, the one in use first.
        library_path: the value of LD_LIBRARY_PATH.
        root: where system paths are looked up.
    """
    if torch_npu is None:
        return None
    starts = [torch_npu / name for name in _ROOTS] + sorted(torch_npu.glob("_C*.so"))
    starts = [path for path in starts if path.is_file()]
    if not starts:
        return LinkageFacts(unread=(Unread(fold_home(torch_npu / _ROOTS[0]), "no such file"),))
    return _Comparison(torch, torch_npu, cann, library_path, root).run(starts)


class _Comparison:
    def __init__(
        self, torch: Path | None, torch_npu: Path, cann: Sequence[CannInstallation], library_path: str, root: Root
    ) -> None:
        self.unread: dict[str, Unread] = {}
        self.files: list[Any] = []
        self.torch_folder = torch / "lib" if torch else None
        own = [torch_npu / "lib", torch_npu]
        self.package_folders = [str(item) for item in [*([self.torch_folder] if self.torch_folder else []), *own]]
        searched = [part for part in library_path.split(":") if part.startswith("/")]
        # A toolkit that is installed and not sourced still answers whether it would fit.
        toolkits = [f"{Path(item.path).expanduser()}/lib64" for item in cann[:1]]
        self.root = root
        self.system_folders = [root.host(part) for part in [*searched, *toolkits] if not part.endswith("/devlib")]

    def run(self, starts: list[Path]) -> LinkageFacts:
        try:
            return self._compare(starts)
        finally:
            for file in self.files:
                file.close()

    def _compare(self, starts: list[Path]) -> LinkageFacts:
        patients = [library for path in starts if (library := self._open(path.name, str(path)))]
        scope, absent = self._closure(patients)
        offered = [*scope.values(), *self._rest_of_torch(scope), *self._system()]
        torch_complete = all(name in scope for name in _TORCH_LIBRARIES)
        needed, gaps = 0, []
        for library in patients:
            for symbol in self._undefined(library):
                needed += 1
                side: Literal["torch", "cann"] = "torch" if _OF_TORCH.match(symbol) else "cann"
                judged = torch_complete if side == "torch" else torch_complete and not absent
                if judged and not any(self._offers(item, symbol) for item in offered):
                    gaps.append(SymbolGap(symbol, fold_home(library.path), side))
        unique = {gap.symbol: gap for gap in reversed(gaps)}
        ordered = sorted(unique.values(), key=lambda gap: (gap.side != "torch", gap.symbol))
        return LinkageFacts(
            libraries=tuple(fold_home(item.path) for item in patients),
            found={name: fold_home(item.path) for name, item in scope.items() if item not in patients},
            absent=tuple(absent),
            needed_symbols=needed,
            missing=dict(Counter(gap.side for gap in ordered)),
            gaps=tuple(_sample(ordered)),
            unread=tuple(self.unread.values()),
        )

    def _offers(self, library: _Library, symbol: str) -> bool:
        """Return whether a library exports a symbol; one that cannot be read is given the benefit of the doubt."""
        try:
            return library.exports(symbol)
        except _broken() as error:
            self._note(library.path, f"symbols cannot be read: {error}")
            return True

    def _note(self, path: str, reason: str) -> None:
        self.unread.setdefault(path, Unread(fold_home(path), reason))

    def _closure(self, patients: list[_Library]) -> tuple[dict[str, _Library], list[str]]:
        """Return the libraries that the loader would bring in, and the names that it would not find."""
        scope: dict[str, _Library] = {}
        absent: list[str] = []
        queue = list(patients)
        while queue:
            library = queue.pop(0)
            if scope.setdefault(library.name, library) is not library or self._is_torch(library.path):
                continue  # torch finds its own
            for name in library.needed:
                if _SYSTEM.match(name) or name in scope or name in absent:
                    continue
                path = self._locate(name, library)
                if path and (opened := self._open(name, path)):
                    queue.append(opened)
                elif not _DRIVER.match(name):
                    absent.append(name)
        return scope, absent

    def _is_torch(self, path: str) -> bool:
        return self.torch_folder is not None and path.startswith(f"{self.torch_folder}/")

    def _rest_of_torch(self, scope: dict[str, _Library]) -> Iterator[_Library]:
        """Yield what else `import torch` has loaded by then."""
        if self.torch_folder is None:
            return
        for path in sorted(self.torch_folder.glob("lib*.so")):
            if path.name not in scope and (library := self._open(path.name, str(path))):
                yield library

    def _system(self) -> Iterator[_Library]:
        """Yield the system's libraries; an image without any has the names of this machine's."""
        for name in _LOADED_ANYWAY:
            inside = self.root.first(f"{folder}/{name}" for folder in LIBRARY_FOLDERS)
            here = next((f"{item}/{name}" for item in LIBRARY_FOLDERS if os.path.isfile(f"{item}/{name}")), None)  # noqa: PTH113
            opened = self._open(name, self.root.host(inside), note=False) if inside else None
            opened = opened or (self._open(name, here, note=False) if here else None)
            if opened:
                yield opened

    def _locate(self, name: str, library: _Library) -> str | None:
        for folder in [*library.folders, *self.package_folders, *self.system_folders]:
            path = f"{folder}/{name}"
            if os.path.isfile(path):  # noqa: PTH113 - many candidates, all strings
                return path
        return None

    def _open(self, name: str, path: str, *, note: bool = True) -> _Library | None:
        from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - only for --deep

        try:
            file = open(path, "rb")  # noqa: PTH123, SIM115 - stays open while symbols are looked up
            self.files.append(file)
            elf = ELFFile(file)
            needed, folders = _dynamic(elf, str(Path(path).parent))
        except OSError as error:
            reason = error.strerror or str(error)
        except _broken() as error:
            reason = f"not a readable ELF file: {error}"
        else:
            return _Library(name, path, elf, needed, folders)
        if note:
            self._note(path, reason)
        return None

    def _undefined(self, library: _Library) -> list[str]:
        try:
            return list(_undefined_symbols(library.elf))
        except _broken() as error:
            self._note(library.path, f"symbols cannot be read: {error}")
            return []


def _broken() -> tuple[type[Exception], ...]:
    """Return what pyelftools raises for files that are not what they say."""
    from elftools.common.exceptions import ELFError  # noqa: PLC0415
    from elftools.construct import ConstructError  # noqa: PLC0415

    arithmetic = (ArithmeticError, MemoryError, RecursionError)
    return (ELFError, ConstructError, ValueError, LookupError, AttributeError, TypeError, AssertionError, *arithmetic)


def _sample(gaps: Iterable[SymbolGap]) -> Iterator[SymbolGap]:
    counts: Counter[str] = Counter()
    for gap in gaps:
        counts[gap.side] += 1
        if counts[gap.side] <= _SHOWN_GAPS:
            yield gap


def _symbol_table(elf: ELFFile) -> Any:
    """Return the dynamic symbols, from the section or, in a file stripped of sections, from the segment."""
    section = elf.get_section_by_name(".dynsym")
    if section is not None:
        return section
    return next((item for item in elf.iter_segments() if item.header.p_type == "PT_DYNAMIC"), None)


def _dynamic(elf: ELFFile, origin: str) -> tuple[list[str], list[str]]:
    needed, folders = [], []
    for segment in elf.iter_segments():
        if segment.header.p_type != "PT_DYNAMIC":
            continue
        tags: Any = segment
        for tag in tags.iter_tags():
            if tag.entry.d_tag == "DT_NEEDED":
                needed.append(tag.needed)
            elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                text = tag.rpath if tag.entry.d_tag == "DT_RPATH" else tag.runpath
                parts = text.replace("${ORIGIN}", origin).replace("$ORIGIN", origin).split(":")
                folders += [os.path.normpath(part) for part in parts if part.startswith("/")]
    return needed, folders


def _undefined_symbols(elf: ELFFile) -> Iterator[str]:
    """Yield the symbols that must be found elsewhere at load, without those of the C libraries and of Python."""
    table = _symbol_table(elf)
    if table is None:
        return
    versions: Any = elf.get_section_by_name(".gnu.version")
    system = _system_versions(elf)
    for index, symbol in enumerate(table.iter_symbols()):
        if symbol["st_shndx"] != "SHN_UNDEF" or symbol["st_info"]["bind"] != "STB_GLOBAL" or not symbol.name:
            continue
        version = versions.get_symbol(index).entry["ndx"] if versions is not None else None
        if version in system or _OF_PYTHON.match(symbol.name) or _OF_TORCH_NPU.match(symbol.name):
            continue
        yield symbol.name


def _system_versions(elf: ELFFile) -> frozenset[int]:
    section: Any = elf.get_section_by_name(".gnu.version_r")
    if section is None:
        return frozenset()
    return frozenset(
        auxiliary["vna_other"]
        for requirement, auxiliaries in section.iter_versions()
        for auxiliary in auxiliaries
        if _SYSTEM.match(requirement.name)
    )
