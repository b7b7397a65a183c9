"""From a report to a plan: which faults a tool may mend, in which set of packages they end, and what remains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from packaging.markers import InvalidMarker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from flexdoctor.facts import Facts
from flexdoctor.findings import CAPABILITIES, Availability, Capability, Finding, Report
from flexdoctor.frozen import dataclass
from flexdoctor.knowledge.stacks import Stack, same_version
from flexdoctor.text import NOTHING, Text
from flexdoctor.treatment.plan import Fix, Plan, Situation, Step, TreatmentError

Fitting = Callable[[str | None, str | None, str | None], Sequence[Stack]]
#: torch first, because the others are built against it; triton-ascend last, because it must own the shared files.
_ORDER = {"torch": 2, "torch-npu": 3, "triton-ascend": 5}
#: The fault that a set with `early_import` keeps until the user's code, or a patch, opens the device check.
GATE_LATE = "FD202"
#: Faults after which nothing that is installed or patched can make compiled flex_attention run: the chip itself.
DEAD_ENDS = ("FD136",)
UNCHANGEABLE = Text("- and no step changes that.", "——任何步骤都无法改变这一点。")
OWN_BUILD = Text(
    "{names}: installed from a source folder of yours (editable), which no tool should replace",
    "{names}：由你的源码目录以可编辑方式安装，不应由工具替换",
)
_CHAIN = ("torch", "torch-npu", "triton-ascend")
_HUB = "hub_kernels"


@dataclass(frozen=True)
class Knowledge:
    """What is known of sets of packages: `fitting` answers for a Python, an architecture and a CANN, best first."""

    fitting: Fitting
    companions: dict[str, str]
    #: The index of torch's CPU builds.
    cpu_index: str = ""


def known() -> Knowledge:
    """Return the shipped knowledge."""
    from flexdoctor.knowledge import load_table, stacks  # noqa: PLC0415 - read only when something is planned

    return Knowledge(stacks.fitting, stacks.companions(), load_table("stacks")["index"]["pytorch-cpu"]["url"])


def make_plan(
    facts: Facts,
    report: Report,
    fixes: Sequence[Fix],
    knowledge: Knowledge,
    *,
    select: Iterable[str] = (),
    stack: str | None = None,
) -> Plan:
    """Return the smallest treatment that mends what a tool may mend.

    Args:
        select: codes or code prefixes to mend, warnings too; empty: every error.
        stack: the name of the set to end in; None: the one that changes least.

    Raises:
        TreatmentError: no set of that name fits.
    """
    wanted = _wanted(report, tuple(select))
    if not wanted:
        return Plan(expected=_as_found(report), untouched=len(facts.packages.distributions))
    if end := next((item for item in wanted if item.code in DEAD_ENDS), None):
        return _dead_end(facts, report, wanted, end.title + UNCHANGEABLE)
    codes = frozenset(codes_of(wanted))
    fitting = [item for item in _fitting(facts, knowledge) if report.required in item.capabilities]
    target = _choose(facts, fitting, stack)
    if stack and target is None:
        raise TreatmentError(
            Text(
                "there is no set {name} that fits here; there are {names}", "此处没有适用的组合 {name}；可选：{names}"
            ).format(name=stack, names=", ".join(item.name for item in fitting) or "-"),
            2,
        )
    situation = Situation(facts, report, codes, target, knowledge.companions, knowledge.cpu_index, chosen=bool(stack))
    steps = _merge(step for fix in fixes for step in fix.propose(situation))
    if own := [step.distribution for step in steps if _is_editable(facts, step.distribution)]:
        return _dead_end(facts, report, wanted, OWN_BUILD.format(names=", ".join(own)))
    opened = {code for step in steps for code in step.opens}
    left = [item for item in wanted if item.code not in opened]
    reached = target if target and steps and _reaches(facts, steps, target) else None
    manual = [_manual(item) for item in left]
    if late := _replaces_gate_late(facts, steps, reached):
        manual.append(late)
    # A set of packages is no remedy for a kernel from the Hub.
    of_sets = [item for item in left if item.link != _HUB]
    hopeless = _hopeless(facts, knowledge, of_sets, report.required) if not fitting else NOTHING
    return Plan(
        steps=tuple(steps),
        manual=tuple(manual),
        stack=reached.name if reached else None,
        stack_owner=reached.owner if reached else "",
        stack_note=reached.note if reached else "",
        stack_cann=reached.cann if reached else (),
        alternatives=tuple(item.name for item in fitting if item is not reached) if reached else (),
        expected=_expected(report, reached, steps, left, manual),
        elsewhere=any(item.machine_only for item in report.findings),
        remaining=tuple(dict.fromkeys(code for step in manual for code in step.opens)),
        hopeless=hopeless,
        warnings=tuple(_warnings(facts, steps)),
        untouched=sum(
            1 for item in facts.packages.distributions if item.name not in {step.distribution for step in steps}
        ),
    )


def _dead_end(facts: Facts, report: Report, wanted: Sequence[Finding], why: Text) -> Plan:
    return Plan(
        manual=tuple(_manual(item) for item in wanted),
        expected=_as_found(report),
        hopeless=why,
        remaining=tuple(codes_of(wanted)),
        untouched=len(facts.packages.distributions),
    )


def _is_editable(facts: Facts, name: str) -> bool:
    dist = facts.packages.find(name) if name else None
    return dist is not None and dist.is_editable


def codes_of(findings: Iterable[Finding]) -> list[str]:
    """Return the codes of findings, in order."""
    return [item.code for item in findings if item.code]


def _wanted(report: Report, select: tuple[str, ...]) -> list[Finding]:
    """Return the faults to mend. An absent machine is none: no step makes a device."""
    found = [item for item in report.findings if item.status in ("fail", "warn") and item.code]
    if select:
        return [item for item in found if item.code and item.code.startswith(select)]
    # What the user has decided to live with is mended only when it is named.
    return [item for item in found if item.status == "fail" and not item.machine_only and item.waiver is None]


def cann_version(facts: Facts) -> str | None:
    """Return the version of the CANN in use, else of the first one installed; None when there is none to fit."""
    if facts.machine is None:
        return None
    home = (facts.machine.environment.get("ASCEND_HOME_PATH") or "").rstrip("/")
    in_use = next((item for item in facts.machine.cann if item.path == home), None)
    chosen = in_use or next(iter(facts.machine.cann), None)
    return chosen.version if chosen else None


def _fitting(facts: Facts, knowledge: Knowledge) -> Sequence[Stack]:
    interpreter = facts.interpreter
    return knowledge.fitting(interpreter.version, interpreter.architecture, cann_version(facts))


def release(version: str) -> str:
    """Return a version without its local part: 2.13.0 of 2.13.0+cpu."""
    return version.partition("+")[0]


def _choose(facts: Facts, fitting: Sequence[Stack], name: str | None) -> Stack | None:
    """Return the named set, else the one that changes least; of equals, the one that needs no early import."""
    if name:
        return next((item for item in fitting if item.name == name), None)

    def cost(item: tuple[int, Stack]) -> tuple[object, ...]:
        rank, stack = item
        moves = [not same_version(_installed(facts, part), stack.pin(part) or "") for part in _CHAIN]
        # Where torch or torch-npu must move in any case, a company's set goes before the others.
        return (moves[0] or moves[1], not stack.owner, *moves, stack.early_import, rank)

    return min(enumerate(fitting), key=cost)[1] if fitting else None


def _installed(facts: Facts, name: str) -> str:
    dist = facts.packages.find(name)
    return dist.version if dist else ""


def _reaches(facts: Facts, steps: Iterable[Step], target: Stack) -> bool:
    """Tell whether the environment will be that set."""
    pins = {step.distribution: step.version for step in steps if step.kind == "install"}
    return all(
        same_version(pins.get(name, _installed(facts, name)), pin) for name in _CHAIN if (pin := target.pin(name))
    )


def _merge(steps: Iterable[Step]) -> list[Step]:
    """Put steps in order and make one of those that do the same to the same thing."""
    merged: dict[tuple[str, str, str], Step] = {}
    for step in steps:
        key = (step.kind, step.distribution, step.path)
        if earlier := merged.get(key):
            opens = tuple(dict.fromkeys((*earlier.opens, *step.opens)))
            step = Step(**{**earlier.__dict__, "opens": opens})  # noqa: PLW2901
        merged[key] = step
    return sorted(merged.values(), key=_rank)


def _rank(step: Step) -> int:
    if step.kind in ("uninstall", "remove"):
        return 0 if step.kind == "uninstall" else 1
    return 6 if step.kind == "patch" else _ORDER.get(step.distribution, 4)


def _manual(finding: Finding) -> Step:
    return Step(
        "manual",
        "manual",
        finding.title,
        opens=(finding.code,) if finding.code else (),
        command=finding.remedy,
    )


def _replaces_gate_late(facts: Facts, steps: Sequence[Step], reached: Stack | None) -> Step | None:
    """Return what the user's code must do where the set replaces the device check late and no patch opens it."""
    if reached is None or not reached.early_import or any(step.fix == "gate" for step in steps):
        return None
    if facts.torch and facts.torch.gate and "npu" in facts.torch.gate.accepted:
        return None
    line = "import torch_npu._inductor"
    return Step(
        "manual",
        "manual",
        Text(
            "torch-npu {npu} replaces the device check only when its inductor backend loads",
            "torch-npu {npu} 直到加载 inductor 后端才替换设备校验",
        ).format(npu=reached.torch_npu),
        opens=(GATE_LATE,),
        command=Text(
            f"put `{line}` before the first use of flex_attention",
            f"在首次使用 flex_attention 之前加入 `{line}`",
        ),
    )


