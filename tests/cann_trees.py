"""Machines on disk: CANN in its layouts, driver files, device nodes as files, PCI ids; and environments beside them.

The shapes are those of the installers and the official images; the texts are as short as the readers need.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import builders

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import Facts
from flexdoctor.findings import Finding, Report
from flexdoctor.readers.environment import ReadOptions, read_site_packages

INSTALL = "/usr/local/Ascend"
NEEDS = ("numpy", "decorator", "attrs", "psutil", "scipy", "sympy", "cffi", "pyyaml", "protobuf")
NODES = ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc")
KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel"
LIBRARIES = ("libhccl.so", "libascendcl.so", "libruntime.so")


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    write(path, text).chmod(0o755)
    return path


def link(root: Path, path: str, target: str) -> None:
    """A link whose absolute target is meant inside `root`."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


@dataclass(frozen=True)
class Toolkit:
    """What to lay down of a toolkit. `folder` is its own folder, without links."""

    version: str = "9.1.0"
    folder: str = ""
    architecture: str = "aarch64"
    kernels: tuple[str, ...] = ("ascend910b",)
    inner: str = "V100R001C10SPC001"
    libraries: tuple[str, ...] = LIBRARIES
    platforms: Mapping[str, str] = field(default_factory=lambda: {"Ascend910B3": "Ascend910B"})

    @property
    def modern(self) -> bool:
        major, minor = self.version.split(".")[:2]
        return (int(major), int(minor)) >= (8, 5)

    @property
    def place(self) -> str:
        older = f"{INSTALL}/ascend-toolkit/{self.version}"
        return self.folder or (f"{INSTALL}/cann-{self.version}" if self.modern else older)


def lay_toolkit(root: Path, toolkit: Toolkit = Toolkit()) -> str:
    """Lay a toolkit into `root` in the layout of its version, with its entry links; return ASCEND_HOME_PATH."""
    top = root / toolkit.place.lstrip("/")
    arch = f"{toolkit.architecture}-linux"
    write(
        top / arch / "ascend_toolkit_install.info",
        f"package_name=Ascend-cann-toolkit\nversion={toolkit.version}\ninnerversion={toolkit.inner}\n"
        f"arch={toolkit.architecture}\nos=linux\n",
    )
    for name in toolkit.libraries:
        write(top / arch / "lib64" / name)
    (top / "lib64").symlink_to(f"{arch}/lib64")
    for name in ("runtime", "compiler", "opp"):
        (top / name).mkdir(parents=True)
    for chip, short in toolkit.platforms.items():
        write(
            top / arch / "data/platform_config" / f"{chip}.ini",
            f"[version]\nSoC_version={chip}\nShort_SoC_version={short}\n",
        )
    for chip in ("ascend910b", "ascend310p"):
        write(top / KERNELS / "config" / chip / "binary_info_config.json", "{}")
    for chip in toolkit.kernels:
        write(top / KERNELS / chip / "cast" / "Cast_1.json", "{}")
    program(top / "tools/ccec_compiler/bin/bisheng")
    if toolkit.modern:
        write(top / "share/info/runtime/version.info", f"Version={toolkit.version}\nversion_dir=cann\n")
        write(top / "set_env.sh")
        write(top / "share/info/ascendnpu-ir/bin/set_env.sh")
        program(top / "tools/bishengir/bin/bishengir-compile")
        if not toolkit.folder:
            link(root, f"{INSTALL}/cann", f"cann-{toolkit.version}")
            link(root, f"{INSTALL}/ascend-toolkit/latest", f"{INSTALL}/cann")
            write(root / f"{INSTALL}/ascend-toolkit/set_env.sh".lstrip("/"))
        return toolkit.place
    write(top / "runtime/version.info", f"Version=7.7.0.1.238\nversion_dir={toolkit.version}\n")
    write(top / f"{arch}/script/set_env.sh")
    write(root / f"{INSTALL}/ascend-toolkit/set_env.sh".lstrip("/"))
    latest = root / f"{INSTALL}/ascend-toolkit/latest".lstrip("/")
    latest.mkdir(exist_ok=True)
    for name in (arch, "lib64", "runtime", "compiler", "opp", "tools"):
        (latest / name).unlink(missing_ok=True)
        (latest / name).symlink_to(f"../{toolkit.version}/{name}")
    return f"{INSTALL}/ascend-toolkit/latest"


def sourced(home: str, *, path: Iterable[str] = ()) -> dict[str, str]:
    """The variables as set_env.sh leaves them, with bishengir-compile's own script sourced too."""
    return {
        "ASCEND_HOME_PATH": home,
        "ASCEND_TOOLKIT_HOME": home,
        "ASCEND_OPP_PATH": f"{home}/opp",
        "LD_LIBRARY_PATH": f"{home}/lib64:{INSTALL}/driver/lib64:{INSTALL}/driver/lib64/common:"
        f"{INSTALL}/driver/lib64/driver",
        "PATH": ":".join([*path, f"{home}/tools/bishengir/bin", f"{home}/tools/ccec_compiler/bin", "/usr/bin"]),
    }


