"""Link 11: what happened when flex_attention was run, and whether it bears out what the files say."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flexdoctor.chain import Check, answers
from flexdoctor.facts import Facts, LiveDeath, LiveError, LiveFacts, LiveStage
from flexdoctor.findings import CAPABILITIES, COMPILED, Capability, Evidence, Fault, Finding, found, passed, skipped
from flexdoctor.frozen import dataclass
from flexdoctor.text import NOTHING, Text

if TYPE_CHECKING:
    from flexdoctor.knowledge.signatures import Match, Raised

LINK = "live_run"

NOT_STARTED = Fault(
    "FD401",
    Text("the live run could not start: {reason}", "实测无法启动：{reason}"),
    affects=CAPABILITIES,
    blocks=False,
)
KNOWN = Fault(
    "FD402",
    Text("{stages} failed{where}: {meaning}{codes}", "{stages}{where}失败：{meaning}{codes}"),
    affects=CAPABILITIES,
    blocks=False,
)
UNKNOWN = Fault(
    "FD403",
    Text(
        "{stages} failed{where} with an error that flexdoctor does not know: {error}",
        "{stages}{where}失败，flexdoctor 不认识该错误：{error}",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
WRONG = Fault(
    "FD404",
    Text("{stages} gave wrong numbers{where}: {error}", "{stages}{where}结果错误：{error}"),
    affects=CAPABILITIES,
    blocks=False,
)
SIGNAL = Fault(
    "FD405",
    Text("{stages} died of {signal}{where}", "{stages}{where}因 {signal} 崩溃"),
    affects=CAPABILITIES,
    blocks=False,
)
MEMORY = Fault(
    "FD406",
    Text(
        "{stages} was killed by SIGKILL{where}, {certainty} for want of memory",
        "{stages}{where}被 SIGKILL 终止，{certainty}因内存不足",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
TIME = Fault(
    "FD407",
    Text("{stages} did not end within {seconds} s{where}{over}", "{stages}{where}未能在 {seconds} 秒内结束{over}"),
    affects=CAPABILITIES,
    blocks=False,
)
SILENT = Fault(
    "FD408",
    Text(
        "{stages} ended the process with exit code {exit_code}, without an exception",
        "{stages}未抛出异常便结束了进程，退出码 {exit_code}",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
SURVIVORS = Fault(
    "FD409",
    Text(
        "{count} processes lived on after the run, and were killed",
        "运行结束后仍有 {count} 个进程存活，已将其终止",
    ),
    severity="warning",
    blocks=False,
)
STUCK = Fault(
    "FD410",
    Text(
        "{count} processes cannot be killed: the kernel or a driver holds them",
        "有 {count} 个进程无法终止：被操作系统内核或驱动挂住",
    ),
    severity="warning",
    blocks=False,
)
CLOSED = Fault(
    "FD411",
    Text("{what} was closed by the code that ran", "被运行的代码关闭了 {what}"),
    severity="warning",
    blocks=False,
)
FLOOD = Fault(
    "FD412",
    Text("the run wrote {size} to {stream}", "运行期间向 {stream} 写入了 {size}"),
    severity="warning",
    blocks=False,
)
BAD_END = Fault(
    "FD413",
    Text(
        "every stage ended, but the interpreter itself did not end well: {how}",
        "所有阶段均已完成，但解释器未能正常退出：{how}",
    ),
    severity="warning",
    blocks=False,
)
NOT_REACHED = Fault(
    "FD414",
    Text("not reached: {stages} ({reason})", "未执行：{stages}（{reason}）"),
    affects=CAPABILITIES,
    blocks=False,
)
NO_DEVICE = Fault(
    "FD415",
    Text("there is no {device} to run on", "没有可供运行的 {device} 设备"),
    affects=CAPABILITIES,
    blocks=False,
)
STATIC_YES = Fault(
    "FD416",
    Text(
        "the files say that {what} can run, the device says no: what flexdoctor knows is wrong here",
        "从文件看{what}可用，设备实测却不行：flexdoctor 的知识库在此有误",
    ),
    severity="warning",
    blocks=False,
)
STATIC_NO = Fault(
    "FD417",
    Text(
        "the files say that {what} cannot run ({codes}), but it ran on the device: what flexdoctor knows is wrong here",
        "从文件看{what}不可用（{codes}），设备实测却可以：flexdoctor 的知识库在此有误",
    ),
    severity="warning",
    blocks=False,
)

#: More than this on a stream is not a message any more.
FLOOD_BYTES = 1024 * 1024
_SAID_LINES = 40


@dataclass(frozen=True)
class StageMeaning:
    """What a stage is called, and what its failure takes away."""

    title: Text
    affects: tuple[Capability, ...] = CAPABILITIES


STAGES = {
    "python": StageMeaning(Text("python", "启动 python")),
    "torch": StageMeaning(Text("import torch", "导入 torch")),
    "torch_npu": StageMeaning(Text("import torch_npu", "导入 torch_npu")),
    "autoload": StageMeaning(Text("import torch with autoload", "import torch（自动加载后端）")),
    "devices": StageMeaning(Text("the device", "设备查询")),
    "properties": StageMeaning(Text("device properties", "设备属性检查"), COMPILED),
    "triton": StageMeaning(Text("triton and its driver", "triton 及其驱动"), COMPILED),
    "gate": StageMeaning(Text("device validation", "设备校验")),
    "eager": StageMeaning(Text("eager attention", "eager 模式"), ("eager",)),
    "compiled_forward": StageMeaning(Text("compiled forward", "编译前向"), COMPILED),
    "compiled_backward": StageMeaning(Text("compiled backward", "编译反向"), ("compiled_backward",)),
    "causal": StageMeaning(Text("a causal mask", "因果掩码"), ("compiled_forward",)),
    "sliding_window": StageMeaning(Text("a sliding window", "滑动窗口"), ("compiled_forward",)),
    "gqa": StageMeaning(Text("grouped queries", "分组查询（GQA）"), ()),
    "dynamic_length": StageMeaning(Text("a changing length", "动态长度"), ()),
    "captured": StageMeaning(Text("a captured tensor", "索引外部张量"), ("compiled_captured",)),
    "document_mask": StageMeaning(Text("a document mask", "文档掩码"), ("compiled_captured",)),
    "alibi": StageMeaning(Text("ALiBi", "ALiBi"), ("compiled_captured",)),
    "ranks_inside": StageMeaning(Text("several ranks, compiled inside the model", "多卡（模型内部编译）"), ()),
    "ranks_around": StageMeaning(Text("several ranks, compiled around the model", "多卡（对整个模型编译）"), ()),
    "exit": StageMeaning(Text("the end of the interpreter", "解释器退出"), ()),
}
#: The stages that must all pass before a capability counts as seen.
_PROOF: dict[Capability, tuple[str, ...]] = {
    "eager": ("eager",),
    "compiled_forward": ("compiled_forward", "causal", "sliding_window"),
    "compiled_backward": ("compiled_backward",),
    "compiled_captured": ("captured", "document_mask", "alibi"),
}
_CAPABILITY = {
    "eager": Text("eager", "eager 模式"),
    "compiled_forward": Text("compiled forward", "编译前向"),
    "compiled_backward": Text("compiled backward", "编译反向"),
    "compiled_captured": Text("captured tensors", "索引外部张量"),
}


def examine(facts: Facts) -> Iterator[Finding]:
    """Judge the live run alone."""
    yield from judge(facts, ())


def judge(facts: Facts, before: Sequence[Finding]) -> Iterator[Finding]:
    """Judge the live run, and hold it against what the other links found."""
    live = facts.live
    if live is None:
        yield skipped(LINK, Text("not asked for (--live)", "未要求实测（--live）"))
        return
    if live.not_started:
        yield found(LINK, NOT_STARTED, reason=live.not_started)
        return
    failures = list(_failures(facts, live, before))
    yield from failures
    yield from _not_reached(live)
    yield from _manners(live)
    yield from _worked(live)
    for stage in live.stages:
        if stage.status == "skipped" and stage.name in STAGES:
            title = STAGES[stage.name].title
            yield skipped(LINK, Text(f"{title.en}: {stage.reason}", f"{title.zh}：{_reason_zh(stage.reason)}"))
    if _is_npu(live):
        yield from _against_the_files(live, failures, before)


def _is_npu(live: LiveFacts) -> bool:
    return _device(live).startswith("npu")


def _device(live: LiveFacts) -> str:
    """Return the device that ran, or the one that should have: auto means npu wherever torch_npu is installed."""
    if live.device or live.asked != "auto":
        return live.device or live.asked
    stage = live.find("torch_npu")
    return "npu" if stage is not None and stage.status != "skipped" else "cpu"


# --- what failed -----------------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Stages that failed for one reason."""

    stages: list[LiveStage]
    match: Match | None


