"""Link 5: does the device gate of flex_attention let an NPU tensor through, and from when on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flexdoctor.chain import Check
from flexdoctor.checks._words import at, could_not_read, move_to, patch_evidence, unreadable
from flexdoctor.facts import Facts, Gate, Patch, PatchTime, TorchFacts
from flexdoctor.findings import CAPABILITIES, Fault, Finding, found, passed, unknown
from flexdoctor.text import Text

LINK = "device_validation"

CLOSED = Fault(
    "FD201",
    Text(
        "torch {torch} accepts only {accepted} in flex_attention, and torch-npu {npu} does not replace that check",
        "torch {torch} 的 flex_attention 只接受 {accepted}，而 torch-npu {npu} 没有替换该校验",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
TOO_LATE = Fault(
    "FD202",
    Text(
        "torch-npu {npu} replaces flex_attention's device check only when its inductor backend loads: too late",
        "torch-npu {npu} 直到加载 inductor 后端才替换 flex_attention 的设备校验，为时已晚",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
ON_REQUEST = Fault(
    "FD203",
    Text(
        "torch-npu {npu} replaces flex_attention's device check only through transfer_to_npu",
        "torch-npu {npu} 仅在使用 transfer_to_npu 时才替换 flex_attention 的设备校验",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
NO_FLEX = Fault(
    "FD204",
    Text("torch {torch} has no flex_attention", "torch {torch} 没有 flex_attention"),
    affects=CAPABILITIES,
)
UNRECOGNISED = Fault(
    "FD205",
    Text(
        "the device check of this torch is written in a way that flexdoctor does not know",
        "flexdoctor 不认识此 torch 的设备校验写法",
    ),
    affects=CAPABILITIES,
)


def examine(facts: Facts) -> Iterator[Finding]:
    """Judge the gate as torch wrote it, then what torch-npu makes of it and when."""
    torch = facts.torch
    if torch is None:
        return
    if not torch.has_flex_attention:
        yield _no_flex(torch)
        return
    gate = torch.gate
    if gate is None or (gate.form == "unrecognised" and not _patch_at(facts, "import")):
        yield unknown(LINK, UNRECOGNISED, UNRECOGNISED.title, evidence=at(gate.place if gate else None))
    elif gate.form == "absent":
        yield passed(
            LINK,
            Text("torch {torch} checks no device here", "torch {torch} 的 flex_attention 不检查设备").format(
                torch=torch.version
            ),
            evidence=at(gate.place),
        )
    elif "npu" in gate.accepted:
        yield passed(
            LINK,
            Text("npu accepted by torch's own check", "torch 自身的校验已接受 npu"),
            evidence=at(gate.place),
        )
    else:
        yield _after_torch_npu(facts, torch, gate)


def _no_flex(torch: TorchFacts) -> Finding:
    if torch.unread:
        return unknown(
            LINK,
            UNRECOGNISED,
            could_not_read("torch/nn/attention/flex_attention.py"),
            evidence=unreadable(torch.unread),
        )
    return found(
        LINK,
        NO_FLEX,
        torch=torch.version,
        predicted_errors=["ModuleNotFoundError: No module named 'torch.nn.attention.flex_attention'"],
        remedy=Text("flex_attention came with torch 2.5", "flex_attention 自 torch 2.5 起提供"),
    )


def _patch_at(facts: Facts, when: PatchTime) -> Patch | None:
    patches = facts.torch_npu.gate_patches if facts.torch_npu else ()
    return next((patch for patch in patches if patch.when == when), None)


def _after_torch_npu(facts: Facts, torch: TorchFacts, gate: Gate) -> Finding:
    npu = facts.torch_npu.version if facts.torch_npu else "-"
    if patch := _patch_at(facts, "import"):
        return passed(
            LINK,
            Text(
                "npu accepted: torch-npu replaces the check at import",
                "已接受 npu：torch-npu 在导入时替换了该校验",
            ),
            evidence=[*patch_evidence(patch), *at(gate.place)],
        )
    message = [f"ValueError: {gate.message}"] if gate.message else []
    if patch := _patch_at(facts, "inductor_load"):
        return _too_late(facts, patch, gate, message, npu)
    if patch := _patch_at(facts, "transfer_to_npu"):
        if facts.machine and facts.machine.environment.get("TORCH_TRANSFER_TO_NPU") == "1":
            return passed(
                LINK,
                Text("npu accepted: transfer_to_npu is on", "已接受 npu：已启用 transfer_to_npu"),
                evidence=patch_evidence(patch),
            )
        return found(
            LINK,
            ON_REQUEST,
            npu=npu,
            evidence=[*patch_evidence(patch), *at(gate.place)],
            predicted_errors=message,
            remedy=Text(
                "add `from torch_npu.contrib import transfer_to_npu` before the first use",
                "首次使用前加入 `from torch_npu.contrib import transfer_to_npu`",
            ),
        )
    if patch := _patch_at(facts, "unrecognised"):
        return unknown(
            LINK,
            UNRECOGNISED,
            Text(
                "torch-npu replaces the check, but flexdoctor cannot tell when",
                "torch-npu 会替换该校验，但无法判断何时生效",
            ),
            evidence=[*patch_evidence(patch), *at(gate.place)],
        )
    unread = facts.torch_npu.unread if facts.torch_npu else ()
    if unread:
        return unknown(LINK, UNRECOGNISED, could_not_read("torch_npu"), evidence=unreadable(unread))
    return found(
        LINK,
        CLOSED,
        torch=torch.version,
        accepted=", ".join(gate.accepted),
        npu=npu,
        evidence=at(gate.place),
        predicted_errors=message,
        detail=Text(
            "Editing the check by hand gives eager flex_attention only: this torch-npu has no NPU kernel for it.",
            "手工修改该校验只能得到 eager 模式：此 torch-npu 没有对应的 NPU 内核。",
        )
        if facts.torch_npu and facts.torch_npu.lowering is None
        else Text("", ""),
        remedy=move_to(facts, "compiled_forward"),
    )


def _too_late(facts: Facts, patch: Patch, gate: Gate, message: list[str], npu: str) -> Finding:
    can_load_early = facts.triton.ascend_backend is not None and not facts.triton.missing_imports
    early = Text(
        "put `import torch_npu._inductor` before the first use of flex_attention",
        "在首次使用 flex_attention 之前加入 `import torch_npu._inductor`",
    )
    return found(
        LINK,
        TOO_LATE,
        npu=npu,
        evidence=[*patch_evidence(patch), *at(gate.place)],
        predicted_errors=message,
        detail=Text(
            "torch.compile traces the check before it loads the backend, so the first compiled call still raises.",
            "torch.compile 在加载后端之前就会追踪到该校验，因此首次编译调用仍会报错。",
        ),
        remedy=early
        if can_load_early
        else early
        + Text(
            "(this needs a working triton-ascend first, which is not here)",
            "（前提是 triton-ascend 可用，而此环境不具备）",
        ),
    )


CHECK = Check(
    link=LINK,
    title=Text("device validation", "设备校验"),
    question=Text(
        "Which devices does flex_attention accept, who replaces that check, and when?",
        "flex_attention 接受哪些设备？由谁、在何时替换该校验？",
    ),
    faults=(CLOSED, TOO_LATE, ON_REQUEST, NO_FLEX, UNRECOGNISED),
    examine=examine,
    requires=("packages",),
    pages=Path(__file__).with_suffix(".toml"),
)
