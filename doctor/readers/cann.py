"""CANN on disk and in the variables: both layouts, every version side by side, and what points where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from flexdoctor.facts import CannInstallation, NnalInstallation, VariablePath
from flexdoctor.readers.rooted import Root, natural

#: Where the run packages and the official images put CANN.
SYSTEM_PLACE = "/usr/local/Ascend"
#: Written by the installers, also for another place or user.
_INSTALL_RECORDS = ("/etc/Ascend/ascend_cann_install.info", "~/Ascend/ascend_cann_install.info")
#: What torch-npu is linked against (DT_NEEDED of its wheels), and the runtime under it.
LIBRARIES = ("libhccl.so", "libascendcl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so", "libruntime.so")
_ARCHITECTURES = ("aarch64-linux", "x86_64-linux")
_KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel"
_BISHENG = (
    "tools/ccec_compiler/bin/bisheng",
    "compiler/ccec_compiler/bin/bisheng",
    "bin/bisheng",
)
#: bishengir-compile and the script that puts it on PATH: from 8.5 a package of the toolkit, before that a
#: BiSheng toolkit beside it.
_BISHENGIR = (
    ("share/info/ascendnpu-ir/bin/set_env.sh", "tools/bishengir/bin/bishengir-compile"),
    ("share/info/ascendnpu-ir/bin/set_env.sh", "bin/bishengir-compile"),
    ("bisheng_toolkit/set_env.sh", "bisheng_toolkit/bishengir/bin/bishengir-compile"),
)
_FOLDER_LISTS = ("LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
_SINGLE = (
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_OPP_PATH",
    "ATB_HOME_PATH",
    "TRITON_NPU_COMPILER_PATH",
)


def read_cann(
    root: Root, variables: Mapping[str, str], sites: Sequence[Path], chips: Iterable[str]
) -> tuple[CannInstallation, ...]:
    """Return every toolkit that can be found; the one that the variables name comes first."""
    chips = tuple(chips)
    found: dict[str, CannInstallation] = {}
    for folder, how in _candidates(root, variables, sites):
        if not root.is_folder(folder):
            continue
        key = _identity(root, folder)
        if key in found:
            continue
        installation = _read_one(root, folder, how, chips)
        if installation is not None:
            found[key] = installation
    return tuple(found.values())


def _home(root: Root, variables: Mapping[str, str]) -> str:
    return variables.get("HOME") or (str(Path("~").expanduser()) if root.live else "/root")


def _candidates(root: Root, variables: Mapping[str, str], sites: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        if value := variables.get(name):
            yield value.rstrip("/") or "/", name
    for site in sites:
        inside = root.inside(site)
        if inside is None:
            continue
        yield from ((f"{inside}/ascend/{name}", "site-packages") for name in _versioned(root, f"{inside}/ascend"))
        prefix = str(Path(inside).parent.parent.parent)
        yield from ((folder, "conda prefix") for folder in _places(root, f"{prefix}/Ascend"))
    home = _home(root, variables)
    records = (root.values(path.replace("~", home)) or {} for path in _INSTALL_RECORDS)
    recorded = [values["install_path"] for values in records if values.get("install_path", "").startswith("/")]
    for base in dict.fromkeys([*recorded, f"{home}/Ascend", SYSTEM_PLACE]):
        yield from ((folder, "known place") for folder in _places(root, base))


def _versioned(root: Root, base: str) -> list[str]:
    names = [name for name in root.names(base) if name.startswith("cann-")]
    return sorted(names, key=natural, reverse=True)


def _places(root: Root, base: str) -> Iterator[str]:
    """Yield the entry links of both layouts below one install folder, then each version, newest first."""
    older = f"{base}/ascend-toolkit"
    versions = sorted((name for name in root.names(older) if name[:1].isdigit()), key=natural, reverse=True)
    yield f"{base}/cann"
    yield from [f"{base}/{name}" for name in _versioned(root, base)]
    yield f"{older}/latest"
    yield from [f"{older}/{name}" for name in versions]


def _identity(root: Root, folder: str) -> str:
    """Return what tells two paths to one toolkit from two toolkits: up to 8.3 `latest` is a folder of links."""
    for name in _ARCHITECTURES:
        inner = f"{folder}/{name}"
        if root.is_folder(inner):
            return root.real(inner).rpartition("/")[0]
    return root.real(folder)


def _read_one(root: Root, folder: str, how: str, chips: tuple[str, ...]) -> CannInstallation | None:
    statements = list(_versions(root, folder))
    libraries = tuple(name for name in LIBRARIES if root.exists(f"{folder}/lib64/{name}"))
    if not statements and not libraries:
        root.names(folder)  # notes a folder that this user may not read
        return None
    version, version_file = statements[0] if statements else (_from_name(root.real(folder)), None)
    info = _install_info(root, folder)
    platforms = _platforms(root, folder)
    bisheng = root.first(f"{folder}/{name}" for name in _BISHENG)
    script, bishengir = _bishengir(root, folder)
    real = _identity(root, folder)
    return CannInstallation(
        path=root.shown(folder),
        version=version,
        set_env=_set_env(root, folder),
        found_by=how,
        real_path=root.shown(real) if real != folder else None,
        version_file=root.shown(version_file) if version_file else None,
        other_versions=tuple(f"{root.shown(path)}: {text}" for text, path in statements[1:] if text != version),
        inner_version=info.get("innerversion"),
        architecture=info.get("arch"),
        has_runtime=root.exists(f"{folder}/runtime"),
        has_compiler=root.exists(f"{folder}/compiler"),
        libraries=libraries,
        kernels=_kernels(root, folder),
        platforms=platforms,
        kernel_folder_of=dict(_kernel_folders(root, folder, [name for name in chips if name in (platforms or ())])),
        bisheng=root.shown(bisheng) if bisheng else None,
        bishengir=root.shown(bishengir) if bishengir else None,
        bishengir_set_env=root.shown(script) if script else None,
    )


def _install_info(root: Root, folder: str) -> dict[str, str]:
    for name in _ARCHITECTURES:
        if values := root.values(f"{folder}/{name}/ascend_toolkit_install.info"):
            return values
    return {}


def _versions(root: Root, folder: str) -> Iterator[tuple[str, str]]:
    """Yield what the version files say, best first.

    ascend_toolkit_install.info means the same in every line. In version.info the marketing version is `version_dir`
    up to 8.3 (`Version` is an internal number there) and `Version` from 8.5 on (where `version_dir` is "cann").
    """
    for name in _ARCHITECTURES:
        path = f"{folder}/{name}/ascend_toolkit_install.info"
        if version := (root.values(path) or {}).get("version"):
            yield version, path
    for path in (f"{folder}/share/info/runtime/version.info", f"{folder}/runtime/version.info"):
        values = root.values(path) or {}
        label = values.get("version_dir", "")
        version = values.get("version", "") if label.startswith("cann") else label
        if version:
            yield version, path


def _from_name(real: str) -> str | None:
    match = re.fullmatch(r"(?:cann-)?(\d+\.\d+\S*)", real.rpartition("/")[2])
    return match[1] if match else None


def _set_env(root: Root, folder: str) -> str | None:
    beside = [f"{folder}/set_env.sh"]
    if folder.rpartition("/")[0].endswith("/ascend-toolkit"):
        # The script beside `latest` names `latest`; each version has one of its own.
        beside += [f"{folder}/{name}/script/set_env.sh" for name in _ARCHITECTURES]
        entry = folder.rpartition("/")[0]
        beside = [f"{entry}/set_env.sh", *beside] if folder.endswith("/latest") else [*beside, f"{entry}/set_env.sh"]
    path = root.first(beside)
    return root.shown(path) if path else None


def _platforms(root: Root, folder: str) -> tuple[str, ...] | None:
    for name in _ARCHITECTURES:
        place = f"{folder}/{name}/data/platform_config"
        if root.is_folder(place):
            return tuple(item.removesuffix(".ini") for item in root.names(place) if item.endswith(".ini"))
    return None


def _kernel_folders(root: Root, folder: str, chips: list[str]) -> Iterator[tuple[str, str]]:
    for chip in chips:
        for name in _ARCHITECTURES:
            values = root.values(f"{folder}/{name}/data/platform_config/{chip}.ini") or {}
            if short := values.get("short_soc_version"):
                yield chip, short.lower()


def _kernels(root: Root, folder: str) -> tuple[str, ...] | None:
    """Return the chips' folders that hold operators; the toolkit alone brings `config`, which proves nothing."""
    if not root.is_folder(f"{folder}/opp"):
        return None
    base = f"{folder}/{_KERNELS}"
    names = (name for name in root.names(base) if name != "config" and root.is_folder(f"{base}/{name}"))
    return tuple(name for name in names if root.names(f"{base}/{name}"))


