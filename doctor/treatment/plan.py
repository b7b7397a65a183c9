"""What a treatment would do: steps in order, what remains for a person, and what will work afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from flexdoctor.facts import Facts
from flexdoctor.findings import Availability, Capability, CapabilityAnswer, Report
from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import stacks
from flexdoctor.text import NOTHING, Text, UserError

if TYPE_CHECKING:
    from flexdoctor.knowledge.stacks import Stack

StepKind = Literal["install", "uninstall", "remove", "patch", "manual"]


class TreatmentError(UserError):
    """A treatment cannot start or go on."""

    def __init__(self, message: Text, exit_code: int = 3) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class SourcePatch:
    """Lines of one file, changed only where the whole file is the one that the patch was written for."""

    sha256: str
    line: int
    find: str
    replace: str
    #: What a person is shown: a unified diff, or the line alone where the file is not installed yet.
    diff: str
    #: More lines of that file in which the same is replaced.
    also: tuple[int, ...] = ()


@dataclass(frozen=True)
class Step:
    """One step. Which fields are filled depends on `kind`."""

    kind: StepKind
    fix: str
    title: Text
    #: The codes of the faults that this step mends.
    opens: tuple[str, ...] = ()
    #: install, uninstall: the distribution, its pin, and the version that is there now.
    distribution: str = ""
    version: str = ""
    before: str = ""
    #: install: what is asked for where no pin is known; it is pinned before anything is changed.
    requirement: str = ""
    #: install: the extra index that this one distribution needs.
    index: str = ""
    #: remove, patch: where; home folded.
    path: str = ""
    patch: SourcePatch | None = None
    #: What a person would type to do the same by hand; for a manual step, what there is to do.
    command: Text = NOTHING
    #: Which files it touches, and anything else that should be known before saying yes.
    touches: Text = NOTHING
    note: Text = NOTHING

    @property
    def reversible(self) -> bool:
        """Whether undo takes it back: everything but what a person does."""
        return self.kind != "manual"


@dataclass(frozen=True)
class Plan:
    """The whole treatment of one environment."""

    steps: tuple[Step, ...] = ()
    manual: tuple[Step, ...] = ()
    #: The set of knowledge/stacks.toml that the steps lead to, and the names of the others that would fit.
    stack: str | None = None
    #: Whose set it is, when it is a company's own.
    stack_owner: str = ""
    stack_note: str = ""
    stack_cann: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    expected: dict[Capability, Availability] = field(default_factory=dict)
    #: Whether `expected` is about another machine, because this one has no CANN or no device.
    elsewhere: bool = False
    #: Why nothing, or not all, can be mended by any step.
    hopeless: Text = NOTHING
    warnings: tuple[Text, ...] = ()
    #: Codes that will be there afterwards, as the plan says.
    remaining: tuple[str, ...] = ()
    #: How many installed distributions no step names.
    untouched: int = 0

    @property
    def opens(self) -> tuple[str, ...]:
        """Every code that the steps are meant to mend."""
        return tuple(dict.fromkeys(code for step in self.steps for code in step.opens))

    @property
    def names(self) -> tuple[str, ...]:
        """Every distribution that a step installs or uninstalls."""
        return tuple(dict.fromkeys(step.distribution for step in self.steps if step.distribution))


def answer_of_packages(report: Report, capability: Capability) -> CapabilityAnswer:
    """Return what a report says of a capability, the absence of CANN and devices aside: no step can give those."""
    for item in report.findings:
        if item.status in ("fail", "warn") and not item.machine_only and capability in item.affects:
            return CapabilityAnswer("no", item.code)
    for item in report.findings:
        if item.status in ("blocked", "unknown", "crashed"):
            return CapabilityAnswer("unknown", item.code or item.blocked_by)
    return CapabilityAnswer("yes")


@dataclass(frozen=True)
class Situation:
    """What a remedy may know: the facts, the faults to mend, and the set of packages that they should end in."""

    facts: Facts
    report: Report
    codes: frozenset[str]
    target: Stack | None
    companions: dict[str, str]
    #: The index of torch's CPU builds.
    cpu_index: str = ""
    #: Whether the user named the target.
    chosen: bool = False

    def index_of(self, name: str, version: str = "") -> str:
        """Return the extra index that a distribution of the target needs.

        Args:
            version: when it may be another than that of the target: a company's index is for what its set pins alone.
        """
        target = self.target
        if target and target.owner and version and not stacks.same_version(version, target.pin(name)):
            target = next((item for item in stacks.shipped() if item.pin(name) == version), None)
        if target and name in target.indexes:
            return target.indexes[name]
        # The default index has only CUDA builds of torch for x86_64.
        return self.cpu_index if name == "torch" and self.facts.interpreter.architecture == "x86_64" else ""

    def has(self, *codes: str) -> tuple[str, ...]:
        """Return those of `codes` that are to be mended."""
        return tuple(code for code in codes if code in self.codes)

    def installed(self, name: str) -> str:
        """Return the version of an installed distribution, empty when it is absent."""
        dist = self.facts.packages.find(name)
        return dist.version if dist else ""

    @property
    def python(self) -> str:
        """The interpreter, as a person would type it."""
        return self.facts.interpreter.executable or "python"


@dataclass(frozen=True)
class Fix:
    """A remedy: the faults that it can mend, and the steps that it takes. One module of flexdoctor.fixes each."""

    name: str
    title: Text
    opens: tuple[str, ...]
    propose: Callable[[Situation], Iterator[Step]]


def install_step(
    situation: Situation,
    fix: str,
    name: str,
    version: str,
    *,
    opens: tuple[str, ...] = (),
    index: str = "",
    requirement: str = "",
    note: Text = NOTHING,
) -> Step:
    """Return the step that installs one distribution at its pin, or at the one that `requirement` resolves to."""
    before = situation.installed(name)
    again = bool(before) and before == version
    verb = Text("reinstall", "重装") if again else Text("install", "安装")
    shown = requirement or f"{name}=={version}"
    title = f"{verb.en} {shown}", f"{verb.zh} {shown}"
    if before and not again:
        title = f"{title[0]} (now {before})", f"{title[1]}（当前 {before}）"
    options = " --force-reinstall" if again else ""
    option = "--index-url" if index in stacks.company_indexes() else "--extra-index-url"
    extra = f" {option} {shlex.quote(index)}" if index else ""
    command = f"{situation.python} -m pip install --no-deps{options} {shlex.quote(shown)}{extra}"
    return Step(
        kind="install",
        fix=fix,
        title=Text(*title),
        opens=opens,
        distribution=name,
        version=version,
        before=before,
        index=index,
        requirement=requirement,
        command=Text(command, command),
        touches=_files_of(situation, name),
        note=note,
    )


def uninstall_step(situation: Situation, fix: str, name: str, *, opens: tuple[str, ...] = ()) -> Step:
    """Return the step that uninstalls one distribution."""
    before = situation.installed(name)
    command = f"{situation.python} -m pip uninstall -y {name}"
    return Step(
        kind="uninstall",
        fix=fix,
        title=Text(f"uninstall {name} {before}", f"卸载 {name} {before}"),
        opens=opens,
        distribution=name,
        before=before,
        command=Text(command, command),
        touches=_files_of(situation, name),
    )


def _files_of(situation: Situation, name: str) -> Text:
    dist = situation.facts.packages.find(name)
    if dist is None:
        return Text("the files of its wheel, all new", "其 wheel 中的文件，均为新增")
    folder = dist.metadata_path.rpartition("/")[0]
    return Text("the files that its RECORD lists in {folder}", "{folder} 中由其 RECORD 列出的文件").format(
        folder=folder
    )
