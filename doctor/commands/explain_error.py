"""`flexdoctor explain --error FILE`: from a pasted traceback or a whole log to the link that is broken."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from flexdoctor.commands.running import StopError

if TYPE_CHECKING:
    from flexdoctor.commands import options
    from flexdoctor.reports.rendering import Page


def explain_error(file: Path, format_: options.ExplainFormat, page: Page) -> tuple[str, int]:
    """Return what the errors of a log mean, and the exit code."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415 - `--help` needs none of this
    from flexdoctor.fixes import FIXES  # noqa: PLC0415
    from flexdoctor.log_findings import judge  # noqa: PLC0415
    from flexdoctor.pages import entries  # noqa: PLC0415
    from flexdoctor.readers.logs import read_log  # noqa: PLC0415
    from flexdoctor.reports import log_json, log_markdown, log_text  # noqa: PLC0415
    from flexdoctor.reports.log_words import Explainers  # noqa: PLC0415

    with _opened(file) as stream:
        facts = read_log(stream, str(file))
    if facts.cut_off and not facts.size:
        raise StopError(f"--error: cannot read {file}: {facts.cut_off}", 3)
    report = judge(facts)
    explainers = Explainers(
        {entry.code: entry for entry in entries(CHAIN)}, frozenset(code for fix in FIXES for code in fix.opens)
    )
    renderer = {"text": log_text, "json": log_json, "markdown": log_markdown}[format_.value]
    return renderer.render(report, explainers, page), report.exit_code


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """Open a log, or stdin for `-`; what cannot be opened ends the run with one line."""
    if str(file) == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise StopError("--error: stdin is closed", 3)
        if sys.stdin.isatty():
            typer.echo("flexdoctor: paste the traceback or log, then Ctrl-D", err=True)
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StopError(f"--error: cannot read {file}: {reason}; give a file, or - for stdin", 3) from error
    with stream:
        yield stream
