"""The command line: parses options, puts readers, chain and a rendering together, and ends with the exit code."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from flexdoctor import __version__

if TYPE_CHECKING:
    from flexdoctor.chain import Check
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Capability as Capability_
    from flexdoctor.findings import Report
    from flexdoctor.text import Language, Text
    from flexdoctor.treatment.course import Options, Outcome
    from flexdoctor.treatment.plan import Plan

app = typer.Typer(
    name="flexdoctor",
    help="Find the first broken link between you and compiled flex_attention on Ascend NPUs, with proof.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(str, Enum):
    """How a report is written."""

    text = "text"
    json = "json"


class Capability(str, Enum):
    """Ways to run flex_attention."""

    eager = "eager"
    compiled_forward = "compiled_forward"
    compiled_backward = "compiled_backward"
    compiled_captured = "compiled_captured"


class FailOn(str, Enum):
    """From which severity on findings count."""

    error = "error"
    warning = "warning"


class Lang(str, Enum):
    """Languages of the text."""

    en = "en"
    zh = "zh"


class Color(str, Enum):
    """When to use colour."""

    auto = "auto"
    always = "always"
    never = "never"


class Listing(str, Enum):
    """What can be listed."""

    checks = "checks"
    fixes = "fixes"


class InstallWith(str, Enum):
    """Which installer applies a plan."""

    auto = "auto"
    pip = "pip"
    uv = "uv"


class StopError(Exception):
    """The run ends here, with one clear line and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


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


@app.command()
def check(
    python: Annotated[
        Path | None,
        typer.Option(
            "--python",
            metavar="PATH",
            help="Interpreter, venv or conda prefix to examine. Default: $VIRTUAL_ENV, $CONDA_PREFIX, else this one.",
        ),
    ] = None,
    site_packages: Annotated[
        Path | None,
        typer.Option(
            "--site-packages",
            metavar="DIR",
            help="A bare folder of packages; nothing is run, no machine is examined.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="With --site-packages: look up CANN, /dev and /etc below DIR."),
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", "-f", envvar="FLEXDOCTOR_FORMAT", help="text, or one JSON document.")
    ] = Format.text,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report there, not to stdout.")
    ] = None,
    require: Annotated[
        Capability | None,
        typer.Option(
            "--require",
            envvar="FLEXDOCTOR_REQUIRE",
            help="What must work; decides which faults are errors. Default compiled_forward. "
            "Named here, a machine without CANN or device is an error too; else only a warning.",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="CODE|LINK", help="Show only these (FD2, triton_install)."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="CODE", help="Accept these codes or code prefixes.")
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", envvar="FLEXDOCTOR_FAIL_ON", help="Exit with 1 from this severity on.")
    ] = FailOn.error,
    strict: Annotated[
        bool, typer.Option("--strict", envvar="FLEXDOCTOR_STRICT", help="Exit with 3 when something is unknown.")
    ] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.")] = False,
    lang: Annotated[Lang | None, typer.Option("--lang", envvar="FLEXDOCTOR_LANG", help="Default: by locale.")] = None,
    color: Annotated[Color, typer.Option("--color", help="NO_COLOR and FORCE_COLOR count too.")] = Color.auto,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also the proof of what holds.")] = False,
) -> None:
    """Walk the chain and name the first broken link, with proof.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 could not complete.
    """
    from flexdoctor import chain, findings  # noqa: PLC0415 - `--help` needs none of this
    from flexdoctor.checks import CHAIN  # noqa: PLC0415

    facts = _read(python, site_packages, root)
    report = chain.diagnose(
        facts,
        CHAIN,
        required=(require or Capability.compiled_forward).value,
        hardware_required=require is not None,
        select=_codes(select, CHAIN, "--select", links=True),
        ignore=_codes(ignore, CHAIN, "--ignore", links=False),
    )
    detail = "quiet" if quiet else "verbose" if verbose else "normal"
    _write(_render(report, facts, CHAIN, format_, output, lang, color, detail), output)
    raise typer.Exit(findings.exit_code(report, fail_on=fail_on.value, strict=strict, exit_zero=exit_zero))


