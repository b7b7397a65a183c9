"""Where reports go: stdout or a file, further formats in the same run, and the step summary of a GitHub run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flexdoctor.commands.running import StopError, write
from flexdoctor.frozen import dataclass
from flexdoctor.reports.rendering import Format, render
from flexdoctor.text import Text

if TYPE_CHECKING:
    from flexdoctor.reports.rendering import Diagnosis, Page

SUMMARY = "GITHUB_STEP_SUMMARY"
_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")


@dataclass(frozen=True)
class Output:
    """A format, and the file that it goes to. `path` is None for stdout."""

    format: Format
    path: Path | None


def base() -> Path | None:
    """Return the folder that a report's files are named relative to: the checkout of a CI run, else where we are."""
    try:
        here = Path.cwd()
    except OSError:
        return None
    # `here` has no link in it, but the variable of a CI run may name a link to the checkout.
    checkouts = [Path(os.path.realpath(value)) for name in _CHECKOUTS if (value := os.environ.get(name))]
    return next((folder for folder in checkouts if here.is_relative_to(folder)), here)


def outputs(format_: Format, output: Path | None, also: Sequence[str]) -> list[Output]:
    """Return what to write: the report, and what `--also` names.

    Raises:
        StopError: an `--also` has the wrong form, or two reports would go to one file.
    """
    wanted = [Output(format_, output), *map(_also, also)]
    for number, item in enumerate(wanted):
        for before in wanted[:number]:
            if _is_same(before.path, item.path):
                message = Text(
                    "--also {format}={path}: {other} goes to {where}; name a file of its own for each format",
                    "--also {format}={path}：{other} 已写入 {where}；请为每种格式指定单独的文件",
                )
                where = before.path or "stdout"
                message = message.format(
                    format=item.format.value, path=item.path, other=before.format.value, where=where
                )
                raise StopError(message, 2)
    return wanted


def _also(given: str) -> Output:
    name, equals, path = given.partition("=")
    formats = {item.value: item for item in Format}
    problem = None
    if not equals or not path:
        problem = Text("expected FORMAT=FILE", "应为 FORMAT=FILE 的形式")
    elif path == "-":
        problem = Text("stdout holds the report already; name a file", "标准输出已用于报告本身；请指定文件")
    elif name not in formats:
        problem = Text("there is no format {name}; there are {names}", "没有 {name} 格式；可用的有 {names}").format(
            name=name, names=", ".join(formats)
        )
    if problem:
        message = Text(
            "--also {given}: {problem}, as in --also sarif=report.sarif",
            "--also {given}：{problem}，例如 --also sarif=report.sarif",
        )
        raise StopError(message.format(given=given, problem=problem), 2)
    return Output(formats[name], Path(path))


def _is_same(one: Path | None, other: Path | None) -> bool:
    if one is not None and other is not None and os.path.realpath(one) == os.path.realpath(other):
        return os.path.realpath(one) != os.devnull
    try:
        first, second = (item.stat() if item else os.fstat(sys.stdout.fileno()) for item in (one, other))
        sink = Path(os.devnull).stat()
    except (OSError, ValueError, AttributeError):
        return False
    return os.path.samestat(first, second) and not os.path.samestat(first, sink)


def write_all(wanted: Iterable[Output], diagnosis: Diagnosis, pages: Sequence[Page]) -> None:
    """Render everything, then write everything; what cannot be written does not cost the others.

    Raises:
        StopError: something could not be written.
    """
    rendered = [(item, render(item.format, diagnosis, page)) for item, page in zip(wanted, pages, strict=True)]
    problems: list[Text] = []
    # Files first: whoever reads stdout may have gone away (`| head`), which ends the run.
    for item, text in sorted(rendered, key=lambda pair: pair[0].path is None):
        try:
            write(text, item.path)
        except StopError as error:
            problems.append(error.message)
    first = rendered[0][0]
    if first.format is Format.github and first.path is None:
        _add_summary(diagnosis, pages[0], problems)
    for problem in problems[:-1]:
        typer.echo(f"flexdoctor: {problem.to(pages[0].language)}", err=True)
    if problems:
        # What is on stdout is the whole report already; an error document behind it would make it ill-formed.
        raise StopError(problems[-1], 3, reported=first.path is None)


def _add_summary(diagnosis: Diagnosis, page: Page, problems: list[Text]) -> None:
    """Append the report to the summary of the step, which other commands of the step may have begun."""
    path = os.environ.get(SUMMARY)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(render(Format.markdown, diagnosis, page))
    except OSError as error:
        message = Text("cannot write {path}: {why}", "无法写入 {path}：{why}")
        problems.append(message.format(path=f"${SUMMARY} {path}", why=error.strerror or error))
