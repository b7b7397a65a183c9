"""Link 4: are there Ascend devices that this process may use, and can triton compile for them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from flexdoctor.chain import Check
from flexdoctor.checks._words import at
from flexdoctor.facts import DeviceNode, Facts, MachineFacts, NpuSmiFacts, Place
from flexdoctor.findings import CAPABILITIES, COMPILED, Evidence, Fault, Finding, found, passed, skipped, unknown
from flexdoctor.frozen import dataclass
from flexdoctor.knowledge import cann as knowledge
from flexdoctor.knowledge.chips import ChipFamily, arch_overrides, families, family_of_chip, family_of_pci
from flexdoctor.knowledge.drivers import driver_line, rows_for_line
from flexdoctor.text import NOTHING, Text

LINK = "devices"

NO_DEVICE = Fault(
    "FD131",
    Text("CANN is here, but no Ascend device is visible", "有 CANN，但看不到昇腾设备"),
    affects=CAPABILITIES,
)
NO_CONTROL = Fault(
    "FD132",
    Text("the device is here, but not what it is driven through: {names}", "有设备节点，但缺少驱动控制节点：{names}"),
    affects=CAPABILITIES,
)
NOT_LOADED = Fault(
    "FD133",
    Text(
        "Ascend chips are on the PCI bus, but the driver has made no device nodes",
        "PCI 总线上有昇腾芯片，但驱动没有创建设备节点",
    ),
    affects=CAPABILITIES,
)
NO_HAL = Fault(
    "FD134",
    Text("the driver's libraries are not here: no libascend_hal.so", "缺少驱动库：找不到 libascend_hal.so"),
    affects=CAPABILITIES,
)
SMI_FAILS = Fault(
    "FD135",
    Text("npu-smi cannot reach the driver: {what}", "npu-smi 无法访问驱动：{what_zh}"),
    affects=CAPABILITIES,
)
NOT_A_TARGET = Fault(
    "FD136",
    Text("Triton-Ascend does not compile for {chip}", "Triton-Ascend 不支持 {chip}"),
    affects=COMPILED,
    blocks=False,
)
MASKED = Fault(
    "FD137",
    Text("{variable} is empty: this process sees no device", "{variable} 为空：本进程看不到任何设备"),
    affects=CAPABILITIES,
)
BAD_MASK = Fault(
    "FD138",
    Text(
        "ASCEND_RT_VISIBLE_DEVICES={value}: {what}",
        "ASCEND_RT_VISIBLE_DEVICES={value} 有误：{what_zh}",
    ),
    severity="warning",
    blocks=False,
)
NOT_PERMITTED = Fault(
    "FD139",
    Text("this user may not open {names}", "当前用户无权打开 {names}"),
    affects=CAPABILITIES,
)
DRIVER_OFF_TABLE = Fault(
    "FD151",
    Text(
        "no published table pairs driver {driver} with CANN {cann}",
        "公开的配套表中没有驱动 {driver} 与 CANN {cann} 的组合",
    ),
    severity="warning",
    blocks=False,
)
UNHEALTHY = Fault(
    "FD152",
    Text(
        "npu-smi reports {count} chips that are not healthy: {states}", "npu-smi 报告 {count} 个芯片状态异常：{states}"
    ),
    severity="warning",
    blocks=False,
)
HELD = Fault(
    "FD153",
    Text("the device is held by another container, virtual machine or process", "设备被其他容器、虚拟机或进程占用"),
    affects=CAPABILITIES,
)
MASK_IGNORED = Fault(
    "FD154",
    Text("{variable} does not do what it seems to: {what}", "{variable} 不起预期作用：{what_zh}"),
    severity="warning",
    blocks=False,
)
TWO_DRIVERS = Fault(
    "FD155",
    Text(
        "TORCH_TRANSFER_TO_NPU makes triton see two active drivers: nvidia and {backend}",
        "TORCH_TRANSFER_TO_NPU 使 triton 看到两个活动驱动：nvidia 与 {backend}",
    ),
    affects=COMPILED,
    blocks=False,
)
BAD_ARCH = Fault(
    "FD156",
    Text(
        "TRITON_ASCEND_ARCH={value} is none of the chips that triton-ascend accepts",
        "TRITON_ASCEND_ARCH={value} 不是 triton-ascend 接受的芯片名",
    ),
    affects=COMPILED,
    blocks=False,
)

_DEVICE = re.compile(r"/dev/davinci\d+")
_MASK = "ASCEND_RT_VISIBLE_DEVICES"
_CONTROL = ("davinci_manager", "devmm_svm", "hisi_hdc")
_UNREACHABLE = "dcmi module initialize failed. ret is -8005"


def examine(facts: Facts) -> Iterator[Finding]:
    """Judge nodes, permissions, driver, masks and the chip."""
    machine = facts.machine
    if machine is None:
        yield skipped(LINK, Text("the machine is not examined (--root)", "未检查机器（--root）"))
        return
    yield from _two_drivers(facts, machine)
    devices = [node for node in machine.device_nodes if _DEVICE.fullmatch(node)]
    if not devices:
        yield _no_device(machine)
        return
    chip = _chip(machine)
    findings = [
        *_control(machine, chip),
        *_permitted(machine),
        *_driver_files(machine),
        *_npu_smi(machine, chip),
        *_mask(machine, len(devices)),
        *_other_masks(machine),
        *_driver_line(machine, chip),
        *_target(facts, machine, chip),
    ]
    yield from findings
    if not any(item.status == "fail" and item.blocks for item in findings):
        yield _visible(machine, devices, chip)


@dataclass(frozen=True)
class _Chip:
    """What is known of the chips of this machine, and from where."""

    family: ChipFamily | None
    name: str | None
    evidence: tuple[Evidence, ...] = ()

    @property
    def label(self) -> str:
        return self.name or (f"Ascend {self.family.key}" if self.family else "?")


def _chip(machine: MachineFacts) -> _Chip:
    names = list(dict.fromkeys(item.name for item in machine.npu_smi.chips)) if machine.npu_smi else []
    name = names[0] if names else None
    evidence: list[Evidence] = []
    if machine.npu_smi and name:
        evidence.append(Evidence("probe", f"{machine.npu_smi.command}: {', '.join(names)}"))
    family = family_of_pci(machine.pci or ())
    if family:
        evidence.append(Evidence("device", f"PCI device id {family.pci}", path="/sys/bus/pci/devices"))
    return _Chip(family or (family_of_chip(name) if name else None), name, tuple(evidence))


def _no_device(machine: MachineFacts) -> Finding:
    evidence = [Evidence("device", "no davinci device node", path="/dev")]
    pci = [family for item in dict.fromkeys(machine.pci or ()) for family in families() if family.pci == item]
    container = machine.container.is_container if machine.container else None
    if pci:
        keys = ", ".join(family.key for family in pci)
        evidence.append(Evidence("device", f"Ascend {keys} on the bus", path="/sys/bus/pci/devices"))
    asked = machine.environment.get("ASCEND_VISIBLE_DEVICES")
    if asked is not None:
        evidence.append(Evidence("variable", f"ASCEND_VISIBLE_DEVICES={asked}"))
    if pci and container is False:
        return found(
            LINK,
            NOT_LOADED,
            evidence=evidence,
            predicted_errors=[_UNREACHABLE],
            remedy=Text(
                "install or load the driver of these chips (lsmod | grep drv_), then restart the machine",
                "安装或加载对应芯片的驱动（lsmod | grep drv_），然后重启机器",
            ),
        )
    if not machine.cann:
        return skipped(LINK, Text("no Ascend device on this machine", "本机没有昇腾设备"))
    on_host = Text(
        "The host has Ascend chips; /sys shows the host's bus, and none of them was passed into this container.",
        "宿主机上有昇腾芯片；/sys 显示的是宿主机总线，但没有芯片被传入此容器。",
    )
    return found(
        LINK,
        NO_DEVICE,
        machine_only=True,
        evidence=evidence,
        detail=on_host if pci and container else NOTHING,
        remedy=Text(
            "on an Ascend host: start the container with its devices ({line}); on a build machine this is expected",
            "在昇腾主机上：启动容器时传入设备（{line}）；在构建机上这是正常现象",
        ).format(line=_docker(["davinci0", *_CONTROL])),
    )


def _docker(nodes: list[str]) -> str:
    return " ".join(f"--device /dev/{name}" for name in nodes)


def _control(machine: MachineFacts, chip: _Chip) -> Iterator[Finding]:
    """Name all control nodes that are missing; which ones a chip needs is the chip's matter."""
    missing = [name for name in _CONTROL if f"/dev/{name}" not in machine.device_nodes]
    needed = chip.family.nodes if chip.family else ("davinci_manager",)
    gone = [name for name in missing if name in needed]
    boards = any(node in machine.device_nodes for node in ("/dev/svm0", "/dev/ts_aisle"))
    if gone:
        if chip.family is None:
            gone = missing
        yield found(
            LINK,
            NO_CONTROL,
            names=", ".join(gone),
            evidence=[Evidence("device", "no such node", path=f"/dev/{name}") for name in gone],
            predicted_errors=[_UNREACHABLE],
            remedy=Text(
                "pass them into the container too: {line}; on bare metal, restart the driver",
                "将它们一并传入容器：{line}；裸机上请重启驱动",
            ).format(line=_docker(gone)),
        )
    elif missing and chip.family is None and not boards:
        yield unknown(
            LINK,
            NO_CONTROL,
            Text(
                "could not tell whether {names} is missed: normal on Ascend 950, a fault on older chips, and the chip "
                "is not known",
                "无法判断缺少 {names} 是否有影响：在昇腾 950 上正常，在更早的芯片上则是故障，而芯片型号未知",
            ).format(names=", ".join(missing)),
            evidence=[Evidence("device", "no such node", path=f"/dev/{name}") for name in missing],
            affects=(),
        )


