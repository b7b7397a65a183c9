"""What can be known of attention kernels from the Hugging Face Hub: who asks for what, and what is there.

As in `flexdoctor.facts`, everything here is frozen, JSON all the way down, and without judgement. A consumer
(diffusers, transformers) states names, arguments and how it takes a result apart; a kernel states functions with
signatures and what they return. Comparing the two is the check's work.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from flexdoctor.frozen import dataclass
from flexdoctor.places import Place, Unread

#: What is made of a result. "by flag": a tuple only when the keyword named in `flag` is true, else a tensor.
Use = Literal["tensor", "tuple", "by flag", "either", "ignored", "unrecognised"]
#: What a function hands back. "by flag" as above, "opaque" when the sources do not tell.
Yield = Literal["tensor", "tuple", "by flag", "opaque"]
Role = Literal["plain", "context parallel"]
ParameterKind = Literal["positional", "either", "keyword", "args", "kwargs"]


CONSUMERS = ("diffusers", "transformers", "kernels")


@dataclass(frozen=True)
class CallSite:
    """One call of a kernel function in a consumer."""

    function: str
    place: Place
    positional: int = 0
    keywords: tuple[str, ...] = ()
    #: Keywords that are passed only when the kernel's signature names them.
    filtered: tuple[str, ...] = ()
    use: Use = "unrecognised"
    flag: str | None = None
    #: How many names a tuple is taken apart into: exactly, or at least when a starred name follows.
    unpacks: int | None = None
    unpacks_exactly: bool = False
    #: The tensor method that is called on the result right away (`unflatten`), which a tuple does not have.
    method: str | None = None


@dataclass(frozen=True)
class WantedName:
    """An attribute path that a consumer looks up in a kernel, and the calls that are made with it."""

    path: str
    role: Role
    place: Place
    calls: tuple[CallSite, ...] = ()


@dataclass(frozen=True)
class Backend:
    """One attention backend of diffusers that loads a kernel from the Hub."""

    name: str
    repo: str
    place: Place
    version: int | None = None
    revision: str | None = None
    names: tuple[WantedName, ...] = ()
    dtypes: tuple[str, ...] = ()
    #: The oldest `kernels` that the backend accepts, as written.
    kernels_minimum: str | None = None


@dataclass(frozen=True)
class DiffusersHub:
    """What diffusers asks of Hub kernels; read from models/attention_dispatch.py."""

    version: str
    backends: tuple[Backend, ...] = ()
    #: All names that DIFFUSERS_ATTN_BACKEND may have, and where they are listed.
    backend_names: tuple[str, ...] = ()
    backend_names_at: Place | None = None
    #: The error for a missing name, `{module}` and `{path}` to be filled in; where it is raised.
    missing_name_error: str = ""
    missing_name_at: Place | None = None
    #: Functions that load a kernel before it is used; a backend chosen elsewhere is called without being loaded.
    loads_in: tuple[str, ...] = ()
    loader_at: Place | None = None
    #: Whether the publisher of a kernel is asked for on the Hub before loading.
    checks_publisher: bool = False
    huggingface_hub: str | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True)
class KernelVersion:
    """Which version of a kernel transformers loads; with `torch_from`, the other one below that torch."""

    repo: str
    version: int
    torch_from: str | None = None
    version_below: int | None = None


@dataclass(frozen=True)
class TransformersHub:
    """How transformers loads an attention kernel; read from its sources."""

    version: str
    #: The range of `kernels` that it accepts, and whether the code itself enforces it (else only an extra).
    kernels_range: str | None = None
    kernels_range_enforced: bool = False
    kernels_range_at: Place | None = None
    missing_kernels_error: str = ""
    loader_at: Place | None = None
    #: Whether a version of the kernel is passed on. Without, `kernels` must be one that does not ask for it.
    passes_version: bool = False
    versions: tuple[KernelVersion, ...] = ()
    default_version: int | None = None
    #: Which repository stands in for an implementation that is not installed ("flash_attention_2").
    fallbacks: tuple[tuple[str, ...], ...] = ()
    plain: str = "flash_attn_func"
    varlen: str = "flash_attn_varlen_func"
    names_at: Place | None = None
    #: Whether a kernel without the plain function is refused; else only padding-free calls fail.
    plain_required: bool = False
    missing_error: str = ""
    #: Names that make a kernel without the varlen function acceptable.
    alternatives: tuple[str, ...] = ()
    #: The local name that stays unbound when a kernel offers none of the names.
    unbound: str | None = None
    unbound_at: Place | None = None
    plain_call: CallSite | None = None
    varlen_call: CallSite | None = None
    #: The names under which attention sinks are passed.
    sink_names: tuple[str, ...] = ()
    takes_npu_first: Place | None = None
    huggingface_hub: str | None = None
    #: The requirement on huggingface-hub that is checked when transformers is imported, as written.
    checked_at_import: str | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True)
class KernelsLibrary:
    """The installed `kernels` package."""

    version: str
    #: "kernel": only repositories of that type; "model": the older type.
    repo_type: Literal["kernel", "model"] | None = None
    repo_type_at: Place | None = None
    version_required: bool | None = None
    version_required_at: Place | None = None
    version_required_error: str = ""
    knows_local_kernels: bool = False
    knows_stable_abi: bool = False
    checks_publisher: bool = False
    #: Cache variables in the order in which they win.
    cache_variables: tuple[str, ...] = ()
    #: Whether offline use resolves a version from refs/ of the cache.
    offline_version_error: str = ""
    huggingface_hub: str | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel function; `default` is as written, None when there is none."""

    name: str
    kind: ParameterKind = "either"
    default: str | None = None


