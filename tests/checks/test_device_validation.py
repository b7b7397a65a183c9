"""Link 5 as rows of facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import samples

from flexdoctor.checks.device_validation import CHECK
from flexdoctor.facts import Facts, Gate, LoadImport, MachineFacts, Patch, TritonFacts, Unread
from flexdoctor.testing import run_check

ABSENT = Gate("absent", samples.place("torch/nn/attention/flex_attention.py"))
PATCHED_BY_HAND = replace(samples.GATE, accepted=("cpu", "npu"), rejected=())
UNRECOGNISED = Gate("unrecognised", samples.place("torch/nn/attention/flex_attention.py"))
ON_REQUEST = samples.patch(samples.GATE_AT_IMPORT.target, "transfer_to_npu", "torch_npu/contrib/transfer_to_npu.py")
SOMEHOW = samples.patch(samples.GATE_AT_IMPORT.target, "unrecognised", "torch_npu/somewhere.py")


def facts(gate: Gate | None = samples.GATE, patches: tuple[Patch, ...] = (), **changes: Any) -> Facts:
    torch = replace(samples.TORCH, gate=gate)
    return replace(samples.HEALTHY, torch=torch, torch_npu=replace(samples.TORCH_NPU, gate_patches=patches), **changes)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(samples.HEALTHY, id="replaced at import"),
        pytest.param(facts(ABSENT), id="torch 2.5 has no gate"),
        pytest.param(facts(PATCHED_BY_HAND), id="source patched by hand"),
        pytest.param(facts(UNRECOGNISED, (samples.GATE_AT_IMPORT,)), id="unknown gate, but replaced at import"),
        pytest.param(
            facts(patches=(ON_REQUEST,), machine=MachineFacts(environment={"TORCH_TRANSFER_TO_NPU": "1"})),
            id="transfer_to_npu is on",
        ),
    ],
)
def test_no_fault(row: Facts) -> None:
    assert [item.status for item in run_check(CHECK, row)] == ["pass"]


@pytest.mark.parametrize(
    ("row", "status", "code"),
    [
        pytest.param(facts(), "fail", "FD201", id="nobody replaces it"),
        pytest.param(facts(patches=(samples.GATE_AT_INDUCTOR,)), "fail", "FD202", id="too late"),
        pytest.param(facts(patches=(ON_REQUEST,)), "fail", "FD203", id="only on request"),
        pytest.param(facts(patches=(SOMEHOW,)), "unknown", "FD205", id="replaced, nobody knows when"),
        pytest.param(facts(UNRECOGNISED), "unknown", "FD205", id="unknown gate"),
        pytest.param(
            replace(samples.HEALTHY, torch=replace(samples.TORCH, has_flex_attention=False, gate=None)),
            "fail",
            "FD204",
            id="no flex_attention",
        ),
        pytest.param(
            replace(
                samples.HEALTHY,
                torch=replace(samples.TORCH, has_flex_attention=False, gate=None, unread=(Unread("x/torch/y", "no"),)),
            ),
            "unknown",
            "FD205",
            id="unreadable",
        ),
    ],
)
def test_fault(row: Facts, status: str, code: str) -> None:
    (finding,) = run_check(CHECK, row)
    assert (finding.status, finding.code) == (status, code)
    assert finding.affects == ("eager", "compiled_forward", "compiled_backward", "compiled_captured")


def test_the_error_that_a_user_sees_is_predicted() -> None:
    (finding,) = run_check(CHECK, facts())
    assert finding.predicted_errors == (f"ValueError: {samples.GATE.message}",)
    assert finding.evidence[0].line == 2075


def test_early_import_is_promised_only_where_triton_allows_it() -> None:
    late = (samples.GATE_AT_INDUCTOR,)
    (with_triton,) = run_check(CHECK, facts(patches=late))
    assert "import torch_npu._inductor" in with_triton.remedy.en
    assert "needs a working triton-ascend" not in with_triton.remedy.en
    lacking = replace(samples.TRITON, imports=(LoadImport("pybind11", samples.place("x"), present=False),))
    for triton in (TritonFacts(), lacking):
        (without,) = run_check(CHECK, facts(patches=late, triton=triton))
        assert "needs a working triton-ascend" in without.remedy.en


def test_an_open_gate_without_kernel_is_no_cure() -> None:
    npu = replace(samples.TORCH_NPU, gate_patches=(), lowering=None)
    (finding,) = run_check(CHECK, replace(samples.HEALTHY, torch_npu=npu))
    assert "eager flex_attention only" in finding.detail.en