def _permitted(machine: MachineFacts) -> Iterator[Finding]:
    user = machine.user
    if user is None or user.uid == 0 or not machine.nodes:
        return
    closed = [node for node in machine.nodes if _may_open(node, user.uid, user.gids) is False]
    if not closed:
        return
    group = closed[0].group or (str(closed[0].gid) if closed[0].gid is not None else "HwHiAiUser")
    who = f"uid {user.uid} ({user.name or '?'}), groups {', '.join(user.groups) or ', '.join(map(str, user.gids))}"
    yield found(
        LINK,
        NOT_PERMITTED,
        names=", ".join(node.path for node in closed),
        evidence=[
            *(
                Evidence(
                    "device",
                    f"mode {node.mode or 0:04o}, {node.owner or node.uid}:{node.group or node.gid}",
                    path=node.path,
                )
                for node in closed
            ),
            Evidence("variable", who),
        ],
        predicted_errors=["error code is 207006 (ACL_ERROR_RT_NO_PERMISSION)", _UNREACHABLE],
        remedy=Text(
            "sudo usermod -aG {group} {user} and log in again; in a container: --group-add {gid} (the number counts, "
            "not the name)",
            "sudo usermod -aG {group} {user}，然后重新登录；容器内：--group-add {gid}（以组号为准，而非组名）",
        ).format(group=group, user=user.name or "$USER", gid=closed[0].gid if closed[0].gid is not None else group),
    )


