"""What is predicted is what happens: real diffusers, transformers and kernels are run on CPU against the same files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import builders
import kernel_trees as trees
import pytest
import real_wheels

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import Facts
from flexdoctor.readers.environment import HubOptions, ReadOptions, read_site_packages
from flexdoctor.readers.hub import parse_kernel, read_hub
from flexdoctor.readers.packages import find_distributions

pytestmark = pytest.mark.real

FA2, FA3 = "kernels-community/flash-attn2", "kernels-community/flash-attn3"
HUB, KERNELS = "1.33.0", "0.17.2"
PACKAGES = (
    "numpy safetensors regex requests pillow filelock importlib_metadata tqdm pyyaml packaging httpx tokenizers typer "
    f"huggingface_hub=={HUB} kernels=={KERNELS}"
).split()

SCRIPT = r"""
import json, sys
def run(code):
    space = {}
    try:
        exec(code, space)
    except BaseException as error:
        chain = []
        while error is not None:
            chain.append(f"{type(error).__name__}: {error}")
            error = error.__cause__ or error.__context__
        return {"errors": chain}
    return {"result": space.get("result")}
print("@@" + json.dumps(run(sys.stdin.read())))
"""
TENSORS = """
import torch
torch.manual_seed(0)
q, k, v = (torch.randn(2, 4, 2, 8, dtype=torch.float16) for _ in range(3))
heads_first = (x.float().transpose(1, 2) for x in (q, k, v))
expected = torch.nn.functional.scaled_dot_product_attention(*heads_first).transpose(1, 2)
"""
DIFFUSERS = f"""{TENSORS}
from diffusers.models import attention_dispatch as module
from diffusers.models.attention_dispatch import attention_backend, dispatch_attention_fn
"""


@pytest.fixture(scope="session")
def python() -> Path:
    """An interpreter with torch and everything that the consumers need, but not the consumers."""
    folder = real_wheels.CACHE.parent / f"hub-run-{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    if subprocess.run([*pip, "torch==2.13.0+cpu"], check=False).returncode:
        pytest.skip("no CPU build of torch for this Python on the index")
    subprocess.run([*pip, *PACKAGES], check=True)
    (folder / "complete").touch()
    return python


def run(python: Path, site: Path, code: str, environment: Mapping[str, str]) -> dict[str, Any]:
    variables = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "DIFFUSERS_", "TRANSFORMERS_"))
        },
        "PYTHONPATH": str(site),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(site.parent / "hf"),
        **environment,
    }
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", SCRIPT],
        input=code,
        capture_output=True,
        text=True,
        env=variables,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("@@")]
    assert lines, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(lines[-1][2:])
    return answer


def predicted(site: Path, kernel: str | None, environment: Mapping[str, str]) -> list[str]:
    """Return every predicted error of the check for this consumer and kernel."""
    builders.install(site, "huggingface_hub", HUB)
    named = (parse_kernel(kernel),) if kernel else ()
    facts: Facts = read_site_packages(site, options=ReadOptions(hub=HubOptions(named)))
    if environment:
        import dataclasses  # noqa: PLC0415

        distributions, _ = find_distributions([site])
        variables = {**environment, "HF_HOME": str(site.parent / "hf")}
        facts = dataclasses.replace(facts, hub=read_hub([site], distributions, named=named, variables=variables))
    found = [item for item in diagnose(facts, CHAIN).findings if item.link == "hub_kernels"]
    return [error for item in found for error in item.predicted_errors]


def tuple_always() -> dict[str, str]:
    files = dict(trees.flash_attn2(wrapped=False))
    files["flash_attn_interface.py"] = files["flash_attn_interface.py"].replace(
        "return out if not return_softmax else (out, softmax_lse, S_dmask)", "return out, softmax_lse"
    )
    return files


def use(backend: str, arguments: str = "") -> str:
    return f"{DIFFUSERS}\nwith attention_backend('{backend}'):\n    dispatch_attention_fn(q, k, v{arguments})\n"


LSE = ", attention_kwargs={'return_lse': True}"
TRANSFORMERS = """
import torch
from types import SimpleNamespace
from transformers.modeling_flash_attention_utils import lazy_import_flash_attention, _flash_attention_forward
q, k, v = (torch.randn(2, 4, 2, 8, dtype=torch.float16) for _ in range(3))
name = {repo!r}
lazy_import_flash_attention(name)
_flash_attention_forward(q, k, v, {mask}, 4, False, attn_implementation=name)
"""
PADDED = "torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])"


@dataclass(frozen=True)
class Case:
    id: str
    consumer: tuple[str, str]
    code: str
    repo: str = FA2
    files: Mapping[str, str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Further packages, in place of those of the shared environment.
    beside: tuple[tuple[str, str], ...] = ()


CASES = [
    Case("G1-0.38.0", ("diffusers", "0.38.0"), use("flash_hub"), files=trees.flash_attn2(wrapped=False)),
    Case("G1-0.41.0", ("diffusers", "0.41.0"), use("flash_hub"), files=trees.flash_attn2(wrapped=False)),
    Case("G2-0.41.0", ("diffusers", "0.41.0"), use("flash_varlen_hub"), files=trees.flash_attn2(wrapped=False)),
    Case("G8-0.38.0", ("diffusers", "0.38.0"), use("flash_varlen_hub", LSE), files=trees.flash_attn2(wrapped=False)),
    Case("G9-0.42.1", ("diffusers", "0.42.1"), use("flash_varlen_hub"), files=tuple_always()),
    Case("G10-0.41.0", ("diffusers", "0.41.0"), use("_flash_3_hub"), FA3, trees.flash_attn3(old=True)),
    Case("G11-0.42.1", ("diffusers", "0.42.1"),
         f"{DIFFUSERS}\nmodule._maybe_download_kernel_for_backend(module.AttentionBackendName._FLASH_3_HUB)\n"
         "module._flash_attention_3_hub_forward_op(None, q, k, v)", FA3, trees.flash_attn3(old=True)),
    Case("G13-0.36.0", ("diffusers", "0.36.0"), use("flash_hub")),
    Case("G17-0.41.0", ("diffusers", "0.41.0"), f"{DIFFUSERS}\ndispatch_attention_fn(q, k, v)",
         environment={"DIFFUSERS_ATTN_BACKEND": "flash_hub"}),
    Case("G17-bogus", ("diffusers", "0.42.1"), DIFFUSERS, environment={"DIFFUSERS_ATTN_BACKEND": "bogus"}),
    Case("G18-5.24.0", ("transformers", "5.24.0"), TRANSFORMERS.format(repo=FA2, mask="None")),
    Case("G19-5.22.0", ("transformers", "5.22.0"), TRANSFORMERS.format(repo="kernels-community/flash-mla", mask=PADDED),
         "kernels-community/flash-mla", trees.flash_mla()),
    Case("G19-none-5.22.0", ("transformers", "5.22.0"),
         TRANSFORMERS.format(repo="kernels-community/flash-mla", mask="None"), "kernels-community/flash-mla",
         trees.flash_mla()),
    Case("G20-5.22.0", ("transformers", "5.22.0"),
         TRANSFORMERS.format(repo="kernels-community/sage-attention", mask="None"), "kernels-community/sage-attention",
         trees.sage_attention()),
    Case("G27-4.57.6", ("transformers", "4.57.6"), "import transformers",
         beside=(("tokenizers", "0.22.1"),)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_the_real_error_is_the_predicted_one(case: Case, python: Path, tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", case.consumer, *case.beside)
    environment, kernel = dict(case.environment), None
    if case.files is not None:
        folder = trees.write_kernel(tmp_path / "kernel", case.files, trees.KernelShape(case.repo))
        environment["LOCAL_KERNELS"], kernel = f"{case.repo}={folder}", f"{case.repo}={folder}"
    answer = run(python, site, case.code, environment)
    assert "errors" in answer, answer
    judged = real_wheels.environment(tmp_path / "judged", case.consumer, ("kernels", KERNELS))
    texts = predicted(judged, kernel, case.environment)
    # Some add a line of advice; the message itself is the first one.
    real = {text for error in answer["errors"] for text in (error, error.partition("\n")[0])}
    assert real & set(texts), (answer["errors"], texts)


def test_silent_wrong_shape(python: Path, tmp_path: Path) -> None:
    """G6: no error, and the first row of the output in place of the output."""
    code = f"{DIFFUSERS}\nwith attention_backend('_flash_3_varlen_hub'):\n    out = dispatch_attention_fn(q, k, v)\n"
    code += "result = [list(out.shape), list(q.shape)]\n"
    for version, wrong in (("0.38.0", True), ("0.39.0", False)):
        site = real_wheels.environment(tmp_path / version, ("diffusers", version))
        folder = trees.write_kernel(tmp_path / f"kernel-{version}", trees.flash_attn3(), trees.KernelShape(FA3))
        answer = run(python, site, code, {"LOCAL_KERNELS": f"{FA3}={folder}"})
        assert answer["result"] == ([[2, 1, 8], [2, 4, 2, 8]] if wrong else [[2, 4, 2, 8], [2, 4, 2, 8]])
        facts = read_site_packages(site, options=ReadOptions(hub=HubOptions((parse_kernel(f"{FA3}={folder}"),))))
        found = [item for item in diagnose(facts, CHAIN).findings if " _flash_3_varlen_hub" in item.title.en]
        assert [item.code for item in found if item.severity == "error"] == (["FD303"] if wrong else [])


@pytest.mark.parametrize(
    ("version", "backend", "files", "repo"),
    [
        ("0.42.1", "flash_hub", trees.flash_attn2(wrapped=False), FA2),
        ("0.42.1", "flash_varlen_hub", trees.flash_attn2(wrapped=False), FA2),
        ("0.41.0", "_flash_3_hub", trees.flash_attn3(), FA3),
        ("0.38.0", "flash_varlen_hub", trees.flash_attn2(wrapped=False), FA2),
    ],
)
def test_what_is_said_to_fit_runs_and_is_right(
    version: str, backend: str, files: Mapping[str, str], repo: str, python: Path, tmp_path: Path
) -> None:
    site = real_wheels.environment(tmp_path / "site", ("diffusers", version))
    folder = trees.write_kernel(tmp_path / "kernel", files, trees.KernelShape(repo))
    code = f"{DIFFUSERS}\nwith attention_backend('{backend}'):\n    out = dispatch_attention_fn(q, k, v)\n"
    code += "result = float((out.float() - expected).abs().max())\n"
    answer = run(python, site, code, {"LOCAL_KERNELS": f"{repo}={folder}"})
    assert answer.get("result", 1.0) < 2e-3, answer
    facts = read_site_packages(site, options=ReadOptions(hub=HubOptions((parse_kernel(f"{repo}={folder}"),))))
    found = [item for item in diagnose(facts, CHAIN).findings if item.link == "hub_kernels"]
    assert not [item for item in found if item.severity == "error" and f"{backend}:" in item.title.en]


DISPATCH = """
import importlib.util, itertools, json, sys, torch
from flexdoctor.kernels import Dispatcher, DESCRIPTIONS, Entry, KernelCapability, KernelUnusableError
torch.manual_seed(0)