def _failures(facts: Facts, live: LiveFacts, before: Sequence[Finding]) -> Iterator[Finding]:
    from flexdoctor.knowledge.signatures import recognise  # noqa: PLC0415 - only what failed needs the table

    groups: dict[str, _Group] = {}
    for stage in live.stages:
        if stage.status in ("failed", "died", "timed_out"):
            match = recognise([_raised(error) for error in stage.errors])
            groups.setdefault(_reason_of(stage, match), _Group([], match)).stages.append(stage)
    for group in groups.values():
        yield _for_device(_failure(facts, live, group, before), live, group.stages)


def _raised(error: LiveError) -> Raised:
    from flexdoctor.knowledge.signatures import Raised  # noqa: PLC0415

    return Raised(error.type, error.message, tuple(f"{frame.path} {frame.function}" for frame in error.frames))


def _reason_of(stage: LiveStage, match: Match | None) -> str:
    """Two stages with the same reason make one finding."""
    if match:
        # Several rows may name the same fault: an absent CANN is one thing, whichever text says so.
        return " ".join(match.signature.codes) or match.signature.name
    if stage.errors and stage.errors[0].type != "WrongResultError":
        return f"{stage.errors[0].type}: {stage.errors[0].message}"
    return stage.name


def _for_device(finding: Finding, live: LiveFacts, stages: Sequence[LiveStage]) -> Finding:
    """Take away what the stages stand for on an NPU; what fails elsewhere says nothing about an NPU."""
    if _is_npu(live):
        touched = {capability for stage in stages for capability in _meaning(stage).affects}
        affects = tuple(capability for capability in CAPABILITIES if capability in touched)
        return dataclasses.replace(finding, affects=affects, severity="error" if affects else "warning")
    is_npu_matter = all(stage.name in ("torch_npu", "autoload") for stage in stages)
    return dataclasses.replace(finding, affects=(), severity="warning" if is_npu_matter else finding.severity)


