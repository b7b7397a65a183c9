"""Ground truth: real wheels side by side, against a table that was derived by reading those wheels.

How a row was derived (by grep in the unpacked wheels, not by the code under test):

- the gate: which file assigns `flex_attention._validate_device`. torch-npu 2.7.1, 2.9.0, 2.10.0.post4: none.
  2.7.1.post4, 2.9.0.post6, 2.10.0.post7: only _inductor/__init__.py. 2.13.0 and 2.14.0: utils/patch_flexattention.py,
  called from _init/patches/npu_patches.py, which `import torch_npu` runs.
- triton: triton-ascend 3.2.0 imports pybind11 (backends/ascend/utils.py:33), which is not there. Upstream wheels have
  no backends/ascend. So the first broken link behind an open gate is FD214, FD212 or FD211.
- captured tensors: `additional_lowerings[aten.index]` stands in kernel/flex_attention.py of 2.7.1.post4 and
  2.9.0.post6, and not in 2.10.0.post7, 2.13.0, 2.14.0.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
from real import wheelhouse

from flexdoctor import snapshots
from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import Facts
from flexdoctor.findings import Report
from flexdoctor.knowledge.record_examples import lay_out
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.readers.locks import Platform, read_plan
from flexdoctor.readers.planned import read_requirements, read_wheelhouse

pytestmark = pytest.mark.real

ASCEND, UPSTREAM, NONE = "triton-ascend", "upstream triton", "no triton"
ASCEND_PIN = "triton-ascend==3.2.0"
TRITON_CODES = {ASCEND: "FD214", UPSTREAM: "FD212", NONE: "FD211"}


@dataclass(frozen=True)
class Row:
    """One pair of torch and torch-npu. `gate` is the code of the device check, None where it is open at import."""

    torch: str
    torch_npu: str
    upstream: str
    gate: str | None
    #: Codes that every variant of triton shows besides.
    also: frozenset[str]


ROWS = [
    Row("2.7.1", "2.7.1", "3.5.1", "FD201", frozenset({"FD221", "FD241"})),
    Row("2.7.1", "2.7.1.post4", "3.5.1", "FD202", frozenset({"FD221"})),
    Row("2.9.0", "2.9.0", "3.5.1", "FD201", frozenset({"FD221", "FD241"})),
    Row("2.9.0", "2.9.0.post6", "3.5.1", "FD202", frozenset()),
    Row("2.10.0", "2.10.0.post4", "3.6.0", "FD201", frozenset({"FD241"})),
    Row("2.10.0", "2.10.0.post7", "3.6.0", "FD202", frozenset({"FD243"})),
    Row("2.13.0", "2.13.0", "3.7.1", None, frozenset({"FD114", "FD243"})),
    Row("2.14.0", "2.14.0", "3.8.0", None, frozenset({"FD114", "FD243"})),
]
#: With triton-ascend 3.2.0, which has extra.ascend only: those that want extra.cann.extension in their kernels.
WANTS_EXTENSION = {"2.7.1.post4", "2.9.0.post6", "2.10.0.post7", "2.13.0", "2.14.0"}
COMBINATIONS = list(itertools.product(ROWS, TRITON_CODES))
IDS = [f"{row.torch}+{row.torch_npu}+{triton}".replace(" ", "-") for row, triton in COMBINATIONS]


def pins_of(row: Row, triton: str) -> list[str]:
    pins = [f"torch=={row.torch}", f"torch-npu=={row.torch_npu}"]
    return pins + {ASCEND: [ASCEND_PIN], UPSTREAM: [f"triton=={row.upstream}"], NONE: []}[triton]


def answer(report: Report) -> tuple[str, str | None, dict[str, tuple[str, str | None]]]:
    capabilities: dict[str, tuple[str, str | None]] = {}
    for name, item in report.capabilities.items():
        capabilities[name] = (item.available, item.because)
    return report.verdict, report.root_cause.code if report.root_cause else None, capabilities


def expected_answer(row: Row, triton: str) -> tuple[str, str, dict[str, tuple[str, str | None]]]:
    first = row.gate or TRITON_CODES[triton]
    compiled = ("no", first)
    eager = ("no", row.gate) if row.gate else ("yes", None)
    names = ("compiled_forward", "compiled_backward", "compiled_captured")
    return "broken", first, {"eager": eager, **dict.fromkeys(names, compiled)}


def installed(row: Row, triton: str, tmp_path: Path) -> Facts:
    return read_site_packages(wheelhouse.site_of(pins_of(row, triton), tmp_path / "site-packages"))


@pytest.mark.parametrize(("row", "triton"), COMBINATIONS, ids=IDS)
def test_verdict_root_cause_and_capabilities(row: Row, triton: str, tmp_path: Path) -> None:
    report = diagnose(installed(row, triton, tmp_path), CHAIN)
    assert answer(report) == expected_answer(row, triton)
    codes = {item.code for item in report.findings if item.status in ("fail", "warn")}
    expected = row.also | {TRITON_CODES[triton]} | ({row.gate} if row.gate else set())
    if triton == ASCEND and row.torch_npu in WANTS_EXTENSION:
        expected |= {"FD232"}
    assert codes == expected
    for finding in report.findings:
        for item in finding.evidence:
            if item.kind == "file" and item.line and item.path:
                lines = Path(item.path).expanduser().read_text(encoding="utf-8-sig", errors="replace").splitlines()
                assert lines[item.line - 1].strip() == item.text


@pytest.mark.parametrize(("row", "triton"), COMBINATIONS, ids=IDS)
def test_wheelhouse_requirements_and_snapshot_give_the_same_answer(row: Row, triton: str, tmp_path: Path) -> None:
    facts = installed(row, triton, tmp_path)
    expected = answer(diagnose(facts, CHAIN))
    assert answer(diagnose(snapshots.parse(snapshots.dump(facts), "s"), CHAIN)) == expected
    house = tmp_path / "house"
    house.mkdir()
    for pin in pins_of(row, triton):
        path = wheelhouse.wheel(pin)
        (house / path.name).symlink_to(path)
    assert answer(diagnose(read_wheelhouse(house, Platform()), CHAIN)) == expected
    plan = read_plan(None, "\n".join(pins_of(row, triton)).encode(), Platform())
    assert answer(diagnose(read_requirements(plan, None, Platform()), CHAIN)) == expected


@pytest.mark.parametrize(
    ("order", "code", "error"),
    [
        (["triton-ascend==3.2.0", "triton==3.7.1"], "FD213", "RuntimeError: 0 active drivers ([])"),
        (["triton==3.7.1", "triton-ascend==3.2.0"], "FD217", "ImportError: cannot import name 'Language' from"),
    ],
    ids=["upstream last", "triton-ascend last"],
)
def test_two_tritons_over_each_other(order: list[str], code: str, error: str, tmp_path: Path) -> None:
    """Observed with the real packages: no driver in the one order, a failing `import triton` in the other."""
    site = wheelhouse.site_of(["torch==2.13.0", "torch-npu==2.13.0"], tmp_path / "site")
    for pin in order:
        lay_out(wheelhouse.wheel(pin), site)
    report = diagnose(read_site_packages(site), CHAIN)
    assert report.root_cause is not None
    assert report.root_cause.code == code
    assert report.root_cause.predicted_errors[0].startswith(error)
    if code == "FD213":
        # 34 shared paths, 29 of them with other content: counted from the two wheels' size and CRC.
        assert "29 of 34 shared files" in report.root_cause.title.en
