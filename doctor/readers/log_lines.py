"""A log as a stream of the few lines that matter, in constant memory whatever is thrown at it.

A log of a gigabyte has perhaps a hundred lines about errors. Blocks of bytes are searched for a few words with
`bytes.find`, and only the lines that hold one, and those that follow closely, are handed out.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

BLOCK = 256 * 1024
#: More of a line is not read.
MAX_LINE = 64 * 1024
_HEAD = 64 * 1024
#: From this many words in a block on it is a flood.
_FLOOD = 200
DIGITS = b"0123456789"


class PackedError(ValueError):
    """A container that is not unpacked here."""


@dataclass(frozen=True)
class Line:
    """A line that may matter. `number` counts line feeds, as editors do; `hot` when it holds one of the words."""

    number: int
    text: bytes
    hot: bool


class LogLines:
    """Iterates over the lines that matter; afterwards tells what the whole was.

    A carriage return ends a line too (a progress bar), but does not count as one. Its reader may ask for the lines up
    to a number, and may name lines that it has seen too often, which are then only counted.
    """

    def __init__(self, stream: BinaryIO, words: tuple[bytes, ...], *, block: int = BLOCK) -> None:
        self._stream, self._words, self._block = stream, words, max(block, 8)
        #: The first bytes, for who wants to know what kind of log it is.
        self.head = b""
        self.size = 0
        self.lines = 0
        self.long_lines = 0
        self.packed: str | None = None
        self.cut_off: str | None = None
        #: Lines are handed out up to this number, whatever is in them.
        self.wanted_until = 0
        #: Lines without their digits that are not handed out any more, and who is told how many and which was the last.
        self.often: set[bytes] = set()
        self.on_often: Callable[[bytes, int, int], None] | None = None
        self._flooded = False

    def __iter__(self) -> Iterator[Line]:
        carry, skipping, last = b"", False, b"\n"
        for block in self._blocks():
            last = block[-1:]
            text = carry + block if carry else block
            if skipping:
                # The rest of a line of which enough was read.
                end = _first_end(text)
                if not end:
                    continue
                self.lines += text.count(b"\n", 0, end)
                skipping, text = False, text[end:]
            cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
            yield from self._search(text[:cut])
            carry = text[cut:]
            if len(carry) > MAX_LINE:
                yield from self._search(carry[: MAX_LINE + 1])
                carry, skipping = b"", True
        yield from self._search(carry)
        self.lines += last != b"\n"

    def _search(self, text: bytes) -> Iterator[Line]:
        """Yield the lines of `text` that hold a word or were asked for."""
        if self._flooded and self.often and b"\r" not in text:
            yield from self._search_flood(text)
            return
        hits = self._hits(text)
        if not hits and self.wanted_until <= self.lines:
            self.lines += text.count(b"\n")
            return
        whole = text
        if b"\r" in text:
            # All ends of line alike, a byte each; `whole` still tells which of them count.
            whole = text.replace(b"\r\n", b"\n")
            text = whole.replace(b"\r", b"\n")
            hits = self._hits(text)
        self._flooded = len(hits) > _FLOOD
        yield from self._walk(text, whole, [*hits, len(text)])

    def _walk(self, text: bytes, whole: bytes, hits: list[int]) -> Iterator[Line]:
        """Yield the lines at `hits`, of which the last is the end, and between them those that are asked for."""
        number, counted, begin = self.lines + 1, 0, 0
        for hit in hits:
            if hit < begin:
                continue  # in a line that was handed out
            start = text.rfind(b"\n", begin, hit) + 1 or begin
            while begin < len(text):
                is_hit = begin == start and hit < len(text)
                number += whole.count(b"\n", counted, begin)
                counted = begin
                if not is_hit and number > self.wanted_until:
                    begin = start
                    if hit == len(text):
                        break
                    continue
                end = text.find(b"\n", begin)
                end = len(text) if end < 0 else end
                line = self._line(number, text[begin:end], may_be_hot=is_hit)
                begin = end + 1
                if line is not None:
                    yield line
                if is_hit:
                    break
        self.lines = number - 1 + whole.count(b"\n", counted)

    def _search_flood(self, text: bytes) -> Iterator[Line]:
        """Do the same where lines were seen often: those are sorted out all at once."""
        first = self.lines + 1
        self.lines += text.count(b"\n")
        lines = text.split(b"\n")
        if not lines[-1]:
            lines.pop()
        keys = text.translate(None, DIGITS).split(b"\n")[: len(lines)]
        often = set(self.often)
        left = [place for place, key in enumerate(keys) if key not in often]
        self._flooded = len(lines) - len(left) > _FLOOD
        if len(left) < len(lines) and self.on_often:
            counts, last = Counter(keys), dict(zip(keys, range(first, first + len(keys)), strict=True))
            for key in often & counts.keys():
                self.on_often(key, counts[key], last[key])
        has_word = re.compile(b"|".join(map(re.escape, self._words))).search
        for place in left:
            line = self._line(first + place, lines[place], may_be_hot=has_word(lines[place]) is not None)
            if line is not None:
                yield line

    def _line(self, number: int, text: bytes, *, may_be_hot: bool) -> Line | None:
        """Return a line to hand out; None when what is read of it holds no word, and nobody asked for it."""
        is_long = len(text) > MAX_LINE
        if is_long:
            text = text[:MAX_LINE]
            may_be_hot = may_be_hot and any(word in text for word in self._words)
        if not may_be_hot and number > self.wanted_until:
            return None
        self.long_lines += is_long
        return Line(number, text, may_be_hot)

    def _hits(self, text: bytes) -> list[int]:
        """Return where the words stand, one place a line and word."""
        hits: list[int] = []
        for word in self._words:
            at = text.find(word)
            while at >= 0:
                hits.append(at)
                end = text.find(b"\n", at)
                at = text.find(word, end) if end >= 0 else -1
        hits.sort()
        return hits

    # --- bytes -------------------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks that do not depend on what the stream hands out at a time, and never end within CRLF."""
        try:
            for block in self._unpacked():
                if len(self.head) < _HEAD:
                    self.head += block[: _HEAD - len(self.head)]
                yield block
        except _BROKEN as error:
            self.cut_off = str(error) or type(error).__name__

    def _unpacked(self) -> Iterator[bytes]:
        start = _read(self._stream, max(self._block, 8))
        stream = cast("BinaryIO", _Rest(start, self._stream))
        for magic, (name, opener) in _PACKED.items():
            if start.startswith(magic):
                if opener is None:
                    raise PackedError(f"{name}: unpack it first")
                self.packed, stream = name, opener(stream)
        start = _read(stream, 4096)
        stream = cast("BinaryIO", _Rest(start, stream))
        encoding = _wide_encoding(start)
        if not encoding and _is_binary(start):
            raise PackedError("it is not text")
        decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
        if encoding:
            self.packed = ", ".join(part for part in (self.packed, encoding.upper()) if part)
        first, held, block = True, b"", _read(stream, self._block)
        while block:
            self.size += len(block)
            text = held + (decoder.decode(block).encode("utf-8", "replace") if decoder else block)
            if first:
                text, first = text.removeprefix(codecs.BOM_UTF8), False
            block = _read(stream, self._block)
            # A return at the end may be half of an end of line.
            held = b"\r" if block and text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)]
            if text:
                yield text


