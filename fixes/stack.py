"""Move torch, torch-npu and triton-ascend to a set that fits."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.knowledge.stacks import same_version
from flexdoctor.text import NOTHING, Text
from flexdoctor.treatment.patches import patch_for
from flexdoctor.treatment.plan import Fix, Situation, Step, install_step
from flexdoctor.treatment.target import site_of

NAME = "stack"
#: Faults of versions: no repair of what is installed mends them.
OPENS = (
    "FD111",
    "FD112",
    "FD113",
    "FD144",
    "FD145",
    "FD146",
    "FD201",
    "FD202",
    "FD203",
    "FD204",
    "FD231",
    "FD232",
    "FD241",
    "FD242",
    "FD243",
)
#: Faults of versions that a source patch of the gate mends too.
_GATE = ("FD201", "FD202", "FD203")


def needed(situation: Situation) -> tuple[str, ...]:
    """Return the codes for which the set of packages must change."""
    codes = situation.has(*OPENS)
    if not situation.chosen and not any(situation.installed(name) for name in ("torch", "torch-npu")):
        return ()  # more likely the wrong environment than one to fill
    if all(code in _GATE for code in codes) and gate_patch_suffices(situation):
        return ()
    return codes


def gate_patch_suffices(situation: Situation) -> bool:
    """Tell whether opening the device check is all that these versions need for what is required."""
    torch = situation.facts.torch
    lowers = situation.facts.torch_npu is not None and situation.facts.torch_npu.lowering is not None
    if torch is None or not (situation.report.required == "eager" or lowers):
        return False
    return patch_for("gate", site_of(situation.facts, "torch"), torch.version) is not None


def propose(situation: Situation) -> Iterator[Step]:
    """Install what differs from the target, in order."""
    codes, target = needed(situation), situation.target
    if not codes or target is None:
        return
    for name in target.order:
        pin = target.pin(name)
        if pin and not _is_there(situation, name, pin):
            index = situation.index_of(name)
            yield install_step(situation, NAME, name, pin, opens=codes, index=index, note=_note(situation, name, index))


def _is_there(situation: Situation, name: str, pin: str) -> bool:
    found = situation.installed(name)
    return same_version(found, pin)


def _note(situation: Situation, name: str, index: str) -> Text:
    if name == "torch-npu" and situation.facts.interpreter.architecture == "x86_64":
        return Text(
            "without dependencies: on x86_64 its metadata may ask for a +cpu build of torch that no default index has",
            "不带依赖安装：x86_64 上其元数据可能要求 +cpu 构建的 torch，而默认软件源没有",
        )
    return index_note(situation, name, index)


def index_note(situation: Situation, name: str, index: str) -> Text:
    """Say why one distribution comes from an index of its own."""
    if not index:
        return NOTHING
    owner = situation.target.owner if situation.target else ""
    if not owner and name == "triton-ascend":
        return Text(
            "from {index}, for this package only: no triton-ascend of the default index gives compiled flex_attention",
            "来自 {index}，仅用于此包：默认软件源中没有能编译 flex_attention 的 triton-ascend",
        ).format(index=index)
    return Text("from {index}, for this package only", "来自 {index}，仅用于此包").format(index=index)


FIX = Fix(
    name=NAME,
    title=Text(
        "move torch, torch-npu and triton-ascend to a set that fits",
        "将 torch、torch-npu、triton-ascend 换成相互配套的一组",
    ),
    opens=OPENS,
    propose=propose,
)
