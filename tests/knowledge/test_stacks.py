"""The tables of knowledge: their schemas, their provenance, and that their pins exist."""

from __future__ import annotations

import datetime
import itertools
import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from packaging.tags import Tag
from packaging.version import Version

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.findings import CAPABILITIES
from flexdoctor.knowledge import claims, load_table, newest_date
from flexdoctor.knowledge.harvest import configured_index, published_wheels
from flexdoctor.knowledge.stacks import (
    Stack,
    companions,
    fitting,
    historic,
    index,
    nearest,
    oldest_compiling_triton_ascend,
    stacks,
)
from flexdoctor.readers.locks import Platform, read_plan
from flexdoctor.readers.planned import read_requirements
from flexdoctor.readers.wheels import fits_platform

VENDOR = index("vendor").url


def plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [plain(item) for item in data]
    return data.isoformat() if isinstance(data, datetime.date) else data


def test_stacks_follow_their_schema() -> None:
    schema = json.loads(files("flexdoctor.knowledge").joinpath("stacks.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(plain(load_table("stacks")), schema)
    table = plain(load_table("stacks"))
    del table["stack"][0]["source"]
    with pytest.raises(jsonschema.ValidationError, match="'source' is a required property"):
        jsonschema.validate(table, schema)


def test_names_are_unique_and_indexes_are_known() -> None:
    names = [stack.name for stack in stacks()]
    assert len(names) == len(set(names))
    for stack in stacks():
        assert set(stack.indexes) <= {"torch", "torch-npu", "triton-ascend"}
        assert tuple(name for name in CAPABILITIES if name in stack.capabilities) == stack.capabilities
    assert {pin.today for pin in historic()} <= set(names)


@pytest.mark.parametrize("stack", stacks(), ids=lambda stack: stack.name)
def test_what_a_set_gives_is_what_its_files_say(stack: Stack) -> None:
    """The table's capabilities against the diagnosis of the same pins from harvested facts."""
    pins = [f"{name}=={stack.pin(name)}" for name in stack.order]
    pins += [f"{name}=={pin}" for name, pin in companions().items()]
    platform = Platform(python=stack.pythons[-1])
    plan = read_plan(None, "\n".join(pins).encode(), platform)
    report = diagnose(read_requirements(plan, None, platform), CHAIN)
    blocked_by_the_gate_alone = stack.early_import
    for capability in CAPABILITIES:
        answer = report.capabilities[capability]
        if blocked_by_the_gate_alone and answer.because == "FD202":
            others = {
                item.code
                for item in report.findings
                if item.status in ("fail", "warn", "unknown") and capability in item.affects
            } - {"FD202"}
            assert (capability in stack.capabilities) is not bool(others), (capability, others)
        else:
            assert (capability in stack.capabilities) is (answer.available == "yes"), (capability, answer)


def test_fitting_is_best_first() -> None:
    assert fitting("3.11.9", "aarch64", "9.1.0")[0].capabilities == CAPABILITIES
    assert [stack.name for stack in fitting("3.11", "x86_64", "9.0.0")] == ["torch-2.7-cann-9.0-captured"]
    assert fitting("3.8") == []
    assert all("3.13" in stack.pythons for stack in fitting("3.13"))


def test_nearest_changes_least() -> None:
    at = {"python": "3.11", "architecture": "aarch64"}
    same_torch = nearest("compiled_forward", torch="2.9.0+cpu", torch_npu="2.9.0", **at)
    assert same_torch is not None
    assert same_torch.torch == "2.9.0"
    same_npu = nearest("compiled_forward", torch="2.7.1", torch_npu="2.7.1.post11", **at)
    assert same_npu is not None
    assert same_npu.torch_npu == "2.7.1.post11"
    assert nearest("compiled_captured", torch="2.13.0", cann="9.1.0", **at) is not None
    assert nearest("compiled_forward", cann="8.5.0") is None


def test_no_set_of_default_index_wheels_compiles() -> None:
    for stack in stacks():
        if "compiled_forward" in stack.capabilities:
            assert stack.indexes == {"triton-ascend": VENDOR}
    assert Version(oldest_compiling_triton_ascend()) > Version("3.2.0")


def test_claims_are_dated_and_not_from_the_future() -> None:
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    assert all(claim.source and claim.standing for claim in claims())
    assert newest_date() <= today + datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def registry() -> dict[str, list[tuple[Version, frozenset[Tag]]]]:
    """The Linux wheels that the registry lists for the packages of the chain."""
    names = ("torch", "torch-npu", "triton-ascend")
    address = configured_index()
    return {name: [(version, tags) for version, _, tags in published_wheels(name, address)] for name in names}


@pytest.mark.real
@pytest.mark.parametrize("stack", stacks(), ids=lambda stack: stack.name)
def test_every_pin_can_be_installed_or_is_marked(
    stack: Stack, registry: dict[str, list[tuple[Version, frozenset[Tag]]]]
) -> None:
    for name, architecture, python in itertools.product(stack.order, stack.architectures, stack.pythons):
        wanted = Version(stack.pin(name) or "")
        exists = any(
            version == wanted and fits_platform(tags, python, architecture) for version, tags in registry[name]
        )
        # What the default index lacks must name the index that has it.
        assert exists or name in stack.indexes, f"{name}=={wanted} for Python {python} on {architecture}"
