"""What every rendering of a log says, in both languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flexdoctor.knowledge.error_codes import ErrorCode
from flexdoctor.log_facts import Incident, LogFacts
from flexdoctor.log_findings import LogFinding, LogReport
from flexdoctor.pages import Entry
from flexdoctor.reports.explanations import title_of
from flexdoctor.text import Language, Text

_KIND = {
    "chain": Text("of the chain", "属于检查链"),
    "beside": Text("known, but not of the chain", "已知，但不属于检查链"),
    "code": Text("known by its error code only", "仅凭错误码得知"),
    "unknown": Text("not known to flexdoctor", "flexdoctor 不认识"),
}
_CONFIDENCE = {"high": Text("high", "高"), "medium": Text("medium", "中"), "low": Text("low", "低")}
_LABELS = {
    "kind": Text("what", "归类"),
    "says": Text("says", "信息"),
    "means": Text("means", "含义"),
    "code": Text("code", "代码"),
    "sure": Text("sure", "把握"),
    "where": Text("where", "位置"),
    "frame": Text("frame", "调用帧"),
    "became": Text("became", "上抛为"),
    "runtime": Text("error code", "错误码"),
    "follows": Text("follows", "起因"),
    "also": Text("also", "另见"),
    "check": Text("check", "检查"),
    "next": Text("next", "下一步"),
    "source": Text("source", "来源"),
}
_QUOTE = 300


@dataclass(frozen=True)
class Explainers:
    """What the renderings need to know of the chain: its codes, and which of them a fix mends."""

    entries: Mapping[str, Entry]
    fixable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One thing that is said of a finding. What a person will copy is never wrapped."""

    label: str
    text: str
    copy: bool = False


