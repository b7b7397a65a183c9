"""What the live run means: on an NPU it confirms or refutes the files, elsewhere it says nothing about an NPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from flexdoctor.chain import Check, diagnose
from flexdoctor.checks import CHAIN, live_run
from flexdoctor.facts import Facts, LiveDeath, LiveError, LiveFacts, LiveFrame, LiveStage, MachineFacts, TargetFacts
from flexdoctor.findings import CAPABILITIES, Capability, Fault, Finding, Report, exit_code, found, passed
from flexdoctor.probe.probe import STAGES
from flexdoctor.text import Text

LIBRARY = LiveError(
    "ImportError",
    "libhccl.so: cannot open shared object file: No such file or directory",
    (LiveFrame("~/site/torch_npu/npu/utils.py", 8, "<module>", "import torch_npu._C"),),
)
DRIVER = LiveError("RuntimeError", "0 active drivers ([]). There should only be one.")
ODD = LiveError("OddError", "first line\nsecond line", (LiveFrame("~/site/x.py", 3, "f", "raise OddError"),))


def run_on(device: str, *changed: LiveStage, asked: str = "auto", **more: Any) -> LiveFacts:
    """A live run in which everything passed but for `changed`."""
    by_name = {stage.name: stage for stage in changed}
    skipped = {"ranks_inside", "ranks_around"}
    stages = [
        by_name.get(name, LiveStage(name, "passed", 1.0)) for name in STAGES if name not in skipped or name in by_name
    ]
    stages += [stage for stage in changed if stage.name == "exit"]
    return LiveFacts(asked=asked, device=device, stages=tuple(stages), seconds=12.0, **more)  # type: ignore[arg-type]


def failed(name: str, *errors: LiveError) -> LiveStage:
    return LiveStage(name, "failed", 1.0, errors=errors, output=("a line on stderr",))


def blocked(*names: str, by: str = "compiled_forward") -> list[LiveStage]:
    return [LiveStage(name, "blocked", reason=by) for name in names]


AFTER_FORWARD = (
    "compiled_backward",
    "causal",
    "sliding_window",
    "gqa",
    "dynamic_length",
    "captured",
    "document_mask",
    "alibi",
)


def facts_with(live: LiveFacts | None, **more: Any) -> Facts:
    return Facts(target=TargetFacts("environment", "here", (), machine_examined=False), live=live, **more)


def static(*affects: Capability, code: str = "FD213") -> Check:
    """A link that takes `affects` away."""
    fault = Fault(code, Text("static", "静态"), affects=affects)
    says = found("static", fault) if affects else passed("static", Text("fine", "正常"))
    return Check("static", Text("s", "s"), Text("?", "?"), (fault,), lambda _: [says])


def report(live: LiveFacts | None, check: Check, **more: Any) -> Report:
    return diagnose(facts_with(live, **more), [check, live_run.CHECK])


def by_code(result: Report) -> dict[str | None, Finding]:
    return {finding.code: finding for finding in result.findings if finding.link == "live_run"}


def can(result: Report) -> dict[str, str]:
    return {name: answer.available for name, answer in result.capabilities.items()}


def test_not_asked_for_is_skipped_and_changes_nothing() -> None:
    result = report(None, static())
    (_, finding) = result.findings
    assert (finding.status, finding.title.en) == ("skipped", "not asked for (--live)")
    assert set(can(result).values()) == {"yes"}
    assert CHAIN[-1] is live_run.CHECK


def test_an_npu_on_which_all_passes_confirms_the_files() -> None:
    result = report(run_on("npu:0"), static())
    assert {finding.status for finding in result.findings} == {"pass"}
    assert any(finding.title.en.startswith("confirms the files: eager yes") for finding in result.findings)
    proof = next(finding for finding in result.findings if finding.proves)
    assert set(proof.proves) == set(CAPABILITIES)
    assert result.verdict == "healthy"
    assert exit_code(result) == 0


def test_the_device_refutes_a_fault_that_the_files_claim() -> None:
    result = report(run_on("npu:0"), static("compiled_forward", "compiled_backward", "compiled_captured"))
    assert set(can(result).values()) == {"yes"}
    refuted = by_code(result)["FD417"]
    assert refuted.severity == "warning"
    assert "FD213" in refuted.title.en
    assert result.verdict == "healthy"
    assert exit_code(result) == 0
    assert exit_code(result, fail_on="warning") == 1


def test_what_the_device_did_not_show_still_counts() -> None:
    live = run_on("npu:0", *blocked(*AFTER_FORWARD), failed("compiled_forward", DRIVER))
    result = report(live, static(*CAPABILITIES))
    assert can(result) == {
        "eager": "yes",
        "compiled_forward": "no",
        "compiled_backward": "no",
        "compiled_captured": "no",
    }
    assert exit_code(result) == 1
    assert result.root_cause is not None
    assert result.root_cause.code == "FD213"
    assert by_code(result)["FD417"].title.en.startswith("the files say that eager cannot run (FD213)")


def test_a_failure_that_the_files_foresaw_names_their_code() -> None:
    live = run_on("npu:0", failed("triton", DRIVER), failed("compiled_forward", DRIVER), *blocked(*AFTER_FORWARD))
    result = report(live, static("compiled_forward", "compiled_backward", "compiled_captured"))
    finding = by_code(result)["FD402"]
    assert finding.title.en.startswith("triton and its driver, compiled forward failed on npu:0: triton has no driver")
    assert finding.title.en.endswith("(FD213)")
    assert finding.remedy.en == "mend FD213 first"
    assert "FD416" not in by_code(result)
    assert any("compiled forward no (FD213)" in item.title.en for item in result.findings)


def test_a_failure_that_the_files_did_not_foresee_is_a_contradiction() -> None:
    live = run_on("npu:0", failed("compiled_forward", DRIVER), *blocked(*AFTER_FORWARD))
    result = report(live, static())
    assert can(result)["compiled_forward"] == "no"
    assert can(result)["eager"] == "yes"
    contradiction = by_code(result)["FD416"]
    assert contradiction.title.en.startswith(
        "the files say that compiled forward, compiled backward, captured tensors can run"
    )
    assert result.verdict == "broken"
    assert result.root_cause is not None
    assert result.root_cause.code == "FD402"


def test_time_and_memory_do_not_speak_of_the_files() -> None:
    hung = LiveStage("compiled_forward", "timed_out", 300.0, death=LiveDeath("time limit", 300))
    killed = LiveStage("eager", "died", 3.0, death=LiveDeath("signal", 9, "SIGKILL", out_of_memory=True))
    result = report(run_on("npu:0", hung, killed, *blocked(*AFTER_FORWARD)), static())
    assert {"FD406", "FD407"} <= set(by_code(result))
    assert "FD416" not in by_code(result)
    assert set(can(result).values()) == {"no"}


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_elsewhere_it_says_nothing_about_an_npu(device: str) -> None:
    good = report(run_on(device), static(*CAPABILITIES))
    assert set(can(good).values()) == {"no"}
    assert not any(finding.proves for finding in good.findings)
    assert not {"FD416", "FD417"} & set(by_code(good))
    bad = report(run_on(device, failed("compiled_forward", ODD), *blocked(*AFTER_FORWARD)), static())
    assert set(can(bad).values()) == {"yes"}
    assert by_code(bad)["FD403"].severity == "error"
    assert exit_code(bad) == 1


def test_an_unknown_error_is_shown_whole() -> None:
    result = report(run_on("npu:0", failed("eager", ODD)), static())
    finding = by_code(result)["FD403"]
    assert finding.title.en == (
        "eager attention failed on npu:0 with an error that flexdoctor does not know: OddError: first line"
    )
    assert [item.text for item in finding.evidence] == ["OddError: first line", "second line", "a line on stderr"]
    assert (finding.evidence[0].path, finding.evidence[0].line) == ("~/site/x.py", 3)
    assert finding.affects == ("eager",)


def test_a_case_takes_away_what_it_stands_for() -> None:
    pointwise = LiveError(
        "InductorError",
        "LoweringException: SubgraphLoweringException: Buffers cannot be created while lowering a pointwise subgraph.",
    )
    result = report(run_on("npu:0", failed("captured", pointwise), failed("alibi", pointwise)), static())
    assert can(result) == {
        "eager": "yes",
        "compiled_forward": "yes",
        "compiled_backward": "yes",
        "compiled_captured": "no",
    }
    assert by_code(result)["FD402"].severity == "warning"
    assert "FD243" in by_code(result)["FD402"].title.en
    result = report(run_on("npu:0", failed("gqa", ODD)), static())
    assert set(can(result).values()) == {"yes"}
    assert by_code(result)["FD403"].severity == "warning"


def test_wrong_numbers_are_no_success() -> None:
    wrong = LiveError("WrongResultError", "off from scaled_dot_product_attention by 3, 0.02 is allowed")
    result = report(run_on("npu:0", failed("compiled_backward", wrong)), static())
    assert by_code(result)["FD404"].title.en == (
        "compiled backward gave wrong numbers on npu:0: off from scaled_dot_product_attention by 3, 0.02 is allowed"
    )
    assert can(result)["compiled_backward"] == "no"


@pytest.mark.parametrize(("asked", "machine_only", "code"), [("auto", True, 0), ("npu", False, 1)])
def test_no_device_is_a_fact_about_the_machine_unless_it_was_asked_for(
    asked: str, machine_only: bool, code: int
) -> None:
    none = failed("devices", LiveError("RuntimeError", "torch.npu.device_count() is 0"))
    others = [name for name in STAGES if name not in ("python", "torch", "torch_npu", "autoload", "devices")]
    live = dataclasses.replace(run_on("npu", none, *blocked(*others, by="devices"), asked=asked), device=None)
    result = report(live, static())
    finding = by_code(result)["FD415"]
    assert finding.machine_only is machine_only
    assert set(can(result).values()) == {"no"}
    assert exit_code(result) == code


def test_no_cann_on_a_machine_without_ascend_is_not_held_against_it() -> None:
    live = dataclasses.replace(run_on("npu", failed("torch_npu", LIBRARY), failed("autoload", LIBRARY)), device=None)
    bare = report(live, static(), machine=MachineFacts())
    assert by_code(bare)["FD402"].machine_only
    ascend = report(live, static(), machine=MachineFacts(device_nodes=("/dev/davinci0",)))
    assert not by_code(ascend)["FD402"].machine_only
    assert by_code(ascend)["FD402"].evidence[0].line == 8


def test_what_was_not_reached_is_unknown() -> None:
    live = run_on("npu:0", *(LiveStage(name, "not_reached", reason="60 s in all were over") for name in AFTER_FORWARD))
    result = report(live, static())
    assert can(result) == {
        "eager": "yes",
        "compiled_forward": "unknown",
        "compiled_backward": "unknown",
        "compiled_captured": "unknown",
    }
    assert by_code(result)["FD414"].status == "unknown"
    assert exit_code(result, strict=True) == 3


def test_a_rank_that_failed_is_named() -> None:
    dead = LiveStage("ranks_inside", "died", 4.0, death=LiveDeath("exit", 1))
    wrong = dataclasses.replace(failed("ranks_around", ODD), rank=1)
    result = report(run_on("npu:0", dead, wrong, ranks=2), static())
    assert "several ranks, compiled around the model (rank 1)" in by_code(result)["FD403"].title.en
    assert "（rank 1）" in by_code(result)["FD403"].title.zh
    assert by_code(result)["FD408"].affects == ()
    assert set(can(result).values()) == {"yes"}


def test_every_sentence_is_there_in_both_languages() -> None:
    live = run_on(
        "npu:0",
        LiveStage("compiled_backward", "skipped", reason="flex_attention has no backward on the CPU"),
        LiveStage("eager", "died", 1.0, death=LiveDeath("signal", 11, "SIGSEGV")),
        LiveStage("gqa", "died", 1.0, death=LiveDeath("exit", 3)),
        LiveStage("alibi", "timed_out", 1.0, death=LiveDeath("time limit", 5)),
        LiveStage("exit", "died", 1.0, death=LiveDeath("signal", 6, "SIGABRT")),
        failed("causal", ODD),
        survivors=("1 x",),
        stuck=("2 y",),
        closed=("stdout in torch",),
        stdout_bytes=5_000_000,
    )
    findings = [item for item in report(live, static("compiled_backward")).findings if item.link == "live_run"]
    assert len(findings) >= 10
    for finding in findings:
        assert "{" not in finding.title.en + finding.title.zh
        assert finding.title.en != finding.title.zh
        assert any("\u4e00" <= character <= "\u9fff" for character in finding.title.zh)
        assert not any("\u4e00" <= character <= "\u9fff" for character in finding.title.en)


def test_the_check_knows_every_stage_of_the_probe() -> None:
    assert [*STAGES, "exit"] == list(live_run.STAGES)
    assert set(STAGES).issuperset(name for names in live_run._PROOF.values() for name in names)