def load(folder):
    spec = importlib.util.spec_from_file_location("kernel_" + str(abs(hash(folder))), folder + "/__init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

def reference(q, k, v, causal):
    out = torch.nn.functional.scaled_dot_product_attention(
        *(x.float().transpose(1, 2) for x in (q, k, v)), is_causal=causal, enable_gqa=q.shape[2] != k.shape[2])
    return out.transpose(1, 2)

result = {}
for name, folder in json.loads(FOLDERS).items():
    module = load(folder)
    extra = [KernelCapability("renamed", (Entry("attend_now"),))] if name == "renamed" else []
    worst = 0.0
    for causal, heads in itertools.product((False, True), (2, 4)):
        q = torch.randn(2, 6, 4, 8, dtype=torch.float16)
        k, v = (torch.randn(2, 6, heads, 8, dtype=torch.float16) for _ in range(2))
        attend = Dispatcher([(name, module)], capabilities=[*extra, *DESCRIPTIONS], allow_fallback=(name == "poor"))
        out = attend(q, k, v, causal=causal)
        worst = max(worst, float((out.float() - reference(q, k, v, causal)).abs().max()))
        assert out.shape == q.shape and isinstance(out, torch.Tensor)
        packed = attend_packed = None
        cu = torch.tensor([0, 4, 6], dtype=torch.int32)
        flat = [x[0] for x in (q, k, v)]
        try:
            packed = attend.varlen(*flat, cu, cu, 4, 2, causal=causal)
        except KernelUnusableError:
            assert name in ("sage", "renamed"), name
            packed = Dispatcher([(name, module)], allow_fallback=True).varlen(*flat, cu, cu, 4, 2, causal=causal)
        for begin, end in ((0, 4), (4, 6)):
            want = reference(*(x[None, begin:end] for x in flat), causal)[0]
            worst = max(worst, float((packed[begin:end].float() - want).abs().max()))
    result[name] = worst
q = torch.randn(1, 4, 2, 8)
try:
    Dispatcher([("fa2", module)])(q, q, q)
except KernelUnusableError as error:
    result["fp32"] = str(error)
out = Dispatcher([("fa2", module)], allow_fallback=True)(q, q, q)
result["fp32 fallback"] = float((out - reference(q, q, q, False)).abs().max())
"""


def test_dispatcher_on_real_tensors(python: Path, tmp_path: Path) -> None:
    """Tensor- and tuple-returning, renamed, keyword-poor and varlen-only kernels, all equal to the reference."""
    renamed = {"__init__.py": trees._single("\ndef attend_now(query, key, value, *, scale=None, is_causal=False):\n"
               "    return attend(query, key, value, scale, is_causal), lse(query)\n")["__init__.py"]}  # fmt: skip
    poor = {
        "__init__.py": trees._single("\ndef flash_attn_func(q, k, v):\n    return attend(q, k, v)\n")["__init__.py"]
    }
    shapes = {
        "renamed": renamed,
        "poor": poor,
        "varlen only": trees.metal_flash_sdpa(),
        "other names": trees.flash_mla(),
        "tuple": trees.vllm_flash_attn3(),
        "sage": trees.sage_attention(),
        "list": trees.aiter_flash_attn(),
        "fa2": trees.flash_attn2(wrapped=False),
    }
    folders = {
        name: str(trees.write_variant(tmp_path / name.replace(" ", "-"), files)) for name, files in shapes.items()
    }
    source = Path(__file__).parents[2]
    package = tmp_path / "path" / "flexdoctor"
    package.parent.mkdir()
    package.symlink_to(source / "doctor")
    code = f"FOLDERS = {json.dumps(folders)!r}\n{DISPATCH}"
    answer = run(python, package.parent, code, {})
    result = answer.get("result")
    assert result, answer
    assert "takes float16 and bfloat16, not float32" in result.pop("fp32")
    assert {name: value for name, value in result.items() if value > 5e-3} == {}
    assert set(result) == {*shapes, "fp32 fallback"}
