"""Link 3: is CANN here and in use, whole, and of the line that the packages were made for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from flexdoctor.chain import Check
from flexdoctor.checks._words import metadata, unreadable
from flexdoctor.facts import (
    CannInstallation,
    Distribution,
    Facts,
    LinkageFacts,
    MachineFacts,
    Unread,
    VariablePath,
)
from flexdoctor.findings import CAPABILITIES, COMPILED, Evidence, Fault, Finding, found, passed, skipped, unknown
from flexdoctor.knowledge import cann as knowledge
from flexdoctor.knowledge.chips import ChipFamily, family_of_chip, family_of_pci
from flexdoctor.text import NOTHING, Text

LINK = "cann"

NO_ASCEND = Fault(
    "FD121",
    Text(
        "there is no CANN and no Ascend device on this machine",
        "本机没有 CANN，也没有昇腾设备",
    ),
    affects=CAPABILITIES,
)
NOT_INSTALLED = Fault(
    "FD122",
    Text("CANN is not installed, although Ascend devices are here", "有昇腾设备，但未安装 CANN"),
    affects=CAPABILITIES,
)
NOT_SOURCED = Fault(
    "FD123",
    Text("CANN {version} is installed but not sourced", "CANN {version} 已安装但未加载环境变量"),
    affects=CAPABILITIES,
)
GONE = Fault(
    "FD124",
    Text("ASCEND_HOME_PATH names {path}, which is not a CANN toolkit", "ASCEND_HOME_PATH 指向 {path}，但那里没有 CANN"),
    affects=CAPABILITIES,
)
MIXED = Fault(
    "FD125",
    Text(
        "two CANN toolkits are mixed: ASCEND_HOME_PATH is {home}, {variable} comes from {other}",
        "混用了两套 CANN：ASCEND_HOME_PATH 为 {home}，而 {variable} 来自 {other}",
    ),
    affects=CAPABILITIES,
)
HALF_SOURCED = Fault(
    "FD126",
    Text("CANN {version} is sourced only in part: {what}", "CANN {version} 的环境变量只设置了一部分：{what_zh}"),
    affects=CAPABILITIES,
)
REFUSED = Fault(
    "FD127",
    Text(
        "torch-npu will refuse this CANN when it is imported: {what}",
        "torch-npu 导入时会拒绝此 CANN：{what_zh}",
    ),
    affects=CAPABILITIES,
)
NNAL = Fault(
    "FD128",
    Text("NNAL (ATB) is not usable: {what}", "NNAL（ATB）不可用：{what_zh}"),
    severity="warning",
    blocks=False,
)
STUB_FIRST = Fault(
    "FD129",
    Text(
        "the stub of the driver library is found before the driver's own",
        "驱动库的桩文件（devlib）先于真正的驱动库被找到",
    ),
    affects=CAPABILITIES,
)
NO_KERNELS = Fault(
    "FD141",
    Text(
        "CANN {version} has no operator kernels for {chip}",
        "CANN {version} 没有{chip_zh}的算子包",
    ),
    affects=CAPABILITIES,
)
NPU_OFF_TABLE = Fault(
    "FD142",
    Text(
        "no published table pairs torch-npu {npu} with CANN {cann}",
        "公开的配套表中没有 torch-npu {npu} 与 CANN {cann} 的组合",
    ),
    severity="warning",
    blocks=False,
)
TRITON_OFF_TABLE = Fault(
    "FD143",
    Text(
        "no published table pairs triton-ascend {triton} with CANN {cann}",
        "公开的配套表中没有 triton-ascend {triton} 与 CANN {cann} 的组合",
    ),
    severity="warning",
    blocks=False,
)
BREAK = Fault(
    "FD144",
    Text(
        "{package} {version} is known not to work with CANN {cann}",
        "已知 {package} {version} 无法与 CANN {cann} 一起工作",
    ),
    affects=COMPILED,
    blocks=False,
)
TORCH_SYMBOLS = Fault(
    "FD145",
    Text(
        "torch-npu {npu} needs symbols ({count}) that the installed torch {torch} does not have",
        "torch-npu {npu} 需要的 {count} 个符号在已安装的 torch {torch} 中不存在",
    ),
    affects=CAPABILITIES,
)
CANN_SYMBOLS = Fault(
    "FD146",
    Text(
        "torch-npu {npu} needs symbols ({count}) that CANN {cann} does not export",
        "torch-npu {npu} 需要的 {count} 个符号在 CANN {cann} 中未导出",
    ),
    affects=CAPABILITIES,
)
PYTHON_NEEDS = Fault(
    "FD147",
    Text(
        "CANN's operator compiler lacks Python packages: {names}",
        "CANN 的算子编译器缺少 Python 包：{names}",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
NUMPY_MAJOR = Fault(
    "FD148",
    Text(
        "{package} {version} is too new for CANN {cann}, which asks for less than {below}",
        "{package} {version} 对 CANN {cann} 过新，后者要求低于 {below}",
    ),
    affects=CAPABILITIES,
    blocks=False,
)
NO_COMPILER = Fault(
    "FD149",
    Text(
        "{program} is not found where triton-ascend looks for it",
        "在 triton-ascend 查找的位置找不到 {program}",
    ),
    affects=COMPILED,
    blocks=False,
)

_LIBRARY_ERROR = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
_AUTOLOAD_ERROR = "RuntimeError: Failed to load the backend extension: torch_npu."
_COMPILER_START_ERROR = "RuntimeError: ... error code is 500001"


def examine(facts: Facts) -> Iterator[Finding]:
    """Tell apart: not installed, not sourced, sourced but gone, and a toolkit in use that does not fit."""
    machine = facts.machine
    if machine is None:
        yield from _linkage(facts, None)
        yield skipped(LINK, Text("the machine is not examined (--root)", "未检查机器（--root）"))
        return
    home = machine.environment.get("ASCEND_HOME_PATH")
    in_use = _in_use(machine)
    if in_use is None:
        yield _out_of_use(facts, machine, home)
        if home is None and machine.cann and not _library_entries(machine):
            yield from _fit(facts, machine.cann[0])
        yield from _linkage(facts, machine.cann[0] if machine.cann else None)
        return
    findings = [
        *_half_sourced(machine, in_use),
        *_refused(facts, machine, in_use),
        *_mixed(machine, in_use),
        *_stub_first(machine),
        *_nnal(facts, machine),
        *_kernels(machine, in_use),
        *_fit(facts, in_use),
        *_compilers(facts, machine, in_use),
        *_linkage(facts, in_use),
    ]
    yield from findings
    if not any(item.status == "fail" and item.blocks for item in findings):
        yield _sourced(machine, in_use)


def _in_use(machine: MachineFacts) -> CannInstallation | None:
    """Return the toolkit that ASCEND_HOME_PATH leads to, by whatever link."""
    home = machine.environment.get("ASCEND_HOME_PATH")
    if not home:
        return None
    path = next((item.toolkit for item in machine.variable_paths if item.variable == "ASCEND_HOME_PATH"), None)
    wanted = path or home.rstrip("/")
    return next((item for item in machine.cann if item.path == wanted), None)


def _errors(facts: Facts) -> list[str]:
    return [_AUTOLOAD_ERROR, _LIBRARY_ERROR] if facts.torch_npu else []


def _out_of_use(facts: Facts, machine: MachineFacts, home: str | None) -> Finding:
    errors = _errors(facts)
    if closed := _closed(machine, home):
        return unknown(
            LINK,
            NOT_INSTALLED,
            Text(
                "could not tell which CANN is here: {path} cannot be read by this user",
                "无法判断此处的 CANN：当前用户无法读取 {path}",
            ).format(path=closed[0].path),
            evidence=unreadable(closed),
        )
    if home is not None:
        rule = knowledge.import_rules()["ASCEND_HOME_PATH"]
        here = any(item.exists for item in machine.variable_paths if item.variable == "ASCEND_HOME_PATH")
        predicted = [] if here or not errors else [f"Exception: {rule.raises.format(path=home)}"]
        return found(
            LINK,
            GONE,
            path=home,
            evidence=[
                Evidence("variable", f"ASCEND_HOME_PATH={home}"),
                Evidence("file", "no toolkit here" if here else "no such folder", path=home),
                *_installed(machine),
            ],
            predicted_errors=predicted or errors,
            remedy=_source(machine.cann[0])
            if machine.cann
            else Text("install CANN, or unset the variable", "请安装 CANN，或取消该变量"),
        )
    if machine.cann:
        return _not_sourced(machine, errors)
    if machine.device_nodes:
        return found(
            LINK,
            NOT_INSTALLED,
            evidence=[Evidence("device", "present", path=node) for node in machine.device_nodes],
            predicted_errors=errors,
            remedy=_install(facts),
        )
    return _no_ascend(machine, errors)


def _closed(machine: MachineFacts, home: str | None) -> list[Unread]:
    """Return the places of CANN that could not be read; nothing can be said of what they hold."""
    if machine.cann and home is None:
        return []
    places = tuple(item for item in (home, "/usr/local/Ascend") if item)
    own = [item for item in machine.unread if "/driver" not in item.path]
    return [item for item in own if item.path.startswith(places) or re.search(r"/Ascend(/|$)", item.path)]


def _install(facts: Facts) -> Text:
    version = _version(facts, "torch-npu")
    lines = dict.fromkeys(row.cann for row in knowledge.rows_for("torch-npu", version))
    if lines:
        return Text(
            "install the CANN toolkit and the ops package of your chip (torch-npu {npu} was released with "
            "CANN {cann}), then source its set_env.sh",
            "请安装 CANN toolkit 及本芯片的 ops 包（torch-npu {npu} 配套 CANN {cann}），然后 source 其 set_env.sh",
        ).format(npu=version, cann=", ".join(lines))
    return Text(
        "install the CANN toolkit that this torch-npu was released with, then source its set_env.sh",
        "请安装与此 torch-npu 配套的 CANN toolkit，然后 source 其 set_env.sh",
    )


def _not_sourced(machine: MachineFacts, errors: list[str]) -> Finding:
    first = machine.cann[0]
    if entries := _library_entries(machine):
        # The libraries load, and torch-npu only warns; triton's launcher has no folder to take headers from.
        finding = found(
            LINK,
            HALF_SOURCED,
            version=first.version or "?",
            what="LD_LIBRARY_PATH names it, ASCEND_HOME_PATH is not set",
            what_zh="LD_LIBRARY_PATH 指向它，但未设置 ASCEND_HOME_PATH",
            evidence=[Evidence("variable", f"{item.variable} has {item.path}") for item in entries],
            predicted_errors=[
                "EnvironmentError: ASCEND_HOME_PATH is not set, source <ascend-toolkit>/set_env.sh first"
            ],
            remedy=_source(first),
        )
        return dataclasses.replace(finding, affects=COMPILED)
    return found(
        LINK,
        NOT_SOURCED,
        version=first.version or "",
        evidence=[Evidence("variable", "ASCEND_HOME_PATH is not set"), *_installed(machine)],
        predicted_errors=errors,
        remedy=_source(first),
    )


def _installed(machine: MachineFacts) -> Iterator[Evidence]:
    for item in machine.cann:
        yield Evidence("file", f"CANN {item.version or 'of unknown version'}", path=item.path)
        if item.libraries:
            yield Evidence("file", "present", path=f"{item.path}/lib64/{item.libraries[0]}")


def _source(toolkit: CannInstallation) -> Text:
    if toolkit.set_env is None:
        return Text("source the set_env.sh of your CANN", "请 source CANN 的 set_env.sh")
    return Text("source {script}", "source {script}").format(script=toolkit.set_env)


def _library_entries(machine: MachineFacts) -> list[VariablePath]:
    """Return where the loader looks that lies in a toolkit's own libraries."""
    return [
        item
        for item in machine.variable_paths
        if item.variable in ("LD_LIBRARY_PATH", "ld.so.conf")
        and item.exists
        and item.kind == "toolkit"
        and re.search(r"/lib64/?$", item.path)
    ]