def _meaning(stage: LiveStage) -> StageMeaning:
    return STAGES.get(stage.name, StageMeaning(Text(stage.name, stage.name), ()))


def _titles(stages: Iterable[LiveStage]) -> Text:
    titles = [_titled(stage) for stage in stages]
    return Text(", ".join(title.en for title in titles), "、".join(title.zh for title in titles))


def _titled(stage: LiveStage) -> Text:
    title = _meaning(stage).title
    return title if stage.rank is None else Text(f"{title.en} (rank {stage.rank})", f"{title.zh}（rank {stage.rank}）")


def _fill(text: Text, **values: object) -> Text:
    """Fill placeholders, each language with its own words."""
    pairs = {key: value if isinstance(value, Text) else Text(str(value), str(value)) for key, value in values.items()}
    chinese = text.zh.format(**{key: value.zh for key, value in pairs.items()})
    return Text(text.en.format(**{key: value.en for key, value in pairs.items()}), _spaced(chinese))


def _spaced(chinese: str) -> str:
    """Put a blank between Chinese and Latin characters, as the rest of the text has it."""
    chinese = re.sub(r"([A-Za-z0-9)])(?=[\u4e00-\u9fff])", r"\1 ", chinese)
    return re.sub(r"([\u4e00-\u9fff])(?=[A-Za-z0-9(])", r"\1 ", chinese)


