"""Sentences that several reports share."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from flexdoctor.findings import CAPABILITIES, Availability, Capability, Evidence, Finding, Report
from flexdoctor.reports.words import AVAILABLE, CAPABILITY, State
from flexdoctor.text import Language, Text

_HEADLINE: dict[Capability, Text] = {
    "eager": Text("eager flex_attention cannot run here", "eager 模式的 flex_attention 在此环境无法运行"),
    "compiled_forward": Text("compiled flex_attention cannot run here", "编译版 flex_attention 在此环境无法运行"),
    "compiled_backward": Text(
        "compiled flex_attention cannot be trained here", "编译版 flex_attention 在此环境无法训练（反向）"
    ),
    "compiled_captured": Text(
        "compiled flex_attention with captured tensors cannot run here",
        "编译版 flex_attention 在此环境无法索引外部张量",
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
        "编译版 flex_attention 索引外部张量：未发现妨碍其运行的问题",
    ),
}


def state_of(finding: Finding) -> State:
    """Return what a finding is shown as."""
    return "waived" if finding.waiver else finding.status


def headline(report: Report, language: Language) -> str:
    """Return the answer in one line, with the code of the root cause at its end."""
    cause = report.root_cause
    if cause is not None and not cause.affects:
        # It keeps something else from running: its title says what.
        return f"{cause.title.to(language)}   {cause.code}"
    if cause is not None:
        what = _HEADLINE[report.required].to(language)
        colon = "：" if language == "zh" else ": "
        return f"{what}{colon}{cause.title.to(language)}   {cause.code}"
    accepted = next((item for item in report.findings if item.waiver and report.required in item.affects), None)
    if report.verdict == "waived" and accepted is not None:
        what = _HEADLINE[report.required].to(language)
        return (
            Text("{what}, which is accepted: {title}   {code}", "{what}，但已被豁免：{title}   {code}")
            .format(what=what, title=accepted.title.to(language), code=accepted.code)
            .to(language)
        )
    crashed = next((item for item in report.findings if item.status in ("crashed", "unknown")), None)
    if report.verdict == "unknown" and crashed is not None:
        return (
            Text("could not tell whether it runs here: {title}   {code}", "无法判断此环境能否运行：{title}   {code}")
            .format(title=crashed.title.to(language), code=crashed.code)
            .to(language)
        )
    answer = report.capabilities[report.required]
    if answer.available == "no":
        return (
            Text("{what}: {code}, which was left out here", "{what}：{code}（此处未显示）")
            .format(what=_HEADLINE[report.required], code=answer.because)
            .to(language)
        )
    if report.verdict == "unknown":
        return (
            Text("could not tell whether it runs here: {code}", "无法判断此环境能否运行：{code}")
            .format(code=answer.because)
            .to(language)
        )
    return _HEALTHY[report.required].to(language)


def capability_words(report: Report, language: Language) -> list[str]:
    """Return in which ways flex_attention can run, one phrase each."""
    return [phrase for _, phrase in capabilities(report, language)]


def also(report: Report, language: Language) -> str | None:
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


def capabilities(report: Report, language: Language) -> Iterator[tuple[Availability, str]]:
    """Yield in which ways flex_attention can run: whether, and a phrase that says so."""
    for name in CAPABILITIES:
        answer = report.capabilities[name]
        brackets = "（{}）" if language == "zh" else " ({})"
        because = brackets.format(answer.because) if answer.because else ""
        yield (
            answer.available,
            f"{CAPABILITY[name].to(language)} {AVAILABLE[answer.available].to(language)}{because}",
        )


def where(evidence: Evidence, sites: Iterable[str]) -> str:
    """Return the place of a proof, below the folders of packages where it lies in one of them."""
    path = evidence.path or ""
    for site in sites:
        path = path.removeprefix(f"{site}/")
    return f"{path}:{evidence.line}" if evidence.line else path


def remedy(finding: Finding, language: Language, mended_by_fix: Container[str | None]) -> str:
    """Return what to do: our own command where it helps, and what a person would do by hand."""
    by_hand = finding.remedy.to(language)
    if finding.code not in mended_by_fix:
        return by_hand
    separator = "；或手动：" if language == "zh" else ", or by hand: "
    return "flexdoctor fix" + (separator + by_hand if by_hand else "")


def used_settings(path: str) -> Text:
    """Say which file of settings was used."""
    return Text("configuration {path}", "配置文件 {path}").format(path=path)
