"""Reinstall torch or torch-npu in the version that is there: files are missing, or were built for another machine."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.fixes import stack
from flexdoctor.text import Text
from flexdoctor.treatment.plan import Fix, Situation, Step, install_step

NAME = "reinstall"
_HALF = "FD115"
OPENS = ("FD101", "FD102", _HALF)


def propose(situation: Situation) -> Iterator[Step]:
    """Reinstall what the evidence names, unless the set changes anyway."""
    # For another Python or machine the same version may not exist, so only a known set says what to install.
    codes = situation.has(*OPENS) if situation.target else situation.has(_HALF)
    if not codes:
        return
    named = {
        item.path
        for finding in situation.report.findings
        if finding.code in codes
        for item in finding.evidence
        if item.kind == "metadata"
    }
    target = situation.target if stack.needed(situation) else None
    for dist in situation.facts.packages.distributions:
        if dist.metadata_path not in named:
            continue
        version = (target.pin(dist.name) if target else None) or dist.version
        index = situation.index_of(dist.name, version)
        yield install_step(situation, NAME, dist.name, version, opens=codes, index=index)


FIX = Fix(
    name=NAME,
    title=Text("reinstall what is only half there", "重装不完整的软件包"),
    opens=OPENS,
    propose=propose,
)
