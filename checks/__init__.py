"""The links of the chain, in order. A new check is one module here and one line in CHAIN."""

from flexdoctor.chain import Check
from flexdoctor.checks import (
    cann,
    device_properties,
    device_validation,
    devices,
    hub_kernels,
    interpreter,
    live_run,
    module_rename,
    packages,
    subgraph_lowering,
    triton_install,
)

CHAIN: tuple[Check, ...] = (
    interpreter.CHECK,
    packages.CHECK,
    cann.CHECK,
    devices.CHECK,
    device_validation.CHECK,
    triton_install.CHECK,
    device_properties.CHECK,
    module_rename.CHECK,
    subgraph_lowering.CHECK,
    hub_kernels.CHECK,
    live_run.CHECK,
)
