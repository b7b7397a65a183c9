"""One comparison, many renderings: how each is found by its name, and the sentences that they share."""

from __future__ import annotations

import importlib
from enum import Enum
from typing import Protocol, cast

from flexdoctor.comparison import Comparison, Difference, Group
from flexdoctor.findings import Finding
from flexdoctor.hostlists import fold
from flexdoctor.nodes import Unusable
from flexdoctor.profile import absence_tells
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Language, Text

#: Names that are listed before the rest is counted.
_SHOWN_NAMES = 8


class CompareFormat(str, Enum):
    """How a comparison is written. Each is one module `flexdoctor.reports.compare_<member>` with a `render`."""

    text = "text"
    json = "json"
    markdown = "markdown"
    junit = "junit"
    html = "html"

    @property
    def is_for_people(self) -> bool:
        """Whether it speaks the language of the locale; what machines read is English unless asked otherwise."""
        return self.value in ("text", "markdown", "html")


class _Renderer(Protocol):
    def render(self, comparison: Comparison, page: Page) -> str: ...


def render(format_: CompareFormat, comparison: Comparison, page: Page) -> str:
    """Return `comparison` in `format_`; only that format is imported."""
    module = cast("_Renderer", importlib.import_module(f"flexdoctor.reports.compare_{format_.value}"))
    return module.render(comparison, page)


def render_error(format_: str | None, message: str, exit_code: int) -> str | None:
    """Return what a format says of a run that could not compare anything; people have the line on stderr."""
    if format_ == CompareFormat.json.value:
        from flexdoctor.reports.compare_document import error_document  # noqa: PLC0415
        from flexdoctor.reports.json import render_json  # noqa: PLC0415

        return render_json(error_document(message, exit_code))
    if format_ == CompareFormat.junit.value:
        from flexdoctor.reports.compare_junit import error_suite  # noqa: PLC0415

        return error_suite(message)
    return None


VERDICT = {
    "healthy": Text("healthy", "正常"),
    "broken": Text("BROKEN", "故障"),
    "unknown": Text("unknown", "未知"),
    "waived": Text("waived", "已豁免"),
}
UNUSABLE = {
    "cut off": Text("cut off in the middle", "内容不完整（被截断）"),
    "empty": Text("empty", "空文件"),
    "binary": Text("not text", "不是文本文件"),
    "unreadable": Text("cannot be read", "无法读取"),
    "newer": Text("from a newer flexdoctor", "由更新版本的 flexdoctor 生成"),
    "malformed": Text("not a whole report", "不是完整的报告"),
    "foreign": Text("not a report of flexdoctor", "不是 flexdoctor 的报告"),
    "folder": Text("a folder", "是目录"),
}
NOT_THERE = Text("not there", "无")
NOT_TOLD = Text("not told", "未记录")
REFERENCE = Text("the reference", "参照组")
UNTOLD_ENVIRONMENT = Text("the report does not hold the environment", "报告未包含环境信息")
SAME_ENVIRONMENT = Text(
    "the environment is the same, key by key; what differs is only what was found",
    "环境逐项相同，差异仅在检查结果",
)


def headline(comparison: Comparison) -> Text:
    """Return the answer in one line."""
    if not comparison.groups:
        return Text("no report could be read: nothing is known of any node", "没有可读的报告，所有节点均无法判断")
    if pair := _pair(comparison):
        return pair
    parts = _lost(comparison)
    broken = [group for group in comparison.groups if group.has_errors]
    total = comparison.node_count
    if broken:
        count = sum(len(group.nodes) for group in broken)
        codes = ", ".join(dict.fromkeys(group.cause.code or "" for group in broken if group.cause))
        parts.insert(
            0,
            Text("{count} of {total} broken{codes}", "{total_zh} 个节点中有 {count} 个有故障{codes_zh}").format(
                total_zh=total,
                count=count,
                total=count_nodes(total),
                codes=f" ({codes})" if codes else "",
                codes_zh=f"（{codes}）" if codes else "",
            ),
        )
    if not parts:
        return _all_there(comparison)
    drifted = [group for group in comparison.groups if not group.has_errors and group.has_drifted]
    if drifted:
        count = sum(len(group.nodes) for group in drifted)
        parts.insert(1 if broken else 0, Text("{n} drifted", "{n} 个不一致").format(n=count))
    if not broken and not drifted:
        parts.append(
            Text("nothing wrong with the {total} that reported", "已报告的 {total} 个节点未发现问题").format(
                total=total
            )
        )
    return Text(", ".join(part.en for part in parts), "，".join(part.zh for part in parts))


