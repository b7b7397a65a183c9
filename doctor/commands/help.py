"""Help that fits a screen: a line for what people use most, names for the rest; `--help-all` explains everything."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter, Parameter

#: Where an option stands that few people need; options without a group stand first.
TARGET = "other targets"
DEPTH = "look deeper"
LIVE = "with --live"
OUTPUT = "output and CI"
INSTALL = "where packages come from"
_HELP = "help"
_EXIT_CODES = "Exit codes:"


class Command(TyperCommand):
    """A command whose `--help` shows the options without a group, and the others by name only."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Return the parameters, and `--help-all` where there is something that `--help` leaves out."""
        given = super().get_params(ctx)
        if not any(map(_group, given)):
            return given
        everything = TyperOption(
            param_decls=["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_everything,
            help="Explain every option and exit.",
            rich_help_panel=_HELP,
        )
        return [*given, everything]

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the help that fits a screen, or all of it."""
        whole = bool(ctx.meta.get("flexdoctor.help_all"))
        self.format_usage(ctx, formatter)
        paragraphs = _paragraphs(self.help or "")
        shown = paragraphs if whole else [item for item in paragraphs[1:] if item.startswith(_EXIT_CODES)]
        for number, text in enumerate(shown if whole else [*paragraphs[:1], *shown]):
            if whole or not number:
                formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(text)
        groups = _grouped(self.get_params(ctx))
        for group, members in groups:
            if group == "" or whole:
                with formatter.section(group or "Options"):
                    formatter.write_dl([_row(item, ctx, whole=whole) for item in members], col_max=36)
        rest = [(group, members) for group, members in groups if group not in ("", _HELP)]
        if rest and not whole:
            with formatter.section("More, explained by --help-all"):
                column = max(len(group) for group, _ in rest) + formatter.current_indent + 2
                for group, members in rest:
                    names = " ".join(item.opts[0] for item in members)
                    head = " " * formatter.current_indent + group
                    # The formatter's own wrapping would cut an option at its hyphens.
                    lines = textwrap.wrap(names, formatter.width - column, break_on_hyphens=False)
                    for number, line in enumerate(lines):
                        formatter.write(f"{'' if number else head:{column}}{line}\n")


def _print_everything(ctx: Context, _: Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta["flexdoctor.help_all"] = True
        typer.echo(ctx.get_help())
        ctx.exit()


def _group(parameter: Any) -> str:
    return getattr(parameter, "rich_help_panel", None) or ""


def _grouped(parameters: Iterable[Parameter]) -> list[tuple[str, list[Parameter]]]:
    """Return the visible parameters by group, the options without one first; the others as they are declared."""
    groups: dict[str, list[Parameter]] = {"": []}
    for item in parameters:
        if not getattr(item, "hidden", False):
            groups.setdefault(_group(item), []).append(item)
    return list(groups.items())


def _row(parameter: Any, ctx: Context, *, whole: bool) -> tuple[str, str]:
    names, text = parameter.get_help_record(ctx) or (parameter.opts[0], "")
    return names, text if whole else (parameter.help or "").partition(". ")[0].rstrip(".")


def _paragraphs(text: str) -> list[str]:
    return list(_joined(textwrap.dedent(text).split("\n\n")))


def _joined(paragraphs: Iterable[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        if words := paragraph.split():
            yield " ".join(words)
