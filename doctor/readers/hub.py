"""Attention kernels from the Hub: which consumers are here, which kernels they could load, and what those offer."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from flexdoctor.facts import Unread
from flexdoctor.hub_facts import CONSUMERS, DiffusersHub, HubAnswer, HubFacts, KernelsLibrary, Surface, TransformersHub
from flexdoctor.readers.hub_expectations import read_diffusers
from flexdoctor.readers.hub_library import read_kernels
from flexdoctor.readers.hub_surfaces import read_cached, read_surface
from flexdoctor.readers.hub_transformers import read_transformers
from flexdoctor.readers.packages import InstalledDistribution
from flexdoctor.readers.trees import FolderTree, Tree, fold_home
from flexdoctor.readers.wheels import WheelDistribution
from flexdoctor.text import Text, UserError

T = TypeVar("T")
#: The only variables that are looked at; tokens and endpoints are not among them.
VARIABLES = (
    "DIFFUSERS_ATTN_BACKEND",
    "DIFFUSERS_DISABLE_REMOTE_CODE",
    "DIFFUSERS_TRUST_REMOTE_KERNELS",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "HF_KERNELS_CACHE",
    "KERNELS_CACHE",
    "LOCAL_KERNELS",
    "USE_HUB_KERNELS",
)
_REPOSITORY = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<wanted>[\w./-]+))?\Z")


class KernelSpecError(UserError):
    """The value of --kernel is neither a repository nor a folder."""


@dataclass(frozen=True)
class NamedKernel:
    """A kernel that the user names: a repository (with version or revision), a folder, or a folder as a repository."""

    repo: str = ""
    wanted: str = ""
    folder: Path | None = None


def parse_kernel(text: str) -> NamedKernel:
    """Read REPO[@VERSION], PATH, or REPO=PATH.

    Raises:
        KernelSpecError: it is none of these.
    """
    repo, equals, path = text.partition("=")
    if equals and _REPOSITORY.fullmatch(repo) and path:
        return NamedKernel(repo, folder=Path(path).expanduser())
    folder = Path(text).expanduser()
    if text and (text.startswith(("/", ".", "~")) or folder.exists()):
        return NamedKernel(folder=folder)
    match = _REPOSITORY.fullmatch(text)
    if match is None:
        raise KernelSpecError(
            Text(
                "{text!r} is neither org/name, org/name@VERSION, a folder, nor org/name=FOLDER",
                "{text!r} 不符合任何一种写法：org/name、org/name@VERSION、目录，或 org/name=目录",
            ).format(text=text)
        )
    return NamedKernel(match["repo"], match["wanted"] or "")


def read_hub(
    search_path: Sequence[Path],
    distributions: Sequence[InstalledDistribution],
    *,
    named: Sequence[NamedKernel] = (),
    online: bool = False,
    in_use: bool = False,
    variables: Mapping[str, str] | None = None,
) -> HubFacts | None:
    """Return what is known of Hub kernels, or None when no consumer is installed and no kernel was named.

    Args:
        in_use: the kernels in the cache are ones that somebody relies on.
        variables: the environment to take caches and selections from; None when it is not to be examined.
    """
    trees = {name: tree for name in CONSUMERS if (tree := _tree(search_path, name))}
    if not trees and not named:
        return None
    read = _read_consumers(trees, distributions)
    diffusers, transformers, kernels = read.diffusers, read.transformers, read.kernels
    environment = {name: _shown(value) for name in VARIABLES if (value := (variables or {}).get(name)) is not None}
    wanted = _wanted(diffusers, transformers)
    cache = None if variables is None else cache_folder(variables, kernels)
    surfaces, answers = _surfaces(
        named, wanted, cache, variables or {}, kernels, online, _repos(diffusers, transformers)
    )
    return dataclasses.replace(
        read,
        surfaces=tuple(dataclasses.replace(item, in_use=in_use) for item in surfaces),
        environment=environment,
        cache=fold_home(cache) if cache else None,
        answers=tuple(answers),
        cxx11_abi=_cxx11_abi(search_path),
    )


def read_planned_hub(wheels: Sequence[WheelDistribution]) -> HubFacts | None:
    """Return what the consumers among these wheels ask for, or None when there are none; no kernel is looked at."""
    trees = {wheel.name: wheel.tree for wheel in wheels if wheel.name in CONSUMERS}
    return _read_consumers(trees, wheels) if trees else None


def _read_consumers(trees: Mapping[str, Tree], distributions: Sequence[InstalledDistribution]) -> HubFacts:
    known = {item.name: item for item in reversed(distributions)}

    def about(name: str) -> tuple[str, tuple[str, ...]]:
        item = known.get(name)
        return (item.version, item.requires) if item else ("", ())

    notes = list[Unread]()

    def ask(name: str, read: Callable[[Tree], T]) -> T | None:
        tree = trees.get(name)
        if tree is None:
            return None
        try:
            return read(tree)
        except RecursionError:
            notes.append(Unread(tree.place(name).path, "nested too deeply to be read"))
            return None

    version, requires = about("diffusers")
    diffusers = ask("diffusers", lambda tree: read_diffusers(tree, version, _hub_bound(requires)))
    transformers = ask("transformers", lambda tree: read_transformers(tree, *about("transformers")))
    # A distribution of another kind may also hold a folder called kernels.
    kernels = ask("kernels", lambda tree: read_kernels(tree, *about("kernels"))) if "kernels" in known else None
    for found in (diffusers, transformers, kernels):
        notes += found.unread if found else ()
    return HubFacts(
        diffusers=diffusers,
        transformers=transformers,
        kernels=kernels,
        huggingface_hub=known["huggingface-hub"].version if "huggingface-hub" in known else None,
        diffusers_wanted=tuple(_wanting_diffusers(distributions)) if diffusers else (),
        unread=tuple(notes),
    )


def _tree(search_path: Sequence[Path], module: str) -> FolderTree | None:
    site = next((item for item in search_path if (item / module / "__init__.py").is_file()), None)
    return FolderTree(site) if site else None


def _shown(value: str) -> str:
    return os.pathsep.join("=".join(fold_home(part) for part in entry.split("=")) for entry in value.split(os.pathsep))


def _hub_bound(requires: tuple[str, ...]) -> str | None:
    for line in requires:
        match = re.match(r"huggingface[-_]hub\s*(\[[^\]]*\])?\s*\(?([^;)]*)", line, re.IGNORECASE)
        if match and "extra" not in line:
            return match[2].strip() or None
    return None


def _wanting_diffusers(distributions: Sequence[InstalledDistribution]) -> Iterator[str]:
    for item in distributions:
        if "diffusers" in item.wanted:
            yield from (line for line in item.requires if line.startswith("diffusers") and "extra" not in line)


def _wanted(diffusers: DiffusersHub | None, transformers: TransformersHub | None) -> tuple[str, ...]:
    names = [name.path for backend in (diffusers.backends if diffusers else ()) for name in backend.names]
    # The same names without the prefix that some versions ask for: the remedy depends on whether those are there.
    names += [path.replace("._wrapped_", "._") for path in names if "._wrapped_" in path]
    names += list(transformers.alternatives) if transformers else []
    return tuple(dict.fromkeys(names))


def _repos(diffusers: DiffusersHub | None, transformers: TransformersHub | None) -> set[str]:
    repos = {backend.repo for backend in (diffusers.backends if diffusers else ())}
    if transformers:
        repos |= {row.repo for row in transformers.versions} | {pair[-1] for pair in transformers.fallbacks}
    return repos


def cache_folder(variables: Mapping[str, str], kernels: KernelsLibrary | None) -> Path:
    """Return the folder in which `kernels` keeps what it loads, by the rules of the installed version."""
    for name in kernels.cache_variables if kernels else ("KERNELS_CACHE",):
        if value := variables.get(name):
            return Path(value).expanduser()
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if value := variables.get(name):
            return Path(value).expanduser()
    if value := variables.get("HF_HOME"):
        return Path(value).expanduser() / "hub"
    base = Path(variables.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "huggingface" / "hub"


def _surfaces(
    named: Sequence[NamedKernel],
    wanted: tuple[str, ...],
    cache: Path | None,
    variables: Mapping[str, str],
    kernels: KernelsLibrary | None,
    online: bool,
    repos: set[str],
) -> tuple[list[Surface], list[HubAnswer]]:
    surfaces, answers = list[Surface](), list[HubAnswer]()
    if not named:
        # The environment's own kernels; when one is named, the question is about that one alone.
        if kernels is None or kernels.knows_local_kernels:
            local = list(_local(variables.get("LOCAL_KERNELS", ""), wanted))
            surfaces += [item for item in local if isinstance(item, Surface)]
            answers += [item for item in local if isinstance(item, HubAnswer)]
        if cache:
            surfaces += [item for item in read_cached(cache, wanted) if item.repo in repos or _is_attention(item)]
        return surfaces, answers
    for kernel in named:
        if kernel.folder is not None:
            surface = read_surface(kernel.folder, wanted, repo=kernel.repo or _repo_of(kernel.folder), origin="path")
            found_there = _surface_or_answer(surface, kernel.folder)
            if isinstance(found_there, Surface):
                surfaces.append(dataclasses.replace(found_there, asked_for=True))
            else:
                answers.append(found_there)
            continue
        found = _cached(kernel, cache, wanted)
        if online:
            from flexdoctor.readers.hub_online import read_online  # noqa: PLC0415 - only when asked

            answer = read_online(kernel.repo, kernel.wanted, wanted)
            if isinstance(answer, Surface):
                found = [answer]
            else:
                answers.append(answer)
        elif not found:
            answers.append(HubAnswer(kernel.repo, kernel.wanted, "not cached", fold_home(cache) if cache else ""))
        surfaces += [dataclasses.replace(item, asked_for=True) for item in found]
    return surfaces, answers


def _is_attention(surface: Surface) -> bool:
    return surface.repo_type == "kernel" and bool(surface.functions)


def _cached(kernel: NamedKernel, cache: Path | None, wanted: tuple[str, ...]) -> list[Surface]:
    found = read_cached(cache, wanted, [kernel.repo]) if cache else []
    if not kernel.wanted:
        return found
    names = {kernel.wanted, f"v{kernel.wanted}"}
    exact = [item for item in found if names & set(item.refs) or (item.commit or "").startswith(kernel.wanted)]
    # A kernel that was loaded by version leaves no reference behind: then any snapshot may be the one.
    return exact or [item for item in found if not item.refs_known]


def _local(text: str, wanted: tuple[str, ...]) -> Iterator[Surface | HubAnswer]:
    for entry in text.split(":") if text else ():
        repo, _, path = entry.partition("=")
        if not (repo and path):
            yield HubAnswer(_shown(entry), "", "unreadable", "LOCAL_KERNELS takes org/name=FOLDER, joined by colons")
            continue
        yield _surface_or_answer(read_surface(Path(path), wanted, repo=repo, origin="LOCAL_KERNELS"), Path(path))


def _surface_or_answer(surface: Surface, folder: Path) -> Surface | HubAnswer:
    if surface.functions or surface.public_names:
        return surface
    reason = surface.unread[-1].reason if surface.unread else "nothing of a kernel there"
    return HubAnswer(surface.repo, fold_home(folder), "unreadable", reason)


def _repo_of(folder: Path) -> str:
    """Take the repository from a path inside a Hub cache."""
    for part in folder.absolute().parts:
        match = re.fullmatch(r"(?:kernels|models)--([\w.]+(?:-[\w.]+)*)--([\w.-]+)", part)
        if match:
            return f"{match[1]}/{match[2]}"
    return ""


def _cxx11_abi(search_path: Sequence[Path]) -> bool | None:
    for site in search_path:
        if (site / "torch").is_dir():
            text = FolderTree(site).read("torch/share/cmake/Torch/TorchConfig.cmake") or ""
            match = re.search(r"_GLIBCXX_USE_CXX11_ABI=([01])", text)
            return match[1] == "1" if match else None
    return None
