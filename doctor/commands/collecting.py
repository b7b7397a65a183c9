"""What `check --collect` does around a check: the trace before it, the node's report after it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flexdoctor.commands.running import StopError
from flexdoctor.text import Text

if TYPE_CHECKING:
    from flexdoctor.collecting import Collection
    from flexdoctor.commands import options
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Report

_WRITTEN = {
    "healthy": Text("healthy, written to {path}", "正常，报告已写入 {path}"),
    "broken": Text("broken, written to {path}", "有故障，报告已写入 {path}"),
    "waived": Text("its faults are waived, written to {path}", "故障均已豁免，报告已写入 {path}"),
    "unknown": Text("could not tell, written to {path}", "无法判断，报告已写入 {path}"),
}


def begin(folder: Path | None, *, every_rank: bool) -> Collection | None:
    """Leave the trace of a start in `folder`; end here where another process of this node reports."""
    if folder is None:
        if every_rank:
            raise StopError(
                Text("--collect-ranks goes with --collect DIR", "--collect-ranks 须与 --collect DIR 同用"), 2
            )
        return None
    from flexdoctor import collecting  # noqa: PLC0415
    from flexdoctor.readers.launcher import read_identity  # noqa: PLC0415

    try:
        collection = collecting.start(folder, read_identity(), every_rank=every_rank)
    except collecting.CollectError as error:
        raise StopError(error.message, 3) from error
    if collection is None:
        raise typer.Exit(0)
    return collection


@contextlib.contextmanager
def reporting(collection: Collection | None) -> Iterator[None]:
    """Report that this node could not be examined when the run ends here, so that it is not taken for one that died."""
    try:
        yield
    except StopError as stop:
        if collection is not None:
            _deliver_error(collection, stop)
        raise


def _deliver_error(collection: Collection, stop: StopError) -> None:
    from flexdoctor.reports.document import error_document  # noqa: PLC0415

    # The line on the terminal may name a home folder; a report does not.
    home = os.path.expanduser("~")  # noqa: PTH111 - a user without a home has no error
    message = stop.message.en.replace(home, "~") if home not in ("~", "/") else stop.message.en
    _finish(collection, error_document(message, stop.exit_code))


def deliver(collection: Collection, report: Report, facts: Facts, lang: options.Lang | None) -> None:
    """Write the node's report: the JSON document with its sentences in both languages, and who the node is."""
    from flexdoctor.console import choose_language  # noqa: PLC0415
    from flexdoctor.reports.document import node_document  # noqa: PLC0415

    path = _finish(collection, node_document(report, facts))
    said = _WRITTEN[report.verdict].format(path=path)
    typer.echo(f"flexdoctor: {said.to(choose_language(lang.value if lang else None, sys.stderr))}", err=True)


def _finish(collection: Collection, document: dict[str, Any]) -> Path:
    from flexdoctor.collecting import CollectError  # noqa: PLC0415

    try:
        return collection.finish(document)
    except CollectError as error:
        raise StopError(error.message, 3) from error
