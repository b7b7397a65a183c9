"""What several commands do alike: read the target, check codes, plan, write, and end with a clear line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flexdoctor.text import Text, UserError

if TYPE_CHECKING:
    from flexdoctor.chain import Check
    from flexdoctor.commands import options
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Report
    from flexdoctor.text import Language
    from flexdoctor.treatment.plan import Fix, Plan


class StopError(UserError):
    """The run ends here, with one clear line and an exit code. `reported`: stdout holds a whole report already."""

    def __init__(self, message: Text, exit_code: int, *, reported: bool = False) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.reported = reported


def asked(arguments: list[str], names: tuple[str, ...], variable: str) -> str | None:
    """Return the value of an option, as far as that can be told from a command line that does not parse."""
    found = os.environ.get(variable)
    for position, argument in enumerate(arguments):
        if argument in names:
            found = arguments[position + 1] if position + 1 < len(arguments) else found
        elif argument.startswith(tuple(f"{name}=" for name in names)):
            found = argument.partition("=")[2]
        elif argument.startswith(tuple(name for name in names if not name.startswith("--"))):
            found = argument[2:]
    return found


def asked_language(arguments: list[str]) -> Language | None:
    """Return the language that was asked for, on a command line that need not parse."""
    language = asked(arguments, ("--lang",), "FLEXDOCTOR_LANG")
    return "zh" if language == "zh" else "en" if language == "en" else None


def read(**options: Any) -> Facts:
    """Read the target that the options of `flexdoctor.targets.TargetOptions` name."""
    from flexdoctor import targets  # noqa: PLC0415

    try:
        return targets.read_target(targets.TargetOptions(**options))
    except targets.UsageError as error:
        raise StopError(error.message, 2) from error
    except targets.TargetError as error:
        raise StopError(error.message, 3) from error


def mention_cut_off_fix(facts: Facts, lang: options.Lang | None) -> None:
    """Say on stderr that a fix of this environment was cut off, because nothing else that is said may be believed."""
    if facts.interpreter.prefix is None or facts.target.kind != "environment":
        return
    prefix = Path(os.path.expanduser(facts.interpreter.prefix))  # noqa: PTH111 - a user without a home has no error
    if not os.path.isdir(prefix / ".flexdoctor"):  # noqa: PTH112
        return
    from flexdoctor.console import choose_language  # noqa: PLC0415
    from flexdoctor.treatment.course import refuse_interrupted  # noqa: PLC0415
    from flexdoctor.treatment.plan import TreatmentError  # noqa: PLC0415

    try:
        refuse_interrupted(prefix)
    except TreatmentError as error:
        language = choose_language(lang.value if lang else None, sys.stderr)
        typer.echo(f"flexdoctor: {error.message.to(language)}", err=True)


def codes(given: list[str] | None, chain: tuple[Check, ...], option: str, *, links: bool) -> tuple[str, ...]:
    """Split and check the values of --select and --ignore; an unknown one is an error that names its nearest."""
    from flexdoctor.waivers import FAULTS  # noqa: PLC0415

    codes = [fault.code for link in chain for fault in link.faults] + [fault.code for fault in FAULTS]
    names = [link.link for link in chain] if links else []
    wanted = [part.strip() for value in given or () for part in value.split(",") if part.strip()]
    for part in wanted:
        if part in names or any(code.startswith(part) for code in codes):
            continue
        import difflib  # noqa: PLC0415

        near = difflib.get_close_matches(part, [*codes, *names], n=1, cutoff=0.5)
        hint = (
            Text("did you mean {near}?", "是否想输入 {near}？").format(near=near[0])
            if near
            else Text("`flexdoctor list checks` lists all", "全部代码见 `flexdoctor list checks`")
        )
        message = Text("{option}: there is no {part};", "{option}：不存在 {part}；").format(option=option, part=part)
        raise StopError(message + hint, 2)
    return tuple(wanted)


def plan(report: Report, facts: Facts) -> tuple[Plan | None, Sequence[Fix]]:
    """Plan what `flexdoctor fix` would do. Only an environment that is there can be mended."""
    if facts.target.kind != "environment" or all(item.status not in ("fail", "warn") for item in report.findings):
        return None, ()
    from flexdoctor.fixes import FIXES  # noqa: PLC0415
    from flexdoctor.treatment.planning import known, make_plan  # noqa: PLC0415

    return make_plan(facts, report, FIXES, known()), FIXES


def write(text: str, output: Path | None) -> None:
    """Write a report to `output` or stdout; what cannot be written ends the run with one line."""
    from flexdoctor.console import write_report  # noqa: PLC0415

    try:
        write_report(text, output)
    except BrokenPipeError:
        raise
    except OSError as error:
        message = Text("cannot write {path}: {why}", "无法写入 {path}：{why}")
        raise StopError(message.format(path=output or "stdout", why=error.strerror or error), 3) from error
