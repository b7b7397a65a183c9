"""What the errors of a log mean: which link they come from, how sure that is, and what follows from what."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from flexdoctor.knowledge.error_codes import ErrorCode, look_up
from flexdoctor.knowledge.signatures import Signature, signatures
from flexdoctor.log_facts import Incident, LogFacts
from flexdoctor.text import NOTHING, Text

#: "chain": a fault of the chain. "beside": an error that is known, and is none of the chain. "code": only a code of the
#: runtime is known. "unknown": nothing is known.
Kind = Literal["chain", "beside", "code", "unknown"]
Confidence = Literal["high", "medium", "low"]

_FRAME = Text("the traceback shows the place that raises it", "traceback 中可见抛出该错误的位置")
_MESSAGE = Text("nothing else is known to say this", "目前已知只有此故障会报出这条信息")
_SEVERAL = Text("several faults end in this error", "多种故障都会报出此错误")
_NO_FRAMES = Text("by the message alone: the log has no traceback of it", "仅凭报错信息：日志中没有对应的 traceback")
_NOT_ASCEND = Text("nothing else in the log speaks of an NPU", "日志中没有其他与 NPU 有关的内容")
_HANDLED = Text(
    "another error was raised while this one was being handled, so it may have been harmless",
    "处理该错误期间又抛出了另一个错误，它本身可能无害",
)
_MILD = Text("the log has it as a warning only", "日志仅将其作为警告输出")
_NO_NETWORK = Text("the log speaks of a network that does not work, too", "日志同时显示网络不通")
_NO_CAUSE = Text("the log does not tell the cause of it", "日志没有给出其根本原因")
_IS_GPU = Text(
    "Ascend knows this error too, but the log is of a GPU: it is none of the chain",
    "昇腾上也会出现此错误，但该日志来自 GPU 环境，不属于检查链",
)


@dataclass(frozen=True)
class LogFinding:
    """One kind of error in a log, judged."""

    incident: Incident
    kind: Kind
    meaning: Text = NOTHING
    #: The faults that it may be, the likeliest first.
    codes: tuple[str, ...] = ()
    confidence: Confidence | None = None
    because: Text = NOTHING
    #: The line of an earlier error from which this one follows.
    follows: int | None = None
    #: Others that say the same.
    also: tuple[Incident, ...] = ()
    runtime: tuple[ErrorCode, ...] = ()
    #: The line of the message that tells, when it is not the first.
    telling: str = ""
    #: Where the knowledge has it from.
    source: str = ""


@dataclass(frozen=True)
class LogReport:
    """All that a log tells, the first in time first."""

    facts: LogFacts
    findings: tuple[LogFinding, ...]

    @property
    def verdict(self) -> Literal["clean", "known", "unknown"]:
        """Whether there is no error in it, one that is known, or only such as are not."""
        if any(finding.kind != "unknown" for finding in self.findings):
            return "known"
        if self.findings or self.facts.suspect or self.facts.cut_off:
            return "unknown"
        return "clean"

    @property
    def exit_code(self) -> int:
        """0 no error in it, 1 an error that is known, 3 an error that is not, or a log that could not be read."""
        return {"clean": 0, "known": 1, "unknown": 3}[self.verdict]

    @property
    def first(self) -> LogFinding | None:
        """The finding that the answer starts with: the first fault of the chain, else the first that is known."""
        own = [finding for finding in self.findings if finding.follows is None]
        for mild in (False, True):
            for kind in ("chain", "beside", "code"):
                for finding in own:
                    if (finding.kind, finding.incident.mild) == (kind, mild):
                        return finding
        if own:
            return own[0]
        return self.findings[0] if self.findings else None


def judge(facts: LogFacts) -> LogReport:
    """Judge what was read of a log."""
    table = {row.name: row for row in signatures()}
    findings = list(_merged([_finding(item, facts, table) for item in facts.incidents]))
    return LogReport(facts, tuple(_with_causes(findings, table)))


def _finding(incident: Incident, facts: LogFacts, table: dict[str, Signature]) -> LogFinding:
    runtime = tuple(row for code in incident.runtime_codes for row in look_up(code)[:1])
    row = table.get(incident.signature or "")
    if row is None:
        if not facts.mentions_ascend and (facts.mentions_nvidia or "error code is" not in incident.root.message):
            runtime = ()  # a number alone is anybody's
        wrapper = table.get(incident.wrapped_by or "")
        return LogFinding(
            incident,
            "code" if runtime else "unknown",
            meaning=wrapper.meaning if wrapper else NOTHING,
            runtime=runtime,
        )
    judged = LogFinding(
        incident,
        "chain",
        row.meaning,
        row.codes,
        runtime=runtime,
        telling=_telling(row, incident.root.message),
        source=f"{row.source}, {row.date}",
    )
    if not row.codes:
        return dataclasses.replace(judged, kind="beside")
    if row.general and facts.mentions_nvidia and not facts.mentions_ascend:
        return dataclasses.replace(judged, kind="beside", codes=(), meaning=_IS_GPU)
    confidence, because = _confidence(row, incident, facts)
    return dataclasses.replace(judged, confidence=confidence, because=because)


def _telling(row: Signature, message: str) -> str:
    """Return the line of a message by which the row knows it, empty when that is the first."""
    match = row.message.search(message)
    if match is None or "\n" not in message[: match.start()]:
        return ""
    return message[message.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0].strip()


def _confidence(row: Signature, incident: Incident, facts: LogFacts) -> tuple[Confidence, Text]:
    if incident.handled:
        return "low", _HANDLED
    if incident.mild:
        return "low", _MILD
    if row.network and facts.no_network:
        return "low", _NO_NETWORK
    if row.general and not facts.mentions_ascend:
        return "low", _NOT_ASCEND
    if row.wraps:
        return "low", _NO_CAUSE
    if len(row.codes) > 1:
        return "medium", _SEVERAL
    if row.frame is not None:
        return ("high", _FRAME) if incident.root.frames else ("medium", _NO_FRAMES)
    return "high", _MESSAGE


def _merged(findings: Sequence[LogFinding]) -> Iterator[LogFinding]:
    """Yield the findings; those that name the same faults are one."""
    groups: dict[tuple[str, ...], list[LogFinding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(finding.codes or (str(number),), []).append(finding)
    strength = ("high", "medium", "low", None)
    for group in groups.values():
        best = min(group, key=lambda finding: (strength.index(finding.confidence), finding.incident.root.line))
        others = tuple(finding.incident for finding in group if finding is not best)
        yield dataclasses.replace(best, also=others)


def _with_causes(findings: list[LogFinding], table: dict[str, Signature]) -> Iterator[LogFinding]:
    """Yield the findings in order of time; what others see when one has failed names that one."""
    causes = [finding for finding in findings if not (finding.incident.mild or _is_consequence(finding, table))]
    for finding in sorted(findings, key=_line):
        before = [cause for cause in causes if _line(cause) < _line(finding)]
        if before and _is_consequence(finding, table):
            cause = min((cause for cause in before if cause.kind != "unknown"), key=_line, default=before[-1])
            yield dataclasses.replace(finding, follows=_line(cause))
        else:
            yield finding


def _line(finding: LogFinding) -> int:
    return min(item.root.line for item in (finding.incident, *finding.also))


def _is_consequence(finding: LogFinding, table: dict[str, Signature]) -> bool:
    row = table.get(finding.incident.signature or "")
    return row is not None and row.consequence
