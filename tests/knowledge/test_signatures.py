"""Errors as the real packages raised them lead to the link that is broken, from an exception and from a log."""

from __future__ import annotations

import pytest

from flexdoctor.checks import CHAIN
from flexdoctor.knowledge.signatures import Match, Raised, match_line, recognise, signatures, unwrap

CODES = {fault.code for check in CHAIN for fault in check.faults}
LIBRARY = "libhccl.so: cannot open shared object file: No such file or directory"
SUBGRAPH = (
    "LoweringException: SubgraphLoweringException: Buffers cannot be created while lowering a pointwise subgraph. "
    "This could be for a good reason (e.g. you're calling an op we can't codegen as a pointwise op), but it could also "
    "be a bug.\n  target: flex_attention"
)


def codes(match: Match | None) -> tuple[str, ...]:
    assert match is not None
    return match.signature.codes


@pytest.mark.parametrize(
    ("kind", "message", "frames", "code"),
    [
        # Texts and frames as they were seen when the published wheels were tried on 2026-11-30.
        ("ImportError", LIBRARY, ("torch_npu/npu/utils.py <module>",), "FD123"),
        (
            "ImportError",
            LIBRARY + ". Please check that the cann package is installed. Please run 'source set_env.sh' in the CANN "
            "installation path.",
            (),
            "FD123",
        ),
        (
            "ValueError",
            "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. Found input tensors on npu device.",
            ("torch/nn/attention/flex_attention.py _validate_device",),
            "FD201",
        ),
        (
            "ValueError",
            "FlexAttention is only supported on CUDA or CPU devices. Found input tensors on npu device.",
            (),
            "FD202",
        ),
        ("ModuleNotFoundError", "No module named 'pybind11'", (), "FD214"),
        ("ModuleNotFoundError", "No module named 'triton'", (), "FD211"),
        ("RuntimeError", "0 active drivers ([]). There should only be one.", (), "FD213"),
        (
            "ImportError",
            "cannot import name 'Language' from 'triton.backends.compiler' (<env>/triton/backends/compiler.py)",
            (),
            "FD217",
        ),
        (
            "ImportError",
            "cannot import name 'amd' from 'triton._C.libtriton' (<env>/triton/_C/libtriton.so)",
            (),
            "FD217",
        ),
        ("AttributeError", "module 'triton' has no attribute 'language'", (), "FD216"),
        ("ModuleNotFoundError", "No module named 'triton.runtime.driver'", (), "FD216"),
        (
            "TypeError",
            "'>=' not supported between instances of 'NoneType' and 'int'",
            ("torch/utils/_triton.py cuda_extra_check",),
            "FD222",
        ),
        (
            "TypeError",
            "'>=' not supported between instances of 'NoneType' and 'tuple'",
            ("torch/_inductor/compile_fx.py _warn_tf32_disabled",),
            "FD222",
        ),
        (
            "InductorError",
            "LoweringException: ImportError: cannot import name 'extension' from "
            "'torch_npu._inductor.runtime.triton_helpers' (<env>/torch_npu/_inductor/runtime/triton_helpers.py)\n"
            "  target: flex_attention",
            (),
            "FD232",
        ),
        ("ModuleNotFoundError", "No module named 'triton.language.extra.cann'", (), "FD231"),
        ("InductorError", SUBGRAPH, (), "FD243"),
        (
            "InductorError",
            "LoweringException: RuntimeError: 0 active drivers ([]). There should only be one.\n  target: x",
            (),
            "FD213",
        ),
        ("InductorError", "LoweringException: ModuleNotFoundError: No module named 'triton'\n  target: x", (), "FD211"),
        ("ModuleNotFoundError", "No module named 'psutil'", ("torch_npu/_inductor/x.py <module>",), "FD244"),
    ],
)
def test_an_error_of_the_chain_leads_to_its_code(kind: str, message: str, frames: tuple[str, ...], code: str) -> None:
    assert code in codes(recognise([Raised(kind, message, frames)]))


@pytest.mark.parametrize(
    ("kind", "message", "frames"),
    [
        ("ValueError", "operands could not be broadcast together", ()),
        # The same words from the user's own code are not torch's comparison.
        ("TypeError", "'>=' not supported between instances of 'NoneType' and 'int'", ("train.py main",)),
        ("ImportError", "libcudart.so.12: cannot open shared object file: No such file or directory", ()),
        ("ModuleNotFoundError", "No module named 'triton_kernels'", ()),
        ("ModuleNotFoundError", "No module named 'psutil'", ("train.py <module>",)),
        ("RuntimeError", "Found 10 active drivers", ()),
    ],
)
def test_an_error_of_something_else_is_unknown(kind: str, message: str, frames: tuple[str, ...]) -> None:
    assert recognise([Raised(kind, message, frames)]) is None


def test_the_first_cause_decides_over_what_was_made_of_it() -> None:
    chain = [Raised("ImportError", LIBRARY), Raised("RuntimeError", "Failed to load the backend extension: torch_npu.")]
    match = recognise(chain)
    assert match is not None
    assert match.signature.name == "cann library not found"


def test_a_message_that_quotes_its_cause_is_taken_apart() -> None:
    wrapped = Raised("BackendCompilerFailed", "backend='inductor' raised:\nRuntimeError: 0 active drivers ([])")
    assert [raised.type for raised in unwrap(wrapped)] == ["BackendCompilerFailed", "RuntimeError"]
    assert "FD213" in codes(recognise([wrapped]))


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (
            "UserWarning: triton-ascend is not installed. Please install it first.",
            "triton absent, as torch-npu says it",
        ),
        ("SetDevice, error code is 507033", "driver and cann apart"),
        ("open device failed, errorCode = 507033", "driver and cann apart"),
        ("HTTP error code: 507033", None),
        ("error code is 5070331", None),
        # A row that asks for a frame knows no line.
        ("Failed to run BiShengIR pipeline", "npu kernel compiler"),
    ],
)
def test_a_line_that_is_no_exception_counts_too(line: str, row: str | None) -> None:
    match = match_line(line)
    assert (match.signature.name if match else None) == row


def test_every_row_is_whole_and_names_only_codes_that_exist() -> None:
    names = [signature.name for signature in signatures()]
    assert len(names) == len(set(names))
    for signature in signatures():
        assert set(signature.codes) <= CODES, signature.name
        assert signature.meaning.en, signature.name
        assert any("\u4e00" <= character <= "\u9fff" for character in signature.meaning.zh), signature.name
        assert signature.basis in ("real", "observed", "reported", "read")
        assert signature.source
