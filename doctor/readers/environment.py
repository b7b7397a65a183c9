"""From a target to facts: puts the readers together."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flexdoctor.facts import Facts, InterpreterFacts, Shadow, TargetFacts
from flexdoctor.readers.hub import NamedKernel, read_hub
from flexdoctor.readers.interpreter import Environment, TargetError, default_target, read_environment
from flexdoctor.readers.machine import read_machine
from flexdoctor.readers.packages import (
    InstalledDistribution,
    find_distributions,
    find_shadows,
    owners_of,
    read_packages,
    top_level_modules,
)
from flexdoctor.readers.torch import read_torch
from flexdoctor.readers.torch_npu import read_torch_npu
from flexdoctor.readers.trees import FolderTree, fold_home
from flexdoctor.readers.triton import read_triton


@dataclass(frozen=True)
class HubOptions:
    """Which kernels from the Hub to look at beside those that are cached, and whether the Hub itself may be asked."""

    kernels: tuple[NamedKernel, ...] = ()
    online: bool = False
    #: The kernels in the cache are ones that somebody relies on.
    in_use: bool = False


def read_installed(python: Path | None = None, hub: HubOptions = HubOptions()) -> Facts:
    """Return the facts of an installed environment and of the machine below it.

    Raises:
        TargetError: the environment cannot be found or asked.
    """
    chosen, why = (python, "--python") if python else default_target()
    environment = read_environment(chosen)
    target = TargetFacts(
        kind="environment",
        description=f"{fold_home(chosen)} ({why})",
        site_packages=tuple(fold_home(path) for path in environment.search_path),
        machine_examined=True,
    )
    shadows = find_shadows(environment.search_path, _working_directory(), os.environ.get("PYTHONPATH", ""))
    return _read_folders(target, environment, shadows, hub=hub)


def read_site_packages(folder: Path, root: Path | None = None, hub: HubOptions = HubOptions()) -> Facts:
    """Return the facts of a bare folder of packages; the machine is examined only below `root`.

    Raises:
        TargetError: there is no such folder, or it cannot be listed.
    """
    try:
        with os.scandir(folder):
            pass
    except OSError as error:
        raise TargetError(f"{folder} is not a folder of packages: {error.strerror or error}") from error
    target = TargetFacts(
        kind="site-packages",
        description=fold_home(folder.resolve()),
        site_packages=(fold_home(folder.resolve()),),
        machine_examined=root is not None,
    )
    environment = Environment(_interpreter_of(folder.resolve()), (folder.resolve(),))
    return _read_folders(target, environment, (), root, hub)


def read_search_path(search_path: Sequence[Path], hub: HubOptions = HubOptions()) -> Facts:
    """Return the facts of the packages on a search path, such as that of the running interpreter."""
    folders = tuple(path for path in search_path if path.is_dir())
    target = TargetFacts(
        kind="environment",
        description="the running interpreter",
        site_packages=tuple(fold_home(path) for path in folders),
        machine_examined=False,
    )
    interpreter = InterpreterFacts(
        implementation=sys.implementation.name,
        version=platform.python_version(),
        architecture=platform.machine(),
        learned_from="the running interpreter",
    )
    return _read_folders(target, Environment(interpreter, folders), (), hub=hub)


def _interpreter_of(folder: Path) -> InterpreterFacts:
    """Take the Python version from a path like lib/python3.11/site-packages; a bare folder does not tell more."""
    match = re.fullmatch(r"python(3\.\d+)", folder.parent.name)
    if not match:
        return InterpreterFacts()
    return InterpreterFacts(implementation="cpython", version=match[1], learned_from=fold_home(folder))


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None  # the folder was deleted under us


def _read_folders(
    target: TargetFacts,
    environment: Environment,
    shadows: tuple[Shadow, ...],
    root: Path | None = None,
    hub: HubOptions = HubOptions(),
) -> Facts:
    search_path = environment.search_path
    distributions, unread = find_distributions(search_path)
    modules = top_level_modules(search_path)
    declared = _declared(distributions)
    torch_tree, npu_tree, triton_tree = (_tree(search_path, name) for name in ("torch", "torch_npu", "triton"))
    triton_site = triton_tree.root if triton_tree else None
    owners = [item for item in owners_of("triton", distributions) if triton_site in (None, item.site)]
    packages = read_packages(search_path, distributions, shadows, unread)
    return Facts(
        target=target,
        interpreter=environment.facts,
        packages=packages,
        torch=read_torch(torch_tree, _version(distributions, "torch")) if torch_tree else None,
        torch_npu=read_torch_npu(npu_tree, _version(distributions, "torch-npu"), modules | declared)
        if npu_tree
        else None,
        triton=read_triton(triton_tree, owners, modules),
        machine=read_machine(root or Path("/")) if target.machine_examined else None,
        hub=read_hub(
            search_path,
            distributions,
            named=hub.kernels,
            online=hub.online,
            in_use=hub.in_use,
            variables=os.environ if target.kind == "environment" else None,
        ),
    )


def _tree(search_path: Sequence[Path], module: str) -> FolderTree | None:
    site = next((item for item in search_path if (item / module).is_dir()), None)
    return FolderTree(site) if site else None


def _version(distributions: Sequence[InstalledDistribution], name: str) -> str:
    return next((item.version for item in distributions if item.name == name), "")


def _declared(distributions: Sequence[InstalledDistribution]) -> frozenset[str]:
    """Return the modules that torch and torch-npu ask for in their metadata: an absent one is pip's to name."""
    lines = [line for item in distributions if item.name in ("torch", "torch-npu") for line in item.requires]
    names = (re.match(r"[\w.-]+", line) for line in lines)
    return frozenset(name[0].replace("-", "_").lower() for name in names if name)
