"""Facts of an environment that does not exist yet: a list of pins, or a folder of wheels."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from flexdoctor.facts import (
    Distribution,
    Facts,
    InterpreterFacts,
    KnownRelease,
    PackagesFacts,
    TargetFacts,
    TorchFacts,
    TorchNpuFacts,
    TritonFacts,
    UnknownRelease,
)
from flexdoctor.hub_facts import CONSUMERS, HubFacts
from flexdoctor.knowledge import versions
from flexdoctor.readers.imports import declared_modules, modules_of, requirements, settle
from flexdoctor.readers.locks import Plan, Planned, Platform, describe_source
from flexdoctor.readers.packages import describe, owners_of, wanting_triton
from flexdoctor.readers.torch import read_torch
from flexdoctor.readers.torch_npu import read_torch_npu
from flexdoctor.readers.trees import fold_home
from flexdoctor.readers.triton import read_triton
from flexdoctor.readers.wheels import WheelDistribution, choose_wheels, fits_platform, open_wheelhouse

CHAIN = ("torch", "torch-npu", "triton-ascend", "triton")


def read_requirements(plan: Plan, path: Path | None, platform: Platform) -> Facts:
    """Return the facts of a list of pins, from the knowledge base."""
    packages = _with_implied_torch(plan, platform)
    releases = {
        item.name: release
        for item in packages
        if item.name in CHAIN and item.version and (release := versions.lookup(item.name, item.version))
    }
    source = describe_source(path)
    distributions = tuple(_distribution(item, source, releases.get(item.name), platform) for item in packages)
    modules = modules_of(item.name for item in packages) | declared_modules(distributions)
    return Facts(
        target=_target("requirements", source, platform),
        interpreter=_interpreter(platform),
        packages=PackagesFacts(
            distributions=distributions,
            triton_wanted_by=tuple(_wanting_triton(distributions, platform)),
            unknown_releases=tuple(_unknown(packages, releases)),
            known_releases=tuple(
                KnownRelease(item.package, item.version, item.evidence, item.source, item.date)
                for item in releases.values()
            ),
            implied=tuple(item.name for item in packages if item not in plan.packages),
            notes=tuple(plan.notes),
        ),
        torch=_torch(packages, releases),
        torch_npu=_settle_npu(releases["torch-npu"].torch_npu, modules) if "torch-npu" in releases else None,
        triton=_settle_triton(_planned_triton(packages, releases), modules),
    )


def read_wheelhouse(folder: Path, platform: Platform) -> Facts:
    """Return the facts of what an installer would take from a folder of wheels on `platform`.

    Raises:
        OSError: the folder cannot be listed.
    """
    wheels, notes = open_wheelhouse(folder)
    chosen, passed_over = choose_wheels(wheels, platform.python, platform.architecture)
    by_name = {wheel.name: wheel for wheel in chosen}
    described = tuple(describe(wheel) for wheel in chosen)
    modules = modules_of(by_name) | declared_modules(described)
    triton = _wheel_triton(by_name)
    return Facts(
        target=_target("wheels", fold_home(folder), platform),
        interpreter=_interpreter(platform),
        packages=PackagesFacts(
            distributions=described,
            triton_wanted_by=tuple(_wanting_triton(described, platform))
            or tuple(wanting_triton([wheel for wheel in chosen if wheel.name not in CHAIN])),
            notes=(*notes, *passed_over),
            unread=tuple(note for wheel in chosen for note in wheel.tree.unread),
        ),
        torch=read_torch(by_name["torch"].tree, by_name["torch"].version) if "torch" in by_name else None,
        torch_npu=_settle_npu(read_torch_npu(by_name["torch-npu"].tree, by_name["torch-npu"].version), modules)
        if "torch-npu" in by_name
        else None,
        triton=_settle_triton(triton, modules),
        hub=_hub(chosen),
    )


def _hub(chosen: Sequence[WheelDistribution]) -> HubFacts | None:
    if not any(wheel.name in CONSUMERS for wheel in chosen):
        return None
    from flexdoctor.readers.hub import read_planned_hub  # noqa: PLC0415 - most plans have no consumer of Hub kernels

    return read_planned_hub(chosen)


def _target(kind: Literal["requirements", "wheels"], source: str, platform: Platform) -> TargetFacts:
    assumed = "" if platform.is_stated else ", assumed"
    return TargetFacts(
        kind, f"{source}, planned for linux {platform.architecture}{assumed}", (), machine_examined=False
    )


def _interpreter(platform: Platform) -> InterpreterFacts:
    return InterpreterFacts("cpython", platform.python, platform.architecture, learned_from="the stated platform")


def _with_implied_torch(plan: Plan, platform: Platform) -> Sequence[Planned]:
    """Add the torch that torch-npu pins when the plan names none: an installer would bring it."""
    packages = list({item.name: item for item in reversed(plan.packages)}.values())[::-1]
    npu = next((item for item in packages if item.name == "torch-npu"), None)
    if npu is None or npu.version is None or any(item.name == "torch" for item in packages):
        return packages
    release = versions.lookup("torch-npu", npu.version)
    for requirement in requirements(release.requires_on(platform.architecture) if release else ()):
        if requirement.name == "torch":
            pins = [item.version.removesuffix(".*") for item in requirement.specifier if item.operator == "=="]
            if pins:
                packages.insert(0, Planned("torch", pins[0], str(requirement), npu.at))
    return packages


def _distribution(item: Planned, source: str, release: versions.Release | None, platform: Platform) -> Distribution:
    return Distribution(
        name=item.name,
        version=item.version or "",
        metadata_path=source,
        requires=tuple(_requires(item, release, platform)) if release else (),
        tags=tuple(sorted(_best_tags(release, platform))) if release else (),
        pinned_at=item.at,
    )


def _requires(item: Planned, release: versions.Release, platform: Platform) -> Iterator[str]:
    """Yield what the planned build asks for. Triton and NVIDIA's libraries are asked for by builds for GPUs alone."""
    is_for_cpu = (item.version or "").partition("+")[2] == "cpu"
    for line in release.requires_on(platform.architecture):
        if not is_for_cpu or not re.match(r"(?:triton|nvidia|cuda)\b", line):
            yield line


