"""Link 7: does torch compare a compute capability that an NPU does not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flexdoctor.chain import Check
from flexdoctor.checks._words import at, patch_evidence
from flexdoctor.facts import Facts
from flexdoctor.findings import COMPILED, Evidence, Fault, Finding, found, passed
from flexdoctor.text import Text

LINK = "device_properties"

MAJOR = Fault(
    "FD221",
    Text(
        "under transfer_to_npu, {modules} still compare the device's `.major`, which is None on an NPU",
        "启用 transfer_to_npu 时，{modules} 仍会比较设备的 `.major`，而 NPU 上它是 None",
    ),
    severity="warning",
    blocks=False,
)
MAJOR_IN_USE = Fault(
    "FD222",
    Text(
        "transfer_to_npu is on, and {modules} compare the device's `.major`, which is None on an NPU",
        "已启用 transfer_to_npu，而 {modules} 会比较设备的 `.major`，NPU 上它是 None",
    ),
    affects=COMPILED,
    blocks=False,
)

_ERROR = "TypeError: '>=' not supported between instances of 'NoneType' and 'int'"
_TUPLE_ERROR = "TypeError: '>=' not supported between instances of 'NoneType' and 'tuple'"


def examine(facts: Facts) -> Iterator[Finding]:
    """See whether torch-npu takes every copy of has_triton away from the comparison."""
    torch, npu = facts.torch, facts.torch_npu
    if torch is None or npu is None:
        return
    if torch.major_comparison is None:
        yield passed(
            LINK,
            Text(
                "torch {torch} compares no `.major` in has_triton",
                "torch {torch} 的 has_triton 不再比较 `.major`",
            ).format(torch=torch.version),
        )
        return
    replaced = {patch.target for patch in npu.has_triton_patches}
    remaining = [module for module in torch.has_triton_bindings if module not in replaced]
    environment = facts.machine.environment if facts.machine else {}
    in_use = environment.get("TORCH_TRANSFER_TO_NPU") == "1"
    if not remaining:
        yield passed(
            LINK,
            Text("torch-npu replaces has_triton wherever torch took it", "torch-npu 已替换 torch 各处的 has_triton"),
            evidence=[item for patch in npu.has_triton_patches[:1] for item in patch_evidence(patch)],
            detail=_capability_note(facts),
        )
        return
    variable = [Evidence("variable", "TORCH_TRANSFER_TO_NPU=1")] if in_use else []
    yield found(
        LINK,
        MAJOR_IN_USE if in_use else MAJOR,
        modules=", ".join(remaining),
        evidence=[*variable, *at(torch.major_comparison)],
        predicted_errors=[_ERROR],
        detail=Text(
            "Code that addresses the device as npu is not concerned: the comparison runs only when "
            "torch.cuda pretends to be available.",
            "直接使用 npu 设备的代码不受影响：仅当 torch.cuda 被伪装为可用时才会执行该比较。",
        ),
        remedy=Text(
            "use device='npu' in your code instead of transfer_to_npu",
            "请在代码中直接使用 device='npu'，不要依赖 transfer_to_npu",
        ),
    )


def _capability_note(facts: Facts) -> Text:
    comparison = facts.torch.capability_comparison if facts.torch else None
    if comparison is None:
        return Text("", "")
    return Text(
        "Under transfer_to_npu, {path}:{line} also compares get_device_capability() with a tuple ({error}); "
        "TORCH_NPU_DEVICE_CAPABILITY=9.0 gives it one.",
        "启用 transfer_to_npu 时，{path}:{line} 还会将 get_device_capability() 与元组比较（{error}）；"
        "设置 TORCH_NPU_DEVICE_CAPABILITY=9.0 即可。",
    ).format(path=comparison.path, line=comparison.line, error=_TUPLE_ERROR)


CHECK = Check(
    link=LINK,
    title=Text("device properties", "设备属性"),
    question=Text(
        "Does torch compare a `.major` that is None on an NPU, and does torch-npu prevent it?",
        "torch 是否会比较 NPU 上为 None 的 `.major`？torch-npu 是否加以规避？",
    ),
    faults=(MAJOR, MAJOR_IN_USE),
    examine=examine,
    requires=("packages",),
    pages=Path(__file__).with_suffix(".toml"),
)
