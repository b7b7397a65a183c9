"""Link 9: does torch-npu lower flex_attention, backward too, and what may a score_mod do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flexdoctor import knowledge
from flexdoctor.chain import Check
from flexdoctor.checks._words import at, could_not_read, move_to, unreadable
from flexdoctor.facts import Facts, FlexLowering, TorchNpuFacts
from flexdoctor.findings import COMPILED, Evidence, Fault, Finding, found, passed, unknown
from flexdoctor.text import Text

LINK = "subgraph_lowering"

NO_LOWERING = Fault(
    "FD241",
    Text(
        "torch-npu {npu} has no NPU kernel for flex_attention",
        "torch-npu {npu} 没有 flex_attention 的 NPU 内核",
    ),
    affects=COMPILED,
    blocks=False,
)
NO_BACKWARD = Fault(
    "FD242",
    Text(
        "torch-npu {npu} lowers flex_attention forward, but not backward",
        "torch-npu {npu} 只支持 flex_attention 前向编译，不支持反向",
    ),
    affects=("compiled_backward",),
    blocks=False,
)
NO_CAPTURE = Fault(
    "FD243",
    Text(
        "a score_mod or mask_mod that indexes a captured tensor will not compile",
        "score_mod 或 mask_mod 若索引外部张量，将无法编译",
    ),
    affects=("compiled_captured",),
    blocks=False,
)
BACKEND_IMPORT = Fault(
    "FD244",
    Text(
        "the inductor backend of torch-npu {npu} imports {modules}, which no metadata asks for and is not installed",
        "torch-npu {npu} 的 inductor 后端会导入 {modules}，但其元数据未声明，环境中也未安装",
    ),
    affects=COMPILED,
    blocks=False,
)

_POINTWISE = "SubgraphLoweringException: Buffers cannot be created while lowering a pointwise subgraph."


def examine(facts: Facts) -> Iterator[Finding]:
    """Read what the lowering registers and which operators it takes inside of a score_mod."""
    npu = facts.torch_npu
    if npu is None:
        return
    lowering = npu.lowering
    if lowering is None or lowering.forward is None or lowering.registered is None:
        yield _no_lowering(facts, npu)
        return
    faults = list(_missing_imports(facts, npu))
    if lowering.backward is None:
        faults.append(found(LINK, NO_BACKWARD, npu=npu.version, evidence=at(lowering.forward)))
    takes_index = any(name.removesuffix(".Tensor") == "aten.index" for name in lowering.handled_operators)
    if not takes_index:
        faults.append(_no_capture(facts, lowering))
    yield from faults
    if takes_index and not faults:
        yield passed(
            LINK,
            Text(
                "forward, backward, and indexing a captured tensor",
                "支持前向、反向，以及索引外部张量",
            ),
            evidence=[*at(lowering.forward), *at(lowering.handled_at)],
            detail=Text(
                "If «{message}» appears all the same, it is the score_mod that is not pointwise (a dot product, a "
                "reduction, an intermediate buffer): rewrite it; this environment is not at fault.",
                "如果仍出现“{message}”，说明 score_mod 本身不是逐点运算（点积、归约或中间缓冲区）："
                "请改写它，环境没有问题。",
            ).format(message=_POINTWISE.partition(": ")[2]),
        )


def _no_lowering(facts: Facts, npu: TorchNpuFacts) -> Finding:
    if npu.unread:
        return unknown(LINK, NO_LOWERING, could_not_read("torch_npu/_inductor"), evidence=unreadable(npu.unread))
    reason = {
        "allow-list": Text(
            "Every lowering outside of its allow-list becomes a fallback, flex_attention included.",
            "白名单之外的算子（包括 flex_attention）一律回退。",
        ),
    }.get(npu.lowering_policy or "", Text("", ""))
    return found(
        LINK,
        NO_LOWERING,
        npu=npu.version,
        evidence=[Evidence("file", "absent", path="torch_npu/_inductor/kernel/flex_attention.py")],
        detail=reason
        + Text(
            "Opening the device check alone gives eager flex_attention only.", "仅放开设备校验只能得到 eager 模式。"
        ),
        remedy=move_to(facts, "compiled_forward"),
    )


def _no_capture(facts: Facts, lowering: FlexLowering) -> Finding:
    claims = [
        Evidence("knowledge", f"{claim.text} ({claim.standing})", source=f"{claim.source}, {claim.date}")
        for claim in knowledge.claims_about(NO_CAPTURE.code)
    ]
    return found(
        LINK,
        NO_CAPTURE,
        evidence=[
            *at(lowering.handled_at),
            Evidence("file", f"takes {', '.join(lowering.handled_operators) or 'no operator'}; not aten.index"),
            *at(facts.torch.subgraph_error if facts.torch else None),
            *claims,
        ],
        predicted_errors=[_POINTWISE],
        detail=Text(
            "Document masks, ALiBi and learned bias index such a tensor. Chips from Ascend 950 on can be switched to "
            "another path, which was not judged here.",
            "文档掩码、ALiBi、可学习偏置都属于此类。Ascend 950 及以后的芯片可切换到另一条路径，此处未作判断。",
        ),
        remedy=Text("compute the value from the indices instead, or", "改为由下标直接计算该值，或")
        + move_to(facts, "compiled_captured"),
    )


def _missing_imports(facts: Facts, npu: TorchNpuFacts) -> Iterator[Finding]:
    if not npu.missing_imports:
        return
    names = [item.module for item in npu.missing_imports]
    yield found(
        LINK,
        BACKEND_IMPORT,
        npu=npu.version,
        modules=", ".join(names),
        evidence=[evidence for item in npu.missing_imports for evidence in at(item.place)],
        predicted_errors=[f"ModuleNotFoundError: No module named '{name}'" for name in names],
        remedy=Text("{python} -m pip install {names}", "{python} -m pip install {names}").format(
            python=facts.interpreter.executable or "python", names=" ".join(names)
        ),
    )


CHECK = Check(
    link=LINK,
    title=Text("subgraph lowering", "子图 lowering"),
    question=Text(
        "Does torch-npu lower flex_attention, forward and backward, and what may a score_mod do?",
        "torch-npu 能否编译 flex_attention 的前向与反向？score_mod 中允许哪些运算？",
    ),
    faults=(NO_LOWERING, NO_BACKWARD, NO_CAPTURE, BACKEND_IMPORT),
    examine=examine,
    requires=("packages",),
    pages=Path(__file__).with_suffix(".toml"),
)
