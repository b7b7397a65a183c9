"""Sets of packages that the tests decide themselves, so that pins in knowledge may change."""

from __future__ import annotations

import datetime

from flexdoctor.checks import CHAIN
from flexdoctor.findings import COMPILED, Capability
from flexdoctor.knowledge.stacks import Stack
from flexdoctor.treatment.planning import Knowledge

#: The links of the packages: what the machine that runs the tests has of compilers, CANN and devices is left out.
PACKAGES = tuple(check for check in CHAIN if check.link not in ("interpreter", "cann", "devices"))
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def stack(
    name: str,
    torch: str,
    npu: str,
    ascend: str | None = "3.2.2",
    *,
    cann: tuple[str, ...] = ("9.1.0",),
    pythons: tuple[str, ...] = PYTHONS,
    indexes: dict[str, str] | None = None,
    capabilities: tuple[Capability, ...] = ("eager", "compiled_forward", "compiled_backward"),
    early_import: bool = False,
) -> Stack:
    return Stack(
        name=name,
        torch=torch,
        torch_npu=npu,
        triton_ascend=ascend,
        cann=cann,
        pythons=pythons,
        architectures=("x86_64", "aarch64"),
        indexes=indexes or {},
        capabilities=capabilities,
        early_import=early_import,
        evidence="derived",
        source="test",
        date=datetime.date(2026, 11, 30),
        note="",
    )


STACKS = (
    stack("new", "2.13.0", "2.13.0"),
    stack("late", "2.7.1", "2.7.1.post4", cann=("9.0.0",), capabilities=("eager", *COMPILED), early_import=True),
    stack("old", "2.7.1", "2.7.1.post11"),
    stack("eager", "2.13.0", "2.13.0", None, capabilities=("eager",)),
    stack("none", "2.9.0", "2.9.0", "3.2.0", cann=("8.5.0",), capabilities=()),
)


def fitting(python: str | None, architecture: str | None, cann: str | None) -> list[Stack]:
    minor = ".".join(python.split(".")[:2]) if python else None
    return [
        item
        for item in STACKS
        if (minor is None or minor in item.pythons)
        and (architecture is None or architecture in item.architectures)
        and (cann is None or cann in item.cann)
    ]


KNOWLEDGE = Knowledge(fitting, {"pybind11": "3.0.1", "psutil": "6.0.0"})
