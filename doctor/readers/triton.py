"""Who owns the `triton` folder, whether it is what its owner installed, and what it offers to torch-npu."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flexdoctor.facts import ASCEND_BACKENDS, BackendBreak, LoadImport, TritonClaim, TritonFacts
from flexdoctor.readers.packages import InstalledDistribution, RecordRow
from flexdoctor.readers.sources import line_text, parse
from flexdoctor.readers.trees import FolderTree, Tree

_SAMPLE = 5
_OWN_MODULES = ("torch", "torch_npu", "triton")


def read_triton(tree: Tree | None, owners: Sequence[InstalledDistribution]) -> TritonFacts:
    """Return the facts of the `triton` folder below `tree`, None when the target has no such folder.

    `owners` are the distributions whose RECORD lists files under `triton/`.
    """
    records = {owner.name: {row.name: row for row in owner.rows_under("triton")} for owner in owners}
    claims = tuple(_claim(owner, records) for owner in owners)
    if tree is None:
        return TritonFacts(claims=claims)
    init = tree.read("triton/__init__.py")
    version = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", init or "", re.MULTILINE)
    backends = tuple(name for name in tree.folders("triton/backends") if not name.startswith("_"))
    return TritonFacts(
        path=tree.place("triton").path,
        has_init=init is not None,
        version=version[1] if version else None,
        backends=backends,
        extra=tuple(_extra(tree)),
        claims=claims,
        imports=tuple(_imports(tree, backends)),
        breaks=tuple(_breaks(tree, backends, records)) if isinstance(tree, FolderTree) else (),
        unread=tuple(item for item in tree.unread if "/triton/" in item.path),
    )


def _claim(owner: InstalledDistribution, records: Mapping[str, Mapping[str, RecordRow]]) -> TritonClaim:
    rows = records[owner.name]
    others = {name for other, other_rows in records.items() if other != owner.name for name in other_rows}
    shared = sorted(name for name in rows if name in others and not name.endswith(".pyc"))
    present = {name for name in rows if owner.has_file(name)}
    missing = sorted(name for name in rows if name not in present and not name.endswith(".pyc"))
    overwritten = [name for name in shared if name in present and owner.has_other_content(rows[name])]
    return TritonClaim(
        name=owner.name,
        version=owner.version,
        files=len(rows),
        has_ascend_backend=any(
            name.startswith(tuple(f"triton/backends/{item}/" for item in ASCEND_BACKENDS)) for name in rows
        ),
        shared=len(shared),
        overwritten=len(overwritten),
        overwritten_sample=tuple(overwritten[:_SAMPLE]),
        missing=len(missing),
        missing_sample=tuple(missing[:_SAMPLE]),
        installed_at=owner.installed_at,
    )


def _extra(tree: Tree) -> Iterator[str]:
    root = "triton/language/extra"
    for package in tree.folders(root):
        if package.startswith("_"):
            continue
        yield package
        for file in tree.files(f"{root}/{package}"):
            if file.endswith(".py") and not file.startswith("_"):
                yield f"{package}.{file.removesuffix('.py')}"
        for folder in tree.folders(f"{root}/{package}"):
            if not folder.startswith("_") and tree.files(f"{root}/{package}/{folder}"):
                yield f"{package}.{folder}"


def _imports(tree: Tree, backends: Sequence[str]) -> Iterator[LoadImport]:
    """Follow compiler.py and driver.py of the Ascend backend, which `import triton` always loads."""
    for backend in (name for name in backends if name in ASCEND_BACKENDS):
        root = f"triton/backends/{backend}"
        seen, queue, reported = set[str](), ["compiler", "driver"], set[str]()
        while queue:
            stem = queue.pop(0)
            if stem in seen:
                continue
            seen.add(stem)
            text = tree.read(f"{root}/{stem}.py") or ""
            for module, line in _column_zero_imports(text):
                top = module.partition(".")[0]
                if module.startswith(f"triton.backends.{backend}."):
                    queue.append(module.split(".")[3])
                elif top not in _OWN_MODULES and top not in sys.stdlib_module_names and top not in reported:
                    reported.add(top)
                    yield LoadImport(top, tree.place(f"{root}/{stem}.py", line, line_text(text, line)))


def _column_zero_imports(text: str) -> Iterator[tuple[str, int]]:
    for match in re.finditer(r"^(?:from ([\w.]+) import|import ([\w.]+))", text, re.MULTILINE):
        yield match[1] or match[2], text.count("\n", 0, match.start()) + 1


def _breaks(
    tree: FolderTree, backends: Sequence[str], records: Mapping[str, Mapping[str, RecordRow]]
) -> Iterator[BackendBreak]:
    """Find backends left by another triton that ask the present one for names it does not have.

    `triton.backends` loads every folder that it finds, so one stale backend makes `import triton` fail as a whole.
    """
    if not any(name in ASCEND_BACKENDS for name in backends):
        return
    for backend in backends:
        if backend in ASCEND_BACKENDS:
            continue
        file = f"triton/backends/{backend}/compiler.py"
        text = tree.read(file) or ""
        for match in re.finditer(r"^from (triton(?:\.\w+)*) import ([\w, ]+)$", text, re.MULTILINE):
            wanted = [name.split()[0] for name in match[2].split(",") if name.strip()]
            lacking = next((name for name in wanted if not _offers(tree, match[1], name)), None)
            if lacking:
                line = text.count("\n", 0, match.start()) + 1
                owner = next((name for name, rows in records.items() if file in rows), None)
                error = f"ImportError: cannot import name '{lacking}' from '{match[1]}'"
                yield BackendBreak(backend, owner, error, tree.place(file, line, line_text(text, line)))
                break


def _offers(tree: FolderTree, module: str, name: str) -> bool:
    """Tell whether `module` has `name`; what cannot be decided counts as offered."""
    base = module.replace(".", "/")
    if tree.exists(f"{base}/{name}") or tree.exists(f"{base}/{name}.py"):
        return True
    text = tree.read(f"{base}.py") or tree.read(f"{base}/__init__.py")
    if text is None:
        return _library_offers(tree.root / f"{base}.so", name)
    module_tree = parse(text)
    if module_tree is None:
        return True
    return name in _bound_names(module_tree)


def _library_offers(path: Path, name: str) -> bool:
    """Look for `name` as a whole C string in a compiled module: its submodules are registered by such a string."""
    needle, kept = b"\0" + name.encode() + b"\0", b""
    try:
        with path.open("rb") as library:
            while block := library.read(1 << 20):
                if needle in kept + block:
                    return True
                kept = block[-len(needle) :]
    except OSError:
        return True
    return False


def _bound_names(module: ast.Module) -> set[str]:
    names = set[str]()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if any(alias.name == "*" for alias in node.names):
                return _Everything()
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


class _Everything(set[str]):
    """The names of a module with a star import: all of them, as far as one can tell."""

    def __contains__(self, name: object) -> bool:
        return True
