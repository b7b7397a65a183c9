"""The real torch on the CPU: every stage that it has passes, and what goes wrong there is told rightly."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import real_environments as real

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import LiveFacts
from flexdoctor.probe.probe import RANK_STAGES, STAGES, TOLERANCE
from flexdoctor.probe.runner import LiveOptions, run_live
from flexdoctor.readers.environment import read_installed

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def environment() -> Path:
    return real.environment("env-bare")


def run(environment: Path, *stages: str, ranks: int = 1) -> LiveFacts:
    return run_live(environment / "bin" / "python", LiveOptions("cpu", stages=stages, ranks=ranks))


def test_every_stage_of_the_cpu_passes_and_the_command_says_so(environment: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flexdoctor", "check", "--python", str(environment), "--live", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--format", "json"], check=False, capture_output=True, text=True, cwd=tmp_path, env=neutral()
    )
    document = json.loads(done.stdout)
    progress = dict(line.split()[1:3] for line in done.stderr.splitlines() if line.startswith("live "))
    assert set(progress) == set(STAGES) - set(RANK_STAGES)
    # No CANN here, so torch_npu cannot be loaded; nothing else may fail.
    assert {name for name, status in progress.items() if status == "failed"} == {"torch_npu", "autoload"}
    assert {name for name, status in progress.items() if status == "skipped"} == {"triton", "compiled_backward"}
    assert set(progress.values()) == {"passed", "failed", "skipped"}
    live = [item for item in document["findings"] if item["link"] == "live_run"]
    (ran,) = [item for item in live if item["title"].startswith("ran on cpu")]
    assert ran["detail"] == "This says nothing about an NPU."
    measured = {item["text"].split()[0]: item["text"] for item in ran["evidence"]}
    for name in ("eager", "compiled_forward", "causal", "sliding_window", "gqa", "dynamic_length", "captured", "alibi"):
        text = measured[name].partition("difference from scaled_dot_product_attention: ")[2]
        value, allowed = text.partition(";")[0].split(" of ")
        assert float(value) <= float(allowed) == TOLERANCE["float32"]
        assert " s; " in measured[name]
    assert not any(item["severity"] == "error" for item in live)
    assert document["capabilities"]["compiled_forward"]["available"] == "no"
    assert any("flex_attention has no backward on the CPU" in item["title"] for item in live)


def neutral() -> dict[str, str]:
    return {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}


def test_two_ranks_agree_under_torchrun(environment: Path) -> None:
    live = run(environment, "devices", *RANK_STAGES, ranks=2)
    for name in RANK_STAGES:
        stage = live.find(name)
        assert stage is not None
        assert (stage.status, stage.values.get("ranks")) == ("passed", "2"), stage
        value, allowed = stage.values["difference of the shared gradient"].split(" of ")
        assert float(value) <= float(allowed)
    assert live.survivors == live.stuck == ()


def test_a_rank_that_dies_is_found(environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hook(tmp_path, monkeypatch, "torch.nn.parallel", "if os.environ.get('RANK') == '1': os.kill(os.getpid(), 11)")
    live = run(environment, "devices", "ranks_inside", ranks=2)
    stage = live.find("ranks_inside")
    assert stage is not None
    assert stage.death is not None
    assert (stage.status, stage.death.how, stage.death.name) == ("died", "signal", "SIGSEGV")
    assert live.survivors == live.stuck == ()
    facts = dataclasses.replace(read_installed(environment), live=live)
    finding = next(item for item in diagnose(facts, CHAIN).findings if item.code == "FD405")
    assert finding.title.en == "several ranks, compiled inside the model died of SIGSEGV on cpu"
    assert any("exitcode" in item.text for item in finding.evidence)


def test_a_death_while_compiling_is_told_with_its_place(
    environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hook(tmp_path, monkeypatch, "torch._inductor.compile_fx", "import ctypes; ctypes.string_at(0)")
    live = run(environment, "devices", "eager", "compiled_forward", "gqa")
    assert {stage.name: stage.status for stage in live.stages} == {
        "devices": "passed",
        "eager": "passed",
        "compiled_forward": "died",
        "gqa": "blocked",
    }
    stage = live.find("compiled_forward")
    assert stage is not None
    assert stage.death is not None
    assert stage.death.name == "SIGSEGV"
    assert any("torch/_dynamo" in frame.path or "torch/_inductor" in frame.path for frame in stage.death.stack)


def test_a_compiler_that_is_not_there_is_recognised(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    live = run(environment, "devices", "compiled_forward")
    facts = dataclasses.replace(read_installed(environment), live=live)
    titles = [item.title.en for item in diagnose(facts, CHAIN).findings if item.code == "FD402"]
    assert len(titles) == 1
    assert "there is no C++ compiler" in titles[0]


def hook(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: str) -> None:
    """Run `code` in the child when it imports `module`."""
    (folder / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        f"            {code}\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
