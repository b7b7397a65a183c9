"""Which process of which node this is, by the variables of its launcher."""

from __future__ import annotations

import functools
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flexdoctor.knowledge import load_table
from flexdoctor.nodes import NodeIdentity

_UNNAMED = "unnamed-host"


@dataclass(frozen=True)
class Launcher:
    """One row of knowledge/launchers.toml: for each thing to know, the variables that tell it."""

    name: str
    detect: tuple[str, ...]
    source: str
    date: Any
    rank: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    node_names: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    run_default: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    #: It starts one process for each rank that it counts: a rank alone is a node of its own.
    one_a_node: bool = False


@functools.cache
def launchers() -> tuple[Launcher, ...]:
    """Return the known launchers, the innermost first."""

    def row(data: dict[str, Any]) -> Launcher:
        values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in data.items()}
        return Launcher(**values)

    return tuple(row(data) for data in load_table("launchers")["launcher"])


def read_identity(variables: Mapping[str, str] | None = None, host_name: str | None = None) -> NodeIdentity:
    """Return who this process is; without any launcher only the host is known."""
    variables = os.environ if variables is None else variables
    present = [row for row in launchers() if any(variables.get(name) for name in row.detect)]
    host = next((name for row in present if (name := _text(variables, row.host))), None)
    host = host or (socket.gethostname() if host_name is None else host_name) or _UNNAMED
    if not present:
        return NodeIdentity(host)
    row = present[0]
    rank = _number(variables, row.rank)
    local_rank = _number(variables, row.local_rank)
    if local_rank is None and row.one_a_node and rank is not None:
        local_rank = 0
    return NodeIdentity(
        host=host,
        rank=rank,
        local_rank=local_rank,
        index=_number(variables, row.index),
        launcher=row.name,
        run=_run(present, variables),
        nodes=_number(variables, row.nodes) or None,
        node_names=_text(variables, row.node_names),
    )


def _run(present: Sequence[Launcher], variables: Mapping[str, str]) -> str | None:
    """Return the identity of the run, from the innermost launcher that has one of its own."""
    for row in present:
        value = _text(variables, row.run)
        if value and value not in row.run_default:
            return f"{row.name} {value}"
    return None


def _text(variables: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := variables.get(name, "").strip())), None)


def _number(variables: Mapping[str, str], names: Sequence[str]) -> int | None:
    value = _text(variables, names)
    return int(value) if value and re.fullmatch(r"[0-9]{1,9}", value) else None
