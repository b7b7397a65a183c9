"""The report for a bug report or a step summary: what it is about first, the proof folded, nothing private in it.

Whatever comes from files (names, versions, quotes) is shown as it is and never takes effect as Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flexdoctor import __version__
from flexdoctor.knowledge import newest_date
from flexdoctor.reports.redaction import Redaction
from flexdoctor.reports.sentences import capability_words, headline
from flexdoctor.text import Language, Text

if TYPE_CHECKING:
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Evidence, Finding
    from flexdoctor.reports.rendering import Diagnosis, Page

#: The packages whose versions belong into a bug report, where they are there.
_PACKAGES = (
    "torch",
    "torch-npu",
    "triton-ascend",
    "triton",
    "torchvision",
    "torchaudio",
    "numpy",
    "pybind11",
    "transformers",
    "diffusers",
    "kernels",
)
_WORDS = {
    "found": Text("Findings", "检查结果"),
    "chain": Text("The whole chain", "完整检查链"),
    "can": Text("Can run: ", "能力："),
    "fix": Text("Fix: ", "修复："),
    "proof": Text("Proof", "证据"),
    "error": Text("What is seen", "现象"),
    "waived": Text(" (waived: {reason})", "（已豁免：{reason}）"),
    "what": Text("what", "项目"),
    "version": Text("version", "版本"),
    "target": Text("target", "检查对象"),
    "knowledge": Text("knowledge of {date}", "知识库 {date}"),
    "chip": Text("chip", "芯片"),
    "driver": Text("driver", "驱动"),
}
_STATUS = {
    "pass": "✅",
    "warn": "⚠️",
    "fail": "❌",
    "crashed": "💥",
    "unknown": "❓",
    "blocked": "⛔",
    "skipped": "➖",
}


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    redact = Redaction(diagnosis.facts)
    return redact("".join(f"{line}\n" for line in _lines(diagnosis, page.language)))


def _lines(diagnosis: Diagnosis, language: Language) -> Iterator[str]:
    report = diagnosis.report
    yield f"### flexdoctor: {prose(headline(report, language))}"
    yield ""
    yield f"{_WORDS['can'].to(language)}{prose(' · '.join(capability_words(report, language)))}"
    yield ""
    yield f"| {_WORDS['what'].to(language)} | {_WORDS['version'].to(language)} |"
    yield "|---|---|"
    for name, value in _versions(diagnosis.facts, language):
        yield f"| {name} | {code(value, in_table=True)} |"
    faults = [item for item in report.findings if item.status in ("fail", "warn", "unknown", "crashed")]
    if faults:
        yield ""
        yield f"#### {_WORDS['found'].to(language)}"
    for finding in faults:
        yield from _fault(finding, language)
    yield ""
    yield f"<details><summary>{_WORDS['chain'].to(language)}</summary>"
    yield ""
    for finding in report.findings:
        named = f" {code(finding.code or finding.blocked_by or '')}" if finding.code or finding.blocked_by else ""
        yield f"- {_STATUS[finding.status]} {code(finding.link)}{named} {prose(finding.title.to(language))}"
    yield ""
    yield "</details>"


def _versions(facts: Facts, language: Language) -> Iterator[tuple[str, str]]:
    yield "flexdoctor", f"{__version__}, {_WORDS['knowledge'].format(date=newest_date()).to(language)}"
    yield _WORDS["target"].to(language), facts.target.description
    interpreter = facts.interpreter
    yield "Python", " ".join(part for part in (interpreter.version, interpreter.architecture) if part) or "?"
    for name in _PACKAGES:
        if dist := facts.packages.find(name):
            yield name, dist.version or "?"
    if facts.machine is None:
        return
    for cann in facts.machine.cann:
        yield "CANN", cann.version or "?"
    if facts.machine.driver and facts.machine.driver.version:
        yield _WORDS["driver"].to(language), facts.machine.driver.version
    if facts.machine.npu_smi and facts.machine.npu_smi.chips:
        chips = sorted({chip.name for chip in facts.machine.npu_smi.chips})
        yield _WORDS["chip"].to(language), f"{len(facts.machine.npu_smi.chips)} × {', '.join(chips)}"


def _fault(finding: Finding, language: Language) -> Iterator[str]:
    yield ""
    reason = ""
    if finding.waiver:
        reason = _WORDS["waived"].format(reason=prose(finding.waiver.reason)).to(language)
    yield f"**{finding.code or finding.link}** {_STATUS[finding.status]} {prose(finding.title.to(language))}{reason}"
    if finding.detail.en:
        yield ""
        yield prose(finding.detail.to(language))
    if remedy := finding.remedy.to(language):
        yield ""
        yield f"{_WORDS['fix'].to(language)}{prose(remedy)}"
    for label, quoted in (("proof", [*map(_shown, finding.evidence)]), ("error", [*finding.predicted_errors])):
        if quoted:
            yield ""
            yield f"<details><summary>{_WORDS[label].to(language)}</summary>"
            yield ""
            yield from _fenced(quoted)
            yield ""
            yield "</details>"


def _shown(evidence: Evidence) -> str:
    place = f"{evidence.path}:{evidence.line}" if evidence.path and evidence.line else evidence.path
    source = f" [{evidence.source}]" if evidence.source else ""
    return (f"{place}: {evidence.text}" if place else evidence.text) + source


def _fenced(lines: list[str]) -> Iterator[str]:
    """Yield a code block that no line in it can close."""
    text = "\n".join(lines).replace("\r\n", "\n").replace("\r", "\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield f"{fence}text"
    yield text
    yield fence


def code(text: str, *, in_table: bool = False) -> str:
    """Return `text` as a code span that nothing in it can close."""
    shown = " ".join(text.split())
    if in_table:
        shown = shown.replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    gap = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{gap}{shown}{gap}{fence}" if shown else ""


def prose(text: str) -> str:
    """Return `text` on one line, so that no character of it is taken as Markdown, HTML or a mention."""
    shown = " ".join(text.split())
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An underscore inside of a word is none of Markdown's, and escaped it would break an address.
    shown = re.sub(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", shown)
    # What begins a list, a heading or a rule at the start of a line.
    shown = re.sub(r"^(\d*)(?=[-+=#.)])", r"\1\\", shown)
    return re.sub(r"@(?=\w)", "@\u200b", shown)
