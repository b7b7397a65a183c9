"""The report for a person: the answer first, then the chain in order, then proof, then the next command.

On a terminal it is laid out and coloured with rich. In a pipe there is one finding a line, nothing is wrapped, and
rich is not even imported.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flexdoctor import __version__
from flexdoctor.chain import Check
from flexdoctor.facts import Facts
from flexdoctor.findings import CAPABILITIES, Capability, Evidence, Finding, Report, Status
from flexdoctor.knowledge import newest_date
from flexdoctor.reports.rendering import Detail, Diagnosis, Page
from flexdoctor.reports.words import CAPABILITY
from flexdoctor.reports.wrapping import wrap
from flexdoctor.text import Language, Text

_STATUS = {
    "pass": Text("ok", "正常"),
    "warn": Text("warn", "警告"),
    "fail": Text("FAIL", "故障"),
    "blocked": Text("blocked", "受阻"),
    "skipped": Text("-", "-"),
    "unknown": Text("unknown", "未知"),
    "crashed": Text("CRASHED", "崩溃"),
}
#: Which status speaks for a link that has several findings.
_WORST: tuple[Status, ...] = ("crashed", "fail", "unknown", "blocked", "warn", "pass", "skipped")
_STYLE = {"fail": "bold red", "crashed": "bold red", "warn": "yellow", "unknown": "magenta", "pass": "green"}
_AVAILABLE = {"yes": Text("yes", "可用"), "no": Text("no", "不可用"), "unknown": Text("unknown", "未知")}
_HEADLINE: dict[Capability, Text] = {
    "eager": Text("eager flex_attention cannot run here", "eager 模式的 flex_attention 在此环境无法运行"),
    "compiled_forward": Text("compiled flex_attention cannot run here", "编译版 flex_attention 在此环境无法运行"),
    "compiled_backward": Text(
        "compiled flex_attention cannot be trained here", "编译版 flex_attention 在此环境无法训练（反向）"
    ),
    "compiled_captured": Text(
        "compiled flex_attention with captured tensors cannot run here",
        "索引外部张量的编译版 flex_attention 在此环境无法运行",
    ),
}
_HEALTHY: dict[Capability, Text] = {
    "eager": Text(
        "eager flex_attention: nothing found that keeps it from running here",
        "eager 模式的 flex_attention：未发现妨碍其运行的问题",
    ),
    "compiled_forward": Text(
        "compiled flex_attention: nothing found that keeps it from running here",
        "编译版 flex_attention：未发现妨碍其运行的问题",
    ),
    "compiled_backward": Text(
        "compiled flex_attention: nothing found that keeps it from training here",
        "编译版 flex_attention：未发现妨碍其训练的问题",
    ),
    "compiled_captured": Text(
        "compiled flex_attention with captured tensors: nothing found that keeps it from running here",
        "索引外部张量的编译版 flex_attention：未发现妨碍其运行的问题",
    ),
}
_LABEL = {
    "proof": Text("proof", "证据"),
    "see": Text("you see", "现象"),
    "why": Text("why", "原因"),
    "fix": Text("fix", "修复"),
    "more": Text("more", "详情"),
    "can": Text("can run", "能力"),
    "source": Text("source", "来源"),
}


#: How many lines of proof a finding shows unless asked for all.
_PROOF = 3


@dataclass(frozen=True)
class TextOptions:
    """How to render: language, how much, and for which kind of output."""

    language: Language = "en"
    detail: Detail = "normal"
    terminal: bool = False
    width: int = 80
    colour: bool = False
    #: Codes that `flexdoctor fix` would mend here.
    mended_by_fix: frozenset[str] = frozenset()


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return the report for a person to read on `page`."""
    options = TextOptions(
        language=page.language,
        detail=page.detail,
        terminal=page.terminal,
        width=page.width,
        colour=page.colour,
        mended_by_fix=frozenset(diagnosis.plan.opens if diagnosis.plan else ()),
    )
    return render_text(diagnosis.report, diagnosis.facts, diagnosis.chain, options)


def render_text(report: Report, facts: Facts, chain: Sequence[Check], options: TextOptions) -> str:
    """Return the report as text, for a terminal or for a pipe."""
    if options.detail == "quiet":
        return _headline(report, options.language) + "\n"
    if options.terminal:
        return _Terminal(report, facts, chain, options).render()
    return "".join(f"{line}\n" for line in _plain(report, facts, options))


def _head(facts: Facts, language: Language) -> str:
    interpreter = facts.interpreter
    python = [f"Python {interpreter.version}" if interpreter.version else "", interpreter.architecture or ""]
    about = ", ".join(part for part in python if part)
    return Text(
        "flexdoctor {version} · knowledge of {date} · examining {target}",
        "flexdoctor {version} · 知识库 {date} · 检查对象 {target}",
    ).format(version=__version__, date=newest_date(), target=facts.target.description).to(language) + (
        f" ({about})" if about else ""
    )