def _where(live: LiveFacts, stages: Sequence[LiveStage]) -> Text:
    """Name the device, when the stages use it."""
    if all(stage.name in ("python", "torch", "torch_npu", "autoload", "exit") for stage in stages):
        return NOTHING
    device = _device(live)
    return Text(f" on {device}", f"在 {device} 上")


def _failure(facts: Facts, live: LiveFacts, group: _Group, before: Sequence[Finding]) -> Finding:
    stage = group.stages[0]
    values: dict[str, Any] = {"stages": _titles(group.stages), "where": _where(live, group.stages)}
    if stage.death is not None:
        return _died(stage, stage.death, live, values)
    if group.match is not None:
        return _known(facts, live, group, group.match, before)
    error = stage.errors[-1] if stage.errors else LiveError("Exception", "")
    if error.type == "WrongResultError":
        return _finding(WRONG, _errors(stage), error=error.message, **values)
    first = f"{error.type}: {error.message.partition(chr(10))[0]}".removesuffix(": ")
    return _finding(UNKNOWN, [*_errors(stage, whole=True), *_output(stage)], error=first, **values)


def _finding(fault: Fault, evidence: Iterable[Evidence], detail: Text = NOTHING, **values: object) -> Finding:
    title = _fill(fault.title, **values)
    return dataclasses.replace(found(LINK, fault, evidence=evidence, detail=detail), title=title)


def _known(facts: Facts, live: LiveFacts, group: _Group, match: Match, before: Sequence[Finding]) -> Finding:
    stage, signature = group.stages[0], match.signature
    if signature.name == "no npu":
        return dataclasses.replace(
            _finding(NO_DEVICE, _errors(stage), device=_device(live)), machine_only=live.asked == "auto"
        )
    seen = [
        code
        for code in signature.codes
        if any(item.code == code and item.status in ("fail", "warn") for item in before)
    ]
    codes = seen or list(signature.codes)
    machine = facts.machine
    has_no_npu = machine is not None and not machine.cann and not machine.device_nodes
    finding = _finding(
        KNOWN,
        [
            *(item for failed in group.stages for item in _errors(failed)),
            Evidence("knowledge", signature.name, source=f"{signature.source}, {signature.date}"),
        ],
        stages=_titles(group.stages),
        where=_where(live, group.stages),
        meaning=signature.meaning,
        codes=Text(f" ({' or '.join(codes)})", f"（{' 或 '.join(codes)}）") if codes else "",
    )
    remedy = Text("mend {code} first", "请先解决 {code}").format(code=seen[0]) if seen else NOTHING
    return dataclasses.replace(
        finding, remedy=remedy, machine_only=has_no_npu and live.asked == "auto" and "FD121" in signature.codes
    )


def _died(stage: LiveStage, death: LiveDeath, live: LiveFacts, values: dict[str, Any]) -> Finding:
    evidence = [*_stack(death), *_output(stage)]
    if stage.name == "exit":
        return _finding(BAD_END, evidence, how=_how(death))
    if death.how == "time limit":
        over = Text(f": {stage.reason}", f"：{_reason_zh(stage.reason)}") if stage.reason else NOTHING
        finding = _finding(TIME, evidence, seconds=death.number, over=over, **values)
        remedy = Text("--timeout gives it more time", "可用 --timeout 延长时限")
        return dataclasses.replace(finding, remedy=remedy)
    if death.how == "exit":
        return _finding(SILENT, evidence, exit_code=death.number, **values)
    if death.name == "SIGKILL":
        sure = (
            Text("as the kernel's counter says", "系统内核计数器证实")
            if death.out_of_memory
            else Text("most likely", "很可能")
        )
        return _finding(MEMORY, evidence, certainty=sure, **values)
    return _finding(SIGNAL, evidence, signal=death.name, **values)


def _how(death: LiveDeath) -> Text:
    if death.how == "signal":
        return Text(death.name, death.name)
    if death.how == "exit":
        return Text(f"exit code {death.number}", f"退出码 {death.number}")
    return Text(f"killed after {death.number} s", f"{death.number} 秒后被终止")