@app.command()
def fix(
    python: Annotated[
        Path | None,
        typer.Option("--python", metavar="PATH", help="As for check; installed into, and only into, this one."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply the plan without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    resume: Annotated[bool, typer.Option("--continue", help="Complete a fix that was cut off.")] = False,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="CODE", help="Mend only these; warnings too.")
    ] = None,
    require: Annotated[
        Capability, typer.Option("--require", envvar="FLEXDOCTOR_REQUIRE", help="What must work.")
    ] = Capability.compiled_forward,
    stack: Annotated[
        str | None, typer.Option("--stack", metavar="NAME", help="Which of the sets that the plan names to end in.")
    ] = None,
    installer: Annotated[
        InstallWith, typer.Option("--installer", help="pip where the environment has it, else uv.")
    ] = InstallWith.auto,
    index_url: Annotated[str | None, typer.Option("--index-url", metavar="URL", help="As for pip.")] = None,
    extra_index_url: Annotated[
        list[str] | None, typer.Option("--extra-index-url", metavar="URL", help="As for pip.")
    ] = None,
    find_links: Annotated[
        list[str] | None, typer.Option("--find-links", metavar="DIR|URL", help="As for pip: a wheelhouse.")
    ] = None,
    no_index: Annotated[bool, typer.Option("--no-index", help="As for pip: only --find-links.")] = False,
    with_dependencies: Annotated[
        bool, typer.Option("--with-dependencies", help="Let installed dependencies move where the plan's packages ask.")
    ] = False,
    format_: Annotated[
        Format, typer.Option("--format", "-f", envvar="FLEXDOCTOR_FORMAT", help="text, or one JSON document.")
    ] = Format.text,
    lang: Annotated[Lang | None, typer.Option("--lang", envvar="FLEXDOCTOR_LANG", help="Default: by locale.")] = None,
) -> None:
    """Plan what mends this environment, show it, and apply it on a yes; verified afterwards, and reversible.

    Exit codes: 0 healthy or only shown, 1 faults remain, 2 usage, 3 could not start, 4 applied, found no better and
    rolled back.
    """
    from flexdoctor.console import choose_language  # noqa: PLC0415
    from flexdoctor.treatment.course import Options  # noqa: PLC0415
    from flexdoctor.treatment.installers import IndexOptions  # noqa: PLC0415
    from flexdoctor.treatment.plan import TreatmentError  # noqa: PLC0415

    indexes = IndexOptions(
        index_url, tuple(extra_index_url or ()), tuple(_absolute(item) for item in find_links or ()), no_index
    )
    treatment = _Treatment(
        python=python,
        require=require.value,
        options=Options(indexes, installer.value, with_dependencies),
        select=tuple(select or ()),
        stack=stack,
        as_json=format_ is Format.json,
        language=choose_language(lang.value if lang else None, sys.stdout),
    )
    try:
        code = treatment.resume() if resume else treatment.run(yes=yes, dry_run=dry_run)
    except TreatmentError as error:
        raise StopError(error.message.to(treatment.language), error.exit_code) from error
    raise typer.Exit(code)


@app.command()
def undo(
    entry_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Which fix to take back. Default: the last one.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only list what can be taken back.")] = False,
    python: Annotated[Path | None, typer.Option("--python", metavar="PATH", help="As for check.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where files were changed since; those changes are lost.")
    ] = False,
    lang: Annotated[Lang | None, typer.Option("--lang", envvar="FLEXDOCTOR_LANG", help="Default: by locale.")] = None,
) -> None:
    """Put back, byte for byte, what a fix has changed. Needs no network."""
    from flexdoctor.console import choose_language, write_report  # noqa: PLC0415
    from flexdoctor.reports.plan_text import journal_lines, undone_lines  # noqa: PLC0415
    from flexdoctor.treatment import journal  # noqa: PLC0415
    from flexdoctor.treatment.course import pick, undo  # noqa: PLC0415
    from flexdoctor.treatment.plan import TreatmentError  # noqa: PLC0415
    from flexdoctor.treatment.target import prefix_of  # noqa: PLC0415

    language = choose_language(lang.value if lang else None, sys.stdout)
    prefix = prefix_of(_read(python, None, None))
    if prefix is None:
        raise StopError("this target has no prefix, so it has no journal", 3)
    try:
        if list_only:
            write_report("".join(f"{line}\n" for line in journal_lines(journal.entries(prefix), language)), None)
            return
        entry = pick(prefix, entry_id)
        problems = undo(entry, force=force)
    except TreatmentError as error:
        raise StopError(error.message.to(language), error.exit_code) from error
    write_report("".join(f"{line}\n" for line in undone_lines(entry, problems, language)), None)
    raise typer.Exit(3 if problems else 0)


