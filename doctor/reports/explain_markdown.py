"""The pages of faults as Markdown: whole, or one line a code for the README."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from flexdoctor.pages import TOPICS, Explained
from flexdoctor.reports.explanations import (
    BY_HAND,
    LABEL,
    LINK,
    NO_PAGE,
    SEE,
    SOURCE,
    automatic,
    effect_of,
    first_sentence,
    seen,
    title_of,
)
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Language, Text

#: Signs that Markdown would take for its own; an underscore within a word is none.
_SIGN = re.compile(r"[\\*<\[\]]|(?<!\w)_|_(?!\w)")


def render(explained: Sequence[Explained], page: Page) -> str:
    """Return whole pages."""
    return "\n".join("\n".join(_one(item, page.language)) for item in explained)


def render_reference(explained: Sequence[Explained], page: Page) -> str:
    """Return one table a link, folded: code, title, and the first sentence of what it means."""
    language = page.language
    head = Text("| code | fault | what it means |", "| 代码 | 故障 | 含义 |").to(language)
    lines: list[str] = []
    for (link, title), members in groupby(explained, key=lambda item: (item.entry.link, item.entry.link_title)):
        items = list(members)
        codes = items[0].entry.code if len(items) == 1 else f"{items[0].entry.code} … {items[-1].entry.code}"
        name = link if language == "en" or link == title.zh else f"{link}（{title.zh}）"
        lines += ["<details>", f"<summary>{name}: {codes}</summary>", "", head, "|---|---|---|"]
        for item in items:
            means = first_sentence(item.page.means.text.to(language)) if item.page else NO_PAGE.to(language)
            lines.append(f"| {item.entry.code} | {_cell(title_of(item.entry.fault, language))} | {_cell(means)} |")
        lines += ["", "</details>", ""]
    return "\n".join(lines[:-1]) + "\n"


def _one(item: Explained, language: Language) -> Iterator[str]:
    entry = item.entry
    yield f"## {entry.code}: {_prose(title_of(entry.fault, language))}"
    yield ""
    yield f"{LINK.format(link=f'`{entry.link}`').to(language)} · {effect_of(entry.fault, language)}"
    yield ""
    if item.page is None:
        yield NO_PAGE.to(language)
        yield ""
    for topic in TOPICS:
        passage = item.page.on(topic) if item.page else None
        label = LABEL[topic].to(language)
        if topic == "fix" and (by_itself := automatic(item, language)):
            yield f"**{label}** {_prose(by_itself)}"
            yield ""
            label = BY_HAND.to(language)
        if passage is not None:
            yield f"**{label}** {_prose(passage.text.to(language))}"
            yield ""
            if passage.run:
                yield from ("```sh", *passage.run, "```", "")
        if topic == "why" and (errors := seen(item, language)):
            yield from (f"**{SEE.to(language)}**", "", "```text", *errors, "```", "")
    if item.page:
        yield f"**{SOURCE.to(language)}**"
        yield ""
        yield from (f"- {_prose(source)}" for source in item.page.sources)
        yield ""


def _prose(text: str) -> str:
    """Keep signs of prose from being read as Markdown; what stands between backticks is code and stays."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        parts[number] = _SIGN.sub(r"\\\g<0>", parts[number])
    return "`".join(parts)


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")
