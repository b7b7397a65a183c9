"""What lies under the packages: CANN, driver, devices, compilers, and the variables that choose between them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from flexdoctor.facts import InterpreterFacts, MachineFacts, NpuSmiFacts
from flexdoctor.readers.cann import read_cann, read_nnal, read_variable_paths
from flexdoctor.readers.devices import read_container, read_driver, read_nodes, read_pci, read_user
from flexdoctor.readers.npu_smi import TIME_LIMIT, ask_npu_smi, find_npu_smi
from flexdoctor.readers.rooted import Root
from flexdoctor.readers.toolchain import read_toolchain
from flexdoctor.readers.trees import fold_home

#: The only variables that a report may hold. Anything else of the environment is nobody's business.
ALLOWED_VARIABLES = (
    "ASCEND_AICPU_PATH",
    "ASCEND_DOCKER_RUNTIME",
    "ASCEND_HOME_PATH",
    "ASCEND_OPP_PATH",
    "ASCEND_RT_VISIBLE_DEVICES",
    "ASCEND_RUNTIME_OPTIONS",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_VISIBLE_DEVICES",
    "ATB_HOME_PATH",
    "CC",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES",
    "RAY_EXPERIMENTAL_NOSET_ASCEND_VISIBLE_DEVICES",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_NPU_DEVICE_CAPABILITY",
    "TORCH_TRANSFER_TO_NPU",
    "TORCHINDUCTOR_NPU_BACKEND",
    "TRITON_ASCEND_ARCH",
    "TRITON_BACKEND",
    "TRITON_NPU_COMPILER_PATH",
)


def read_machine(
    root: Path = Path("/"),
    environment: Mapping[str, str] | None = None,
    *,
    interpreter: InterpreterFacts | None = None,
    sites: Sequence[Path] = (),
    npu_smi_limit: float = TIME_LIMIT,
) -> MachineFacts:
    """Return what the machine offers.

    Args:
        root: system paths are looked up below it; for anything but `/` nothing is run.
        environment: the variables to judge by; those of this process when None and the machine is the live one.
        interpreter: the target's, for its headers and its conda prefix.
        sites: the target's folders of packages, in which pip puts a CANN of its own.
        npu_smi_limit: seconds that `npu-smi info` may take; 0 leaves it out.
    """
    view = Root(root)
    variables = (dict(os.environ) if view.live else {}) if environment is None else dict(environment)
    nodes = read_nodes(view)
    pci = read_pci(view)
    npu_smi = _npu_smi(view, variables, npu_smi_limit) if nodes or pci else None
    cann = read_cann(view, variables, sites, _chip_names(npu_smi))
    nnal = read_nnal(view, variables)
    return MachineFacts(
        cann=cann,
        device_nodes=tuple(node.path for node in nodes),
        environment={
            name: _fold(variables[name]) if view.live else variables[name]
            for name in ALLOWED_VARIABLES
            if name in variables
        },
        nnal=nnal,
        variable_paths=read_variable_paths(view, variables, cann, nnal),
        toolchain=read_toolchain(view, variables, interpreter or InterpreterFacts(), sites),
        nodes=nodes,
        pci=pci,
        user=read_user(view),
        driver=read_driver(view, variables),
        container=read_container(view, variables),
        npu_smi=npu_smi,
        unread=view.unread,
    )


def _npu_smi(view: Root, variables: Mapping[str, str], limit: float) -> NpuSmiFacts | None:
    if not view.live or limit <= 0:
        return None
    return ask_npu_smi(find_npu_smi(variables), limit, variables)


def _chip_names(npu_smi: NpuSmiFacts | None) -> tuple[str, ...]:
    """Return the chips of the table as CANN spells them: 910B3 is Ascend910B3."""
    names = dict.fromkeys(chip.name for chip in npu_smi.chips) if npu_smi else {}
    return tuple(name if name.startswith("Ascend") else f"Ascend{name}" for name in names)


def _fold(value: str) -> str:
    return os.pathsep.join(fold_home(part) for part in value.split(os.pathsep))