def _no_ascend(machine: MachineFacts, errors: list[str]) -> Finding:
    autoload_off = machine.environment.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0"
    on_bus = Text(
        "Ascend chips are on the PCI bus, but neither driver nor CANN is here: {ids}.",
        "PCI 总线上有昇腾芯片，但此处既没有驱动也没有 CANN：{ids}。",
    ).format(ids=", ".join(machine.pci or ()))
    nothing = Text(
        "Nothing can run on an NPU here; what follows judges the packages alone.",
        "此处无法在 NPU 上运行；以下仅判断软件包本身。",
    )
    return found(
        LINK,
        NO_ASCEND,
        machine_only=True,
        evidence=[
            Evidence("device", "no davinci device node", path="/dev"),
            Evidence("variable", "ASCEND_HOME_PATH is not set"),
            Evidence("file", "no CANN toolkit here", path="/usr/local/Ascend"),
        ],
        predicted_errors=[] if autoload_off else errors,
        detail=on_bus + nothing if machine.pci else nothing,
        remedy=Text(
            "to use torch here without an NPU: export TORCH_DEVICE_BACKEND_AUTOLOAD=0, or uninstall torch-npu",
            "若要在没有 NPU 的此环境使用 torch：export TORCH_DEVICE_BACKEND_AUTOLOAD=0，或卸载 torch-npu",
        )
        if errors
        else Text("run flexdoctor on the Ascend machine", "请在昇腾机器上运行 flexdoctor"),
    )


