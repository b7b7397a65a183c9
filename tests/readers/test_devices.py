"""Devices, masks, driver and containers, on fake roots and rows of facts."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import cann_trees as trees
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.checks.devices import parse_mask
from flexdoctor.facts import CannInstallation, ContainerFacts, MachineFacts, NpuChip, NpuSmiFacts, Unread
from flexdoctor.findings import Report
from flexdoctor.readers.devices import read_container
from flexdoctor.readers.machine import read_machine
from flexdoctor.readers.rooted import Root


def judged(machine: trees.Machine, **changes: object) -> Report:
    facts = machine.facts()
    assert facts.machine is not None
    changed = dataclasses.replace(facts.machine, **changes)  # type: ignore[arg-type]
    return diagnose(dataclasses.replace(facts, machine=changed), CHAIN)


# What CANN makes of a mask: its documentation's own examples first.
@pytest.mark.parametrize(
    ("value", "count", "ids", "reason"),
    [
        ("0,1,2", 8, (0, 1, 2), ""),
        ("1, 2,3", 8, (1,), "blank"),
        ("0,2,1", 8, (0, 2), "order"),
        ("0,0", 8, (0,), "duplicate"),
        ("4", 2, (), "range"),
        ("0,1,2,5", 8, (0, 1, 2, 5), ""),
        ("a,1", 8, (), "not a number"),
        ("0-3", 8, (), "not a number"),
        ("0,", 8, (0,), "not a number"),
        ("-1", 8, (), "not a number"),
        ("²", 8, (), "not a number"),
    ],
)
def test_mask_by_canns_own_rules(value: str, count: int, ids: tuple[int, ...], reason: str) -> None:
    mask = parse_mask(value, count)
    assert (mask.ids, mask.reason) == (ids, reason)


def test_physical_id_inside_a_container_is_out_of_range(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", nodes=("davinci5", *trees.NODES[1:]))
    item = trees.finding(machine.report(ASCEND_RT_VISIBLE_DEVICES="5"), "FD138")
    assert item.severity == "error"
    assert item.remedy.en == "export ASCEND_RT_VISIBLE_DEVICES=0"
    assert "input data range[0-1)" in item.predicted_errors[0]
    assert trees.codes(machine.report(ASCEND_RT_VISIBLE_DEVICES="0")) == []


def test_a_mask_that_ends_early_still_runs_with_what_it_names(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", nodes=("davinci0", "davinci1", *trees.NODES[1:]))
    report = machine.report(ASCEND_RT_VISIBLE_DEVICES="0, 1")
    assert trees.finding(report, "FD138").severity == "warning"
    assert trees.finding(report, "FD138").remedy.en == "export ASCEND_RT_VISIBLE_DEVICES=0,1"
    assert report.verdict == "healthy"


def test_facts_of_an_older_snapshot_raise_no_alarm(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    older = MachineFacts(
        cann=(CannInstallation("/usr/local/Ascend/cann-9.1.0", "9.1.0", None),),
        device_nodes=tuple(f"/dev/{name}" for name in trees.NODES),
        environment={"ASCEND_HOME_PATH": "/usr/local/Ascend/cann-9.1.0", "ASCEND_OPP_PATH": "/usr/local/Ascend/opp"},
    )
    facts = dataclasses.replace(machine.facts(), machine=older)
    packages = dataclasses.replace(facts.packages, modules=None)
    report = diagnose(dataclasses.replace(facts, packages=packages), CHAIN)
    assert trees.codes(report) == []


def test_a_place_that_this_user_may_not_read_is_unknown_not_empty(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", None)
    report = judged(machine, unread=(Unread("/usr/local/Ascend", "Permission denied"),))
    assert trees.codes(report) == []
    assert "FD122" in trees.codes(report, "unknown")
    assert report.verdict == "unknown"


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        ("0::/init.scope", False),
        ("0::/", None),
        ("12:cpu:/docker/0123abc", True),
        ("0::/kubepods.slice/x", True),
        ("", None),
    ],
)
def test_container_or_bare_metal(
    tmp_path: Path, cgroup: str, container: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(tmp_path / "proc/1/cgroup", cgroup)
    root = Root(tmp_path)
    monkeypatch.setattr(root, "live", True)
    monkeypatch.setattr(root, "host", lambda path: f"{tmp_path}{path}")
    assert read_container(root, {}).is_container is container


def test_nodes_are_read_with_mode_and_owner(tmp_path: Path) -> None:
    trees.lay_nodes(tmp_path)
    (tmp_path / "dev/davinci0").chmod(0o660)
    trees.write(tmp_path / "etc/passwd", f"HwHiAiUser:x:{os.geteuid()}:1000::/:/bin/sh\n")
    trees.write(tmp_path / "etc/group", f"HwHiAiUser:x:{os.getegid()}:\n")
    facts = read_machine(tmp_path, {})
    assert facts.nodes is not None
    first = facts.nodes[0]
    assert (first.path, first.mode, first.owner, first.group) == ("/dev/davinci0", 0o660, "HwHiAiUser", "HwHiAiUser")
    assert facts.user is None  # of an image, whoever starts it decides


def test_no_devmm_svm_is_normal_on_a5_and_a_fault_on_a2(tmp_path: Path) -> None:
    nodes = ("davinci0", "davinci_manager", "hisi_hdc")
    toolkit = trees.Toolkit(kernels=("ascend950", "ascend910b"))
    assert trees.codes(trees.machine(tmp_path / "a5", toolkit, nodes=nodes, pci="0xd806").report()) == []
    a2 = trees.machine(tmp_path / "a2", nodes=nodes).report()
    assert trees.finding(a2, "FD132").title.en.endswith("devmm_svm")


def test_no_devmm_svm_on_a_chip_that_is_not_known_is_unknown(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root", nodes=("davinci0", "davinci_manager", "hisi_hdc"), pci=None).report()
    assert trees.codes(report) == []
    assert "FD132" in trees.codes(report, "unknown")


@pytest.mark.parametrize(
    ("pci", "kernels", "fault"),
    [
        ("0xd500", "ascend310p", ["FD136"]),
        ("0xd801", "ascend910", ["FD136"]),
        ("0xd802", "ascend910b", []),
        ("0xd803", "ascend910_93", []),
        ("0xd806", "ascend950", []),
    ],
)
def test_chip_as_a_target_of_triton_ascend(tmp_path: Path, pci: str, kernels: str, fault: list[str]) -> None:
    machine = trees.machine(tmp_path / "root", trees.Toolkit(kernels=(kernels,)), pci=pci)
    report = machine.report()
    assert trees.codes(report) == fault
    if fault:
        assert report.capabilities["eager"].available == "yes"


def test_310b_is_only_in_the_compilers_branch_and_stays_unknown(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root", trees.Toolkit(kernels=("ascend310b",)), pci="0xd105").report()
    assert trees.codes(report) == []
    assert "FD136" in trees.codes(report, "unknown")


def test_the_name_910b_alone_is_an_old_910(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", trees.Toolkit(kernels=("ascend910",)), pci=None)
    for name, fault in (("910B", True), ("910B3", False)):
        smi = NpuSmiFacts("answered", "npu-smi info", 0, chips=(NpuChip("0", name, "OK"),))
        assert ("FD136" in trees.codes(judged(machine, npu_smi=smi))) is fault


def test_chips_on_the_bus_without_nodes_are_a_driver_matter_on_bare_metal_only(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", nodes=(), driver=False)
    metal = judged(machine, container=ContainerFacts(False, "/proc/1/cgroup"))
    assert trees.finding(metal, "FD133").severity == "error"
    inside = machine.report()
    assert trees.codes(inside) == ["FD131"]
    assert "host" in trees.finding(inside, "FD131").detail.en


def test_driver_libraries_that_are_not_mounted_name_what_is_missing(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", driver=False)
    item = trees.finding(machine.report(), "FD134")
    for path in ("/usr/local/Ascend/driver/lib64", "/usr/local/dcmi", "/usr/local/bin/npu-smi"):
        assert f"-v {path}:{path}" in item.remedy.en
    assert "/etc/ascend_install.info" in item.remedy.en
    runtime = trees.finding(machine.report(ASCEND_DOCKER_RUNTIME="True"), "FD134")
    assert "/etc/ascend_install.info" not in runtime.remedy.en
    nodrv = trees.finding(machine.report(ASCEND_RUNTIME_OPTIONS="NODRV"), "FD134")
    assert "take NODRV out" in nodrv.remedy.en


def test_what_the_container_runtime_leaves_out_is_no_fault(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", driver=False)
    trees.write(machine.root / "usr/local/Ascend/driver/lib64/driver/libascend_hal.so")
    report = machine.report(ASCEND_DOCKER_RUNTIME="True", ASCEND_VISIBLE_DEVICES="0")
    assert trees.codes(report) == []
    (item,) = [item for item in report.findings if item.link == "devices" and item.status == "pass"]
    assert "version is unknown" in item.detail.en


@pytest.mark.parametrize(
    ("cann", "inner", "driver", "compatible", "pci", "fault"),
    [
        ("9.1.0", "V100R001C10", "25.5.1", "", "0xd802", False),
        ("9.1.0", "V100R001C10", "25.0.rc1", "", "0xd802", True),
        ("9.0.0", "V100R001C10", "25.0.rc1", "", "0xd802", False),
        ("8.1.RC1", "V100R001C21", "23.0.0", "", "0xd802", False),  # no row that would exclude it
        ("8.2.RC1", "V100R001C22", "26.1.0", "[V100R001C22],[V100R001C23]", "0xd802", False),
        ("8.2.RC1", "V100R001C22", "26.1.0", "[V100R001C25]", "0xd802", True),
        ("9.1.0", "V100R001C10", "25.1.RC1", "", "0xd806", False),  # another track of numbers
        ("9.1.0", "V100R001C10", "garbage", "", "0xd802", False),
    ],
)
def test_driver_and_cann_by_the_published_rows(
    tmp_path: Path, cann: str, inner: str, driver: str, compatible: str, pci: str, fault: bool
) -> None:
    toolkit = trees.Toolkit(cann, inner=inner, kernels=("ascend910b", "ascend950"))
    machine = trees.machine(tmp_path / "root", toolkit, pci=pci)
    trees.lay_driver(machine.root, driver, compatible)
    report = machine.report()
    assert ("FD151" in trees.codes(report)) is fault
    if fault:
        assert trees.finding(report, "FD151").severity == "warning"


def test_minus_8005_with_all_nodes_says_both_reasons(tmp_path: Path) -> None:
    lines = ("dcmi module initialize failed. ret is -8005",)
    smi = NpuSmiFacts("failed", "npu-smi info", 187, code=-8005, lines=lines)
    item = trees.finding(judged(trees.machine(tmp_path / "root"), npu_smi=smi), "FD135")
    assert "another container holds" in item.remedy.en
    assert "privilege" in item.remedy.en
    assert lines[0] in trees.said(item)


def test_minus_8020_is_a_device_in_other_hands(tmp_path: Path) -> None:
    smi = NpuSmiFacts("failed", "npu-smi info", 172, code=-8020)
    report = judged(trees.machine(tmp_path / "root"), npu_smi=smi)
    assert trees.codes(report) == ["FD153"]


@pytest.mark.parametrize("outcome", ["timed out", "killed", "too much", "not started", "failed"])
def test_silence_of_npu_smi_is_told_and_decides_nothing(tmp_path: Path, outcome: str) -> None:
    smi = NpuSmiFacts(outcome, "npu-smi info", signal=9, limit=10.0)  # type: ignore[arg-type]
    report = judged(trees.machine(tmp_path / "root"), npu_smi=smi)
    assert trees.codes(report) == []
    assert "FD135" in trees.codes(report, "unknown")
    assert report.verdict == "healthy"


def test_sick_chip_is_a_warning(tmp_path: Path) -> None:
    smi = NpuSmiFacts("answered", "npu-smi info", 0, chips=(NpuChip("3", "910B3", "Alarm"),))
    assert "3: Alarm" in trees.finding(judged(trees.machine(tmp_path / "root"), npu_smi=smi), "FD152").title.en


def test_rays_older_spelling_has_no_effect(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root").report(RAY_EXPERIMENTAL_NOSET_ASCEND_VISIBLE_DEVICES="1")
    assert trees.codes(report) == ["FD154"]
    assert "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES" in trees.finding(report, "FD154").remedy.en


def test_container_runtimes_variable_on_bare_metal_has_no_effect(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    variables = {**(machine.facts().machine or MachineFacts()).environment, "ASCEND_VISIBLE_DEVICES": "0"}
    metal = judged(machine, environment=variables, container=ContainerFacts(False, "/proc/1/cgroup"))
    assert trees.codes(metal) == ["FD154"]
    assert trees.codes(judged(machine, environment=variables)) == []


def test_override_that_triton_ascend_refuses(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    assert trees.codes(machine.report(TRITON_ASCEND_ARCH="Ascend910B4-1")) == ["FD156"]
    assert trees.codes(machine.report(TRITON_ASCEND_ARCH="Ascend910B3")) == []


def test_system_too_old_for_the_wheels(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    (machine.root / "usr/lib64/libc.so.6").unlink()
    trees.write(machine.root / "usr/lib64/libc-2.27.so")
    (machine.root / "usr/lib64/libc.so.6").symlink_to("libc-2.27.so")
    assert "FD107" in trees.codes(machine.report(), "fail")


def test_older_libstdcxx_than_the_tag_allows_is_a_warning(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    for name, fault in (("libstdc++.so.6.0.22", True), ("libstdc++.so.6.0.30", False)):
        trees.write(machine.root / "usr/lib64" / name)
        place = machine.root / "usr/lib64/libstdc++.so.6"
        place.unlink(missing_ok=True)
        place.symlink_to(name)
        assert ("FD108" in trees.codes(machine.report(), "warn")) is fault
