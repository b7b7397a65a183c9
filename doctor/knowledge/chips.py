"""Chips: names, PCI ids, operator folders, and whether Triton-Ascend compiles for them."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable
from typing import Any, Literal

from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table


@dataclass(frozen=True)
class ChipFamily:
    """Chips that share an operator package and a fate with Triton-Ascend."""

    key: str
    products: str
    pci: str
    kernel_folder: str
    ops_package: str
    triton: Literal["documented", "recent", "undocumented", "no"]
    nodes: tuple[str, ...]
    chips: tuple[str, ...]
    arch_override: tuple[str, ...]
    source: str
    date: datetime.date


@functools.cache
def families() -> tuple[ChipFamily, ...]:
    """Return every family of chips."""
    rows: list[dict[str, Any]] = load_table("chips")["family"]
    for row in rows:
        row.update({key: tuple(value) for key, value in row.items() if isinstance(value, list)})
    return tuple(ChipFamily(**row) for row in rows)


def family_of_pci(ids: Iterable[str]) -> ChipFamily | None:
    """Return the family of the PCI device ids, when they are all of one."""
    found = {family.key: family for family in families() if family.pci in set(ids)}
    return next(iter(found.values())) if len(found) == 1 else None


def family_of_chip(name: str) -> ChipFamily | None:
    """Return the family of a chip as CANN or npu-smi names it (Ascend910B3, 910B3).

    The exact name Ascend910B is an old 910. The 950s are many and alike: their prefix is enough.
    """
    full = name if name.startswith("Ascend") else f"Ascend{name}"
    spelled = full.replace("Ascend910B4_1", "Ascend910B4-1")
    for family in families():
        if spelled in family.chips:
            return family
    return next((family for family in families() if family.key == "950" and spelled.startswith("Ascend950")), None)


def arch_overrides() -> tuple[str, ...]:
    """Return the values that TRITON_ASCEND_ARCH accepts."""
    return tuple(name for family in families() for name in family.arch_override)