def _sourced(machine: MachineFacts, toolkit: CannInstallation) -> Finding:
    evidence = [Evidence("variable", f"ASCEND_HOME_PATH={machine.environment.get('ASCEND_HOME_PATH')}")]
    if toolkit.version_file:
        evidence.append(Evidence("file", f"version={toolkit.version}", path=toolkit.version_file))
    notes = NOTHING
    if toolkit.other_versions:
        notes += Text("Its files disagree on the version: {files}.", "其自身文件中的版本不一致：{files}。").format(
            files="; ".join(toolkit.other_versions)
        )
    others = dict.fromkeys(
        item.toolkit for item in _library_entries(machine) if item.toolkit and item.toolkit != toolkit.path
    )
    if others:
        notes += Text("Behind it LD_LIBRARY_PATH also names {others}.", "LD_LIBRARY_PATH 中其后还有 {others}。").format(
            others=", ".join(others)
        )
    return passed(
        LINK,
        Text("{version} at {path}, sourced", "{version}，位于 {path}，已加载环境变量").format(
            version=toolkit.version or "?", path=toolkit.path
        ),
        evidence=evidence,
        detail=notes,
    )


def _half_sourced(machine: MachineFacts, toolkit: CannInstallation) -> Iterator[Finding]:
    """ASCEND_HOME_PATH is right, but the loader is not told where the libraries are."""
    if not toolkit.libraries or not machine.variable_paths or _library_entries(machine):
        return
    stale = [item for item in machine.variable_paths if item.variable == "LD_LIBRARY_PATH" and not item.exists]
    yield found(
        LINK,
        HALF_SOURCED,
        version=toolkit.version or "?",
        what="LD_LIBRARY_PATH does not name its lib64",
        what_zh="LD_LIBRARY_PATH 中没有它的 lib64",
        evidence=[
            Evidence("file", "not on LD_LIBRARY_PATH", path=f"{toolkit.path}/lib64/{toolkit.libraries[0]}"),
            *(Evidence("variable", f"LD_LIBRARY_PATH has {item.path}, which is gone") for item in stale),
        ],
        predicted_errors=[_LIBRARY_ERROR],
        remedy=_source(toolkit),
    )