def _may_open(node: DeviceNode, uid: int, gids: tuple[int, ...]) -> bool | None:
    """Whether the node's mode lets this user read and write; None when the mode is not known."""
    if node.mode is None or node.uid is None or node.gid is None:
        return None
    shift = 6 if uid == node.uid else 3 if node.gid in gids else 0
    return node.mode >> shift & 6 == 6


def _driver_files(machine: MachineFacts) -> Iterator[Finding]:
    driver = machine.driver
    if driver is None or driver.hal is not None:
        return
    container = machine.container.is_container if machine.container else None
    runtime = machine.container.ascend_runtime if machine.container else False
    options = machine.environment.get("ASCEND_RUNTIME_OPTIONS", "")
    mounts = {
        "/usr/local/Ascend/driver/lib64": False,
        "/usr/local/dcmi": bool(driver.dcmi),
        "/usr/local/bin/npu-smi": driver.npu_smi is not None,
    }
    if not runtime:
        # The vendor's container runtime leaves these two out; without it they belong to the same command line.
        mounts["/usr/local/Ascend/driver/version.info"] = driver.version_file is not None
        mounts["/etc/ascend_install.info"] = driver.install_info is not None
    missing = [path for path, there in mounts.items() if not there]
    line = " ".join(f"-v {path}:{path}" for path in missing)
    evidence = [Evidence("file", "no libascend_hal.so", path=f"{driver.path}/lib64")]
    if "NODRV" in options:
        evidence.append(Evidence("variable", f"ASCEND_RUNTIME_OPTIONS={options}: the driver is not mounted"))
    yield found(
        LINK,
        NO_HAL,
        evidence=[*evidence, *(Evidence("file", "not mounted", path=path) for path in missing if container)],
        predicted_errors=[
            "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory",
            _UNREACHABLE,
        ],
        remedy=Text(
            "take NODRV out of ASCEND_RUNTIME_OPTIONS and start the container again",
            "从 ASCEND_RUNTIME_OPTIONS 中去掉 NODRV，并重新启动容器",
        )
        if "NODRV" in options
        else Text("mount the host's driver: {line}", "挂载宿主机驱动：{line}").format(line=line)
        if container is not False
        else Text("the driver is not whole: reinstall it", "驱动不完整：请重新安装"),
    )


