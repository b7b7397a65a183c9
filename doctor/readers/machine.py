"""What lies under the packages: CANN, device nodes, and the variables that choose between them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from flexdoctor.facts import CannInstallation, MachineFacts
from flexdoctor.readers.trees import fold_home

#: The only variables that a report may hold. Anything else of the environment is nobody's business.
ALLOWED_VARIABLES = (
    "ASCEND_AICPU_PATH",
    "ASCEND_HOME_PATH",
    "ASCEND_OPP_PATH",
    "ASCEND_RT_VISIBLE_DEVICES",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_VISIBLE_DEVICES",
    "ATB_HOME_PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_NPU_DEVICE_CAPABILITY",
    "TORCH_TRANSFER_TO_NPU",
    "TORCHINDUCTOR_NPU_BACKEND",
    "TRITON_BACKEND",
    "TRITON_NPU_COMPILER_PATH",
)
#: Where the run packages and the official images put CANN: the first folder is the layout from 8.5 on, the second the
#: one before it. Below each lie one folder a version.
_CANN_ROOTS = ("/usr/local/Ascend", "~/Ascend")


def read_machine(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> MachineFacts:
    """Return what the machine offers; system paths are looked up under `root`."""
    variables = os.environ if environment is None else environment
    return MachineFacts(
        cann=tuple(_find_cann(root, variables)),
        device_nodes=_device_nodes(root),
        environment={name: _fold(variables[name]) for name in ALLOWED_VARIABLES if name in variables},
    )


def _fold(value: str) -> str:
    return os.pathsep.join(fold_home(part) for part in value.split(os.pathsep))


def _find_cann(root: Path, variables: Mapping[str, str]) -> Iterator[CannInstallation]:
    candidates: list[Path] = []
    if home := variables.get("ASCEND_HOME_PATH"):
        candidates.append(root / home.lstrip("/"))
    for place in _CANN_ROOTS:
        base = root / str(Path(place).expanduser()).lstrip("/")
        candidates += [base / "cann", *sorted(base.glob("cann-*"), reverse=True)]
        candidates += [
            base / "ascend-toolkit" / "latest",
            *sorted((base / "ascend-toolkit").glob("[0-9]*"), reverse=True),
        ]
    seen = set[str]()
    for folder in candidates:
        real = os.path.realpath(folder)
        version = _cann_version(folder)
        if real in seen or (version is None and not (folder / "lib64" / "libascendcl.so").exists()):
            continue
        seen.add(real)
        script = next((item for item in (folder / "set_env.sh", folder.parent / "set_env.sh") if item.exists()), None)
        yield CannInstallation(fold_home(folder), version, fold_home(script) if script else None)


def _cann_version(folder: Path) -> str | None:
    """Read `version=` of ascend_toolkit_install.info, the one file that means the same in every line of CANN."""
    for file in sorted(folder.glob("*-linux/ascend_toolkit_install.info")):
        try:
            match = re.search(r"^version=(\S+)", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        except OSError:
            continue
        if match:
            return match[1]
    return None


def _device_nodes(root: Path) -> tuple[str, ...]:
    try:
        names = sorted(path.name for path in (root / "dev").iterdir())
    except OSError:
        return ()
    return tuple(f"/dev/{name}" for name in names if re.fullmatch(r"davinci(\d+|_manager)|devmm_svm|hisi_hdc", name))