def _refused(facts: Facts, machine: MachineFacts, toolkit: CannInstallation) -> Iterator[Finding]:
    """Apply torch-npu's own rules at import, in its order; the first that fails is what a user sees."""
    if facts.torch_npu is None:
        return
    rules = knowledge.import_rules()
    home = machine.environment.get("ASCEND_HOME_PATH", "").rstrip("/")
    operators = machine.environment.get("ASCEND_OPP_PATH")
    there = next((item.exists for item in machine.variable_paths if item.variable == "ASCEND_OPP_PATH"), None)
    broken: tuple[str, str, str] | None = None
    if operators is None:
        broken = ("ASCEND_OPP_PATH set", "ASCEND_OPP_PATH is not set", "")
    elif there is False:
        broken = ("ASCEND_OPP_PATH", f"ASCEND_OPP_PATH={operators} does not exist", operators)
    elif toolkit.has_runtime is False:
        broken = ("runtime", f"{home}/runtime does not exist", f"{home}/runtime")
    elif toolkit.has_compiler is False:
        broken = ("compiler", f"{home}/compiler does not exist", f"{home}/compiler")
    if broken is None:
        return
    asks, what, path = broken
    rule = rules[asks]
    yield found(
        LINK,
        REFUSED,
        what=what,
        what_zh=f"未设置 {what.split()[0]}" if asks.endswith(" set") else what.replace(" does not exist", " 不存在"),
        evidence=[
            Evidence("variable", what) if asks.startswith("ASCEND") else Evidence("file", "no such folder", path=path),
            Evidence("knowledge", f"torch-npu asks for it at import ({rule.date})", source=rule.source),
        ],
        predicted_errors=[_AUTOLOAD_ERROR, f"Exception: {rule.raises.format(path=path)}"],
        remedy=_source(toolkit)
        if asks.startswith("ASCEND")
        else Text(
            "the toolkit is not whole: reinstall CANN {version}", "toolkit 不完整：请重新安装 CANN {version}"
        ).format(version=toolkit.version or ""),
    )


def _mixed(machine: MachineFacts, toolkit: CannInstallation) -> Iterator[Finding]:
    """Name the first variable whose first toolkit is another one than ASCEND_HOME_PATH's."""
    libraries = [item for item in _library_entries(machine) if item.variable == "LD_LIBRARY_PATH"]
    operators = [item for item in machine.variable_paths if item.variable == "ASCEND_OPP_PATH" and item.toolkit]
    programs = [item for item in machine.variable_paths if item.variable == "PATH" and item.kind == "toolkit"]
    for first in (item[0] for item in (libraries, operators, programs) if item):
        if first.toolkit == toolkit.path:
            continue
        other = next((item for item in machine.cann if item.path == first.toolkit), None)
        finding = found(
            LINK,
            MIXED,
            home=f"{toolkit.version or '?'} ({toolkit.path})",
            variable=first.variable,
            other=f"{other.version if other else '?'} ({first.toolkit})",
            evidence=[
                Evidence("variable", f"ASCEND_HOME_PATH={machine.environment.get('ASCEND_HOME_PATH')}"),
                Evidence("variable", f"{first.variable} has {first.path} first"),
            ],
            remedy=Text(
                "open a new shell and source one script only: {script}", "新开终端，只 source 一个脚本：{script}"
            ).format(script=toolkit.set_env or "set_env.sh"),
        )
        yield finding if first.variable != "PATH" else dataclasses.replace(finding, affects=COMPILED, blocks=False)
        return


def _stub_first(machine: MachineFacts) -> Iterator[Finding]:
    """Find the toolkit's own libascend_hal.so before the driver's: it only serves linking, and hides every device."""
    if not any(re.fullmatch(r"/dev/davinci\d+", node) for node in machine.device_nodes):
        return
    searched = [item for item in machine.variable_paths if item.variable == "LD_LIBRARY_PATH" and item.exists]
    first = next((item for item in searched if item.kind in ("stub", "driver")), None)
    if first is None or first.kind != "stub" or machine.driver is None or machine.driver.hal is None:
        return
    folder = machine.driver.hal.rpartition("/")[0]
    yield found(
        LINK,
        STUB_FIRST,
        evidence=[
            Evidence("variable", f"LD_LIBRARY_PATH has {first.path} before the driver"),
            Evidence("file", "the driver's own", path=machine.driver.hal),
        ],
        predicted_errors=["error code is 100039 (ACL_ERROR_COMPILING_STUB_MODE)"],
        remedy=Text(
            "put the driver first: export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH",
            "将驱动目录放在最前：export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH",
        ).format(folder=folder),
    )