def _stack(death: LiveDeath) -> Iterator[Evidence]:
    for frame in death.stack[:6]:
        yield Evidence("probe", f"in {frame.function}", path=frame.path, line=frame.line)


def _output(stage: LiveStage) -> Iterator[Evidence]:
    for line in stage.output:
        yield Evidence("probe", line, source="stderr")


def _errors(stage: LiveStage, *, whole: bool = False) -> Iterator[Evidence]:
    """Yield the exceptions, the first cause first, each with the line that raised it."""
    for error in stage.errors:
        last = error.frames[-1] if error.frames else None
        lines = error.message.splitlines() or [""]
        first = f"{error.type}: {lines[0]}".removesuffix(": ")
        yield Evidence("probe", first, path=last.path if last else None, line=last.line if last else None)
        if whole:
            for line in lines[1:_SAID_LINES]:
                yield Evidence("probe", line)


# --- what was not reached, and how the run behaved -------------------------------------------------------------------


def _not_reached(live: LiveFacts) -> Iterator[Finding]:
    stages = [stage for stage in live.stages if stage.status == "not_reached"]
    if stages:
        title = _fill(
            NOT_REACHED.title,
            stages=_titles(stages),
            reason=Text(stages[0].reason, _reason_zh(stages[0].reason)),
        )
        touched = {capability for stage in stages for capability in _meaning(stage).affects} if _is_npu(live) else set()
        affects = tuple(capability for capability in CAPABILITIES if capability in touched)
        yield Finding(link=LINK, status="unknown", code=NOT_REACHED.code, title=title, affects=affects)


_REASONS_ZH = {
    r"torch_npu is not installed": "未安装 torch_npu",
    r"TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set": "已设置 TORCH_DEVICE_BACKEND_AUTOLOAD=0",
    r"inductor compiles for the CPU in C\+\+, without triton": "inductor 在 CPU 上以 C++ 编译，不需要 triton",
    r"flex_attention has no backward on the CPU": "flex_attention 在 CPU 上不支持反向",
    r"([\d.]+) s in all were over": r"总时限 \1 秒已到",
    r"(\d+) processes had died before": r"此前已有 \1 个进程崩溃",
    r"only (\d+) devices for (\d+) ranks": r"只有 \1 个设备，不够 \2 个 rank",
}


def _reason_zh(reason: str) -> str:
    """Say the probe's reasons in Chinese; the probe itself speaks one language."""
    for pattern, words in _REASONS_ZH.items():
        if match := re.fullmatch(pattern, reason):
            return match.expand(words)
    return reason


def _manners(live: LiveFacts) -> Iterator[Finding]:
    if live.survivors:
        evidence = [Evidence("probe", item) for item in live.survivors]
        yield found(LINK, SURVIVORS, count=len(live.survivors), evidence=evidence)
    if live.stuck:
        yield found(LINK, STUCK, count=len(live.stuck), evidence=[Evidence("probe", item) for item in live.stuck])
    if live.closed:
        yield found(LINK, CLOSED, what=", ".join(live.closed))
    for stream, count in (("stdout", live.stdout_bytes), ("stderr", live.stderr_bytes)):
        if count > FLOOD_BYTES:
            yield found(LINK, FLOOD, size=f"{count / 1024 / 1024:.0f} MiB", stream=stream)


# --- what worked -----------------------------------------------------------------------------------------------------


def _seen(live: LiveFacts) -> tuple[Capability, ...]:
    """Return the capabilities that were seen to work, on whatever device."""
    good = {stage.name for stage in live.stages if stage.status == "passed"}
    return tuple(capability for capability in CAPABILITIES if good.issuperset(_PROOF[capability]))