def _bishengir(root: Root, folder: str) -> tuple[str | None, str | None]:
    script = root.first(dict.fromkeys(f"{folder}/{name}" for name, _ in _BISHENGIR))
    program = root.first(f"{folder}/{name}" for _, name in _BISHENGIR)
    return script, program


def read_nnal(root: Root, variables: Mapping[str, str]) -> tuple[NnalInstallation, ...]:
    """Return the NNAL packages: the one that ATB_HOME_PATH names, and those in the known places."""
    found: dict[str, NnalInstallation] = {}
    bases = [f"{base}/nnal/atb" for base in (SYSTEM_PLACE, f"{_home(root, variables)}/Ascend")]
    named = re.fullmatch(r"(.*)/[^/]+/atb/cxx_abi_[01]/?", variables.get("ATB_HOME_PATH", ""))
    for base in dict.fromkeys([*([named[1]] if named else []), *bases]):
        names = [name for name in root.names(base) if name == "latest" or name[:1].isdigit()]
        for name in sorted(names, key=lambda item: (item == "latest", natural(item)), reverse=True):
            folder = f"{base}/{name}"
            abis = tuple(abi for abi in (0, 1) if root.is_folder(f"{folder}/atb/cxx_abi_{abi}"))
            if abis:
                script = root.first([f"{base}/set_env.sh", f"{folder}/atb/set_env.sh"])
                found.setdefault(
                    root.real(folder),
                    NnalInstallation(
                        root.shown(folder),
                        _nnal_version(root, folder),
                        root.shown(script) if script else None,
                        abis,
                    ),
                )
    return tuple(found.values())


