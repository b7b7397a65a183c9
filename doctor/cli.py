"""The command line: the commands put together, and an end with one clear line and an exit code whatever happens."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from flexdoctor import __version__
from flexdoctor.commands.running import StopError

#: Each command by the name that a user types: its module below `flexdoctor.commands`, and its function there.
COMMANDS = {
    "check": "check.check",
    "fix": "fix.fix",
    "undo": "undo.undo",
    "snapshot": "snapshot.snapshot",
    "list": "listing.list_",
}


class _Commands(TyperGroup):
    """The commands. Only the one that is asked for is imported and gets its options built."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name) for name in COMMANDS}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(".")
        function = getattr(importlib.import_module(f"flexdoctor.commands.{module}"), name)
        # typer would evaluate the annotations, which are strings, four times.
        function.__annotations__ = get_type_hints(function, include_extras=True)
        alone = typer.Typer(
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            pretty_exceptions_show_locals=False,
        )
        alone.command(cmd_name)(function)
        return typer.main.get_command(alone)


app = typer.Typer(
    name="flexdoctor",
    cls=_Commands,
    help="Find the first broken link between you and compiled flex_attention on Ascend NPUs, with proof.",
    no_args_is_help=True,
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
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _wants_json(arguments: list[str]) -> bool:
    """Whether JSON was asked for, as far as that can be told from a command line that does not parse."""
    asked = os.environ.get("FLEXDOCTOR_FORMAT", "text")
    for position, argument in enumerate(arguments):
        if argument in ("--format", "-f"):
            asked = arguments[position + 1] if position + 1 < len(arguments) else asked
        elif argument.startswith(("--format=", "-f=")):
            asked = argument.partition("=")[2]
    return asked == "json"


def _stop(message: str, exit_code: int, arguments: list[str]) -> NoReturn:
    """End with one line on stderr, and with the one JSON document where JSON was asked for."""
    if _wants_json(arguments):
        from flexdoctor.reports.document import error_document  # noqa: PLC0415
        from flexdoctor.reports.json import render_json  # noqa: PLC0415

        sys.stdout.write(render_json(error_document(message, exit_code)))
    typer.echo(f"flexdoctor: {message}", err=True)
    raise SystemExit(exit_code)


def main() -> NoReturn:
    """Run the command line. No traceback ever reaches a user; a bug of ours is named as one."""
    arguments = sys.argv[1:]
    try:
        code = app(args=arguments, prog_name="flexdoctor", standalone_mode=False)
    except StopError as stop:
        _stop(str(stop), stop.exit_code, arguments)
    except BrokenPipeError:
        # The reader of our pipe went away (`| head`): not our error, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except (KeyboardInterrupt, typer.Abort):
        _stop("interrupted", 130, arguments)
    except Exception as error:  # noqa: BLE001 - the last line of defence
        _stop(*_explain(error), arguments)
    raise SystemExit(code if isinstance(code, int) else 0)


def _explain(error: Exception) -> tuple[str, int]:
    """Turn what typer raises for a wrong command line, or a bug of ours, into a line and an exit code."""
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        return f"{format_message()} (see `flexdoctor --help`)", getattr(error, "exit_code", 2)
    import traceback  # noqa: PLC0415

    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"a bug of flexdoctor: {type(error).__name__}: {error} ({where}); please report it", 3
