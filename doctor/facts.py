"""What can be known of an environment.

Facts are the hinge between readers and checks: frozen, JSON all the way down (`flexdoctor.serialise`), without any
judgement. A reader fills them and never raises; what it could not read it names in `unread`, and a `None` beside such
a note means "could not tell", not "is not there".
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from flexdoctor.frozen import dataclass
from flexdoctor.hub_facts import HubFacts
from flexdoctor.places import Place as Place  # noqa: PLC0414 - part of the vocabulary of facts
from flexdoctor.places import Unread as Unread  # noqa: PLC0414

SCHEMA_VERSION = 1

#: When a patch of torch-npu takes effect: when torch_npu is imported, when its inductor backend loads, when the user
#: asks for transfer_to_npu, or by a way that the reader does not recognise.
PatchTime = Literal["import", "inductor_load", "transfer_to_npu", "unrecognised"]


@dataclass(frozen=True)
class TargetFacts:
    """Which environment these facts are of."""

    kind: Literal["environment", "site-packages", "requirements", "wheels"]
    description: str
    site_packages: tuple[str, ...]
    machine_examined: bool

    @property
    def is_planned(self) -> bool:
        """Nothing is installed yet: what will happen between these packages depends on how they get installed."""
        return self.kind in ("requirements", "wheels")


@dataclass(frozen=True)
class InterpreterFacts:
    """The target's interpreter. `learned_from` names the file or the command that told."""

    implementation: str | None = None
    version: str | None = None
    architecture: str | None = None
    executable: str | None = None
    prefix: str | None = None
    learned_from: str | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True)
class Distribution:
    """One dist-info (or egg-info) folder. `name` is normalised, `version` is as written in the metadata."""

    name: str
    version: str
    metadata_path: str
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    #: Whether RECORD could be used: "present", "absent" (conda and distribution packages), or "unreadable".
    record: Literal["present", "absent", "unreadable"] = "present"
    #: For the distributions of the chain: how many files RECORD lists in the first two levels, and which of them
    #: are gone (a sample).
    recorded_files: int = 0
    missing_files: tuple[str, ...] = ()
    missing_count: int = 0
    #: Installed from a source tree in place: its modules may be found by an import hook, which is not run here.
    is_editable: bool = False
    #: For planned targets: the line that pins it, or that pins what brings it.
    pinned_at: Place | None = None


@dataclass(frozen=True)
class ModuleFolder:
    """A top-level folder of the chain (`torch`, `torch_npu`) and the distributions whose RECORD lists it."""

    name: str
    path: str
    owners: tuple[str, ...]
    has_init: bool


@dataclass(frozen=True)
class Shadow:
    """A folder or file that is found before the installed module of the same name."""

    module: str
    path: str
    via: Literal["working directory", "PYTHONPATH"]


@dataclass(frozen=True)
class UnknownRelease:
    """A planned package of the chain of which nothing is known, and the nearest release that is."""

    name: str
    version: str | None
    nearest: str | None


@dataclass(frozen=True)
class KnownRelease:
    """Where the facts of a planned package come from."""

    name: str
    version: str
    evidence: str
    source: str
    date: str


@dataclass(frozen=True)
class PackagesFacts:
    """What is installed. `distributions` holds all of them; requires and tags only where the chain needs them."""

    distributions: tuple[Distribution, ...] = ()
    folders: tuple[ModuleFolder, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    #: Distributions outside the chain that ask for `triton` on this platform, as "name version: requirement".
    triton_wanted_by: tuple[str, ...] = ()
    #: For planned targets: what the knowledge base says nothing about, and where the rest comes from.
    unknown_releases: tuple[UnknownRelease, ...] = ()
    known_releases: tuple[KnownRelease, ...] = ()
    #: For planned targets: distributions that the plan does not name, but another's pin brings.
    implied: tuple[str, ...] = ()
    #: Lines of a planned target that pin nothing or that could not be used, as "line: reason".
    notes: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    #: Names of the top-level modules on the search path; None in snapshots that do not hold them.
    modules: tuple[str, ...] | None = None

    def find(self, name: str) -> Distribution | None:
        """Return the first distribution of that normalised name on the search path."""
        return next((dist for dist in self.distributions if dist.name == name), None)


@dataclass(frozen=True)
class Gate:
    """`_validate_device` of torch.nn.attention.flex_attention.

    `form` is "absent" when flex_attention exists without a device check (torch 2.5), in which case every device
    passes. `accepted` and `rejected` are the device types named there, plus "npu", sorted by verdict.
    """

    form: Literal["absent", "function", "unrecognised"]
    place: Place
    accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class TorchFacts:
    """The installed torch, from its sources. `cuda` is the CUDA version that torch/version.py states, if any."""

    version: str
    cuda: str | None = None
    has_flex_attention: bool = False
    gate: Gate | None = None
    #: `.major >= N` inside has_triton() of torch/utils/_triton.py (gone from torch 2.14 on).
    major_comparison: Place | None = None
    #: torch modules that bind has_triton by name at import, so that replacing it in one place does not reach them.
    has_triton_bindings: tuple[str, ...] = ()
    #: `get_device_capability() >= (N, M)` in torch/_inductor/compile_fx.py.
    capability_comparison: Place | None = None
    #: Where "Buffers cannot be created while lowering a pointwise subgraph" is raised.
    subgraph_error: Place | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True)