def _headline(report: Report, language: Language) -> str:
    cause = report.root_cause
    if cause is not None and not cause.affects:
        # It keeps something else from running: its title says what.
        return f"{cause.title.to(language)}   {cause.code}"
    if cause is not None:
        what = _HEADLINE[report.required].to(language)
        colon = "：" if language == "zh" else ": "
        return f"{what}{colon}{cause.title.to(language)}   {cause.code}"
    crashed = next((item for item in report.findings if item.status in ("crashed", "unknown")), None)
    if report.verdict == "unknown" and crashed is not None:
        return (
            Text("could not tell whether it runs here: {title}   {code}", "无法判断此环境能否运行：{title}   {code}")
            .format(title=crashed.title.to(language), code=crashed.code)
            .to(language)
        )
    return _HEALTHY[report.required].to(language)


def headline(report: Report, language: Language) -> str:
    """Return the answer in one sentence, for the formats that begin with it as the text does."""
    return _headline(report, language)


def capability_words(report: Report, language: Language) -> list[str]:
    """Return in which ways flex_attention can run, one phrase each."""
    return [phrase for _, phrase in _capabilities(report, language)]


def _also(report: Report, language: Language) -> str | None:
    """Say what the packages alone would give when only the machine is at fault, and name the machine when both are."""
    cause = report.root_cause
    if cause is not None and not cause.machine_only:
        bare = next((item for item in report.findings if item.machine_only and item.status == "warn"), None)
        if bare is not None:
            return f"{bare.title.to(language)}   {bare.code}"
    if cause is None or not cause.machine_only or all(item.link != "packages" for item in report.findings):
        return None
    first = next((item for item in report.findings if item.status == "fail"), None)
    if first is not None:
        return (
            Text("the packages have a fault too: {title}   {code}", "软件包本身也有问题：{title}   {code}")
            .format(title=first.title.to(language), code=first.code)
            .to(language)
        )
    return Text("the packages alone were judged, and have no fault", "仅判断了软件包本身，未发现问题").to(language)


def _where(evidence: Evidence, sites: Iterable[str]) -> str:
    path = evidence.path or ""
    for site in sites:
        path = path.removeprefix(f"{site}/")
    return f"{path}:{evidence.line}" if evidence.line else path


def _evidence(evidence: Evidence, facts: Facts) -> str:
    place = _where(evidence, facts.target.site_packages)
    source = f" [{evidence.source}]" if evidence.source else ""
    if evidence.kind == "file" and evidence.line:
        return f"{place}  {evidence.text}{source}"
    return (f"{place}: {evidence.text}" if place else evidence.text) + source


def _capabilities(report: Report, language: Language) -> Iterator[tuple[str, str]]:
    for name in CAPABILITIES:
        answer = report.capabilities[name]
        because = f" ({answer.because})" if answer.because else ""
        yield (
            answer.available,
            f"{CAPABILITY[name].to(language)} {_AVAILABLE[answer.available].to(language)}{because}",
        )


def _remedy(finding: Finding, options: TextOptions) -> str:
    """Return what to do: our own command where it helps, and what a person would do by hand."""
    by_hand = finding.remedy.to(options.language)
    if finding.code not in options.mended_by_fix:
        return by_hand
    separator = "；或手动：" if options.language == "zh" else ", or by hand: "
    return "flexdoctor fix" + (separator + by_hand if by_hand else "")


def _plain(report: Report, facts: Facts, options: TextOptions) -> Iterator[str]:
    language = options.language
    yield _head(facts, language)
    yield _headline(report, language)
    if also := _also(report, language):
        yield also
    for finding in report.findings:
        code = finding.code or finding.blocked_by or "-"
        line = f"{finding.status.upper()} {code} {finding.link} {finding.title.to(language)}"
        if finding.status in ("fail", "warn") and (remedy := _remedy(finding, options)):
            line += f" {_LABEL['fix'].to(language)}: {remedy}"
        yield line
        if options.detail == "verbose":
            for item in finding.evidence:
                yield f"  {_LABEL['proof'].to(language)}: {_evidence(item, facts)}"
            for error in finding.predicted_errors:
                yield f"  {_LABEL['see'].to(language)}: {error}"
            if finding.detail.en:
                yield f"  {_LABEL['why'].to(language)}: {finding.detail.to(language)}"
    separator = "；" if language == "zh" else ", "
    yield f"{_LABEL['can'].to(language)}: {separator.join(text for _, text in _capabilities(report, language))}"