def lay_driver(root: Path, version: str = "25.5.1", compatible: str = "[V100R001C21],[V100R001C10]") -> None:
    driver = root / f"{INSTALL}/driver".lstrip("/")
    write(driver / "lib64/driver/libascend_hal.so")
    write(driver / "version.info", f"Version={version}\ncompatible_version={compatible}\npackage_version={version}\n")
    write(root / "etc/ascend_install.info", f"UserName=HwHiAiUser\nDriver_Install_Path_Param={INSTALL}\n")


def lay_nodes(root: Path, names: Iterable[str] = NODES) -> None:
    """Device nodes as plain files: what judges them is their name, and their mode and owner in the facts."""
    for name in names:
        write(root / "dev" / name)


def lay_pci(root: Path, device: str = "0xd802", count: int = 1) -> None:
    for number in range(count):
        place = root / f"sys/bus/pci/devices/0000:c{number}:00.0"
        write(place / "vendor", "0x19e5\n")
        write(place / "device", f"{device}\n")


def lay_system(root: Path, *, cxx: bool = True, headers: bool = True) -> None:
    """A system with a C library, and by default a C++ compiler and Python's headers."""
    write(root / "usr/lib64/libc-2.34.so")
    (root / "usr/lib64/libc.so.6").symlink_to("libc-2.34.so")
    if cxx:
        program(root / "usr/bin/g++")
    if headers:
        write(root / "usr/local/include/python3.11/Python.h")


def lay_site(
    root: Path,
    *,
    triton: str = "3.2.2",
    torch: str = "2.13.0",
    npu: str = "2.13.0",
    needs: Iterable[str] = NEEDS,
    numpy: str = "1.26.4",
) -> Path:
    """The target's packages inside the image: a set in which every link of the packages holds."""
    site = root / "usr/local/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    builders.install_torch(site, builders.TorchShape(version=torch))
    builders.install_torch_npu(site, builders.TorchNpuShape(version=npu, torch_pin=f"torch=={torch}"))
    builders.install_triton_ascend(site, triton)
    builders.install(site, "pybind11", "3.0.1", {"pybind11/__init__.py": ""})
    for name in needs:
        builders.install(site, name, numpy if name == "numpy" else "1.0")
    return site


@dataclass(frozen=True)
class Machine:
    """A fake root with a site and its variables."""

    root: Path
    site: Path
    variables: dict[str, str]

    def facts(self, *, deep: bool = False, changes: Mapping[str, str | None] = {}, **more: str | None) -> Facts:
        variables = {**self.variables, **changes, **more}
        kept = {key: value for key, value in variables.items() if value is not None}
        return read_site_packages(self.site, self.root, ReadOptions(deep=deep, variables=kept))

    def report(self, *, deep: bool = False, changes: Mapping[str, str | None] = {}, **more: str | None) -> Report:
        return diagnose(self.facts(deep=deep, changes=changes, **more), CHAIN)


def machine(
    root: Path,
    toolkit: Toolkit | None = Toolkit(),
    *,
    nodes: Iterable[str] = NODES,
    pci: str | None = "0xd802",
    driver: bool = True,
    cxx: bool = True,
    headers: bool = True,
    triton: str = "3.2.2",
    torch: str = "2.13.0",
    npu: str = "2.13.0",
    needs: Iterable[str] = NEEDS,
    numpy: str = "1.26.4",
) -> Machine:
    """A healthy A2 machine with CANN 9.1.0, unless told otherwise."""
    root.mkdir(exist_ok=True)
    home = lay_toolkit(root, toolkit) if toolkit else None
    if driver:
        lay_driver(root)
    lay_nodes(root, nodes)
    if pci:
        lay_pci(root, pci)
    lay_system(root, cxx=cxx, headers=headers)
    site = lay_site(root, triton=triton, torch=torch, npu=npu, needs=needs, numpy=numpy)
    return Machine(root, site, sourced(home) if home else {"PATH": "/usr/bin"})


def codes(report: Report, *statuses: str) -> list[str]:
    """The codes of the machine's links with one of `statuses`, in order; default: errors and warnings."""
    wanted = statuses or ("fail", "warn")
    links = ("interpreter", "cann", "devices")
    return [item.code or "" for item in report.findings if item.link in links and item.status in wanted]


def finding(report: Report, code: str) -> Finding:
    (item,) = [item for item in report.findings if item.code == code]
    return item


def said(item: Finding) -> str:
    """Everything that a finding tells, in one text."""
    parts = [item.title.en, item.detail.en, item.remedy.en, *item.predicted_errors]
    return "\n".join([*parts, *(f"{proof.path or ''} {proof.text} {proof.source or ''}" for proof in item.evidence)])


def is_root() -> bool:
    return os.geteuid() == 0
