"""A guard for test runs: fails when diffusers or transformers and the kernels they load no longer go together.

Off unless asked for, by `--flexdoctor-kernels`, by `--flexdoctor-kernel REPO[@VERSION]|PATH`, or in the configuration:

    [tool.pytest.ini_options]
    flexdoctor_kernels = true

It adds one test, which looks at the consumers on this interpreter's path and at the kernels that are cached or named,
without importing any of them. Mismatches that only show under context parallelism, or when a log-sum-exp is asked for,
are reported as a warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flexdoctor.findings import Finding

__all__ = ["KernelsItem", "pytest_addoption", "pytest_collection_modifyitems"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; nothing else of flexdoctor is loaded for a run that does not use them."""
    group = parser.getgroup("flexdoctor", "attention kernels from the Hub")
    group.addoption(
        "--flexdoctor-kernels",
        action="store_true",
        default=False,
        help="fail when diffusers or transformers and the cached kernels do not go together",
    )
    group.addoption(
        "--flexdoctor-kernel",
        action="append",
        default=[],
        metavar="REPO[@VERSION]|PATH",
        help="look at this kernel instead of the cached ones; may be given several times",
    )
    parser.addini("flexdoctor_kernels", "like --flexdoctor-kernels", type="bool", default=False)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the one test, when it is asked for."""
    named: list[str] = config.getoption("--flexdoctor-kernel")
    if named or config.getoption("--flexdoctor-kernels") or config.getini("flexdoctor_kernels"):
        items.append(KernelsItem.from_parent(session, name="flexdoctor-hub-kernels", named=named))


class KernelsMismatchError(Exception):
    """What the guard found, ready to be shown."""


class KernelsItem(pytest.Item):
    """The test that fails when consumers and kernels do not go together."""

    def __init__(self, *, named: Iterable[str] = (), **arguments: object) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]
        self.named = tuple(named)

    def runtest(self) -> None:
        """Compare, and raise with everything that was found."""
        found = _examine(self.named)
        faults = [item for item in found if item.severity == "error"]
        for item in found:
            if item.severity == "warning":
                warnings.warn(pytest.PytestWarning(f"{item.code} {item.title.en}"), stacklevel=1)
        if faults:
            raise KernelsMismatchError("\n\n".join(_shown(item) for item in faults))

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: object = None,
    ) -> str:
        """Show the findings, not where they were raised."""
        if isinstance(excinfo.value, KernelsMismatchError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the test."""
        return self.path, None, "flexdoctor: kernels from the Hub"


def _examine(named: tuple[str, ...]) -> list[Finding]:
    from flexdoctor.chain import diagnose  # noqa: PLC0415
    from flexdoctor.checks import hub_kernels  # noqa: PLC0415
    from flexdoctor.readers.environment import HubOptions, read_search_path  # noqa: PLC0415
    from flexdoctor.readers.hub import KernelSpecError, parse_kernel  # noqa: PLC0415

    try:
        options = HubOptions(tuple(parse_kernel(item) for item in named), in_use=True)
    except KernelSpecError as error:
        raise pytest.UsageError(f"--flexdoctor-kernel: {error}") from error
    facts = read_search_path([Path(entry) for entry in sys.path if entry], options)
    return list(diagnose(facts, (hub_kernels.CHECK,)).findings)


def _shown(finding: Finding) -> str:
    lines = [f"{finding.code} {finding.title.en}"]
    lines += [
        f"  proof  {item.path}:{item.line}  {item.text}" if item.line else f"  proof  {item.path or ''} {item.text}"
        for item in finding.evidence
    ]
    lines += [f"  you see  {error}" for error in finding.predicted_errors]
    if finding.detail.en:
        lines.append(f"  why  {finding.detail.en}")
    if finding.remedy.en:
        lines.append(f"  fix  {finding.remedy.en}")
    return "\n".join(lines)
