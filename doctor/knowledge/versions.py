"""Facts of released versions, harvested from the real wheels by the readers that also read installed packages."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.version import InvalidVersion, Version

from flexdoctor.facts import TorchFacts, TorchNpuFacts, TritonFacts
from flexdoctor.knowledge import FOLDER
from flexdoctor.serialise import from_json

#: Which facts a release of each package carries.
FACTS_OF: dict[str, type] = {
    "torch": TorchFacts,
    "torch-npu": TorchNpuFacts,
    "triton-ascend": TritonFacts,
    "triton": TritonFacts,
}
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Wheel:
    """One published file: its name and the SHA-256 that the index states for it."""

    filename: str
    sha256: str


@dataclass(frozen=True)
class Release:
    """What is known of one version of one package of the chain.

    `requires` maps an architecture to the Requires-Dist lines of its wheels. `evidence` is "wheel" for facts that were
    read from a wheel, "repository" for facts that stand in public sources of a release whose wheel was not read.
    """

    package: str
    version: str
    date: str
    source: str
    evidence: str
    wheels: tuple[Wheel, ...] = ()
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    torch: TorchFacts | None = None
    torch_npu: TorchNpuFacts | None = None
    triton: TritonFacts | None = None
    schema_version: int = SCHEMA_VERSION

    def requires_on(self, architecture: str) -> tuple[str, ...]:
        """Return what its wheels for an architecture ask for; where none of them was read, what those for another do.

        What differs between architectures stands in the markers, but for local pins, which are read on both.
        """
        return self.requires.get(architecture) or next(iter(self.requires.values()), ())


def file_name(package: str, version: str) -> str:
    """Return the name of the file that holds a release."""
    return f"{package}-{version}.json"


@functools.cache
def known_versions(package: str) -> tuple[str, ...]:
    """Return the versions of a package that the knowledge base has, oldest first."""
    folder = FOLDER / "versions"
    prefix = f"{package}-"
    names = [item.name for item in folder.iterdir() if item.name.endswith(".json")] if folder.is_dir() else []
    versions = []
    for name in names:
        if name.startswith(prefix):
            try:
                versions.append(Version(name.removeprefix(prefix).removesuffix(".json")))
            except InvalidVersion:
                continue  # another package whose name starts alike: triton-ascend beside triton
    return tuple(str(version) for version in sorted(versions))


@functools.cache
def lookup(package: str, version: str) -> Release | None:
    """Return what is known of a release; a local version (`+cpu`) is looked up as its public release."""
    try:
        public = Version(version).public
    except InvalidVersion:
        return None
    path = FOLDER / "versions" / file_name(package, public)
    if not path.is_file():
        return None
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return from_json(Release, data, path.name)


def nearest(package: str, version: str | None) -> str | None:
    """Return the known version that is nearest to an unknown one: the newest that is not newer, else the oldest.

    A development build is near to the release that it leads to.
    """
    known = known_versions(package)
    if not known:
        return None
    try:
        wanted = Version(version or "")
    except InvalidVersion:
        return known[-1]
    if wanted.is_prerelease:
        wanted = Version(wanted.base_version)
    return next((item for item in reversed(known) if Version(item) <= wanted), known[0])
