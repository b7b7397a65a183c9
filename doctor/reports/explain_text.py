"""The pages of faults for a person: laid out on a terminal, a topic a line in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from flexdoctor.reports.wrapping import cells
from flexdoctor.text import Language

if TYPE_CHECKING:
    from flexdoctor.reports.sheet import Sheet

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
    sheet = _sheet(page)
    column = max(cells(entry.link) for entry in entries) + _HEAD + 2
    for entry in entries:
        label = f"{entry.code}  {entry.link}"
        sheet.labelled(label, title_of(entry.fault, page.language), column=column, indent=0, label_style="bold")
    return sheet.text()


def _one(item: Explained, page: Page) -> str:
    language = page.language
    entry = item.entry
    about = f"{LINK.format(link=entry.link).to(language)} · {effect_of(entry.fault, language)}"
    title, rows = title_of(entry.fault, language), list(_rows(item, language))
    if not page.terminal:
        colon = "：" if language == "zh" else ": "
        lines = [f"{entry.code} {title}", about]
        lines += [f"{row.label}{colon}{row.text}" if row.label else f"  {row.text}" for row in rows]
        return "\n".join(lines) + "\n"
    sheet = _sheet(page)
    sheet.labelled(entry.code, title, column=_HEAD, indent=0, label_style="bold", style="bold")
    sheet.prose(about, indent=_HEAD)
    for row in rows:
        if row.label:
            sheet.blank()
        sheet.labelled(row.label, row.indent + row.text, column=_COLUMN, copy=row.copy, hang=row.hang)
    return sheet.text()


def _sheet(page: Page) -> Sheet:
    from flexdoctor.reports.sheet import Sheet  # noqa: PLC0415 - only a terminal needs it

    return Sheet(page.width, colour=page.colour)


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
