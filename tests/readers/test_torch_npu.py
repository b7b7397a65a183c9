"""What torch-npu replaces, and when."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest

from flexdoctor.facts import TorchNpuFacts
from flexdoctor.readers.torch_npu import read_torch_npu
from flexdoctor.readers.trees import FolderTree


def read(site: Path, shape: builders.TorchNpuShape | None = None) -> TorchNpuFacts:
    shape = shape or builders.TorchNpuShape()
    builders.install_torch_npu(site, shape)
    return read_torch_npu(FolderTree(site), shape.version)


@pytest.mark.parametrize("when", ["import", "inductor_load", "transfer_to_npu", None])
def test_when_the_gate_is_replaced(site: Path, when: str | None) -> None:
    facts = read(site, builders.TorchNpuShape(gate=when))
    assert [patch.when for patch in facts.gate_patches] == ([when] if when else [])
    assert all(patch.target == "torch.nn.attention.flex_attention" for patch in facts.gate_patches)


def test_the_import_that_applies_a_patch_is_the_proof(site: Path) -> None:
    (patch,) = read(site).gate_patches
    assert patch.place.path.endswith("torch_npu/utils/patch_flexattention.py")
    assert patch.via is not None
    assert patch.via.path.endswith("torch_npu/_init/patches/npu_patches.py")
    assert patch.via.line == 2


@pytest.mark.parametrize(
    ("statement", "when"),
    [
        ("from torch_npu.utils import patch_flexattention", "import"),
        ("from torch_npu.utils import (\n    other,  # the first\n    patch_flexattention as p,\n)", "import"),
        ("from ...utils.patch_flexattention import patch", "import"),
        ("from ...utils import patch_flexattention", "import"),
        ("import torch_npu.utils.patch_flexattention as p", "import"),
        ("import torch, torch_npu.utils.patch_flexattention", "import"),
        ("from torch_npu.utils import other, \\\n    patch_flexattention", "import"),
        ("other = 1, \\\n    patch_flexattention", "unrecognised"),
        ("from torch_npu.utils import patch_flexattention_old", "unrecognised"),
        ("from other.utils import patch_flexattention", "unrecognised"),
        ("from .utils import patch_flexattention", "unrecognised"),
        ("from torch_npu.utils import other\nNAME = 'patch_flexattention'", "unrecognised"),
        ("from torch_npu.utils import (\n    other,\n)\npatch_flexattention()", "unrecognised"),
        ("from torch_npu.utils import other as patch_flexattention", "unrecognised"),
    ],
)
def test_whatever_way_the_start_up_imports_a_patch(site: Path, statement: str, when: str) -> None:
    builders.install_torch_npu(site)
    (site / "torch_npu/_init/patches/npu_patches.py").write_text(f"{statement}\n")
    (patch,) = read_torch_npu(FolderTree(site), "").gate_patches
    assert patch.when == when


def test_a_function_of_the_same_name_elsewhere_is_no_patch(site: Path) -> None:
    builders.install_torch_npu(site, builders.TorchNpuShape(gate=None))
    rpc = site / "torch_npu/distributed/rpc/backend_registry.py"
    rpc.parent.mkdir(parents=True)
    rpc.write_text("import torch.distributed as d\n\n\ndef _validate_device():\n    pass\n\n\nd._validate_device = 1\n")
    assert read_torch_npu(FolderTree(site), "").gate_patches == ()


def test_an_import_hook_that_gets_the_module_as_an_argument(site: Path) -> None:
    builders.install_torch_npu(site)
    (site / "torch_npu/utils/patch_flexattention.py").write_text(
        'NAME = "torch.nn.attention.flex_attention"\n\n\ndef patch(module):\n    module._validate_device = accept\n'
    )
    (patch,) = read_torch_npu(FolderTree(site), "").gate_patches
    assert (patch.when, patch.target) == ("import", "torch.nn.attention.flex_attention")


def test_a_patch_that_nothing_reaches_is_not_taken_for_one_at_import(site: Path) -> None:
    builders.install_torch_npu(site, builders.TorchNpuShape(gate=None))
    lonely = site / "torch_npu/utils/lonely.py"
    lonely.parent.mkdir(parents=True, exist_ok=True)
    lonely.write_text("from torch.nn.attention import flex_attention as f\n\n\ndef go():\n    f._validate_device = g\n")
    (patch,) = read_torch_npu(FolderTree(site), "").gate_patches
    assert patch.when == "unrecognised"


def test_extra_names_in_order_with_their_fallback(site: Path) -> None:
    steps = read(site).extra_steps
    assert [(step.name, step.binds, step.branch) for step in steps] == [
        ("cann.extension", "extension", "try"),
        ("cann.libdevice", "libdevice", "try"),
        ("ascend.libdevice", "libdevice", "except"),
    ]
    assert len({step.block for step in steps}) == 1


def test_extra_names_without_fallback(site: Path) -> None:
    steps = read(site, builders.TorchNpuShape(helpers=builders.HELPERS_ASCEND_ONLY)).extra_steps
    assert [(step.name, step.branch) for step in steps] == [
        ("ascend.libdevice", "plain"),
        ("ascend.libdevice", "plain"),
    ]


def test_a_byte_order_mark_does_not_hide_the_helpers(site: Path) -> None:
    builders.install_torch_npu(site)
    path = site / "torch_npu/_inductor/runtime/triton_helpers.py"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_torch_npu(FolderTree(site), "").extra_steps) == 3


def test_names_that_generated_kernels_import(site: Path) -> None:
    facts = read(site)
    assert facts.kernel_imports == ("libdevice", "extension", "math")
    assert facts.kernel_imports_at is not None
    assert facts.kernel_imports_at.line == 2


@pytest.mark.parametrize("handles", [True, False])
def test_operators_of_the_subgraph_lowering(site: Path, handles: bool) -> None:
    lowering = read(site, builders.TorchNpuShape(handles_index=handles)).lowering
    assert lowering is not None
    assert ("aten.index.Tensor" in lowering.handled_operators) is handles
    assert None not in (lowering.forward, lowering.backward, lowering.registered)


def test_no_kernel_means_allow_list(site: Path) -> None:
    facts = read(site, builders.TorchNpuShape(kernel=False))
    assert facts.lowering is None
    assert facts.lowering_policy == "allow-list"


def test_third_party_imports_at_load_are_followed_and_guarded_ones_are_not(site: Path) -> None:
    builders.install_torch_npu(site)
    root = site / "torch_npu/_inductor"
    (root / "__init__.py").write_text(
        "def _load_triton_backend():\n    from .stats import collect\n\n\n"
        "def _load_mlir_backend():\n    from .mlir import everything\n"
    )
    (root / "stats.py").write_text(
        "import os\nimport psutil\nfrom . import more\n\ntry:\n    import pandas\nexcept ImportError:\n    pass\n"
    )
    (root / "more.py").write_text("import torch\nfrom yaml import safe_load\n\n\ndef late():\n    import scipy\n")
    (root / "mlir.py").write_text("import torch_mlir\n")
    facts = read_torch_npu(FolderTree(site), "")
    assert [item.module for item in facts.imports] == ["psutil", "yaml"]