def _npu_smi(machine: MachineFacts, chip: _Chip) -> Iterator[Finding]:
    smi = machine.npu_smi
    if smi is None or smi.outcome == "absent":
        return  # not mounted is normal in containers, and no proof of anything
    if smi.code == -8020:
        yield _held(smi)
        return
    if smi.outcome == "answered":
        sick = [item for item in smi.chips if item.health not in (None, "OK")]
        if sick:
            states = ", ".join(f"{item.npu}: {item.health}" for item in sick)
            yield found(
                LINK,
                UNHEALTHY,
                count=len(sick),
                states=states,
                evidence=[
                    Evidence("probe", f"NPU {item.npu} {item.name} {item.health}", path=smi.command) for item in sick
                ],
                remedy=Text("npu-smi info -t health -i <id>", "npu-smi info -t health -i <id>"),
            )
        return
    if smi.code is not None:
        yield _unreachable(machine, smi, chip)
        return
    yield _no_answer(smi)


def _said(smi: NpuSmiFacts) -> list[Evidence]:
    how = {
        "failed": f"exit code {smi.exit_code}",
        "killed": f"killed by signal {smi.signal}",
        "timed out": f"no end within {smi.limit:g} s" if smi.limit else "no end",
        "too much": "endless output, stopped",
        "not started": "could not be started",
    }.get(smi.outcome, smi.outcome)
    return [
        Evidence("probe", how, path=smi.command),
        *(Evidence("probe", line, path=smi.command) for line in smi.lines),
    ]


def _held(smi: NpuSmiFacts) -> Finding:
    return found(
        LINK,
        HELD,
        evidence=_said(smi),
        predicted_errors=["Get physical device number failed, err: 87"],
        remedy=Text(
            "stop the container, virtual machine or process that holds it, or take another device",
            "停止占用该设备的容器、虚拟机或进程，或换用其他设备",
        ),
    )


def _unreachable(machine: MachineFacts, smi: NpuSmiFacts, chip: _Chip) -> Finding:
    needed = chip.family.nodes if chip.family else _CONTROL
    complete = all(f"/dev/{name}" in machine.device_nodes for name in needed)
    container = machine.container.is_container if machine.container else None
    both = Text(
        "all nodes are here, so either another container holds the device, or this one lacks the privilege "
        "(--privileged is reported to help); on the host, see whether the driver is loaded",
        "节点齐全，因此要么设备被其他容器占用，要么本容器权限不足（有反馈称 --privileged 有效）；"
        "宿主机上请检查驱动是否加载",
    )
    return found(
        LINK,
        SMI_FAILS,
        what=f"code {smi.code}",
        what_zh=f"错误码 {smi.code}",
        evidence=_said(smi),
        predicted_errors=["error code is 507899 / 207004"],
        remedy=both
        if complete
        else Text("pass the missing nodes into the container: {line}", "将缺少的节点传入容器：{line}").format(
            line=_docker([name for name in needed if f"/dev/{name}" not in machine.device_nodes])
        )
        if container is not False
        else Text("load the driver (lsmod | grep drv_)", "加载驱动（lsmod | grep drv_）"),
    )


