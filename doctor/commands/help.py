"""Help that fits a screen: a line for what people use most, names for the rest; `--help-all` explains everything.

Help is declared in English, where the options are; `help.toml` holds the Chinese of each text.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperOption

from flexdoctor.commands.running import asked_language

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
#: What the frame of a page says, and what typer adds to a text.
_FRAME = {
    "Usage: ": "用法：",
    "Options": "选项",
    "Commands": "命令",
    "More, explained by --help-all": "其他选项，说明见 --help-all",
}
_ADDED = {"env var: ": "环境变量：", "default: ": "默认：", "required": "必填", "; ": "；"}
#: No name of an option is given more columns than this; what is longer has its text on the next line.
_WIDEST_NAME = 36


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
        page = _Page(formatter)
        page.usage(self, ctx)
        paragraphs = paragraphs_of(self.help or "")
        shown = paragraphs if whole else [item for item in paragraphs[1:] if item.startswith(_EXIT_CODES)]
        for number, text in enumerate(shown if whole else [*paragraphs[:1], *shown]):
            page.paragraph(text, apart=whole or not number)
        groups = _grouped(self.get_params(ctx))
        for group, members in groups:
            if group == "" or whole:
                page.rows(group or "Options", [page.option(item, ctx, whole=whole) for item in members])
        rest = [(group, members) for group, members in groups if group not in ("", _HELP)]
        if rest and not whole:
            page.names("More, explained by --help-all", rest)


def write_root(command: Any, ctx: Any, formatter: Any, commands: Mapping[str, str]) -> None:
    """Write the help of the program itself; `commands` are what can be called, and what each does."""
    page = _Page(formatter)
    page.usage(command, ctx)
    page.paragraph(command.help, apart=True)
    page.rows("Options", [page.option(item, ctx, whole=True) for item in command.get_params(ctx)])
    page.rows("Commands", [(name, page.say(what)) for name, what in commands.items()])


class _Page:
    """One page of help in the language of the person who asked."""

    def __init__(self, formatter: HelpFormatter) -> None:
        from flexdoctor.console import choose_language  # noqa: PLC0415 - a run that shows no help needs none of these
        from flexdoctor.reports.wrapping import cells, wrap  # noqa: PLC0415
        from flexdoctor.tables import read_toml  # noqa: PLC0415

        self.formatter, self.cells, self.wrap = formatter, cells, wrap
        self.is_chinese = choose_language(asked_language(sys.argv[1:]), sys.stdout) == "zh"
        self.words: dict[str, str] = {}
        if self.is_chinese:
            self.words = {**_FRAME, **(read_toml(Path(__file__).with_suffix(".toml")) or {})}

    def say(self, text: str) -> str:
        return self.words.get(text, text)

    def usage(self, command: Any, ctx: Context) -> None:
        pieces = " ".join(command.collect_usage_pieces(ctx))
        self.formatter.write_usage(ctx.command_path, pieces, self.say("Usage: "))

    def paragraph(self, text: str, *, apart: bool) -> None:
        if apart:
            self.formatter.write_paragraph()
        for line in self.wrap(self.say(text), self.formatter.width - 2):
            self.formatter.write(f"  {line}\n")

    def heading(self, text: str) -> None:
        self.formatter.write_paragraph()
        self.formatter.write(f"{self.say(text)}{'：' if self.is_chinese else ':'}\n")

    def rows(self, heading: str, rows: Sequence[tuple[str, str]]) -> None:
        self.heading(heading)
        column = min(max((self.cells(name) for name, _ in rows), default=0), _WIDEST_NAME) + 4
        for name, text in rows:
            lines = self.wrap(text, max(self.formatter.width - column, 10))
            head = f"  {name}"
            if self.cells(head) > column - 2:
                self.formatter.write(f"{head}\n")
                head = ""
            for number, line in enumerate(lines):
                self._at(column, "" if number else head, line)

    def names(self, heading: str, groups: Sequence[tuple[str, Sequence[Parameter]]]) -> None:
        self.heading(heading)
        heads = [f"  {self.say(group)}" for group, _ in groups]
        column = max(map(self.cells, heads)) + 2
        for head, (_, members) in zip(heads, groups, strict=True):
            names = " ".join(item.opts[0] for item in members)
            # An option is not cut at its hyphens.
            lines = textwrap.wrap(names, self.formatter.width - column, break_on_hyphens=False)
            for number, line in enumerate(lines):
                self._at(column, "" if number else head, line)

    def _at(self, column: int, head: str, text: str) -> None:
        self.formatter.write(f"{head}{' ' * (column - self.cells(head))}{text}".rstrip() + "\n")

    def option(self, parameter: Any, ctx: Context, *, whole: bool) -> tuple[str, str]:
        names, text = parameter.get_help_record(ctx) or (parameter.opts[0], "")
        own = parameter.help or ""
        if not whole:
            return names, self.say(own).replace("。", ". ").partition(". ")[0].rstrip(".")
        added = text.removeprefix(own)
        if self.is_chinese and added:
            for english, chinese in _ADDED.items():
                added = added.replace(english, chinese)
            added = f"（{added.strip()[1:-1]}）"  # a line may end in front of a square bracket, not of these
        return names, self.say(own) + added


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


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a docstring, each in one line."""
    return list(_joined(textwrap.dedent(text).split("\n\n")))


def _joined(paragraphs: Iterable[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        if words := paragraph.split():
            yield " ".join(words)
