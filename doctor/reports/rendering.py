"""One verdict, many renderings: what every format starts from, and how it is found by its name."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol, cast

from flexdoctor.findings import exit_code
from flexdoctor.frozen import dataclass
from flexdoctor.text import Language

if TYPE_CHECKING:
    from flexdoctor.chain import Check
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Finding, Report, Severity
    from flexdoctor.treatment.plan import Fix, Plan

Detail = Literal["quiet", "normal", "verbose"]


class Format(str, Enum):
    """How a report is written. Each is one module of `flexdoctor.reports` with a function `render`."""

    text = "text"
    json = "json"
    jsonl = "jsonl"
    sarif = "sarif"
    junit = "junit"
    github = "github"
    markdown = "markdown"
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
    #: What the exit code follows.
    fail_on: Severity = "error"
    strict: bool = False
    exit_zero: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code of the run, the same for every format."""
        return exit_code(self.report, fail_on=self.fail_on, strict=self.strict, exit_zero=self.exit_zero)

    def counts(self, finding: Finding) -> bool:
        """Whether this finding alone keeps the exit code from being 0 (`--exit-zero` changes no finding)."""
        alone = dataclasses.replace(self.report, findings=(finding,))
        return exit_code(alone, fail_on=self.fail_on, strict=self.strict) != 0

    #: The file whose settings were used, as a person reads it; and that of the same folder which was not.
    configuration: str | None = None
    not_read: str | None = None


@dataclass(frozen=True)
class Page:
    """What a report is written on, and how much of it. `width` is in columns."""

    language: Language = "en"
    detail: Detail = "normal"
    terminal: bool = False
    width: int = 80
    colour: bool = False
    #: The folder that files are named relative to where a reader opens them there: the checkout of a CI run.
    base: Path | None = None


class _Renderer(Protocol):
    def render(self, diagnosis: Diagnosis, page: Page) -> str: ...


def render(format_: Format, diagnosis: Diagnosis, page: Page) -> str:
    """Return `diagnosis` in `format_`; only that format is imported."""
    return cast("_Renderer", _module(format_)).render(diagnosis, page)


def render_error(format_: Format, message: str, exit_code: int) -> str:
    """Return what a run prints that could not diagnose anything, well-formed as `format_` has to be.

    Nothing for a format that has no `render_error`: its readers see the line on stderr.
    """
    of_format = getattr(_module(format_), "render_error", None)
    return of_format(message, exit_code) if of_format else ""


def _module(format_: Format) -> ModuleType:
    return importlib.import_module(f"flexdoctor.reports.{format_.value}")
