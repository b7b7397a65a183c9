"""What a kernel can do and how it is entered: data, the one place to change when a kernel is new or renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

#: "BSHD" is (batch, sequence, heads, head_dim), "BHSD" has heads and sequence swapped.
Layout = Literal["BSHD", "BHSD"]

#: The ways in which kernels spell an argument, in the order in which they are looked for.
SPELLINGS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "q": ("q", "query"),
    "k": ("k", "key"),
    "v": ("v", "value"),
    "cu_seqlens_q": ("cu_seqlens_q", "cu_seqlens_qo"),
    "cu_seqlens_k": ("cu_seqlens_k", "cu_seqlens_kv"),
    "max_seqlen_q": ("max_seqlen_q", "max_seqlen_qo"),
    "max_seqlen_k": ("max_seqlen_k", "max_seqlen_kv"),
    "scale": ("softmax_scale", "sm_scale", "scale"),
    "causal": ("causal", "is_causal"),
    "window": ("window_size",),
    "window_left": ("window_size_left",),
    "window_right": ("window_size_right",),
    "softcap": ("softcap", "logits_soft_cap"),
    "dropout": ("dropout_p", "dropout"),
    "sinks": ("s_aux", "learnable_sink", "sinks", "sink"),
    "deterministic": ("deterministic",),
    "layout": ("tensor_layout",),
})  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One function by which a kernel is entered: a dotted path, and the form in which it wants its tensors."""

    path: str
    varlen: bool = False
    layout: Layout = "BSHD"
    #: What to pass for the layout argument, where there is one.
    layout_name: str | None = None


@dataclass(frozen=True)
class KernelCapability:
    """The single description of how a kernel is called.

    Which keywords it takes is not written here: it is found out from the function itself. `returns` says where the
    output is when a call gives several things ("first" of a tuple); a single tensor needs no word.
    """

    name: str
    #: In the order in which they are tried; a dense call may be served by a varlen entry, by packing.
    entries: tuple[Entry, ...]
    #: Names of dtypes that it takes; empty when it does not say.
    dtypes: tuple[str, ...] = ()
    returns: Literal["first", "last"] = "first"
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: SPELLINGS)

    @property
    def varlen(self) -> bool:
        """Whether sequences of different length can be packed."""
        return any(entry.varlen for entry in self.entries)


_HALF = ("float16", "bfloat16")

#: Every family of attention kernel that the Hub and the registries are known to hold, by how it is entered.
DESCRIPTIONS: tuple[KernelCapability, ...] = (
    KernelCapability(
        "flash attention",
        (Entry("flash_attn_func"), Entry("flash_attn_varlen_func", varlen=True)),
        dtypes=_HALF,
    ),
    KernelCapability("sage attention", (Entry("sageattn", layout_name="NHD"),), dtypes=_HALF),
    KernelCapability("sage attention 3", (Entry("sageattn3_blackwell", layout="BHSD"),), dtypes=_HALF),
)
