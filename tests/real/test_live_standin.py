"""The real torch 2.13.0, torch-npu 2.13.0 and triton-ascend 3.2.0 on a stand-in for CANN: real errors, recognised.

For each fault three things must agree: what the files predict, what the device run raises, and the code that the
table gives to that error.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import real_environments as real
import standin_cann

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import LiveFacts
from flexdoctor.findings import Report
from flexdoctor.knowledge.signatures import Match, Raised, recognise
from flexdoctor.probe.runner import LiveOptions, run_live
from flexdoctor.readers.environment import read_installed
from flexdoctor.readers.logs import read_log

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not standin_cann.can_build(), reason="needs gcc, nm and readelf"),
    pytest.mark.skipif(sys.platform != "linux", reason="torch-npu exists for Linux"),
]
TRITON_ASCEND, PYBIND, UPSTREAM = ["triton-ascend==3.2.0"], ["pybind11==3.0.1"], ["triton==3.7.1"]
Examine = Callable[..., tuple[LiveFacts, Report]]


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> standin_cann.StandIn:
    return standin_cann.build(real.torch_site(), tmp_path_factory.mktemp("cann"))


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Examine:
    """Read the files of an environment, run it, and put both into one report."""
    monkeypatch.chdir(tmp_path)

    def go(environment: Path, variables: dict[str, str], *stages: str) -> tuple[LiveFacts, Report]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        facts = read_installed(environment)
        live = run_live(environment / "bin" / "python", LiveOptions("npu", stages=stages))
        assert not list(tmp_path.glob("torch_compile_debug")), "the run left something behind"
        return live, diagnose(dataclasses.replace(facts, live=live), CHAIN)

    return go


def without(line: str) -> Callable[[str], str]:
    """Return a change of a source that takes the lines of this pattern out."""
    return lambda text: re.sub(rf"^{line}$", "    pass", text, flags=re.MULTILINE)


def error_of(live: LiveFacts, name: str) -> Match:
    stage = live.find(name)
    assert stage is not None
    assert stage.status == "failed", stage
    errors = [Raised(e.type, e.message, tuple(f"{f.path} {f.function}" for f in e.frames)) for e in stage.errors]
    match = recognise(errors)
    assert match is not None, errors
    return match


def said_by_files(report: Report) -> set[str | None]:
    return {item.code for item in report.findings if item.link != "live_run" and item.status in ("fail", "warn")}


def said_by_run(report: Report) -> str:
    return " | ".join(item.title.en for item in report.findings if item.link == "live_run" and item.code)


def test_without_cann_the_library_is_missing(examine: Examine) -> None:
    live, report = examine(real.environment("env-bare"), {}, "python", "torch", "torch_npu", "autoload")
    torch_alone = live.find("torch")
    assert torch_alone is not None
    assert torch_alone.status == "passed"
    for name in ("torch_npu", "autoload"):
        match = error_of(live, name)
        assert match.raised.message == "libhccl.so: cannot open shared object file: No such file or directory"
        assert "FD121" in match.signature.codes
    assert "FD121" in said_by_files(report)
    assert "(FD121)" in said_by_run(report)
    predicted = [error for item in report.findings if item.code == "FD121" for error in item.predicted_errors]
    assert "ImportError: libhccl.so: cannot open shared object file: No such file or directory" in predicted


def test_the_stand_in_shows_devices_whose_major_is_none(examine: Examine, standin: standin_cann.StandIn) -> None:
    stages = ("python", "torch", "torch_npu", "autoload", "devices", "gate")
    live, report = examine(real.environment("env-bare"), standin.environment(devices=2), *stages)
    assert {stage.status for stage in live.stages} == {"passed"}
    devices, gate, autoload = live.find("devices"), live.find("gate"), live.find("autoload")
    assert devices is not None
    assert (devices.values["name"], devices.values["count"]) == ("Ascend910B1", "2")
    assert devices.values["major"] == devices.values["minor"] == "None"
    assert autoload is not None
    assert autoload.values == {"torch_npu loaded by torch": "yes"}
    assert gate is not None
    assert gate.values["check"].startswith("torch_npu.utils.patch_flexattention.")
    assert "FD201" not in said_by_files(report)


def test_no_device(examine: Examine, standin: standin_cann.StandIn) -> None:
    live, report = examine(real.environment("env-bare"), standin.environment(devices=0), "devices", "gate")
    assert error_of(live, "devices").signature.name == "no npu"
    assert "there is no npu to run on" in said_by_run(report)
    assert {stage.status for stage in live.stages} == {"failed", "blocked"}


def test_triton_absent(examine: Examine, standin: standin_cann.StandIn) -> None:
    live, report = examine(real.environment("env-bare"), standin.environment(), "devices", "triton", "compiled_forward")
    assert error_of(live, "triton").signature.codes == ("FD211",)
    compiled = error_of(live, "compiled_forward")
    assert compiled.signature.codes == ("FD211",)
    assert compiled.raised.message.startswith("No module named 'triton'")
    assert "FD211" in said_by_files(report)
    assert "(FD211)" in said_by_run(report)


def test_pybind11_absent(examine: Examine, standin: standin_cann.StandIn) -> None:
    live, report = examine(
        real.environment("env-no-pybind11", TRITON_ASCEND), standin.environment(), "devices", "triton"
    )
    assert error_of(live, "triton").signature.codes == ("FD214",)
    assert "FD214" in said_by_files(report)
    assert "(FD214)" in said_by_run(report)


def test_upstream_triton_over_triton_ascend(examine: Examine, standin: standin_cann.StandIn) -> None:
    environment = real.environment("env-overwritten", TRITON_ASCEND, PYBIND, UPSTREAM)
    variables = standin.environment(path=os.environ["PATH"])
    live, report = examine(environment, variables, "devices", "triton", "compiled_forward")
    for name in ("triton", "compiled_forward"):
        match = error_of(live, name)
        assert match.raised.message.startswith("0 active drivers ([]). There should only be one.")
        assert "FD213" in match.signature.codes
    assert "FD213" in said_by_files(report)
    # The stand-in has no compiler either, which ends in the same error; the files of triton are named first.
    assert "(FD213 or FD149)" in said_by_run(report)
    assert "FD416" not in {item.code for item in report.findings}


def test_triton_ascend_over_upstream_triton(examine: Examine, standin: standin_cann.StandIn) -> None:
    environment = real.environment("env-stale", UPSTREAM, TRITON_ASCEND, PYBIND)
    live, report = examine(environment, standin.environment(), "devices", "triton")
    match = error_of(live, "triton")
    assert match.raised.message.startswith("cannot import name 'Language' from 'triton.backends.compiler'")
    assert set(match.signature.codes) & said_by_files(report)


def test_no_compiler_of_cann_means_no_driver(examine: Examine, standin: standin_cann.StandIn) -> None:
    environment = real.environment("env-ascend", TRITON_ASCEND, PYBIND)
    live, _ = examine(environment, standin.environment(), "devices", "triton")
    assert error_of(live, "triton").signature.name == "no driver"


def test_the_extension_of_cann_is_missing(examine: Examine, standin: standin_cann.StandIn) -> None:
    environment = real.environment("env-ascend", TRITON_ASCEND, PYBIND)
    variables = standin.environment(path=os.environ["PATH"])
    live, report = examine(environment, variables, "devices", "triton", "compiled_forward")
    driver = live.find("triton")
    assert driver is not None
    assert driver.values["target"] == "GPUTarget(backend='npu', arch='Ascend910B1', warp_size=0)"
    assert error_of(live, "compiled_forward").signature.codes == ("FD232",)
    assert "FD232" in said_by_files(report)
    assert "(FD232)" in said_by_run(report)
    predicted = [error for item in report.findings if item.code == "FD232" for error in item.predicted_errors]
    raised = live.find("compiled_forward")
    assert raised is not None
    assert predicted
    assert all(error in raised.errors[0].message for error in predicted)


def test_a_captured_tensor_does_not_lower(examine: Examine, standin: standin_cann.StandIn, tmp_path: Path) -> None:
    # The names that newer builds of triton-ascend have; their kernels would not compile here, which comes later.
    names = {f"language/extra/cann/{name}.py": lambda _: "" for name in ("__init__", "extension", "libdevice")}
    names["language/extra/cann/__init__.py"] = lambda _: "from . import extension, libdevice\n"
    environment = real.overlay(
        real.environment("env-ascend", TRITON_ASCEND, PYBIND), tmp_path / "env", "triton", names
    )  # fmt: skip
    variables = standin.environment(path=os.environ["PATH"])
    live, report = examine(environment, variables, "devices", "captured")
    assert error_of(live, "captured").signature.codes == ("FD243",)
    assert "FD243" in said_by_files(report)
    assert "FD232" not in said_by_files(report)
    assert "(FD243)" in said_by_run(report)
    assert report.capabilities["compiled_captured"].available == "no"


def test_an_older_gate_refuses_the_npu(examine: Examine, standin: standin_cann.StandIn, tmp_path: Path) -> None:
    # torch-npu without its patch is what most of its published versions are.
    unpatched = {
        "_init/patches/npu_patches.py": without(r"    _patch_flex_attention_device\(\)"),
        "utils/patch_flexattention.py": lambda text: text.replace("_validate_device", "_validate_no_device"),
    }
    environment = real.overlay(real.environment("env-bare"), tmp_path / "env", "torch_npu", unpatched)
    live, report = examine(environment, standin.environment(), "devices", "gate", "eager")
    for name in ("gate", "eager"):
        match = error_of(live, name)
        assert match.raised.type == "ValueError"
        assert match.signature.name == "gate"
    gate = {"FD201", "FD202", "FD203"} & said_by_files(report)
    assert gate
    assert any(f"({code})" in said_by_run(report) for code in gate)
    predicted = [error for item in report.findings if item.code in gate for error in item.predicted_errors]
    raised = live.find("eager")
    assert raised is not None
    # The prediction is the format string of the source: what it leaves open, the run fills in.
    pattern = re.escape(predicted[0].partition(": ")[2]).replace(re.escape("{query.device.type}"), r"\w+")
    assert re.match(pattern, raised.errors[-1].message)


def test_the_gate_without_torch_npu(tmp_path: Path) -> None:
    script = tmp_path / "fake.py"
    script.write_text(
        "import torch, types\n"
        "from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "from torch.nn.attention.flex_attention import flex_attention\n"
        "torch.utils.rename_privateuse1_backend('npu')\n"
        "device = types.ModuleType('torch.npu')\n"
        "device.is_initialized = device.is_available = lambda: False\n"
        "torch._register_device_module('npu', device)\n"
        "with FakeTensorMode():\n"
        "    q = torch.empty(1, 2, 128, 64, device='npu:0')\n"
        "    flex_attention(q, q, q)\n"
    )
    done = run_script(real.environment("env-bare"), script, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    (incident,) = read_log(io.BytesIO(done.encode())).incidents
    assert incident.signature == "gate"
    assert incident.root.message.endswith("Found input tensors on npu device.")


def test_under_the_shim_a_capability_of_none_is_compared(examine: Examine, standin: standin_cann.StandIn) -> None:
    variables = {**standin.environment(), "TORCH_TRANSFER_TO_NPU": "1"}
    live, report = examine(real.environment("env-bare"), variables, "devices", "properties")
    match = error_of(live, "properties")
    assert match.raised.message == "'>=' not supported between instances of 'NoneType' and 'tuple'"
    assert "FD222" in match.signature.codes
    assert "TORCH_NPU_DEVICE_CAPABILITY=9.0" in said_by_run(report)


def test_the_variable_that_the_report_names_helps(examine: Examine, standin: standin_cann.StandIn) -> None:
    variables = {**standin.environment(), "TORCH_TRANSFER_TO_NPU": "1", "TORCH_NPU_DEVICE_CAPABILITY": "9.0"}
    live, _ = examine(real.environment("env-bare"), variables, "devices", "properties")
    properties = live.find("properties")
    assert properties is not None
    assert properties.status == "passed"


def test_under_the_shim_an_older_torch_npu_compares_a_major_of_none(
    examine: Examine, standin: standin_cann.StandIn, tmp_path: Path
) -> None:
    # Versions before 2.7.1.post8 leave torch's has_triton in place.
    changes = {
        "contrib/transfer_to_npu.py": without(r"    [\w.]+\.has_triton = _patch_has_triton"),
        "utils/_dynamo.py": without(r"    _triton\.has_triton = has_triton"),
    }
    base = real.environment("env-ascend", TRITON_ASCEND, PYBIND)
    environment = real.overlay(base, tmp_path / "env", "torch_npu", changes)
    variables = {**standin.environment(), "TORCH_TRANSFER_TO_NPU": "1"}
    live, report = examine(environment, variables, "devices", "properties")
    match = error_of(live, "properties")
    assert match.raised.message == "'>=' not supported between instances of 'NoneType' and 'int'"
    assert "FD222" in said_by_files(report)
    assert "(FD222)" in said_by_run(report)


def run_script(environment: Path, script: Path, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [str(environment / "bin" / "python"), str(script)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    assert done.returncode == 1
    return done.stderr