def _no_answer(smi: NpuSmiFacts) -> Finding:
    """Say that npu-smi hung, died or wrote garbage: something is wrong, not known what, so it does not decide."""
    titles = {
        "timed out": Text(
            "npu-smi did not answer within {limit:g} s: a busy node or a hanging driver; newer triton-ascend runs "
            "it at import, for up to 100 s",
            "npu-smi 在 {limit:g} 秒内没有响应：节点繁忙或驱动挂起；较新的 triton-ascend 导入时也会运行它，"
            "最长等待 100 秒",
        ).format(limit=smi.limit or 0),
        "killed": Text("npu-smi was killed by signal {signal}", "npu-smi 被信号 {signal} 终止").format(
            signal=smi.signal
        ),
        "too much": Text("npu-smi wrote without end and was stopped", "npu-smi 输出不止，已被终止"),
        "not started": Text("npu-smi could not be started", "npu-smi 无法启动"),
    }
    title = titles.get(
        smi.outcome,
        Text("npu-smi answered with something that is not its table", "npu-smi 的输出不是预期的表格"),
    )
    return unknown(LINK, SMI_FAILS, title, evidence=_said(smi), affects=())


@dataclass(frozen=True)
class _Mask:
    """A mask as CANN reads it: ids up to the first bad item, and why it stopped there."""

    ids: tuple[int, ...]
    bad: str | None = None
    reason: str = ""


def parse_mask(value: str, count: int) -> _Mask:
    """Read ASCEND_RT_VISIBLE_DEVICES by CANN's own rules: ascending, no blanks, end at the first bad item."""
    ids: list[int] = []
    for item in value.split(","):
        reason = ""
        if not item.isascii() or not item.isdigit():
            reason = "blank" if item.strip() != item and item.strip().isdigit() else "not a number"
        elif int(item) >= count:
            reason = "range"
        elif ids and int(item) == ids[-1]:
            reason = "duplicate"
        elif ids and int(item) < ids[-1]:
            reason = "order"
        if reason:
            return _Mask(tuple(ids), item, reason)
        ids.append(int(item))
    return _Mask(tuple(ids))


def _mask(machine: MachineFacts, count: int) -> Iterator[Finding]:
    value = machine.environment.get(_MASK)
    if value is None:
        return
    evidence = [Evidence("variable", f"{_MASK}={value}"), Evidence("device", f"{count} davinci nodes", path="/dev")]
    if not value.strip():
        yield found(
            LINK,
            MASKED,
            variable=_MASK,
            evidence=evidence,
            detail=Text(
                "A launcher empties it for tasks that asked for no NPU; Ray does so for its jobs.",
                "启动器会为未申请 NPU 的任务清空该变量；Ray 的 job 即是如此。",
            ),
            predicted_errors=["torch.npu.is_available() is False"],
            remedy=Text(
                "ask the launcher for NPUs (Ray: resources={{'NPU': 1}}), or keep Ray from writing the mask: "
                "export RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES=1",
                "向启动器申请 NPU（Ray：resources={{'NPU': 1}}），或禁止 Ray 改写该变量："
                "export RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES=1",
            ).format(),
        )
        return
    mask = parse_mask(value, count)
    if mask.bad is None:
        return
    yield _bad_mask(value, mask, count, evidence)


