"""The golden table of mismatches: real consumers from the index against kernels of the shape that each row names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import builders
import kernel_trees as trees
import pytest
import real_wheels

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.findings import Finding
from flexdoctor.readers.environment import HubOptions, ReadOptions, read_site_packages
from flexdoctor.readers.hub import parse_kernel

pytestmark = pytest.mark.real

FA2, FA3 = "kernels-community/flash-attn2", "kernels-community/flash-attn3"
UNFIT = "AttributeError: 'tuple' object has no attribute 'unflatten'"


@dataclass(frozen=True)
class Row:
    """One row: a consumer, a kernel, one backend, and what the check must say about it."""

    id: str
    consumer: tuple[str, str]
    files: Mapping[str, str]
    repo: str
    backend: str
    code: str | None
    error: str = ""
    severity: str = "error"
    why: str = ""
    #: What stands in for `repo`: another kernel, by LOCAL_KERNELS.
    name: str = field(default="")


def missing(path: str, module: str = "_flash_attn2_cuda_1abcdef") -> str:
    return f"AttributeError: Kernel module '{module}' does not define attribute path '{path}'."


PLAIN, WRAPPED = trees.flash_attn2(wrapped=False), trees.flash_attn2(wrapped=True)
ROWS = [
    *(
        Row(f"G1-{version}", ("diffusers", version), PLAIN, FA2, "flash_hub", "FD301",
            missing("flash_attn_interface._wrapped_flash_attn_forward"))
        for version in ("0.38.0", "0.39.0", "0.41.0")
    ),
    *(
        Row(f"G2-{version}", ("diffusers", version), PLAIN, FA2, "flash_varlen_hub", "FD301",
            missing("flash_attn_interface._wrapped_flash_attn_varlen_forward"))
        for version in ("0.39.0", "0.41.0")
    ),
    Row("G3", ("diffusers", "0.38.0"), PLAIN, FA2, "flash_varlen_hub", "FD303", UNFIT, "warning", "return_lse=True"),
    *(
        Row(f"G4-{version}", ("diffusers", version), WRAPPED, FA2, "flash_hub", None)
        for version in ("0.38.0", "0.39.0", "0.41.0")
    ),
    *(
        Row(f"G5-{backend}-{kind}", ("diffusers", "0.42.1"), files, FA2, backend, None)
        for backend in ("flash_hub", "flash_varlen_hub")
        for kind, files in (("plain", PLAIN), ("wrapped", WRAPPED))
    ),
    *(
        Row(f"G6-{version}", ("diffusers", version), trees.flash_attn3(), FA3, "_flash_3_varlen_hub", "FD303", "",
            why="the first row goes on as the result")
        for version in ("0.36.0", "0.38.0")
    ),
    Row("G6-fixed", ("diffusers", "0.39.0"), trees.flash_attn3(), FA3, "_flash_3_varlen_hub", None),
    *(
        Row(f"G7-{version}", ("diffusers", version), trees.flash_attn3(old=True), FA3, "_flash_3_varlen_hub", None)
        for version in ("0.36.0", "0.38.0")
    ),
    *(
        Row(f"G8-{version}", ("diffusers", version), files, FA2, "flash_varlen_hub", "FD303", UNFIT, "warning",
            "return_lse=True")
        for version, files in (("0.36.0", PLAIN), ("0.38.0", WRAPPED))
    ),
    Row("G9-fa4", ("diffusers", "0.36.0"), trees.flash_attn4(), FA2, "flash_varlen_hub", "FD302",
        "TypeError: flash_attn_varlen_func() got an unexpected keyword argument 'dropout_p'", name="flash-attn4"),
    *(
        Row(f"G10-{version}-{kind}", ("diffusers", version), files, FA3, "_flash_3_hub", "FD302" if kind == "old" else
            ("FD302" if version == "0.36.0" else "FD301"),
            "TypeError: flash_attn_func() got an unexpected keyword argument 'return_attn_probs'"
            if kind == "old" or version == "0.36.0"
            else missing("flash_attn_interface._flash_attn_forward", "_flash_attn3_cuda_1abcdef"))
        for version in ("0.36.0", "0.41.0", "0.42.1")
        for kind, files in (("old", trees.flash_attn3(old=True)), ("vllm", trees.vllm_flash_attn3()))
    ),
    Row("G11-forward", ("diffusers", "0.42.1"), trees.flash_attn3(old=True), FA3, "_flash_3_varlen_hub", "FD302",
        "TypeError: _flash_attn_forward() got an unexpected keyword argument 'window_size_left'", "warning",
        "context parallelism"),
    Row("G11-backward", ("diffusers", "0.42.1"), trees.flash_attn3(old=True), FA3, "_flash_3_varlen_hub", "FD302",
        "TypeError: _flash_attn_backward() takes from 18 to 21 positional arguments but 22 were given", "warning",
        "context parallelism"),
    Row("G11-fits", ("diffusers", "0.42.1"), trees.flash_attn3(), FA3, "_flash_3_hub", None),
    Row("sage", ("diffusers", "0.39.0"), trees.sage_attention(), "kernels-community/sage-attention", "sage_hub", None),
    Row("fa4", ("diffusers", "0.39.0"), trees.flash_attn4(), "kernels-community/flash-attn4", "flash_4_hub", None),
    *(
        Row(f"G19-{version}", ("transformers", version), trees.flash_mla(), "kernels-community/flash-mla", "attn",
            "FD302", "TypeError: flash_attn_varlen_func() got an unexpected keyword argument 'cu_seqlens_q'")
        for version in ("5.17.0", "5.22.0", "5.24.0")
    ),
    Row("G19-none", ("transformers", "5.24.0"), trees.flash_mla(), "kernels-community/flash-mla", "attn", "FD301",
        "TypeError: 'NoneType' object is not callable"),
    *(
        Row(f"G20-{version}", ("transformers", version), trees.sage_attention(), "kernels-community/sage-attention",
            "attn", "FD301", "UnboundLocalError: cannot access local variable 'kernel_function' where it is not "
            "associated with a value")
        for version in ("4.57.6", "5.17.0", "5.22.0", "5.24.0")
    ),
    *(
        Row(f"G21-{code}", ("transformers", "5.24.0"), trees.sgl_flash_attn3(), "sgl-project/sgl-flash-attn3", "attn",
            code, error, severity)
        for code, error, severity in (
            ("FD304", "", "warning"),
            ("FD301", "TypeError: 'NoneType' object is not callable", "error"),
        )
    ),
    *(
        Row(f"G22-{version}", ("transformers", version), trees.aiter_flash_attn(), "kernels-community/aiter-flash-attn",
            "attn", "FD304", "", "warning")
        for version in ("5.17.0", "5.22.0", "5.24.0")
    ),
    *(
        Row(f"G23-{repo}", ("transformers", "4.57.6"), files, repo, "attn", "FD301",
            "ValueError: Could not find the currently requested flash attention implementation at `…`.Make sure that "
            "you request a valid kernel from the hub, e.g. `kernels-community/flash-attn`.")
        for repo, files in (
            ("kernels-community/metal-flash-sdpa", trees.metal_flash_sdpa()),
            ("sgl-project/sgl-flash-attn3", trees.sgl_flash_attn3()),
            ("kernels-community/flash-mla", trees.flash_mla()),
        )
    ),
    *(
        Row(f"transformers-{version}-fa2", ("transformers", version), PLAIN, FA2, "attn", None)
        for version in ("4.57.6", "5.17.0", "5.22.0", "5.24.0")
    ),
    *(
        Row(f"transformers-{version}-vllm", ("transformers", version), trees.vllm_flash_attn3(),
            "kernels-community/vllm-flash-attn3", "attn", None)
        for version in ("4.57.6", "5.24.0")
    ),
]  # fmt: skip


def findings(site: Path, kernel: str) -> list[Finding]:
    facts = read_site_packages(site, options=ReadOptions(hub=HubOptions((parse_kernel(kernel),))))
    return list(diagnose(facts, CHAIN, select=["hub_kernels"]).findings)


def about(found: list[Finding], backend: str) -> Iterator[Finding]:
    for item in found:
        if backend == "attn" or re.search(rf"(?<!\w){backend}(?!\w)", item.title.en):
            yield item


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_golden_row(row: Row, tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", row.consumer)
    folder = trees.write_kernel(tmp_path / "kernel", row.files, trees.KernelShape(row.repo))
    found = list(about(findings(site, f"{row.repo}={folder}"), row.backend))
    assert found, "nothing said about this backend"
    if row.code is None:
        assert [(item.code, item.predicted_errors) for item in found if item.status in ("fail", "warn")] == []
        assert {item.status for item in found} <= {"pass", "unknown"}
        return
    matching = [item for item in found if item.code == row.code and row.error in ("", *item.predicted_errors)]
    assert matching, [(item.code, item.predicted_errors) for item in found]
    finding = matching[0]
    assert finding.severity == row.severity
    assert row.why in finding.detail.en
    if not row.error:
        assert finding.predicted_errors == ()
    files = [item.path or "" for item in finding.evidence]
    assert any(f"/{row.consumer[0]}/" in path for path in files), "no line of the consumer"
    assert any(str(folder) in path for path in files), "no line of the kernel"
    assert finding.affects == ()


def test_g9_a_kernel_that_always_gives_a_tuple(tmp_path: Path) -> None:
    """FA2's arguments with a tuple always, by LOCAL_KERNELS: unflatten of a tuple, in 0.42.1 too."""
    files = dict(trees.flash_attn2(wrapped=False))
    files["flash_attn_interface.py"] = files["flash_attn_interface.py"].replace(
        "return out if not return_softmax else (out, softmax_lse, S_dmask)", "return out, softmax_lse"
    )
    site = real_wheels.environment(tmp_path / "site", ("diffusers", "0.42.1"))
    folder = trees.write_kernel(tmp_path / "kernel", files)
    found = list(about(findings(site, f"{FA2}={folder}"), "flash_varlen_hub"))
    assert [(item.code, item.severity, item.predicted_errors) for item in found] == [("FD303", "error", (UNFIT,))]


