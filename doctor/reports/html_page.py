"""What every HTML page of ours is: one file that asks for nothing, works without scripts, and tells a browser so."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files

from flexdoctor import __version__
from flexdoctor.findings import Finding, Status
from flexdoctor.knowledge import newest_date
from flexdoctor.reports.markup import Child, Markup, fragment, tag, verbatim
from flexdoctor.reports.sentences import where
from flexdoctor.reports.words import LABEL, STATUS
from flexdoctor.text import Language, Text

_LANG: dict[Language, str] = {"en": "en", "zh": "zh-Hans"}
#: One character a status, so that a page says the same in print, without colour, and when it is copied into a chat.
MARKS: dict[Status, str] = {
    "pass": "·",
    "warn": "!",
    "fail": "×",
    "blocked": "/",
    "skipped": "-",
    "unknown": "?",
    "crashed": "#",
}
_SKIPPED = Text("skipped", "跳过")
_WAIVED = Text("waived", "已豁免")
_EXPIRES = Text("until {date}", "有效期至 {date}")
_FOOT = Text(
    "Written by flexdoctor {version}, knowledge of {date}. This page is one file and loads nothing.",
    "由 flexdoctor {version} 生成，知识库 {date}。本页为单个文件，不加载任何外部内容。",
)
_OPEN_ALL = Text("open all", "全部展开")
_CLOSE_ALL = Text("close all", "全部收起")


def render_page(title: str, language: Language, body: Child) -> str:
    """Return a whole page around `body`. Nothing in it is fetched from anywhere, and nothing else in it can run."""
    style, script = (files(__package__).joinpath(name).read_text(encoding="ascii") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        # Before all else, so that it holds for all else.
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        verbatim("style", style),
    )
    page = tag("html", head, tag("body", tag("main", body), verbatim("script", script)), lang=_LANG[language])
    return f"<!doctype html>\n{page.html}\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("ascii")).digest()).decode()


def mark(status: Status, label: str | None = None) -> Markup:
    """Return the mark of a status. `label` is what a screen reader says, where no word stands beside it."""
    return _mark(MARKS[status], status, label)


def _mark(sign: str, state: str, label: str | None) -> Markup:
    attributes = {"role": "img", "aria_label": label, "title": label} if label else {"aria_hidden": "true"}
    return tag("span", sign, class_=f"mark {state}", **attributes)


def mark_of(finding: Finding, label: str | None = None) -> Markup:
    """Return the mark of a finding: hollow where the user has decided to live with it."""
    return _mark(MARKS[finding.status], state_of(finding), label)


def state_of(finding: Finding) -> str:
    """Return the class that the parts of a finding have."""
    return "waived" if finding.waiver else finding.status


def section(title: str, *children: Child, class_: str | None = None, tools: Child = None) -> Markup:
    """Return a part of the page under its heading."""
    return tag("section", tag("h2", title, tools), *children, class_=class_)


def open_and_close(language: Language) -> Markup:
    """Return the buttons that the script brings to life; without it they are not shown."""
    return tag(
        "span",
        tag("button", _OPEN_ALL.to(language), type="button", data_open="yes"),
        tag("button", _CLOSE_ALL.to(language), type="button", data_open="no"),
        class_="tools",
        hidden=True,
    )


def proof(rows: list[tuple[str, str, str]]) -> Markup:
    """Return evidence: where, what stands there, and the source of a row of knowledge. It is English in any page."""
    return tag(
        "ul",
        (
            tag(
                "li",
                tag("code", where, class_="where") if where else None,
                tag("code", what),
                tag("small", source) if source else None,
            )
            for where, what, source in rows
        ),
        class_="proof",
        lang="en",
    )


def fields(rows: list[tuple[str, Child]]) -> Markup:
    """Return pairs of a label and what it labels; those without content are left out."""
    return tag("dl", (fragment(tag("dt", label), tag("dd", content)) for label, content in rows if content))


def entry(
    finding: Finding,
    link: str,
    language: Language,
    more: list[tuple[str, Child]],
    *,
    at: str | None = None,
    is_open: bool = False,
) -> Markup:
    """Return a finding as a row that opens to `more`, or as a bare row where there is no more.

    Args:
        link: what the link is called in `language`.
        at: the id that the row gets.
    """
    row = (
        mark_of(finding),
        tag("span", status_word(finding, language), class_="word"),
        tag("span", link, class_="name"),
        tag("span", finding.code if finding.status not in ("pass", "skipped") else None, class_="codes code"),
        tag("span", finding.title.to(language), class_="title"),
    )
    if not any(content for _, content in more):
        return tag("div", row, class_=f"row {state_of(finding)}", id=at)
    return tag(
        "details",
        tag("summary", row, class_=f"row {state_of(finding)}"),
        # The id is inside, so that a link to it opens what is around it, without any script.
        tag("div", fields(more), class_="body", id=at),
        open=is_open,
    )


def status_word(finding: Finding, language: Language) -> str:
    """Return the word for the status of a finding."""
    if finding.waiver:
        return _WAIVED.to(language)
    return word_of(finding.status, language)


def word_of(status: Status, language: Language) -> str:
    """Return the word for a status."""
    return (_SKIPPED if status == "skipped" else STATUS[status]).to(language).lower()


def reasons(finding: Finding, language: Language, sites: Iterable[str], remedy: str) -> list[tuple[str, Child]]:
    """Return what there is to say of a finding: proof, what is seen, why, and what to do."""
    evidence = [(where(item, sites), item.text, item.source or "") for item in finding.evidence]
    seen = finding.predicted_errors
    return [
        (LABEL["proof"].to(language), proof(evidence) if evidence else None),
        (LABEL["see"].to(language), tag("div", map(commands, seen), lang="en") if seen else None),
        (LABEL["why"].to(language), finding.detail.to(language)),
        (LABEL["fix"].to(language), remedy),
        (_WAIVED.to(language), _waiver(finding, language)),
    ]


def _waiver(finding: Finding, language: Language) -> str | None:
    if finding.waiver is None:
        return None
    until = f" ({_EXPIRES.format(date=finding.waiver.expires).to(language)})" if finding.waiver.expires else ""
    return finding.waiver.reason + until


def foot(language: Language) -> Markup:
    """Return the last line of a page."""
    return tag("footer", _FOOT.format(version=__version__, date=newest_date()).to(language))


def anchor(number: int) -> str:
    """Return the id of a place in the page."""
    return f"at-{number}"


def code_link(code: str, to: int) -> Markup:
    """Return a fault's code as a link within the page."""
    return tag("a", code, class_="code", href=f"#{anchor(to)}")


def commands(text: str) -> Markup:
    """Return what a person will copy."""
    return tag("pre", tag("code", text))
