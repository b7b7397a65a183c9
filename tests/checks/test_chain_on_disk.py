"""Whole environments on disk: from files to root cause and capabilities."""

from __future__ import annotations

from pathlib import Path

import builders

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.readers.environment import read_site_packages


def test_healthy_control_has_no_error_and_answers_captured_tensors_truthfully(site: Path) -> None:
    builders.install_healthy(site)
    report = diagnose(read_site_packages(site), CHAIN)
    assert [item.code for item in report.findings if item.severity == "error"] == []
    assert report.verdict == "healthy"
    assert {name: answer.available for name, answer in report.capabilities.items()} == {
        "eager": "yes",
        "compiled_forward": "yes",
        "compiled_backward": "yes",
        "compiled_captured": "no",
    }