def _bad_mask(value: str, mask: _Mask, count: int, evidence: list[Evidence]) -> Finding:
    what = {
        "blank": Text("CANN stops reading at the blank, so it sees {ids}", "CANN 读到空格即停止，只能看到 {ids}"),
        "not a number": Text(
            "CANN stops reading at {bad!r}, so it sees {ids}", "CANN 读到 {bad!r} 即停止，只能看到 {ids}"
        ),
        "range": Text(
            "there is no device {bad}; valid here: {valid}, counted anew whatever the host's numbers are",
            "没有编号 {bad} 的设备；此处有效编号为 {valid}，重新从 0 计数，与宿主机编号无关",
        ),
        "duplicate": Text("device {bad} stands there twice", "设备 {bad} 重复出现"),
        "order": Text(
            "ids must ascend; CANN stops at {bad}, so it sees {ids}",
            "编号须升序；CANN 读到 {bad} 即停止，只能看到 {ids}",
        ),
    }[mask.reason].format(
        bad=mask.bad,
        valid="0" if count == 1 else f"0-{count - 1}",
        ids=", ".join(map(str, mask.ids)) or "-",
    )
    given = [int(item) for item in re.findall(r"\d+", value)]
    # Physical ids of a whole container: as many as there are devices, so the mask says "all of them".
    ids = [item for item in sorted(set(given)) if item < count] or list(range(min(len(set(given)), count)))
    better = ",".join(map(str, ids))
    finding = found(
        LINK,
        BAD_MASK,
        value=value,
        what=what.en,
        what_zh=what.zh,
        evidence=evidence,
        predicted_errors=[f"set {_MASK}:[{value}] error, input data range[0-{count})"]
        if mask.reason in ("range", "duplicate")
        else [],
        remedy=Text("export {name}={ids}", "export {name}={ids}").format(name=_MASK, ids=better),
    )
    if mask.ids and mask.reason != "range":
        return finding  # fewer devices than meant, but it runs
    return dataclasses.replace(finding, affects=CAPABILITIES, blocks=True)


def _other_masks(machine: MachineFacts) -> Iterator[Finding]:
    """Variables that look like a mask: the container runtime's, and Ray's two spellings."""
    variables = machine.environment
    runtime = machine.container.ascend_runtime if machine.container else False
    bare = machine.container is not None and machine.container.is_container is False
    visible = variables.get("ASCEND_VISIBLE_DEVICES")
    if visible is not None and bare and not runtime:
        yield found(
            LINK,
            MASK_IGNORED,
            variable="ASCEND_VISIBLE_DEVICES",
            what="only the container runtime reads it, when it starts a container",
            what_zh="只有容器运行时在启动容器时读取它",
            evidence=[Evidence("variable", f"ASCEND_VISIBLE_DEVICES={visible}")],
            remedy=Text("export {name}={value}", "export {name}={value}").format(name=_MASK, value=visible),
        )
    yield from _ray_ids(variables)
    older = "RAY_EXPERIMENTAL_NOSET_ASCEND_VISIBLE_DEVICES"
    newer = "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"
    if variables.get(older) and not variables.get(newer):
        yield found(
            LINK,
            MASK_IGNORED,
            variable=older,
            what="it is the spelling of older Ray; newer Ray reads the one with RT",
            what_zh="这是旧版 Ray 的写法；新版 Ray 读取带 RT 的变量",
            evidence=[Evidence("variable", f"{older}={variables[older]}")],
            remedy=Text("export {name}=1", "export {name}=1").format(name=newer),
        )


def _ray_ids(variables: dict[str, str]) -> Iterator[Finding]:
    """Judge Ray's ids: with NOSET Ray hands out the host's ids, while a process behind a mask counts from 0."""
    noset = "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"
    ids = re.findall(r"\d+", variables.get(_MASK, ""))
    if not variables.get(noset) or not ids or ids == [str(number) for number in range(len(ids))]:
        return
    yield found(
        LINK,
        MASK_IGNORED,
        variable=noset,
        what=f"Ray hands out the ids {', '.join(ids)}, behind the mask they count from 0 to {len(ids) - 1}",
        what_zh=f"Ray 给出的编号是 {', '.join(ids)}，而受可见设备变量限制后，编号为 0 到 {len(ids) - 1}",
        evidence=[
            Evidence("variable", f"{noset}={variables[noset]}"),
            Evidence("variable", f"{_MASK}={variables[_MASK]}"),
        ],
        predicted_errors=["Invalid device ID"],
        remedy=Text("map them by their place in the mask: {pairs}", "按其在可见设备列表中的位置换算：{pairs}").format(
            pairs=", ".join(f"{item}→{number}" for number, item in enumerate(ids))
        ),
    )