def _worked(live: LiveFacts) -> Iterator[Finding]:
    good = [stage for stage in live.stages if stage.status == "passed"]
    ran = [stage for stage in good if list(STAGES).index(stage.name) >= list(STAGES).index("eager")]
    evidence = [_measured(stage) for stage in good]
    if not ran:
        if good:
            title = Text("got as far as: {stages}", "已完成：{stages}")
            yield passed(LINK, _fill(title, stages=_titles(good[-1:])), evidence=evidence)
        return
    device = live.find("devices")
    name = device.values.get("name", "") if device else ""
    title = _fill(
        Text("ran on {device}{name} in {seconds} s: {stages}", "在 {device}{name} 上运行 {seconds} 秒：{stages}"),
        device=_device(live),
        name=Text(f" ({name})", f"（{name}）") if name else "",
        seconds=f"{live.seconds:.0f}",
        stages=_titles(ran),
    )
    is_npu = _is_npu(live)
    detail = NOTHING if is_npu else Text("This says nothing about an NPU.", "这不能说明 NPU 上的情况。")
    yield dataclasses.replace(
        passed(LINK, title, evidence=evidence, detail=detail), proves=_seen(live) if is_npu else ()
    )


def _measured(stage: LiveStage) -> Evidence:
    values = [f"{name}: {value}" for name, value in stage.values.items()]
    seconds = "" if stage.seconds is None else f"{stage.seconds:.1f} s"
    return Evidence("probe", "; ".join([f"{stage.name} {seconds}".strip(), *values]))


# --- against the files -----------------------------------------------------------------------------------------------


def _against_the_files(live: LiveFacts, failures: Sequence[Finding], before: Sequence[Finding]) -> Iterator[Finding]:
    """Compare with the answers of the other links; a contradiction means that what they know is wrong."""
    if not before:
        return
    said = answers(before)
    seen = _seen(live)
    # What ended for want of time or memory, or found no device, does not speak of the files.
    telling = [item for item in failures if item.code not in (MEMORY.code, TIME.code, NO_DEVICE.code)]
    failed = {capability for item in telling for capability in item.affects if capability not in seen}
    too_good = [name for name in CAPABILITIES if said[name].available == "yes" and name in failed]
    too_bad = [name for name in CAPABILITIES if said[name].available == "no" and name in seen]
    if too_good:
        yield _finding(STATIC_YES, [], what=_names(too_good), detail=_PLEASE_REPORT)
    if too_bad:
        codes = dict.fromkeys(said[name].because or "" for name in too_bad)
        yield _finding(STATIC_NO, [], what=_names(too_bad), codes=", ".join(codes), detail=_PLEASE_REPORT)
    agreed = [name for name in CAPABILITIES if (said[name].available == "yes" and name in seen)]
    agreed_no = [name for name in CAPABILITIES if said[name].available == "no" and name in failed]
    if agreed or agreed_no:
        parts = [Text(f"{_CAPABILITY[name].en} yes", f"{_CAPABILITY[name].zh}可用") for name in agreed]
        parts += [
            Text(
                f"{_CAPABILITY[name].en} no ({said[name].because})",
                f"{_CAPABILITY[name].zh}不可用（{said[name].because}）",
            )
            for name in agreed_no
        ]
        what = Text(", ".join(part.en for part in parts), "，".join(part.zh for part in parts))
        yield passed(LINK, _fill(Text("confirms the files: {what}", "与从文件得出的结论一致：{what}"), what=what))


_PLEASE_REPORT = Text("Please report it with the JSON form of this report.", "请附上 JSON 格式的本报告反馈给我们。")


def _names(capabilities: Iterable[Capability]) -> Text:
    names = [_CAPABILITY[name] for name in capabilities]
    return Text(", ".join(name.en for name in names), "、".join(name.zh for name in names))


CHECK = Check(
    link=LINK,
    title=Text("live run", "实测"),
    question=Text(
        "Does flex_attention run on the device, forward and backward, and are its numbers right?",
        "flex_attention 能否在设备上运行前向与反向？结果是否正确？",
    ),
    faults=(
        NOT_STARTED,
        KNOWN,
        UNKNOWN,
        WRONG,
        SIGNAL,
        MEMORY,
        TIME,
        SILENT,
        SURVIVORS,
        STUCK,
        CLOSED,
        FLOOD,
        BAD_END,
        NOT_REACHED,
        NO_DEVICE,
        STATIC_YES,
        STATIC_NO,
    ),
    examine=examine,
    weigh=judge,
    pages=Path(__file__).with_suffix(".toml"),
)
