"""What a terminal shows: styled lines, wrapped prose, labels in a column. rich colours it; only a terminal needs it.

Prose is wrapped by `flexdoctor.reports.wrapping`, because rich breaks Chinese at blanks only. What a person will copy
is never wrapped, whatever its length.
"""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text as Styled

from flexdoctor.reports.wrapping import cells, wrap

#: The least width of a column of prose, however narrow the terminal is.
_LEAST = 30


class Sheet:
    """Lines for a terminal of `width` columns."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self.width = width
        self._stream = io.StringIO()
        self._console = Console(
            file=self._stream,
            width=width,
            force_terminal=colour,
            no_color=not colour,
            color_system="standard" if colour else None,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def text(self) -> str:
        """Return all lines, without blanks at their ends."""
        return "".join(f"{line.rstrip()}\n" for line in self._stream.getvalue().splitlines())

    def blank(self) -> None:
        """Leave a line free."""
        self._console.print()

    def line(self, *parts: tuple[str, str], cut: bool = False) -> None:
        """Add one line of parts, each with its style; `cut` ends it with an ellipsis where the terminal ends."""
        styled = Styled()
        for text, style in parts:
            styled.append(text, style=style or None)
        if cut:
            styled.truncate(self.width - 2, overflow="ellipsis")
        self._console.print(styled, no_wrap=True, overflow="ignore", crop=False)

    def prose(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Add a paragraph."""
        for line in wrap(text, self.width - indent):
            self.line((" " * indent + line, style))

    def labelled(
        self,
        label: str,
        text: str,
        *,
        column: int,
        indent: int = 2,
        label_style: str = "dim",
        style: str = "",
        copy: bool = False,
        hang: str = "",
    ) -> None:
        """Add what a label says, beginning at `column`.

        Args:
            copy: a person will copy it: one line, however long.
            hang: stands before the second line and those after it.
        """
        head = " " * indent + label
        head += " " * max(column - cells(head), 0 if head.endswith(" ") or not label else 1)
        first, *rest = [text] if copy else wrap(text, max(self.width - column - cells(hang), _LEAST))
        self.line((head, label_style), (first, style))
        for line in rest:
            self.line((" " * column + hang + line, style))
