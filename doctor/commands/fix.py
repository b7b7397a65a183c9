"""`flexdoctor fix`: plan, show, apply and verify."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flexdoctor.commands import completion, options
from flexdoctor.commands.help import INSTALL
from flexdoctor.commands.running import StopError, codes
from flexdoctor.commands.settings import settle

if TYPE_CHECKING:
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Capability, Report


def fix(
    context: typer.Context,
    python: options.PythonOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply the plan without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    resume: Annotated[bool, typer.Option("--continue", help="Complete a fix that was cut off.")] = False,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select", autocompletion=completion.codes, metavar="CODE", help="Mend only these; warnings too."
        ),
    ] = None,
    require: Annotated[
        options.Capability,
        typer.Option(
            "--require",
            metavar="CAPABILITY",
            envvar="FLEXDOCTOR_REQUIRE",
            help="What must work; compiled_forward if not named. Or eager, compiled_backward, compiled_captured.",
        ),
    ] = options.Capability.compiled_forward,
    stack: Annotated[
        str | None, typer.Option("--stack", metavar="NAME", help="End in this one of the sets that the plan names.")
    ] = None,
    installer: Annotated[
        options.InstallWith,
        typer.Option("--installer", help="pip where the environment has it, else uv.", rich_help_panel=INSTALL),
    ] = options.InstallWith.auto,
    index_url: Annotated[
        str | None, typer.Option("--index-url", metavar="URL", help="As for pip.", rich_help_panel=INSTALL)
    ] = None,
    extra_index_url: Annotated[
        list[str] | None, typer.Option("--extra-index-url", metavar="URL", help="As for pip.", rich_help_panel=INSTALL)
    ] = None,
    find_links: Annotated[
        list[str] | None,
        typer.Option("--find-links", metavar="DIR|URL", help="As for pip: a wheelhouse.", rich_help_panel=INSTALL),
    ] = None,
    no_index: Annotated[
        bool, typer.Option("--no-index", help="As for pip: nothing but --find-links.", rich_help_panel=INSTALL)
    ] = False,
    with_dependencies: Annotated[
        bool,
        typer.Option(
            "--with-dependencies",
            help="Let installed dependencies move where the plan's packages ask.",
            rich_help_panel=INSTALL,
        ),
    ] = False,
    format_: Annotated[
        options.PlanFormat,
        typer.Option("--format", "-f", metavar="FORMAT", help="text, or json."),
    ] = options.PlanFormat.text,
    config: options.ConfigOption = None,
    no_config: options.NoConfigOption = False,
    lang: options.LangOption = None,
) -> None:
    """Plan what mends this environment, show it, apply it on a yes, verify it. `flexdoctor undo` takes it back.

    Exit codes: 0 healthy or only shown, 1 faults remain, 2 usage, 3 could not start, 4 applied, found no better and
    rolled back.
    """
    from flexdoctor import chain, console  # noqa: PLC0415
    from flexdoctor.checks import CHAIN  # noqa: PLC0415
    from flexdoctor.configuration import today  # noqa: PLC0415
    from flexdoctor.fixes import FIXES  # noqa: PLC0415
    from flexdoctor.knowledge.stacks import company_indexes  # noqa: PLC0415
    from flexdoctor.treatment.course import Options  # noqa: PLC0415
    from flexdoctor.treatment.installers import IndexOptions  # noqa: PLC0415
    from flexdoctor.treatment.plan import TreatmentError  # noqa: PLC0415
    from flexdoctor.treatment.planning import known  # noqa: PLC0415
    from flexdoctor.treatment.session import Session  # noqa: PLC0415

    settings = settle(context, config, no_config)
    required: Capability = require.value
    required = settings.value("require", required, settings.file.require)
    target = settings.target({"python": python}, ("python",))
    accepted = settings.waivers(CHAIN, foreign=True)

    def examine() -> tuple[Facts, Report]:
        facts = settings.read(target)
        return facts, chain.diagnose(facts, CHAIN, required=required, waivers=accepted, today=today())

    places = tuple(item if "://" in item else str(Path(item).expanduser().absolute()) for item in find_links or ())
    language = console.choose_language(lang.value if lang else None, sys.stdout)
    session = Session(
        examine=examine,
        fixes=FIXES,
        knowledge=known(),
        options=Options(
            IndexOptions(index_url, tuple(extra_index_url or ()), places, no_index, company_indexes()),
            installer.value,
            with_dependencies,
        ),
        language=language,
        ask=(lambda question: typer.confirm(question, err=True)) if console.is_terminal(sys.stdin) else None,
        as_json=format_ is options.PlanFormat.json,
        select=codes(select, CHAIN, "--select", links=False),
        stack=stack,
        configuration=settings.shown,
    )
    try:
        code = session.resume() if resume else session.run(yes=yes, dry_run=dry_run)
    except TreatmentError as error:
        raise StopError(error.message, error.exit_code) from error
    raise typer.Exit(code)