def _absolute(place: str) -> str:
    """Make a folder absolute, because the installer runs in another one; an URL stays as it is."""
    return place if "://" in place else str(Path(place).expanduser().absolute())


@dataclass(frozen=True)
class _Treatment:
    """One run of `fix`: reads, plans, shows, asks, applies."""

    python: Path | None
    require: Capability_
    options: Options
    select: tuple[str, ...]
    stack: str | None
    as_json: bool
    language: Language

    def run(self, *, yes: bool, dry_run: bool) -> int:
        """Plan and show; apply on a yes."""
        from flexdoctor.fixes import FIXES  # noqa: PLC0415
        from flexdoctor.treatment import course  # noqa: PLC0415
        from flexdoctor.treatment.planning import known, make_plan  # noqa: PLC0415
        from flexdoctor.treatment.target import prefix_of, refusal, survey  # noqa: PLC0415

        facts, report = self._examine()
        if prefix := prefix_of(facts):
            course.refuse_interrupted(prefix)
        plan = make_plan(facts, report, FIXES, known(), select=self.select, stack=self.stack)
        if not (yes and self.as_json and plan.steps):
            self._show(facts, report, plan)
        if not plan.steps or dry_run:
            return 0 if dry_run or not plan.manual else 1
        target = survey(facts)
        if reason := refusal(target):
            raise StopError(reason.to(self.language), 3)
        if not yes and not self._agrees():
            return 1
        return self._conclude(course.apply(plan, target, report, self._examine, self.options, self._progress), plan)

    def resume(self) -> int:
        """Complete the treatment that was cut off."""
        from flexdoctor.treatment import course, journal  # noqa: PLC0415
        from flexdoctor.treatment.target import prefix_of, survey  # noqa: PLC0415

        facts, _ = self._examine()
        prefix = prefix_of(facts)
        entry = journal.interrupted(prefix) if prefix else None
        if entry is None:
            raise StopError("no fix was cut off here", 2)
        outcome = course.resume(entry, survey(facts), self._examine, self.options, self._progress)
        return self._conclude(outcome, entry.plan())

    def _examine(self) -> tuple[Facts, Report]:
        from flexdoctor.chain import diagnose  # noqa: PLC0415
        from flexdoctor.checks import CHAIN  # noqa: PLC0415

        facts = _read(self.python, None, None)
        return facts, diagnose(facts, CHAIN, required=self.require)

    def _agrees(self) -> bool:
        from flexdoctor.text import Text  # noqa: PLC0415

        if not sys.stdin.isatty() or self.as_json:
            hint = Text(
                "nothing was changed: there is no terminal to ask on; --yes applies the plan",
                "未做任何更改：没有可供询问的终端；加 --yes 以应用计划",
            )
            typer.echo(f"flexdoctor: {hint.to(self.language)}", err=True)
            return False
        return typer.confirm(Text("apply?", "是否应用？").to(self.language), default=False, err=True)

    def _progress(self, what: Text) -> None:
        typer.echo(f"  … {what.to(self.language)}", err=True)

    def _show(self, facts: Facts, report: Report, plan: Plan, outcome: Outcome | None = None) -> None:
        from flexdoctor.console import write_report  # noqa: PLC0415
        from flexdoctor.fixes import fixes_for  # noqa: PLC0415
        from flexdoctor.reports import plan_text  # noqa: PLC0415

        if self.as_json:
            from flexdoctor.reports.document import report_document  # noqa: PLC0415
            from flexdoctor.reports.json import render_json  # noqa: PLC0415

            document = report_document(report, facts, self.language, plan=plan, fixes_for=fixes_for)
            document["treatment"] = plan_text.treatment_document(plan, outcome, self.language)
            write_report(render_json(document), None)
            return
        lines = [plan_text.head_line(facts, self.language), ""]
        if outcome:
            lines = ["", *plan_text.outcome_lines(outcome, self.language)]
        else:
            lines += plan_text.plan_lines(plan, self.language)
        write_report("".join(f"{line}\n" for line in lines), None)

    def _conclude(self, outcome: Outcome, plan: Plan) -> int:
        from flexdoctor.findings import exit_code  # noqa: PLC0415

        self._show(outcome.facts, outcome.before if outcome.rolled_back else outcome.after, plan, outcome)
        return 4 if outcome.rolled_back else exit_code(outcome.after)