def _lost(comparison: Comparison) -> list[Text]:
    parts = []
    lost = sum(item.costs_a_node for item in comparison.unusable)
    if comparison.missing_count:
        parts.append(Text("{n} missing", "{n} 个缺失").format(n=comparison.missing_count))
    if comparison.unfinished:
        parts.append(Text("{n} never finished", "{n} 个未完成").format(n=len(comparison.unfinished)))
    if lost:
        parts.append(Text("{n} with a report that cannot be read", "{n} 个的报告无法读取").format(n=lost))
    return parts


def _pair(comparison: Comparison) -> Text | None:
    """Two nodes, one that works and one that does not: say which."""
    groups = comparison.groups
    if len(groups) != 2 or comparison.node_count != 2 or _lost(comparison):
        return None
    works = next((group for group in groups if group.verdict == "healthy"), None)
    fails = next((group for group in groups if group.has_errors), None)
    if works is None or fails is None:
        return None
    cause = fails.cause
    what = cause.title if cause else Text(fails.error or "-", fails.error or "-")
    return Text(
        "{works} works, {fails} does not: {what}   {code}", "{works} 可用，{fails} 不可用：{zh}   {code}"
    ).format(
        works=works.nodes[0].name,
        fails=fails.nodes[0].name,
        what=what.en,
        zh=what.zh,
        code=cause.code if cause else "",
    )


def _all_there(comparison: Comparison) -> Text:
    groups, total = comparison.groups, comparison.node_count
    unknown = [group for group in groups if group.verdict == "unknown"]
    counts = any(group.has_drifted for group in groups)
    alike = len({group.fingerprint for group in groups}) == 1
    odd = total - len(next(group for group in groups if group.is_reference).nodes)
    if counts:
        return Text(
            "no node is broken, but {odd} of {total} have drifted in what flex_attention depends on",
            "没有节点故障，但 {total} 个节点中有 {odd} 个在 flex_attention 所依赖的部分上不一致",
        ).format(odd=odd, total=total)
    if unknown:
        count = sum(len(group.nodes) for group in unknown)
        return Text(
            "no fault found, but {count} of {total} nodes could not be judged to the end",
            "未发现故障，但 {total} 个节点中有 {count} 个无法完全判断",
        ).format(count=count, total=total)
    if waived := sum(len(group.nodes) for group in groups if group.verdict == "waived"):
        return Text(
            "no fault that counts; {count} of {total} nodes have faults that are waived",
            "没有计入结论的故障；{total} 个节点中有 {count} 个的故障已豁免",
        ).format(count=waived, total=total)
    if total == 1:
        return Text("one node, no fault found", "1 个节点，未发现故障")
    if untold := sum(len(group.nodes) for group in groups if group.fingerprint is None):
        return Text(
            "no fault found; {count} of {total} nodes do not tell their environment",
            "未发现故障；{total} 个节点中有 {count} 个的报告不含环境信息",
        ).format(count=untold, total=total)
    if len(groups) == 1:
        return Text("{total} nodes, all alike, no fault found", "{total} 个节点完全一致，未发现故障").format(
            total=total
        )
    if alike:
        return Text(
            "{total} nodes with the same environment and no fault; the warnings differ",
            "{total} 个节点环境相同且无故障，仅警告不同",
        ).format(total=total)
    return Text(
        "no node is broken; {odd} of {total} differ only in what flex_attention does not depend on",
        "没有节点故障；{total} 个节点中有 {odd} 个仅在与 flex_attention 无关的部分上不同",
    ).format(odd=odd, total=total)


