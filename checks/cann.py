"""Link 3: is CANN here and in use."""

from __future__ import annotations

from collections.abc import Iterator

from flexdoctor.chain import Check
from flexdoctor.facts import Facts, MachineFacts
from flexdoctor.findings import CAPABILITIES, Evidence, Fault, Finding, found, passed, skipped
from flexdoctor.text import Text

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

_LIBRARY_ERROR = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
_AUTOLOAD_ERROR = "RuntimeError: Failed to load the backend extension: torch_npu."


def examine(facts: Facts) -> Iterator[Finding]:
    """Tell apart: not installed, not sourced, sourced but gone, and a machine without any Ascend part."""
    machine = facts.machine
    if machine is None:
        yield skipped(LINK, Text("the machine is not examined (--root)", "未检查机器（--root）"))
        return
    errors = [_AUTOLOAD_ERROR, _LIBRARY_ERROR] if facts.torch_npu else []
    home = machine.environment.get("ASCEND_HOME_PATH")
    in_use = next((item for item in machine.cann if home and item.path == home.rstrip("/")), None)
    if in_use is not None:
        yield passed(
            LINK,
            Text("{version} at {path}, sourced", "{version}，位于 {path}，已加载").format(
                version=in_use.version or "?", path=in_use.path
            ),
        )
    elif home is not None:
        yield found(
            LINK,
            GONE,
            path=home,
            evidence=[Evidence("variable", f"ASCEND_HOME_PATH={home}")],
            predicted_errors=errors,
            remedy=_source(machine)
            if machine.cann
            else Text("install CANN, or unset the variable", "请安装 CANN，或取消该变量"),
        )
    elif machine.cann:
        yield found(
            LINK,
            NOT_SOURCED,
            version=machine.cann[0].version or "",
            evidence=[
                Evidence("variable", "ASCEND_HOME_PATH is not set"),
                *(Evidence("file", f"CANN {item.version or '?'}", path=item.path) for item in machine.cann),
            ],
            predicted_errors=errors,
            remedy=_source(machine),
        )
    elif machine.device_nodes:
        yield found(
            LINK,
            NOT_INSTALLED,
            evidence=[Evidence("device", "present", path=node) for node in machine.device_nodes],
            predicted_errors=errors,
            remedy=Text(
                "install the CANN toolkit that this torch-npu was released with, then source its set_env.sh",
                "请安装与此 torch-npu 配套的 CANN toolkit，然后 source 其 set_env.sh",
            ),
        )
    else:
        yield _no_ascend(machine, errors)


def _source(machine: MachineFacts) -> Text:
    script = next((item.set_env for item in machine.cann if item.set_env), None)
    if script is None:
        return Text("source the set_env.sh of your CANN", "请 source CANN 的 set_env.sh")
    return Text("source {script}", "source {script}").format(script=script)


def _no_ascend(machine: MachineFacts, errors: list[str]) -> Finding:
    autoload_off = machine.environment.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0"
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
        detail=Text(
            "Nothing can run on an NPU here; what follows judges the packages alone.",
            "此处无法在 NPU 上运行；以下仅判断软件包本身。",
        ),
        remedy=Text(
            "to use torch here without an NPU: export TORCH_DEVICE_BACKEND_AUTOLOAD=0, or uninstall torch-npu",
            "若要在此无 NPU 使用 torch：export TORCH_DEVICE_BACKEND_AUTOLOAD=0，或卸载 torch-npu",
        )
        if errors
        else Text("run flexdoctor on the Ascend machine", "请在昇腾机器上运行 flexdoctor"),
    )


CHECK = Check(
    link=LINK,
    title=Text("cann", "CANN"),
    question=Text("Is CANN installed, and do the variables point to it?", "CANN 是否已安装，环境变量是否指向它？"),
    faults=(NO_ASCEND, NOT_INSTALLED, NOT_SOURCED, GONE),
    examine=examine,
)
