"""Kernels from the Hub on disk, with the names, signatures and results of the real ones and code of our own.

Each kernel is a build folder whose Python part can be read and, with a torch, run: it computes attention by
scaled_dot_product_attention in place of a compiled operator.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

REFERENCE = '''
import torch


def attend(q, k, v, scale=None, causal=False):
    """Attention over (batch, sequence, heads, head_dim)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), scale=scale, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
    )
    return out.transpose(1, 2).to(v.dtype)


def attend_packed(q, k, v, cu_q, cu_k, scale=None, causal=False):
    parts = []
    for begin_q, end_q, begin_k, end_k in zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:]):
        parts.append(attend(q[None, begin_q:end_q], k[None, begin_k:end_k], v[None, begin_k:end_k], scale, causal)[0])
    return torch.cat(parts)


def lse(q):
    return torch.zeros(q.shape[:-1])
'''

FA2_COMMON = "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None"
FA2_FUNC = f"q, k, v, {FA2_COMMON}, deterministic=False, return_attn_probs=False"
FA2_VARLEN = (
    f"q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, {FA2_COMMON}, deterministic=False, "
    "return_attn_probs=False, block_table=None"
)
FA2_PRIVATE = """
def _flash_attn_forward(
    q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap, alibi_slopes,
    return_softmax,
):
    out = attend(q, k, v, softmax_scale, causal)
    softmax_lse, S_dmask, rng_state = ops.fwd(q, k, v)
    return out, softmax_lse, S_dmask, rng_state


def _flash_attn_backward(
    dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, window_size_left,
    window_size_right, softcap, alibi_slopes, deterministic, rng_state=None,
):
    return ops.bwd(dout, q, k, v)


def _flash_attn_varlen_forward(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal,
    window_size_left=-1, window_size_right=-1, softcap=0.0, alibi_slopes=None, return_softmax=False, block_table=None,
    leftpad_k=None, seqused_k=None, zero_tensors=False,
):
    out = attend_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal)
    softmax_lse, S_dmask, rng_state = ops.varlen_fwd(q, k, v)
    return out, softmax_lse, S_dmask, rng_state


def _flash_attn_varlen_backward(
    dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
    softmax_scale, causal, window_size_left, window_size_right, softcap, alibi_slopes, deterministic, rng_state=None,
    zero_tensors=False,
):
    return ops.varlen_bwd(dout, q, k, v)

"""
FA2_WRAPPED = """
if torch.__version__ >= "2.4.0":
    _wrapped_flash_attn_forward = torch.ops.flash_attn._flash_attn_forward
    _wrapped_flash_attn_backward = torch.ops.flash_attn._flash_attn_backward
    _wrapped_flash_attn_varlen_forward = torch.ops.flash_attn._flash_attn_varlen_forward
    _wrapped_flash_attn_varlen_backward = torch.ops.flash_attn._flash_attn_varlen_backward
else:
    _wrapped_flash_attn_forward = _flash_attn_forward
    _wrapped_flash_attn_backward = _flash_attn_backward
    _wrapped_flash_attn_varlen_forward = _flash_attn_varlen_forward
    _wrapped_flash_attn_varlen_backward = _flash_attn_varlen_backward
"""
AUTOGRAD = """
class FlashAttnFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, softmax_scale, causal, return_softmax):
        out = attend(q, k, v, softmax_scale, causal)
        softmax_lse, S_dmask = lse(q), None
        return {plain}


class FlashAttnVarlenFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, return_softmax):
        out = attend_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal)
        softmax_lse, S_dmask = lse(q), None
        return {plain}


def flash_attn_func({func}):
    return FlashAttnFunc.apply(q, k, v, softmax_scale, causal, {flag})


def flash_attn_varlen_func({varlen}):
    return FlashAttnVarlenFunc.apply(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, {flag})
"""
KVCACHE = """

def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, cache_seqlens=None, softmax_scale=None, causal=False):
    return attend(q, k_cache, v_cache, softmax_scale, causal)
"""
FA3_MIDDLE = (
    "softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1), "
    "{chunk}softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0{tail}"
)
FA3_PACKED = "cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None, "
FA3_FORWARD_HEAD = (
    "q, k, v, k_new=None, v_new=None, qv=None, out_=None, cu_seqlens_q=None, cu_seqlens_k=None, cu_seqlens_k_new=None, "
    "seqused_q=None, seqused_k=None, max_seqlen_q=None, max_seqlen_k=None, page_table=None, kv_batch_idx=None, "
    "leftpad_k=None, rotary_cos=None, rotary_sin=None, seqlens_rotary=None, q_descale=None, k_descale=None, "
    "v_descale=None, softmax_scale=None, causal=False, "
)
FA3_FORWARD_TAIL = (
    "attention_chunk=0, softcap=0.0, rotary_interleaved=True, scheduler_metadata=None, num_splits=1, pack_gqa=None, "
    "sm_margin=0"
)
FA3_BACKWARD_HEAD = (
    "dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, sequed_q, sequed_k, max_seqlen_q, max_seqlen_k, "
    "dq, dk, dv, softmax_scale, causal, "
)


def _interface(body: str) -> str:
    return f"import torch\n\nfrom ._ops import ops\nfrom ._reference import attend, attend_packed, lse\n{body}"


def _package(body: str, names: Iterable[str]) -> dict[str, str]:
    return {
        "__init__.py": f"from .flash_attn_interface import {', '.join(names)}\n\n__version__ = '1'\n",
        "flash_attn_interface.py": _interface(body),
    }


def _single(body: str) -> dict[str, str]:
    return {"__init__.py": _interface(body)}


PUBLIC = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")


def flash_attn2(*, wrapped: bool) -> dict[str, str]:
    public = AUTOGRAD.format(
        plain="out if not return_softmax else (out, softmax_lse, S_dmask)",
        func=FA2_FUNC,
        varlen=FA2_VARLEN,
        flag="return_attn_probs",
    )
    return _package(FA2_PRIVATE + (FA2_WRAPPED if wrapped else "") + public + KVCACHE, PUBLIC)


def flash_attn3(*, old: bool = False) -> dict[str, str]:
    """FA3 as of 2025-10-09 (`old`: always a tuple, windows as a tuple) or as version 1."""
    windows = "window_size=(-1, -1), " if old else "window_size_left=-1, window_size_right=-1, "
    private = f"""
def _flash_attn_forward({FA3_FORWARD_HEAD}{windows}{FA3_FORWARD_TAIL}):
    out, softmax_lse, out_accum, softmax_lse_accum = ops.fwd(q, k, v)
    return out, softmax_lse, out_accum, softmax_lse_accum


def _flash_attn_backward({FA3_BACKWARD_HEAD}{windows.replace("=-1", "").replace("=(-1, -1)", "")}softcap=0.0,
        deterministic=False, sm_margin=0):
    return ops.bwd(dout, q, k, v)

"""
    middle = FA3_MIDDLE.format(chunk="attention_chunk=0, ", tail="" if old else ", return_attn_probs=False")
    public = AUTOGRAD.format(
        plain="(out, softmax_lse)" if old else "(out, softmax_lse) if return_softmax else out",
        func=f"q, k, v, {middle}",
        varlen=f"q, k, v, {FA3_PACKED}{middle}",
        flag="True" if old else "return_attn_probs",
    )
    return _package(private + public + KVCACHE, PUBLIC)


def vllm_flash_attn3() -> dict[str, str]:
    middle = FA3_MIDDLE.format(chunk="", tail=", s_aux=None")
    public = AUTOGRAD.format(
        plain="(out, softmax_lse)", func=f"q, k, v, {middle}", varlen=f"q, k, v, {FA3_PACKED}{middle}", flag="True"
    )
    return _package(public + KVCACHE, PUBLIC)


def flash_attn4() -> dict[str, str]:
    middle = (
        "softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None, softcap=0.0, num_splits=1, "
        "pack_gqa=None, deterministic=False"
    )
    packed = (
        "cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, max_seqlen_k=None, seqused_q=None, seqused_k=None, "
        "page_table=None, "
    )
    public = AUTOGRAD.format(
        plain="(out, softmax_lse)",
        func=f"q, k, v, {middle}, mask_mod=None, return_lse=False",
        varlen=f"q, k, v, {packed}{middle}, score_mod=None, aux_tensors=None, return_lse=False",
        flag="return_lse",
    )
    return _package(public, PUBLIC[:2])


def sgl_flash_attn3() -> dict[str, str]:
    return _single(
        f"""

def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q=None, max_seqlen_k=None, seqused_q=None,
        seqused_k=None, page_table=None, softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None,
        v_descale=None, window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, sm_margin=0,
        return_softmax_lse=False, sinks=None):
    out = attend_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal)
    return (out, lse(q)) if return_softmax_lse else out
{KVCACHE}"""
    )


def flash_mla() -> dict[str, str]:
    return _single(
        """

def flash_attn_varlen_func(q, k, v, cu_seqlens_qo, cu_seqlens_kv, max_seqlen_qo, max_seqlen_kv, dropout_p=0.0,
        softmax_scale=None, causal=False, deterministic=False, is_varlen=True):
    out = attend_packed(q, k, v, cu_seqlens_qo, cu_seqlens_kv, softmax_scale, causal)
    return out, lse(q)


__all__ = ["__version__", "flash_attn_varlen_func"]
"""
    )


def sage_attention() -> dict[str, str]:
    return _single(
        """

def sageattn(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=None, return_lse=False, **kwargs):
    assert q.dtype in (torch.float16, torch.bfloat16), "half precision only"
    if tensor_layout == "HND":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    o = attend(q, k, v, sm_scale, is_causal)
    if tensor_layout == "HND":
        o = o.transpose(1, 2)
    if return_lse:
        return o, lse(q)
    return o
"""
    )


def aiter_flash_attn() -> dict[str, str]:
    tail = "return_lse=False, return_attn_probs=False, "
    head = "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), bias=None, alibi_slopes=None, "
    return _single(
        f"""

def flash_attn_func(q, k, v, {head}deterministic=True, {tail}sink=None, config=None):
    result = [attend(q, k, v, softmax_scale, causal)]
    if return_lse:
        result.append(lse(q))
    return result[0] if len(result) == 1 else tuple(result)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, {head}deterministic=False,
        {tail}block_table=None, out=None, sink=None, config=None):
    result = [attend_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal)]
    if return_lse:
        result.append(lse(q))
    return result[0] if len(result) == 1 else tuple(result)
{KVCACHE}"""
    )


def metal_flash_sdpa() -> dict[str, str]:
    return _single(
        """

def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
        softmax_scale=None, causal=False, window_size=(-1, -1), alibi_slopes=None, deterministic=False,
        return_attn_probs=False):
    out = torch.empty_like(q)
    out.copy_(attend_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal))
    return out
"""
    )


OPS = "class _Ops:\n    pass\n\n\nops = _Ops()\n"


@dataclass(frozen=True)
class KernelShape:
    """How a kernel is laid out on disk."""

    repo: str = "kernels-community/flash-attn2"
    version: int = 1
    variants: tuple[str, ...] = ("torch-universal",)
    backend: str = "cuda"


def write_variant(folder: Path, files: Mapping[str, str], shape: KernelShape = KernelShape()) -> Path:
    """Write one build variant: the Python part, metadata.json, and the folder that older loaders look for."""
    name = shape.repo.rpartition("/")[2]
    module = name.replace("-", "_")
    folder.mkdir(parents=True)
    for path, text in {**files, "_ops.py": OPS, "_reference.py": REFERENCE}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    metadata = {
        "name": name,
        "id": f"_{module}_{shape.backend}_{shape.version}abcdef",
        "version": shape.version,
        "license": "Apache-2.0",
        "backend": {"type": shape.backend},
        "python-depends": [],
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    (folder / module).mkdir()
    (folder / module / "__init__.py").write_text("from .. import *\n")
    return folder


def write_kernel(root: Path, files: Mapping[str, str], shape: KernelShape = KernelShape()) -> Path:
    """Write a kernel repository with all its variants and return its folder."""
    for variant in shape.variants:
        write_variant(root / "build" / variant, files, shape)
    return root


def write_cached(
    cache: Path,
    files: Mapping[str, str],
    shape: KernelShape = KernelShape(),
    *,
    commit: str = "7ac8ea1f00000000000000000000000000000000",
    refs: Iterable[str] = (),
    kind: str = "kernels",
    listed: Iterable[str] | None = None,
) -> Path:
    """Write a snapshot into a Hub cache and return its folder; `listed` is what the listing of the commit names."""
    folder = cache / f"{kind}--{shape.repo.replace('/', '--')}"
    snapshot = write_kernel(folder / "snapshots" / commit, files, shape)
    for ref in refs:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
    if listed is not None:
        (folder / "trees").mkdir(exist_ok=True)
        (folder / "trees" / f"{commit}.json").write_text(
            json.dumps({"format_version": 1, "files": {path: {} for path in listed}})
        )
    return snapshot
