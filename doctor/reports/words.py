"""Words that several reports share."""

from __future__ import annotations

from flexdoctor.findings import Capability
from flexdoctor.text import Text

CAPABILITY: dict[Capability, Text] = {
    "eager": Text("eager", "eager"),
    "compiled_forward": Text("compiled forward", "编译前向"),
    "compiled_backward": Text("compiled backward", "编译反向"),
    "compiled_captured": Text("captured tensors", "索引外部张量"),
}
