"""`flexdoctor explain`: what a code means, how to confirm it by hand, what mends it and what that costs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flexdoctor.commands import completion, options
from flexdoctor.commands.running import StopError, write
from flexdoctor.commands.settings import extend_chain, settle
from flexdoctor.text import Text

if TYPE_CHECKING:
    from flexdoctor.chain import Check
    from flexdoctor.pages import Entry, Explained
    from flexdoctor.reports.rendering import Page
    from flexdoctor.text import Language


def explain(
    context: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CODE|LINK]...",
            help="FD213, triton_install, FD2. Default: list every code.",
            autocompletion=completion.codes_and_links,
        ),
    ] = None,
    error: Annotated[
        Path | None,
        typer.Option(
            "--error",
            metavar="FILE",
            help="A traceback or a whole log, - for stdin, .gz too: which link, how sure, what next.",
        ),
    ] = None,
    format_: Annotated[
        options.ExplainFormat, typer.Option("--format", "-f", metavar="FORMAT", help="text, json or markdown.")
    ] = options.ExplainFormat.text,
    output: options.OutputOption = None,
    lang: options.LangOption = None,
    color: Annotated[options.Color, typer.Option("--color", help="NO_COLOR and FORCE_COLOR count too.")] = (
        options.Color.auto
    ),
) -> None:
    """Explain a code: what it means, why it happens, how to confirm it, what mends it, what that costs, how to undo it.

    Without a code, list them all; as Markdown, a reference of all.

    Exit codes: 0 explained, 2 there is no such code. With --error: 0 no error in it, 1 an error that is known, 3 an
    error that is not known or a file that cannot be read.
    """
    page = _page(format_, output, lang, color)
    if error is not None:
        if what:
            text = Text("--error stands without a code, found {word}", "--error 不能与代码同用，却给出了 {word}")
            raise StopError(text.format(word=what[0]), 2)
        from flexdoctor.commands.explain_error import explain_error  # noqa: PLC0415

        explained, exit_code = explain_error(error, format_, page)
        write(explained, output)
        raise typer.Exit(exit_code)
    if not what:
        write(list_codes(format_, page), output)
        return
    write(explain_codes(what, format_, page, _links(context, what)), output)


def _links(context: typer.Context, what: Sequence[str]) -> tuple[Check, ...]:
    """Return the links that `what` may be about: with those of plugins, unless it is all of our own."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415

    own = tuple(link.link for link in CHAIN)
    words = [part.strip() for value in what for part in value.split(",")]
    if all(word.upper().startswith("FD") or word.lower().replace("-", "_") in own for word in words):
        return CHAIN
    return extend_chain(settle(context, None, no_config=False), CHAIN, None)


def explain_codes(
    what: Sequence[str], format_: options.ExplainFormat, page: Page, links: Sequence[Check] | None = None
) -> str:
    """Return the pages of the codes that `what` names; `links` when not those of the chain alone."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415 - `--help` needs none of this
    from flexdoctor.pages import entries  # noqa: PLC0415

    explained = gather(_chosen(what, entries(CHAIN if links is None else links)))
    if format_ is options.ExplainFormat.json:
        from flexdoctor.reports.explain_json import render_json  # noqa: PLC0415

        return render_json(explained, page)
    if format_ is options.ExplainFormat.markdown:
        from flexdoctor.reports.explain_markdown import render as render_markdown  # noqa: PLC0415

        return render_markdown(explained, page)
    from flexdoctor.reports.explain_text import render as render_text  # noqa: PLC0415

    return render_text(explained, page)


def list_codes(format_: options.ExplainFormat, page: Page) -> str:
    """Return a list of every code; as JSON all that is known of them, as Markdown the reference."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415
    from flexdoctor.pages import entries  # noqa: PLC0415

    if format_ is options.ExplainFormat.json:
        from flexdoctor.reports.explain_json import render_json  # noqa: PLC0415

        return render_json(gather(entries(CHAIN)), page)
    if format_ is options.ExplainFormat.markdown:
        from flexdoctor.reports.explain_markdown import render_reference  # noqa: PLC0415

        return render_reference(gather(entries(CHAIN)), page)
    from flexdoctor.reports.explain_text import render_list  # noqa: PLC0415

    return render_list(entries(CHAIN), page)


def gather(chosen: Sequence[Entry]) -> list[Explained]:
    """Put together what is known of each code: its page, the errors that stand for it, the fixes that mend it."""
    from flexdoctor.fixes import FIXES  # noqa: PLC0415
    from flexdoctor.knowledge.signatures import signatures  # noqa: PLC0415
    from flexdoctor.pages import Explained, PageError, page_of  # noqa: PLC0415

    try:
        return [
            Explained(
                entry,
                page_of(entry),
                tuple(item for item in signatures() if entry.code in item.codes),
                tuple(fix for fix in FIXES if entry.code in fix.opens),
            )
            for entry in chosen
        ]
    except PageError as error:
        raise StopError(error.message, 3) from error


def _chosen(what: Sequence[str], known: Sequence[Entry]) -> list[Entry]:
    """Return the entries that codes, code prefixes and names of links stand for, each once, in the order asked for."""
    import difflib  # noqa: PLC0415

    links = dict.fromkeys(entry.link for entry in known)
    chosen: dict[str, Entry] = {}
    for word in (part.strip() for value in what for part in value.split(",") if part.strip()):
        link, code = word.lower().replace("-", "_"), word.upper()
        found = [entry for entry in known if link == entry.link or (len(code) > 1 and entry.code.startswith(code))]
        if not found:
            names = [*(entry.code for entry in known), *links]
            near = difflib.get_close_matches(code, names, n=1, cutoff=0.5)
            near = near or difflib.get_close_matches(link, names, n=1, cutoff=0.5)
            hint = (
                Text("did you mean {near}?", "是否想输入 {near}？").format(near=near[0])
                if near
                else Text("`flexdoctor explain` lists them all", "全部代码见 `flexdoctor explain`")
            )
            message = Text("there is no code and no link {word};", "没有名为 {word} 的代码或环节；").format(word=word)
            raise StopError(message + hint, 2)
        chosen |= {entry.code: entry for entry in found}
    if not chosen:
        raise StopError(
            Text(
                "expected a code like FD213 or a link; `flexdoctor explain` lists them all",
                "应给出 FD213 这样的代码或环节名称；全部代码见 `flexdoctor explain`",
            ),
            2,
        )
    return list(chosen.values())


def _page(format_: options.ExplainFormat, output: Path | None, lang: options.Lang | None, color: options.Color) -> Page:
    """Return what is written on: stdout as it is, or a file."""
    from flexdoctor import console  # noqa: PLC0415
    from flexdoctor.reports.rendering import Page  # noqa: PLC0415

    wanted: Language | None = lang.value if lang else None
    if format_ is options.ExplainFormat.json:
        return Page(language=wanted or "en")
    return Page(
        language=console.choose_language(wanted, sys.stdout),
        terminal=output is None and console.is_terminal(sys.stdout),
        width=console.width(),
        colour=output is None and console.wants_colour(sys.stdout, color.value),
    )
