"""The command line: parses options, puts readers, chain and a rendering together, and ends with the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from flexdoctor import __version__

if TYPE_CHECKING:
    from flexdoctor.chain import Check
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Report
    from flexdoctor.treatment.plan import Fix, Plan

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


class Device(str, Enum):
    """Where the live run runs."""

    auto = "auto"
    npu = "npu"
    cpu = "cpu"
    cuda = "cuda"


class Listing(str, Enum):
    """What can be listed."""

    checks = "checks"
    stacks = "stacks"
    fixes = "fixes"


class InstallWith(str, Enum):
    """Which installer applies a plan."""

    auto = "auto"
    pip = "pip"
    uv = "uv"


PythonOption = Annotated[
    Path | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Interpreter, venv or conda prefix to examine. Default: $VIRTUAL_ENV, $CONDA_PREFIX, else this one.",
    ),
]
SitePackagesOption = Annotated[
    Path | None,
    typer.Option(
        "--site-packages", metavar="DIR", help="A bare folder of packages; nothing is run, no machine is examined."
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="With --site-packages: look up CANN, /dev and /etc below DIR."),
]
RequirementsOption = Annotated[
    Path | None,
    typer.Option(
        "-r",
        metavar="FILE",
        help="A planned environment: requirements.txt, pip freeze, pip list, pylock.toml, uv.lock; - for stdin.",
    ),
]
WheelsOption = Annotated[
    Path | None, typer.Option("--wheels", metavar="DIR", help="A folder of wheels, read without unpacking.")
]
PlatformOption = Annotated[
    str | None,
    typer.Option("--platform", metavar="NAME", help="For -r and --wheels: linux_aarch64 (assumed) or linux_x86_64."),
]
PythonVersionOption = Annotated[
    str | None, typer.Option("--python-version", metavar="X.Y", help="For -r and --wheels: the Python. Assumed: 3.11.")
]
SnapshotOption = Annotated[
    Path | None, typer.Option("--snapshot", metavar="FILE", help="Facts recorded by `flexdoctor snapshot`.")
]
ExampleOption = Annotated[
    str | None, typer.Option("--example", metavar="NAME", help="A shipped snapshot; a wrong name lists them all.")
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="KEY=VALUE", help="With --root: a variable of the image. Repeatable."),
]
EnvFileOption = Annotated[
    Path | None,
    typer.Option("--env-file", metavar="FILE", help="With --root: its variables, one KEY=VALUE a line."),
]
DeepOption = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Also compare the symbols that torch-npu needs with what torch and CANN export (flexdoctor[deep]).",
    ),
]
KernelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        metavar="REPO[@VERSION]|PATH",
        help="A kernel from the Hub, a folder, or REPO=PATH: does it fit diffusers and transformers here?",
    ),
]
OnlineOption = Annotated[bool, typer.Option("--online", help="Ask the Hub itself about the kernels named by --kernel.")]
NpuSmiLimitOption = Annotated[
    float,
    typer.Option(
        "--npu-smi-limit",
        metavar="SECONDS",
        min=0,
        envvar="FLEXDOCTOR_NPU_SMI_LIMIT",
        help="How long `npu-smi info` may take where devices are; 0 leaves it out.",
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to stdout.")
]
LangOption = Annotated[Lang | None, typer.Option("--lang", envvar="FLEXDOCTOR_LANG", help="Default: by locale.")]


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
    python: PythonOption = None,
    site_packages: SitePackagesOption = None,
    requirements: RequirementsOption = None,
    wheels: WheelsOption = None,
    snapshot: SnapshotOption = None,
    example: ExampleOption = None,
    root: RootOption = None,
    env: EnvOption = None,
    env_file: EnvFileOption = None,
    platform: PlatformOption = None,
    python_version: PythonVersionOption = None,
    deep: DeepOption = False,
    npu_smi_limit: NpuSmiLimitOption = 10,
    kernel: KernelOption = None,
    online: OnlineOption = False,
    format_: Annotated[
        Format, typer.Option("--format", "-f", envvar="FLEXDOCTOR_FORMAT", help="text, or one JSON document.")
    ] = Format.text,
    output: OutputOption = None,
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
    live: Annotated[
        bool, typer.Option("--live", help="Run flex_attention in the target's interpreter, in a child process.")
    ] = False,
    device: Annotated[
        Device | None,
        typer.Option("--device", help="With --live. Default auto: npu where torch_npu is installed, else cuda or cpu."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            envvar="FLEXDOCTOR_TIMEOUT",
            help="With --live: the time for all of it (900); each stage has a limit of its own besides.",
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", metavar="N", min=2, max=64, help="With --live: also N ranks under torchrun."),
    ] = None,
    keep_cache: Annotated[
        bool, typer.Option("--keep-cache", help="With --live: your inductor and triton cache, not an empty one.")
    ] = False,
    lang: LangOption = None,
    color: Annotated[Color, typer.Option("--color", help="NO_COLOR and FORCE_COLOR count too.")] = Color.auto,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also the proof of what holds.")] = False,
) -> None:
    """Walk the chain and name the first broken link, with proof.

    A machine without CANN or without an Ascend device is told in the first lines, the packages are judged all the
    same, and the exit code follows what is found in them; only with --require does the missing hardware count too.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 usage, 3 could not complete.
    """
    from flexdoctor import chain, findings  # noqa: PLC0415 - `--help` needs none of this
    from flexdoctor.checks import CHAIN  # noqa: PLC0415

    given = {"--device": device, "--ranks": ranks, "--keep-cache": keep_cache or None}
    if not live and (stray := next((name for name, value in given.items() if value is not None), None)):
        raise StopError(f"{stray} goes with --live", 2)
    if live and any((site_packages, requirements, wheels, snapshot, example)):
        raise StopError("--live runs an interpreter, which this target does not have; use --python", 2)
    facts = _read(
        python=python,
        site_packages=site_packages,
        requirements=requirements,
        wheels=wheels,
        snapshot=snapshot,
        example=example,
        root=root,
        env=tuple(env or ()),
        env_file=env_file,
        platform=platform,
        python_version=python_version,
        deep=deep,
        npu_smi_limit=npu_smi_limit,
        kernels=tuple(kernel or ()),
        online=online,
    )
    if live:
        facts = _run_live(facts, device or Device.auto, timeout, ranks or 1, keep_cache, lang)
    report = chain.diagnose(
        facts,
        CHAIN,
        required=(require or Capability.compiled_forward).value,
        hardware_required=require is not None,
        select=_codes(select, CHAIN, "--select", links=True),
        ignore=_codes(ignore, CHAIN, "--ignore", links=False),
    )
    _mention_cut_off_fix(facts, lang)
    detail = "quiet" if quiet else "verbose" if verbose else "normal"
    _write(_render(report, facts, CHAIN, format_, output, lang, color, detail), output)
    raise typer.Exit(findings.exit_code(report, fail_on=fail_on.value, strict=strict, exit_zero=exit_zero))


@app.command()
def snapshot(
    python: PythonOption = None,
    site_packages: SitePackagesOption = None,
    requirements: RequirementsOption = None,
    wheels: WheelsOption = None,
    root: RootOption = None,
    env: EnvOption = None,
    env_file: EnvFileOption = None,
    platform: PlatformOption = None,
    python_version: PythonVersionOption = None,
    deep: DeepOption = False,
    npu_smi_limit: NpuSmiLimitOption = 10,
    output: OutputOption = None,
) -> None:
    """Record the facts of an environment, for `check --snapshot` on another machine.

    Holds versions, paths below the home folder as ~, and allowed variables; no host name, no other variable.
    """
    from flexdoctor.snapshots import dump  # noqa: PLC0415

    facts = _read(
        python=python,
        site_packages=site_packages,
        requirements=requirements,
        wheels=wheels,
        root=root,
        env=tuple(env or ()),
        env_file=env_file,
        platform=platform,
        python_version=python_version,
        deep=deep,
        npu_smi_limit=npu_smi_limit,
    )
    _write(dump(facts), output)


@app.command()
def fix(
    python: PythonOption = None,
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
        str | None, typer.Option("--stack", metavar="NAME", help="End in this one of the sets that the plan names.")
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
    no_index: Annotated[bool, typer.Option("--no-index", help="As for pip: nothing but --find-links.")] = False,
    with_dependencies: Annotated[
        bool, typer.Option("--with-dependencies", help="Let installed dependencies move where the plan's packages ask.")
    ] = False,
    format_: Annotated[
        Format, typer.Option("--format", "-f", envvar="FLEXDOCTOR_FORMAT", help="text, or one JSON document.")
    ] = Format.text,
    lang: LangOption = None,
) -> None:
    """Plan what mends this environment, show it, apply it on a yes, verify it. `flexdoctor undo` takes it back.

    Exit codes: 0 healthy or only shown, 1 faults remain, 2 usage, 3 could not start, 4 applied, found no better and
    rolled back.
    """
    from flexdoctor import chain, console  # noqa: PLC0415
    from flexdoctor.checks import CHAIN  # noqa: PLC0415
    from flexdoctor.fixes import FIXES  # noqa: PLC0415
    from flexdoctor.treatment.course import Options  # noqa: PLC0415
    from flexdoctor.treatment.installers import IndexOptions  # noqa: PLC0415
    from flexdoctor.treatment.plan import TreatmentError  # noqa: PLC0415
    from flexdoctor.treatment.planning import known  # noqa: PLC0415
    from flexdoctor.treatment.session import Session  # noqa: PLC0415

    def examine() -> tuple[Facts, Report]:
        facts = _read(python=python)
        return facts, chain.diagnose(facts, CHAIN, required=require.value)

    places = tuple(item if "://" in item else str(Path(item).expanduser().absolute()) for item in find_links or ())
    language = console.choose_language(lang.value if lang else None, sys.stdout)
    session = Session(
        examine=examine,
        fixes=FIXES,
        knowledge=known(),
        options=Options(
            IndexOptions(index_url, tuple(extra_index_url or ()), places, no_index), installer.value, with_dependencies
        ),
        language=language,
        ask=(lambda question: typer.confirm(question, err=True)) if console.is_terminal(sys.stdin) else None,
        as_json=format_ is Format.json,
        select=_codes(select, CHAIN, "--select", links=False),
        stack=stack,
    )
    try:
        code = session.resume() if resume else session.run(yes=yes, dry_run=dry_run)
    except TreatmentError as error:
        raise StopError(error.message.to(language), error.exit_code) from error
    raise typer.Exit(code)


@app.command()
def undo(
    entry: Annotated[str | None, typer.Argument(metavar="[ID]", help="Which fix. Default: the last one.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only list what can be taken back.")] = False,
    python: PythonOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where files were changed since; those changes are lost.")
    ] = False,
    lang: LangOption = None,
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
    prefix = prefix_of(_read(python=python))
    if prefix is None:
        raise StopError("this target has no prefix, so it has no journal", 3)
    problems: list[str] = []
    try:
        if list_only:
            lines = [*plan_text.journal_lines(journal.entries(prefix), language)]
        else:
            chosen = course.pick(prefix, entry)
            problems = course.undo(chosen, force=force)
            lines = [*plan_text.undone_lines(chosen, problems, language)]
    except TreatmentError as error:
        raise StopError(error.message.to(language), error.exit_code) from error
    write_report(plan_text.render(lines), None)
    raise typer.Exit(3 if problems else 0)


@app.command("list")
def list_(
    what: Annotated[Listing, typer.Argument(help="What to list.")],
    python: Annotated[str | None, typer.Option("--python", metavar="X.Y", help="stacks: that fit this Python.")] = None,
    arch: Annotated[str | None, typer.Option("--arch", help="stacks: aarch64 or x86_64.")] = None,
    cann: Annotated[str | None, typer.Option("--cann", metavar="VERSION", help="stacks: that fit this CANN.")] = None,
    lang: LangOption = None,
) -> None:
    """List the links of the chain with their codes, the fixes, or the known sets of packages, best first."""
    from flexdoctor.console import choose_language, write_report  # noqa: PLC0415
    from flexdoctor.reports import listings  # noqa: PLC0415

    language = choose_language(lang.value if lang else None, sys.stdout)
    if what is Listing.fixes:
        from flexdoctor.fixes import FIXES  # noqa: PLC0415

        write_report("".join(f"{fix.name}: {fix.title.to(language)}  {' '.join(fix.opens)}\n" for fix in FIXES), None)
        return
    if what is Listing.stacks:
        write_report(listings.list_stacks(python, arch, cann, language), None)
        return
    from flexdoctor.checks import CHAIN  # noqa: PLC0415

    write_report(listings.list_checks(CHAIN, language), None)


def _read(**options: Any) -> Facts:
    """Read the target that the options of `flexdoctor.targets.TargetOptions` name."""
    from flexdoctor import targets  # noqa: PLC0415

    try:
        return targets.read_target(targets.TargetOptions(**options))
    except targets.UsageError as error:
        raise StopError(str(error), 2) from error
    except targets.TargetError as error:
        raise StopError(str(error), 3) from error


def _mention_cut_off_fix(facts: Facts, lang: Lang | None) -> None:
    """Say on stderr that a fix of this environment was cut off, because nothing else that is said may be believed."""
    prefix = facts.interpreter.prefix
    if prefix is None or not (Path(prefix).expanduser() / ".flexdoctor").is_dir():
        return
    from flexdoctor.console import choose_language  # noqa: PLC0415
    from flexdoctor.treatment.course import refuse_interrupted  # noqa: PLC0415
    from flexdoctor.treatment.plan import TreatmentError  # noqa: PLC0415

    try:
        refuse_interrupted(Path(prefix).expanduser())
    except TreatmentError as error:
        language = choose_language(lang.value if lang else None, sys.stderr)
        typer.echo(f"flexdoctor: {error.message.to(language)}", err=True)


def _run_live(
    facts: Facts, device: Device, timeout: float | None, ranks: int, keep_cache: bool, lang: Lang | None
) -> Facts:
    """Run the probe in the interpreter of `facts`, telling on stderr how far it is."""
    import dataclasses  # noqa: PLC0415

    from flexdoctor.checks.live_run import STAGES  # noqa: PLC0415
    from flexdoctor.console import choose_language  # noqa: PLC0415
    from flexdoctor.probe.progress import progress_on  # noqa: PLC0415
    from flexdoctor.probe.runner import DEFAULT_TIMEOUT, LiveOptions, run_live  # noqa: PLC0415

    if facts.interpreter.executable is None:
        raise StopError("--live: this environment has no interpreter to run", 3)
    options = LiveOptions(device.value, timeout or DEFAULT_TIMEOUT, keep_cache, ranks)
    titles = {name: stage.title for name, stage in STAGES.items()}
    language = choose_language(lang.value if lang else None, sys.stderr)
    executable = Path(facts.interpreter.executable).expanduser()
    with progress_on(sys.stderr, titles, language) as progress:
        return dataclasses.replace(facts, live=run_live(executable, options, progress))


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

    plan, fixes = (None, ()) if detail == "quiet" and format_ is Format.text else _plan(report, facts)
    if format_ is Format.json:
        from flexdoctor.reports.document import report_document  # noqa: PLC0415
        from flexdoctor.reports.json import render_json  # noqa: PLC0415

        return render_json(report_document(report, facts, lang.value if lang else "en", plan=plan, fixes=fixes))
    from flexdoctor.reports.text import TextOptions, render_text  # noqa: PLC0415

    language = console.choose_language(lang.value if lang else None, sys.stdout)
    options = TextOptions(
        language=language,
        detail=detail,  # type: ignore[arg-type]
        terminal=output is None and console.is_terminal(sys.stdout),
        width=console.width(),
        colour=output is None and console.wants_colour(sys.stdout, color.value),
        mended_by_fix=frozenset(plan.opens if plan else ()),
    )
    return render_text(report, facts, chain, options)


def _plan(report: Report, facts: Facts) -> tuple[Plan | None, Sequence[Fix]]:
    """Plan what `flexdoctor fix` would do. Only an environment that is there can be mended."""
    if facts.target.kind != "environment" or all(item.status not in ("fail", "warn") for item in report.findings):
        return None, ()
    from flexdoctor.fixes import FIXES  # noqa: PLC0415
    from flexdoctor.treatment.planning import known, make_plan  # noqa: PLC0415

    return make_plan(facts, report, FIXES, known()), FIXES


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
