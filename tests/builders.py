"""Environments on disk, as small as the question that a test asks: wheels' files with RECORD, venvs, torch look-alikes.

The sources written here have the shape of the real ones and none of their text; tests/real reads the real ones.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

GATE_SET = """
def _validate_device(query, key, value):
    allowed = {%s}
    if query.device.type not in allowed:
        raise ValueError("only supported on some devices. " f"Found {query.device.type}.")


def flex_attention(query, key, value):
    _validate_device(query, key, value)
"""
GATE_CHAIN = """
def _validate_device(query, key, value):
    if query.device.type != "cuda" and query.device.type != "cpu":
        raise ValueError("only supported on CUDA or CPU.")


def flex_attention(query, key, value):
    _validate_device(query, key, value)
"""
GATE_ABSENT = """
def flex_attention(query, key, value):
    return query
"""
HAS_TRITON_MAJOR = """
def has_triton():
    def cuda_extra_check(device_interface):
        return device_interface.Worker.get_device_properties().major >= 7
    return True
"""
HAS_TRITON_CAPABLE = """
def has_triton():
    return any(interface.is_triton_capable() for interface in interfaces())
"""
HELPERS_CANN_THEN_ASCEND = """
import logging
import triton.language as tl

try:
    extension = tl.extra.cann.extension
    libdevice = tl.extra.cann.libdevice
except Exception as error:
    logging.debug("%s", error)
    libdevice = tl.extra.ascend.libdevice
"""
HELPERS_ASCEND_ONLY = """
import triton.language as tl
import triton.language.extra.ascend.libdevice as libdevice

libdevice = tl.extra.ascend.libdevice
"""
FLEX_KERNEL = """
def _get_flex_attention_additional_lowerings():
    lowerings = {}
%s
    return lowerings


def _validate_device(query, key, value):
    return


def _register_npu_inductor_flex_attention():
    @register_lowering(torch.ops.higher_order.flex_attention, type_promotion_kind=None)
    def forward(*args):
        pass

    @register_lowering(torch.ops.higher_order.flex_attention_backward, type_promotion_kind=None)
    def backward(*args):
        pass
"""


def digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def install(
    site: Path,
    name: str,
    version: str,
    files: Mapping[str, str | bytes] = {},
    *,
    requires: Iterable[str] = (),
    tag: str = "py3-none-any",
    record: bool = True,
) -> Path:
    """Lay a distribution into `site` as pip would: its files, METADATA, WHEEL, RECORD. Returns the dist-info folder."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    rows = []
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
        rows.append(f"{path},sha256={digest(data)},{len(data)}")
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {item}" for item in requires),
    ]
    (info / "METADATA").write_text("\n".join(metadata) + "\n")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    if record:
        rows += [f"{info.name}/METADATA,,", f"{info.name}/WHEEL,,", f"{info.name}/RECORD,,"]
        (info / "RECORD").write_text("\n".join(rows) + "\n")
    return info


@dataclass(frozen=True)
class TorchShape:
    """What a look-alike of torch says."""

    version: str = "2.13.0"
    gate: str = GATE_SET % '"cpu", "cuda"'
    has_triton: str = HAS_TRITON_MAJOR
    cuda: str | None = None
    flex: bool = True


def install_torch(site: Path, shape: TorchShape = TorchShape()) -> None:
    files = {
        "torch/__init__.py": "",
        "torch/version.py": f"__version__ = '{shape.version}'\ncuda: Optional[str] = {shape.cuda!r}\n",
        "torch/utils/_triton.py": shape.has_triton,
        "torch/_dynamo/utils.py": "from torch.utils._triton import has_triton, has_triton_package\n",
        "torch/_inductor/compile_fx.py": "from ..utils._triton import has_triton\n",
        "torch/_inductor/runtime/autotune_cache.py": "from torch.utils._triton import has_triton\n",
        "torch/_inductor/scheduler.py": "from torch.utils._triton import has_triton\n",
        "torch/_inductor/subgraph_lowering.py": (
            'raise E("Buffers cannot be created while lowering a pointwise subgraph.")\n'
        ),
    }
    if shape.flex:
        files["torch/nn/attention/flex_attention.py"] = shape.gate
    install(site, "torch", shape.version.partition("+")[0], files, tag="cp311-cp311-manylinux_2_28_aarch64")


@dataclass(frozen=True)
class TorchNpuShape:
    """What a look-alike of torch-npu does. `gate` is when it replaces the device check, None for never."""

    version: str = "2.13.0"
    torch_pin: str = "torch==2.13.0.*"
    gate: str | None = "import"
    helpers: str = HELPERS_CANN_THEN_ASCEND
    kernel_imports: str = "libdevice, extension, math as tl_math"
    kernel: bool = True
    handles_index: bool = False
    transfer_patches: tuple[str, ...] = (
        "torch.utils._triton",
        "torch._dynamo.utils",
        "torch._inductor.runtime.autotune_cache",
        "torch._inductor.compile_fx",
    )


