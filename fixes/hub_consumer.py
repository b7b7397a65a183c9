"""Move diffusers to the version that asks a kernel from the Hub for names which it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flexdoctor.findings import Finding
from flexdoctor.hub_facts import Backend, HubFacts, Surface
from flexdoctor.knowledge import load_table
from flexdoctor.text import Text
from flexdoctor.treatment.plan import Fix, Situation, Step, install_step

NAME = "hub_consumer"
CONSUMER = "diffusers"
_NAMES = "FD301"
OPENS = (_NAMES,)
_PREFIX = "._wrapped_"
_TRUE = ("1", "true", "yes", "on")


def propose(situation: Situation) -> Iterator[Step]:
    """Install the known version, where nothing else has to move for it."""
    version = suitable(situation)
    if version:
        yield install_step(
            situation,
            NAME,
            CONSUMER,
            version,
            opens=OPENS,
            note=Text(
                "costs: it loads another version of the kernel by itself, so that one is downloaded at first use; "
                "other ways out are in flexdoctor check",
                "代价：它默认加载该内核的另一版本，首次使用时会下载；其他办法见 flexdoctor check",
            ),
        )


def suitable(situation: Situation) -> str:
    """Return the version of diffusers to move to; empty when that would not help, or not alone."""
    hub = situation.facts.hub
    if hub is None or not renamed(situation):
        return ""
    if hub.environment.get("HF_HUB_OFFLINE", "").lower() in _TRUE and not _pinned(hub):
        return ""  # the version that it loads instead could not be fetched
    for row in load_table("hub")["moved"]:
        if (row["consumer"], row["fault"], row["name"][: len(_PREFIX)]) == (CONSUMER, "name", _PREFIX):
            version = str(row["version"])
            return version if _fits_alone(situation, hub, version) else ""
    return ""


def site(situation: Situation) -> str:
    """Return the folder in which an installer has put diffusers; empty for a source folder of the user's own."""
    dist, hub = situation.facts.packages.find(CONSUMER), situation.facts.hub
    if dist is None or hub is None or hub.diffusers is None or not hub.diffusers.backends:
        return ""
    folder = dist.metadata_path.rpartition("/")[0]
    return folder if hub.diffusers.backends[0].place.path.startswith(f"{folder}/{CONSUMER}/") else ""


def renamed(situation: Situation) -> bool:
    """Tell whether every name that is missed is there under its plain spelling: then the same remedy mends them all."""
    if not site(situation):
        return False
    found = [item for item in situation.report.findings if item.code == _NAMES and item.status in ("fail", "warn")]
    return bool(situation.has(_NAMES) and found) and all(_is_renamed(situation.facts.hub, item) for item in found)


def _is_renamed(hub: HubFacts | None, finding: Finding) -> bool:
    """Tell whether a finding is of a backend and a kernel for which dropping the prefix is enough."""
    for surface in hub.surfaces if hub else ():
        if surface.asked_for or not any(item.path == surface.path for item in finding.evidence):
            continue  # a kernel that was named to one check is not what `fix` looks at
        for backend in hub.diffusers.backends if hub and hub.diffusers else ():
            places = {(name.place.path, name.place.line) for name in backend.names if name.path in surface.absent}
            if places & {(item.path, item.line) for item in finding.evidence}:
                return _has_plain_names(backend, surface)
    return False


def _has_plain_names(backend: Backend, surface: Surface) -> bool:
    missing = [name.path for name in backend.names if name.path in surface.absent]
    return all(_PREFIX in path and surface.find(path.replace(_PREFIX, "._")) is not None for path in missing)


def _pinned(hub: HubFacts) -> bool:
    return bool(hub.surfaces) and all(item.origin == "LOCAL_KERNELS" for item in hub.surfaces)


def _fits_alone(situation: Situation, hub: HubFacts, version: str) -> bool:
    """Tell whether that version can do with what is here (what is missing is added), and nothing here forbids it."""
    row: dict[str, Any] | None = next(
        (
            item
            for item in load_table("hub").get("release", ())
            if (item["name"], item["version"]) == (CONSUMER, version)
        ),
        None,
    )
    if row is None or not _is_older(situation.installed(CONSUMER), version):
        return False
    wanted = [Requirement(line) for line in row["requires"]]
    return not any(_must_move(situation, item) for item in wanted) and not any(
        _forbids(line, version) for line in hub.diffusers_wanted
    )


def _is_older(installed: str, version: str) -> bool:
    try:
        return Version(installed) < Version(version)
    except InvalidVersion:
        return False


def _must_move(situation: Situation, wanted: Requirement) -> bool:
    found = situation.installed(canonicalize_name(wanted.name))
    try:
        return bool(found) and not wanted.specifier.contains(found, prereleases=True)
    except InvalidVersion:
        return True


def _forbids(line: str, version: str) -> bool:
    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return False
    return canonicalize_name(wanted.name) == CONSUMER and not wanted.specifier.contains(version, prereleases=True)


FIX = Fix(
    name=NAME,
    title=Text(
        "move diffusers to the version that fits the kernel from the Hub",
        "将 diffusers 换成与 Hub 内核相符的版本",
    ),
    opens=OPENS,
    propose=propose,
)
