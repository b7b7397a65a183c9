"""Small pieces that several checks say in the same way."""

from __future__ import annotations

from collections.abc import Iterable

from flexdoctor.facts import Distribution, Facts, Patch, Place, UnknownRelease, Unread
from flexdoctor.findings import Capability, Evidence
from flexdoctor.knowledge import stacks
from flexdoctor.knowledge.stacks import Stack
from flexdoctor.text import Text


def at(place: Place | None) -> tuple[Evidence, ...]:
    """Evidence for a line of a file; none when there is no such place."""
    return () if place is None else (Evidence("file", place.text, path=place.path, line=place.line),)


def metadata(dist: Distribution, text: str) -> Evidence:
    """Evidence in the metadata of a distribution."""
    if dist.pinned_at is not None:
        return Evidence("metadata", text, path=dist.pinned_at.path, line=dist.pinned_at.line)
    return Evidence("metadata", text, path=dist.metadata_path)


def patch_evidence(patch: Patch) -> tuple[Evidence, ...]:
    """Evidence for a patch: where it is made and, if known, which line makes it happen."""
    return (*at(patch.place), *at(patch.via))


def nearest_stack(facts: Facts, gives: Capability) -> Stack | None:
    """Return the known set that gives a capability here and changes least of what is installed."""
    cann = next((item.version for item in facts.machine.cann if item.version), None) if facts.machine else None
    npu = facts.packages.find("torch-npu")
    return stacks.nearest(
        gives,
        torch=facts.torch.version if facts.torch else None,
        torch_npu=npu.version if npu else None,
        python=facts.interpreter.version,
        architecture=facts.interpreter.architecture,
        cann=cann,
    )


def move_to(facts: Facts, gives: Capability) -> Text:
    """Name the set to move to, or say that none is known."""
    stack = nearest_stack(facts, gives)
    if stack is None:
        return Text(
            "no known set gives it on this Python, architecture and CANN (flexdoctor list stacks)",
            "在此 Python、架构与 CANN 上没有已知可用的组合（flexdoctor list stacks）",
        )
    pins = "  ".join(f"{name}=={stack.pin(name)}" for name in stack.order)
    return Text(
        "move to the set {name}: {pins} on CANN {cann} (flexdoctor list stacks)",
        "换用组合 {name}：{pins}，CANN {cann}（flexdoctor list stacks）",
    ).format(name=stack.label, pins=pins, cann=" / ".join(stack.cann))


def triton_ascend_pin(facts: Facts) -> Text:
    """Say which triton-ascend to install beside the torch-npu that is here, and from where."""
    stack = nearest_stack(facts, "compiled_forward")
    if stack is None or stack.triton_ascend is None:
        return Text("triton-ascend", "triton-ascend")
    index = stack.indexes.get("triton-ascend")
    pin = f"triton-ascend=={stack.triton_ascend}"
    if index is None:
        return Text(pin, pin)
    return Text("{pin} from {index}", "{pin}（软件源 {index}）").format(pin=pin, index=index)


def to_learn_more(item: UnknownRelease) -> Text:
    """Say how a release of a plan, of which nothing is known, could be judged."""
    if item.version is None:
        return Text(
            "pin it, or install the set and examine it with --python", "请固定版本，或实际安装后用 --python 检查"
        )
    return Text("install the set and examine it with --python", "请实际安装后用 --python 检查")


def unreadable(items: Iterable[Unread]) -> tuple[Evidence, ...]:
    """Evidence for files that could not be read."""
    return tuple(Evidence("file", item.reason, path=item.path) for item in items)


def could_not_read(what: str) -> Text:
    """Say that a question stays open because its file could not be read."""
    return Text("could not tell: {what} cannot be read", "无法判断：{what} 不可读").format(what=what)
