"""`flexdoctor undo`: put back what a fix has changed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flexdoctor.commands import options
from flexdoctor.commands.running import StopError
from flexdoctor.commands.settings import settle
from flexdoctor.text import Text


def undo(
    context: typer.Context,
    entry: Annotated[str | None, typer.Argument(metavar="[ID]", help="Which fix. Default: the last one.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only list what can be taken back.")] = False,
    python: options.PythonOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where files were changed since; those changes are lost.")
    ] = False,
    config: options.ListedConfigOption = None,
    no_config: options.ListedNoConfigOption = False,
    lang: options.LangOption = None,
) -> None:
    """Put back, byte for byte, what a fix has changed. Needs no network.

    Exit codes: 0 undone, 2 there is no such fix, 3 not, or not all, could be put back.
    """
    from flexdoctor.console import choose_language, write_report  # noqa: PLC0415
    from flexdoctor.reports import plan_text  # noqa: PLC0415
    from flexdoctor.treatment import course, journal  # noqa: PLC0415
    from flexdoctor.treatment.plan import TreatmentError  # noqa: PLC0415
    from flexdoctor.treatment.target import prefix_of  # noqa: PLC0415

    language = choose_language(lang.value if lang else None, sys.stdout)
    settings = settle(context, config, no_config)
    prefix = prefix_of(settings.read(settings.target({"python": python}, ("python",))))
    if prefix is None:
        message = Text(
            "this environment has no prefix, so nothing was ever fixed in it", "该环境没有安装前缀，不存在可撤销的修复"
        )
        raise StopError(message, 3)
    problems: list[str] = []
    try:
        if list_only:
            lines = [*plan_text.journal_lines(journal.entries(prefix), language)]
        else:
            chosen = course.pick(prefix, entry)
            problems = course.undo(chosen, force=force)
            lines = [*plan_text.undone_lines(chosen, problems, language)]
    except TreatmentError as error:
        raise StopError(error.message, error.exit_code) from error
    write_report(plan_text.render(lines), None)
    raise typer.Exit(3 if problems else 0)
