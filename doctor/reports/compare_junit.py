"""The comparison as JUnit XML: a test case a node, so that a CI server lists the odd ones by name."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from flexdoctor.comparison import Comparison, Group
from flexdoctor.reports.compare_rendering import change, headline, in_brackets, tie, unusable_line, why
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Language, Text

_CLASS = "flexdoctor.compare"


def render(comparison: Comparison, page: Page) -> str:
    """Return one test suite. Broken and drifted nodes are failures; what left no whole report is an error."""
    cases = [*_judged(comparison, page.language), *_lost(comparison, page.language)]
    return _suite(cases, headline(comparison).to(page.language))


def error_suite(message: str) -> str:
    """Return the suite of a run that could not compare anything: one error."""
    return _suite([_case("compare", f'<error type="error" message={_quoted(message)}/>')], message)


def _suite(cases: list[str], said: str) -> str:
    failures = sum("<failure" in case for case in cases)
    errors = sum("<error" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    head = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="{skipped}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="flexdoctor compare" {head}>\n'
        f'  <testsuite name="flexdoctor compare" {head}>\n'
        f'    <properties><property name="headline" value={_quoted(said)}/></properties>\n'
        + "".join(f"    {case}\n" for case in cases)
        + "  </testsuite>\n</testsuites>\n"
    )


def _judged(comparison: Comparison, language: Language) -> Iterator[str]:
    for group in comparison.groups:
        content = _content(group, language)
        for node in group.nodes:
            yield _case(node.name, content)


def _content(group: Group, language: Language) -> str:
    lines = [f"{item.code or item.link} {item.title.to(language)}" for item in group.noteworthy]
    lines += [change(item, language) + in_brackets(tie(item, group, language), language) for item in group.differences]
    body = _text("\n".join(lines))
    message = _quoted(why(group).to(language))
    if group.has_errors:
        return (
            f"<failure type={_quoted((group.cause and group.cause.code) or 'error')} message={message}>{body}</failure>"
        )
    if group.has_drifted:
        return f'<failure type="drift" message={message}>{body}</failure>'
    said = f"<system-out>{body}</system-out>" if lines else ""
    if group.verdict == "healthy":
        return said
    waived = Text("its faults are waived", "故障均已豁免")
    untold = Text("could not be judged to the end", "无法完全判断")
    what = waived if group.verdict == "waived" else untold
    return f"<skipped message={_quoted(what.to(language))}/>{said}"


def _lost(comparison: Comparison, language: Language) -> Iterator[str]:
    missing = Text("left no report", "没有留下报告").to(language)
    for host in comparison.missing:
        yield _case(host, f'<error type="missing" message={_quoted(missing)}/>')
    for number in range(comparison.missing_count - len(comparison.missing)):
        name = Text("missing node {n}", "缺失节点 {n}").format(n=number + 1).to(language)
        yield _case(name, f'<error type="missing" message={_quoted(missing)}/>')
    never = Text("started and never finished", "已启动但未完成").to(language)
    for item in comparison.unfinished:
        yield _case(item.name, f'<error type="unfinished" message={_quoted(never)}/>')
    for unusable in comparison.unusable:
        if unusable.costs_a_node:
            message = _quoted(unusable_line(unusable, language))
            yield _case(unusable.path, f'<error type="{unusable.kind}" message={message}/>')


def _case(name: str, content: str) -> str:
    return f"<testcase classname={_quoted(_CLASS)} name={_quoted(name)}>{content}</testcase>"


def _clean(text: str) -> str:
    """Replace what XML 1.0 cannot hold at all, escaped or not."""
    return "".join(
        character
        if character in "\t\n\r"
        or " " <= character <= "\ud7ff"
        or "\ue000" <= character <= "\ufffd"
        or character > "\uffff"
        else "\ufffd"
        for character in text
    )


def _text(text: str) -> str:
    return escape(_clean(text))


def _quoted(text: str) -> str:
    return quoteattr(_clean(text))
