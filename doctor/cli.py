"""The command line: the commands put together, and an end with one clear line and an exit code whatever happens."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from flexdoctor import __version__
from flexdoctor.commands.check import check
from flexdoctor.commands.compare import compare
from flexdoctor.commands.fix import fix
from flexdoctor.commands.listing import list_
from flexdoctor.commands.running import StopError
from flexdoctor.commands.snapshot import snapshot
from flexdoctor.commands.undo import undo

app = typer.Typer(
    name="flexdoctor",
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


app.command()(check)
app.command()(fix)
app.command()(undo)
app.command()(snapshot)
app.command()(compare)
app.command("list")(list_)


def _wants_json(arguments: list[str]) -> bool:
    """Whether JSON was asked for, as far as that can be told from a command line that does not parse."""
    asked = os.environ.get("FLEXDOCTOR_FORMAT", "text") if arguments[:1] != ["compare"] else "text"
    for position, argument in enumerate(arguments):
        if argument in ("--format", "-f"):
            asked = arguments[position + 1] if position + 1 < len(arguments) else asked
        elif argument.startswith(("--format=", "-f=")):
            asked = argument.partition("=")[2]
    return asked == "json"


def _stop(message: str, exit_code: int, arguments: list[str]) -> NoReturn:
    """End with one line on stderr, and with the one JSON document where JSON was asked for."""
    if _wants_json(arguments):
        from flexdoctor.reports import compare_document, document  # noqa: PLC0415
        from flexdoctor.reports.json import render_json  # noqa: PLC0415

        shape = compare_document if arguments[:1] == ["compare"] else document
        sys.stdout.write(render_json(shape.error_document(message, exit_code)))
    typer.echo(f"flexdoctor: {message}", err=True)
    raise SystemExit(exit_code)


def main() -> NoReturn:
    """Run the command line. No traceback ever reaches a user; a bug of ours is named as one."""
    import gc  # noqa: PLC0415

    # A run is short and makes many small objects that all live to its end; looking for cycles among them is in vain.
    gc.set_threshold(100_000)
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
