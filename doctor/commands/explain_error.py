"""`flexdoctor explain --error FILE`: from a pasted traceback or a whole log to the link that is broken."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from flexdoctor.commands.running import StopError
from flexdoctor.text import Text

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

    with _opened(file, page) as stream:
        facts = read_log(stream, str(file))
    if facts.cut_off and not facts.size:
        raise _unreadable(file, facts.cut_off)
    report = judge(facts)
    explainers = Explainers(
        {entry.code: entry for entry in entries(CHAIN)}, frozenset(code for fix in FIXES for code in fix.opens)
    )
    renderer = {"text": log_text, "json": log_json, "markdown": log_markdown}[format_.value]
    return renderer.render(report, explainers, page), report.exit_code


@contextlib.contextmanager
def _opened(file: Path, page: Page) -> Iterator[BinaryIO]:
    """Open a log, or stdin for `-`; what cannot be opened ends the run with one line."""
    if str(file) == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise StopError(Text("--error -: stdin is closed", "--error -：标准输入已关闭"), 3)
        if sys.stdin.isatty():
            hint = Text("paste the traceback or the log, then Ctrl-D", "请粘贴 traceback 或日志，然后按 Ctrl-D")
            typer.echo(f"flexdoctor: {hint.to(page.language)}", err=True)
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except (OSError, ValueError) as error:
        raise _unreadable(file, str(getattr(error, "strerror", None) or error)) from error
    with stream:
        yield stream


def _unreadable(file: Path, reason: str) -> StopError:
    if str(file) == "-":
        return StopError(
            Text("--error: cannot read stdin: {reason}", "--error：无法读取标准输入：{reason}").format(reason=reason), 3
        )
    text = Text(
        "--error: cannot read {file}: {reason}; give a file with the traceback or the log, or - for stdin",
        "--error：无法读取 {file}：{reason}；请给出含有 traceback 或日志的文件，或用 - 表示标准输入",
    )
    return StopError(text.format(file=file, reason=reason), 3)