def _driver_line(machine: MachineFacts, chip: _Chip) -> Iterator[Finding]:
    """Compare driver and CANN by the published rows, within the chip's own track of versions."""
    driver = machine.driver
    version = (driver.version if driver else None) or (machine.npu_smi.driver_version if machine.npu_smi else None)
    toolkit = machine.cann[0] if machine.cann else None
    cann = knowledge.parse_cann((toolkit.version if toolkit else None) or "")
    line = driver_line(version or "")
    if driver is None or version is None or toolkit is None or cann is None or line is None:
        return
    track = "950" if chip.family and chip.family.key == "950" else ""
    rows = [row for row in rows_for_line(cann) if chip.family is None or row.track in ("", track)]
    decisive = [row for row in rows if row.kind == "compatible" and not row.track]
    if not decisive or track or any(line in row.hdk for row in rows):
        return
    inner = re.match(r"V\d+R\d+C\d+", toolkit.inner_version or "")
    if inner and any(item.startswith(inner[0]) for item in driver.compatible):
        return  # the driver's own list names this toolkit
    yield found(
        LINK,
        DRIVER_OFF_TABLE,
        driver=version,
        cann=toolkit.version,
        evidence=[
            *at(Place(driver.version_file, None, f"driver {version}") if driver.version_file else None),
            Evidence("file", f"CANN {toolkit.version}", path=toolkit.version_file or toolkit.path),
            *(
                Evidence(
                    "knowledge", f"CANN {row.cann} with driver {', '.join(row.hdk)} ({row.date})", source=row.source
                )
                for row in rows
            ),
        ],
        predicted_errors=["SetDevice ... error code is 507033"],
        remedy=Text(
            "either bring CANN to the line of driver {driver}, or the driver to one that CANN {cann} lists ({hdk}); "
            "flexdoctor never changes a driver",
            "二选一：将 CANN 升级或降级到与驱动 {driver} 配套的版本，或更换为 CANN {cann} 列出的驱动（{hdk}）；"
            "flexdoctor 不会改动驱动",
        ).format(
            driver=version, cann=toolkit.version, hdk=", ".join(dict.fromkeys(v for row in rows for v in row.hdk))
        ),
    )


def _target(facts: Facts, machine: MachineFacts, chip: _Chip) -> Iterator[Finding]:
    override = machine.environment.get("TRITON_ASCEND_ARCH")
    if override and override not in arch_overrides() and facts.triton.ascend_backend is not None:
        yield found(
            LINK,
            BAD_ARCH,
            value=override,
            evidence=[Evidence("variable", f"TRITON_ASCEND_ARCH={override}")],
            predicted_errors=[f"ValueError: {override} is invalid!Candidates are [...]"],
            remedy=Text("unset TRITON_ASCEND_ARCH", "unset TRITON_ASCEND_ARCH"),
        )
    family = chip.family
    if family is None or family.triton in ("documented", "recent"):
        return
    evidence = [
        *chip.evidence,
        Evidence("knowledge", f"Ascend {family.key}: {family.triton} ({family.date})", source=family.source),
    ]
    if family.triton == "undocumented":
        yield unknown(
            LINK,
            NOT_A_TARGET,
            Text(
                "could not tell whether triton compiles for {chip}: only the compiler's development branch names it",
                "无法判断 triton 是否支持 {chip}：仅编译器的开发分支列出了它",
            ).format(chip=chip.label),
            evidence=evidence,
        )
        return
    yield found(
        LINK,
        NOT_A_TARGET,
        chip=chip.label,
        evidence=evidence,
        detail=Text(
            "It never was a target of its compiler, in any release; eager attention is not concerned.",
            "其编译器的任何版本都不支持该芯片；eager 模式不受影响。",
        ),
        predicted_errors=[f"Cannot find option named 'Ascend{(chip.name or family.key).removeprefix('Ascend')}'!"],
        remedy=Text(
            "use eager attention here; compiled flex_attention needs Atlas A2, A3 or a newer product",
            "在此使用 eager 注意力；编译版 flex_attention 需要 Atlas A2、A3 或更新的产品",
        ),
    )


