"""From a target to facts: puts the readers together."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from flexdoctor.facts import Facts, InterpreterFacts, Shadow, TargetFacts
from flexdoctor.readers.imports import declared_modules, settle
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


def read_installed(python: Path | None = None) -> Facts:
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
    return _read_folders(target, environment, shadows)


def read_site_packages(folder: Path, root: Path | None = None) -> Facts:
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
    return _read_folders(target, environment, (), root)


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
    target: TargetFacts, environment: Environment, shadows: tuple[Shadow, ...], root: Path | None = None
) -> Facts:
    search_path = environment.search_path
    distributions, unread = find_distributions(search_path)
    torch_tree, npu_tree, triton_tree = (_tree(search_path, name) for name in ("torch", "torch_npu", "triton"))
    triton_site = triton_tree.root if triton_tree else None
    owners = [item for item in owners_of("triton", distributions) if triton_site in (None, item.site)]
    packages = read_packages(search_path, distributions, shadows, unread)
    modules = top_level_modules(search_path) | declared_modules(packages.distributions)
    torch = read_torch(torch_tree, _version(distributions, "torch")) if torch_tree else None
    npu = read_torch_npu(npu_tree, _version(distributions, "torch-npu")) if npu_tree else None
    triton = read_triton(triton_tree, owners)
    return Facts(
        target=target,
        interpreter=environment.facts,
        packages=packages,
        torch=torch,
        torch_npu=dataclasses.replace(npu, imports=settle(npu.imports, modules)) if npu else None,
        triton=dataclasses.replace(triton, imports=settle(triton.imports, modules)),
        machine=read_machine(root or Path("/")) if target.machine_examined else None,
    )


def _tree(search_path: Sequence[Path], module: str) -> FolderTree | None:
    site = next((item for item in search_path if (item / module).is_dir()), None)
    return FolderTree(site) if site else None


def _version(distributions: Sequence[InstalledDistribution], name: str) -> str:
    return next((item.version for item in distributions if item.name == name), "")
