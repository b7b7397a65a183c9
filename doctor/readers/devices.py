"""Devices and driver: nodes with mode and owner, PCI ids, the driver's files, container or not, and the user."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from flexdoctor.facts import ContainerFacts, DeviceNode, DriverFacts, UserFacts
from flexdoctor.readers.npu_smi import PLACES
from flexdoctor.readers.rooted import Root

_NODE = re.compile(r"davinci(\d+|_manager)|devmm_svm|hisi_hdc|svm0|ts_aisle")
_DRIVER = "/usr/local/Ascend/driver"
_INSTALL_INFO = "/etc/ascend_install.info"
_VENDOR = "0x19e5"
_HAL = "libascend_hal.so"


def read_nodes(root: Root) -> tuple[DeviceNode, ...]:
    """Return the driver's nodes in /dev, with what decides who may open them."""
    names = [name for name in root.names("/dev") if _NODE.fullmatch(name)]
    users, groups = _names_of(root, "/etc/passwd"), _names_of(root, "/etc/group")
    nodes = []
    for name in sorted(names, key=lambda item: (not item[-1].isdigit(), len(item), item)):
        status = root.stat(f"/dev/{name}")
        if status is None:
            nodes.append(DeviceNode(f"/dev/{name}"))
            continue
        nodes.append(
            DeviceNode(
                f"/dev/{name}",
                stat.S_IMODE(status.st_mode),
                status.st_uid,
                status.st_gid,
                users.get(status.st_uid),
                groups.get(status.st_gid),
            )
        )
    return tuple(nodes)


def _names_of(root: Root, path: str) -> dict[int, str]:
    """Read /etc/passwd or /etc/group; directory services are not asked, they may hang."""
    found: dict[int, str] = {}
    for line in (root.read(path) or "").splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit():
            found.setdefault(int(fields[2]), fields[0])
    return found


def read_user(root: Root) -> UserFacts | None:
    """Return who runs this process; nothing for an image, whose user is decided when it is started."""
    if not root.live:
        return None
    users, groups = _names_of(root, "/etc/passwd"), _names_of(root, "/etc/group")
    uid, gids = os.geteuid(), tuple(sorted({os.getegid(), *os.getgroups()}))
    return UserFacts(uid, gids, users.get(uid), tuple(groups[gid] for gid in gids if gid in groups))


def read_pci(root: Root) -> tuple[str, ...] | None:
    """Return the PCI device ids of the vendor; None where /sys does not show the bus."""
    base = "/sys/bus/pci/devices"
    names = root.names(base)
    if not names:
        return None
    found = []
    for name in names:
        if (root.read(f"{base}/{name}/vendor", 16) or "").strip() == _VENDOR:
            found.append((root.read(f"{base}/{name}/device", 16) or "").strip())
    return tuple(item for item in found if item)


def read_driver(root: Root, variables: Mapping[str, str]) -> DriverFacts:
    """Return what of the driver is visible: libraries, version, and the other files that a container is given."""
    install = root.values(_INSTALL_INFO)
    home = (install or {}).get("driver_install_path_param", "")
    driver = f"{home.rstrip('/')}/driver" if home.startswith("/") else _DRIVER
    if not root.is_folder(driver):
        driver = _DRIVER
    values = root.values(f"{driver}/version.info") or {}
    libraries = [f"{driver}/lib64/driver", f"{driver}/lib64", f"{driver}/lib64/common"]
    searched = [item for item in variables.get("LD_LIBRARY_PATH", "").split(":") if item.startswith("/")]
    # A toolkit's stub bears the same name and does nothing.
    searched = [item for item in searched if not re.search(r"/(devlib|stub)(/|$)", root.real(item) + "/" + item)]
    hal = root.first(f"{folder}/{_HAL}" for folder in [*libraries, *searched, "/usr/lib64", "/usr/lib"])
    npu_smi = root.first(PLACES)
    status = (install or {}).get("driver_install_status")
    return DriverFacts(
        path=root.shown(driver),
        version=values.get("package_version") or values.get("version"),
        version_file=root.shown(f"{driver}/version.info") if values else None,
        compatible=tuple(re.findall(r"\[([^\]]+)\]", values.get("compatible_version", ""))),
        hal=root.shown(hal) if hal else None,
        install_info=root.shown(_INSTALL_INFO) if install is not None else None,
        install_complete=None if install is None else status == "complete",
        dcmi=root.is_folder("/usr/local/dcmi"),
        npu_smi=root.shown(npu_smi) if npu_smi else None,
    )


def read_container(root: Root, variables: Mapping[str, str]) -> ContainerFacts:
    """Tell a container from bare metal; an unpacked image is a container to be."""
    marked = "ASCEND_DOCKER_RUNTIME" in variables
    if not root.live:
        return ContainerFacts(True, "an unpacked image", marked)
    for path in ("/.dockerenv", "/run/.containerenv"):
        if root.exists(path):
            return ContainerFacts(True, path, marked)
    if "KUBERNETES_SERVICE_HOST" in variables:
        return ContainerFacts(True, "KUBERNETES_SERVICE_HOST is set", marked)
    if variables.get("container"):
        return ContainerFacts(True, "the variable container is set", marked)
    groups = (root.read("/proc/1/cgroup") or "").strip()
    if match := re.search(r"/(docker|kubepods|containerd|lxc|crio|libpod)[^\n]*", groups):
        return ContainerFacts(True, f"/proc/1/cgroup: {match[0][:60]}", marked)
    if marked:
        return ContainerFacts(True, "ASCEND_DOCKER_RUNTIME is set", marked)
    # A container with a name space of its own shows only this; so do a few hosts.
    if groups in ("", "0::/"):
        return ContainerFacts(None, None, marked)
    return ContainerFacts(False, f"/proc/1/cgroup: {groups.splitlines()[0][:60]}", marked)
