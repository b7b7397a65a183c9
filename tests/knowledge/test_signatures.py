"""Errors as the real packages raised them lead to the link that is broken, from an exception and from a log."""

from __future__ import annotations

import pytest

from flexdoctor.checks import CHAIN
from flexdoctor.knowledge.signatures import Match, Raised, recognise, recognise_text, signatures, unrecognised, unwrap

CODES = {fault.code for check in CHAIN for fault in check.faults}
LIBRARY = "libhccl.so: cannot open shared object file: No such file or directory"
SUBGRAPH = (
    "LoweringException: SubgraphLoweringException: Buffers cannot be created while lowering a pointwise subgraph. "
    "This could be for a good reason (e.g. you're calling an op we can't codegen as a pointwise op), but it could also "
    "be a bug.\n  target: flex_attention"
)
PYBIND = """\
Traceback (most recent call last):
  File "<string>", line 1, in <module>
  File "<env>/lib/python3.11/site-packages/triton/backends/__init__.py", line 50, in <module>
    backends = _discover_backends()
               ^^^^^^^^^^^^^^^^^^^^
  File "<env>/lib/python3.11/site-packages/triton/backends/ascend/utils.py", line 33, in <module>
    import pybind11
ModuleNotFoundError: No module named 'pybind11'
"""
AUTOLOAD = """\
Traceback (most recent call last):
  File "<env>/lib/python3.11/site-packages/torch_npu/npu/utils.py", line 8, in <module>
    import torch_npu._C
ImportError: libhccl.so: cannot open shared object file: No such file or directory

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<env>/lib/python3.11/site-packages/torch/__init__.py", line 3077, in <module>
    _import_device_backends()
  File "<env>/lib/python3.11/site-packages/torch/__init__.py", line 3034, in _import_device_backends
    raise RuntimeError(
RuntimeError: Failed to load the backend extension: torch_npu. You can disable extension auto-loading with \
TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""


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


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "2026-11-30 11:50:07,170 | ERROR | ", "E   "])
def test_a_log_is_read_with_what_stands_before_its_lines(prefix: str) -> None:
    log = "".join(f"{prefix}{line}\n" for line in PYBIND.splitlines())
    (match,) = recognise_text(f"some line\n\n{log}\nmore: text\n")
    assert codes(match) == ("FD214",)
    assert match.raised.line == 10


def test_a_log_with_a_chain_gives_its_cause_first() -> None:
    first, second = recognise_text(AUTOLOAD)
    assert first.signature.name == "cann library not found"
    assert first.raised.frames == ("<env>/lib/python3.11/site-packages/torch_npu/npu/utils.py <module>",)
    assert second.signature.name == "autoload"


def test_lines_without_an_exception_count_too() -> None:
    log = "UserWarning: triton-ascend is not installed. Please install it first.\nSetDevice, error code is 507033\n"
    assert [match.signature.name for match in recognise_text(log)] == [
        "triton absent, as torch-npu says it",
        "driver and cann apart",
    ]


def test_an_unknown_log_is_given_back_whole() -> None:
    log = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 5\n'
    assert recognise_text(log) == []
    assert [(raised.type, raised.message, raised.frames) for raised in unrecognised(log)] == [
        ("KeyError", "5", ("a.py f",))
    ]


def test_colours_and_broken_characters_do_not_hide_an_error() -> None:
    log = "\x1b[31mRuntimeError: 0 active drivers ([]). There should only be one.\x1b[0m\n\udcff\ufffd\n"
    assert "FD213" in codes(recognise_text(log)[0])


def test_every_row_is_whole_and_names_only_codes_that_exist() -> None:
    names = [signature.name for signature in signatures()]
    assert len(names) == len(set(names))
    for signature in signatures():
        assert set(signature.codes) <= CODES, signature.name
        assert signature.meaning.en, signature.name
        assert any("\u4e00" <= character <= "\u9fff" for character in signature.meaning.zh), signature.name
        assert signature.basis in ("real", "observed", "reported", "read")
        assert signature.source


def test_a_log_of_many_lines_is_read_in_linear_time() -> None:
    # A log without end is cut by its reader; here it only must not blow up.
    lines = ["x: y Error " * 20] * 20_000
    assert recognise_text(lines) == []