def test_g13_version_required(tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", ("diffusers", "0.36.0"), ("kernels", "0.17.2"))
    builders.install(site, "huggingface_hub", "1.33.0")
    (found,) = [item for item in diagnose(read_site_packages(site), CHAIN).findings if item.code == "FD306"]
    assert found.predicted_errors[0].startswith("ValueError: A kernel version or revision must be specified. Use ")
    for backend in ("flash_hub", "flash_varlen_hub", "sage_hub", "_flash_3_varlen_hub"):
        assert backend in found.title.en
    assert "_flash_3_hub" not in found.title.en


def test_g13_older_kernels_take_no_version(tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", ("diffusers", "0.36.0"), ("kernels", "0.9.1"))
    assert [item.code for item in diagnose(read_site_packages(site), CHAIN).findings if item.code == "FD306"] == []


def test_g18_window_of_kernels(tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", ("transformers", "5.24.0"), ("kernels", "0.17.2"))
    (found,) = [item for item in diagnose(read_site_packages(site), CHAIN).findings if item.code == "FD306"]
    assert found.predicted_errors == (
        "ImportError: `kernels` is either not installed or uses an incompatible version. Please install a compatible "
        "version (0.18.2 <= version < 0.19.0), e.g. `pip install kernels==0.18.2`",
    )
    site = real_wheels.environment(tmp_path / "fits", ("transformers", "5.22.0"), ("kernels", "0.17.2"))
    assert [item.code for item in diagnose(read_site_packages(site), CHAIN).findings if item.code == "FD306"] == []


@pytest.mark.parametrize(
    ("consumer", "hub", "clash"),
    [
        (("diffusers", "0.39.0"), "2.4.0", True),
        (("diffusers", "0.42.1"), "2.4.0", False),
        (("diffusers", "0.36.0"), "1.33.0", False),
        (("transformers", "4.57.6"), "1.33.0", True),
        (("transformers", "5.24.0"), "2.4.0", False),
        (("kernels", "0.9.1"), "1.33.0", True),
        (("kernels", "0.17.2"), "0.36.2", True),
        (("kernels", "0.17.2"), "2.4.0", False),
    ],
)
def test_g27_bounds_on_huggingface_hub(consumer: tuple[str, str], hub: str, clash: bool, tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", consumer)
    builders.install(site, "huggingface_hub", hub)
    codes = [item.code for item in diagnose(read_site_packages(site), CHAIN).findings if item.link == "hub_kernels"]
    assert ("FD306" in codes) is clash


def test_g24_and_g25_no_build_for_this_torch_or_for_an_npu(tmp_path: Path) -> None:
    variants = ("torch211-cxx11-cu130-x86_64-linux", "torch212-cxx11-cu130-x86_64-linux")
    shape = trees.KernelShape(FA2, variants=variants)
    folder = trees.write_kernel(tmp_path / "kernel", WRAPPED, shape)
    for name, npu, expected in (("cuda", False, True), ("npu", True, True)):
        site = real_wheels.environment(tmp_path / name, ("diffusers", "0.41.0"))
        builders.install_torch(site, builders.TorchShape(version="2.13.0", cuda=None if npu else "13.0"))
        if npu:
            builders.install_torch_npu(site)
        found = findings(site, f"{FA2}={folder}")
        assert ("FD305" in [item.code for item in found]) is expected
        (missing_build,) = [item for item in found if item.code == "FD305"]
        assert missing_build.predicted_errors[0].startswith(
            f"FileNotFoundError: Cannot find a build variant for this system in {FA2} (revision: "
        )
        assert ("_native_npu" in missing_build.remedy.en) is npu
    site = real_wheels.environment(tmp_path / "fits", ("diffusers", "0.41.0"))
    builders.install_torch(site, builders.TorchShape(version="2.12.0", cuda="13.0"))
    assert "FD305" not in [item.code for item in findings(site, f"{FA2}={folder}") if item.status == "fail"]


@pytest.mark.parametrize("version", ["0.36.0", "0.38.0", "0.39.0", "0.41.0", "0.42.1"])
def test_an_ordinary_environment_has_no_error(version: str, tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", ("diffusers", version), ("transformers", "5.22.0"))
    builders.install(site, "huggingface_hub", "1.33.0")
    found = [item for item in diagnose(read_site_packages(site), CHAIN).findings if item.link == "hub_kernels"]
    assert [item.status for item in found] == ["pass"]


def test_a_kernel_that_is_not_for_attention(tmp_path: Path) -> None:
    site = real_wheels.environment(tmp_path / "site", ("diffusers", "0.42.1"), ("transformers", "5.22.0"))
    files = {"__init__.py": "def gelu_and_mul(out, x):\n    return out\n"}
    folder = trees.write_kernel(tmp_path / "kernel", files, trees.KernelShape("kernels-community/activation"))
    (found,) = findings(site, f"kernels-community/activation={folder}")
    assert found.status == "pass"


# Registries and call sites as a person reads them in each wheel.
BACKENDS = {
    "0.36.0": {"_flash_3_hub", "_flash_3_varlen_hub", "flash_hub", "flash_varlen_hub", "sage_hub"},
    "0.38.0": {"_flash_3_hub", "_flash_3_varlen_hub", "flash_hub", "flash_varlen_hub", "sage_hub", "flash_4_hub"},
    "0.41.0": {
        "_flash_3_hub", "_flash_3_varlen_hub", "flash_hub", "flash_varlen_hub", "sage_hub", "flash_4_hub",
        "aiter_fa2_hub", "sage_blackwell_hub",
    },
}  # fmt: skip


@pytest.mark.parametrize("version", sorted(BACKENDS))
def test_registry(version: str, tmp_path: Path) -> None:
    hub = read_site_packages(real_wheels.environment(tmp_path / "site", ("diffusers", version))).hub
    assert hub is not None
    assert hub.diffusers is not None
    assert {item.name for item in hub.diffusers.backends} == BACKENDS[version]
    assert all(call.use != "unrecognised" for b in hub.diffusers.backends for n in b.names for call in n.calls)
    assert all(name.calls for backend in hub.diffusers.backends for name in backend.names)
    by_name = {item.name: item for item in hub.diffusers.backends}
    assert by_name["flash_hub"].version == (None if version == "0.36.0" else 1)
    assert by_name["_flash_3_hub"].revision == ("fake-ops-return-probs" if version == "0.36.0" else None)
    assert hub.diffusers.checks_publisher is (version == "0.41.0")
