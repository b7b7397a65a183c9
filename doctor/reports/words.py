"""Words that several reports share."""

from __future__ import annotations

from typing import Literal

from flexdoctor.findings import Availability, Capability, Status
from flexdoctor.text import Text

#: The state of a finding: its status, or that the user has decided to live with it.
State = Status | Literal["waived"]

CAPABILITY: dict[Capability, Text] = {
    "eager": Text("eager", "eager"),
    "compiled_forward": Text("compiled forward", "编译前向"),
    "compiled_backward": Text("compiled backward", "编译反向"),
    "compiled_captured": Text("captured tensors", "索引外部张量"),
}

AVAILABLE: dict[Availability, Text] = {
    "yes": Text("yes", "可用"),
    "no": Text("no", "不可用"),
    "unknown": Text("unknown", "未知"),
}
STATUS: dict[State, Text] = {
    "pass": Text("ok", "正常"),
    "warn": Text("warn", "警告"),
    "fail": Text("FAIL", "故障"),
    "blocked": Text("blocked", "受阻"),
    "skipped": Text("-", "-"),
    "unknown": Text("unknown", "未知"),
    "crashed": Text("CRASHED", "崩溃"),
    "waived": Text("waived", "已豁免"),
}
#: Which status speaks for a link that has several findings.
WORST: tuple[State, ...] = (
    "crashed",
    "fail",
    "unknown",
    "blocked",
    "warn",
    "waived",
    "pass",
    "skipped",
)
LABEL = {
    "proof": Text("proof", "证据"),
    "see": Text("you see", "现象"),
    "why": Text("why", "原因"),
    "fix": Text("fix", "修复"),
    "more": Text("more", "详情"),
    "can": Text("can run", "能力"),
    "source": Text("source", "来源"),
    "waived": Text("waived", "豁免"),
}
