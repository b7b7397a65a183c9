"""Maintainer's command: read released wheels and write what they say to knowledge/versions/.

    python -m flexdoctor.knowledge.harvest torch-npu 2.15.0     from the index that pip is configured for
    python -m flexdoctor.knowledge.harvest DIR                  from a folder of wheels

The wheels are read by the readers that also read an installed environment. Facts come from the aarch64 wheel for the
oldest Python of the release (the sources are the same in all of them); requirements are kept per architecture. Running
it again on the same wheels writes the same bytes.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from flexdoctor.knowledge.versions import FACTS_OF, Release, Wheel, file_name
from flexdoctor.readers.packages import describe, owners_of
from flexdoctor.readers.torch import read_torch
from flexdoctor.readers.torch_npu import read_torch_npu
from flexdoctor.readers.triton import read_triton
from flexdoctor.readers.wheels import WheelDistribution, WheelTree
from flexdoctor.serialise import from_json, to_json

ARCHITECTURES = ("aarch64", "x86_64")
TIME_LIMIT = 60.0


class HarvestError(Exception):
    """A release cannot be harvested; one line that says why."""


def open_wheel(path: Path) -> WheelDistribution:
    """Return the wheel at `path`.

    Raises:
        HarvestError: it is not a wheel.
    """
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise HarvestError(f"{path} is not a wheel: {error}") from error
    wheel = WheelDistribution(name, version, tags, WheelTree(path))
    if not wheel.tree.names:
        raise HarvestError(f"{path} cannot be read")
    return wheel


def read_release(
    wheels: Sequence[WheelDistribution], published: Iterable[Wheel], source: str, date: datetime.date
) -> Release:
    """Return the facts of one release from one wheel an architecture; the first wheel's sources are read."""
    main = wheels[0]
    facts = _facts(main)
    return Release(
        package=main.name,
        version=main.version,
        date=date.isoformat(),
        source=source,
        evidence="wheel",
        wheels=tuple(sorted(published, key=lambda wheel: wheel.filename)),
        requires={architecture_of(wheel.wheel_tags): describe(wheel).requires for wheel in wheels},
        **facts,
    )


def _facts(wheel: WheelDistribution) -> dict[str, Any]:
    prefix = f"{wheel.metadata_path}/"
    if wheel.name == "torch":
        facts: Any = read_torch(wheel.tree, wheel.version)
        key = "torch"
    elif wheel.name == "torch-npu":
        facts, key = read_torch_npu(wheel.tree, wheel.version), "torch_npu"
    else:
        facts, key = read_triton(wheel.tree, owners_of("triton", [wheel])), "triton"
    # Places inside of the wheel: the folder it lay in is nobody's business.
    text = json.dumps(to_json(facts)).replace(json.dumps(prefix)[1:-1], "")
    return {key: from_json(type(facts), json.loads(text))}


def architecture_of(tags: frozenset[Tag]) -> str:
    """Return the architecture of a wheel, "any" for a pure one."""
    platforms = {tag.platform for tag in tags}
    return next((name for name in ARCHITECTURES if any(item.endswith(name) for item in platforms)), "any")


def write_release(release: Release, folder: Path) -> Path:
    """Write a release as JSON with sorted keys, and return the file. Facts that stand there keep their date."""
    path = folder / file_name(release.package, release.version)
    folder.mkdir(parents=True, exist_ok=True)
    data = _drop_empty(to_json(release))
    if path.is_file():
        old = json.loads(path.read_text(encoding="utf-8"))
        if {**old, "date": data["date"]} == data:
            return path
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def _drop_empty(data: Any) -> Any:
    """Leave out what equals its default, so that a diff shows what changed and nothing else."""
    if isinstance(data, dict):
        return {key: _drop_empty(value) for key, value in data.items() if value not in (None, [], {}, "")}
    return [_drop_empty(item) for item in data] if isinstance(data, list) else data