def _nnal(facts: Facts, machine: MachineFacts) -> Iterator[Finding]:
    """ATB operators are not flex_attention's, so this never decides; it is the next thing that people run into."""
    home = machine.environment.get("ATB_HOME_PATH")
    package = machine.nnal[0] if machine.nnal else None
    script = package.set_env if package else None
    source = Text("source {script}", "source {script}").format(script=script) if script else NOTHING
    error = "OSError: libatb.so: cannot open shared object file: No such file or directory"
    if home is None:
        if package is not None and facts.torch_npu is not None:
            yield found(
                LINK,
                NNAL,
                what=f"{package.version or package.path} is installed but not sourced",
                what_zh=f"{package.version or package.path} 已安装但未加载环境变量",
                evidence=[
                    Evidence("variable", "ATB_HOME_PATH is not set"),
                    Evidence("file", f"NNAL {package.version or '?'}", path=package.path),
                ],
                predicted_errors=[error],
                remedy=source,
            )
        return
    entry = next((item for item in machine.variable_paths if item.variable == "ATB_HOME_PATH"), None)
    if entry is not None and not entry.exists:
        yield found(
            LINK,
            NNAL,
            what=f"ATB_HOME_PATH names {home}, which is gone",
            what_zh=f"ATB_HOME_PATH 指向的 {home} 不存在",
            evidence=[Evidence("variable", f"ATB_HOME_PATH={home}")],
            predicted_errors=[error],
            remedy=source,
        )
        return
    abi = re.search(r"cxx_abi_([01])/?$", home)
    wanted = knowledge.torch_abi(facts.torch.version) if facts.torch else None
    if abi and wanted is not None and int(abi[1]) != wanted:
        yield found(
            LINK,
            NNAL,
            what=f"it was sourced for C++ ABI {abi[1]}, torch is built with ABI {wanted}",
            what_zh=f"加载的是 C++ ABI {abi[1]}，而 torch 以 ABI {wanted} 构建",
            evidence=[Evidence("variable", f"ATB_HOME_PATH={home}")],
            predicted_errors=["OSError: ... undefined symbol: _ZN3Mki..."],
            remedy=Text("source {script} --cxx_abi={abi}", "source {script} --cxx_abi={abi}").format(
                script=script or "nnal/atb/set_env.sh", abi=wanted
            ),
        )


def _family(machine: MachineFacts) -> tuple[ChipFamily | None, str | None]:
    """Return the family of this machine's chips and one chip's name."""
    name = next((chip.name for chip in machine.npu_smi.chips), None) if machine.npu_smi else None
    return family_of_pci(machine.pci or ()) or (family_of_chip(name) if name else None), name


def _kernels(machine: MachineFacts, toolkit: CannInstallation) -> Iterator[Finding]:
    if toolkit.kernels is None or not any(re.fullmatch(r"/dev/davinci\d+", node) for node in machine.device_nodes):
        return
    family, name = _family(machine)
    folder = next(iter(toolkit.kernel_folder_of.values()), None) or (family.kernel_folder if family else None)
    if toolkit.kernels and (folder is None or folder in toolkit.kernels):
        return
    kernels = f"{toolkit.path}/opp/built-in/op_impl/ai_core/tbe/kernel"
    chip = name or (f"Ascend {family.key}" if family else None)
    version = knowledge.parse_cann(toolkit.version or "")
    package = family.ops_package if family else "<chip>"
    separate = version is not None and (version.major, version.minor) < (8, 5)
    archive = f"Ascend-cann-kernels-{package}" if separate else f"Ascend-cann-{package}-ops"
    yield found(
        LINK,
        NO_KERNELS,
        version=toolkit.version or "?",
        chip=chip or "any chip",
        chip_zh=f" {chip} " if chip else "任何芯片",
        evidence=[
            Evidence("file", f"holds {', '.join(toolkit.kernels) or 'no kernels'}", path=kernels),
            *([Evidence("file", "no such folder", path=f"{kernels}/{folder}")] if folder else []),
        ],
        detail=Text(
            "The folders below kernel/config come with the toolkit for every chip and prove nothing.",
            "kernel/config 下的目录由 toolkit 为所有芯片自带，不能作为依据。",
        ),
        predicted_errors=["Op Cast does not has any binary", "error code is 561000 / 561112"],
        remedy=Text(
            "install the operator package of this chip and this CANN: {archive}_{version}",
            "请安装与此芯片、此 CANN 版本一致的算子包：{archive}_{version}",
        ).format(archive=archive, version=toolkit.version or ""),
    )


def _dist(facts: Facts, name: str) -> Distribution | None:
    return facts.packages.find(name)


def _version(facts: Facts, name: str) -> str:
    dist = _dist(facts, name)
    if dist is not None:
        return dist.version
    return facts.torch_npu.version if name == "torch-npu" and facts.torch_npu else ""


