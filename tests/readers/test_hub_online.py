"""The real huggingface_hub client against a Hub on the loopback, through the command line as a user runs it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hub_consumers
import kernel_trees as trees
import loopback_hub
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.findings import Finding
from flexdoctor.readers import hub_online
from flexdoctor.readers.environment import HubOptions, ReadOptions, read_site_packages
from flexdoctor.readers.hub import parse_kernel

REPO = "kernels-community/flash-attn2"
Ask = Callable[[str, Path, str], list[Finding]]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[loopback_hub.Hub]:
    old = trees.write_kernel(tmp_path / "v1", trees.flash_attn2(wrapped=True))
    new = trees.write_kernel(tmp_path / "v3", trees.flash_attn2(wrapped=False), trees.KernelShape(version=3))
    (new / "build" / "torch-universal" / "kernel.abi3.so").write_bytes(b"\x7fELF" + bytes(4096))
    repositories = {f"kernels/{REPO}": {"main": old, "v1": old, "v3": new}}
    with loopback_hub.serving(repositories, kernels_community=True) as served:
        yield served


def run(endpoint: str, site: Path, kernel: str, **environment: str) -> list[dict[str, Any]]:
    """Run `flexdoctor check --kernel KERNEL --online` as a user does and return the findings of its document."""
    command = [sys.executable, "-m", "flexdoctor", "check", "--site-packages", str(site), "--kernel", kernel]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [*command, "--online", "--format", "json", "--select", "hub_kernels"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**variables, "HF_ENDPOINT": endpoint, "HF_HOME": str(site.parent / "hf"), **environment},
    )
    assert "Traceback" not in done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["error"] is None
    findings: list[dict[str, Any]] = document["findings"]
    return findings


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The same within this process."""

    def asked(endpoint: str, site: Path, kernel: str) -> list[Finding]:
        # HF_ENDPOINT is read when the client is imported.
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
        template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        facts = read_site_packages(site, options=ReadOptions(hub=HubOptions((parse_kernel(kernel),), online=True)))
        return list(diagnose(facts, CHAIN, select=["hub_kernels"]).findings)

    return asked


def states(found: list[Finding]) -> list[tuple[str, str | None]]:
    return [(item.status, item.code) for item in found]


def test_a_version_is_read_and_judged(hub: loopback_hub.Hub, site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    (finding,) = run(hub.endpoint, site, f"{REPO}@1")
    assert finding["status"] == "pass"
    (finding,) = run(hub.endpoint, site, f"{REPO}@3")
    assert (finding["status"], finding["code"]) == ("fail", "FD301")
    assert f"{REPO}@{hub.commit(f'kernels/{REPO}', 'v3')[:8]}" in finding["title"]
    assert finding["evidence"][-1]["path"].startswith(f"{REPO}@")

    # The binary is never fetched, and the user's cache is left alone.
    fetched = [line for line in hub.asked if "/resolve/" in line]
    assert fetched
    assert not [line for line in fetched if line.endswith(".so")]
    assert not list(site.parent.glob("hf/hub/*--*"))


def test_without_a_version_the_newest_is_taken(hub: loopback_hub.Hub, site: Path, ask: Ask) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    (finding,) = ask(hub.endpoint, site, REPO)
    assert hub.commit(f"kernels/{REPO}", "v3")[:8] in finding.title.en


@pytest.mark.parametrize(
    ("fault", "kernel", "status", "words"),
    [
        (None, "nobody/nothing", ("fail", "FD310"), "no such repository"),
        (None, f"{REPO}@7", ("fail", "FD310"), "does not have this version"),
        ("RevisionNotFound", f"{REPO}@{'a' * 40}", ("fail", "FD310"), "does not have this version"),
        ("GatedRepo", f"{REPO}@3", ("fail", "FD310"), "access to it must be asked for"),
        ("truncated", f"{REPO}@3", ("unknown", "FD310"), "no answer"),
        ("slow", f"{REPO}@3", ("unknown", "FD310"), "no answer"),
        ("ServerError", f"{REPO}@3", ("unknown", "FD310"), "no answer"),
    ],
)
def test_what_goes_wrong_is_named(
    fault: str | None, kernel: str, status: tuple[str, str], words: str, hub: loopback_hub.Hub, site: Path, ask: Ask
) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    if fault:
        hub.faults["/resolve/" if fault == "truncated" else REPO] = fault
    (finding,) = ask(hub.endpoint, site, kernel)
    assert (finding.status, finding.code) == status
    assert words in finding.title.en


def test_connection_refused(site: Path, ask: Ask) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert states(ask(f"http://127.0.0.1:{port}", site, f"{REPO}@3")) == [("unknown", "FD310")]


def test_offline_mode_is_respected(hub: loopback_hub.Hub, site: Path) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    (finding,) = run(hub.endpoint, site, f"{REPO}@3", HF_HUB_OFFLINE="1")
    assert (finding["status"], finding["code"]) == ("unknown", "FD310")
    assert "offline mode is on" in finding["title"]
    assert hub.asked == []


def test_a_publisher_that_is_not_trusted(hub: loopback_hub.Hub, site: Path, ask: Ask) -> None:
    hub.organizations["kernels-community"] = False
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False, publisher=True)
    assert ("fail", "FD308") in states(ask(hub.endpoint, site, f"{REPO}@3"))


def test_a_model_repository_is_found_too(tmp_path: Path, site: Path, ask: Ask) -> None:
    hub_consumers.install_diffusers(site, "0.42.1", wrapped=False)
    folder = trees.write_kernel(tmp_path / "model", trees.flash_attn2(wrapped=False))
    with loopback_hub.serving({f"models/{REPO}": {"main": folder}}) as hub:
        assert states(ask(hub.endpoint, site, REPO)) == [("pass", None)]


def test_a_hopeless_host_costs_less_than_five_seconds_by_construction() -> None:
    assert hub_online.ANSWER_SECONDS < 5
