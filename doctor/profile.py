"""The environment in a few hundred short lines: what can differ between two machines that should be alike.

A profile is flat, so that two of them are compared key by key, and holds nothing that differs between machines by
nature: no host name, no process or bus number, no free memory, nothing that is counted up, no place of a home folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from flexdoctor.facts import CannInstallation, Facts, MachineFacts

#: Distributions whose version is part of the chain itself; any other matters only where a finding names it.
CHAIN_PACKAGES = ("torch", "torch-npu", "triton", "triton-ascend", "torchvision", "torchaudio")
#: Variables that a scheduler sets for each process. How many devices they show is kept, not which.
_MASKS = ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES")
#: Variables that hold places; what they lead to has keys of its own.
_PLACES = ("ASCEND_", "ATB_HOME_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CC", "TRITON_NPU_COMPILER_PATH")

#: First words of keys that a profile lacks because the thing is not there, not because nobody looked.
_TELLING = ("package ", "files missing of", "shadowed", "triton files", "hub kernel", "variable ", "visible devices")

#: First words of a key, the links of the chain that look at it, and whether a difference counts as drift by itself.
#: The first row that fits holds.
_KEYS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("python headers", ("interpreter",), False),
    ("python", ("interpreter",), True),
    ("architecture", ("interpreter",), True),
    ("glibc", ("interpreter",), True),
    ("libstdc++", ("interpreter", "cann"), False),
    ("c compiler", ("interpreter",), False),
    ("files missing of", ("packages", "triton_install"), True),
    ("shadowed", ("packages", "triton_install"), True),
    ("torch ", ("packages", "device_validation", "device_properties", "subgraph_lowering"), True),
    ("torch-npu triton names", ("module_rename",), True),
    ("torch-npu ", ("device_validation", "device_properties", "subgraph_lowering"), True),
    ("triton ", ("triton_install", "module_rename"), True),
    ("hub kernel", ("hub_kernels",), False),
    ("cann installed", ("cann",), False),
    ("cann", ("cann",), True),
    ("nnal", ("cann",), True),
    ("bisheng", ("cann",), True),
    ("driver", ("devices",), True),
    ("npu-smi", ("devices",), True),
    ("chip", ("devices",), True),
    ("device", ("devices",), True),
    ("container", ("devices",), False),
    ("visible devices", ("devices",), True),
)


def environment_profile(facts: Facts) -> dict[str, str]:
    """Return the profile of `facts`, in the order of the chain; what is not known has no key."""
    return {key: value for key, value in _entries(facts) if value}


def fingerprint(profile: Mapping[str, str]) -> str:
    """Return a short hash of a profile: equal for equal environments."""
    canonical = json.dumps(dict(profile), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def links_of(key: str) -> tuple[str, ...]:
    """Return the links of the chain that look at a key; for a package that is any that names it."""
    return next((links for start, links, _ in _KEYS if key.startswith(start)), ())


def is_of_the_chain(key: str) -> bool:
    """Return whether a difference of this key counts by itself."""
    if key.startswith("package "):
        return key.removeprefix("package ") in CHAIN_PACKAGES
    if key.startswith("variable "):
        return not key.removeprefix("variable ").startswith(_PLACES)
    return next((counts for start, _, counts in _KEYS if key.startswith(start)), False)


def absence_tells(key: str) -> bool:
    """Return whether a profile without this key says that the thing is not there."""
    return key.startswith(_TELLING)


def names_in(key: str) -> tuple[str, ...]:
    """Return the words by which a finding would name the subject of a key of a package or a variable."""
    kind, _, name = key.partition(" ")
    if kind == "package":
        return (name, name.replace("-", "_"))
    return (name,) if kind == "variable" else ()


def _entries(facts: Facts) -> Iterator[tuple[str, str | None]]:
    yield from _interpreter(facts)
    yield from _packages(facts)
    yield from _sources(facts)
    if facts.machine:
        yield from _cann(facts.machine)
        yield from _devices(facts.machine)
        for name, value in sorted(facts.machine.environment.items()):
            if name in _MASKS:
                yield f"visible devices by {name}", _mask(value)
            else:
                yield f"variable {name}", value


def _interpreter(facts: Facts) -> Iterator[tuple[str, str | None]]:
    interpreter = facts.interpreter
    yield "python", " ".join(part for part in (interpreter.implementation, interpreter.version) if part)
    yield "architecture", interpreter.architecture
    toolchain = facts.machine.toolchain if facts.machine else None
    if toolchain:
        yield "glibc", toolchain.glibc
        yield "libstdc++", str(toolchain.libstdcxx) if toolchain.libstdcxx else None
        yield "c compiler", toolchain.cc_path or toolchain.cxx or "none"
        yield "python headers", "present" if toolchain.python_header else "absent"
        yield "bisheng compiler", _compilers(toolchain.bishengir_compile, toolchain.bishengir_bundled)


def _compilers(on_path: str | None, bundled: str | None) -> str:
    found = [name for name, place in (("on PATH", on_path), ("in triton-ascend", bundled)) if place]
    return ", ".join(found) or "none"


def _packages(facts: Facts) -> Iterator[tuple[str, str | None]]:
    versions: dict[str, list[str]] = {}
    for item in facts.packages.distributions:
        found = versions.setdefault(item.name, [])
        shown = item.version + (" (editable)" if item.is_editable else "")
        if shown not in found:
            found.append(shown)
    for name in sorted(versions, key=lambda name: (name not in CHAIN_PACKAGES, name)):
        yield f"package {name}", ", ".join(versions[name])
    for item in facts.packages.distributions:
        if item.missing_count:
            yield f"files missing of {item.name}", f"{item.missing_count} of {item.recorded_files}"
    for shadow in facts.packages.shadows:
        yield f"shadowed {shadow.module}", f"by the {shadow.via}" if shadow.via != "PYTHONPATH" else "by PYTHONPATH"


def _sources(facts: Facts) -> Iterator[tuple[str, str | None]]:
    """Yield what was read from sources: it tells a file that was changed by hand where versions do not."""
    torch, npu, triton = facts.torch, facts.torch_npu, facts.triton
    if torch:
        yield "torch version.py", torch.version + (f", CUDA {torch.cuda}" if torch.cuda else "")
        if torch.gate:
            yield "torch device check", f"{torch.gate.form}: {', '.join(torch.gate.accepted)}".rstrip(": ")
        yield "torch capability check", _where(torch.major_comparison is not None)
    if npu:
        yield "torch-npu device check", ", ".join(sorted({item.when for item in npu.gate_patches})) or "not replaced"
        yield "torch-npu triton names", ", ".join(f"{item.name} ({item.branch})" for item in npu.extra_steps)
        lowering = npu.lowering
        parts = [name for name in ("forward", "backward", "registered") if lowering and getattr(lowering, name)]
        yield "torch-npu flex lowering", ", ".join(parts) or "absent"
    if triton.path:
        yield "triton owner", ", ".join(f"{claim.name} {claim.version}" for claim in triton.claims) or "nobody"
        for claim in triton.claims:
            if claim.overwritten:
                yield f"triton files of {claim.name} overwritten", f"{claim.overwritten} of {claim.shared}"
            if claim.missing:
                yield f"triton files of {claim.name} missing", f"{claim.missing} of {claim.files}"
        yield "triton backends", ", ".join(triton.backends) or "none"
        yield "triton names below extra", ", ".join(triton.extra) or "none"
    for surface in facts.hub.surfaces if facts.hub else ():
        if surface.repo:
            refs = ", ".join((*([f"v{surface.version}"] if surface.version else []), *surface.refs))
            yield f"hub kernel {surface.repo}", " ".join(part for part in ((surface.commit or "")[:12], refs) if part)


def _where(there: bool) -> str:
    return "present" if there else "absent"


def _cann(machine: MachineFacts) -> Iterator[tuple[str, str | None]]:
    in_use = _in_use(machine)
    yield "cann", (in_use.version or "of unknown version") if in_use else "none sourced"
    yield "cann installed", ", ".join(sorted({item.version or "?" for item in machine.cann})) or "none"
    if in_use:
        yield "cann operator kernels", ", ".join(in_use.kernels) if in_use.kernels is not None else None
        yield "cann architecture", in_use.architecture
    yield "nnal", ", ".join(sorted({item.version or "?" for item in machine.nnal})) or "none"


def _in_use(machine: MachineFacts) -> CannInstallation | None:
    home = machine.environment.get("ASCEND_HOME_PATH")
    if not home:
        return None
    led_to = next((item.toolkit for item in machine.variable_paths if item.variable == "ASCEND_HOME_PATH"), None)
    wanted = led_to or home.rstrip("/")
    return next((item for item in machine.cann if item.path == wanted), None)


def _devices(machine: MachineFacts) -> Iterator[tuple[str, str | None]]:
    driver, npu_smi = machine.driver, machine.npu_smi
    is_there = driver and (driver.version_file or driver.hal or driver.install_info)
    yield "driver", (driver and driver.version) or ("of unknown version" if is_there else "none")
    if driver and driver.install_complete is not None:
        yield "driver installation", "complete" if driver.install_complete else "incomplete"
    davinci = [node for node in machine.device_nodes if re.fullmatch(r".*/davinci\d+", node)]
    yield "devices", str(len(davinci))
    managers = (node.rpartition("/")[2] for node in machine.device_nodes if node not in davinci)
    yield "device managers", ", ".join(sorted(managers))
    yield "device access", _counted(_access(machine))
    yield "device chips on the bus", _counted(machine.pci or ())
    if npu_smi:
        yield "npu-smi", npu_smi.outcome
        yield "chips", _counted(chip.name for chip in npu_smi.chips)
        yield "chip health", _counted(chip.health for chip in npu_smi.chips if chip.health)
    if machine.container and machine.container.is_container is not None:
        yield "container", "yes" if machine.container.is_container else "no"


def _access(machine: MachineFacts) -> Iterator[str]:
    for node in machine.nodes or ():
        if node.mode is not None:
            yield f"{node.mode & 0o7777:04o} {node.owner or node.uid}:{node.group or node.gid}"


def _counted(values: Iterable[str]) -> str:
    """Return how often each value occurs: "8 x 910B3"."""
    counts = Counter(values)
    return ", ".join(f"{count} x {value}" for value, count in sorted(counts.items()))


def _mask(value: str) -> str:
    count = 0
    for part in re.split(r"[,\s]+", value):
        bounds = re.fullmatch(r"([0-9]{1,4})-([0-9]{1,4})", part)
        count += max(int(bounds[2]) - int(bounds[1]) + 1, 0) if bounds else bool(part)
    return str(count) if count else "none"
