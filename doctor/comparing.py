"""Makes a comparison out of reports, one at a time: of a node only what names it is kept, of a group one report."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, get_args

from flexdoctor import hostlists
from flexdoctor.comparison import Comparison, Difference, Group, JobVerdict, Node, Standing, Unfinished
from flexdoctor.findings import Evidence, Finding, Severity, Status, Verdict, Waiver
from flexdoctor.nodes import STARTED_SUFFIX, NodeIdentity, NodeReport, StartedTrace, Unusable
from flexdoctor.profile import absence_tells, fingerprint, is_of_the_chain, links_of, names_in
from flexdoctor.text import NOTHING, Text

ALL_RUNS = "all"
#: What counts as found; that a link holds or was not asked about sets no node apart.
_FOUND = ("fail", "warn", "blocked", "unknown", "crashed")
_STATUSES = frozenset(get_args(Status))
_BEST_FIRST: tuple[Verdict, ...] = ("healthy", "waived", "unknown", "broken")
_WORST_FIRST: tuple[Standing, ...] = ("fault", "drift", "other")

#: What makes two nodes alike: fingerprint, verdict, what was found and how it counts, and why nothing could be.
_Found = tuple[str, str | None, str, str, bool]
_Kind = tuple[str | None, str, tuple[_Found, ...], str | None]


@dataclass(frozen=True)
class Expectation:
    """Which nodes there should be, and who says so."""

    count: int | None = None
    hosts: tuple[str, ...] = ()
    by: str = ""


@dataclass
class _Entry:
    """One report of one node, without its content."""

    node: Node
    kind: _Kind
    started: float
    local_rank: int | None = None
    nodes: int | None = None
    node_names: str | None = None
    launcher: str | None = None

    @property
    def apart(self) -> int | None:
        """Local rank 0 of two nodes that bear the same name, which containers like to do."""
        return self.node.rank if self.node.index is None and self.local_rank == 0 else None


@dataclass
class _Sample:
    """The content that all reports of a kind share, taken from the first."""

    verdict: Verdict
    root_cause: str | None
    findings: tuple[Finding, ...]
    error: str | None


class Gathering:
    """Takes in reports one by one, and compares at the end."""

    def __init__(self, *, run: str | None = None) -> None:
        """Args: run: only this run of a job; None: all, of which the newest is the one that has to be complete."""
        self._run = run
        self._entries: list[_Entry] = []
        self._traces: list[StartedTrace] = []
        self._unusable: list[Unusable] = []
        self._samples: dict[_Kind, _Sample] = {}
        self._profiles = _Profiles()
        self._findings: dict[str, Finding] = {}
        self._other_runs = 0
        self._required: set[str] = set()

    def add_unusable(self, item: Unusable) -> None:
        """Take in a file that is no report."""
        self._unusable.append(item)

    def add_trace(self, trace: StartedTrace) -> None:
        """Take in the trace of a start."""
        if self._is_wanted(trace.identity):
            self._traces.append(trace)

    def add(self, report: NodeReport) -> None:
        """Take in a report; one whose content is not what it should be is noted as unusable."""
        if not self._is_wanted(report.identity):
            return
        try:
            self._entries.append(self._entry(report))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            detail = f"{type(error).__name__}: {error}"
            self._unusable.append(Unusable(report.path, "malformed", detail))

    def _is_wanted(self, identity: NodeIdentity | None) -> bool:
        if self._run in (None, ALL_RUNS):
            return True
        run = identity.run if identity else None
        wanted = run is not None and (run == self._run or run.endswith(f" {self._run}"))
        self._other_runs += not wanted
        return wanted

    def _entry(self, report: NodeReport) -> _Entry:
        document, identity = report.document, report.identity
        error = document.get("error")
        message = str(error["message"]) if isinstance(error, dict) else None
        if strange := {item["status"] for item in document["findings"]} - _STATUSES:
            raise ValueError(f"no finding has the status {strange.pop()!r}")
        found = tuple(
            (
                str(item["link"]),
                item.get("code"),
                str(item["status"]),
                str(item.get("severity")),
                bool(item.get("waiver")),
            )
            for item in document["findings"]
            if item["status"] in _FOUND
        )
        print_ = self._profiles.add(document.get("fingerprint"), document.get("environment"))
        kind: _Kind = (print_, str(document["verdict"]), found, message)
        if kind not in self._samples:
            self._samples[kind] = _Sample(
                verdict=document["verdict"],
                root_cause=document.get("root_cause"),
                findings=tuple(self._finding(item) for item in document["findings"]),
                error=message,
            )
        if message is None:
            self._required.add(str(document.get("required")))
        tool = document["tool"]
        host = identity.host if identity else None
        node = Node(
            name=host or PurePath(report.path).name.removesuffix(".json"),
            path=report.path,
            host=host,
            rank=identity.rank if identity else None,
            index=identity.index if identity else None,
            run=identity.run if identity else None,
            tool_version=self._profiles.once(str(tool.get("version"))),
            knowledge_date=self._profiles.once(str(tool.get("knowledge_date"))),
        )
        if identity is None:
            return _Entry(node, kind, 0.0)
        return _Entry(
            node,
            kind,
            identity.started or 0.0,
            identity.local_rank,
            identity.nodes,
            identity.node_names,
            identity.launcher,
        )

    def _finding(self, data: Mapping[str, Any]) -> Finding:
        """Return a finding as it stands in a report; equal ones are one object, however many groups have them."""
        key = json.dumps(data)
        if key not in self._findings:
            self._findings[key] = read_finding(data)
        return self._findings[key]

    def compare(self, expectation: Expectation = Expectation(), *, whole_job: bool = False) -> Comparison:
        """Return the answer.

        Args:
            expectation: which nodes there should be.
            whole_job: these are all the reports of a job, so that what its launcher said of its size holds.
        """
        newest = self._newest_run()
        entries = _one_a_node(self._entries, whole_job=whole_job)
        unfinished = self._unfinished()
        current = [entry for entry in entries if self._counts(entry.node.run, newest)]
        if whole_job and expectation.count is None and not expectation.hosts:
            expectation = self._launcher_says(newest)
        groups = self._groups(entries)
        missing, unexpected = _missing(expectation, current, unfinished, self._unusable)
        count = len(missing)
        if not expectation.hosts and expectation.count is not None:
            count = max(expectation.count - _accounted(current, unfinished, self._unusable), 0)
        reference = next((group for group in groups if group.is_reference), None)
        comparison = Comparison(
            groups=groups,
            verdict="alike",
            environment=self._profiles.get(reference.fingerprint) if reference else {},
            expected=len(expectation.hosts) or expectation.count,
            expected_by=expectation.by or None,
            missing=missing,
            missing_count=count,
            unexpected=unexpected,
            unfinished=unfinished,
            unusable=tuple(self._unusable),
            notes=tuple(self._notes(entries, newest)),
        )
        return dataclasses.replace(comparison, verdict=_verdict(comparison))

    def _newest_run(self) -> str | None:
        starts = [(entry.started, entry.node.run) for entry in self._entries if entry.node.run]
        starts += [(item.identity.started or 0.0, item.identity.run) for item in self._traces if item.identity.run]
        return max(starts, key=lambda start: start[0])[1] if starts else None

    def _counts(self, run: str | None, newest: str | None) -> bool:
        """Whether a report speaks for a node of the run that has to be complete."""
        return self._run is not None or run is None or newest is None or run == newest

    def _launcher_says(self, newest: str | None) -> Expectation:
        identities = [item.identity for item in self._traces if self._counts(item.identity.run, newest)]
        told = [(item.started, item.nodes, item.node_names, item.node.run, item.launcher) for item in self._entries]
        told += [(item.started or 0.0, item.nodes, item.node_names, item.run, item.launcher) for item in identities]
        ours = [item for item in told if self._counts(item[3], newest) and (item[1] or item[2])]
        if not ours or (self._run == ALL_RUNS and len({item[3] for item in ours}) > 1):
            return Expectation()
        _, count, names, _, launcher = max(ours, key=lambda item: item[0])
        by = launcher or "launcher"
        try:
            hosts = tuple(hostlists.expand(names or ""))
        except hostlists.HostListError:
            hosts = ()
        return Expectation(None if hosts else count, hosts, by)

    def _unfinished(self) -> tuple[Unfinished, ...]:
        """Return the starts that no report followed: that of the same process, or one of the node in a later run."""
        written = {entry.node.path: entry.started for entry in self._entries}
        last: dict[str | None, tuple[float, str | None]] = {}
        for entry in self._entries:
            before = last.get(entry.node.host)
            if before is None or entry.started > before[0]:
                last[entry.node.host] = (entry.started, entry.node.run)
        found: dict[str, Unfinished] = {}
        for trace in self._traces:
            who = trace.identity
            started = who.started or 0.0
            done = written.get(trace.path.removesuffix(STARTED_SUFFIX) + ".json", -1.0) >= started
            later, run = last.get(who.host, (-1.0, None))
            if not done and not (later >= started and run != who.run):
                name = who.host if who.host not in found else f"{who.host} rank {who.rank}"
                found[name] = Unfinished(name, trace.path, who.started, who.run)
        return tuple(found.values())

    def _groups(self, entries: Sequence[_Entry]) -> tuple[Group, ...]:
        members: dict[_Kind, list[Node]] = {}
        for entry in entries:
            members.setdefault(entry.kind, []).append(entry.node)
        if not members:
            return ()

        def standing(kind: _Kind) -> tuple[bool, int]:
            sample = self._samples[kind]
            return sample.error is not None, _BEST_FIRST.index(sample.verdict)

        reference = min(members, key=lambda kind: (standing(kind), -len(members[kind]), members[kind][0].name))
        order = sorted(
            members,
            key=lambda kind: (-len(members[kind]), kind != reference, standing(kind), members[kind][0].name),
        )
        return tuple(self._group(number, kind, members[kind], reference) for number, kind in enumerate(order, 1))

    def _group(self, number: int, kind: _Kind, nodes: list[Node], reference: _Kind) -> Group:
        sample, usual = self._samples[kind], self._samples[reference]
        only_here = _beyond(sample.findings, usual.findings)
        return Group(
            number=number,
            fingerprint=kind[0],
            nodes=tuple(sorted(nodes, key=lambda node: _natural(node.name))),
            verdict=sample.verdict,
            root_cause=sample.root_cause,
            findings=sample.findings,
            is_reference=kind == reference,
            differences=self._differences(kind[0], reference[0], only_here),
            only_here=only_here,
            not_here=_beyond(usual.findings, sample.findings) if sample.error is None else (),
            error=sample.error,
        )

    def _differences(self, here: str | None, usual: str | None, only_here: Sequence[Finding]) -> tuple[Difference, ...]:
        found = [item for item in only_here if item.code and item.status in ("fail", "warn", "unknown")]
        first = next((item.code for item in found if item.severity == "error"), None)
        ranked = []
        for position, key, before, now in self._profiles.changed(usual, here):
            item, nearness = _difference(key, before, now, found)
            # That a thing is there at all weighs more than which version of it.
            both = None not in (before, now)
            rank = (_WORST_FIRST.index(item.standing), first not in item.codes, nearness, both, position)
            ranked.append((rank, item))
        return tuple(item for _, item in sorted(ranked, key=lambda pair: pair[0]))

    def _notes(self, entries: Sequence[_Entry], newest: str | None) -> Iterable[Text]:
        nodes = [entry.node for entry in entries]
        versions = {node.tool_version for node in nodes}
        dates = {node.knowledge_date for node in nodes}
        if len(versions) > 1 or len(dates) > 1:
            shown = _by_value(nodes, lambda node: f"{node.tool_version} ({node.knowledge_date})")
            yield Text(
                "written by different versions of flexdoctor (knowledge of): {shown}. "
                "A fault that only the newer one knows looks like a difference between nodes",
                "报告由不同版本的 flexdoctor（知识库日期）生成：{shown}。只有新版本才认识的故障会被看成节点之间的差异",
            ).format(shown=shown)
        if len(self._required) > 1:
            yield Text(
                "the reports do not ask for the same capability (--require): {shown}",
                "各报告要求的能力（--require）不同：{shown}",
            ).format(shown=", ".join(sorted(self._required)))
        runs = {node.run for node in nodes if node.run}
        if len(runs) > 1 and self._run is None:
            earlier = [node for node in nodes if node.run and node.run != newest]
            yield Text(
                "{count} reports are of other runs than the newest ({newest}): {shown}. They are judged, and count "
                "as missing where nodes are counted; --run ID takes one run, --run all takes them as one job",
                "有 {count} 份报告不属于最近一次运行（{newest}）：{shown}。它们同样参与判断，但清点节点时视为缺失；"
                "--run ID 只取一次运行，--run all 将它们视为同一作业",
            ).format(count=len(earlier), newest=newest, shown=_by_value(earlier, lambda node: node.run or "-"))
        if self._other_runs:
            yield Text("{count} files of other runs are left out", "未计入其他运行的 {count} 个文件").format(
                count=self._other_runs
            )
        blank = [entry.node for entry in entries if entry.kind[0] is None and entry.kind[3] is None]
        if blank:
            yield Text(
                "{count} reports do not hold the environment (an older flexdoctor wrote them), so that only their "
                "findings are compared: {shown}",
                "有 {count} 份报告未包含环境信息（由较旧的 flexdoctor 生成），只能比较其检查结果：{shown}",
            ).format(count=len(blank), shown=hostlists.fold(node.name for node in blank[:1000]))


class _Profiles:
    """Environments by fingerprint. All but the first are kept as what differs from it."""

    def __init__(self) -> None:
        self._base: dict[str, str] = {}
        self._changes: dict[str, dict[str, str | None]] = {}
        self._strings: dict[str, str] = {}
        self._positions: dict[str, int] = {}

    def once(self, value: str) -> str:
        """Return an equal string, always the same object."""
        return self._strings.setdefault(value, value)

    def add(self, given: object, environment: object) -> str | None:
        """Take in a profile and return its fingerprint; None where there is none."""
        if not isinstance(environment, dict) or not environment:
            return None
        if isinstance(given, str) and given in self._changes:
            return given
        name = (
            given if isinstance(given, str) else fingerprint({str(key): str(environment[key]) for key in environment})
        )
        if not self._base:
            self._base = {str(key): str(value) for key, value in environment.items()}
            self._positions = {key: position for position, key in enumerate(self._base)}
        base = self._base
        changes: dict[str, str | None] = {
            self.once(str(key)): self.once(str(value)) for key, value in environment.items() if base.get(key) != value
        }
        for key in changes:
            self._positions.setdefault(key, len(self._positions))
        changes.update({key: None for key in base if key not in environment})
        self._changes[name] = changes
        return self.once(name)

    def changed(self, usual: str | None, here: str | None) -> Iterator[tuple[int, str, str | None, str | None]]:
        """Yield the keys in which two profiles differ, with where each stands and both values."""
        before, now = self._changes.get(usual or ""), self._changes.get(here or "")
        if before is None or now is None or usual == here:
            return
        for key in {**before, **now}:
            base = self._base.get(key)
            old, new = before.get(key, base), now.get(key, base)
            if old != new:
                yield self._positions[key], key, old, new

    def get(self, name: str | None) -> dict[str, str]:
        """Return the whole profile of a fingerprint."""
        if name is None:
            return {}
        merged = {**self._base, **self._changes.get(name, {})}
        return {key: value for key, value in merged.items() if value is not None}


def read_finding(data: Mapping[str, Any]) -> Finding:
    """Return a finding from its JSON in a report.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    given = data.get("zh")
    chinese: dict[str, Any] = given if isinstance(given, dict) else {}

    def text(key: str) -> Text:
        english = str(data.get(key) or "")
        return Text(english, str(chinese.get(key) or english)) if english else NOTHING

    if (data.get("severity") or "none") not in get_args(Severity):
        raise ValueError(f"no finding has the severity {data['severity']!r}")
    return Finding(
        link=str(data["link"]),
        status=data["status"],
        title=text("title"),
        code=_code(data, "code"),
        severity=data.get("severity") or "none",
        detail=text("detail"),
        evidence=tuple(_evidence(item) for item in data.get("evidence") or ()),
        predicted_errors=tuple(str(item) for item in data.get("predicted_errors") or ()),
        remedy=text("remedy"),
        affects=tuple(data.get("affects") or ()),
        blocked_by=_code(data, "blocked_by"),
        waiver=_waiver(data.get("waiver")),
    )