def _hopeless(facts: Facts, knowledge: Knowledge, left: Sequence[Finding], required: Capability) -> Text:
    """Say why no set of packages helps."""
    if not left:
        return NOTHING
    cann, python, architecture = cann_version(facts), facts.interpreter.version, facts.interpreter.architecture
    anywhere = [item for item in knowledge.fitting(None, None, None) if required in item.capabilities]
    if cann and any(True for item in knowledge.fitting(python, architecture, None) if required in item.capabilities):
        known_for = sorted({version for item in anywhere for version in item.cann})
        return Text(
            "no known torch-npu build gives {what} with CANN {cann}, so no package step is offered; "
            "such builds are known for CANN {others}",
            "在 CANN {cann} 下没有已知的 torch-npu 版本能提供 {what}，因此不给出软件包步骤；"
            "已知可用的 CANN 版本：{others}",
        ).format(what=required, cann=cann, others=", ".join(known_for))
    pythons = sorted({minor for item in anywhere for minor in item.pythons}, key=lambda minor: int(minor.split(".")[1]))
    return Text(
        "no known set of packages gives {what} for Python {python} on {architecture}; "
        "sets are known for Python {others}",
        "没有已知的软件包组合能在 Python {python}、{architecture} 上提供 {what}；已知组合面向 Python {others}",
    ).format(what=required, python=python or "?", architecture=architecture or "?", others=", ".join(pythons))


