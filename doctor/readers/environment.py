"""From a target to facts: puts the readers together."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flexdoctor.facts import Facts, InterpreterFacts, LinkageFacts, MachineFacts, Shadow, TargetFacts
from flexdoctor.frozen import dataclass
from flexdoctor.hub_facts import CONSUMERS, HubFacts
from flexdoctor.readers.imports import declared_modules, settle
from flexdoctor.readers.interpreter import Environment, TargetError, default_target, elf_architecture, read_environment
from flexdoctor.readers.machine import read_machine
from flexdoctor.readers.npu_smi import TIME_LIMIT
from flexdoctor.readers.packages import (
    InstalledDistribution,
    find_distributions,
    find_shadows,
    is_leftover_folder,
    owners_of,
    read_packages,
    top_level_modules,
    true_first,
)
from flexdoctor.readers.rooted import Root
from flexdoctor.readers.torch import read_torch
from flexdoctor.readers.torch_npu import read_torch_npu
from flexdoctor.readers.trees import FolderTree, fold_home
from flexdoctor.readers.triton import read_triton
from flexdoctor.text import Text

if TYPE_CHECKING:
    from flexdoctor.readers.hub import NamedKernel


@dataclass(frozen=True)
class HubOptions:
    """Which kernels from the Hub to look at beside those that are cached, and whether the Hub itself may be asked."""

    kernels: tuple[NamedKernel, ...] = ()
    online: bool = False
    #: The kernels in the cache are ones that somebody relies on.
    in_use: bool = False


_NO_KERNELS = HubOptions()


@dataclass(frozen=True)
class ReadOptions:
    """How much of the machine to read, and which kernels from the Hub.

    `variables` are those of an examined image; None stands for the variables of this process, on the live machine.
    """

    deep: bool = False
    npu_smi_limit: float = TIME_LIMIT
    variables: Mapping[str, str] | None = None
    hub: HubOptions = _NO_KERNELS


_ASKED_NOTHING = ReadOptions()


def read_installed(python: Path | None = None, options: ReadOptions = _ASKED_NOTHING) -> Facts:
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
    return _read_folders(target, environment, shadows, options=options)


def read_site_packages(folder: Path, root: Path | None = None, options: ReadOptions = _ASKED_NOTHING) -> Facts:
    """Return the facts of a bare folder of packages; the machine is examined only below `root`.

    Raises:
        TargetError: there is no such folder, or it cannot be listed.
    """
    try:
        with os.scandir(folder):
            pass
    except OSError as error:
        message = Text("{folder} is not a folder of packages: {why}", "{folder} 不是存放软件包的目录：{why}")
        raise TargetError(message.format(folder=folder, why=error.strerror or error)) from error
    target = TargetFacts(
        kind="site-packages",
        description=fold_home(folder.resolve()),
        site_packages=(fold_home(folder.resolve()),),
        machine_examined=root is not None,
    )
    environment = Environment(_interpreter_of(folder.resolve(), Root(root or Path("/"))), (folder.resolve(),))
    return _read_folders(target, environment, (), root, options)


def read_search_path(search_path: Sequence[Path], hub: HubOptions = _NO_KERNELS) -> Facts:
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
    return _read_folders(target, Environment(interpreter, folders), (), options=ReadOptions(hub=hub))


def _interpreter_of(folder: Path, root: Root) -> InterpreterFacts:
    """Take the Python version from a path like lib/python3.11/site-packages, the architecture from its bin/python3.11.

    A bare folder does not tell more.
    """
    match = re.fullmatch(r"python(3\.\d+)", folder.parent.name)
    if not match:
        return InterpreterFacts()
    prefix = root.inside(folder.parent.parent.parent)
    executable = root.host(f"{prefix}/bin/{folder.parent.name}") if prefix else None
    return InterpreterFacts(
        implementation="cpython",
        version=match[1],
        architecture=elf_architecture(Path(executable)) if executable else None,
        learned_from=fold_home(folder),
    )


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
    options: ReadOptions = _ASKED_NOTHING,
) -> Facts:
    search_path = environment.search_path
    distributions, unread = find_distributions(search_path)
    torch_tree, npu_tree = (_package_tree(search_path, name) for name in ("torch", "torch_npu"))
    triton_tree = _tree(search_path, "triton")
    triton_site = triton_tree.root if triton_tree else None
    owners = [item for item in owners_of("triton", distributions) if triton_site in (None, item.site)]
    torch = read_torch(torch_tree, _version(distributions, "torch")) if torch_tree else None
    npu = read_torch_npu(npu_tree, _version(distributions, "torch-npu")) if npu_tree else None
    versions = {name: facts.version for name, facts in (("torch", torch), ("torch-npu", npu)) if facts}
    distributions = true_first(distributions, versions)
    packages = read_packages(search_path, distributions, shadows, unread)
    installed = top_level_modules(search_path)
    packages = dataclasses.replace(packages, modules=tuple(sorted(installed)))
    modules = installed | declared_modules(packages.distributions)
    triton = read_triton(triton_tree, owners)
    machine = _machine(target, environment, root, options)
    return Facts(
        target=target,
        interpreter=environment.facts,
        packages=packages,
        torch=torch,
        torch_npu=dataclasses.replace(npu, imports=settle(npu.imports, modules)) if npu else None,
        triton=dataclasses.replace(triton, imports=settle(triton.imports, modules)),
        machine=machine,
        linkage=_linkage(torch_tree, npu_tree, machine, root, options) if options.deep else None,
        hub=_hub(target, search_path, distributions, options.hub),
    )


def _hub(
    target: TargetFacts, search_path: Sequence[Path], distributions: Sequence[InstalledDistribution], hub: HubOptions
) -> HubFacts | None:
    if not hub.kernels and not any(_tree(search_path, name) for name in CONSUMERS):
        return None
    from flexdoctor.readers.hub import read_hub  # noqa: PLC0415 - most environments have no consumer of Hub kernels

    return read_hub(
        search_path,
        distributions,
        named=hub.kernels,
        online=hub.online,
        in_use=hub.in_use,
        variables=os.environ if target.kind == "environment" else None,
    )


def _machine(
    target: TargetFacts, environment: Environment, root: Path | None, options: ReadOptions
) -> MachineFacts | None:
    if not target.machine_examined:
        return None
    # Variables of this process say nothing about an image, nor about a folder that lies on the live machine.
    variables = options.variables if options.variables is not None or root is None else {}
    return read_machine(
        root or Path("/"),
        variables,
        interpreter=environment.facts,
        sites=environment.search_path,
        npu_smi_limit=options.npu_smi_limit if root is None else 0,
    )


def _linkage(
    torch: FolderTree | None,
    torch_npu: FolderTree | None,
    machine: MachineFacts | None,
    root: Path | None,
    options: ReadOptions,
) -> LinkageFacts | None:
    from flexdoctor.readers.elf import read_linkage  # noqa: PLC0415 - only for --deep

    variables = os.environ if options.variables is None and root is None else options.variables or {}
    return read_linkage(
        torch.root / "torch" if torch else None,
        torch_npu.root / "torch_npu" if torch_npu else None,
        machine.cann if machine else (),
        variables.get("LD_LIBRARY_PATH", "") if machine else "",
        Root(root or Path("/")),
    )


def _tree(search_path: Sequence[Path], module: str) -> FolderTree | None:
    site = next((item for item in search_path if (item / module).is_dir()), None)
    return FolderTree(site) if site else None


def _package_tree(search_path: Sequence[Path], module: str) -> FolderTree | None:
    """Find a package as `import` does, which passes over what an uninstall left: a folder without `__init__`."""
    return _tree([site for site in search_path if not is_leftover_folder(site / module)], module)


def _version(distributions: Sequence[InstalledDistribution], name: str) -> str:
    return next((item.version for item in distributions if item.name == name), "")
