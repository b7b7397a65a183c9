"""Install what is imported without being asked for: pybind11, psutil, and what CANN's compiler needs of Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from flexdoctor.findings import Finding
from flexdoctor.fixes import stack, triton
from flexdoctor.text import Text
from flexdoctor.treatment.plan import Fix, Situation, Step, install_step

NAME = "companions"
_TRITON, _BACKEND = "FD214", "FD244"
#: Faults whose remedy is one pip command: what CANN's compiler needs of Python, and what is too new for it.
_NEEDS = ("FD147", "FD148")
OPENS = (_TRITON, _BACKEND, *_NEEDS)
#: What a distribution that is brought in imports at load without asking for it in every release.
_COMES_WITH = {"triton-ascend": ("pybind11",), "torch-npu": ("psutil", "numpy")}
#: Distributions whose module has another name.
_DISTRIBUTIONS = {"attr": "attrs", "yaml": "pyyaml", "google": "protobuf"}


def propose(situation: Situation) -> Iterator[Step]:
    """Install each missing distribution at its known pin; what has none is pinned when it is fetched."""
    for code in situation.has(_TRITON, _BACKEND):
        for module in _modules(situation, code):
            yield _install(situation, _DISTRIBUTIONS.get(module, module).replace("_", "-"), (code,))
    for finding in situation.report.findings:
        if finding.code in situation.has(*_NEEDS):
            for requirement in _asked_for(finding):
                yield _install(situation, requirement, (finding.code,))
    brought = {step.distribution for source in (stack, triton) for step in source.propose(situation)}
    for owner, names in _COMES_WITH.items():
        for name in names:
            if owner in brought and name in situation.companions and not situation.installed(name):
                yield _install(situation, name, ())


def _install(situation: Situation, asked: str, codes: tuple[str, ...]) -> Step:
    requirement = Requirement(asked)
    name = canonicalize_name(requirement.name)
    pin = situation.companions.get(name, "")
    if not pin or not requirement.specifier.contains(pin, prereleases=True):
        pin = ""
    return install_step(situation, NAME, name, pin, opens=codes, requirement="" if pin else asked)


def _modules(situation: Situation, code: str) -> list[str]:
    facts = situation.facts
    missing = facts.triton.missing_imports if code == _TRITON else ()
    if code == _BACKEND and facts.torch_npu:
        missing = facts.torch_npu.missing_imports
    return list(dict.fromkeys(item.module for item in missing))


def _asked_for(finding: Finding) -> list[str]:
    """Return what the remedy's own command installs."""
    command = re.search(r" -m pip install (.+)$", finding.remedy.en)
    words = shlex.split(command[1]) if command else []
    try:
        return [str(Requirement(word)) for word in words]
    except InvalidRequirement:
        return []


FIX = Fix(
    name=NAME,
    title=Text("install what is imported but not asked for", "安装被导入却未声明的依赖"),
    opens=OPENS,
    propose=propose,
)