def _as_found(report: Report) -> dict[Capability, Availability]:
    return {name: report.capabilities[name].available for name in CAPABILITIES}


def _expected(
    report: Report,
    reached: Stack | None,
    steps: Sequence[Step],
    left: Sequence[Finding],
    manual: Sequence[Step],
) -> dict[Capability, Availability]:
    """Say what will work: what the set is known to give, less what stays broken."""
    if not steps:
        return _as_found(report)
    opened = {code for step in steps for code in step.opens}
    stays = left if reached else _standing(report, opened)
    taken = {capability for item in stays for capability in item.affects}
    hidden = any(item.status in ("blocked", "unknown", "crashed") for item in report.findings)
    late = any(GATE_LATE in step.opens for step in manual)

    def answer(name: Capability) -> Availability:
        if late or name in taken:
            return "no"
        if reached:
            return "yes" if name in reached.capabilities else "no"
        return "unknown" if hidden else "yes"

    return {name: answer(name) for name in CAPABILITIES}


def _standing(report: Report, opened: set[str]) -> list[Finding]:
    """Return the faults of the packages that no step mends."""
    found = [item for item in report.findings if item.status in ("fail", "warn") and not item.machine_only]
    return [item for item in found if item.code and item.code not in opened]


def _warnings(facts: Facts, steps: Sequence[Step]) -> Iterable[Text]:
    names = {step.distribution: step for step in steps}
    if "triton-ascend" in names or "triton" in names:
        wishes = [line for line in facts.packages.triton_wanted_by if _applies(line, facts)]
        if wishes:
            yield Text(
                "{wishes}: its next install will bring upstream triton back over triton-ascend; "
                "use --no-deps for it, or run flexdoctor fix again",
                "{wishes}：下次安装它时会再次带入上游 triton 并覆盖 triton-ascend；"
                "请对其使用 --no-deps，或再次运行 flexdoctor fix",
            ).format(wishes="; ".join(wishes))
    torch = names.get("torch")
    if torch and torch.before and release(torch.before) != torch.version:
        bound = [
            f"{item.name} {item.version}"
            for item in facts.packages.distributions
            if item.name in ("torchvision", "torchaudio") and not _accepts_torch(item.requires, torch.version)
        ]
        if bound:
            yield Text(
                "{bound} is made for torch {before}: install the one for torch {after} afterwards, or remove it",
                "{bound} 面向 torch {before}：之后请安装与 torch {after} 配套的版本，或将其卸载",
            ).format(bound=", ".join(bound), before=torch.before, after=torch.version)


def _accepts_torch(requires: Iterable[str], version: str) -> bool:
    for line in requires:
        try:
            requirement = Requirement(line)
            if requirement.name == "torch" and not requirement.specifier.contains(version, prereleases=True):
                return False
        except (InvalidRequirement, InvalidVersion):
            continue
    return True


def _applies(wish: str, facts: Facts) -> bool:
    """Tell whether a requirement for triton counts on this Python and machine."""
    try:
        requirement = Requirement(wish.partition(": ")[2])
        if requirement.marker is None:
            return True
        version = facts.interpreter.version or "3.11"
        python = ".".join(str(part) for part in Version(version).release[:2])
        here = {
            "platform_system": "Linux",
            "sys_platform": "linux",
            "os_name": "posix",
            "platform_machine": facts.interpreter.architecture or "",
            "python_version": python,
            "python_full_version": version,
            "extra": "",
        }
        return requirement.marker.evaluate(here)
    except (InvalidRequirement, InvalidMarker, InvalidVersion, UndefinedEnvironmentName):
        return True
