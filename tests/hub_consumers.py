"""Look-alikes of diffusers, transformers and kernels: the few lines that say what they ask of a Hub kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import builders

DISPATCH = """
from enum import Enum


class AttentionBackendName(str, Enum):
    FLASH_HUB = "flash_hub"
    NATIVE = "native"


_HUB_KERNELS_REGISTRY = {{
    AttentionBackendName.FLASH_HUB: _HubKernelConfig(
        repo_id="kernels-community/flash-attn2",
        function_attr="flash_attn_func",
        wrapped_forward_attr="flash_attn_interface.{prefix}flash_attn_forward",
        version={version},
    ),
}}


def attention_backend(backend):
    _maybe_download_kernel_for_backend(backend)


def _check_attention_backend_requirements(backend):
    if not is_kernels_version(">=", "0.12"):
        raise RuntimeError("too old")


def _resolve_kernel_attr(module, attr_path):
    for attr in attr_path.split("."):
        if not hasattr(module, attr):
            raise AttributeError(f"Kernel module '{{module.__name__}}' does not define attribute path '{{attr_path}}'.")


def _maybe_download_kernel_for_backend(backend):
    config = _HUB_KERNELS_REGISTRY[backend]
    {publisher}
    config.kernel_fn = _resolve_kernel_attr(kernel_module, config.function_attr)


def _forward_op(ctx, query, key, value):
    config = _HUB_KERNELS_REGISTRY[AttentionBackendName.FLASH_HUB]
    forward = config.wrapped_forward_fn
    out, lse, mask, state = forward(query, key, value, 0.0, 1.0, False, -1, -1, 0.0, None, False)


@_AttentionBackendRegistry.register(AttentionBackendName.FLASH_HUB, constraints=[_check_qkv_dtype_bf16_or_fp16])
def _flash_attention_hub(query, key, value, return_lse=False):
    func = _HUB_KERNELS_REGISTRY[AttentionBackendName.FLASH_HUB].kernel_fn
    out = func(q=query, k=key, v=value, causal=False, return_attn_probs=return_lse)
    if return_lse:
        out, lse, *_ = out
    return (out, lse) if return_lse else out
"""


def install_diffusers(
    site: Path,
    version: str,
    *,
    wrapped: bool,
    kernel_version: int | None = None,
    publisher: bool = False,
    requires: Iterable[str] = ("huggingface-hub<3.0,>=1.32.0",),
) -> None:
    text = DISPATCH.format(
        prefix="_wrapped_" if wrapped else "_",
        version=kernel_version if kernel_version is not None else (1 if wrapped else 3),
        publisher='org = "trustedKernelPublisher"' if publisher else "pass",
    )
    files = {"diffusers/__init__.py": "", "diffusers/models/attention_dispatch.py": text}
    builders.install(site, "diffusers", version, files, requires=requires)


KERNELS = """
import os


def get_kernel(repo_id, revision=None, version=None):
    overrides = os.environ.get("LOCAL_KERNELS")
    cache = os.environ.get("KERNELS_CACHE", None)
    if version is None and revision is None:
        raise ValueError(
            "A kernel version or revision must be specified. "
            "Say which."
        )
    api.list_repo_refs(repo_id=repo_id, repo_type="kernel")
    raise ValueError(f"Version {version} of '{repo_id}' is not available in the local cache")


STABLE = "torch-stable-abi"
"""


def install_kernels(site: Path, version: str = "0.17.2") -> None:
    files = {"kernels/__init__.py": KERNELS}
    builders.install(site, "kernels", version, files, requires=("huggingface-hub>=1.10.0",))
