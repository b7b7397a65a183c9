"""The pages of faults for a person: laid out on a terminal, a topic a line in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flexdoctor.pages import TOPICS, Entry, Explained
from flexdoctor.reports.explanations import (
    BY_HAND,
    LABEL,
    LINK,
    NO_PAGE,
    SEE,
    SOURCE,
    automatic,
    effect_of,
    seen,
    title_of,
)
from flexdoctor.reports.rendering import Page
from flexdoctor.reports.wrapping import cells, wrap
from flexdoctor.text import Language

#: Columns before the title, and before what a label says.
_HEAD, _COLUMN = 7, 11


@dataclass(frozen=True)
class _Row:
    """One thing that is said. What a person will copy is never wrapped."""

    text: str
    label: str = ""
    copy: bool = False
    #: What stands before all of it, and before its second line and those after it.
    indent: str = ""
    hang: str = ""


def render(explained: Sequence[Explained], page: Page) -> str:
    """Return pages of faults, one below the other."""
    return "\n".join(_one(item, page) for item in explained)


def render_list(entries: Sequence[Entry], page: Page) -> str:
    """Return one line a code: the code, the link that names it, and the title."""
    if not page.terminal:
        return "".join(f"{entry.code} {entry.link} {title_of(entry.fault, page.language)}\n" for entry in entries)
    column = max(cells(entry.link) for entry in entries) + _HEAD + 2
    lines = []
    for entry in entries:
        first, *rest = wrap(title_of(entry.fault, page.language), max(page.width - column, 30))
        lines.append(_styled(entry.code, "1", page) + f"  {entry.link:{column - _HEAD}}{first}")
        lines += [" " * column + line for line in rest]
    return "\n".join(lines) + "\n"


def _one(item: Explained, page: Page) -> str:
    language = page.language
    entry = item.entry
    about = f"{LINK.format(link=entry.link).to(language)} · {effect_of(entry.fault, language)}"
    title, rows = title_of(entry.fault, language), list(_rows(item, language))
    if not page.terminal:
        lines = [f"{entry.code} {title}", about]
        lines += [f"{row.label}: {row.text}" if row.label else f"  {row.text}" for row in rows]
        return "\n".join(lines) + "\n"
    width = max(page.width - _HEAD, 30)
    first, *rest = wrap(title, width)
    lines = [f"{_styled(entry.code, '1', page)}  {_styled(first, '1', page)}"]
    lines += [" " * _HEAD + _styled(line, "1", page) for line in rest]
    lines += [" " * _HEAD + line for line in wrap(about, width)]
    for row in rows:
        if row.label:
            lines.append("")
        head = f"  {row.label}"
        pad = " " * max(_COLUMN - cells(head), 1)
        shown = [row.text] if row.copy else wrap(row.text, max(page.width - _COLUMN - len(row.hang), 30))
        lines.append(f"{_styled(head, '2', page)}{pad}{row.indent}{shown[0]}")
        lines += [" " * _COLUMN + row.hang + line for line in shown[1:]]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _rows(item: Explained, language: Language) -> Iterator[_Row]:
    if item.page is None:
        yield _Row(NO_PAGE.to(language), LABEL["means"].to(language))
    for topic in TOPICS:
        passage = item.page.on(topic) if item.page else None
        label = LABEL[topic].to(language)
        if topic == "fix" and (by_itself := automatic(item, language)):
            yield _Row(by_itself, label)
            label = "" if passage is None else BY_HAND.to(language)
        if passage is not None:
            yield _Row(passage.text.to(language), label)
            for command in passage.run:
                yield _Row(command, copy=True, indent="  ")
        if topic == "why":
            for number, error in enumerate(seen(item, language)):
                # Word for word where the page has them; what they say is prose.
                word_for_word = item.page is not None and bool(item.page.errors)
                yield _Row(error, "" if number else SEE.to(language), copy=word_for_word)
    for number, source in enumerate(item.page.sources if item.page else ()):
        yield _Row(source, "" if number else SOURCE.to(language), hang="  ")


def _styled(text: str, style: str, page: Page) -> str:
    """Return `text` in an ANSI style where colour is wanted: 1 is bold, 2 dim."""
    return f"\x1b[{style}m{text}\x1b[0m" if page.colour and text.strip() else text
