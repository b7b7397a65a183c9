"""Folders of node reports, as a job leaves them: written from facts, many at once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samples import HEALTHY, SITE, TRITON, TRITON_ASCEND, UPSTREAM

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.collecting import report_text
from flexdoctor.facts import Distribution, Facts
from flexdoctor.findings import Waiver
from flexdoctor.nodes import STARTED_KIND, NodeIdentity
from flexdoctor.reports.document import node_document
from flexdoctor.serialise import to_json

#: A healthy environment of which the machine is not known, so that nothing is found in it at all.
UNEXAMINED = dataclasses.replace(HEALTHY, machine=None)
#: Seconds since the epoch at which the jobs of the tests start.
START = 1_790_000_000.0


def crowded(facts: Facts, count: int) -> Facts:
    """Return `facts` with further distributions, so that there are about `count`."""
    known = facts.packages.distributions
    more = tuple(
        Distribution(f"library-{number:03d}", f"1.{number}", f"{SITE}/library_{number:03d}-1.{number}.dist-info")
        for number in range(count - len(known))
    )
    return dataclasses.replace(facts, packages=dataclasses.replace(facts.packages, distributions=(*known, *more)))


def with_versions(facts: Facts, **versions: str | None) -> Facts:
    """Return `facts` with other versions of distributions (torch_npu="..."); None takes one away."""
    kept = []
    for item in facts.packages.distributions:
        version = versions.pop(item.name.replace("-", "_"), item.version)
        if version is not None:
            kept.append(dataclasses.replace(item, version=version))
    kept += [
        Distribution(name.replace("_", "-"), version, f"{SITE}/{name}-{version}.dist-info")
        for name, version in versions.items()
        if version is not None
    ]
    return dataclasses.replace(facts, packages=dataclasses.replace(facts.packages, distributions=tuple(kept)))


def overwritten(facts: Facts) -> Facts:
    """Return `facts` after upstream triton was written over triton-ascend: FD213."""
    claim = dataclasses.replace(
        TRITON_ASCEND, shared=34, overwritten=29, overwritten_sample=("triton/__init__.py", "triton/compiler.py")
    )
    triton = dataclasses.replace(TRITON, claims=(UPSTREAM, claim))
    return dataclasses.replace(with_versions(facts, triton=UPSTREAM.version), triton=triton)


def document_of(facts: Facts, *waivers: Waiver) -> dict[str, Any]:
    """Return the document of one node, without who the node is."""
    return node_document(diagnose(facts, CHAIN, waivers=waivers), facts)


def write_node(folder: Path, document: Mapping[str, Any], identity: NodeIdentity) -> Path:
    """Write one node's report under the name that `check --collect` gives it."""
    rank = "" if identity.rank is None else f".rank{identity.rank}"
    path = folder / f"{identity.host}{rank}.json"
    path.write_text(report_text(dict(document), identity), encoding="utf-8")
    return path


def write_trace(folder: Path, identity: NodeIdentity) -> Path:
    """Write the trace of a start."""
    rank = "" if identity.rank is None else f".rank{identity.rank}"
    path = folder / f"{identity.host}{rank}.started.json"
    path.write_text(json.dumps({"kind": STARTED_KIND, "node": to_json(identity)}), encoding="utf-8")
    return path


def slurm_node(number: int, *, run: str = "Slurm 4711", started: float = START) -> NodeIdentity:
    """Return who node `number` of a Slurm job with eight ranks a node is."""
    return NodeIdentity(
        host=f"node{number:05d}",
        rank=number * 8,
        local_rank=0,
        index=number,
        launcher="Slurm",
        run=run,
        started=started,
        finished=started + 1,
    )


def _compact(identity: NodeIdentity) -> str:
    return json.dumps(to_json(identity), separators=(",", ":"))


@dataclasses.dataclass(frozen=True)
class Planted:
    """What is wrong in a folder: which nodes, by number."""

    overwritten: tuple[int, ...]
    other_torch_npu: tuple[int, ...]
    other_numpy: tuple[int, ...]
    missing: tuple[int, ...]


def write_job(folder: Path, count: int, *, distributions: int = 300) -> Planted:
    """Write the reports of a job of `count` nodes with three planted drifts and two missing nodes."""
    folder.mkdir(parents=True, exist_ok=True)
    healthy = crowded(with_versions(UNEXAMINED, numpy="1.26.4"), distributions)
    planted = Planted(
        overwritten=(count // 3, count // 3 + 1),
        other_torch_npu=(count // 2,),
        other_numpy=(count - 1,),
        missing=(7, count - 2),
    )
    kinds = {
        "healthy": healthy,
        "overwritten": overwritten(healthy),
        "torch-npu": with_versions(healthy, torch_npu="2.13.0.post1"),
        "numpy": with_versions(healthy, numpy="1.26.3"),
    }
    stand_in = slurm_node(0)
    texts = {name: report_text(document_of(facts), stand_in) for name, facts in kinds.items()}
    for number in range(count):
        if number in planted.missing:
            continue
        kind = (
            "overwritten"
            if number in planted.overwritten
            else "torch-npu"
            if number in planted.other_torch_npu
            else "numpy"
            if number in planted.other_numpy
            else "healthy"
        )
        identity = slurm_node(number, started=START + number % 60)
        path = folder / f"{identity.host}.rank{identity.rank}.json"
        path.write_text(texts[kind].replace(_compact(stand_in), _compact(identity)), encoding="utf-8")
    return planted