class _Terminal:
    """The laid-out form."""

    def __init__(self, report: Report, facts: Facts, chain: Sequence[Check], options: TextOptions) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs rich

        self.report, self.facts, self.chain, self.options = report, facts, chain, options
        self.language = options.language
        self.stream = io.StringIO()
        self.console = Console(
            file=self.stream,
            width=options.width,
            force_terminal=options.colour,
            no_color=not options.colour,
            color_system="standard" if options.colour else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def render(self) -> str:
        self._prose(_head(self.facts, self.language), style="dim")
        self.console.print()
        style = "bold green" if self.report.verdict == "healthy" else "bold"
        self._prose(_headline(self.report, self.language), style=style)
        if also := _also(self.report, self.language):
            self._prose(also)
        self.console.print()
        self._chain()
        for finding in self._shown():
            self.console.print()
            self._finding(finding)
        self.console.print()
        self._can_run()
        return "\n".join(line.rstrip() for line in self.stream.getvalue().splitlines()) + "\n"

    def _shown(self) -> list[Finding]:
        """Faults with their proof; with -v also the proof that the other links hold."""
        wanted = ("fail", "warn", "crashed", "unknown")
        if self.options.detail == "verbose":
            return [item for item in self.report.findings if item.status in wanted or item.evidence]
        faults = [item for item in self.report.findings if item.status in wanted]
        return [item for item in faults if item.status != "warn" or item is self.report.root_cause or item.affects]

    def _prose(self, text: str, indent: int = 0, style: str = "") -> None:
        from rich.text import Text as RichText  # noqa: PLC0415

        for line in wrap(text, self.options.width - indent):
            self.console.print(RichText(" " * indent + line, style=style), no_wrap=True, overflow="ignore", crop=False)

    def _raw(self, text: str) -> None:
        """Print what a person will copy: never wrapped, whatever its length."""
        from rich.text import Text as RichText  # noqa: PLC0415

        self.console.print(RichText(text), no_wrap=True, overflow="ignore", crop=False)

    def _chain(self) -> None:
        from rich.cells import cell_len  # noqa: PLC0415
        from rich.text import Text as RichText  # noqa: PLC0415

        by_link: dict[str, list[Finding]] = {}
        for finding in self.report.findings:
            by_link.setdefault(finding.link, []).append(finding)
        numbers = {check.link: number for number, check in enumerate(self.chain, 1)}
        widest = max(cell_len(check.title.to(self.language)) for check in self.chain)
        for check in self.chain:
            found = by_link.get(check.link)
            if not found:
                continue
            speaker = min(found, key=lambda item: _WORST.index(item.status))
            title = check.title.to(self.language)
            status = _STATUS[speaker.status].to(self.language)
            line = RichText(f" {numbers[check.link]:>2}  {title}{' ' * (widest - cell_len(title))}  ")
            line.append(f"{status}{' ' * (8 - cell_len(status))}", style=_STYLE.get(speaker.status, "dim"))
            room = self.options.width - line.cell_len - 2
            code = f"{speaker.code} " if speaker.code and speaker.status in ("fail", "warn", "unknown") else ""
            text = RichText(code + speaker.title.to(self.language))
            text.truncate(max(room, 20), overflow="ellipsis")
            line.append_text(text)
            self.console.print(line, no_wrap=True, overflow="ignore", crop=False)

    def _finding(self, finding: Finding) -> None:
        head = f"{finding.code or finding.link}  "
        style = _STYLE.get(finding.status, "")
        self._labelled(head, finding.title.to(self.language), label_style=style, indent=0)
        shown = finding.evidence if self.options.detail == "verbose" else finding.evidence[:_PROOF]
        for number, item in enumerate(shown):
            self._labelled("proof" if not number else "", _evidence(item, self.facts), copy=True)
        if hidden := len(finding.evidence) - len(shown):
            more = Text("{count} more with -v", "另有 {count} 条，见 -v").format(count=hidden)
            self._labelled("", more.to(self.language))
        for number, error in enumerate(finding.predicted_errors):
            self._labelled("see" if not number else "", error, copy=True)
        if finding.detail.en:
            self._labelled("why", finding.detail.to(self.language))
        if remedy := _remedy(finding, self.options):
            self._labelled("fix", remedy)
        if finding.code and finding.status in ("fail", "warn", "unknown"):
            self._labelled("more", f"flexdoctor explain {finding.code}", copy=True)

    def _labelled(
        self, label: str, text: str, *, copy: bool = False, label_style: str = "dim", indent: int = 2
    ) -> None:
        from rich.cells import cell_len  # noqa: PLC0415
        from rich.text import Text as RichText  # noqa: PLC0415

        shown = _LABEL[label].to(self.language) if label in _LABEL else label
        column = 7 if not indent else 11
        head = " " * indent + shown
        head += " " * max(column - cell_len(head), 0 if head.endswith(" ") or not shown else 1)
        if copy:
            self._raw(head + text)
            return
        for number, line in enumerate(wrap(text, max(self.options.width - column, 30))):
            row = RichText(head, style=label_style) if not number else RichText(" " * column)
            row.append(line)
            self.console.print(row, no_wrap=True, overflow="ignore", crop=False)

    def _can_run(self) -> None:
        from rich.cells import cell_len  # noqa: PLC0415
        from rich.text import Text as RichText  # noqa: PLC0415

        colours = {"yes": "green", "no": "red", "unknown": "magenta"}
        head = _LABEL["can"].to(self.language) + "   "
        indent = cell_len(head)
        line = RichText(head)
        for available, text in _capabilities(self.report, self.language):
            separator = " · " if line.cell_len > indent else ""
            if line.cell_len + cell_len(separator + text) > self.options.width:
                self.console.print(line, no_wrap=True, overflow="ignore", crop=False)
                line, separator = RichText(" " * indent), ""
            line.append(separator)
            line.append(text, style=colours[available])
        self.console.print(line, no_wrap=True, overflow="ignore", crop=False)
