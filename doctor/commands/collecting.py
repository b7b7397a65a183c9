"""What `check --collect` does around a check: the trace before it, the node's report after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flexdoctor.commands.running import StopError

if TYPE_CHECKING:
    from flexdoctor.collecting import Collection
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Report


def begin(folder: Path | None, *, every_rank: bool) -> Collection | None:
    """Leave the trace of a start in `folder`; end here where another process of this node reports."""
    if folder is None:
        if every_rank:
            raise StopError("--collect-ranks goes with --collect", 2)
        return None
    from flexdoctor import collecting  # noqa: PLC0415
    from flexdoctor.readers.launcher import read_identity  # noqa: PLC0415

    try:
        collection = collecting.start(folder, read_identity(), every_rank=every_rank)
    except collecting.CollectError as error:
        raise StopError(str(error), 3) from error
    if collection is None:
        raise typer.Exit(0)
    return collection


def deliver_error(collection: Collection | None, stop: StopError) -> None:
    """Report that this node could not be examined, so that it is not taken for one that died."""
    if collection is None:
        return
    from flexdoctor.reports.document import error_document  # noqa: PLC0415

    _finish(collection, error_document(str(stop), stop.exit_code))


def deliver(collection: Collection, report: Report, facts: Facts) -> None:
    """Write the node's report: the JSON document with its sentences in both languages, and who the node is."""
    from flexdoctor.reports.document import node_document  # noqa: PLC0415

    path = _finish(collection, node_document(report, facts))
    typer.echo(f"flexdoctor: {report.verdict}, written to {path}", err=True)


def _finish(collection: Collection, document: dict[str, Any]) -> Path:
    from flexdoctor.collecting import CollectError  # noqa: PLC0415

    try:
        return collection.finish(document)
    except CollectError as error:
        raise StopError(str(error), 3) from error
