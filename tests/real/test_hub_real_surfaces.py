"""Surfaces of real kernels from the index, against what a person reads in their sources."""

from __future__ import annotations

from pathlib import Path

import pytest
import real_wheels

from flexdoctor.readers.hub_surfaces import read_surface

pytestmark = pytest.mark.real

PRIVATE = ("flash_attn_interface._wrapped_flash_attn_forward", "flash_attn_interface._flash_attn_forward")


def stubs(folder: Path) -> Path:
    """Look-alikes of what the setup.py of a kernel imports before it says what it is called."""
    extension = (
        "class CppExtension:\n    def __init__(self, *a, **k): pass\n"
        "BuildExtension = CUDAExtension = NpuExtension = CppExtension\nIS_HIP_EXTENSION = False\n"
        "def __getattr__(name):\n    return None  # CUDA_HOME, ROCM_HOME and their like\n"
    )
    for name in ("torch/utils", "torch_npu/utils"):
        (folder / name).mkdir(parents=True)
    (folder / "torch/__init__.py").write_text(
        "__version__ = '2.13.0'\nclass version: cuda = hip = None\nclass _C: _GLIBCXX_USE_CXX11_ABI = True\n"
        "class cuda:\n    is_available = staticmethod(lambda: False)\n"
    )
    (folder / "torch_npu/__init__.py").write_text("")
    for name in ("torch/utils", "torch_npu/utils"):
        (folder / name / "__init__.py").write_text("")
        (folder / name / "cpp_extension.py").write_text(extension)
    return folder


def test_flash_attn_sdist(tmp_path: Path) -> None:
    folder = real_wheels.sdist("flash-attn", "2.8.3.post2", stubs(tmp_path / "stubs"))
    surface = read_surface(folder / "flash_attn", PRIVATE)
    func = surface.find("flash_attn_func")
    assert func is not None
    assert (func.gives, func.flags, func.length) == ("by flag", ("return_attn_probs",), 3)
    names = " ".join(item.name for item in func.parameters)
    assert names == (
        "q k v dropout_p softmax_scale causal window_size softcap alibi_slopes deterministic return_attn_probs"
    )
    wrapped = surface.find(PRIVATE[0])
    assert wrapped is not None
    assert (wrapped.state, wrapped.signature_known) == ("opaque", False)
    assert surface.varlen


def test_flash_attn_3_of_the_same_sdist_has_no_return_attn_probs(tmp_path: Path) -> None:
    """G12: `_flash_3` of diffusers 0.37 and later passes an argument that this build does not take."""
    folder = real_wheels.sdist("flash-attn", "2.8.3.post2", stubs(tmp_path / "stubs"))
    surface = read_surface(folder / "hopper" / "flash_attn_interface.py", ())
    func = surface.find("flash_attn_func")
    assert func is not None
    assert func.gives == "tensor"
    assert not func.accepts("return_attn_probs")
    assert func.accepts("deterministic")


def test_flash_attn_4_wheel() -> None:
    surface = read_surface(real_wheels.unpacked("flash-attn-4", "4.0.0b36") / "flash_attn" / "cute", PRIVATE)
    for name in ("flash_attn_func", "flash_attn_varlen_func"):
        func = surface.find(name)
        assert func is not None
        assert (func.gives, func.length) == ("tuple", 2)
        assert func.accepts("learnable_sink")
        assert not func.accepts("dropout_p")
    assert set(PRIVATE) <= set(surface.absent)
    assert "flash_attn_with_kvcache" in surface.absent


def test_flash_attn_npu_sdist(tmp_path: Path) -> None:
    folder = real_wheels.sdist("flash-attn-npu", "0.4.2.post1", stubs(tmp_path / "stubs"))
    surface = read_surface(
        folder / "flash_attn_npu", (*PRIVATE, "flash_attn_npu_interface._wrapped_flash_attn_forward")
    )
    func = surface.find("flash_attn_func")
    assert func is not None
    assert (func.gives, func.flags) == ("by flag", ("return_attn_probs",))
    # The private module has another name than in flash-attn, so what reaches for it there fails.
    assert set(PRIVATE) <= set(surface.absent)
    assert surface.find("flash_attn_npu_interface._wrapped_flash_attn_forward") is not None
    third = read_surface(folder / "flash_attn_npu_3", ())
    assert third.find("flash_attn_func") is not None
    fourth = read_surface(folder / "flash_attn_npu_4", ())
    varlen = fourth.find("flash_attn_varlen_func")
    assert varlen is not None
    assert varlen.accepts("learnable_sink") or not varlen.signature_known


def test_sageattention_wheel() -> None:
    surface = read_surface(real_wheels.unpacked("sageattention", "1.0.6") / "sageattention", ())
    func = surface.find("sageattn")
    assert func is not None
    assert func.gives == "tensor"
    assert func.parameter("return_lse") is None
    assert func.parameter("kwargs") is not None
    assert "flash_attn_func" in surface.absent