def count_nodes(number: int) -> str:
    """Return a number of nodes in English."""
    return f"{number:,} node{'' if number == 1 else 's'}"


def names(group_nodes: list[str], *, everything: bool = False) -> str:
    """Return names of nodes in short: ranges together, the rest counted."""
    folded = fold(group_nodes)
    if everything or len(folded) <= 100:
        return folded
    shown = fold(group_nodes[:_SHOWN_NAMES])
    return f"{shown},... (+{len(group_nodes) - _SHOWN_NAMES})"


def node_names(group: Group, *, everything: bool = False) -> str:
    """Return the names of a group's nodes in short."""
    return names([node.name for node in group.nodes], everything=everything)


def why(group: Group) -> Text:
    """Return in one line what sets a group apart."""
    if group.error is not None:
        return Text("could not be examined: {error}", "无法检查：{error}").format(error=group.error)
    if group.is_reference and not group.has_errors:
        return REFERENCE
    if group.has_errors and group.cause:
        return _titled(group.cause)
    if group.only_here:
        return _titled(group.only_here[0])
    if group.differences:
        first_difference = group.differences[0]
        return Text(
            f"{change(first_difference, 'en')}{_more(group, 'en')}",
            f"{change(first_difference, 'zh')}{_more(group, 'zh')}",
        )
    if group.is_reference:
        return REFERENCE
    if group.not_here:
        codes = ", ".join(item.code or item.link for item in group.not_here)
        return Text("without {codes}", "无 {codes}").format(codes=codes)
    return SAME_ENVIRONMENT if group.fingerprint else UNTOLD_ENVIRONMENT


def _titled(finding: Finding) -> Text:
    name = finding.code or finding.link
    return Text(f"{name} {finding.title.en}", f"{name} {finding.title.zh}")


def _more(group: Group, language: Language) -> str:
    rest = len(group.differences) - 1
    if not rest:
        return ""
    return Text(" and {n} more", " 等 {m} 处差异").format(n=rest, m=rest + 1).to(language)


def value(difference: Difference, given: str | None, language: Language) -> str:
    """Return one side of a difference; where there is none, whether that says anything."""
    if given is not None:
        return given
    return (NOT_THERE if absence_tells(difference.key) else NOT_TOLD).to(language)


def change(difference: Difference, language: Language) -> str:
    """Return one difference: the reference's value, and the value here."""
    usual, here = (value(difference, given, language) for given in (difference.usual, difference.here))
    return f"{difference.key}: {usual} → {here}"


def tie(difference: Difference, group: Group, language: Language) -> str:
    """Return how far a difference is known to matter."""
    if difference.codes:
        text = Text("see {codes}, found only here", "见 {codes}，仅此组出现")
        return text.format(codes=", ".join(difference.codes)).to(language)
    if difference.standing == "other":
        return Text("no finding is about it", "没有检查结果涉及它").to(language)
    if codes := ", ".join(dict.fromkeys(item.code for item in group.only_here if item.code)):
        text = Text(
            "flex_attention depends on it; also found only here: {codes}",
            "flex_attention 依赖它；仅此组出现的还有 {codes}",
        )
        return text.format(codes=codes).to(language)
    return Text("flex_attention depends on it; no fault was found", "flex_attention 依赖它；未发现故障").to(language)


def unusable_line(item: Unusable, language: Language) -> str:
    """Return which file is no report, and what it is."""
    what = UNUSABLE[item.kind].to(language)
    return f"{item.path}: {what}" + (in_brackets(item.detail, language) if item.detail else "")


def in_brackets(text: str, language: Language) -> str:
    """Return a remark behind something, in the brackets of the language."""
    return f"（{text}）" if language == "zh" else f" ({text})"