def install_torch_npu(site: Path, shape: TorchNpuShape = TorchNpuShape()) -> None:
    loader = ["def _load_triton_backend():", "    from torch.nn.attention import flex_attention"]
    if shape.gate == "inductor_load":
        loader.append("    flex_attention._validate_device = _validate_device")
    if shape.kernel:
        loader.append("    _register_npu_inductor_flex_attention()")
    operators = ["aten.bitwise_and.Tensor", *(["aten.index", "aten.index.Tensor"] if shape.handles_index else [])]
    files = {
        "torch_npu/__init__.py": "from torch_npu._init.patches import npu_patches\n",
        "torch_npu/version.py": f"__version__ = '{shape.version}'\n",
        "torch_npu/_init/patches/npu_patches.py": "",
        "torch_npu/_inductor/__init__.py": "\n".join(loader) + "\n",
        "torch_npu/_inductor/utils.py": "import torch\n\n\ndef patch_has_triton():\n"
        "    torch._inductor.scheduler.has_triton = has_triton\n",
        "torch_npu/_inductor/runtime/triton_helpers.py": shape.helpers,
        "torch_npu/_inductor/codegen/triton.py": (
            f'HEADER = """\n    from torch_npu._inductor.runtime.triton_helpers import {shape.kernel_imports}\n"""\n'
        ),
        "torch_npu/_inductor/lowering_fallback_list.py": "INDIRECT_MEM_FALLBACK_LIST = []\n",
        "torch_npu/contrib/transfer_to_npu.py": "import torch\n\n\ndef _init():\n    pass\n"
        + "".join(f"    {target}.has_triton = no_triton\n" for target in shape.transfer_patches),
    }
    if not shape.kernel:
        files["torch_npu/_inductor/lowering_fallback_list.py"] = ""
        files["torch_npu/_inductor/lowering_op_list.py"] = "GENERATE_LIST = []\n"
    if shape.kernel:
        files["torch_npu/_inductor/kernel/flex_attention.py"] = FLEX_KERNEL % "\n".join(
            f"    lowerings[{name}] = take" for name in operators
        )
    if shape.gate == "import":
        files["torch_npu/_init/patches/npu_patches.py"] = (
            "def apply():\n    from torch_npu.utils.patch_flexattention import patch\n    patch()\n"
        )
        files["torch_npu/utils/patch_flexattention.py"] = (
            "def patch():\n    from torch.nn.attention import flex_attention as module\n"
            "    module._validate_device = accept\n"
        )
    if shape.gate == "transfer_to_npu":
        files["torch_npu/contrib/transfer_to_npu.py"] += (
            "    from torch.nn.attention import flex_attention\n    flex_attention._validate_device = accept\n"
        )
    install(
        site,
        "torch-npu",
        shape.version,
        files,
        requires=[shape.torch_pin],
        tag="cp311-cp311-manylinux_2_28_aarch64",
    )


def triton_ascend_files(
    *, extra: Iterable[str] = ("cann/libdevice.py", "cann/extension/__init__.py")
) -> dict[str, str]:
    return {
        "triton/__init__.py": "__version__ = '3.2.0'\n# built for Ascend\n",
        "triton/backends/__init__.py": "# loads every folder\n",
        "triton/backends/compiler.py": "class BaseBackend: pass\nclass GPUTarget: pass\n",
        "triton/backends/ascend/__init__.py": "",
        "triton/backends/ascend/compiler.py": "import os\nfrom triton.backends.ascend.utils import x\n",
        "triton/backends/ascend/driver.py": "from triton.backends.ascend.utils import x\n",
        "triton/backends/ascend/utils.py": "import functools\n\nimport pybind11\n",
        "triton/language/extra/__init__.py": "",
        **{f"triton/language/extra/{name.split('/')[0]}/__init__.py": "" for name in extra},
        **{f"triton/language/extra/{name}": "" for name in extra},
    }


def upstream_triton_files(*, names_language: bool = True) -> dict[str, str]:
    wanted = "BaseBackend, GPUTarget" + (", Language" if names_language else "")
    return {
        "triton/__init__.py": "__version__ = '3.7.1'\n# the one from upstream, longer than the other\n",
        "triton/backends/__init__.py": "# loads every folder\n",
        "triton/backends/compiler.py": "class BaseBackend: pass\nclass GPUTarget: pass\nclass Language: pass\n",
        "triton/backends/nvidia/__init__.py": "",
        "triton/backends/nvidia/compiler.py": f"from triton.backends.compiler import {wanted}\n",
        "triton/backends/nvidia/driver.py": "",
        "triton/language/extra/__init__.py": "",
    }


def install_triton_ascend(site: Path, version: str = "3.2.2", files: Mapping[str, str] | None = None) -> None:
    install(site, "triton-ascend", version, triton_ascend_files() if files is None else files)


def install_triton(site: Path, version: str = "3.7.1", files: Mapping[str, str] | None = None) -> None:
    install(site, "triton", version, upstream_triton_files() if files is None else files)


def install_healthy(site: Path) -> None:
    """The healthy control: a set in which every link of the packages holds."""
    install_torch(site)
    install_torch_npu(site)
    install_triton_ascend(site)
    install(site, "pybind11", "3.0.1", {"pybind11/__init__.py": ""})


def pack(site: Path, house: Path, tag: str = "cp311-cp311-manylinux_2_28_aarch64") -> None:
    """Zip what lies in `site` into one wheel for each distribution, as its RECORD says."""
    house.mkdir(exist_ok=True)
    for info in site.glob("*.dist-info"):
        names = [line.split(",")[0] for line in (info / "RECORD").read_text().splitlines()]
        with zipfile.ZipFile(house / f"{info.name.removesuffix('.dist-info')}-{tag}.whl", "w") as archive:
            for name in names:
                archive.write(site / name, name)