def _two_drivers(facts: Facts, machine: MachineFacts) -> Iterator[Finding]:
    """transfer_to_npu answers for CUDA, so the nvidia backend takes itself for active beside Ascend's."""
    value = machine.environment.get("TORCH_TRANSFER_TO_NPU", "")
    backend = facts.triton.ascend_backend
    if value not in ("1", "true", "True", "TRUE") or backend is None or "nvidia" not in facts.triton.backends:
        return
    yield found(
        LINK,
        TWO_DRIVERS,
        backend=backend,
        evidence=[
            Evidence("variable", f"TORCH_TRANSFER_TO_NPU={value}"),
            *(
                Evidence("file", "backend", path=f"{facts.triton.path}/backends/{name}")
                for name in ("nvidia", backend)
                if facts.triton.path
            ),
        ],
        detail=Text(
            "The shim makes torch.cuda.is_available() true; this is no CUDA build of torch.",
            "适配层 transfer_to_npu 使 torch.cuda.is_available() 返回 True；这并非 CUDA 版 torch。",
        ),
        predicted_errors=["RuntimeError: 2 active drivers (...). There should only be one."],
        remedy=Text(
            "unset TORCH_TRANSFER_TO_NPU, or remove triton/backends/nvidia",
            "unset TORCH_TRANSFER_TO_NPU，或移除 triton/backends/nvidia",
        ),
    )


def _visible(machine: MachineFacts, devices: list[str], chip: _Chip) -> Finding:
    value = machine.environment.get(_MASK)
    count = len(devices) if value is None else len(parse_mask(value, len(devices)).ids)
    notes = NOTHING
    driver = machine.driver
    if driver is not None and driver.version is None and not (machine.npu_smi and machine.npu_smi.driver_version):
        notes += Text(
            "The driver's version is unknown: its version.info is not visible here, which the container runtime "
            "leaves out.",
            "驱动版本未知：此处看不到 version.info，容器运行时默认不挂载它。",
        )
    holes = [int(node.removeprefix("/dev/davinci")) for node in devices]
    if sorted(holes) != list(range(len(holes))):
        notes += Text(
            "The nodes carry the host's numbers ({ids}); programs count them from 0.",
            "节点名沿用宿主机编号（{ids}）；程序内从 0 开始计数。",
        ).format(ids=", ".join(map(str, sorted(holes))))
    what = f" × {chip.label}" if chip.family or chip.name else ""
    return passed(
        LINK,
        Text("{count} of {all} Ascend devices visible{what}", "可见 {count}/{all} 个昇腾设备{what}").format(
            count=count, all=len(devices), what=f" ({chip.label})" if what else ""
        ),
        evidence=[*(Evidence("device", "present", path=node) for node in devices), *chip.evidence],
        detail=notes,
    )


CHECK = Check(
    link=LINK,
    title=Text("devices", "设备"),
    question=Text(
        "Are there Ascend devices that this process may use, and can triton compile for them?",
        "是否有本进程可用的昇腾设备，triton 能否为其编译？",
    ),
    faults=(
        NO_DEVICE,
        NO_CONTROL,
        NOT_LOADED,
        NO_HAL,
        SMI_FAILS,
        NOT_A_TARGET,
        MASKED,
        BAD_MASK,
        NOT_PERMITTED,
        DRIVER_OFF_TABLE,
        UNHEALTHY,
        HELD,
        MASK_IGNORED,
        TWO_DRIVERS,
        BAD_ARCH,
    ),
    examine=examine,
    pages=Path(__file__).with_suffix(".toml"),
)
