"""The device gate of torch, in every form in which it has been written, and in some in which it has not yet."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest

from flexdoctor.readers.torch import GATE_FILE, read_torch
from flexdoctor.readers.trees import FolderTree

REQUIRES_GRAD = """
def _validate_device(query, key, value) -> None:
    if query.device.type == "cpu" and (query.requires_grad or key.requires_grad):
        raise NotImplementedError("no backward on CPU")
    supported = {"cpu", "cuda", "mps"}
    if query.device.type not in supported:
        raise ValueError(f"only some. Found {query.device.type}.")


def flex_attention():
    pass
"""
LOCAL_VARIABLE = """
def _validate_device(
    query,
    key,
):
    device = query.device.type
    # not what torch does today
    if not (query.device.type in ("cpu", "xpu")):
        raise ValueError("no")


def flex_attention():
    pass
"""
CALLS_OUT = """
def _validate_device(query, key, value):
    if not is_supported(query.device):
        raise ValueError("no")


def flex_attention():
    pass
"""


CALLS_ANOTHER = """
def _validate_device(query, key, value):
    check_elsewhere(query)


def flex_attention():
    pass
"""
DOES_NOTHING = '''
def _validate_device(query, key, value):
    """All devices are welcome."""
    return


def flex_attention():
    pass
'''


@pytest.mark.parametrize(
    ("source", "form", "accepted", "rejects_npu"),
    [
        pytest.param(builders.GATE_CHAIN, "function", ("cpu", "cuda"), True, id="comparisons"),
        pytest.param(builders.GATE_SET % '"cpu", "cuda", "hpu"', "function", ("cpu", "cuda", "hpu"), True, id="set"),
        pytest.param(builders.GATE_SET % '"cpu", "npu"', "function", ("cpu", "npu"), False, id="npu added by hand"),
        pytest.param(REQUIRES_GRAD, "function", ("cpu", "cuda", "mps"), True, id="with a test for backward"),
        pytest.param(LOCAL_VARIABLE, "function", ("cpu", "xpu"), True, id="negated tuple"),
        pytest.param(builders.GATE_ABSENT, "absent", (), False, id="no check"),
        pytest.param(DOES_NOTHING, "function", ("npu",), False, id="emptied by hand"),
        pytest.param(CALLS_ANOTHER, "unrecognised", (), False, id="checked elsewhere"),
        pytest.param(CALLS_OUT, "unrecognised", (), False, id="delegated"),
        pytest.param("def _validate_device(:\n", "unrecognised", (), False, id="syntax error"),
        pytest.param("\0", "unrecognised", (), False, id="not text"),
    ],
)
def test_gate(site: Path, source: str, form: str, accepted: tuple[str, ...], rejects_npu: bool) -> None:
    builders.install_torch(site, builders.TorchShape(gate=source))
    gate = read_torch(FolderTree(site), "").gate
    assert gate is not None
    assert (gate.form, gate.accepted) == (form, accepted)
    assert ("npu" in gate.rejected) is rejects_npu


def test_gate_is_found_at_its_line_with_the_message_a_user_sees(site: Path) -> None:
    builders.install_torch(site)
    gate = read_torch(FolderTree(site), "").gate
    assert gate is not None
    assert gate.place.line == 2
    assert gate.place.path == str(site / GATE_FILE)
    assert gate.message == "only supported on some devices. Found npu."


def test_no_flex_attention_at_all(site: Path) -> None:
    builders.install_torch(site, builders.TorchShape(flex=False))
    facts = read_torch(FolderTree(site), "")
    assert not facts.has_flex_attention
    assert facts.gate is None


@pytest.mark.parametrize(("source", "line"), [(builders.HAS_TRITON_MAJOR, 4), (builders.HAS_TRITON_CAPABLE, None)])
def test_major_comparison(site: Path, source: str, line: int | None) -> None:
    builders.install_torch(site, builders.TorchShape(has_triton=source))
    place = read_torch(FolderTree(site), "").major_comparison
    assert (place.line if place else None) == line


def test_modules_that_took_has_triton_by_name(site: Path) -> None:
    builders.install_torch(site)
    assert read_torch(FolderTree(site), "").has_triton_bindings == (
        "torch._dynamo.utils",
        "torch._inductor.compile_fx",
        "torch._inductor.runtime.autotune_cache",
        "torch._inductor.scheduler",
    )


def test_version_and_cuda_come_from_the_package_itself(site: Path) -> None:
    builders.install_torch(site, builders.TorchShape(version="2.13.0+cu130", cuda="13.0"))
    facts = read_torch(FolderTree(site), "2.13.0")
    assert (facts.version, facts.cuda) == ("2.13.0+cu130", "13.0")
