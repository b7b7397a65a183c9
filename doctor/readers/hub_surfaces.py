"""What a kernel from the Hub offers, read from its sources without running it."""

from __future__ import annotations

import dataclasses
import json
import os
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from flexdoctor.facts import Unread
from flexdoctor.hub_facts import KernelFunction, Surface, Variant
from flexdoctor.readers.modules import Binding, Package, Target
from flexdoctor.readers.returns import dtypes_of, parameters_of, what_returns
from flexdoctor.readers.trees import FolderTree, Tree, fold_home

Origin = Literal["LOCAL_KERNELS", "cache", "path", "hub", "package"]

#: Names by which attention kernels are entered, whoever asks; read beside those that a consumer names.
ENTRIES = (
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "sageattn",
    "sageattn3_blackwell",
    "sparse_atten_func",
    "flash_attn_forward",
    "supports_flash_attn",
)
_MAX_PUBLIC_NAMES = 120
MAX_LISTING_BYTES = 4 * 1024 * 1024
_TAGS = {"cxx11": True, "cxx98": False}
_ARCH = re.compile(
    r"(?:torch(?P<major>\d)(?P<minor>\d+)(?:-(?P<abi>cxx11|cxx98))?"
    r"|torch-stable-abi(?P<smajor>\d)(?P<sminor>\d+)|tvm-ffi(?P<ffi>\d+))"
    r"-(?P<backend>[a-z]+)(?P<version>\d*)-(?P<cpu>[^-]+)-(?P<system>[^-]+)\Z"
)
_NOARCH = re.compile(r"torch-(?P<backend>cpu|cuda|metal|neuron|npu|rocm|tpu|universal|xpu)\Z")


def parse_variant(name: str) -> Variant:
    """Take the name of a build folder apart."""
    if match := _NOARCH.fullmatch(name):
        return Variant(name, "noarch", backend=match["backend"])
    match = _ARCH.fullmatch(name)
    if match is None:
        return Variant(name)
    kind: Literal["torch", "stable", "tvm-ffi"] = "torch" if match["major"] else "stable"
    torch = f"{match['major']}.{match['minor']}" if match["major"] else f"{match['smajor']}.{match['sminor']}"
    if match["ffi"]:
        kind, torch = "tvm-ffi", ""
    digits = match["version"]
    return Variant(
        name,
        kind,
        torch or None,
        _TAGS.get(match["abi"] or ""),
        "cuda" if match["backend"] == "cu" else match["backend"],
        f"{digits[:-1]}.{digits[-1]}" if len(digits) > 1 else digits or None,
        match["cpu"],
        match["system"],
    )


def read_surface(
    folder: Path,
    wanted: Iterable[str],
    *,
    repo: str = "",
    origin: Origin = "path",
    prefer: str | None = None,
) -> Surface:
    """Return what the kernel in `folder` offers.

    The folder may be a repository (with build/), its build folder, one variant, the source tree of a kernel
    (torch-ext/), a plain Python package, or a single module.

    Args:
        wanted: attribute paths to look up beside the usual entries.
        prefer: the variant to read, when there are several.
    """
    if folder.is_file() and folder.suffix == ".py":
        # A kernel that is one module, as flash_attn_interface.py of FlashAttention-3.
        tree = FolderTree(folder.parent)
        surface = _read(tree, "", wanted, repo, origin, (), None, entry=folder.stem)
        return dataclasses.replace(surface, path=fold_home(folder))
    if not folder.is_dir():
        reason = "not a folder" if folder.exists() else "no such folder"
        return Surface(repo, origin, fold_home(folder), unread=(Unread(fold_home(folder), reason),))
    tree = FolderTree(folder)
    base, variants = _layout(tree, folder)
    variant = prefer if prefer in variants else next(iter(sorted(variants, key=_reading_order)), None)
    root = posixpath.join(base, variant) if variant else base
    return _read(tree, root, wanted, repo, origin, variants, variant)


