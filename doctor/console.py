"""Where output goes and what it can show: colour, width, encoding."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Literal, TextIO

from flexdoctor.text import Language, user_language

ColourChoice = Literal["auto", "always", "never"]
#: What stands in for characters that an encoding lacks.
_PLAIN = str.maketrans({"·": "|", "×": "x", "…": "...", "«": '"', "»": '"', "≥": ">=", "→": "->", "—": "-"})


def is_terminal(stream: TextIO) -> bool:
    """Return whether a person reads `stream`; a closed or replaced stream is no terminal."""
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False


def wants_colour(stream: TextIO, choice: ColourChoice = "auto") -> bool:
    """Decide on colour: --color, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream)


def width() -> int:
    """Return the number of columns, 80 when nothing tells."""
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def choose_language(wanted: Language | None, stream: TextIO) -> Language:
    """Return the language to write in: Chinese only where the encoding can show it."""
    language = wanted or user_language()
    if language == "zh":
        try:
            "昇腾".encode(encoding_of(stream))
        except (UnicodeEncodeError, LookupError):
            return "en"
    return language


def encoding_of(stream: TextIO) -> str:
    """Return the encoding of `stream`, ASCII when it does not tell."""
    return getattr(stream, "encoding", None) or "ascii"


def fit_encoding(text: str, encoding: str) -> str:
    """Replace what `encoding` cannot show: ornaments by ASCII, anything else by an escape."""
    try:
        text.encode(encoding)
    except LookupError:
        encoding = "ascii"
    except UnicodeEncodeError:
        pass
    else:
        return text
    shown = "".join(character if _has(character, encoding) else character.translate(_PLAIN) for character in text)
    return shown.encode(encoding, errors="backslashreplace").decode(encoding)


def _has(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def write_report(text: str, output: Path | None) -> None:
    """Write the report to `output`, or to stdout. A file is opened only now, so that no failing run truncates it.

    Raises:
        OSError: the file cannot be written.
    """
    if output is not None:
        from flexdoctor.files import write_whole  # noqa: PLC0415

        write_whole(output, text)
        return
    sys.stdout.write(fit_encoding(text, encoding_of(sys.stdout)))
    sys.stdout.flush()
