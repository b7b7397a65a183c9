"""One verdict, many renderings: what every format starts from, and how it is found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol, cast

from flexdoctor.text import Language

if TYPE_CHECKING:
    from flexdoctor.chain import Check
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Report
    from flexdoctor.treatment.plan import Fix, Plan

Detail = Literal["quiet", "normal", "verbose"]


class Format(str, Enum):
    """How a report is written. Each is one module of `flexdoctor.reports` with a function `render`."""

    text = "text"
    json = "json"
    html = "html"

    @property
    def is_for_people(self) -> bool:
        """Whether it speaks the language of the locale; what machines read is English unless asked otherwise."""
        return self.value in ("text", "markdown", "html")


@dataclass(frozen=True)
class Diagnosis:
    """A report and what it was made of."""

    report: Report
    facts: Facts
    chain: Sequence[Check]
    #: What `flexdoctor fix` would do; None where nothing can be done.
    plan: Plan | None = None
    fixes: Sequence[Fix] = ()


@dataclass(frozen=True)
class Page:
    """What a report is written on, and how much of it. `width` is in columns."""

    language: Language = "en"
    detail: Detail = "normal"
    terminal: bool = False
    width: int = 80
    colour: bool = False


class _Renderer(Protocol):
    def render(self, diagnosis: Diagnosis, page: Page) -> str: ...


def render(format_: Format, diagnosis: Diagnosis, page: Page) -> str:
    """Return `diagnosis` in `format_`; only that format is imported."""
    module = cast("_Renderer", importlib.import_module(f"flexdoctor.reports.{format_.value}"))
    return module.render(diagnosis, page)
