"""`flexdoctor list`: the links with their codes, the fixes, the known sets of packages."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flexdoctor.commands import options
from flexdoctor.commands.settings import extend_chain, settle


def list_(
    context: typer.Context,
    what: Annotated[options.Listing, typer.Argument(metavar="checks|fixes|stacks", help="What to list.")],
    python: Annotated[str | None, typer.Option("--python", metavar="X.Y", help="stacks: that fit this Python.")] = None,
    arch: Annotated[str | None, typer.Option("--arch", help="stacks: aarch64 or x86_64.")] = None,
    cann: Annotated[str | None, typer.Option("--cann", metavar="VERSION", help="stacks: that fit this CANN.")] = None,
    config: options.ListedConfigOption = None,
    no_config: options.ListedNoConfigOption = False,
    lang: options.LangOption = None,
) -> None:
    """List the links of the chain with their codes, the fixes, or the known sets of packages, best first."""
    from flexdoctor.console import choose_language, write_report  # noqa: PLC0415
    from flexdoctor.reports import listings  # noqa: PLC0415

    language = choose_language(lang.value if lang else None, sys.stdout)
    if what is options.Listing.fixes:
        from flexdoctor.fixes import FIXES  # noqa: PLC0415

        write_report("".join(f"{fix.name}: {fix.title.to(language)}  {' '.join(fix.opens)}\n" for fix in FIXES), None)
        return
    settings = settle(context, config, no_config)
    if what is options.Listing.stacks:
        write_report(listings.list_stacks(python, arch, cann, language), None)
        return
    from flexdoctor.checks import CHAIN  # noqa: PLC0415

    write_report(listings.list_checks(extend_chain(settings, CHAIN, None), language), None)
