"""The command line: the commands put together, and an end with one clear line and an exit code whatever happens."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from flexdoctor import __version__
from flexdoctor.commands.running import StopError, asked, asked_language
from flexdoctor.text import Text

#: Each command by the name that a user types: module and function below `flexdoctor.commands`, and what it does.
COMMANDS = {
    "check": ("check.check", "Name the first broken link, with proof"),
    "fix": ("fix.fix", "Plan what mends it, show it, apply it on a yes, verify it"),
    "undo": ("undo.undo", "Put back, byte for byte, what a fix has changed"),
    "explain": ("explain.explain", "What a code means, why, how to confirm, mend and undo it"),
    "snapshot": ("snapshot.snapshot", "Record the facts, to judge them elsewhere"),
    "compare": ("compare.compare", "What differs between nodes, and which of it is a fault"),
    "list": ("listing.list_", "List checks, fixes, or stacks that fit each other"),
}


class _Commands(TyperGroup):
    """The commands. Only the one that is asked for is imported and gets its options built."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, short_help=what) for name, (_, what) in COMMANDS.items()}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands; their modules need not be imported for that."""
        from flexdoctor.commands.help import write_root  # noqa: PLC0415

        write_root(self, ctx, formatter, {name: what for name, (_, what) in COMMANDS.items()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(".")
        from flexdoctor.commands.help import Command  # noqa: PLC0415

        function = getattr(importlib.import_module(f"flexdoctor.commands.{module}"), name)
        # typer would evaluate the annotations, which are strings, four times.
        function.__annotations__ = inspect.get_annotations(function, eval_str=True)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name, cls=Command)(function)
        return typer.main.get_command(alone)


app = typer.Typer(
    name="flexdoctor",
    cls=_Commands,
    help="Find the first broken link between you and compiled flex_attention on Ascend NPUs, with proof.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"flexdoctor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def _stop(message: Text, exit_code: int, arguments: list[str], *, reported: bool = False) -> NoReturn:
    """End with one line on stderr, and with what the format that was asked for says of such an end."""
    from flexdoctor.console import choose_language, write_report  # noqa: PLC0415

    wanted = asked_language(arguments)
    format_ = asked(arguments, ("--format", "-f"), "FLEXDOCTOR_FORMAT")
    said = None if reported else _rendered(arguments, format_, message.to(wanted or "en"), exit_code)
    if said is not None:
        try:
            write_report(said, None)
        except OSError:
            # Nobody reads it, or there is no room: the line on stderr says the same.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    typer.echo(f"flexdoctor: {message.to(choose_language(wanted, sys.stderr))}", err=True)
    raise SystemExit(exit_code)


def _rendered(arguments: list[str], asked: str | None, message: str, exit_code: int) -> str | None:
    """Return what the format that was asked for says of a run that could not be; None where that is nothing."""
    from flexdoctor.reports import compare_rendering, rendering  # noqa: PLC0415

    if arguments[:1] == ["compare"]:
        return compare_rendering.render_error(asked, message, exit_code)
    if asked in [item.value for item in rendering.Format]:
        return rendering.render_error(rendering.Format(asked), message, exit_code)
    return None


def main() -> NoReturn:
    """Run the command line. No traceback ever reaches a user; a bug of ours is named as one."""
    arguments = sys.argv[1:]
    try:
        code = app(args=arguments, prog_name="flexdoctor", standalone_mode=False)
    except StopError as stop:
        _stop(stop.message, stop.exit_code, arguments, reported=stop.reported)
    except BrokenPipeError:
        # The reader of our pipe went away (`| head`): not our error, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except (KeyboardInterrupt, typer.Abort):
        _stop(Text("interrupted", "已中断"), 130, arguments)
    except Exception as error:  # noqa: BLE001 - the last line of defence
        _stop(*_explain(error), arguments)
    raise SystemExit(code if isinstance(code, int) else 0)


def _with_origin(error: Exception, message: str) -> str:
    """Let a message about an option name the variable where the value came from it, and only there."""
    option, context = getattr(error, "param", None), getattr(error, "ctx", None)
    variable = getattr(option, "envvar", None)
    if option is None or context is None or not isinstance(variable, str):
        return message
    source = context.get_parameter_source(option.name)
    by_variable = f" (from the variable {variable})" if source and source.name == "ENVIRONMENT" else ""
    return message.replace(f" (env var: '{variable}')", by_variable)


def _explain(error: Exception) -> tuple[Text, int]:
    """Turn what typer raises for a wrong command line, or a bug of ours, into a line and an exit code."""
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        command = getattr(getattr(error, "ctx", None), "command_path", "flexdoctor")
        said = _with_origin(error, " ".join(str(format_message()).split()).rstrip("."))
        if "unexpected extra argument" in said and command.endswith(" check"):
            said += "; what to examine goes behind --python, --site-packages, -r, --wheels or --snapshot"
        return Text("{said} (see `{command} --help`)", "{said}（用法见 `{command} --help`）").format(
            said=said, command=command
        ), getattr(error, "exit_code", 2)
    import traceback  # noqa: PLC0415

    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return Text(
        "a bug of flexdoctor: {error} ({where}); please report it", "flexdoctor 自身的缺陷：{error}（{where}），请反馈"
    ).format(error=f"{type(error).__name__}: {error}", where=where), 3
