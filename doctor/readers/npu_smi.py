"""`npu-smi info`: run as a bounded child, and read by the words of its headers, never by columns."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Mapping

from flexdoctor.facts import NpuChip, NpuSmiFacts
from flexdoctor.readers.trees import fold_home

#: A busy node answers late: two seconds are known to be too few.
TIME_LIMIT = 10.0
PLACES = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi")
_SHOWN_LINES = 4
_SHOWN_LENGTH = 200


def find_npu_smi(variables: Mapping[str, str]) -> str | None:
    """Return the program: where the driver puts it, else what PATH finds."""
    known = next((place for place in PLACES if os.access(place, os.X_OK)), None)
    return known or shutil.which("npu-smi", path=variables.get("PATH", ""))


def ask_npu_smi(program: str | None, limit: float, variables: Mapping[str, str]) -> NpuSmiFacts:
    """Run `npu-smi info` for at most `limit` seconds and return what it said and how it ended."""
    from flexdoctor.readers.bounded import run_bounded  # noqa: PLC0415 - only where there is a device

    if program is None:
        return NpuSmiFacts("absent")
    outcome = run_bounded([program, "info"], seconds=limit, environment=variables)
    text = outcome.output.decode("utf-8", errors="replace")
    command = f"{fold_home(program)} info"
    code = re.search(r"ret is (-\d+)", text)
    facts = NpuSmiFacts(
        outcome="answered",
        command=command,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        limit=limit,
        code=int(code[1]) if code else None,
        lines=_first_lines(text),
    )
    if outcome.ended == "exited":
        driver, chips = parse_table(text)
        answered = bool(chips) or (outcome.exit_code == 0 and code is None and driver is not None)
        return _replace(facts, "answered" if answered else "failed", driver_version=driver, chips=chips)
    if outcome.ended == "not started":
        return _replace(facts, "not started", lines=(outcome.error,))
    return _replace(facts, outcome.ended)


def _replace(facts: NpuSmiFacts, outcome: str, **changes: object) -> NpuSmiFacts:
    return dataclasses.replace(facts, outcome=outcome, **changes)  # type: ignore[arg-type]


def _first_lines(text: str) -> tuple[str, ...]:
    """Return the first lines that say something, without control characters and borders."""
    lines = []
    for line in text.splitlines():
        clean = "".join(char for char in line if char.isprintable()).strip()
        if clean and not re.fullmatch(r"[+\-=|\s]+", clean):
            lines.append(clean[:_SHOWN_LENGTH])
        if len(lines) == _SHOWN_LINES:
            break
    return tuple(lines)


def parse_table(text: str) -> tuple[str | None, tuple[NpuChip, ...]]:
    """Return the driver version of the title and the chips of the table, in any of its four layouts.

    Two rows stand for one chip. The layouts differ in where the name stands (beside the id, or behind a bar of its
    own on A5) and in what the second row adds; the header's words tell, widths drift from release to release.
    """
    title = re.search(r"npu-smi\s+\S+\s+Version:\s*(\S+)", text)
    driver = title[1] if title else None
    own_column = re.search(r"NPU ID\s*\|\s*Name\s*\|\s*Health", text) is not None
    chips: list[NpuChip] = []
    first: tuple[str, str, str] | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 3 or "Process id" in line:
            if "Process id" in line:
                break
            continue
        if first is None:
            first = _first_row(cells, own_column)
            continue
        bus_cell = cells[2] if own_column and len(cells) > 3 else cells[1]
        npu, name, health = first
        chips.append(NpuChip(npu, name, health, bus_cell or None, cells[0] or None))
        first = None
    return driver, tuple(chips)


def _first_row(cells: list[str], own_column: bool) -> tuple[str, str, str] | None:
    if own_column:
        return (cells[0], cells[1], cells[2]) if cells[0].isdigit() else None
    match = re.fullmatch(r"(\d+)\s+(\S.*)", cells[0])
    return (match[1], match[2].strip(), cells[1]) if match else None