def _best_tags(release: versions.Release, platform: Platform) -> set[str]:
    """Return the tags of the wheel that fits, or of all when none does, so that the difference can be told."""
    fitting, every = set[str](), set[str]()
    for wheel in release.wheels:
        try:
            tags: frozenset[Tag] = parse_wheel_filename(wheel.filename)[3]
        except InvalidWheelFilename:
            continue
        every |= {str(tag) for tag in tags}
        if fits_platform(tags, platform.python, platform.architecture):
            fitting |= {str(tag) for tag in tags}
    return fitting or every


def _unknown(packages: Iterable[Planned], releases: Mapping[str, versions.Release]) -> Iterator[UnknownRelease]:
    for item in packages:
        if item.name in CHAIN and item.name not in releases:
            yield UnknownRelease(item.name, item.version, versions.nearest(item.name, item.version))


def _torch(packages: Iterable[Planned], releases: Mapping[str, versions.Release]) -> TorchFacts | None:
    release = releases.get("torch")
    if release is None or release.torch is None:
        return None
    planned = next(item for item in packages if item.name == "torch")
    # A pin with a local version names the build; without one, which build it is depends on the index.
    if "+" in (planned.version or ""):
        local = (planned.version or "").partition("+")[2]
        return dataclasses.replace(
            release.torch, version=planned.version or "", cuda=release.torch.cuda if local.startswith("cu") else None
        )
    return release.torch


def _planned_triton(packages: Iterable[Planned], releases: Mapping[str, versions.Release]) -> TritonFacts:
    """Lay triton-ascend over upstream triton, as a right installation would, and keep both claims."""
    ascend, upstream = releases.get("triton-ascend"), releases.get("triton")
    base = ascend.triton if ascend else upstream.triton if upstream else None
    if base is None:
        return TritonFacts()
    claims = tuple(claim for item in (ascend, upstream) if item and item.triton for claim in item.triton.claims)
    return dataclasses.replace(base, claims=claims)


def _wheel_triton(by_name: Mapping[str, WheelDistribution]) -> TritonFacts:
    owners = owners_of("triton", by_name.values())
    main = next((item for item in owners if item.name == "triton-ascend"), owners[0] if owners else None)
    return read_triton(main.tree if isinstance(main, WheelDistribution) else None, owners)


def _settle_npu(facts: TorchNpuFacts | None, modules: frozenset[str]) -> TorchNpuFacts | None:
    return None if facts is None else dataclasses.replace(facts, imports=settle(facts.imports, modules))


def _settle_triton(facts: TritonFacts, modules: frozenset[str]) -> TritonFacts:
    return dataclasses.replace(facts, imports=settle(facts.imports, modules))


def _wanting_triton(distributions: Iterable[Distribution], platform: Platform) -> Iterator[str]:
    for dist in distributions:
        if dist.name in ("triton", "triton-ascend"):
            continue
        for requirement in requirements(dist.requires):
            if requirement.name == "triton" and platform.wants(requirement.marker):
                yield f"{dist.name} {dist.version}: {requirement}"