class Patch:
    """An assignment in torch-npu that replaces something of torch. `via` is the line that makes it happen."""

    target: str
    when: PatchTime
    place: Place
    via: Place | None = None


@dataclass(frozen=True)
class ExtraStep:
    """One look-up of a `triton.language.extra` name at import of torch-npu's triton helpers, in source order.

    Steps of one `block` stand in one try statement: "try" steps run until one fails, then the "except" steps run.
    """

    name: str
    binds: str
    branch: Literal["plain", "try", "except"]
    block: int
    place: Place


@dataclass(frozen=True)
class FlexLowering:
    """torch-npu's own inductor lowering of flex_attention."""

    forward: Place | None = None
    backward: Place | None = None
    registered: Place | None = None
    #: Operators that the NPU subgraph lowering takes as pointwise, as written in the source (`aten.index.Tensor`).
    handled_operators: tuple[str, ...] = ()
    handled_at: Place | None = None


@dataclass(frozen=True)
class LoadImport:
    """A third-party module that is imported at load without being asked for in metadata. None: not known."""

    module: str
    place: Place
    present: bool | None = None


@dataclass(frozen=True)
class TorchNpuFacts:
    """The installed torch-npu, from its sources."""

    version: str
    has_inductor: bool = False
    gate_patches: tuple[Patch, ...] = ()
    has_triton_patches: tuple[Patch, ...] = ()
    extra_steps: tuple[ExtraStep, ...] = ()
    #: Names that generated kernels import from the triton helpers, and where that import is written.
    kernel_imports: tuple[str, ...] = ()
    kernel_imports_at: Place | None = None
    lowering: FlexLowering | None = None
    #: The list that decides which operators keep their lowering: "allow-list" drops all that it does not name.
    lowering_policy: Literal["allow-list", "explicit list"] | None = None
    #: What the default inductor backend imports at load.
    imports: tuple[LoadImport, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def missing_imports(self) -> tuple[LoadImport, ...]:
        """Imports that the target cannot satisfy."""
        return tuple(item for item in self.imports if item.present is False)


@dataclass(frozen=True)
class TritonClaim:
    """A distribution whose RECORD lists files under `triton/`."""

    name: str
    version: str
    files: int
    #: RECORD lists triton/backends/ascend/ (or huawei/, its name before 3.2.0rc3).
    has_ascend_backend: bool
    #: Files that another claimant lists too, and how many of those do not have the recorded content.
    shared: int = 0
    overwritten: int = 0
    overwritten_sample: tuple[str, ...] = ()
    missing: int = 0
    missing_sample: tuple[str, ...] = ()
    #: Seconds since the epoch of the RECORD file: which of two was installed last.
    installed_at: int | None = None


@dataclass(frozen=True)
class BackendBreak:
    """A backend folder that makes `import triton` fail: it asks the present triton for a name that is not there."""

    backend: str
    owner: str | None
    error: str
    place: Place


@dataclass(frozen=True)
class TritonFacts:
    """The `triton` folder of the target, whoever owns it."""

    path: str | None = None
    has_init: bool = False
    version: str | None = None
    backends: tuple[str, ...] = ()
    #: Names below triton.language.extra: "ascend", "ascend.libdevice", "cann.extension", ...
    extra: tuple[str, ...] = ()
    claims: tuple[TritonClaim, ...] = ()
    #: What the Ascend backend imports when triton is imported.
    imports: tuple[LoadImport, ...] = ()
    breaks: tuple[BackendBreak, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def missing_imports(self) -> tuple[LoadImport, ...]:
        """Imports that the target cannot satisfy."""
        return tuple(item for item in self.imports if item.present is False)

    @property
    def ascend_backend(self) -> str | None:
        """The folder name of the Ascend backend on disk, if there is one."""
        return next((name for name in self.backends if name in ASCEND_BACKENDS), None)


ASCEND_BACKENDS = ("ascend", "huawei")


@dataclass(frozen=True)
class CannInstallation:
    """A CANN toolkit on disk."""

    path: str
    version: str | None
    set_env: str | None
    #: A variable, "site-packages", "conda prefix", or "known place".
    found_by: str = "known place"
    #: The folder itself, where `path` is a link or a folder of links.
    real_path: str | None = None
    version_file: str | None = None
    #: What other files of the same toolkit say, where that differs from `version`.
    other_versions: tuple[str, ...] = ()
    inner_version: str | None = None
    architecture: str | None = None
    #: Folders that torch-npu asks for below ASCEND_HOME_PATH when it is imported.
    has_runtime: bool | None = None
    has_compiler: bool | None = None
    #: Which of the libraries that torch-npu is linked against lie in lib64.
    libraries: tuple[str, ...] = ()
    #: Folders below opp/.../tbe/kernel that hold operators: for these chips kernels are installed.
    kernels: tuple[str, ...] | None = None
    #: Chips that the toolkit knows (names of data/platform_config/*.ini).
    platforms: tuple[str, ...] | None = None
    #: Short_SoC_version of the chips of this machine, as the toolkit's own platform files spell it.
    kernel_folder_of: dict[str, str] = field(default_factory=dict)
    bisheng: str | None = None
    bishengir: str | None = None
    #: The script that puts bishengir-compile on PATH, which the toolkit's own script does not do.
    bishengir_set_env: str | None = None


@dataclass(frozen=True)
class NnalInstallation:
    """An NNAL (ATB) package on disk."""

    path: str
    version: str | None
    set_env: str | None
    #: The C++ ABI flavours that are there, of 0 and 1.
    abis: tuple[int, ...] = ()


@dataclass(frozen=True)
class VariablePath:
    """One folder that a variable names, in the order in which it is searched."""

    variable: str
    path: str
    exists: bool
    #: `path` of the CANN installation in which it lies.
    toolkit: str | None = None
    kind: Literal["toolkit", "stub", "driver", "nnal", "other"] = "other"


@dataclass(frozen=True)
class ToolchainFacts:
    """What a triton kernel launcher is built with, and the C libraries that wheels ask for."""

    glibc: str | None = None
    glibc_from: str | None = None
    #: N of the newest libstdc++.so.6.0.N that the target's interpreter would load.
    libstdcxx: int | None = None
    libstdcxx_from: str | None = None
    #: The value of CC, and what it leads to.
    cc: str | None = None
    cc_path: str | None = None
    cxx: str | None = None
    #: Where Python.h was looked for, and the first place that has it.
    python_header: str | None = None
    python_header_looked: tuple[str, ...] = ()
    #: What `PATH` finds, and what the triton-ascend wheel brings itself.
    bisheng: str | None = None
    bishengir_compile: str | None = None
    bishengir_bundled: str | None = None
    npuc: str | None = None
    #: Whether PATH itself is known; of an unpacked image it is only when it was given.
    path_known: bool = True


@dataclass(frozen=True)
class DeviceNode:
    """A device node of the driver. Mode, owner and group are what permission is judged by."""

    path: str
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    owner: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class UserFacts:
    """Who runs this."""

    uid: int
    gids: tuple[int, ...] = ()
    name: str | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class DriverFacts:
    """The driver's files, as far as they are visible here."""

    path: str
    version: str | None = None
    version_file: str | None = None
    compatible: tuple[str, ...] = ()
    #: Where libascend_hal.so lies, outside of a toolkit's stub folder.
    hal: str | None = None
    install_info: str | None = None
    install_complete: bool | None = None
    dcmi: bool | None = None
    npu_smi: str | None = None


@dataclass(frozen=True)
class ContainerFacts:
    """Whether this is a container, and by what that is known."""

    is_container: bool | None = None
    because: str | None = None
    ascend_runtime: bool = False


@dataclass(frozen=True)
class NpuChip:
    """A chip in the table of `npu-smi info`."""

    npu: str
    name: str
    health: str | None = None
    bus: str | None = None
    chip: str | None = None


@dataclass(frozen=True)
class NpuSmiFacts:
    """How `npu-smi info` ended, and what it said."""

    outcome: Literal["answered", "absent", "failed", "killed", "timed out", "too much", "not started"]
    command: str = ""
    exit_code: int | None = None
    signal: int | None = None
    limit: float | None = None
    #: The DCMI code that it prints when it cannot reach the driver.
    code: int | None = None
    lines: tuple[str, ...] = ()
    driver_version: str | None = None
    chips: tuple[NpuChip, ...] = ()


@dataclass(frozen=True)
class MachineFacts:
    """What lies under the packages. `None` in Facts when the machine is not examined."""

    cann: tuple[CannInstallation, ...] = ()
    device_nodes: tuple[str, ...] = ()
    #: Environment variables of the chain by allow-list; never the whole environment.
    environment: dict[str, str] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    nnal: tuple[NnalInstallation, ...] = ()
    variable_paths: tuple[VariablePath, ...] = ()
    toolchain: ToolchainFacts | None = None
    nodes: tuple[DeviceNode, ...] | None = None
    #: PCI device ids of the vendor, in bus order. In a container they are the host's.
    pci: tuple[str, ...] | None = None
    user: UserFacts | None = None
    driver: DriverFacts | None = None
    container: ContainerFacts | None = None
    npu_smi: NpuSmiFacts | None = None


@dataclass(frozen=True)
class SymbolGap:
    """A symbol that a library needs and that nothing exports from which it could come."""

    symbol: str
    library: str
    #: From which of the two the symbol has to come.
    side: Literal["torch", "cann"]


@dataclass(frozen=True)
class LinkageFacts:
    """The ELF comparison of torch-npu's libraries with what is installed (`--deep`)."""

    #: Libraries of torch-npu that were read.
    libraries: tuple[str, ...] = ()
    #: Where each library that they ask for was found.
    found: dict[str, str] = field(default_factory=dict)
    #: Libraries that they ask for and that were not found.
    absent: tuple[str, ...] = ()
    needed_symbols: int = 0
    #: How many symbols are missing from each side, and a sample of them.
    missing: dict[str, int] = field(default_factory=dict)
    gaps: tuple[SymbolGap, ...] = ()
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True)
class LiveFrame:
    """One step of a traceback or of a stack."""

    path: str
    line: int | None = None
    function: str = ""
    text: str = ""


@dataclass(frozen=True)
class LiveError:
    """One exception of a chain."""

    type: str
    message: str
    frames: tuple[LiveFrame, ...] = ()


@dataclass(frozen=True)
class LiveDeath:
    """How the process of a stage ended when it was not the stage that ended."""

    how: Literal["signal", "exit", "time limit"]
    #: The signal's number, the exit code, or the limit in seconds.
    number: int
    name: str = ""
    #: Whether the kernel's counter of processes killed for want of memory rose meanwhile; None when it cannot be read.
    out_of_memory: bool | None = None
    #: Where the interpreter was, innermost first, as far as it could still say.
    stack: tuple[LiveFrame, ...] = ()


#: "blocked": a stage that it needs failed. "not_reached": the time in all was over before.
LiveStatus = Literal["passed", "failed", "skipped", "blocked", "died", "timed_out", "not_reached"]


@dataclass(frozen=True)
class LiveStage:
    """One stage of the live run. `errors` has the first cause first."""

    name: str
    status: LiveStatus
    seconds: float | None = None
    reason: str = ""
    values: dict[str, str] = field(default_factory=dict)
    errors: tuple[LiveError, ...] = ()
    death: LiveDeath | None = None
    #: The last lines on stderr when the stage failed.
    output: tuple[str, ...] = ()
    #: Which rank it was, where several ran.
    rank: int | None = None


@dataclass(frozen=True)
class LiveFacts:
    """What was seen when flex_attention was run in the target's interpreter. `None` in Facts: not asked for."""

    asked: Literal["npu", "cpu", "cuda", "auto"]
    device: str | None = None
    stages: tuple[LiveStage, ...] = ()
    ranks: int = 1
    seconds: float = 0.0
    cache: Literal["temporary", "the user's"] = "temporary"
    #: Why the interpreter could not be started at all.
    not_started: str = ""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    #: "stdout" or "stderr", closed by the patient while it still ran, and the stage in which that was seen.
    closed: tuple[str, ...] = ()
    #: Processes that were still there when the run had ended, and had to be killed.
    survivors: tuple[str, ...] = ()
    #: Processes that did not even go then (a driver that holds them).
    stuck: tuple[str, ...] = ()

    def find(self, name: str) -> LiveStage | None:
        """Return the stage of that name."""
        return next((stage for stage in self.stages if stage.name == name), None)


@dataclass(frozen=True)
class Facts:
    """Everything that checks may know of one environment."""

    target: TargetFacts
    interpreter: InterpreterFacts = InterpreterFacts()
    packages: PackagesFacts = PackagesFacts()
    torch: TorchFacts | None = None
    torch_npu: TorchNpuFacts | None = None
    triton: TritonFacts = TritonFacts()
    machine: MachineFacts | None = None
    #: Only with `--deep`.
    linkage: LinkageFacts | None = None
    hub: HubFacts | None = None
    live: LiveFacts | None = None
    schema_version: int = SCHEMA_VERSION
