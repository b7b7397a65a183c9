"""The machine-side cases that were collected from public reports: the right answer, and none of the wrong ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import builders
import cann_trees as trees
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import DeviceNode, LinkageFacts, SymbolGap, UserFacts
from flexdoctor.readers.environment import read_site_packages


def test_healthy_machine_has_no_error_and_no_warning(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root").report()
    assert trees.codes(report) == []
    assert report.verdict == "healthy"


def test_o04_installed_but_not_sourced_names_the_script_that_is_there(tmp_path: Path) -> None:
    toolkit = trees.Toolkit("8.3.RC1", inner="V100R001C23")
    machine = trees.machine(tmp_path / "root", toolkit, npu="2.7.1", torch="2.7.1", triton="3.2.0")
    report = diagnose(read_site_packages(machine.site, machine.root), CHAIN)
    item = trees.finding(report, "FD123")
    assert report.root_cause is not None
    assert item.remedy.en == "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
    assert "/usr/local/Ascend/ascend-toolkit/latest/lib64/libhccl.so" in trees.said(item)
    assert any("libhccl.so" in error for error in item.predicted_errors)


def test_o04_variant_absent_everywhere_is_another_answer(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", None, npu="2.7.1.post4", torch="2.7.1")
    report = machine.report()
    item = trees.finding(report, "FD122")
    assert "9.0.0" in item.remedy.en  # the CANN that COMPATIBILITY pairs with 2.7.1.post4
    assert "FD123" not in trees.codes(report)


def test_o05_torch_npu_without_any_ascend_is_told_to_go_or_to_be_quiet(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", None, nodes=(), pci=None, driver=False)
    report = machine.report()
    item = trees.finding(report, "FD121")
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in item.remedy.en
    assert "uninstall torch-npu" in item.remedy.en
    assert "install CANN" not in trees.said(item).replace("uninstall", "")
    assert any("libhccl.so" in error for error in item.predicted_errors)
    assert "Failed to load the backend extension" in item.predicted_errors[0]
    assert item.status == "warn"
    assert [one.code for one in report.findings if one.severity == "error"] == []


def test_o06_off_table_without_proof_is_a_warning_and_names_both_ways_out(tmp_path: Path) -> None:
    toolkit = trees.Toolkit("8.5.0", inner="V100R001C25")
    machine = trees.machine(tmp_path / "root", toolkit, npu="2.7.1.post4", torch="2.7.1", triton="3.2.0")
    item = trees.finding(machine.report(), "FD142")
    assert item.severity == "warning"
    assert "2.7.1.post2" in item.remedy.en
    assert "9.0.0" in item.remedy.en
    assert any(proof.source and "COMPATIBILITY" in proof.source for proof in item.evidence)


def test_o06_a_missing_symbol_is_the_proof(tmp_path: Path) -> None:
    toolkit = trees.Toolkit("8.5.0", inner="V100R001C25")
    machine = trees.machine(tmp_path / "root", toolkit, npu="2.7.1.post4", torch="2.7.1", triton="3.2.0")
    linkage = LinkageFacts(
        libraries=("/site/torch_npu/lib/libtorch_npu.so",),
        found={"libascendcl.so": "/usr/local/Ascend/cann-8.5.0/lib64/libascendcl.so"},
        missing={"cann": 1},
        gaps=(SymbolGap("aclNewInThisLine", "/site/torch_npu/lib/libtorch_npu.so", "cann"),),
    )
    facts = dataclasses.replace(machine.facts(), linkage=linkage)
    item = trees.finding(diagnose(facts, CHAIN), "FD146")
    assert item.severity == "error"
    assert "aclNewInThisLine" in trees.said(item)
    assert "libascendcl.so" in trees.said(item)
    assert "2.7.1.post2" in item.remedy.en


def test_o06_the_same_versions_with_every_symbol_stay_a_warning(tmp_path: Path) -> None:
    toolkit = trees.Toolkit("8.5.0", inner="V100R001C25")
    machine = trees.machine(tmp_path / "root", toolkit, npu="2.7.1.post4", torch="2.7.1", triton="3.2.0")
    facts = dataclasses.replace(machine.facts(), linkage=LinkageFacts(libraries=("x",), needed_symbols=9))
    report = diagnose(facts, CHAIN)
    assert trees.codes(report, "fail") == []
    assert trees.codes(report, "warn") == ["FD142"]


def test_o07_cann_newer_than_triton_ascend(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", npu="2.7.1.post8", torch="2.7.1", triton="3.2.0")
    report = machine.report()
    item = trees.finding(report, "FD144")
    assert item.severity == "error"
    assert "triton-ascend==3.2.2" in item.remedy.en
    assert "--extra-index-url https://mirrors.huaweicloud.com/ascend/repos/pypi" in item.remedy.en
    assert "torch-npu" not in item.remedy.en
    assert "FD142" not in trees.codes(report)


def test_o08_no_compiler_in_a_slim_image(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root", cxx=False).report()
    item = trees.finding(report, "FD104")
    assert "RuntimeError: Failed to find C++ compiler" in item.predicted_errors
    assert "g++" in item.remedy.en
    assert report.capabilities["eager"].available == "yes"
    assert report.capabilities["compiled_forward"].because == "FD104"


def test_o08_note_a_c_compiler_in_cc_is_another_fault(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    trees.program(machine.root / "usr/bin/gcc")
    assert trees.codes(machine.report(CC="gcc")) == ["FD105"]
    assert trees.codes(machine.report(CC="/usr/bin/g++")) == []


def test_o09_python_headers_missing(tmp_path: Path) -> None:
    item = trees.finding(trees.machine(tmp_path / "root", headers=False).report(), "FD106")
    assert "fatal error: Python.h: No such file or directory" in item.predicted_errors
    assert "python3.11-dev" in item.remedy.en


def test_o12_all_missing_python_packages_at_once(tmp_path: Path) -> None:
    toolkit = trees.Toolkit("8.2.RC1", inner="V100R001C22")
    needs = [name for name in trees.NEEDS if name not in ("decorator", "attrs", "psutil")]
    machine = trees.machine(tmp_path / "root", toolkit, npu="2.1.0.post13", torch="2.1.0", needs=needs, triton="3.2.0")
    item = trees.finding(machine.report(), "FD147")
    assert item.severity == "error"
    assert item.remedy.en.endswith("pip install decorator attrs psutil")
    assert any("500001" in error for error in item.predicted_errors)


def test_o13_container_without_the_manager_node(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root", nodes=("davinci0",)).report()
    item = trees.finding(report, "FD132")
    assert report.root_cause is item
    for name in ("davinci_manager", "devmm_svm", "hisi_hdc"):
        assert f"--device /dev/{name}" in item.remedy.en
    assert any("-8005" in error for error in item.predicted_errors)


@pytest.mark.parametrize(("gids", "denied"), [((100,), True), ((100, 1000), False)])
def test_o14_not_in_the_group(tmp_path: Path, gids: tuple[int, ...], denied: bool) -> None:
    facts = trees.machine(tmp_path / "root").facts()
    assert facts.machine is not None
    nodes = tuple(DeviceNode(f"/dev/{name}", 0o660, 1000, 1000, "HwHiAiUser", "HwHiAiUser") for name in trees.NODES)
    user = UserFacts(1001, gids, "alice", ("users",))
    machine = dataclasses.replace(facts.machine, nodes=nodes, user=user)
    report = diagnose(dataclasses.replace(facts, machine=machine), CHAIN)
    assert trees.codes(report) == (["FD139"] if denied else [])
    if denied:
        item = trees.finding(report, "FD139")
        assert "usermod -aG HwHiAiUser alice" in item.remedy.en
        assert "--group-add 1000" in item.remedy.en
        assert "chmod" not in trees.said(item)


def test_o14_world_writable_nodes_and_root_are_no_fault(tmp_path: Path) -> None:
    facts = trees.machine(tmp_path / "root").facts()
    assert facts.machine is not None
    for mode, uid in ((0o666, 1001), (0o660, 0)):
        nodes = tuple(DeviceNode(f"/dev/{name}", mode, 1000, 1000) for name in trees.NODES)
        machine = dataclasses.replace(facts.machine, nodes=nodes, user=UserFacts(uid, (uid,)))
        assert trees.codes(diagnose(dataclasses.replace(facts, machine=machine), CHAIN)) == []


@pytest.mark.parametrize("kernels", [(), ("ascend310p",)])
def test_o15_toolkit_without_kernels_of_this_chip(tmp_path: Path, kernels: tuple[str, ...]) -> None:
    toolkit = trees.Toolkit("8.5.0", kernels=kernels, inner="V100R001C25")
    machine = trees.machine(tmp_path / "root", toolkit, npu="2.9.0", torch="2.9.0", triton="3.2.0")
    item = trees.finding(machine.report(), "FD141")
    assert "Ascend-cann-910b-ops_8.5.0" in item.remedy.en
    assert any("does not has any binary" in error for error in item.predicted_errors)
    assert "torch" not in item.remedy.en


def test_o16_driver_and_cann_too_far_apart(tmp_path: Path) -> None:
    toolkit = trees.Toolkit("8.0.RC1", inner="V100R001C15")
    machine = trees.machine(tmp_path / "root", toolkit, driver=False, npu="2.1.0.post4", torch="2.1.0", triton="3.2.0")
    trees.lay_driver(machine.root, "25.5.1", "[V100R001C21],[V100R001C22],[V100R001C23]")
    item = trees.finding(machine.report(), "FD151")
    assert "25.5.1" in item.title.en
    assert "8.0.RC1" in item.title.en
    assert any("507033" in error for error in item.predicted_errors)
    assert "either" in item.remedy.en
    assert "never changes a driver" in item.remedy.en


def test_o17_transfer_shim_makes_two_active_drivers(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    backend = machine.site / "triton/backends/nvidia"
    trees.write(backend / "__init__.py")
    trees.write(backend / "driver.py")
    trees.write(backend / "compiler.py")
    item = trees.finding(machine.report(TORCH_TRANSFER_TO_NPU="1"), "FD155")
    assert item.remedy.en.startswith("unset TORCH_TRANSFER_TO_NPU")
    assert "no CUDA build" in item.detail.en
    assert "FD155" not in trees.codes(machine.report(TORCH_TRANSFER_TO_NPU="0"))
    assert "FD155" not in trees.codes(machine.report())


def test_o19_mask_emptied_by_the_launcher(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    item = trees.finding(machine.report(ASCEND_RT_VISIBLE_DEVICES=""), "FD137")
    assert item.severity == "error"
    assert "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES=1" in item.remedy.en
    assert "{'NPU': 1}" in item.remedy.en
    assert "driver" not in trees.said(item)


def test_o19_second_half_physical_ids_are_mapped_by_place(tmp_path: Path) -> None:
    nodes = (*(f"davinci{number}" for number in range(8)), *trees.NODES[1:])
    machine = trees.machine(tmp_path / "root", nodes=nodes)
    noset: dict[str, str | None] = {"RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES": "1"}
    item = trees.finding(machine.report(ASCEND_RT_VISIBLE_DEVICES="4,5,6,7", changes=noset), "FD154")
    assert "4→0, 5→1, 6→2, 7→3" in item.remedy.en
    assert trees.codes(machine.report(ASCEND_RT_VISIBLE_DEVICES="0,1,2,3", changes=noset)) == []
    assert trees.codes(machine.report(ASCEND_RT_VISIBLE_DEVICES="4,5,6,7")) == []


def test_build_container_with_cann_and_no_device_leads_but_does_not_decide(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", nodes=(), pci=None, driver=False)
    facts = machine.facts()
    report = diagnose(facts, CHAIN)
    assert trees.codes(report, "fail") == []
    assert report.root_cause is not None
    assert report.root_cause.code == "FD131"
    assert diagnose(facts, CHAIN, hardware_required=True).verdict == "broken"


def test_packages_are_judged_beside_a_machine_without_ascend(tmp_path: Path, site: Path) -> None:
    (tmp_path / "empty").mkdir()
    builders.install_torch(site)
    report = diagnose(read_site_packages(site, tmp_path / "empty"), CHAIN)
    assert [item.code for item in report.findings if item.severity == "error"] == ["FD112"]
    assert trees.finding(report, "FD121").status == "warn"
