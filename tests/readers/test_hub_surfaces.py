"""Surfaces: what a kernel offers, from its sources, however they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import kernel_trees as trees
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flexdoctor.hub_facts import Surface
from flexdoctor.readers import modules
from flexdoctor.readers.hub_surfaces import parse_variant, read_cached, read_surface

PRIVATE = "flash_attn_interface._flash_attn_forward"
WRAPPED = "flash_attn_interface._wrapped_flash_attn_forward"


def read(folder: Path, files: Mapping[str, str], *wanted: str) -> Surface:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return read_surface(folder, wanted)


# The columns of the survey of real kernels: plain, varlen, what each gives, deterministic, names of sinks.
SURVEY = {
    "flash-attn2": (trees.flash_attn2(wrapped=False), "by flag", "by flag", True, None),
    "flash-attn3 old": (trees.flash_attn3(old=True), "tuple", "tuple", True, None),
    "flash-attn3": (trees.flash_attn3(), "by flag", "by flag", True, None),
    "flash-attn4": (trees.flash_attn4(), "tuple", "tuple", True, "learnable_sink"),
    "vllm-flash-attn3": (trees.vllm_flash_attn3(), "tuple", "tuple", True, "s_aux"),
    "sgl-flash-attn3": (trees.sgl_flash_attn3(), None, "by flag", False, "sinks"),
    "flash-mla": (trees.flash_mla(), None, "tuple", True, None),
    "aiter-flash-attn": (trees.aiter_flash_attn(), "opaque", "opaque", True, "sink"),
    "metal-flash-sdpa": (trees.metal_flash_sdpa(), None, "tensor", True, None),
}


@pytest.mark.parametrize("name", SURVEY)
def test_survey(name: str, tmp_path: Path) -> None:
    files, plain, varlen, deterministic, sinks = SURVEY[name]
    surface = read_surface(trees.write_kernel(tmp_path / "kernel", files), ())
    func, packed = surface.find("flash_attn_func"), surface.find("flash_attn_varlen_func")
    assert (func.gives if func else None) == plain
    assert ("flash_attn_func" in surface.absent) is (plain is None)
    assert packed is not None
    assert packed.gives == varlen
    assert packed.accepts("deterministic") is deterministic
    assert [item for item in ("s_aux", "learnable_sink", "sink", "sinks") if packed.parameter(item)] == (
        [sinks] if sinks else []
    )
    assert surface.varlen is True
    assert surface.unread == ()


def test_private_names_and_compiled_operators(tmp_path: Path) -> None:
    plain = read_surface(trees.write_kernel(tmp_path / "plain", trees.flash_attn2(wrapped=False)), (PRIVATE, WRAPPED))
    function = plain.find(PRIVATE)
    assert function is not None
    assert (function.state, function.gives, function.length, len(function.parameters)) == ("function", "tuple", 4, 11)
    assert WRAPPED in plain.absent
    wrapped = read_surface(trees.write_kernel(tmp_path / "wrapped", trees.flash_attn2(wrapped=True)), (WRAPPED,))
    function = wrapped.find(WRAPPED)
    assert function is not None
    assert (function.state, function.signature_known) == ("opaque", False)
    assert "torch.ops" in function.place.text


def test_metadata_and_variants(tmp_path: Path) -> None:
    shape = trees.KernelShape(version=3, variants=("torch-stable-abi210-cu130-x86_64-linux", "torch-cpu"))
    surface = read_surface(trees.write_kernel(tmp_path / "kernel", trees.flash_attn2(wrapped=False), shape), ())
    assert surface.module_name == "_flash_attn2_cuda_3abcdef"
    assert surface.declared_backend == "cuda"
    assert surface.repo == "flash-attn2"
    assert [item.name for item in surface.variants] == ["torch-cpu", "torch-stable-abi210-cu130-x86_64-linux"]


@pytest.mark.parametrize("below", ["", "build", "build/torch-universal"])
def test_repository_build_folder_and_variant_are_all_taken(below: str, tmp_path: Path) -> None:
    folder = trees.write_kernel(tmp_path / "kernel", trees.flash_attn2(wrapped=False))
    assert read_surface(folder / below, ()).find("flash_attn_func") is not None


def test_source_tree(tmp_path: Path) -> None:
    trees.write_variant(tmp_path / "kernel" / "torch-ext" / "flash_attn2", trees.flash_attn2(wrapped=False))
    surface = read_surface(tmp_path / "kernel", ())
    assert surface.find("flash_attn_func") is not None
    assert surface.repo == "flash-attn2"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch212-cxx11-cu130-x86_64-linux", ("torch", "2.12", True, "cuda", "13.0", "x86_64", "linux")),
        ("torch213-cpu-aarch64-darwin", ("torch", "2.13", None, "cpu", None, "aarch64", "darwin")),
        ("torch-stable-abi210-cu128-aarch64-linux", ("stable", "2.10", None, "cuda", "12.8", "aarch64", "linux")),
        ("torch27-cxx11-cann81-aarch64-linux", ("torch", "2.7", True, "cann", "8.1", "aarch64", "linux")),
        ("torch29-cxx98-rocm64-x86_64-linux", ("torch", "2.9", False, "rocm", "6.4", "x86_64", "linux")),
        ("torch-universal", ("noarch", None, None, "universal", None, None, None)),
        ("torch-npu", ("noarch", None, None, "npu", None, None, None)),
        ("torch-ext", ("unrecognised", None, None, None, None, None, None)),
        ("torch-cann", ("unrecognised", None, None, None, None, None, None)),
    ],
)
def test_variant_names(name: str, expected: tuple[object, ...]) -> None:
    found = parse_variant(name)
    assert (
        found.kind, found.torch, found.cxx11_abi, found.backend, found.backend_version, found.architecture, found.system
    ) == expected  # fmt: skip


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({"__init__.py": "def flash_attn_func(q, k, v):\n    return q\n"}, "function"),
        ({"__init__.py": "from .a import *\n", "a.py": "def flash_attn_func(q, k, v):\n    return q\n"}, "function"),
        ({"__init__.py": "from . import a\nflash_attn_func = a.f\n", "a.py": "def f(q):\n    return q\n"}, "function"),
        ({"__init__.py": "try:\n    from .a import flash_attn_func\nexcept ImportError:\n    pass\n",
          "a.py": "def flash_attn_func(q, k, v):\n    return q\n"}, "maybe"),
        ({"__init__.py": "import torch\nflash_attn_func = torch.ops.x.fwd\n"}, "opaque"),
        ({"__init__.py": "from functools import partial\nflash_attn_func = partial(print)\n"}, "opaque"),
        ({"__init__.py": "from ._ops import flash_attn_func\n"}, "opaque"),
        ({"__init__.py": "def __getattr__(name):\n    return load(name)\n"}, "maybe"),
        ({"__init__.py": "globals().update(load())\n"}, "maybe"),
        ({"__init__.py": "__all__ = ['flash_attn_func']\n"}, "absent"),
        ({"__init__.py": "from .a import flash_attn_func\n", "a.py": "x = 1\n"}, "absent"),
        ({"__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import flash_attn_func\n",
          "a.py": "def flash_attn_func(q): return q\n"}, "absent"),
        ({"__init__.py": "def flash_attn_func(q):\n    return q\ndel flash_attn_func\n"}, "absent"),
    ],
)  # fmt: skip
def test_ways_to_offer_a_name(files: dict[str, str], state: str, tmp_path: Path) -> None:
    surface = read(tmp_path / "kernel", files)
    function = surface.find("flash_attn_func")
    found = function.state if function else "absent" if "flash_attn_func" in surface.absent else "unknown"
    # A name that an import cannot deliver fails there and then: it is not there, whatever else is.
    assert found == state


@pytest.mark.parametrize(
    ("body", "gives", "flags"),
    [
        ("return q", "tensor", ()),
        ("return q, k", "tuple", ()),
        ("return (q, k) if lse else q", "by flag", ("lse",)),
        ("return q if not lse else (q, k)", "by flag", ("lse",)),
        ("if lse:\n        return q, k\n    return q", "by flag", ("lse",)),
        ("if not lse:\n        return q\n    return q, k", "opaque", ()),
        ("out = torch.ops.x.fwd(q)\n    return out", "opaque", ()),
        ("out, rest = torch.ops.x.fwd(q)\n    return out", "tensor", ()),
        ("out = q.view(1)\n    out = out.contiguous()\n    return out", "tensor", ()),
        ("return helper(q, lse)", "by flag", ("lse",)),
        ("return helper(q, False)", "tensor", ()),
        ("return helper(q, True)", "tuple", ()),
        ("return helper(q)", "tensor", ()),
        ("return Function.apply(q, lse)", "by flag", ("lse",)),
        ("for x in q:\n        pass", "opaque", ()),
        ("return [q, k]", "tuple", ()),
    ],
)
def test_what_comes_back(body: str, gives: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    text = (
        "import torch\ndef helper(q, both=False):\n    return (q, q) if both else q\n"
        "class Function(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, q, both):\n"
        f"        return (q, q) if both else q\ndef flash_attn_func(q, k, v, lse=False):\n    {body}\n"
    )
    function = read(tmp_path / "kernel", {"__init__.py": text}).find("flash_attn_func")
    assert function is not None
    if body.startswith("if not lse"):
        assert function.gives in ("by flag", "opaque")
    else:
        assert (function.gives, function.flags) == (gives, flags)


def test_a_hostile_kernel_is_read_without_being_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = tmp_path / "ran"
    files = {
        "__init__.py": f"open({str(proof)!r}, 'w')\nimport os; os._exit(7)\nfrom . import a\nfrom .a import *\n"
        "from .big import x\nfrom .deep import y\nfrom .broken import z\nfrom ...outside import w\n"
        "def flash_attn_func(q, k, v):\n    return q\n",
        "a.py": "from .b import *\nfrom .b import again\n",
        "b.py": "from .a import *\nfrom .a import again\nfrom . import *\n",
        "big.py": "x = 0\n" * (modules.MAX_MODULE_BYTES // 5),
        "deep.py": "y = " + "(" * 5000 + ")" * 5000 + "\n",
        "broken.py": "def f(:\n",
        "metadata.json": "[" * 100000,
    }
    surface = read(tmp_path / "kernel", files, "a.again", "big.x", "deep.y", "x.y.z")
    assert not proof.exists()
    assert surface.find("flash_attn_func") is not None
    notes = {Path(item.path).name: item.reason for item in surface.unread}
    assert set(notes) == {"big.py", "deep.py", "broken.py", "metadata.json"}
    for name in ("big.x", "deep.y"):
        assert name not in surface.absent


def test_a_file_for_a_folder_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert read_surface(tmp_path / "file", ()).unread[0].reason == "not a folder"
    assert read_surface(tmp_path / "gone", ()).unread[0].reason == "no such folder"
    (tmp_path / "empty").mkdir()
    surface = read_surface(tmp_path / "empty", ("flash_attn_func",))
    assert surface.absent == ()
    assert surface.unread[-1].reason == "no Python module of a kernel there"


def test_cache(tmp_path: Path) -> None:
    listed = ["build/torch-universal/__init__.py", "build/torch-cpu/__init__.py"]
    trees.write_cached(tmp_path, trees.flash_attn2(wrapped=True), commit="1" * 40, refs=["v1", "main"], listed=listed)
    trees.write_cached(tmp_path, trees.flash_attn2(wrapped=False), commit="3" * 40, listed=listed[:1])
    trees.write_cached(tmp_path, trees.flash_attn2(wrapped=True), kind="models")
    (tmp_path / "models--org--language-model" / "snapshots" / "1").mkdir(parents=True)
    (tmp_path / "datasets--a--b").mkdir()
    found = {(item.repo_type, item.commit): item for item in read_cached(tmp_path, (WRAPPED,))}
    assert {kind for kind, _ in found} == {"kernel", "model"}
    first, third = found["kernel", "1" * 40], found["kernel", "3" * 40]
    assert (first.repo, first.refs, first.refs_known, first.partial) == (
        "kernels-community/flash-attn2", ("main", "v1"), True, True,
    )  # fmt: skip
    assert (third.refs, third.partial) == ((), False)
    assert WRAPPED in third.absent
    assert first.find(WRAPPED) is not None
    assert read_cached(tmp_path, (), ["other/repo"]) == []
    assert read_cached(tmp_path / "gone", ()) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=400), st.binary(max_size=200), st.text(max_size=60))
def test_no_content_makes_the_reader_raise(tmp_path: Path, text: str, raw: bytes, metadata: str) -> None:
    folder = tmp_path / "kernel"
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_bytes(b"from .a import *\n" + text.encode("utf-8", "replace"))
    (folder / "a.py").write_bytes(raw)
    (folder / "metadata.json").write_text(json.dumps({"name": metadata, "id": metadata, "backend": metadata}))
    read_surface(folder, (WRAPPED, "a.b.c", ""))
