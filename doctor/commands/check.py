"""`flexdoctor check`: walk the chain and name the first broken link."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flexdoctor.commands import collecting, completion, options
from flexdoctor.commands.help import LIVE, OUTPUT
from flexdoctor.commands.outputs import base, outputs, write_all
from flexdoctor.commands.running import StopError, codes, mention_cut_off_fix, plan
from flexdoctor.commands.settings import extend_chain, settle
from flexdoctor.reports.rendering import Detail, Diagnosis, Format, Page
from flexdoctor.text import Text, user_language

if TYPE_CHECKING:
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Capability, Severity
    from flexdoctor.text import Language


def check(
    context: typer.Context,
    python: options.PythonOption = None,
    requirements: options.RequirementsOption = None,
    live: Annotated[bool, typer.Option("--live", help="Also run flex_attention, in a child process.")] = False,
    require: Annotated[
        options.Capability | None,
        typer.Option(
            "--require",
            metavar="CAPABILITY",
            envvar="FLEXDOCTOR_REQUIRE",
            help="What must work; compiled_forward if not named. Or eager, compiled_backward, compiled_captured. "
            "It decides which faults are errors. "
            "Named here, a machine without CANN or device is an error too; else only a warning.",
        ),
    ] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            envvar="FLEXDOCTOR_FORMAT",
            metavar="FORMAT",
            help="text json jsonl sarif junit github markdown html.",
        ),
    ] = Format.text,
    output: options.OutputOption = None,
    also: options.AlsoOption = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            autocompletion=completion.codes_and_links,
            metavar="CODE|LINK",
            help="Show only these (FD2, triton_install).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            autocompletion=completion.codes,
            metavar="CODE",
            help="Accept these codes or code prefixes.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    fail_on: Annotated[
        options.FailOn,
        typer.Option(
            "--fail-on",
            metavar="SEVERITY",
            envvar="FLEXDOCTOR_FAIL_ON",
            help="Exit with 1 from error (assumed) or warning on.",
        ),
    ] = options.FailOn.error,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            envvar="FLEXDOCTOR_STRICT",
            help="Exit with 3 when something is unknown.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also the proof of what holds.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.", rich_help_panel=OUTPUT)] = False,
    lang: options.LangOption = None,
    site_packages: options.SitePackagesOption = None,
    root: options.RootOption = None,
    env: options.EnvOption = None,
    env_file: options.EnvFileOption = None,
    wheels: options.WheelsOption = None,
    platform: options.PlatformOption = None,
    python_version: options.PythonVersionOption = None,
    snapshot: options.SnapshotOption = None,
    example: options.ExampleOption = None,
    config: options.ConfigOption = None,
    no_config: options.NoConfigOption = False,
    deep: options.DeepOption = False,
    kernel: options.KernelOption = None,
    online: options.OnlineOption = False,
    npu_smi_limit: options.NpuSmiLimitOption = 10,
    plugin: options.PluginOption = None,
    device: Annotated[
        options.Device | None,
        typer.Option(
            "--device",
            help="With --live. Default auto: npu where torch_npu is installed, else cuda or cpu.",
            rich_help_panel=LIVE,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            envvar="FLEXDOCTOR_TIMEOUT",
            help="With --live: the time for all of it (900); each stage has a limit of its own besides.",
            rich_help_panel=LIVE,
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            metavar="N",
            min=2,
            max=64,
            help="With --live: also N ranks under torchrun.",
            rich_help_panel=LIVE,
        ),
    ] = None,
    keep_cache: Annotated[
        bool,
        typer.Option(
            "--keep-cache", help="With --live: your inductor and triton cache, not an empty one.", rich_help_panel=LIVE
        ),
    ] = False,
    collect: options.CollectOption = None,
    collect_ranks: options.CollectRanksOption = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.", rich_help_panel=OUTPUT)
    ] = False,
    color: Annotated[
        options.Color, typer.Option("--color", help="NO_COLOR and FORCE_COLOR count too.", rich_help_panel=OUTPUT)
    ] = options.Color.auto,
) -> None:
    """Walk the chain and name the first broken link, with proof.

    A machine without CANN or without an Ascend device is told in the first lines, the packages are judged all the
    same, and the exit code follows what is found in them; only with --require does the missing hardware count too.

    Exit codes: 0 clean, 1 findings, 2 usage, 3 could not complete.
    """
    from flexdoctor import chain  # noqa: PLC0415 - `--help` needs none of this
    from flexdoctor.checks import CHAIN  # noqa: PLC0415
    from flexdoctor.configuration import today  # noqa: PLC0415

    # First of all: a node that gets no further leaves a trace that it started.
    collection = collecting.begin(collect, every_rank=collect_ranks)
    with collecting.reporting(collection):
        settings = settle(context, config, no_config)
        chain_ = extend_chain(settings, CHAIN, plugin)
        given = {"--device": device, "--ranks": ranks, "--keep-cache": keep_cache or None}
        if not live and (stray := next((name for name, value in given.items() if value is not None), None)):
            raise StopError(Text("{option} goes with --live", "{option} 须与 --live 同用").format(option=stray), 2)
        target = settings.target(
            {
                "python": python,
                "site_packages": site_packages,
                "requirements": requirements,
                "wheels": wheels,
                "snapshot": snapshot,
                "example": example,
                "root": root,
                "env_file": env_file,
                "platform": platform,
                "python_version": python_version,
            }
        )
        if live and any(target[name] for name in ("site_packages", "requirements", "wheels", "snapshot", "example")):
            message = Text(
                "--live runs an interpreter, which this target does not have; use --python PATH",
                "--live 需要运行解释器，而该检查对象没有解释器；请用 --python PATH",
            )
            raise StopError(message, 2)
        wanted = outputs(format_, output, also or ())
    read_facts = functools.partial(
        settings.read,
        target,
        env=tuple(env or ()),
        deep=deep,
        npu_smi_limit=npu_smi_limit,
        kernels=tuple(kernel or ()),
        online=online,
    )
    required: Capability = require.value if require else "compiled_forward"
    counted: Severity = fail_on.value
    with collecting.reporting(collection):
        facts = read_facts()
        if live:
            facts = _run_live(facts, device or options.Device.auto, timeout, ranks or 1, keep_cache, lang)
        report = chain.diagnose(
            facts,
            chain_,
            required=settings.value("require", required, settings.file.require),
            # Only who is at this machine can know that it must have the hardware; a file is shared with others.
            hardware_required=require is not None,
            select=settings.select(select, chain_),
            ignore=codes(ignore, chain_, "--ignore", links=False),
            waivers=settings.waivers(chain_),
            today=today(),
        )
    # The facts of a snapshot may be those of another machine, whose prefix means nothing here.
    if not (target["snapshot"] or target["example"]):
        mention_cut_off_fix(facts, lang)
    if collection is not None:
        collecting.deliver(collection, report, facts, lang)
        wanted = [item for item in wanted if item.path is not None]
    detail: Detail = "quiet" if quiet else "verbose" if verbose else "normal"
    says_more = bool(wanted) and (detail != "quiet" or any(item.format is not Format.text for item in wanted))
    planned = plan(report, facts) if says_more else (None, ())
    diagnosis = Diagnosis(
        report,
        facts,
        chain_,
        *planned,
        fail_on=settings.value("fail_on", counted, settings.file.fail_on),
        strict=settings.value("strict", strict, settings.file.strict),
        exit_zero=exit_zero,
        configuration=settings.shown,
        not_read=settings.not_read,
    )
    if wanted:
        write_all(wanted, diagnosis, [_page(item.format, item.path, lang, color, detail) for item in wanted])
    raise typer.Exit(diagnosis.exit_code)


def _run_live(
    facts: Facts, device: options.Device, timeout: float | None, ranks: int, keep_cache: bool, lang: options.Lang | None
) -> Facts:
    """Run the probe in the interpreter of `facts`, telling on stderr how far it is."""
    import dataclasses  # noqa: PLC0415

    from flexdoctor.checks.live_run import STAGES  # noqa: PLC0415
    from flexdoctor.console import choose_language  # noqa: PLC0415
    from flexdoctor.probe.progress import progress_on  # noqa: PLC0415
    from flexdoctor.probe.runner import DEFAULT_TIMEOUT, LiveOptions, run_live  # noqa: PLC0415

    if facts.interpreter.executable is None:
        message = Text("--live: this environment has no interpreter to run", "--live：该环境没有可运行的解释器")
        raise StopError(message, 3)
    options = LiveOptions(device.value, timeout or DEFAULT_TIMEOUT, keep_cache, ranks)
    titles = {name: stage.title for name, stage in STAGES.items()}
    language = choose_language(lang.value if lang else None, sys.stderr)
    executable = Path(facts.interpreter.executable).expanduser()
    with progress_on(sys.stderr, titles, language) as progress:
        return dataclasses.replace(facts, live=run_live(executable, options, progress))


def _page(
    format_: Format, output: Path | None, lang: options.Lang | None, color: options.Color, detail: Detail
) -> Page:
    """Return what the report is written on: stdout as it is, or a file."""
    from flexdoctor import console  # noqa: PLC0415

    wanted: Language | None = lang.value if lang else None
    if not format_.is_for_people:
        return Page(language=wanted or "en", detail=detail, base=base())
    return Page(
        language=console.choose_language(wanted, sys.stdout) if output is None else wanted or user_language(),
        detail=detail,
        terminal=output is None and console.is_terminal(sys.stdout),
        width=console.width(),
        colour=output is None and console.wants_colour(sys.stdout, color.value),
    )
