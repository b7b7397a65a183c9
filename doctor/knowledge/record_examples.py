"""Maintainer's command: record the shipped examples from their recipes in examples.toml.

    python -m flexdoctor.knowledge.record_examples [--wheels DIR] [NAME ...]

Examples of pins are judged from the knowledge base; those of wheels are laid over each other in a scratch folder, in
the order of the recipe, and read like an installed environment. `--wheels` names a folder that holds the wheels.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flexdoctor import snapshots
from flexdoctor.facts import Facts, MachineFacts, TargetFacts
from flexdoctor.knowledge import load_table
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.readers.hub import read_hub
from flexdoctor.readers.locks import Plan, Planned, Platform
from flexdoctor.readers.machine import read_machine
from flexdoctor.readers.packages import find_distributions
from flexdoctor.readers.planned import read_requirements
from flexdoctor.readers.wheels import open_wheelhouse
from flexdoctor.serialise import from_json, to_json

T = TypeVar("T", Facts, MachineFacts)
#: Members above this size are laid out with their size and without content: readers judge them by size alone.
_MAX_CONTENT = 4 * 1024 * 1024
_SITE = "/opt/venv/lib/python3.11/site-packages"


def record(recipe: Mapping[str, Any], wheels: Path | None) -> Facts:
    """Return the facts of one recipe.

    Raises:
        FileNotFoundError: a wheel of the recipe is not in the folder.
    """
    if "wheels" in recipe:
        facts = _record_wheels(recipe, wheels)
    else:
        pins = [Requirement(line) for line in recipe["requirements"]]
        planned = [Planned(canonicalize_name(pin.name), next(iter(pin.specifier)).version, str(pin)) for pin in pins]
        facts = read_requirements(Plan(planned), None, Platform(is_stated=True))
    target = TargetFacts(
        kind=facts.target.kind,
        description=f"example {recipe['name']}: {recipe['title']}",
        site_packages=facts.target.site_packages,
        machine_examined="files" in recipe,
    )
    facts = dataclasses.replace(facts, target=target)
    if "consumers" in recipe:
        facts = _with_hub(facts, recipe, wheels)
    return _with_machine(facts, recipe) if "files" in recipe else facts


def _with_machine(facts: Facts, recipe: Mapping[str, Any]) -> Facts:
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in recipe["files"].items():
            path = Path(scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        machine = read_machine(Path(scratch), recipe["environment"])
        return dataclasses.replace(facts, machine=_moved(machine, scratch, ""))


def _with_hub(facts: Facts, recipe: Mapping[str, Any], folder: Path | None) -> Facts:
    """Add what the consumers of Hub kernels ask for, and the kernels of the recipe as LOCAL_KERNELS."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        site = scratch / "site-packages"
        _lay_out_all(recipe, recipe["consumers"], folder, site)
        local = []
        for repo, files in recipe["kernels"].items():
            kernel = scratch / "kernels" / repo.rpartition("/")[2]
            for file, text in files.items():
                path = kernel / "build" / "torch-universal" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            local.append(f"{repo}={kernel}")
        variables = {"LOCAL_KERNELS": ":".join(local), "KERNELS_CACHE": str(scratch / "cache")}
        distributions, _ = find_distributions([site])
        hub = read_hub([site], distributions, variables=variables)
        facts = _moved(dataclasses.replace(facts, hub=hub), str(site), _SITE)
        return _moved(facts, str(scratch), "/opt")


def _record_wheels(recipe: Mapping[str, Any], folder: Path | None) -> Facts:
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch, "lib", "python3.11", "site-packages")
        _lay_out_all(recipe, recipe["wheels"], folder, site)
        for module in recipe.get("modules", ()):
            (site / module).mkdir()
            (site / module / "__init__.py").touch()
        return _moved(read_site_packages(site), str(site.resolve()), _SITE)


def _lay_out_all(recipe: Mapping[str, Any], lines: Iterable[str], folder: Path | None, site: Path) -> None:
    if folder is None:
        raise FileNotFoundError(f"{recipe['name']} needs --wheels")
    found, _ = open_wheelhouse(folder)
    for line in lines:
        name, _, version = line.partition("==")
        paths = [wheel.tree.path for wheel in found if (wheel.name, wheel.version) == (name, version)]
        if not paths:
            raise FileNotFoundError(f"{folder} has no wheel of {line}")
        lay_out(paths[0], site)


def lay_out(wheel: Path, site: Path) -> None:
    """Write the files of a wheel into `site` as an installer would, over what is there.

    Files too large to be judged by content get their size only. RECORD keeps what the wheel states.
    """
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            path = site / info.filename
            if info.is_dir():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if info.file_size > _MAX_CONTENT:
                with path.open("wb") as file:
                    file.truncate(info.file_size)
            else:
                path.write_bytes(archive.read(info))


def _moved(facts: T, old: str, new: str) -> T:
    """Return `facts` with every path below `old` below `new`: where the recorder worked is nobody's business."""
    text = json.dumps(to_json(facts)).replace(json.dumps(old)[1:-1], new)
    data = json.loads(text)
    for claim in data.get("triton", {}).get("claims", []):
        claim["installed_at"] = None  # the time of recording, not of an installation
    return from_json(type(facts), data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m flexdoctor.knowledge.record_examples")
    parser.add_argument("names", nargs="*", help="examples to record; none: all")
    parser.add_argument("--wheels", type=Path, help="a folder that holds the wheels of the recipes")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "examples")
    options = parser.parse_args(arguments)
    failed = False
    for recipe in recipes(options.names):
        try:
            text = snapshots.dump(record(recipe, options.wheels))
        except FileNotFoundError as error:
            print(error, file=sys.stderr)  # noqa: T201
            failed = True
            continue
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{recipe['name']}.json").write_text(text, encoding="utf-8")
        print(recipe["name"])  # noqa: T201
    return 1 if failed else 0


def recipes(names: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the recipes of these names, or all."""
    wanted = set(names)
    return [row for row in load_table("examples")["example"] if not wanted or row["name"] in wanted]


if __name__ == "__main__":
    raise SystemExit(main())
