"""What can be known of a log: which errors are in it, where, how often and on which ranks.

As in `flexdoctor.facts`, everything here is frozen, JSON all the way down, and without judgement.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoggedError:
    """An exception, or a line that stands for an error, as it is written in a log."""

    #: Empty for a line that is no exception.
    type: str
    message: str
    line: int
    #: "path function", outermost first; the last few.
    frames: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The first line of it, as a person would quote it."""
        first = self.message.partition("\n")[0]
        return f"{self.type}: {first}".removesuffix(": ") if self.type else first


@dataclass(frozen=True)
class Incident:
    """Errors of one kind: the same root, once or a million times."""

    #: The first cause, the first time that it was seen.
    root: LoggedError
    #: The row of the table that knows it.
    signature: str | None
    last_line: int
    count: int
    #: Not each of them was read to its end: there are too many.
    at_least: bool = False
    ranks: tuple[int, ...] = ()
    #: What was made of the root on the way up, outermost last.
    raised_as: tuple[str, ...] = ()
    #: A row that knows only what was made of it.
    wrapped_by: str | None = None
    #: Another error was raised while this one was being handled: it may have been harmless.
    handled: bool = False
    #: It was only written at a level at which no error is (a warning, an information).
    mild: bool = False
    #: Codes of the runtime that it quotes.
    runtime_codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogFacts:
    """A log that was read to its end, or as far as it could be."""

    source: str
    size: int
    lines: int
    incidents: tuple[Incident, ...] = ()
    #: Further errors that nothing knows, beyond the kinds that are kept.
    dropped: int = 0
    #: The line that looks most like a cause where there is no error that could be read.
    suspect: LoggedError | None = None
    #: Whether the errors, or the beginning of the log, speak of an NPU, of a GPU.
    mentions_ascend: bool = False
    mentions_nvidia: bool = False
    #: Whether something could not be reached over the network.
    no_network: bool = False
    #: What it was unpacked or decoded from, when it is no plain text.
    packed: str | None = None
    #: Why reading ended before the end.
    cut_off: str | None = None
    #: Lines of which only the beginning was read.
    long_lines: int = 0