def _layout(tree: Tree, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the folder that holds the variants (relative to the tree) and the variants in it."""
    for base in ("build", ""):
        found = tuple(name for name in tree.folders(base) if parse_variant(name).kind != "unrecognised")
        if found:
            return base, found
    if parse_variant(folder.name).kind != "unrecognised":
        return "", ()
    sources = tree.folders("torch-ext")
    package = next((name for name in sources if tree.exists(f"torch-ext/{name}/__init__.py")), None)
    return (f"torch-ext/{package}" if package else ""), ()


def _reading_order(name: str) -> tuple[int, str]:
    # The Python part of all variants is the same but for rare cases; the simplest name is as good as any.
    return (0 if parse_variant(name).kind == "noarch" else 1, name)


def _read(
    tree: Tree,
    root: str,
    wanted: Iterable[str],
    repo: str,
    origin: Origin,
    variants: tuple[str, ...],
    variant: str | None,
    entry: str = "",
) -> Surface:
    metadata, metadata_unread = _metadata(tree, root)
    stated = metadata.get("name")
    name = stated if isinstance(stated, str) else ""
    module = re.sub(r"\W", "_", name or repo.rpartition("/")[2])
    package, found = _package(tree, root, module)
    entry = entry or found
    functions, absent = [], []
    for path in dict.fromkeys((*wanted, *ENTRIES)):
        binding = package.look_up(entry, path)
        if binding is None or not (binding.targets or binding.certain):
            absent.append(path)
        elif function := _function(package, path, binding):
            functions.append(function)
    backend = metadata.get("backend")
    identity, version = metadata.get("id"), metadata.get("version")
    declared = backend.get("type") if isinstance(backend, dict) else None
    place = tree.place(root)
    # Nothing at all could be read of the entry module: then nothing is absent either, it is just not known.
    if package.load(entry) is None:
        absent = []
    return Surface(
        repo=repo or name or _source_name(root),
        origin=origin,
        path=place.path.rstrip("/"),
        module_name=identity if isinstance(identity, str) else None,
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        variants=tuple(parse_variant(item) for item in variants),
        variant_read=variant,
        functions=tuple(functions),
        absent=tuple(absent),
        public_names=package.public_names(entry, _MAX_PUBLIC_NAMES),
        declared_backend=declared if isinstance(declared, str) else None,
        unread=(
            *metadata_unread,
            *package.unread.values(),
            *tree.unread,
            *(() if package.load(entry) else (Unread(place.path, "no Python module of a kernel there"),)),
        ),
    )


def _source_name(root: str) -> str:
    """Return the name of a kernel whose sources lie in torch-ext/<name>."""
    parent, _, name = root.rpartition("/")
    return name.replace("_", "-") if parent.rpartition("/")[2] == "torch-ext" else ""


def _metadata(tree: Tree, root: str) -> tuple[dict[str, object], tuple[Unread, ...]]:
    name = posixpath.join(root, "metadata.json")
    text = tree.read(name)
    if text is None:
        return {}, ()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}, (Unread(tree.place(name).path, "not JSON"),)
    return (data, ()) if isinstance(data, dict) else ({}, (Unread(tree.place(name).path, "not a JSON object"),))


def _package(tree: Tree, root: str, module: str) -> tuple[Package, str]:
    """Return the package of a variant and the module in it that `kernels` imports."""
    # A package imports itself by its own name, which is the folder's.
    own = {module, posixpath.basename(tree.place(root).path.rstrip("/"))} - {""}
    if tree.exists(posixpath.join(root, "__init__.py")):
        return Package(tree, root, own), ""
    inner = [name for name in tree.folders(root) if tree.exists(posixpath.join(root, name, "__init__.py"))]
    chosen = module if module in inner else (inner[0] if len(inner) == 1 else None)
    if chosen:
        return Package(tree, posixpath.join(root, chosen), {*own, chosen}), ""
    single = [name[:-3] for name in tree.files(root) if name.endswith("_interface.py")]
    return Package(tree, root, own), (single[0] if len(single) == 1 else "")


def _function(package: Package, path: str, binding: Binding) -> KernelFunction | None:
    """Describe what a wanted name stands for. None: it cannot even be told whether it is there."""
    targets = [item for item in binding.targets if item.kind != "module"]
    if not targets:
        return None
    if not binding.certain and all(item.kind == "opaque" for item in targets):
        place = package.place(targets[0].module, targets[0].line)
        return KernelFunction(path, place, "maybe", signature_known=False)
    described = [_describe(package, path, item) for item in targets]
    best = next((item for item in described if item.state == "function"), described[0])
    alike = all(item.parameters == best.parameters and item.gives == best.gives for item in described)
    state = best.state if binding.certain else "maybe"
    if alike and best.state == "function":
        return KernelFunction(
            path, best.place, state, True, best.parameters, best.gives, best.flags, best.length, best.returns_at,
            best.dtypes,
        )  # fmt: skip
    # Several definitions that differ, or one that is a compiled operator: there, but not to be judged.
    gives = best.gives if len({item.gives for item in described}) == 1 else "opaque"
    place = next((item.place for item in described if item.state == "opaque"), best.place)
    return KernelFunction(
        path, place, "opaque" if binding.certain else "maybe", False, best.parameters, gives, best.flags
    )


def _describe(package: Package, path: str, target: Target) -> KernelFunction:
    place = package.place(target.module, target.line)
    function = target.function
    if function is None:
        return KernelFunction(path, place, "opaque", signature_known=False)
    returned = what_returns(package, target)
    return KernelFunction(
        path=path,
        place=place,
        parameters=parameters_of(function),
        gives=returned.gives,
        flags=returned.flags,
        length=returned.length,
        returns_at=package.place(target.module, returned.line),
        dtypes=dtypes_of(function),
    )


def is_cache_folder(name: str) -> tuple[Literal["kernel", "model"], str] | None:
    """Return type and repository of a folder of the Hub cache that may hold a kernel."""
    for prefix, kind in (("kernels--", "kernel"), ("models--", "model")):
        if name.startswith(prefix) and name.count("--") == 2:
            return kind, name.removeprefix(prefix).replace("--", "/")  # type: ignore[return-value]
    return None


def read_cached(cache: Path, wanted: Iterable[str], repos: Iterable[str] | None = None) -> list[Surface]:
    """Return every snapshot of a kernel in a Hub cache.

    Args:
        repos: only these repositories; None for all. A model repository counts only when it has a build folder.
    """
    wanted, found = tuple(wanted), []
    chosen = None if repos is None else {item.lower() for item in repos}
    try:
        names = sorted(entry.name for entry in os.scandir(cache))
    except OSError:
        return []
    for name in names:
        known = is_cache_folder(name)
        if known is None or (chosen is not None and known[1].lower() not in chosen):
            continue
        kind, repo = known
        refs, snapshots = _refs(cache / name / "refs"), cache / name / "snapshots"
        try:
            commits = sorted(entry.name for entry in os.scandir(snapshots) if entry.is_dir())
        except OSError:
            continue
        for commit in commits:
            folder = snapshots / commit
            if not (folder / "build").is_dir():
                continue
            surface = read_surface(folder, wanted, repo=repo, origin="cache")
            found.append(_dated(surface, kind, commit, refs, cache / name))
    return found


def _dated(
    surface: Surface, kind: Literal["kernel", "model"], commit: str, refs: dict[str, str], folder: Path
) -> Surface:
    return dataclasses.replace(
        surface,
        repo_type=kind,
        commit=commit,
        refs=tuple(sorted(name for name, points_to in refs.items() if points_to == commit)),
        refs_known=any(name.startswith("v") for name in refs),
        partial=_is_partial(folder, commit),
    )


def _refs(folder: Path) -> dict[str, str]:
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return {}
    # A reference is forty characters; a larger file is none.
    return {name: text[:64] for name in names if (text := _short_text(folder / name))}


def _short_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip() if path.is_file() else ""
    except OSError:
        return ""


def _is_partial(folder: Path, commit: str) -> bool | None:
    """Compare a snapshot with the listing that newer huggingface_hub keeps beside it; None without such a listing."""
    listing = folder / "trees" / f"{commit}.json"
    try:
        if listing.stat().st_size > MAX_LISTING_BYTES:
            return None
        files = json.loads(listing.read_text(encoding="utf-8")).get("files")
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    if not isinstance(files, dict):
        return None
    return any(not os.path.lexists(folder / "snapshots" / commit / path) for path in files)
