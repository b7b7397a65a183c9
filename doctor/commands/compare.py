"""`flexdoctor compare`: what differs between nodes, and which of it is a fault."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flexdoctor.commands import options
from flexdoctor.commands.help import OUTPUT
from flexdoctor.commands.running import StopError, write
from flexdoctor.reports.compare_rendering import CompareFormat, render
from flexdoctor.text import Text, unreadable

if TYPE_CHECKING:
    from flexdoctor.comparing import Expectation
    from flexdoctor.nodes import NodeReport, NodeSnapshot, Unusable
    from flexdoctor.readers.node_reports import Item
    from flexdoctor.reports.rendering import Detail, Page
    from flexdoctor.text import Language


class CompareFailOn(str, Enum):
    """From which kind of difference on the exit code is 1."""

    error = "error"
    drift = "drift"
    warning = "warning"
    any = "any"


def compare(
    reports: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR|FILE...",
            help="A folder that `check --collect` filled, or reports and snapshots.",
            show_default=False,
        ),
    ],
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="N", min=1, help="How many nodes there should be.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", metavar="FILE|LIST", help="Which: a host file, or node[01-16],login1."),
    ] = None,
    format_: Annotated[
        CompareFormat,
        typer.Option("--format", "-f", metavar="FORMAT", help="text, json, markdown, junit or html."),
    ] = CompareFormat.text,
    output: options.OutputOption = None,
    fail_on: Annotated[
        CompareFailOn,
        typer.Option(
            "--fail-on",
            metavar="LEVEL",
            help="Exit with 1 from error, drift (assumed), warning or any on. error: broken, missing or unfinished "
            "nodes. drift: also where something differs that flex_attention depends on. warning: also warnings. "
            "any: also any other difference.",
        ),
    ] = CompareFailOn.drift,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 when a file is no report or something is unknown.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every group, difference and name.")] = False,
    lang: options.LangOption = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="ID",
            help="Only this run of a job; all: take all runs as one job.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.", rich_help_panel=OUTPUT)
    ] = False,
    color: Annotated[
        options.Color, typer.Option("--color", help="NO_COLOR and FORCE_COLOR count too.", rich_help_panel=OUTPUT)
    ] = options.Color.auto,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Say which nodes are alike, what differs between the others, and which difference is a fault.

    With two reports, one of a node that works and one of a node that does not, the difference that matters is on
    top. With a folder, nodes that are missing or never finished are named too.

    Exit codes: 0 alike and healthy, 1 not so (--fail-on), 2 usage, 3 could not complete.
    """
    from flexdoctor.comparing import Gathering  # noqa: PLC0415 - `--help` needs none of this
    from flexdoctor.comparison import exit_code  # noqa: PLC0415
    from flexdoctor.nodes import NodeSnapshot, StartedTrace, Unusable  # noqa: PLC0415

    expectation = _expectation(expect, hosts)
    gathering = Gathering(run=run)
    for item in _items(reports):
        found = _diagnosed(item) if isinstance(item, NodeSnapshot) else item
        if isinstance(found, Unusable):
            gathering.add_unusable(found)
        elif isinstance(found, StartedTrace):
            gathering.add_trace(found)
        else:
            gathering.add(found)
    comparison = gathering.compare(expectation, whole_job=any(path.is_dir() for path in reports))
    detail: Detail = "quiet" if quiet else "verbose" if verbose else "normal"
    write(render(format_, comparison, _page(format_, output, lang, color, detail)), output)
    raise typer.Exit(0 if exit_zero else exit_code(comparison, fail_on=fail_on.value, strict=strict))


def _expectation(expect: int | None, hosts: str | None) -> Expectation:
    from flexdoctor import hostlists  # noqa: PLC0415
    from flexdoctor.comparing import Expectation  # noqa: PLC0415

    if hosts is None:
        return Expectation(expect, by="--expect") if expect else Expectation()
    path = Path(hosts)
    try:
        # A list may be longer than a file name can be; Path.is_file() raises then.
        is_file = os.path.isfile(hosts)  # noqa: PTH113
        text = path.read_text(encoding="utf-8-sig") if is_file else hosts
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        message = Text("--hosts: {hosts} cannot be read: {why}", "--hosts：无法读取 {hosts}：{why}")
        raise StopError(message.format(hosts=hosts, why=why), 2) from error
    try:
        named = hostlists.parse_file(text) if is_file else hostlists.expand(text)
    except hostlists.HostListError as error:
        raise StopError(Text(f"--hosts: {error.message.en}", f"--hosts：{error.message.zh}"), 2) from error
    if not named:
        raise StopError(
            Text("--hosts: {hosts} names no host", "--hosts：{hosts} 未列出任何主机").format(hosts=hosts), 2
        )
    if not is_file and any("/" in name for name in named):
        message = Text(
            "--hosts: there is no file {hosts}; expected one, or names like node[01-16],login1",
            "--hosts：没有文件 {hosts}；应为文件，或 node[01-16],login1 这样的名称",
        )
        raise StopError(message.format(hosts=hosts), 2)
    if expect is not None and expect != len(named):
        message = Text("--expect {expect}: --hosts names {count}", "--expect {expect}：--hosts 列出了 {count} 台")
        raise StopError(message.format(expect=expect, count=len(named)), 2)
    return Expectation(hosts=tuple(named), by="--hosts")


def _items(paths: list[Path]) -> Iterator[Item]:
    from flexdoctor.readers.node_reports import ReportReader  # noqa: PLC0415

    reader = ReportReader()
    for path in paths:
        if path.is_dir():
            try:
                yield from reader.read_folder(path)
            except OSError as error:
                raise StopError(unreadable(path, error), 3) from error
        elif not path.exists():
            message = Text(
                "there is no {path}; expected a folder of reports, or reports",
                "没有 {path}；应为报告所在目录，或报告文件",
            )
            raise StopError(message.format(path=path), 2)
        else:
            yield reader.read_file(str(path))


def _diagnosed(snapshot: NodeSnapshot) -> NodeReport | Unusable:
    """Turn the facts of a snapshot into the report that `check` would have written there."""
    from flexdoctor import chain, snapshots  # noqa: PLC0415 - only snapshots need checks
    from flexdoctor.checks import CHAIN  # noqa: PLC0415
    from flexdoctor.nodes import NodeReport, Unusable  # noqa: PLC0415
    from flexdoctor.reports.document import node_document  # noqa: PLC0415

    try:
        facts = snapshots.parse(snapshot.text, snapshot.path)
    except snapshots.SnapshotError as error:
        return Unusable(snapshot.path, "malformed", error.message.en)
    return NodeReport(snapshot.path, node_document(chain.diagnose(facts, CHAIN), facts))


def _page(
    format_: CompareFormat, output: Path | None, lang: options.Lang | None, color: options.Color, detail: Detail
) -> Page:
    from flexdoctor import console  # noqa: PLC0415
    from flexdoctor.reports.rendering import Page  # noqa: PLC0415

    wanted: Language | None = lang.value if lang else None
    if not format_.is_for_people:
        return Page(language=wanted or "en", detail=detail)
    return Page(
        language=console.choose_language(wanted, sys.stdout),
        detail=detail,
        terminal=output is None and console.is_terminal(sys.stdout),
        width=console.width(),
        colour=output is None and console.wants_colour(sys.stdout, color.value),
    )
