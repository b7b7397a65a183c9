"""The process in which the checks of one plugin live: it describes them, then judges facts, as one line of JSON each.

It has a socket of its own to its parent. What a plugin prints goes to stdout and stderr, and the parent shows it as
such.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import socket
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flexdoctor.chain import Check
from flexdoctor.facts import Facts
from flexdoctor.serialise import from_json, to_json

#: More than any check needs, less than a machine has: what asks for more gets a MemoryError of its own.
_MEMORY = 4 * 1024**3


class PluginError(Exception):
    """The plugin is there, but it is not made as a plugin must be."""


def main(handle: int, value: str) -> None:
    """Serve the checks of the entry point `value` on the socket `handle` until the parent closes it."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=handle) as channel, channel.makefile("rwb") as stream:
        checks: dict[str, Check] = {}

        def answer(request: Mapping[str, Any]) -> Any:
            if request["do"] == "describe":
                checks.update((check.link, check) for check in checks_of(load(value)))
                return [describe(check) for check in checks.values()]
            facts = from_json(Facts, request["facts"], "facts")
            return [to_json(finding) for finding in checks[request["link"]].examine(facts)]

        for line in stream:
            stream.write(json.dumps(_reply(answer, json.loads(line))).encode() + b"\n")
            stream.flush()


def _reply(answer: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        result = answer(request)
        json.dumps(result)
    except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is told to the parent, SystemExit too
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent != Path(__file__).parent]
        place = (own or frames)[-1]
        said = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        return {"error": said, "path": place.filename, "line": place.lineno, "text": place.line or ""}
    finally:
        for printed in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                printed.flush()
    return {"result": result}


def load(value: str) -> object:
    """Return what an entry point names: `module:attribute`."""
    module, _, attribute = value.partition("[")[0].strip().partition(":")
    found: object = importlib.import_module(module.strip())
    for name in filter(None, attribute.strip().split(".")):
        found = getattr(found, name)
    return found


def checks_of(found: object) -> tuple[Check, ...]:
    """Return the checks that an entry point gives: one, several, or a callable that returns them.

    Raises:
        PluginError: it gives something else.
    """
    if callable(found) and not isinstance(found, Check):
        found = found()
    checks = (found,) if isinstance(found, Check) else tuple(found) if isinstance(found, Iterable) else (found,)
    if not checks:
        raise PluginError("expected a flexdoctor.chain.Check or several, found none")
    for check in checks:
        if not isinstance(check, Check):
            raise PluginError(f"expected a flexdoctor.chain.Check or several, found {type(check).__name__}")
        if check.weigh is not None:
            raise PluginError(f"{check.link}: `weigh` is for flexdoctor's own links; use `examine`")
    links = [check.link for check in checks]
    if twice := next((link for link in links if links.count(link) > 1), None):
        raise PluginError(f"it brings the link {twice} twice")
    return checks


def describe(check: Check) -> dict[str, Any]:
    """Return what the parent needs to know of a check."""
    return {
        "link": check.link,
        "title": to_json(check.title),
        "question": to_json(check.question),
        "faults": [to_json(fault) for fault in check.faults],
        "requires": list(check.requires),
        "after": check.after,
        "pages": os.fspath(check.pages) if isinstance(check.pages, os.PathLike) else None,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
