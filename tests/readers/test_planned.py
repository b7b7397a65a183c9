"""Plans against the knowledge base: what is implied, what is not known, what no wheel exists for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.findings import Report
from flexdoctor.knowledge import versions
from flexdoctor.readers.locks import Platform, read_plan
from flexdoctor.readers.planned import read_requirements

CASES = Path(__file__).parents[1] / "cases"


def judge(*pins: str, platform: Platform = Platform()) -> Report:  # noqa: B008 - frozen
    plan = read_plan(None, "\n".join(pins).encode(), platform)
    return diagnose(read_requirements(plan, None, platform), CHAIN)


def codes(report: Report, *statuses: str) -> list[str | None]:
    return [item.code for item in report.findings if item.status in (statuses or ("fail", "warn", "unknown"))]


def test_a_set_of_the_stacks_is_healthy() -> None:
    report = judge("torch==2.14.0", "torch-npu==2.14.0", "triton-ascend==3.2.2")
    assert codes(report, "fail", "unknown") == []
    assert report.verdict == "healthy"


@pytest.mark.parametrize(
    ("pins", "code", "nearest"),
    [
        (("torch==2.13.0", "torch-npu==2.99.0"), "FD161", "2.14.0"),
        (("torch==2.99.0", "torch-npu==2.13.0"), "FD161", "2.15.0"),
        (("torch==2.7.1", "torch-npu==2.7.1.dev20250724"), "FD161", "release is 2.7.1"),
        (("torch==2.13.0", "torch-npu"), "FD161", "not pinned"),
        (("torch==2.13.0", "torch-npu==2.13.0", "triton-ascend==3.2.9"), "FD251", "3.2.2"),
        (("torch==2.13.0", "torch-npu==2.13.0", "triton-ascend>=3"), "FD251", "not pinned"),
    ],
)
def test_what_is_not_known_is_unknown_and_names_the_nearest(pins: tuple[str, ...], code: str, nearest: str) -> None:
    report = judge(*pins)
    (finding,) = [item for item in report.findings if item.code == code]
    assert finding.status == "unknown"
    assert nearest in finding.title.en
    assert report.capabilities["compiled_forward"].available == "unknown"
    assert report.verdict == "unknown"


def test_only_what_is_not_pinned_is_to_be_pinned() -> None:
    remedies = {
        pin: item.remedy.en
        for pin in ("torch-npu", "torch-npu==2.99.0")
        for item in judge("torch==2.13.0", pin).findings
        if item.code == "FD161"
    }
    assert [pin for pin, remedy in remedies.items() if "pin it" in remedy] == ["torch-npu"]
    assert all("--python" in remedy for remedy in remedies.values())


def test_torch_is_implied_by_the_pin_of_torch_npu() -> None:
    report = judge("torch-npu==2.13.0", "triton-ascend==3.2.2")
    assert codes(report, "fail", "unknown") == []


def test_what_torch_asks_for_on_an_architecture_whose_wheel_was_not_read_is_that_of_another() -> None:
    pins = ("torch==2.13.0+cpu", "torch-npu==2.13.0", "triton-ascend==3.2.2")
    report = judge(*pins, platform=Platform("x86_64", "3.11", is_stated=True))
    assert codes(report, "fail", "unknown") == []


def test_a_build_for_the_cpu_does_not_ask_for_triton() -> None:
    pins = ("torch-npu==2.13.0", "triton-ascend==3.2.2")
    assert "FD253" in codes(judge("torch==2.13.0", *pins), "warn")
    assert "FD253" not in codes(judge("torch==2.13.0+cpu", *pins), "warn")


def test_upstream_triton_that_torch_will_bring_is_a_warning_until_the_list_is_complete() -> None:
    pins = ("torch==2.13.0", "torch-npu==2.13.0", "triton-ascend==3.2.2")
    assert "FD253" in codes(judge(*pins), "warn")
    assert "FD253" not in codes(judge(*pins, "sympy==1.14.0", "filelock==3.20.0"), "warn")


def test_both_tritons_planned() -> None:
    base = ("torch==2.13.0", "torch-npu==2.13.0", "pybind11==3.0.1")
    # 3.2.0 does not ask for triton, so that either can be installed last; 3.2.2 does, so that it comes last.
    assert codes(judge(*base, "triton-ascend==3.2.0", "triton==3.7.1"), "unknown") == ["FD252"]
    assert codes(judge(*base, "triton-ascend==3.2.2", "triton==3.5.0"), "unknown") == []


def test_every_known_version_loads() -> None:
    for package in versions.FACTS_OF:
        for version in versions.known_versions(package):
            release = versions.lookup(package, version)
            assert release is not None
            assert (release.package, release.version) == (package, version)
            assert release.source
            assert release.date
            assert release.evidence in ("wheel", "repository")


@pytest.mark.parametrize(
    ("version", "expected"), [("2.7.1+cpu", "2.7.1"), ("2.7.1.post4", None), ("nonsense", None), ("2.7.2", None)]
)
def test_lookup_ignores_the_local_version_only(version: str, expected: str | None) -> None:
    release = versions.lookup("torch", version)
    assert (release.version if release else None) == expected


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_open_case(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    platform = Platform(case.get("architecture", "aarch64"), case.get("python", "3.11"), is_stated=True)
    report = judge(*case["requirements"], platform=platform)
    expected = case["expected"]
    if "root_cause" in expected:
        assert (report.root_cause.code if report.root_cause else None) == expected["root_cause"]
    shown = {item.code for item in report.findings if item.status in ("fail", "warn", "unknown")}
    assert set(expected.get("codes", [])) <= shown
    assert not set(expected.get("not_codes", [])) & shown
    text = " ".join(f"{item.title.en} {item.detail.en} {item.remedy.en}" for item in report.findings)
    for words in expected.get("says", []):
        assert words in text
    for words in expected.get("does_not_say", []):
        assert words not in text


def test_consumers_of_hub_kernels_on_a_list_are_not_said_to_be_absent() -> None:
    base = ("torch==2.14.0", "torch-npu==2.14.0", "triton-ascend==3.2.2")
    report = judge(*base, "diffusers==0.41.0", "transformers")
    (found,) = [item for item in report.findings if item.link == "hub_kernels"]
    assert found.status == "skipped"
    assert found.title.en.startswith("what diffusers 0.41.0, transformers asks of Hub kernels is not in the knowledge")
    assert report.verdict == "healthy"
    (found,) = [item for item in judge(*base).findings if item.link == "hub_kernels"]
    assert found.title.en == "no diffusers or transformers here"
