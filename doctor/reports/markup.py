"""HTML that escapes by default: a text is a text, and only what `tag` returns is markup."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

#: Elements that have no content and no end.
_VOID = frozenset({"meta", "br", "input"})
#: What a page cannot show or what would change how the rest of a line is read: control characters, directions of
#: writing, halves of characters.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Markup:
    """A piece of a page. Nothing but this module makes one out of a string."""

    html: str


Child: TypeAlias = "Markup | str | Iterable[Child] | None"


def visible(text: str) -> str:
    r"""Return `text` with what cannot be seen written as an escape (`\u202e`); line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(character) if _is_unseen(character) else character for character in text)


def _is_unseen(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in _UNSEEN


def _escape(character: str) -> str:
    return (
        character.encode("ascii", "backslashreplace").decode() if ord(character) > 127 else f"\\x{ord(character):02x}"
    )


def escape(text: str) -> Markup:
    """Return `text` as markup that shows exactly that text, in ASCII, so that no encoding on the way can garble it."""
    return Markup(html.escape(visible(text)).encode("ascii", "xmlcharrefreplace").decode())


def fragment(*children: Child) -> Markup:
    """Return `children` one after the other. What is not markup yet is text."""
    return Markup("".join(_parts(children)))


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """Return an element.

    An attribute that is None or False is left out, one that is True has no value; `class_` is class, `aria_label` is
    aria-label. Names are written in our code, never read from anywhere; a name that could not be one is refused.
    """
    parts = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        parts.append(attribute if value is True else f'{attribute}="{escape(str(value)).html}"')
        if not _NAME.fullmatch(attribute) or attribute.startswith("on") or attribute == "style":
            raise ValueError(f"{attribute} is no attribute that a page of ours may have")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name} is no element")
    head = f"<{' '.join(parts)}>"
    return Markup(head if name in _VOID else f"{head}{fragment(*children).html}</{name}>")


def verbatim(name: str, text: str) -> Markup:
    """Return a style or script element around our own `text`, which is code and is not escaped.

    Raises:
        ValueError: the text could end the element, or is not ASCII, so that its hash would depend on an encoding.
    """
    if "<" in text or not text.isascii():
        raise ValueError(f"this cannot stand in a {name} element")
    return Markup(f"<{name}>{text}</{name}>")


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child.html
        elif isinstance(child, str):
            yield escape(child).html
        else:
            yield from _parts(child)