def published_wheels(package: str, index: str) -> Iterator[tuple[Version, Wheel, frozenset[Tag]]]:
    """Yield the Linux wheels of a package that a simple index (PEP 691) lists.

    Raises:
        HarvestError: the index does not answer, or not in JSON.
    """
    request = urllib.request.Request(  # noqa: S310 - the maintainer's own index
        f"{index.rstrip('/')}/{package}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIME_LIMIT) as answer:  # noqa: S310
            listing = json.load(answer)
        files = listing["files"]
    except (OSError, ValueError, LookupError) as error:
        raise HarvestError(f"the index does not list {package}: {error}") from error
    for file in files:
        try:
            _, found, _, tags = parse_wheel_filename(file["filename"])
        except InvalidWheelFilename:
            continue
        if architecture_of(tags) != "any":
            yield found, Wheel(file["filename"], file.get("hashes", {}).get("sha256", "")), tags


def configured_index() -> str:
    """Return the index that pip uses, asked of pip itself."""
    if value := os.environ.get("PIP_INDEX_URL"):
        return value
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return asked.stdout.strip()
    from pip._internal.models.index import PyPI  # noqa: PLC0415 - pip's own default, wherever that is

    return str(PyPI.simple_url)


def download(filename: str, package: str, tags: frozenset[Tag], folder: Path) -> Path:
    """Let pip download exactly one wheel into `folder`, unless it is there already.

    Raises:
        HarvestError: pip does not find it.
    """
    if (folder / filename).is_file():
        return folder / filename
    tag = min(tags, key=str)
    platforms = [part for item in sorted({tag.platform for tag in tags}) for part in ("--platform", item)]
    version = str(parse_wheel_filename(filename)[1])
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *platforms]
    command += ["--implementation", "cp", "--python-version", tag.interpreter[2:], "--abi", tag.abi]
    command += ["--index-url", configured_index(), "-d", str(folder), f"{package}=={version}"]
    # Constraints and extra indexes of the machine must not decide which release is read.
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_CONSTRAINT": "", "PIP_NO_CACHE_DIR": "1"}
    for variable in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        environment.pop(variable, None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    if done.returncode or not (folder / filename).is_file():
        last = done.stderr.strip().splitlines()[-1:] or ["pip found another file"]
        raise HarvestError(f"{filename} cannot be downloaded: {last[0]}")
    return folder / filename


def harvest_release(
    package: str, published: Sequence[tuple[Wheel, frozenset[Tag]]], out: Path, cache: Path | None, date: datetime.date
) -> Path:
    """Harvest one release from the index."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = cache or Path(scratch)
        chosen = []
        # The Python sources of torch and of upstream triton do not differ between architectures, and neither do their
        # requirements (they carry markers); those of torch-npu and triton-ascend are published per architecture.
        wanted = ARCHITECTURES if package in ("torch-npu", "triton-ascend") else ARCHITECTURES[:1]
        for architecture in wanted:
            candidates = [item for item in published if architecture_of(item[1]) == architecture]
            if candidates:
                wheel, tags = min(candidates, key=lambda item: _preference(item[1]))
                chosen.append(open_wheel(download(wheel.filename, package, tags, folder)))
        if not chosen:
            wheel, tags = min(published, key=lambda item: _preference(item[1]))
            chosen.append(open_wheel(download(wheel.filename, package, tags, folder)))
        release = read_release(chosen, (wheel for wheel, _ in published), "default index", date)
    return write_release(release, out)


def _preference(tags: frozenset[Tag]) -> tuple[bool, int]:
    """Prefer CPython 3.11, which most releases have; else the oldest."""
    digits = min(int(tag.interpreter[2:] or 0) for tag in tags)
    return digits != 311, digits


def harvest_folder(folder: Path, out: Path, date: datetime.date) -> list[Path]:
    """Harvest every release of the chain in a folder of wheels."""
    releases: dict[tuple[str, str], list[WheelDistribution]] = {}
    for path in sorted(folder.glob("*.whl")):
        wheel = open_wheel(path)
        if wheel.name in FACTS_OF:
            releases.setdefault((wheel.name, wheel.version), []).append(wheel)
    written = []
    for wheels in releases.values():
        by_architecture = {architecture_of(wheel.wheel_tags): wheel for wheel in reversed(wheels)}
        ordered = [by_architecture[name] for name in (*ARCHITECTURES, "any") if name in by_architecture]
        published = [Wheel(wheel.tree.path.name, _sha256(wheel.tree.path)) for wheel in wheels]
        written.append(write_release(read_release(ordered, published, "folder of wheels", date), out))
    return written


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m flexdoctor.knowledge.harvest", description=__doc__.split("\n")[0])
    parser.add_argument("what", help=f"a package ({', '.join(FACTS_OF)}) or a folder of wheels")
    parser.add_argument("versions", nargs="*", help="released versions; none: all that the index has, from --since on")
    parser.add_argument("--since", type=Version, default=Version("0"), metavar="VERSION")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent / "versions", help="where the facts go"
    )
    parser.add_argument("--cache", type=Path, help="keep downloaded wheels here")
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=today, help="date of the rows")
    options = parser.parse_args(arguments)
    failed = False
    try:
        if Path(options.what).is_dir():
            for path in harvest_folder(Path(options.what), options.out, options.date):
                print(path)  # noqa: T201
            return 0
    except HarvestError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    package = canonicalize_name(options.what)
    if package not in FACTS_OF:
        parser.error(f"{options.what} is neither a folder nor one of {', '.join(FACTS_OF)}")
    try:
        for version, published in _releases(package, options.versions, options.since):
            try:
                if not published:
                    raise HarvestError(f"the index has no Linux wheel of {package} {version}")
                path = harvest_release(package, published, options.out, options.cache, options.date)
                print(path, flush=True)  # noqa: T201
            except HarvestError as error:
                print(error, file=sys.stderr)  # noqa: T201
                failed = True
    except HarvestError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 1 if failed else 0


def _releases(
    package: str, wanted: Sequence[str], since: Version
) -> Iterator[tuple[Version, list[tuple[Wheel, frozenset[Tag]]]]]:
    """Yield the wanted releases, or all from `since` on, each with its wheels."""
    by_version: dict[Version, list[tuple[Wheel, frozenset[Tag]]]] = {}
    for version, wheel, tags in published_wheels(package, configured_index()):
        by_version.setdefault(version, []).append((wheel, tags))
    for version in [Version(item) for item in wanted] or sorted(item for item in by_version if item >= since):
        yield version, by_version.get(version, [])


if __name__ == "__main__":
    raise SystemExit(main())
