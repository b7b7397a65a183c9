"""Where reports go: stdout or a file, further formats in the same run, and the step summary of a GitHub run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flexdoctor.commands.running import StopError, write
from flexdoctor.reports.rendering import Format, render

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
    checkouts = [Path(value) for name in _CHECKOUTS if (value := os.environ.get(name))]
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
                where = before.path or "stdout"
                raise StopError(
                    f"--also {item.format.value}={item.path}: {before.format.value} goes to {where}; "
                    "name a file of its own for each format",
                    2,
                )
    return wanted


def _also(given: str) -> Output:
    name, equals, path = given.partition("=")
    formats = {item.value: item for item in Format}
    if not equals or not path or path == "-":
        what = "a file, as stdout holds the report" if path == "-" else "FORMAT=FILE"
        raise StopError(f"--also {given}: expected {what}, such as --also sarif=report.sarif", 2)
    if name not in formats:
        raise StopError(f"--also {given}: there is no format {name}; expected one of {', '.join(formats)}", 2)
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
    problems: list[str] = []
    for item, text in rendered:
        try:
            write(text, item.path)
        except StopError as error:
            problems.append(str(error))
    first = rendered[0][0]
    if first.format is Format.github and first.path is None:
        _add_summary(diagnosis, pages[0], problems)
    for problem in problems[:-1]:
        typer.echo(f"flexdoctor: {problem}", err=True)
    if problems:
        # What is on stdout is the whole report already; an error document behind it would make it ill-formed.
        raise StopError(problems[-1], 3, reported=first.path is None)


def _add_summary(diagnosis: Diagnosis, page: Page, problems: list[str]) -> None:
    """Append the report to the summary of the step, which other commands of the step may have begun."""
    path = os.environ.get(SUMMARY)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(render(Format.markdown, diagnosis, page))
    except OSError as error:
        problems.append(f"cannot write ${SUMMARY} {path}: {error.strerror or error}")
