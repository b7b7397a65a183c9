"""Hand-made facts: a healthy environment, and small changes to it."""

from __future__ import annotations

from flexdoctor.facts import (
    Distribution,
    ExtraStep,
    Facts,
    FlexLowering,
    Gate,
    InterpreterFacts,
    LoadImport,
    MachineFacts,
    ModuleFolder,
    PackagesFacts,
    Patch,
    Place,
    TargetFacts,
    TorchFacts,
    TorchNpuFacts,
    TritonClaim,
    TritonFacts,
)

SITE = "/env/lib/python3.11/site-packages"


def place(name: str, line: int = 1, text: str = "...") -> Place:
    return Place(f"{SITE}/{name}", line, text)


GATE = Gate(
    "function",
    place("torch/nn/attention/flex_attention.py", 2075, "def _validate_device(query, key, value):"),
    accepted=("cpu", "cuda", "hpu", "mps", "xpu"),
    rejected=("npu",),
    message="FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. Found input tensors on npu device.",
)
TORCH = TorchFacts(
    version="2.13.0+cpu",
    has_flex_attention=True,
    gate=GATE,
    major_comparison=place("torch/utils/_triton.py", 190, "return get_device_properties().major >= 7"),
    has_triton_bindings=("torch._dynamo.utils", "torch._inductor.compile_fx"),
    subgraph_error=place("torch/_inductor/subgraph_lowering.py", 96),
)


def patch(target: str, when: str, file: str) -> Patch:
    return Patch(target, when, place(file))  # type: ignore[arg-type]


GATE_AT_IMPORT = patch("torch.nn.attention.flex_attention", "import", "torch_npu/utils/patch_flexattention.py")
GATE_AT_INDUCTOR = patch("torch.nn.attention.flex_attention", "inductor_load", "torch_npu/_inductor/__init__.py")


def step(name: str, branch: str, block: int = 0, text: str = "x = tl.extra.y") -> ExtraStep:
    helpers = "torch_npu/_inductor/runtime/triton_helpers.py"
    return ExtraStep(name, name.partition(".")[2], branch, block, place(helpers, 13, text))  # type: ignore[arg-type]


CANN_THEN_ASCEND = (
    step("cann.extension", "try"),
    step("cann.libdevice", "try"),
    step("ascend.libdevice", "except"),
)
TORCH_NPU = TorchNpuFacts(
    version="2.13.0",
    has_inductor=True,
    gate_patches=(GATE_AT_IMPORT, GATE_AT_INDUCTOR),
    has_triton_patches=(
        patch("torch._dynamo.utils", "transfer_to_npu", "torch_npu/contrib/transfer_to_npu.py"),
        patch("torch._inductor.compile_fx", "transfer_to_npu", "torch_npu/contrib/transfer_to_npu.py"),
    ),
    extra_steps=CANN_THEN_ASCEND,
    kernel_imports=("libdevice", "extension", "math"),
    kernel_imports_at=place("torch_npu/_inductor/codegen/triton.py", 909),
    lowering=FlexLowering(
        forward=place("torch_npu/_inductor/kernel/flex_attention.py", 2079),
        backward=place("torch_npu/_inductor/kernel/flex_attention.py", 2809),
        registered=place("torch_npu/_inductor/__init__.py", 259),
        handled_operators=("aten.bitwise_and.Tensor", "aten.index", "aten.index.Tensor"),
        handled_at=place("torch_npu/_inductor/kernel/flex_attention.py", 788),
    ),
    lowering_policy="explicit list",
)
TRITON_ASCEND = TritonClaim("triton-ascend", "3.2.2", files=80, has_ascend_backend=True, installed_at=100)
UPSTREAM = TritonClaim("triton", "3.7.1", files=200, has_ascend_backend=False, installed_at=200)
TRITON = TritonFacts(
    path=f"{SITE}/triton",
    has_init=True,
    version="3.2.0",
    backends=("ascend",),
    extra=("cann", "cann.extension", "cann.libdevice"),
    claims=(TRITON_ASCEND,),
    imports=(LoadImport("pybind11", place("triton/backends/ascend/utils.py", 33), present=True),),
)
DISTRIBUTIONS = (
    Distribution("torch", "2.13.0", f"{SITE}/torch-2.13.0.dist-info", recorded_files=100),
    Distribution("torch-npu", "2.13.0", f"{SITE}/torch_npu-2.13.0.dist-info", ("torch==2.13.0.*", "numpy", "pyyaml")),
    Distribution("triton-ascend", "3.2.2", f"{SITE}/triton_ascend-3.2.2.dist-info"),
)
HEALTHY = Facts(
    target=TargetFacts("environment", "/env (--python)", (SITE,), machine_examined=True),
    interpreter=InterpreterFacts("cpython", "3.11.9", "aarch64", "/env/bin/python", "/env", "/env/pyvenv.cfg"),
    packages=PackagesFacts(
        distributions=DISTRIBUTIONS,
        folders=(
            ModuleFolder("torch", f"{SITE}/torch", ("torch",), has_init=True),
            ModuleFolder("torch_npu", f"{SITE}/torch_npu", ("torch-npu",), has_init=True),
            ModuleFolder("triton", f"{SITE}/triton", ("triton-ascend",), has_init=True),
        ),
    ),
    torch=TORCH,
    torch_npu=TORCH_NPU,
    triton=TRITON,
    machine=MachineFacts(),
)
