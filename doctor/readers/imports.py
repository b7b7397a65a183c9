"""Which imports at load a target can satisfy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from flexdoctor.facts import Distribution, LoadImport

#: Import names that differ from the name of their distribution.
_MODULE_OF = {"attrs": "attr", "pillow": "PIL", "protobuf": "google", "pyyaml": "yaml", "scikit-learn": "sklearn"}


def modules_of(names: Iterable[str]) -> frozenset[str]:
    """Return the modules that distributions of these normalised names bring, as far as their names tell."""
    return frozenset(_MODULE_OF.get(name, name.replace("-", "_")) for name in names)


def requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements of metadata lines, leaving out what is none."""
    for line in lines:
        try:
            yield Requirement(line)
        except InvalidRequirement:
            continue


def declared_modules(distributions: Iterable[Distribution]) -> frozenset[str]:
    """Return the modules that the chain's packages ask for in their metadata: an absent one is pip's to name."""
    chain = ("torch", "torch-npu", "triton-ascend")
    lines = [line for item in distributions if item.name in chain for line in item.requires]
    return modules_of(canonicalize_name(requirement.name) for requirement in requirements(lines))


def settle(imports: Iterable[LoadImport], modules: frozenset[str]) -> tuple[LoadImport, ...]:
    """Note of each import whether the target can satisfy it."""
    return tuple(dataclasses.replace(item, present=item.module in modules) for item in imports)