@app.command("list")
def list_(
    what: Annotated[Listing, typer.Argument(help="What to list.")],
    lang: Annotated[Lang | None, typer.Option("--lang", envvar="FLEXDOCTOR_LANG", help="Default: by locale.")] = None,
) -> None:
    """List the links of the chain with the codes that each can name, or the fixes with the codes that each mends."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415
    from flexdoctor.console import choose_language, write_report  # noqa: PLC0415

    language = choose_language(lang.value if lang else None, sys.stdout)
    lines = []
    if what is Listing.fixes:
        from flexdoctor.fixes import FIXES  # noqa: PLC0415

        lines = [f"{item.name}: {item.title.to(language)}  {' '.join(item.opens)}" for item in FIXES]
        write_report("\n".join(lines) + "\n", None)
        return
    for number, link in enumerate(CHAIN, 1):
        lines.append(f"{number:>2}  {link.link}: {link.question.to(language)}")
        lines += [f"    {fault.code}  {fault.title.to(language)}" for fault in link.faults]
    write_report("\n".join(lines) + "\n", None)


def _read(python: Path | None, site_packages: Path | None, root: Path | None) -> Facts:
    from flexdoctor.readers.environment import read_installed, read_site_packages  # noqa: PLC0415
    from flexdoctor.readers.interpreter import TargetError  # noqa: PLC0415

    if python and site_packages:
        raise StopError("--python and --site-packages are two targets; name one", 2)
    if root and not site_packages:
        raise StopError("--root goes with --site-packages", 2)
    try:
        return read_site_packages(site_packages, root) if site_packages else read_installed(python)
    except TargetError as error:
        raise StopError(str(error), 3) from error


def _codes(given: list[str] | None, chain: tuple[Check, ...], option: str, *, links: bool) -> tuple[str, ...]:
    """Split and check the values of --select and --ignore; an unknown one is an error that names its nearest."""
    import difflib  # noqa: PLC0415

    codes = [fault.code for link in chain for fault in link.faults]
    names = [link.link for link in chain] if links else []
    wanted = [part.strip() for value in given or () for part in value.split(",") if part.strip()]
    for part in wanted:
        if part in names or any(code.startswith(part) for code in codes):
            continue
        near = difflib.get_close_matches(part, [*codes, *names], n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else " (see `flexdoctor list checks`)"
        raise StopError(f"{option}: there is no {part}{hint}", 2)
    return tuple(wanted)


def _render(
    report: Report,
    facts: Facts,
    chain: tuple[Check, ...],
    format_: Format,
    output: Path | None,
    lang: Lang | None,
    color: Color,
    detail: str,
) -> str:
    from flexdoctor import console  # noqa: PLC0415

    if format_ is Format.json:
        from flexdoctor.fixes import FIXES, fixes_for  # noqa: PLC0415
        from flexdoctor.reports.document import report_document  # noqa: PLC0415
        from flexdoctor.reports.json import render_json  # noqa: PLC0415
        from flexdoctor.treatment.planning import known, make_plan  # noqa: PLC0415

        plan = make_plan(facts, report, FIXES, known())
        return render_json(report_document(report, facts, lang.value if lang else "en", plan=plan, fixes_for=fixes_for))
    from flexdoctor.reports.text import TextOptions, render_text  # noqa: PLC0415

    language = console.choose_language(lang.value if lang else None, sys.stdout)
    options = TextOptions(
        language=language,
        detail=detail,  # type: ignore[arg-type]
        terminal=output is None and console.is_terminal(sys.stdout),
        width=console.width(),
        colour=output is None and console.wants_colour(sys.stdout, color.value),
    )
    return render_text(report, facts, chain, options)


def _write(text: str, output: Path | None) -> None:
    from flexdoctor.console import write_report  # noqa: PLC0415

    try:
        write_report(text, output)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StopError(f"cannot write {output or 'stdout'}: {error.strerror or error}", 3) from error


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
