"""Links 1, 2 and 6 to 9 as rows of facts: no-fault rows first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import samples

from flexdoctor.chain import Check
from flexdoctor.checks import (
    cann,
    device_properties,
    interpreter,
    module_rename,
    packages,
    subgraph_lowering,
    triton_install,
)
from flexdoctor.facts import (
    BackendBreak,
    Distribution,
    Facts,
    FlexLowering,
    LoadImport,
    MachineFacts,
    ModuleFolder,
    PackagesFacts,
    Shadow,
    TritonFacts,
    UnknownRelease,
    Unread,
)
from flexdoctor.testing import run_check

HEALTHY = samples.HEALTHY


def with_triton(**changes: Any) -> Facts:
    return replace(HEALTHY, triton=replace(samples.TRITON, **changes))


def with_npu(**changes: Any) -> Facts:
    return replace(HEALTHY, torch_npu=replace(samples.TORCH_NPU, **changes))


def with_machine(**changes: Any) -> Facts:
    return replace(HEALTHY, machine=MachineFacts(**changes))


def with_packages(*dists: Distribution, **changes: Any) -> Facts:
    kept = [item for item in samples.DISTRIBUTIONS if item.name not in {dist.name for dist in dists}]
    return replace(HEALTHY, packages=replace(HEALTHY.packages, distributions=(*kept, *dists), **changes))


def dist(name: str, version: str, *requires: str, **changes: Any) -> Distribution:
    return Distribution(name, version, f"{samples.SITE}/{name}-{version}.dist-info", requires, **changes)


def lowering(**changes: Any) -> FlexLowering:
    assert samples.TORCH_NPU.lowering is not None
    return replace(samples.TORCH_NPU.lowering, **changes)


NO_FAULT = [
    (interpreter.CHECK, HEALTHY, "healthy"),
    (interpreter.CHECK, with_packages(dist("torch", "2.13.0", tags=("cp311-cp311-manylinux_2_28_aarch64",))), "tag"),
    (interpreter.CHECK, with_packages(dist("torch", "2.13.0", tags=("cp39-abi3-manylinux_2_28_aarch64",))), "abi3"),
    (interpreter.CHECK, with_packages(dist("torch", "2.13.0", tags=("py3-none-any",))), "pure"),
    (packages.CHECK, HEALTHY, "healthy"),
    (packages.CHECK, with_packages(dist("torch-npu", "2.7.1", "torch==2.13.0+cpu")), "local pin, same release"),
    (packages.CHECK, with_packages(dist("torch-npu", "2.13.0")), "no pin at all"),
    (packages.CHECK, with_packages(dist("torchvision", "0.28.0", "torch==2.13.0")), "companion fits"),
    (triton_install.CHECK, HEALTHY, "triton-ascend alone"),
    (triton_install.CHECK, with_triton(claims=(samples.TRITON_ASCEND, samples.UPSTREAM)), "both, files intact"),
    (triton_install.CHECK, with_triton(backends=("ascend", "nvidia")), "a fork with two backends"),
    (device_properties.CHECK, HEALTHY, "replaced"),
    (device_properties.CHECK, replace(HEALTHY, torch=replace(samples.TORCH, major_comparison=None)), "torch 2.14"),
    (module_rename.CHECK, HEALTHY, "cann first"),
    (module_rename.CHECK, with_triton(extra=("cann", "cann.libdevice", "cann.extension", "ascend.libdevice")), "all"),
    (subgraph_lowering.CHECK, HEALTHY, "index handled"),
]


@pytest.mark.parametrize(
    ("check", "facts"), [row[:2] for row in NO_FAULT], ids=[f"{c.link}: {i}" for c, _, i in NO_FAULT]
)
def test_no_fault(check: Check, facts: Facts) -> None:
    assert [item.status for item in run_check(check, facts)] == ["pass"]


OVERWRITTEN = replace(samples.TRITON_ASCEND, shared=34, overwritten=29, overwritten_sample=("triton/__init__.py",))
HALF_GONE = replace(samples.TRITON_ASCEND, missing=34, missing_sample=("triton/__init__.py",))
NO_PYBIND11 = (LoadImport("pybind11", samples.place("triton/backends/ascend/utils.py", 33), present=False),)
BREAK = BackendBreak("amd", "triton", "ImportError: cannot import name 'Language'", samples.place("triton/x.py"))
ASCEND_ONLY = (samples.step("ascend.libdevice", "plain", text="import triton.language.extra.ascend.libdevice"),)
CANN_ONLY = samples.CANN_THEN_ASCEND[:2]
PLANNED = replace(HEALTHY.target, kind="requirements")
FAULTS = [
    (interpreter.CHECK, with_packages(dist("torch", "2.13.0", tags=("cp312-cp312-linux_aarch64",))), "fail FD101"),
    (interpreter.CHECK, with_packages(dist("torch", "2.13.0", tags=("cp311-cp311-linux_x86_64",))), "fail FD102"),
    (
        interpreter.CHECK,
        replace(HEALTHY, interpreter=replace(HEALTHY.interpreter, unread=(Unread("p", "r"),))),
        "fail FD103",
    ),
    (packages.CHECK, replace(HEALTHY, torch=None, torch_npu=None, packages=PackagesFacts()), "fail FD111 fail FD112"),
    (packages.CHECK, with_packages(dist("torch-npu", "2.12.0", "torch==2.12.0")), "fail FD113"),
    (packages.CHECK, with_packages(dist("torch-npu", "2.14.0", "torch==2.14.0.*")), "fail FD113"),
    (packages.CHECK, replace(HEALTHY, torch=replace(samples.TORCH, cuda="13.0")), "warn FD114 pass None"),
    (packages.CHECK, with_packages(dist("torch", "2.13.0", missing_count=3, missing_files=("a",))), "fail FD115"),
    (packages.CHECK, replace(with_packages(), torch=None), "fail FD115"),
    (packages.CHECK, replace(with_packages(dist("torch", "2.13.0", is_editable=True)), torch=None), "unknown FD115"),
    (
        packages.CHECK,
        replace(
            HEALTHY,
            packages=replace(
                HEALTHY.packages,
                distributions=samples.DISTRIBUTIONS[:1],
                folders=(ModuleFolder("torch_npu", "/s/torch_npu", (), has_init=True),),
            ),
        ),
        "warn FD116 pass None",
    ),
    (
        packages.CHECK,
        with_packages(shadows=(Shadow("torch_npu", "/src/torch_npu", "working directory"),)),
        "fail FD117",
    ),
    (packages.CHECK, with_packages(dist("torch", "2.13.0"), dist("torch", "2.12.0")), "warn FD118 pass None"),
    (packages.CHECK, with_packages(dist("torchvision", "0.21.0", "torch==2.6.0")), "warn FD119 pass None"),
    (
        packages.CHECK,
        with_packages(unread=(Unread("/env/lib/python3.11/site-packages/torch-2.13.0.dist-info/RECORD", "no"),)),
        "unknown FD110 pass None",
    ),
    (
        packages.CHECK,
        replace(
            with_packages(unknown_releases=(UnknownRelease("torch-npu", "2.99.0", "2.14.0"),)),
            target=PLANNED,
            torch_npu=None,
        ),
        "unknown FD161",
    ),
    (triton_install.CHECK, replace(HEALTHY, triton=TritonFacts()), "fail FD211"),
    (triton_install.CHECK, with_triton(claims=(samples.UPSTREAM,), backends=("amd", "nvidia")), "fail FD212"),
    (triton_install.CHECK, with_triton(claims=(OVERWRITTEN, samples.UPSTREAM)), "fail FD213"),
    (triton_install.CHECK, with_triton(imports=NO_PYBIND11), "fail FD214 pass None"),
    (triton_install.CHECK, with_triton(claims=(), backends=("nvidia",)), "fail FD215"),
    (triton_install.CHECK, with_triton(claims=()), "unknown FD215"),
    (triton_install.CHECK, with_triton(claims=(HALF_GONE,)), "fail FD216"),
    (
        triton_install.CHECK,
        with_triton(claims=(samples.TRITON_ASCEND, samples.UPSTREAM), breaks=(BREAK,)),
        "fail FD217",
    ),
    (triton_install.CHECK, with_triton(backends=(), unread=(Unread("/s/triton/x", "no"),)), "unknown FD218"),
    (device_properties.CHECK, with_npu(has_triton_patches=()), "warn FD221"),
    (
        device_properties.CHECK,
        replace(with_npu(has_triton_patches=()), machine=MachineFacts(environment={"TORCH_TRANSFER_TO_NPU": "1"})),
        "fail FD222",
    ),
    (module_rename.CHECK, with_npu(extra_steps=ASCEND_ONLY), "fail FD231"),
    (module_rename.CHECK, with_triton(extra=("cann", "cann.libdevice")), "fail FD231"),
    (module_rename.CHECK, with_triton(extra=("ascend", "ascend.libdevice")), "fail FD232"),
    (
        module_rename.CHECK,
        replace(with_npu(extra_steps=CANN_ONLY), triton=replace(samples.TRITON, extra=("ascend.libdevice",))),
        "fail FD232",
    ),
    (module_rename.CHECK, with_npu(extra_steps=()), "skipped None"),
    (subgraph_lowering.CHECK, with_npu(lowering=None, lowering_policy="allow-list"), "fail FD241"),
    (subgraph_lowering.CHECK, with_npu(lowering=lowering(registered=None)), "fail FD241"),
    (subgraph_lowering.CHECK, with_npu(lowering=None, unread=(Unread("x", "y"),)), "unknown FD241"),
    (subgraph_lowering.CHECK, with_npu(lowering=lowering(backward=None)), "warn FD242"),
    (subgraph_lowering.CHECK, with_npu(lowering=lowering(handled_operators=("aten.remainder.Scalar",))), "warn FD243"),
    (
        subgraph_lowering.CHECK,
        with_npu(imports=(LoadImport("psutil", samples.place("x"), present=False),)),
        "fail FD244",
    ),
]


@pytest.mark.parametrize(
    ("check", "facts", "expected"), FAULTS, ids=[f"{check.link}: {expected}" for check, _, expected in FAULTS]
)
def test_fault(check: Check, facts: Facts, expected: str) -> None:
    findings = run_check(check, facts)
    assert " ".join(f"{item.status} {item.code}" for item in findings) == expected
    for finding in findings:
        if finding.status in ("fail", "unknown"):
            assert finding.evidence or finding.code in ("FD111", "FD112"), "a verdict without evidence"


def test_observed_message_of_the_silent_fallback() -> None:
    (finding,) = run_check(module_rename.CHECK, with_triton(extra=("ascend", "ascend.libdevice")))
    assert finding.predicted_errors == (
        "ImportError: cannot import name 'extension' from 'torch_npu._inductor.runtime.triton_helpers'",
    )


def test_an_overwritten_installation_names_what_will_bring_it_back() -> None:
    facts = with_triton(claims=(OVERWRITTEN, samples.UPSTREAM))
    wish = 'xgrammar 0.1.30: triton; platform_machine == "x86_64"'
    facts = replace(facts, packages=replace(facts.packages, triton_wanted_by=(wish,)))
    (finding,) = run_check(triton_install.CHECK, facts)
    said = [item.text for item in finding.evidence]
    assert "triton 3.7.1 was installed after triton-ascend 3.2.2" in said
    assert wish in said


def test_captured_tensors_are_an_error_only_when_required() -> None:
    facts = with_npu(lowering=lowering(handled_operators=()))
    assert run_check(subgraph_lowering.CHECK, facts)[0].severity == "warning"
    assert run_check(subgraph_lowering.CHECK, facts, required="compiled_captured")[0].severity == "error"


def test_a_users_score_mod_is_told_apart_from_the_environment() -> None:
    (finding,) = run_check(subgraph_lowering.CHECK, HEALTHY)
    assert "the score_mod that is not pointwise" in finding.detail.en


def test_without_autoload_importing_torch_is_not_predicted_to_fail() -> None:
    (on,) = run_check(cann.CHECK, with_machine())
    assert on.predicted_errors[0].startswith("RuntimeError: Failed to load the backend extension: torch_npu.")
    (off,) = run_check(cann.CHECK, with_machine(environment={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}))
    assert off.predicted_errors == ()