def _code(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}")
    return value


def _waiver(data: object) -> Waiver | None:
    if not isinstance(data, dict):
        return None
    expires = data.get("expires")
    until = datetime.date.fromisoformat(expires) if expires else None
    return Waiver(str(data["code"]), str(data.get("reason") or ""), until)


def _evidence(data: Mapping[str, Any]) -> Evidence:
    path, line, source = data.get("path"), data.get("line"), data.get("source")
    return Evidence(
        kind=data["kind"],
        text=str(data["text"]),
        path=path if isinstance(path, str) else None,
        line=line if isinstance(line, int) else None,
        source=source if isinstance(source, str) else None,
    )


def _beyond(findings: Sequence[Finding], others: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return what was found in the first and not in the others."""
    known = {(item.link, item.code) for item in others if item.status in _FOUND and item.status != "blocked"}
    return tuple(
        item
        for item in findings
        if item.status in _FOUND and item.status != "blocked" and (item.link, item.code) not in known
    )


def _difference(key: str, usual: str | None, here: str | None, found: Sequence[Finding]) -> tuple[Difference, int]:
    """Return a difference with the findings that it concerns, and how near they are: 0 named in a title, 1 in proof."""
    nearness = {item.code or "": near for item in found if (near := _nearness(item, key, usual, here)) is not None}
    is_told = absence_tells(key) or (usual is not None and here is not None)
    standing: Standing = "fault" if nearness else "drift" if is_told and is_of_the_chain(key) else "other"
    return Difference(key, usual, here, standing, tuple(nearness)), min(nearness.values(), default=2)


def _nearness(finding: Finding, key: str, usual: str | None, here: str | None) -> int | None:
    """Return how near a finding is to what a key is about; None: it speaks of something else."""
    proof = " ".join(item.text for item in finding.evidence)
    if names := names_in(key):
        pattern = "|".join(re.escape(name) for name in names)
        for near, words in enumerate((finding.title.en, proof)):
            if re.search(rf"(?<![\w.-])(?:{pattern})(?![\w-])", words):
                return near
        return None
    if finding.link not in links_of(key) or (None in (usual, here) and not absence_tells(key)):
        return None
    # A version is named where it is part of the fault; that something is there or not is the fault itself.
    if here and re.match(r"\d+\.\d+", here):
        return 0 if here in f"{finding.title.en} {proof}" else None
    return 0


def _one_a_node(entries: Sequence[_Entry], *, whole_job: bool) -> list[_Entry]:
    """Return one entry for each node: of several runs the newest, of several ranks the first, unless they differ.

    Of files that were named one by one all runs are kept: before and after are what is to be compared.
    """
    newest: dict[str | None, _Entry] = {}
    for entry in entries:
        if entry.started >= newest.setdefault(entry.node.host, entry).started:
            newest[entry.node.host] = entry
    by_node: dict[tuple[object, ...], list[_Entry]] = {}
    for entry in entries:
        node = entry.node
        if node.host is None:
            by_node.setdefault((None, node.path), []).append(entry)
            continue
        # In another run a node may have another number and rank; it is the same node.
        if not whole_job or node.run == newest[node.host].node.run:
            by_node.setdefault((node.host, node.run, node.index, entry.apart), []).append(entry)
    chosen: list[_Entry] = []
    for found in by_node.values():
        kept: dict[_Kind, _Entry] = {}
        for entry in found:
            kept.setdefault(entry.kind, entry)
        chosen += kept.values()
    return _named_apart(chosen)


def _named_apart(entries: list[_Entry]) -> list[_Entry]:
    """Give nodes of the same name a number or a rank, or at last their file."""
    ways: tuple[Callable[[Node], str], ...] = (
        lambda node: node.name if node.index is None else f"{node.name} (node {node.index})",
        lambda node: node.name if node.rank is None else f"{node.name} (rank {node.rank})",
        lambda node: node.path,
    )
    for tell in ways:
        counts: dict[str, int] = {}
        for entry in entries:
            counts[entry.node.name] = counts.get(entry.node.name, 0) + 1
        if len(counts) == len(entries):
            break
        for entry in entries:
            if counts[entry.node.name] > 1:
                entry.node = dataclasses.replace(entry.node, name=tell(entry.node))
    return entries


def _missing(
    expectation: Expectation, entries: Sequence[_Entry], unfinished: Sequence[Unfinished], unusable: Sequence[Unusable]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of the expected hosts left nothing, and which hosts nobody expected."""
    if not expectation.hosts:
        return (), ()
    present = {entry.node.host or entry.node.name for entry in entries} | {item.name for item in unfinished}
    present |= {host_of_file(item.path) for item in unusable if item.costs_a_node}
    known = _short_and_long(present)
    missing = tuple(host for host in expectation.hosts if not _short_and_long([host]) & known)
    wanted = _short_and_long(expectation.hosts)
    unexpected = tuple(
        sorted({host for entry in entries if (host := entry.node.host) and not _short_and_long([host]) & wanted})
    )
    return missing, unexpected


def _accounted(entries: Sequence[_Entry], unfinished: Sequence[Unfinished], unusable: Sequence[Unusable]) -> int:
    """Return of how many nodes something is there, however many of their ranks left it."""
    judged = {(entry.node.host or entry.node.path, entry.node.index, entry.apart) for entry in entries}
    paths = [item.path for item in unfinished] + [item.path for item in unusable if item.costs_a_node]
    lost = {host_of_file(path) for path in paths} - {host_of_file(entry.node.path) for entry in entries}
    return len(judged) + len(lost)


def host_of_file(path: str) -> str:
    """Return the host that the name of a file stands for."""
    name = PurePath(path).name
    return re.sub(r"(?:\.rank\d+)?(?:\.started)?\.json\Z", "", name)


def _short_and_long(names: Iterable[str]) -> set[str]:
    """Return names as they are and without their domain; an address has none."""
    found = set()
    for name in names:
        lower = name.lower()
        found.add(lower)
        if not re.fullmatch(r"[\d.]+", lower):
            found.add(lower.partition(".")[0])
    return found


def _verdict(comparison: Comparison) -> JobVerdict:
    groups = comparison.groups
    lost = comparison.missing_count or comparison.unfinished or any(item.costs_a_node for item in comparison.unusable)
    if lost or any(group.has_errors for group in groups):
        return "faulty"
    if not groups or any(group.verdict == "unknown" for group in groups):
        return "unknown"
    return "drift" if len(groups) > 1 else "alike"


def _by_value(nodes: Iterable[Node], tell: Callable[[Node], str]) -> str:
    values: dict[str, list[str]] = {}
    for node in nodes:
        values.setdefault(tell(node), []).append(node.name)
    return "; ".join(
        f"{value}: {hostlists.fold(names) if len(names) <= 4 else f'{len(names)}'}"
        for value, names in sorted(values.items(), key=lambda item: -len(item[1]))
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what to sort names by, so that node9 stands before node10."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts)]