def _first_end(text: bytes) -> int:
    """Return where the second line of `text` begins, 0 when it has but one."""
    feed = text.find(b"\n")
    back = text.find(b"\r", 0, feed if feed >= 0 else len(text))
    if back >= 0:
        return back + (2 if text[back + 1 : back + 2] == b"\n" else 1)
    return feed + 1


#: What reading and unpacking raise.
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)


def _read(stream: BinaryIO, size: int) -> bytes:
    """Return `size` bytes, less only at the end: a pipe hands out what it has.

    Raises:
        one of `_BROKEN`, when not a byte can be read.
    """
    block = stream.read(size) or b""
    if len(block) == size or not block:
        return block
    parts, missing = [block], size - len(block)
    while missing:
        try:
            part = stream.read(missing)
        except _BROKEN:
            break  # it is raised again when the next block is asked for
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


class _Rest(io.RawIOBase):
    """A stream of which the start was read already."""

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        self._start, self._then = start, stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._start:
            size = len(self._start) if size < 0 else size
            part, self._start = self._start[:size], self._start[size:]
            return part
        return self._then.read(size)

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        part = self.read(len(view))
        view[: len(part)] = part
        return len(part)


def _wide_encoding(start: bytes) -> str | None:
    """Tell UTF-16, which PowerShell writes, by its mark or by the zero in every other byte."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = start[:2048]
    if len(sample) >= 64 and sample.count(0) * 5 > len(sample) * 2:
        odd, even = sample[1::2].count(0), sample[::2].count(0)
        if not even and odd * 5 > len(sample) * 2:
            return "utf-16-le"
        if not odd and even * 5 > len(sample) * 2:
            return "utf-16-be"
    return None


#: Control characters that no log holds in numbers. Zeros are not among them: a log that was cut while it was written to
#: begins with a hole of them.
_CONTROLS = bytes([*range(1, 8), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])


def _is_binary(start: bytes) -> bool:
    """Tell a program, a picture or a checkpoint from a log by its control characters."""
    return len(start) >= 512 and (len(start) - len(start.translate(None, _CONTROLS))) * 25 > len(start)


class _Unpacked(io.RawIOBase):
    """Hands out what could be unpacked so far: a file that is cut off is worth reading up to there."""

    def __init__(self, file: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._file.read1(size)


def _gzip(stream: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", _Unpacked(gzip.GzipFile(fileobj=stream, mode="rb")))


def _bz2(stream: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", _Unpacked(bz2.BZ2File(stream)))


def _xz(stream: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", _Unpacked(lzma.LZMAFile(stream)))


#: What a file begins with, its name, and how it is unpacked; None where the standard library cannot.
_PACKED: dict[bytes, tuple[str, Callable[[BinaryIO], BinaryIO] | None]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"BZh": ("bzip2", _bz2),
    b"\xfd7zXZ\x00": ("xz", _xz),
    b"\x28\xb5\x2f\xfd": ("a zstd archive", None),
    b"PK\x03\x04": ("a zip archive", None),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", None),
}
