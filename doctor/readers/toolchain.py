"""What builds and loads native code beside the packages: C libraries, a C++ compiler, Python.h, the NPU compilers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from flexdoctor.facts import InterpreterFacts, ToolchainFacts
from flexdoctor.readers.rooted import Root

#: What a shell without any profile searches; used for an image whose PATH was not given.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LIBRARY_FOLDERS = (
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
)
_BUNDLED = "triton/backends/ascend/bishengir/bin/bishengir-compile"


def read_toolchain(
    root: Root, variables: Mapping[str, str], interpreter: InterpreterFacts, sites: Sequence[Path]
) -> ToolchainFacts:
    """Return what triton's launcher would be built with and what the loader offers the wheels."""
    known = "PATH" in variables
    search = [part for part in variables.get("PATH", _DEFAULT_PATH).split(":") if part.startswith("/")]
    prefix = _prefix(root, interpreter, sites)
    glibc, glibc_from = _glibc(root)
    stdcxx, stdcxx_from = _libstdcxx(root, variables, prefix)
    looked = tuple(dict.fromkeys(_header_places(root, variables, interpreter, prefix)))
    header = root.first(looked)
    cc = variables.get("CC")
    compilers = variables.get("TRITON_NPU_COMPILER_PATH", "").rstrip("/")
    bundled = next((str(site / _BUNDLED) for site in sites if (site / _BUNDLED).is_file()), None)
    return ToolchainFacts(
        glibc=glibc,
        glibc_from=glibc_from,
        libstdcxx=stdcxx,
        libstdcxx_from=root.shown(stdcxx_from) if stdcxx_from else None,
        cc=cc,
        cc_path=_shown(root, _which(root, cc, search)) if cc else None,
        cxx=_shown(root, _which(root, "clang++", search) or _which(root, "g++", search)),
        python_header=_shown(root, header),
        python_header_looked=tuple(root.shown(path) for path in looked),
        bisheng=_shown(
            root,
            _which(root, "bisheng", search) or (root.first([f"{compilers}/ccec"]) if compilers else None),
        ),
        bishengir_compile=_shown(root, _which(root, "bishengir-compile", search)),
        bishengir_bundled=_shown(root, bundled),
        npuc=_shown(root, root.first([f"{compilers}/npuc"])) if compilers else None,
        path_known=root.live or known,
    )


def _shown(root: Root, path: str | None) -> str | None:
    return root.shown(path) if path else None


def _which(root: Root, name: str | None, search: Iterable[str]) -> str | None:
    if not name:
        return None
    if "/" in name:
        return name if name.startswith("/") and root.is_program(name) else None
    return next((f"{folder}/{name}" for folder in search if root.is_program(f"{folder}/{name}")), None)


def _prefix(root: Root, interpreter: InterpreterFacts, sites: Sequence[Path]) -> str | None:
    """Return the target's own prefix, as the system sees it."""
    if interpreter.prefix:
        return root.inside(Path(interpreter.prefix).expanduser())
    for site in sites:
        inside = root.inside(site)
        if inside and re.search(r"/lib(64)?/python3[^/]*/(site|dist)-packages$", inside):
            return str(Path(inside).parent.parent.parent)
    return None


def _glibc(root: Root) -> tuple[str | None, str | None]:
    if root.live:
        try:
            text = os.confstr("CS_GNU_LIBC_VERSION") or ""
        except (ValueError, OSError):
            return None, None  # musl does not know the name
        return (
            (text.removeprefix("glibc "), "confstr CS_GNU_LIBC_VERSION") if text.startswith("glibc ") else (None, None)
        )
    for folder in LIBRARY_FOLDERS:
        path = f"{folder}/libc.so.6"
        if not root.exists(path):
            continue
        named = re.search(r"libc-(2\.\d+)\.so$", root.real(path))
        if named:
            return named[1], root.shown(path)
        try:
            content = Path(root.host(path)).read_bytes()
        except OSError:
            continue
        stated = re.search(rb"GNU C Library [^\n]*? version (2\.\d+)", content)
        if stated:
            return stated[1].decode(), root.shown(path)
    return None, None


def _libstdcxx(root: Root, variables: Mapping[str, str], prefix: str | None) -> tuple[int | None, str | None]:
    """Return N of the libstdc++.so.6.0.N that is found first: the loader's path, the conda prefix, the system."""
    searched = [part for part in variables.get("LD_LIBRARY_PATH", "").split(":") if part.startswith("/")]
    own = [f"{prefix}/lib"] if prefix and root.is_folder(f"{prefix}/conda-meta") else []
    for folder in [*searched, *own, *LIBRARY_FOLDERS]:
        path = f"{folder}/libstdc++.so.6"
        if not root.exists(path):
            continue
        match = re.search(r"libstdc\+\+\.so\.6\.0\.(\d+)$", root.real(path))
        return (int(match[1]), path) if match else (None, None)
    return None, None


def _header_places(
    root: Root, variables: Mapping[str, str], interpreter: InterpreterFacts, prefix: str | None
) -> Iterator[str]:
    """Yield where Python.h may lie: where sysconfig of the base interpreter points, and the compiler's own path."""
    version = re.match(r"3\.\d+", interpreter.version or "")
    if version is None:
        return
    folder = f"include/python{version[0]}"
    bases = [prefix] if prefix else []
    executable = f"{prefix}/bin/python" if prefix else ""
    if interpreter.executable and root.live:
        executable = str(Path(interpreter.executable).expanduser())
    if executable and root.exists(executable):
        bases.append(str(Path(root.real(executable)).parent.parent))
    for base in dict.fromkeys(bases):
        yield f"{base.rstrip('/')}/{folder}/Python.h"
    for name in ("CPLUS_INCLUDE_PATH", "CPATH"):
        yield from (f"{part}/Python.h" for part in variables.get(name, "").split(":") if part.startswith("/"))
