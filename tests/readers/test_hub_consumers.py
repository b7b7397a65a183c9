"""Consumers' sources of any content: read, or named as unreadable, but never an exception."""

from __future__ import annotations

import ast
from pathlib import Path

import hub_consumers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flexdoctor.readers.hub_expectations import DISPATCH_FILE, read_diffusers
from flexdoctor.readers.hub_library import read_kernels
from flexdoctor.readers.hub_transformers import FLASH_FILE, HUB_FILE, IMPORT_FILE, read_transformers
from flexdoctor.readers.trees import FolderTree

LOADER = """
def get_attn_kernel_version(repo_id):
    return FLASH_ATTN_KERNEL_VERSIONS.get(repo_id, 1)


def load_and_register_attn_kernel(name):
    if not is_kernels_available():
        raise ImportError(_MISSING)
    kernel = get_kernel(name, version=3)
    if hasattr(kernel, "flash_attn_varlen_func"):
        kernel_function = wrapper
    elif name is not None:
        kernel_function = getattr(kernel, name)
    register(name, kernel_function)
"""
FLASH = """
FLASH_ATTN_KERNEL_FALLBACK = {"flash_attention_2": "a/rocm" if rocm() else "kernels-community/flash-attn2"}
FLASH_ATTN_KERNEL_VERSIONS = {"kernels-community/flash-attn2": 4 if at_least("2.10") else 3, "a/b": 1}


def _lazy_imports(implementation):
    if is_torch_npu_available():
        pass
    flash_attn_func = getattr(kernel, "flash_attn_func", None)
    flash_attn_varlen_func = getattr(kernel, "flash_attn_varlen_func", None)
    if flash_attn_varlen_func is None:
        raise ValueError(f"nothing at `{implementation}`")


def _process_flash_attention_kwargs(supports_mapping=None):
    flash_kwargs = {"causal": True, "softmax_scale": None}
    if supports_mapping["s_aux"]:
        flash_kwargs["s_aux"] = 1


def _flash_attention_forward(q, k, v):
    out = flash_varlen_fn(q, k, v, cu_seqlens_q=1, cu_seqlens_k=2, **flash_kwargs)
    out = flash_fn(q, k, v, **flash_kwargs)
"""
SOURCES = (hub_consumers.DISPATCH.format(prefix="_", version=3, publisher="pass"), LOADER, FLASH, hub_consumers.KERNELS)


def write(folder: Path, texts: dict[str, str]) -> FolderTree:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return FolderTree(folder)


def test_transformers(tmp_path: Path) -> None:
    constants = "KERNELS_MIN_VERSION = '0.17.2'\nKERNELS_MAX_VERSION = '0.18.0'\n"
    tree = write(tmp_path, {HUB_FILE: LOADER, FLASH_FILE: FLASH, IMPORT_FILE: constants})
    found = read_transformers(tree, "5.22.0", ("huggingface-hub<3.0,>=1.31.0", 'kernels<0.18; extra == "kernels"'))
    assert found is not None
    assert (found.kernels_range, found.kernels_range_enforced) == (">=0.17.2,<0.18.0", True)
    (newest, other) = found.versions
    assert (newest.version, newest.torch_from, newest.version_below, other.version) == (4, "2.10", 3, 1)
    assert found.fallbacks == (("flash_attention_2", "kernels-community/flash-attn2"),)
    assert (found.unbound, found.plain_required, found.default_version) == ("kernel_function", False, 1)
    assert found.varlen_call is not None
    assert found.varlen_call.keywords == ("cu_seqlens_q", "cu_seqlens_k", "causal", "softmax_scale")
    assert found.varlen_call.filtered == found.sink_names == ("s_aux",)
    assert found.takes_npu_first is not None


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of the sources with literals, calls, names and lines taken out of it, as long as it can be parsed."""
    text: str = draw(st.sampled_from(SOURCES))
    lines = text.splitlines()
    for _ in range(draw(st.integers(0, 6))):
        index = draw(st.integers(0, len(lines) - 1))
        before = lines[index]
        lines[index] = draw(
            st.sampled_from(
                [
                    "",
                    before.replace('"', "", 1),
                    before.partition("(")[0] + "()" + (":" if before.endswith(":") else ""),
                    before.partition("=")[0] + "= None",
                    before.replace(".", "[0].", 1),
                    before + "  # " + before,
                ]
            )
        )
    return "\n".join(lines)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(mutated() | st.text(max_size=200))
def test_no_content_makes_a_reader_raise(tmp_path: Path, text: str) -> None:
    names = (DISPATCH_FILE, HUB_FILE, FLASH_FILE, IMPORT_FILE, "kernels/__init__.py")
    tree = write(tmp_path, dict.fromkeys(names, text.encode("utf-8", "replace").decode()))
    read_transformers(tree, "1", (text, "kernels<1", "huggingface-hub"))
    read_kernels(tree, "1", (text, "huggingface-hub>=1"))
    found = read_diffusers(tree, "1", None)
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return
    assert found.unread == ()
