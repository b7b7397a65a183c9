"""Pinned sets of packages that fit each other: what to move to, in which order, from which index."""

from __future__ import annotations

import datetime
import functools
from typing import Literal, cast

from flexdoctor.findings import CAPABILITIES, Capability
from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table

StackEvidence = Literal["published table", "measured from wheels", "derived", "reported"]
#: torch first, because torch-npu links against it; triton-ascend last, because it must own the shared files.
INSTALL_ORDER = ("torch", "torch-npu", "triton-ascend")
#: How far a row can be trusted when several fit.
_TRUST: tuple[StackEvidence, ...] = ("published table", "measured from wheels", "reported", "derived")


@dataclass(frozen=True)
class Stack:
    """One set. `indexes` maps a distribution to the URL of the extra index that it alone needs."""

    name: str
    torch: str
    torch_npu: str
    triton_ascend: str | None
    cann: tuple[str, ...]
    pythons: tuple[str, ...]
    architectures: tuple[str, ...]
    indexes: dict[str, str]
    capabilities: tuple[Capability, ...]
    early_import: bool
    evidence: StackEvidence
    source: str
    date: datetime.date
    note: str

    @property
    def order(self) -> tuple[str, ...]:
        """Distributions in the order in which they must be installed."""
        return tuple(name for name in INSTALL_ORDER if self.pin(name) is not None)

    def pin(self, distribution: str) -> str | None:
        """Return the version of `torch`, `torch-npu` or `triton-ascend` in this set."""
        return {"torch": self.torch, "torch-npu": self.torch_npu, "triton-ascend": self.triton_ascend}.get(distribution)


@dataclass(frozen=True)
class Historic:
    """Pins that are in circulation, and the name of the set that they are today."""

    said: str
    today: str
    note: str
    source: str
    date: datetime.date


@functools.cache
def stacks() -> tuple[Stack, ...]:
    """Return every known set, in the order of the file."""
    table = load_table("stacks")
    urls = {name: row["url"] for name, row in table["index"].items()}
    return tuple(
        Stack(
            name=row["name"],
            torch=row["torch"],
            torch_npu=row["torch_npu"],
            triton_ascend=row.get("triton_ascend"),
            cann=tuple(row["cann"]),
            pythons=tuple(row["pythons"]),
            architectures=tuple(row["architectures"]),
            indexes={distribution: urls[name] for distribution, name in row.get("indexes", {}).items()},
            capabilities=tuple(cast("list[Capability]", row["capabilities"])),
            early_import=row["early_import"],
            evidence=row["evidence"],
            source=row["source"],
            date=row["date"],
            note=row["note"],
        )
        for row in table["stack"]
    )


def fitting(python: str | None = None, architecture: str | None = None, cann: str | None = None) -> list[Stack]:
    """Return the sets that fit, best first: most capabilities, then the best evidence, then the newest torch.

    Args:
        python: "3.11" or "3.11.9"; None when not known.
        architecture: as `uname -m` spells it.
        cann: "9.1.0"; a set fits when it names that version.
    """
    minor = ".".join(python.split(".")[:2]) if python else None
    fits = [
        stack
        for stack in stacks()
        if (minor is None or minor in stack.pythons)
        and (architecture is None or architecture in stack.architectures)
        and (cann is None or cann in stack.cann)
    ]
    return sorted(fits, key=_rank)


def nearest(
    gives: Capability,
    *,
    torch: str | None = None,
    torch_npu: str | None = None,
    python: str | None = None,
    architecture: str | None = None,
    cann: str | None = None,
) -> Stack | None:
    """Return the set that gives a capability and changes least: same torch-npu, else same torch, else the best.

    `torch` and `torch_npu` are what is there now; None when no known set fits.
    """
    fits = [stack for stack in fitting(python, architecture, cann) if gives in stack.capabilities]
    public = torch.partition("+")[0] if torch else None
    return min(fits, key=lambda stack: (stack.torch_npu != torch_npu, stack.torch != public), default=None)


def _rank(stack: Stack) -> tuple[int, bool, int, tuple[int, ...]]:
    newest_first = tuple(-int(part) for part in stack.torch.split("."))
    missing = len(CAPABILITIES) - len(stack.capabilities)
    return missing, stack.early_import, _TRUST.index(stack.evidence), newest_first


@functools.cache
def companions() -> dict[str, str]:
    """Return pins of what triton-ascend and torch-npu import without asking for it."""
    return {name: row["version"] for name, row in load_table("stacks")["companions"].items()}


@dataclass(frozen=True)
class Index:
    """A package index that some sets need beside the default one."""

    url: str
    holds: str
    source: str
    date: datetime.date


@functools.cache
def index(name: Literal["vendor", "pytorch-cpu"]) -> Index:
    """Return the vendor's index, or the one of torch's `+cpu` builds."""
    return Index(**load_table("stacks")["index"][name])


@functools.cache
def oldest_compiling_triton_ascend() -> str:
    """Return the oldest triton-ascend of a set that compiles flex_attention."""
    pins = {
        stack.triton_ascend for stack in stacks() if "compiled_forward" in stack.capabilities and stack.triton_ascend
    }
    return min(pins, key=lambda pin: tuple(int(part) for part in pin.split(".")))


@functools.cache
def historic() -> tuple[Historic, ...]:
    """Return pins that are no longer what they were."""
    return tuple(Historic(**row) for row in load_table("stacks")["historic"])
