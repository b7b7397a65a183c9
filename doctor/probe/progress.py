"""How far the live run is: one line that changes on a terminal, one line a stage elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TextIO

from flexdoctor.console import encoding_of, fit_encoding, is_terminal
from flexdoctor.facts import LiveStage
from flexdoctor.text import Language, Text

_STATUS = {
    "passed": Text("ok", "正常"),
    "failed": Text("FAIL", "失败"),
    "skipped": Text("-", "-"),
    "blocked": Text("blocked", "受阻"),
    "died": Text("DIED", "崩溃"),
    "timed_out": Text("TIMEOUT", "超时"),
    "not_reached": Text("not reached", "未执行"),
}


class _Lines:
    """Writes to a stream; one that is gone does not matter."""

    def __init__(self, stream: TextIO, titles: Mapping[str, Text], language: Language) -> None:
        self.stream, self.titles, self.language = stream, titles, language
        self.terminal = is_terminal(stream)

    def begin(self, stage: str) -> None:
        """Say what begins, where it can be wiped out again."""
        self.tick(stage, 0.0)

    def tick(self, stage: str, seconds: float) -> None:
        """Count the seconds."""
        if self.terminal:
            elapsed = f"{seconds:.0f} s" if seconds >= 1 else ""
            self._write(f"\r\x1b[K  ...  {self._title(stage)}  {elapsed}")

    def end(self, stage: LiveStage) -> None:
        """Leave a line behind."""
        status = _STATUS[stage.status].to(self.language)
        elapsed = "" if stage.seconds is None or stage.seconds < 0.05 else f"  {stage.seconds:.1f} s"
        if self.terminal:
            self._write(f"\r\x1b[K  {status}  {self._title(stage.name)}{elapsed}\n")
        else:
            self._write(f"live {stage.name} {stage.status}{elapsed.replace('  ', ' ')}\n")

    def close(self) -> None:
        """Take away what stands on the changing line."""
        if self.terminal:
            self._write("\r\x1b[K")

    def _title(self, stage: str) -> str:
        return self.titles.get(stage, Text(stage, stage)).to(self.language)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(fit_encoding(text, encoding_of(self.stream)))
            self.stream.flush()


@contextlib.contextmanager
def progress_on(stream: TextIO, titles: Mapping[str, Text], language: Language) -> Iterator[_Lines]:
    """Yield a progress that writes to `stream`, and leaves its last line clean."""
    lines = _Lines(stream, titles, language)
    try:
        yield lines
    finally:
        lines.close()
