"""Lines of prose for a terminal: Chinese breaks between characters, code and paths never break."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_CLOSING = frozenset("，。、；：？！）》」』】”’…")
_OPENING = frozenset("（《「『【“‘")
#: A blank, a quoted piece of code, one character, or what stands together.
_TOKEN = re.compile(r"\s+|`[^`]*`|[^\s`\u2e80-\uffff“”‘’]+|.", re.DOTALL)


def cells(text: str) -> int:
    """Return how many columns `text` takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def wrap(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` columns; what may not be broken runs over."""
    lines, line = [], ""
    for piece in _pieces(text):
        if line and cells(line + piece) > width:
            lines.append(line)
            line = piece.lstrip()
        else:
            line += piece
    return [*lines, line]


def _pieces(text: str) -> Iterator[str]:
    """Yield the pieces between which a line may be broken; a blank stands at the head of its piece."""
    piece = ""
    for token in _TOKEN.findall(text):
        if piece and _may_break(piece[-1], token):
            yield piece
            piece = ""
        piece += " " if "\n" in token else token
    yield piece


def _may_break(before: str, token: str) -> bool:
    if token.isspace():
        return True
    if before.isspace() or token[0] in _CLOSING or before in _OPENING:
        return False
    return _is_wide(before) or _is_wide(token[0])


def _is_wide(character: str) -> bool:
    return character in _CLOSING or character in _OPENING or unicodedata.east_asian_width(character) in "WF"
