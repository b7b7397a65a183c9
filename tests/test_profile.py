"""The environment in short lines: what must be in it, what must not, and when two of them are equal."""

from __future__ import annotations

import dataclasses
import json

import pytest
from samples import HEALTHY, SITE, TORCH, TRITON, TRITON_ASCEND, UPSTREAM

from flexdoctor.facts import (
    CannInstallation,
    Distribution,
    DriverFacts,
    Facts,
    MachineFacts,
    NpuChip,
    NpuSmiFacts,
    Shadow,
    TargetFacts,
    ToolchainFacts,
    UserFacts,
    VariablePath,
)
from flexdoctor.profile import absence_tells, environment_profile, fingerprint, is_of_the_chain, links_of
from flexdoctor.snapshots import example_names, load_example

TOOLKIT = "/usr/local/Ascend/cann-9.1.0"
MACHINE = MachineFacts(
    cann=(
        CannInstallation(TOOLKIT, "9.1.0", f"{TOOLKIT}/set_env.sh", kernels=("ascend910b",), architecture="aarch64"),
        CannInstallation("/opt/cann-8.5.0", "8.5.0", None),
    ),
    device_nodes=("/dev/davinci0", "/dev/davinci1", "/dev/davinci_manager", "/dev/hisi_hdc"),
    environment={
        "ASCEND_HOME_PATH": TOOLKIT,
        "ASCEND_RT_VISIBLE_DEVICES": "0,1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    },
    variable_paths=(VariablePath("ASCEND_HOME_PATH", TOOLKIT, True, TOOLKIT),),
    toolchain=ToolchainFacts(glibc="2.35", cc_path="/usr/bin/gcc", python_header="/usr/include/Python.h"),
    user=UserFacts(1000, name="somebody", groups=("HwHiAiUser",)),
    driver=DriverFacts("/usr/local/Ascend/driver", "25.5.1", version_file="/usr/local/Ascend/driver/version.info"),
    npu_smi=NpuSmiFacts(
        "answered",
        chips=(NpuChip("0", "910B3", "OK", "0000:C1:00.0"), NpuChip("1", "910B3", "OK", "0000:C2:00.0")),
    ),
)
FACTS = dataclasses.replace(HEALTHY, machine=MACHINE)


def machine(**changes: object) -> Facts:
    return dataclasses.replace(FACTS, machine=dataclasses.replace(MACHINE, **changes))  # type: ignore[arg-type]


def test_what_a_node_is_made_of() -> None:
    profile = environment_profile(FACTS)
    assert profile["python"] == "cpython 3.11.9"
    assert profile["architecture"] == "aarch64"
    assert profile["package torch-npu"] == "2.13.0"
    assert profile["torch version.py"] == "2.13.0+cpu"
    assert profile["cann"] == "9.1.0"
    assert profile["cann installed"] == "8.5.0, 9.1.0"
    assert profile["driver"] == "25.5.1"
    assert profile["devices"] == "2"
    assert profile["chips"] == "2 x 910B3"
    assert profile["chip health"] == "2 x OK"
    assert profile["variable TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert profile["triton owner"] == "triton-ascend 3.2.2"


def test_it_comes_in_the_order_of_the_chain_and_holds_only_text() -> None:
    profile = environment_profile(FACTS)
    keys = list(profile)
    order = ["python", "package torch", "torch device check", "triton owner", "cann", "devices"]
    assert [keys.index(key) for key in order] == sorted(keys.index(key) for key in order)
    assert all(isinstance(value, str) and value for value in profile.values())


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(machine(user=UserFacts(0, name="root")), id="who runs it"),
        pytest.param(
            machine(environment={**MACHINE.environment, "ASCEND_RT_VISIBLE_DEVICES": "4,5"}),
            id="which devices a rank has",
        ),
        pytest.param(
            machine(
                npu_smi=NpuSmiFacts(
                    "answered", chips=(NpuChip("4", "910B3", "OK", "a"), NpuChip("5", "910B3", "OK", "b"))
                )
            ),
            id="bus and number of a chip",
        ),
        pytest.param(
            dataclasses.replace(FACTS, target=TargetFacts("environment", "~/other (--python)", ("~/x",), True)),
            id="where the environment lies",
        ),
        pytest.param(
            dataclasses.replace(
                FACTS, packages=dataclasses.replace(FACTS.packages, distributions=FACTS.packages.distributions[::-1])
            ),
            id="the order of folders on disk",
        ),
    ],
)
def test_what_differs_between_healthy_nodes_by_nature_is_not_in_it(same: Facts) -> None:
    assert fingerprint(environment_profile(same)) == fingerprint(environment_profile(FACTS))


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("driver", machine(driver=dataclasses.replace(MACHINE.driver, version="25.2.0"))),  # type: ignore[type-var]
        ("cann", machine(environment={})),
        ("devices", machine(device_nodes=MACHINE.device_nodes[1:])),
        ("visible devices by ASCEND_RT_VISIBLE_DEVICES", machine(environment={"ASCEND_RT_VISIBLE_DEVICES": "0"})),
        ("chip health", machine(npu_smi=NpuSmiFacts("answered", chips=(NpuChip("0", "910B3", "Alarm"),)))),
        ("torch device check", dataclasses.replace(FACTS, torch=dataclasses.replace(TORCH, gate=None))),
        (
            "triton files of triton-ascend overwritten",
            dataclasses.replace(
                FACTS,
                triton=dataclasses.replace(
                    TRITON, claims=(UPSTREAM, dataclasses.replace(TRITON_ASCEND, shared=34, overwritten=2))
                ),
            ),
        ),
        (
            "shadowed torch",
            dataclasses.replace(
                FACTS,
                packages=dataclasses.replace(FACTS.packages, shadows=(Shadow("torch", "~/x/torch", "PYTHONPATH"),)),
            ),
        ),
        (
            "files missing of torch",
            dataclasses.replace(
                FACTS,
                packages=dataclasses.replace(
                    FACTS.packages,
                    distributions=(Distribution("torch", "2.13.0", SITE, recorded_files=9, missing_count=2),),
                ),
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_can_break_a_node_is_in_it(key: str, other: Facts) -> None:
    usual, here = environment_profile(FACTS), environment_profile(other)
    assert usual.get(key) != here.get(key)
    assert fingerprint(usual) != fingerprint(here)
    assert is_of_the_chain(key)


def test_two_versions_on_the_path_are_both_told() -> None:
    packages = dataclasses.replace(
        FACTS.packages, distributions=(Distribution("a", "2", "x"), Distribution("a", "1", "y", is_editable=True))
    )
    assert environment_profile(dataclasses.replace(FACTS, packages=packages))["package a"] == "2, 1 (editable)"


def test_no_place_of_the_user_and_no_name_is_in_it() -> None:
    text = json.dumps(environment_profile(FACTS))
    assert all(word not in text for word in ("somebody", "0000:C1", "/env", "~"))


@pytest.mark.parametrize("name", example_names())
def test_every_key_of_the_examples_is_known_to_a_link_or_is_a_package(name: str) -> None:
    profile = environment_profile(load_example(name))
    assert profile
    assert all(links_of(key) or key.startswith(("package ", "variable ")) for key in profile)


def test_the_hash_is_short_and_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"})
    assert len(fingerprint({})) == 12


@pytest.mark.parametrize(
    ("key", "counts", "absent_tells"),
    [
        ("package torch", True, True),
        ("package numpy", False, True),
        ("python", True, False),
        ("python headers", False, False),
        ("torch device check", True, False),
        ("cann", True, False),
        ("cann installed", False, False),
        ("variable TORCH_TRANSFER_TO_NPU", True, True),
        ("variable LD_LIBRARY_PATH", False, True),
        ("container", False, False),
        ("something of a later version", False, False),
    ],
)
def test_which_keys_count_by_themselves(key: str, counts: bool, absent_tells: bool) -> None:
    assert is_of_the_chain(key) is counts
    assert absence_tells(key) is absent_tells
