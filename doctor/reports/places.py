"""Where a finding is shown in a file: the line that pins the culprit of a plan, else the line that proves it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexdoctor.facts import Distribution, Facts
    from flexdoctor.findings import Finding

#: What a fault of each folder is mended in, where evidence lies in a package that is not installed yet.
_FOLDERS = {"torch": ("torch",), "torch_npu": ("torch-npu",), "triton": ("triton-ascend", "triton")}
_LINKS = {
    "device_validation": ("torch", "torch-npu"),
    "triton_install": ("triton-ascend", "triton"),
    "module_rename": ("triton-ascend", "torch-npu"),
}
_CHAIN = ("torch-npu", "torch", "triton-ascend", "triton")


@dataclass(frozen=True)
class Spot:
    """A place in a file. `path` is as facts have it: the home folder is `~`."""

    path: str
    line: int | None = None


def spot(finding: Finding, facts: Facts) -> Spot | None:
    """Return where to show `finding`, or None when no file has to do with it."""
    if facts.target.kind == "requirements":
        settings = next((item for item in finding.evidence if (item.path or "").endswith(".toml")), None)
        if settings is not None and settings.path and all(settings.path != path for path in _files_of(facts)):
            return Spot(settings.path, settings.line)
        pinned = next((dist.pinned_at for dist in _culprits(finding, facts) if dist.pinned_at), None)
        return Spot(pinned.path, pinned.line) if pinned and pinned.path != "stdin" else None
    # What has no root lies inside a wheel or in the knowledge: nothing that anybody could open here.
    proofs = [
        item
        for item in finding.evidence
        if (item.path or "").startswith(("/", "~")) and item.kind in ("file", "metadata", "probe")
    ]
    best = next((item for item in proofs if item.line), proofs[0] if proofs else None)
    if best is not None and best.path:
        return Spot(best.path, best.line)
    return next((Spot(site) for site in facts.target.site_packages), None)


def named_target(facts: Facts) -> Spot | None:
    """Return the file or folder that was named to be examined, or None when there is none or it is not known."""
    source, planned, _ = facts.target.description.rpartition(", planned for ")
    return Spot(source) if facts.target.is_planned and planned and source != "stdin" else None


def _culprits(finding: Finding, facts: Facts) -> Iterator[Distribution]:
    """Yield the planned packages that `finding` is about, the likeliest first; at the end any that is pinned."""
    dists = facts.packages.distributions
    for item in finding.evidence:
        yield from (dist for dist in dists if dist.pinned_at and _is_at(dist, item.path, item.line))
        folder = (item.path or "").partition("/")[0]
        yield from _named(_FOLDERS.get(folder, ()), dists)
    yield from subjects(finding, facts)
    yield from _named(_LINKS.get(finding.link, ()), dists)
    yield from _named(_CHAIN, dists)
    yield from dists


def _files_of(facts: Facts) -> Iterator[str]:
    yield from (dist.pinned_at.path for dist in facts.packages.distributions if dist.pinned_at)


def _is_at(dist: Distribution, path: str | None, line: int | None) -> bool:
    return (
        dist.pinned_at is not None and line is not None and (dist.pinned_at.path, dist.pinned_at.line) == (path, line)
    )


def _named(names: Iterable[str], dists: Iterable[Distribution]) -> Iterator[Distribution]:
    by_name = {dist.name: dist for dist in dists}
    yield from (by_name[name] for name in names if name in by_name)


def subjects(finding: Finding, facts: Facts) -> list[Distribution]:
    """Return the distributions that the finding's title names, in the order of the title."""
    words = re.findall(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", finding.title.en.lower())
    by_name = {dist.name: dist for dist in facts.packages.distributions}
    named = [by_name[name] for word in words if (name := re.split(r"[=<>~!]", word)[0].replace("_", "-")) in by_name]
    return list({dist.name: dist for dist in named}.values())


def below(path: str, base: Path | None) -> str | None:
    """Return `path` relative to `base` with slashes, or None when it does not lie there."""
    if base is None:
        return None
    # Folders may be reached by links; a file that is a link itself keeps the name that it has in its folder.
    folder, name = os.path.split(Path(path).expanduser())
    full = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(base))  # noqa: PTH118
    return None if full == os.pardir or full.startswith(os.pardir + os.sep) else full.replace(os.sep, "/")