@dataclass(frozen=True)
class KernelFunction:
    """A name that a kernel offers.

    `state` "opaque": it is there, but is not a Python function that the sources show (a compiled operator); "maybe":
    whether it is there depends on something at import. `signature_known` is False when a caller cannot be judged.
    """

    path: str
    place: Place
    state: Literal["function", "opaque", "maybe"] = "function"
    signature_known: bool = True
    parameters: tuple[Parameter, ...] = ()
    gives: Yield = "opaque"
    flags: tuple[str, ...] = ()
    length: int | None = None
    returns_at: Place | None = None
    dtypes: tuple[str, ...] = ()

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name."""
        return next((item for item in self.parameters if item.name == name), None)

    def accepts(self, keyword: str) -> bool:
        """Whether the function can be called with that keyword, by name or through `**kwargs`."""
        return any(
            item.kind == "kwargs" or (item.name == keyword and item.kind in ("either", "keyword"))
            for item in self.parameters
        )


@dataclass(frozen=True)
class Variant:
    """One build folder of a kernel, its name taken apart; None where the name does not say."""

    name: str
    kind: Literal["torch", "stable", "tvm-ffi", "noarch", "unrecognised"] = "unrecognised"
    torch: str | None = None
    cxx11_abi: bool | None = None
    backend: str | None = None
    backend_version: str | None = None
    architecture: str | None = None
    system: str | None = None


@dataclass(frozen=True)
class Surface:
    """What one kernel offers, read from its sources without running it."""

    #: "org/name", or "" when the place does not tell.
    repo: str
    origin: Literal["LOCAL_KERNELS", "cache", "path", "hub", "package"]
    path: str
    repo_type: Literal["kernel", "model"] | None = None
    commit: str | None = None
    #: Branches of the cache (or of the Hub) that point to this commit: "v3", "main".
    refs: tuple[str, ...] = ()
    #: Whether the refs are known at all; a kernel that was loaded by version leaves none in the cache.
    refs_known: bool = False
    #: The version that its metadata states.
    version: int | None = None
    #: Named by the user (--kernel), so that its faults are not someone else's business.
    asked_for: bool = False
    #: Somebody relies on this kernel, although nothing here shows it.
    in_use: bool = False
    #: The name under which `kernels` imports it: "Kernel module '...'" in errors.
    module_name: str | None = None
    variants: tuple[Variant, ...] = ()
    variant_read: str | None = None
    #: Wanted names that are there, and those that are not. What could not be told is in neither.
    functions: tuple[KernelFunction, ...] = ()
    absent: tuple[str, ...] = ()
    public_names: tuple[str, ...] = ()
    declared_backend: str | None = None
    #: The snapshot lacks files of its commit, as far as a listing of the repository is there to compare.
    partial: bool | None = None
    publisher_trusted: bool | None = None
    unread: tuple[Unread, ...] = ()

    def find(self, path: str) -> KernelFunction | None:
        """Return the function of that attribute path."""
        return next((item for item in self.functions if item.path == path), None)

    @property
    def varlen(self) -> bool | None:
        """Whether sequences of different length can be packed; None when the sources do not tell."""
        if any("varlen" in item.path or item.parameter("cu_seqlens_q") for item in self.functions):
            return True
        return False if any("varlen" in name for name in self.absent) else None


@dataclass(frozen=True)
class HubAnswer:
    """What became of a kernel that was named: why there is no surface of it."""

    repo: str
    wanted: str
    state: Literal["no repository", "no revision", "gated", "no answer", "offline", "not cached", "unreadable"]
    text: str
    publisher_trusted: bool | None = None


@dataclass(frozen=True)
class HubFacts:
    """Everything about Hub kernels in one environment. None in Facts when there is no consumer and none was named."""

    diffusers: DiffusersHub | None = None
    transformers: TransformersHub | None = None
    kernels: KernelsLibrary | None = None
    huggingface_hub: str | None = None
    surfaces: tuple[Surface, ...] = ()
    #: Variables by allow-list.
    environment: dict[str, str] = field(default_factory=dict)
    cache: str | None = None
    #: Kernels that --kernel or LOCAL_KERNELS names and that could not be read.
    answers: tuple[HubAnswer, ...] = ()
    #: The C++ ABI of this torch, when its build files tell.
    cxx11_abi: bool | None = None
    #: What installed packages ask of diffusers, as written: a remedy must not break it.
    diffusers_wanted: tuple[str, ...] = ()
    #: Files of the consumers themselves.
    unread: tuple[Unread, ...] = ()