def _fit(facts: Facts, toolkit: CannInstallation) -> Iterator[Finding]:
    """Judge what the toolkit's version says about the packages."""
    cann = knowledge.parse_cann(toolkit.version or "")
    if facts.torch_npu is not None:
        yield from _python_needs(facts, cann)
    if cann is None:
        return
    yield from _numpy(facts, toolkit, cann)
    yield from _npu_line(facts, toolkit, cann)
    yield from _triton_line(facts, toolkit, cann)


def _rows(rows: Iterable[knowledge.Pair], package: str) -> list[Evidence]:
    return [
        Evidence(
            "knowledge", f"{package} {row.version} with CANN {row.cann} ({row.standing}, {row.date})", source=row.source
        )
        for row in rows
    ]


def _of(toolkit: CannInstallation) -> Evidence:
    return Evidence("file", f"version={toolkit.version}", path=toolkit.version_file or toolkit.path)


def _npu_line(facts: Facts, toolkit: CannInstallation, cann: knowledge.CannVersion) -> Iterator[Finding]:
    version = _version(facts, "torch-npu")
    if not version:
        return
    rows = knowledge.rows_for("torch-npu", version)
    if any((other := knowledge.parse_cann(row.cann)) and other.line == cann.line for row in rows):
        return
    linkage = facts.linkage
    proven = linkage is not None and not linkage.absent and not linkage.missing and not linkage.unread
    if not rows:
        if not proven:
            yield unknown(
                LINK,
                NPU_OFF_TABLE,
                Text(
                    "CANN {cann}: no published table names torch-npu {npu} yet; --deep compares the libraries",
                    "CANN {cann}：公开的配套表尚未列出 torch-npu {npu}；可用 --deep 比对库符号",
                ).format(npu=version, cann=toolkit.version),
                evidence=[_of(toolkit)],
            )
        return
    yield found(
        LINK,
        NPU_OFF_TABLE,
        npu=version,
        cann=toolkit.version,
        evidence=[_of(toolkit), *_rows(rows, "torch-npu")],
        detail=Text(
            "All symbols that it needs are exported here, so it may work.",
            "它所需的符号在此均已导出，可能可以工作。",
        )
        if proven
        else Text(
            "Off the table is not proof of a fault; --deep compares the libraries.",
            "不在表中并不等于故障；可用 --deep 比对库符号。",
        ),
        remedy=_repair_line(facts, version, rows, cann, toolkit),
    )


def _repair_line(
    facts: Facts,
    version: str,
    rows: tuple[knowledge.Pair, ...],
    cann: knowledge.CannVersion,
    toolkit: CannInstallation,
) -> Text:
    """Both ways to a pair of the table: the torch-npu for this CANN, or the CANN for this torch-npu."""
    base = version.partition(".post")[0]
    lines = " / ".join(dict.fromkeys(row.cann for row in rows))
    fitting = [
        row.version for row in knowledge.rows_for_cann("torch-npu", cann) if row.version.partition(".post")[0] == base
    ]
    if fitting:
        return Text(
            "install torch-npu {fitting} (listed for CANN {here}), or CANN {lines}",
            "安装 torch-npu {fitting}（与 CANN {here} 配套），或改用 CANN {lines}",
        ).format(fitting=" / ".join(dict.fromkeys(fitting)), here=toolkit.version, lines=lines)
    return Text(
        "use CANN {lines}, for which torch-npu {npu} is listed", "改用与 torch-npu {npu} 配套的 CANN {lines}"
    ).format(lines=lines, npu=version)


def _triton_line(facts: Facts, toolkit: CannInstallation, cann: knowledge.CannVersion) -> Iterator[Finding]:
    dist = _dist(facts, "triton-ascend")
    if dist is None:
        return
    for row in knowledge.breaks("triton-ascend", dist.version, cann):
        yield found(
            LINK,
            BREAK,
            package="triton-ascend",
            version=dist.version,
            cann=toolkit.version,
            evidence=[
                metadata(dist, f"Version: {dist.version}"),
                _of(toolkit),
                Evidence("knowledge", f"{row.statement} ({row.date})", source=row.source),
            ],
            remedy=_newer_triton(facts, row.instead),
        )
        return
    rows = knowledge.rows_for("triton-ascend", dist.version)
    if any((other := knowledge.parse_cann(row.cann)) and other.line == cann.line for row in rows):
        return
    fitting = [row.version for row in knowledge.rows_for_cann("triton-ascend", cann)]
    if not rows:
        yield unknown(
            LINK,
            TRITON_OFF_TABLE,
            Text(
                "CANN {cann}: no published table names triton-ascend {triton}",
                "CANN {cann}：公开的配套表未列出 triton-ascend {triton}",
            ).format(triton=dist.version, cann=toolkit.version),
            evidence=[metadata(dist, f"Version: {dist.version}"), _of(toolkit)],
        )
        return
    yield found(
        LINK,
        TRITON_OFF_TABLE,
        triton=dist.version,
        cann=toolkit.version,
        evidence=[metadata(dist, f"Version: {dist.version}"), _of(toolkit), *_rows(rows, "triton-ascend")],
        remedy=_newer_triton(facts, knowledge.best(fitting)) if fitting else NOTHING,
    )