def quote(text: str) -> str:
    """Return text of a log such that it cannot do anything to a terminal."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown if len(shown) <= _QUOTE else f"{shown[: _QUOTE - 1]}…"


def headline(report: LogReport, language: Language) -> str:
    """Return the answer in one line."""
    facts, first = report.facts, report.first
    if first is None:
        if facts.suspect is not None:
            return (
                Text(
                    "no exception in it; the line that looks most like the cause is {line}: {text}",
                    "日志中没有异常；最可能的原因在第 {line} 行：{text}",
                )
                .format(line=facts.suspect.line, text=quote(facts.suspect.message))
                .to(language)
            )
        if facts.cut_off:
            return Text("it could not be read: {why}", "无法读取：{why}").format(why=quote(facts.cut_off)).to(language)
        if not facts.size:
            return Text("the log is empty", "日志为空").to(language)
        return Text("no error in it that could be read", "其中没有可识别的错误").to(language)
    if first.kind == "unknown":
        return (
            Text(
                "not known to flexdoctor; the line that looks most like the cause is {line}: {text}",
                "flexdoctor 不认识此错误；最可能的原因在第 {line} 行：{text}",
            )
            .format(line=first.incident.root.line, text=quote(first.incident.root.headline))
            .to(language)
        )
    if first.kind == "code":
        return _runtime(first, language)
    return first.meaning.to(language) + (f"   {_or(first.codes, language)}" if first.codes else "")


def summary(report: LogReport, language: Language) -> str:
    """Return how many of what there are."""
    kinds = [finding.kind for finding in report.findings]
    counts = [
        Text("{n} of the chain", "检查链内 {n} 个").format(n=kinds.count("chain")),
        Text("{n} known beside it", "检查链之外的已知错误 {n} 个").format(
            n=kinds.count("beside") + kinds.count("code")
        ),
        Text("{n} unknown", "未知错误 {n} 个").format(n=kinds.count("unknown") + report.facts.dropped),
    ]
    text = Text("errors by kind, first in time first: ", "错误分类（按出现先后）：").to(language)
    return text + ("，" if language == "zh" else ", ").join(count.to(language) for count in counts)


def about(facts: LogFacts, language: Language) -> str:
    """Return what was read."""
    name = facts.source if facts.source != "-" else "stdin"
    count = Text("{n} line" if facts.lines == 1 else "{n} lines", "{n} 行")
    parts = [count.format(n=f"{facts.lines:,}").to(language)]
    if facts.packed:
        parts.append(facts.packed)
    if facts.cut_off and facts.size:
        parts.append(Text("cut off: {why}", "读取中断：{why}").format(why=quote(facts.cut_off)).to(language))
    if facts.long_lines:
        parts.append(
            Text("{n} lines read only in part", "{n} 行过长，仅读取开头").format(n=facts.long_lines).to(language)
        )
    return f"{quote(name)}（{'，'.join(parts)}）" if language == "zh" else f"{quote(name)} ({', '.join(parts)})"


def rows(finding: LogFinding, report: LogReport, explainers: Explainers, language: Language) -> Iterator[Row]:
    """Yield what is to be said of a finding, the most important first."""
    for name, text, copy in _said(finding, report, explainers, language):
        yield Row(_LABELS[name].to(language) if name else "", text, copy)


#: A label by its name, empty where the one above goes on; what is said; whether a person will copy it.
_Said = tuple[str, str, bool]


def _said(finding: LogFinding, report: LogReport, explainers: Explainers, language: Language) -> Iterator[_Said]:
    yield from _judgement(finding, report, explainers, language)
    for row in finding.runtime:
        yield "runtime", _code(row, language), False
    if finding.follows is not None:
        text = Text(
            "most likely from the error of line {line}: mend that one first", "很可能源于第 {line} 行的错误：请先解决它"
        )
        yield "follows", text.format(line=finding.follows).to(language), False
    incident = finding.incident
    yield "where", _where(incident, language), False
    if incident.root.frames:
        yield "frame", quote(incident.root.frames[-1]), True
    if incident.raised_as:
        yield "became", " > ".join(quote(name) for name in incident.raised_as[:6]), True
    for other in finding.also:
        text = Text("line {line}: {text}", "第 {line} 行：{text}")
        yield "also", text.format(line=other.root.line, text=quote(other.root.headline)).to(language), False
    unknown = (item for item in report.findings if item.kind == "unknown" and item.follows is None)
    if finding.kind == "unknown" and finding is not next(unknown, None):
        return  # the same command for all of them: the first names it
    for name, command in commands(finding, explainers):
        yield name, command, True


def _judgement(finding: LogFinding, report: LogReport, explainers: Explainers, language: Language) -> Iterator[_Said]:
    colon = "：" if language == "zh" else ": "
    if finding.telling:
        yield "says", quote(finding.telling), True
    if finding.kind != "chain":
        because = colon + finding.because.to(language) if finding.because.en else ""
        yield "kind", _KIND[finding.kind].to(language) + because, False
    is_headline = finding is report.first and finding.kind not in ("unknown", "code")
    if finding.meaning.en and not is_headline:
        yield "means", finding.meaning.to(language), False
    for number, code in enumerate(finding.codes):
        entry = explainers.entries.get(code)
        link = ("（{}）" if language == "zh" else " ({})").format(entry.link if entry else "")
        title = f"{title_of(entry.fault, language)}{link}" if entry else ""
        yield "" if number else "code", f"{code} {title}".strip(), False
    if finding.confidence:
        yield "sure", f"{_CONFIDENCE[finding.confidence].to(language)}{colon}{finding.because.to(language)}", False


def commands(finding: LogFinding, explainers: Explainers) -> Iterator[tuple[str, str]]:
    """Yield the commands that decide between the codes, and those that come then."""
    if not finding.codes or finding.follows is not None:
        if finding.kind == "unknown" and finding.follows is None:
            yield "check", "flexdoctor check"
        return
    yield "check", f"flexdoctor check --select {','.join(finding.codes)}"
    yield "next", f"flexdoctor explain {' '.join(finding.codes)}"
    if explainers.fixable & set(finding.codes):
        yield "next", "flexdoctor fix"


def place(incident: Incident, language: Language) -> str:
    """Return the first line of an incident."""
    return Text("line {line}", "第 {line} 行").format(line=incident.root.line).to(language)


def _where(incident: Incident, language: Language) -> str:
    parts = []
    if incident.last_line > incident.root.line and incident.count > 1:
        lines = Text("lines {first} to {last}", "第 {first} 至 {last} 行")
        parts.append(lines.format(first=incident.root.line, last=incident.last_line).to(language))
    else:
        parts.append(place(incident, language))
    if incident.count > 1:
        times = Text("at least {n} times", "至少 {n} 次") if incident.at_least else Text("{n} times", "{n} 次")
        parts.append(times.format(n=f"{incident.count:,}").to(language))
    if incident.ranks:
        word = "rank" if len(incident.ranks) == 1 or language == "zh" else "ranks"
        parts.append(f"{word} {_ranges(incident.ranks)}")
    return ("，" if language == "zh" else ", ").join(parts)


def _ranges(numbers: Sequence[int]) -> str:
    """Return 0-3, 7 for 0 1 2 3 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:12]]
    return ", ".join(shown) + (", …" if len(runs) > 12 else "")


def _runtime(finding: LogFinding, language: Language) -> str:
    row = finding.runtime[0]
    told = "错误码 {code}（{name}）：{meaning}" if row.meaning.zh else "仅知错误码为 {code}（{name}）"
    return Text("{code} {name}: {meaning}", told).format(code=row.code, name=row.name, meaning=row.meaning).to(language)


def _code(row: ErrorCode, language: Language) -> str:
    """Return what is known of an error code of the runtime."""
    colon, brackets = ("：", "（{}）") if language == "zh" else (": ", " ({})")
    meaning, causes = row.meaning.to(language), row.causes.to(language)
    told = f"{colon}{meaning}" if meaning else ""
    return f"{row.code} {row.name}{told}{brackets.format(causes) if causes else ''}"


def _or(codes: Sequence[str], language: Language) -> str:
    return (" 或 " if language == "zh" else " or ").join(codes)