def _nnal_version(root: Root, folder: str) -> str | None:
    """Read `Ascend-cann-atb : 8.1.RC1`: unlike all other version files this one has colons."""
    match = re.search(r"^\s*Ascend-cann-atb\s*:\s*(\S+)", root.read(f"{folder}/version.info") or "", re.MULTILINE)
    if match:
        return match[1]
    name = root.real(folder).rpartition("/")[2]
    return name if name[:1].isdigit() else None


def read_variable_paths(
    root: Root, variables: Mapping[str, str], cann: Sequence[CannInstallation], nnal: Sequence[NnalInstallation]
) -> tuple[VariablePath, ...]:
    """Return where the variables of the chain lead: into which toolkit, the driver, a stub, or nowhere."""
    homes = [(_identity(root, _expand(item.path)), item.path) for item in cann]
    packages = [root.real(_expand(item.path)) for item in nnal]
    entries = [(name, variables[name]) for name in _SINGLE if variables.get(name)]
    lines = (line.strip() for name in _loader_files(root) for line in (root.read(name) or "").splitlines())
    entries += [("ld.so.conf", line) for line in lines if line.startswith("/") and _concerns_ascend(root, line, homes)]
    for name in _FOLDER_LISTS:
        parts = variables.get(name, "").split(":")
        entries += [(name, part) for part in parts if part.startswith("/") and _concerns_ascend(root, part, homes)]
    found = []
    for name, path in entries:
        real = root.real(path)
        toolkit = next((shown for home, shown in homes if real == home or real.startswith(f"{home}/")), None)
        found.append(
            VariablePath(
                name,
                root.shown(path.rstrip("/") or "/"),
                root.exists(path),
                toolkit,
                _kind(root, path, real, toolkit, packages),
            )
        )
    return tuple(found)


def _loader_files(root: Root) -> list[str]:
    folder = "/etc/ld.so.conf.d"
    return ["/etc/ld.so.conf", *(f"{folder}/{name}" for name in root.names(folder) if name.endswith(".conf"))]


def _expand(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _concerns_ascend(root: Root, path: str, homes: list[tuple[str, str]]) -> bool:
    """Whether an entry of a search path is CANN's, the driver's or NNAL's, present or gone."""
    if re.search(r"/(Ascend|ascend-toolkit|cann(-[^/]*)?|nnal)(/|$)", path):
        return True
    real = root.real(path)
    return any(real.startswith(f"{home}/") for home, _ in homes)


def _kind(
    root: Root, path: str, real: str, toolkit: str | None, packages: list[str]
) -> Literal["toolkit", "stub", "driver", "nnal", "other"]:
    if re.search(r"/(devlib|stub)(/|$)", f"{path}/{real}/") and root.exists(f"{path}/libascend_hal.so"):
        return "stub"
    if any(real.startswith(f"{package}/") for package in packages) or "/nnal/" in path:
        return "nnal"
    if toolkit is not None:
        return "toolkit"
    return "driver" if re.search(r"/driver(/|$)", path) else "other"