def _newer_triton(facts: Facts, version: str) -> Text:
    python = facts.interpreter.executable or "python"
    index = knowledge.extra_index("triton-ascend", version)
    if index is None:
        return Text(*[f"{python} -m pip install triton-ascend=={version} --no-deps"] * 2)
    return Text(
        "{python} -m pip install triton-ascend=={version} --no-deps --extra-index-url {index} "
        "(the default index does not have it; both on one command line)",
        "{python} -m pip install triton-ascend=={version} --no-deps --extra-index-url {index}"
        "（默认软件源没有该版本；软件源参数须写在同一条命令里）",
    ).format(python=python, version=version, index=index)


def _python_needs(facts: Facts, cann: knowledge.CannVersion | None) -> Iterator[Finding]:
    """Name all missing packages at once; the error that they lead to names none of them."""
    modules = facts.packages.modules
    absent = [
        need
        for need in knowledge.python_needs()
        if need.level != "unjudged" and facts.packages.find(need.name) is None and need.module not in (modules or ())
    ]
    if not absent or not facts.target.site_packages:
        return
    names = [need.name for need in absent]
    fatal = [need for need in absent if need.level == "imported"]
    if modules is None:
        yield unknown(
            LINK,
            PYTHON_NEEDS,
            Text(
                "could not tell whether {names} are here: this snapshot does not list modules",
                "无法判断 {names} 是否存在：此快照未记录模块列表",
            ).format(names=", ".join(names)),
        )
        return
    wanted = [knowledge.requirement(name, cann, facts.interpreter.version) for name in names]
    sources = dict.fromkeys((need.level, need.source, need.date) for need in absent)
    finding = found(
        LINK,
        PYTHON_NEEDS,
        names=", ".join(names),
        evidence=[
            *(Evidence("file", f"no {', '.join(names)} here", path=path) for path in facts.target.site_packages[:1]),
            *(Evidence("knowledge", f"{level} by te/tbe ({date})", source=source) for level, source, date in sources),
        ],
        detail=Text(
            "te and tbe run inside this interpreter; torch-npu shows only an error code, the module's name stands in "
            "~/ascend/log.",
            "te/tbe 在此解释器内运行；torch-npu 只显示错误码，缺失的模块名写在 ~/ascend/log 中。",
        ),
        predicted_errors=[_COMPILER_START_ERROR, f"E40020 ... No module named '{fatal[0].module}'"] if fatal else [],
        remedy=Text(*[f"{facts.interpreter.executable or 'python'} -m pip install {' '.join(wanted)}"] * 2),
    )
    yield finding if fatal else dataclasses.replace(finding, affects=(), severity="warning")


def _numpy(facts: Facts, toolkit: CannInstallation, cann: knowledge.CannVersion) -> Iterator[Finding]:
    for bound in knowledge.bounds(cann, facts.interpreter.version):
        dist = _dist(facts, bound.package)
        if dist is None or not knowledge.exceeds(dist.version, bound):
            continue
        yield found(
            LINK,
            NUMPY_MAJOR,
            package=bound.package,
            version=dist.version,
            cann=toolkit.version,
            below=bound.below,
            evidence=[
                metadata(dist, f"Version: {dist.version}"),
                _of(toolkit),
                Evidence("knowledge", f"{bound.package} < {bound.below} ({bound.date})", source=bound.source),
            ],
            predicted_errors=[_COMPILER_START_ERROR],
            remedy=Text(
                *[f'{facts.interpreter.executable or "python"} -m pip install "{bound.package}<{bound.below}"'] * 2
            ),
        )


def _compilers(facts: Facts, machine: MachineFacts, toolkit: CannInstallation) -> Iterator[Finding]:
    """Look where triton-ascend looks: its own folder (from 3.2.1 on), PATH, TRITON_NPU_COMPILER_PATH."""
    toolchain = machine.toolchain
    if toolchain is None or facts.triton.ascend_backend is None:
        return
    missing = []
    if toolchain.bisheng is None:
        missing.append("bisheng")
    dist = _dist(facts, "triton-ascend")
    bundled = toolchain.bishengir_bundled is not None and (dist is None or knowledge.bundles_compiler(dist.version))
    if not bundled and toolchain.bishengir_compile is None and toolchain.npuc is None:
        missing.append("bishengir-compile")
    if not missing:
        return
    if not toolchain.path_known:
        yield unknown(
            LINK,
            NO_COMPILER,
            Text(
                "could not tell whether {programs} is found: the PATH of the image is not known (--env PATH=...)",
                "无法判断能否找到 {programs}：镜像的 PATH 未知（--env PATH=...）",
            ).format(programs=" / ".join(missing)),
            affects=(),
        )
        return
    for program in missing:
        yield _no_compiler(program, toolkit)


