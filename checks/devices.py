"""Link 4: are there Ascend devices that this process may use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flexdoctor.chain import Check
from flexdoctor.facts import Facts
from flexdoctor.findings import CAPABILITIES, Evidence, Fault, Finding, found, passed, skipped
from flexdoctor.text import Text

LINK = "devices"

NO_DEVICE = Fault(
    "FD131",
    Text("CANN is here, but no Ascend device is visible", "有 CANN，但看不到昇腾设备"),
    affects=CAPABILITIES,
)


def examine(facts: Facts) -> Iterator[Finding]:
    """Count the device nodes."""
    machine = facts.machine
    if machine is None:
        yield skipped(LINK, Text("the machine is not examined (--root)", "未检查机器（--root）"))
        return
    devices = [node for node in machine.device_nodes if re.fullmatch(r"/dev/davinci\d+", node)]
    if devices:
        yield passed(
            LINK,
            Text("{count} Ascend device nodes", "{count} 个昇腾设备节点").format(count=len(devices)),
            evidence=[Evidence("device", "present", path=node) for node in devices],
        )
    elif machine.cann:
        yield found(
            LINK,
            NO_DEVICE,
            machine_only=True,
            evidence=[Evidence("device", "no davinci device node", path="/dev")],
            remedy=Text(
                "on an Ascend host: start the container with its devices; on a build machine this is expected",
                "在昇腾主机上：启动容器时传入设备；在构建机上这是正常现象",
            ),
        )
    else:
        yield skipped(LINK, Text("no Ascend device on this machine", "本机没有昇腾设备"))


CHECK = Check(
    link=LINK,
    title=Text("devices", "设备"),
    question=Text("Are there Ascend devices that this process may use?", "是否有本进程可用的昇腾设备？"),
    faults=(NO_DEVICE,),
    examine=examine,
)
