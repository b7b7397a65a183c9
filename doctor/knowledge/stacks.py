"""Pinned sets of packages that fit each other: what to move to, in which order, from which index."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Literal, cast

from packaging.version import Version

from flexdoctor.findings import CAPABILITIES, Capability
from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table

StackEvidence = Literal["published table", "measured from wheels", "derived", "reported"]
#: torch first, because torch-npu links against it; triton-ascend last, because it must own the shared files.
INSTALL_ORDER = ("torch", "torch-npu", "triton-ascend")
#: How far a row can be trusted when several fit.
TRUST: tuple[StackEvidence, ...] = ("published table", "measured from wheels", "reported", "derived")


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
    #: Whose it is: the company that added it; empty for those that come with flexdoctor.
    owner: str = ""

    @property
    def label(self) -> str:
        """The name, with whose it is."""
        return f"{self.name} ({self.owner})" if self.owner else self.name

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


@dataclass(frozen=True)
class Overlay:
    """What a company adds (see `flexdoctor.knowledge.overlay`)."""

    stacks: tuple[Stack, ...] = ()
    companions: Mapping[str, str] = field(default_factory=dict)
    #: Addresses of the company's own indexes.
    indexes: tuple[str, ...] = ()


_overlay: ContextVar[Overlay] = ContextVar("overlay", default=Overlay())  # noqa: B039 - frozen


@contextmanager
def extended(overlay: Overlay) -> Iterator[None]:
    """Let `overlay` count as known, before what comes with flexdoctor, until the context ends."""
    token = _overlay.set(overlay)
    try:
        yield
    finally:
        _overlay.reset(token)


@functools.cache
def shipped() -> tuple[Stack, ...]:
    """Return the sets that come with flexdoctor, in the order of the file."""
    table = load_table("stacks")
    urls = {name: row["url"] for name, row in table["index"].items()}
    return tuple(stack_of(row, urls) for row in table["stack"])


def stacks() -> tuple[Stack, ...]:
    """Return every known set: those of a company first."""
    return (*_overlay.get().stacks, *shipped())


def company_indexes() -> tuple[str, ...]:
    """Return the addresses of a company's indexes: for what needs one, the default index is not asked."""
    return _overlay.get().indexes


def stack_of(row: Mapping[str, Any], urls: Mapping[str, str], owner: str = "") -> Stack:
    """Return the set that a row of a table describes; `urls` are its indexes by name."""
    return Stack(
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
        owner=owner,
    )


def same_version(installed: str | None, pin: str | None) -> bool:
    """Tell whether what is installed is what a pin names; one without a local part takes any build of it."""
    if installed is None or pin is None:
        return installed == pin
    return installed == pin or ("+" not in pin and installed.partition("+")[0] == pin)


def fitting(python: str | None = None, architecture: str | None = None, cann: str | None = None) -> list[Stack]:
    """Return the sets that fit, best first.

    Those of a company go first; then most capabilities, then the best evidence, then the newest torch.

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

    Where torch or torch-npu must change in any case, a company's set goes before the others. `torch` and `torch_npu`
    are what is there now; None when no known set fits.
    """

    def cost(stack: Stack) -> tuple[bool, ...]:
        moves = (not same_version(torch_npu, stack.torch_npu), not same_version(torch, stack.torch))
        return (any(moves), not stack.owner, *moves)

    fits = [stack for stack in fitting(python, architecture, cann) if gives in stack.capabilities]
    return min(fits, key=cost, default=None)


def _rank(stack: Stack) -> tuple[bool, int, bool, int, tuple[int, ...]]:
    newest_first = tuple(-part for part in Version(stack.torch).release)
    missing = len(CAPABILITIES) - len(stack.capabilities)
    return not stack.owner, missing, stack.early_import, TRUST.index(stack.evidence), newest_first


def companions() -> dict[str, str]:
    """Return pins of what triton-ascend and torch-npu import without asking for it; a company's own go first."""
    return {**_shipped_companions(), **_overlay.get().companions}


@functools.cache
def _shipped_companions() -> dict[str, str]:
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
    """Return the oldest triton-ascend of a public set that compiles flex_attention."""
    pins = {
        stack.triton_ascend for stack in shipped() if "compiled_forward" in stack.capabilities and stack.triton_ascend
    }
    return min(pins, key=lambda pin: tuple(int(part) for part in pin.split(".")))


@functools.cache
def historic() -> tuple[Historic, ...]:
    """Return pins that are no longer what they were."""
    return tuple(Historic(**row) for row in load_table("stacks")["historic"])