def _no_compiler(program: str, toolkit: CannInstallation) -> Finding:
    is_bisheng = program == "bisheng"
    at = toolkit.bisheng if is_bisheng else toolkit.bishengir
    script = toolkit.set_env if is_bisheng else toolkit.bishengir_set_env
    evidence = [Evidence("variable", f"no folder of PATH has {program}")]
    if at:
        evidence.append(Evidence("file", "present, but not on PATH", path=at))
    elif script:
        evidence.append(Evidence("file", "puts it on PATH; the toolkit's own script does not", path=script))
    install = Text(
        "this toolkit does not bring it: install the CANN line that your triton-ascend was released with",
        "此 toolkit 不含该编译器：请安装与 triton-ascend 配套的 CANN 版本",
    )
    return found(
        LINK,
        NO_COMPILER,
        program=program,
        evidence=evidence,
        predicted_errors=["RuntimeError: 0 active drivers ([]). There should only be one."]
        if is_bisheng
        else ["Couldn't find executable bishengir-compile or TRITON_NPU_COMPILER_PATH"],
        remedy=Text("source {script}", "source {script}").format(script=script) if script else install,
    )


def _linkage(facts: Facts, toolkit: CannInstallation | None) -> Iterator[Finding]:
    linkage = facts.linkage
    if linkage is None:
        return
    npu = _version(facts, "torch-npu")
    torch = facts.torch.version if facts.torch else "?"
    for side, fault, remedy in (
        ("torch", TORCH_SYMBOLS, _torch_remedy(facts)),
        ("cann", CANN_SYMBOLS, _cann_remedy(facts, toolkit)),
    ):
        gaps = [gap for gap in linkage.gaps if gap.side == side]
        if not gaps:
            continue
        yield found(
            LINK,
            fault,
            npu=npu,
            count=linkage.missing.get(side, len(gaps)),
            torch=torch,
            cann=(toolkit.version if toolkit else None) or "?",
            evidence=[
                *(Evidence("file", f"needs {gap.symbol}", path=gap.library) for gap in gaps[:3]),
                *_searched(linkage, side),
            ],
            predicted_errors=[f"ImportError: {gaps[0].library}: undefined symbol: {gaps[0].symbol}"],
            remedy=remedy,
        )
    if linkage.unread:
        yield unknown(
            LINK,
            TORCH_SYMBOLS,
            Text("could not compare all symbols: a library cannot be read", "无法比对全部符号：有库文件不可读"),
            evidence=unreadable(linkage.unread),
            affects=(),
        )
    elif linkage.absent and toolkit is not None:
        yield unknown(
            LINK,
            CANN_SYMBOLS,
            Text(
                "could not compare torch-npu with CANN: {names} not found",
                "无法比对 torch-npu 与 CANN：找不到 {names}",
            ).format(names=", ".join(linkage.absent)),
            affects=(),
        )


def _searched(linkage: LinkageFacts, side: str) -> Iterator[Evidence]:
    names = ("libtorch_cpu.so", "libc10.so") if side == "torch" else ("libascendcl.so", "libhccl.so")
    for name in names:
        if name in linkage.found:
            yield Evidence("file", "does not export it", path=linkage.found[name])


def _torch_remedy(facts: Facts) -> Text:
    dist = _dist(facts, "torch-npu")
    pin = next((line for line in dist.requires if re.match(r"torch\b(?!-)", line)), None) if dist else None
    if pin:
        return Text(
            "install the torch that it asks for ({pin}), or the torch-npu made for the installed torch",
            "安装它要求的 torch（{pin}），或改用与已安装 torch 配套的 torch-npu",
        ).format(pin=pin)
    return Text("install the torch-npu made for the installed torch", "请安装与已安装 torch 配套的 torch-npu")


def _cann_remedy(facts: Facts, toolkit: CannInstallation | None) -> Text:
    version = _version(facts, "torch-npu")
    cann = knowledge.parse_cann((toolkit.version if toolkit else None) or "")
    rows = knowledge.rows_for("torch-npu", version)
    if toolkit is None or cann is None or not rows:
        return Text(
            "install the CANN line that this torch-npu was built for", "请安装此 torch-npu 构建时所用的 CANN 版本"
        )
    return _repair_line(facts, version, rows, cann, toolkit)


CHECK = Check(
    link=LINK,
    title=Text("cann", "CANN"),
    question=Text(
        "Is CANN installed and sourced, whole, and of the line that the packages were made for?",
        "CANN 是否已安装并加载、是否完整、版本是否与软件包配套？",
    ),
    faults=(
        NO_ASCEND,
        NOT_INSTALLED,
        NOT_SOURCED,
        GONE,
        MIXED,
        HALF_SOURCED,
        REFUSED,
        NNAL,
        STUB_FIRST,
        NO_KERNELS,
        NPU_OFF_TABLE,
        TRITON_OFF_TABLE,
        BREAK,
        TORCH_SYMBOLS,
        CANN_SYMBOLS,
        PYTHON_NEEDS,
        NUMPY_MAJOR,
        NO_COMPILER,
    ),
    examine=examine,
    pages=Path(__file__).with_suffix(".toml"),
)
