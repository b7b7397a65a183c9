"""From an error to the link of the chain that is broken: patterns on type, message and frame, as data.

The same table serves the live run, which has exceptions, and a pasted log, which has lines:

    recognise([Raised("ImportError", "libhccl.so: cannot open shared object file")])
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import load_table
from flexdoctor.text import Text

#: "real": raised by the real packages in our tests. "observed": seen when the wheels were tried, text recorded.
#: "reported": quoted in public reports or vendor documents. "read": taken from the source that raises it.
Basis = Literal["real", "observed", "reported", "read"]


@dataclass(frozen=True)
class Raised:
    """An exception as far as a matcher needs it. `frames` are "path function", outermost first."""

    type: str
    message: str
    frames: tuple[str, ...] = ()
    #: The first line of it in the text that was read, counted from one.
    line: int | None = None


@dataclass(frozen=True)
class Signature:
    """A kind of error. `codes` are the faults that raise it, the likeliest first; none for a neighbour's error."""

    name: str
    meaning: Text
    message: re.Pattern[str]
    source: str
    date: datetime.date
    basis: Basis
    codes: tuple[str, ...] = ()
    type: re.Pattern[str] | None = None
    frame: re.Pattern[str] | None = None
    #: The text alone says too little: without a frame it is not this error.
    frame_needed: bool = False
    #: It is raised off Ascend too, by the same or by other faults: where a log is a GPU's it is not of the chain.
    general: bool = False
    #: The frame is the one that raised.
    innermost: bool = False
    #: It is said as well where there is no network.
    network: bool = False
    #: It says that something failed, and not why: the cause, where it is told, decides.
    wraps: bool = False
    #: It is what the others see when one has failed.
    consequence: bool = False
    #: Codes of the runtime, one of which stands in a message that `message` fits and `words` does not.
    runtime: tuple[str, ...] = ()
    words: re.Pattern[str] | None = None

    def says(self, text: str) -> bool:
        """Whether a text holds the message. A number is sought first: many lines are held against many codes."""
        if self.runtime and not any(code in text for code in self.runtime):
            return self.words is not None and self.words.search(text) is not None
        return self.message.search(text) is not None

    def fits(self, raised: Raised) -> bool:
        """Whether this is such an error. What the text does not tell (a log without frames) does not speak against."""
        if self.type and not self.type.fullmatch(raised.type.rpartition(".")[2]):
            return False
        if not self.says(raised.message):
            return False
        if self.frame is None or not (raised.frames or self.frame_needed):
            return True
        frames = raised.frames[-1:] if self.innermost else raised.frames
        return any(self.frame.search(frame) for frame in frames)


@dataclass(frozen=True)
class Match:
    """An error that the table knows."""

    signature: Signature
    raised: Raised


@functools.cache
def signatures() -> tuple[Signature, ...]:
    """Return the table, the more specific rows first."""
    return tuple(_signature(row) for row in load_table("signatures")["signature"])


@functools.cache
def log_words() -> tuple[bytes, ...]:
    """Return words of which every line about an error holds one; few, as a log is searched for each of them."""
    return tuple(word.encode() for word in load_table("signatures")["words"])


def _signature(row: dict[str, object]) -> Signature:
    def pattern(key: str) -> re.Pattern[str] | None:
        return re.compile(str(row[key]), re.MULTILINE) if key in row else None

    codes, message = row.get("codes", []), pattern("message")
    numbers = row.get("runtime")
    if isinstance(numbers, list):
        spelling = str(load_table("signatures")["runtime_code"]).replace("{codes}", "|".join(map(str, numbers)))
        message = re.compile("|".join([*([str(row["message"])] if message else []), spelling]), re.MULTILINE)
    if not isinstance(codes, list) or message is None or not isinstance(row["date"], datetime.date):
        raise TypeError(f"signature {row['name']} is not well-formed")
    return Signature(
        name=str(row["name"]),
        meaning=Text(str(row["en"]), str(row["zh"])),
        message=message,
        source=str(row["source"]),
        date=row["date"],
        basis=row["basis"],  # type: ignore[arg-type]
        codes=tuple(str(code) for code in codes),
        type=pattern("type"),
        frame=pattern("frame"),
        frame_needed=bool(row.get("frame_needed", False)),
        runtime=tuple(map(str, numbers)) if isinstance(numbers, list) else (),
        words=pattern("message"),
        innermost=bool(row.get("innermost", False)),
        network=bool(row.get("network", False)),
        general=bool(row.get("general", False)),
        wraps=bool(row.get("wraps", False)),
        consequence=bool(row.get("consequence", False)),
    )


def recognise(chain: Sequence[Raised]) -> Match | None:
    """Return what the table knows of a chain of exceptions, the first cause first; None for an unknown error.

    The cause tells more than what was made of it, so the first exception that is known decides. Compilers put the
    cause into their own text (`LoweringException: ImportError: ...`); that is taken apart first.
    """
    for raised in chain:
        for inner in reversed(list(unwrap(raised))):
            if signature := next((item for item in signatures() if item.fits(inner)), None):
                return Match(signature, inner)
    return None


def match_line(text: str) -> Match | None:
    """Return what the table knows of a line that is no exception, of the rows that ask for no type and no frame."""
    rows = (row for row in signatures() if row.type is None and not row.frame_needed)
    row = next((row for row in rows if row.says(text)), None)
    return Match(row, Raised("", text)) if row else None


_NESTED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z_]\w*(?:Error|Exception|Warning|Failed|Interrupt|Exit)): (.*)", re.DOTALL)


def unwrap(raised: Raised) -> Iterator[Raised]:
    """Yield an exception and those that its message quotes, the outermost first."""
    yield raised
    text = raised.message
    for _ in range(8):
        text = re.sub(r"^backend='\w+' raised:\s*", "", text.strip())
        match = _NESTED.match(text)
        if match is None:
            return
        text = match[2]
        yield Raised(match[1], text, raised.frames, raised.line)
