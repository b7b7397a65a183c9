"""CANN on disk: every layout, every place, every spelling, and what the variables make of it."""

from __future__ import annotations

from pathlib import Path

import cann_trees as trees
import pytest

from flexdoctor.facts import CannInstallation, InterpreterFacts, MachineFacts
from flexdoctor.readers.machine import read_machine

INSTALL = trees.INSTALL


def read(root: Path, site: Path | None = None, **variables: str) -> MachineFacts:
    return read_machine(root, variables, sites=[site] if site else [])


def only(facts: MachineFacts) -> CannInstallation:
    (item,) = facts.cann
    return item


def test_layout_from_8_5_on_is_one_toolkit_behind_three_links(tmp_path: Path) -> None:
    trees.lay_toolkit(tmp_path)
    item = only(read(tmp_path))
    assert (item.path, item.version) == (f"{INSTALL}/cann", "9.1.0")
    assert item.real_path == f"{INSTALL}/cann-9.1.0"
    assert item.set_env == f"{INSTALL}/cann/set_env.sh"
    assert item.version_file == f"{INSTALL}/cann/aarch64-linux/ascend_toolkit_install.info"
    assert item.bishengir_set_env == f"{INSTALL}/cann/share/info/ascendnpu-ir/bin/set_env.sh"
    assert item.inner_version == "V100R001C10SPC001"


def test_layout_up_to_8_3_is_one_toolkit_behind_a_folder_of_links(tmp_path: Path) -> None:
    trees.lay_toolkit(tmp_path, trees.Toolkit("8.1.RC1"))
    item = only(read(tmp_path))
    assert (item.path, item.version) == (f"{INSTALL}/ascend-toolkit/latest", "8.1.RC1")
    assert item.set_env == f"{INSTALL}/ascend-toolkit/set_env.sh"
    assert item.real_path == f"{INSTALL}/ascend-toolkit/8.1.RC1"
    assert item.other_versions == ()


@pytest.mark.parametrize("home", ["cann", "cann-9.1.0", "ascend-toolkit/latest", "cann-9.1.0/"])
def test_every_link_to_the_toolkit_in_use_counts_as_sourced(tmp_path: Path, home: str) -> None:
    machine = trees.machine(tmp_path / "root")
    report = machine.report(ASCEND_HOME_PATH=f"{INSTALL}/{home}")
    assert trees.codes(report) == []


def test_internal_version_numbers_are_never_taken_for_cann_versions(tmp_path: Path) -> None:
    trees.lay_toolkit(tmp_path, trees.Toolkit("8.1.RC1"))
    place = tmp_path / f"{INSTALL}/ascend-toolkit/8.1.RC1".lstrip("/")
    (place / "aarch64-linux/ascend_toolkit_install.info").unlink()
    assert only(read(tmp_path)).version == "8.1.RC1"  # version_dir, not Version=7.7.0.1.238


def test_file_beats_folder_name_and_disagreement_is_kept(tmp_path: Path) -> None:
    trees.lay_toolkit(tmp_path, trees.Toolkit("9.0.0", folder=f"{INSTALL}/cann-9.1.0"))
    place = tmp_path / f"{INSTALL}/cann-9.1.0".lstrip("/")
    trees.write(place / "share/info/runtime/version.info", "Version=9.0.1\nversion_dir=cann\n")
    item = only(read(tmp_path))
    assert item.version == "9.0.0"
    assert item.other_versions == (f"{INSTALL}/cann-9.1.0/share/info/runtime/version.info: 9.0.1",)


def test_versions_side_by_side_newest_first_and_the_named_one_before_all(tmp_path: Path) -> None:
    for version in ("8.5.0", "9.0.0", "8.10.0"):
        trees.lay_toolkit(tmp_path, trees.Toolkit(version, folder=f"{INSTALL}/cann-{version}"))
    trees.lay_toolkit(tmp_path, trees.Toolkit("8.1.RC1"))
    assert [item.version for item in read(tmp_path).cann] == ["9.0.0", "8.10.0", "8.5.0", "8.1.RC1"]
    named = read(tmp_path, ASCEND_HOME_PATH=f"{INSTALL}/cann-8.5.0").cann
    assert [item.version for item in named] == ["8.5.0", "9.0.0", "8.10.0", "8.1.RC1"]
    assert named[0].found_by == "ASCEND_HOME_PATH"


def test_toolkit_that_pip_put_into_the_target(tmp_path: Path) -> None:
    site = tmp_path / "opt/venv/lib/python3.11/site-packages"
    place = "/opt/venv/lib/python3.11/site-packages/ascend/cann-9.1.0-beta3"
    trees.lay_toolkit(tmp_path, trees.Toolkit("9.1.0-beta.3", folder=place))
    item = only(read(tmp_path, site))
    assert (item.path, item.found_by, item.version) == (place, "site-packages", "9.1.0-beta.3")
    assert item.set_env == f"{place}/set_env.sh"


def test_toolkit_that_conda_put_into_its_prefix(tmp_path: Path) -> None:
    site = tmp_path / "opt/conda/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    trees.lay_toolkit(tmp_path, trees.Toolkit("9.0.0", folder="/opt/conda/Ascend/cann-9.0.0"))
    trees.link(tmp_path, "/opt/conda/Ascend/cann", "/opt/conda/Ascend/cann-9.0.0")
    item = only(read(tmp_path, site))
    assert (item.path, item.found_by) == ("/opt/conda/Ascend/cann", "conda prefix")


def test_place_that_the_installer_recorded(tmp_path: Path) -> None:
    trees.lay_toolkit(tmp_path, trees.Toolkit("9.0.0", folder="/data/npu/cann-9.0.0"))
    trees.write(tmp_path / "etc/Ascend/ascend_cann_install.info", "Install_Path=/data/npu\n")
    assert only(read(tmp_path)).path == "/data/npu/cann-9.0.0"


def test_home_of_another_user_by_the_variable_of_the_image(tmp_path: Path) -> None:
    trees.lay_toolkit(tmp_path, trees.Toolkit("8.5.0", folder="/home/npu/Ascend/cann-8.5.0"))
    assert read(tmp_path).cann == ()
    assert only(read(tmp_path, HOME="/home/npu")).version == "8.5.0"


def test_kernels_are_counted_by_their_folder_never_by_config(tmp_path: Path) -> None:
    trees.lay_toolkit(tmp_path, trees.Toolkit(kernels=()))
    item = only(read(tmp_path))
    assert item.kernels == ()
    assert (tmp_path / f"{INSTALL}/cann-9.1.0/{trees.KERNELS}/config/ascend910b".lstrip("/")).is_dir()


def test_libraries_alone_are_a_toolkit_of_unknown_version(tmp_path: Path) -> None:
    trees.write(tmp_path / f"{INSTALL}/ascend-toolkit/latest/lib64/libhccl.so".lstrip("/"))
    item = only(read(tmp_path))
    assert (item.version, item.libraries) == (None, ("libhccl.so",))


def test_links_of_an_image_never_lead_to_this_machine(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    trees.lay_toolkit(outside, trees.Toolkit(folder="/cann-9.1.0"))
    root = tmp_path / "root"
    root.mkdir()
    trees.link(root, f"{INSTALL}/cann", str(outside / "cann-9.1.0"))
    trees.link(root, f"{INSTALL}/cann-loop", f"{INSTALL}/cann-loop")
    assert read(root).cann == ()


def test_nnal_with_its_colon_separated_version_file(tmp_path: Path) -> None:
    place = tmp_path / f"{INSTALL}/nnal/atb/9.1.0".lstrip("/")
    (place / "atb/cxx_abi_1/lib").mkdir(parents=True)
    trees.write(place / "version.info", "  Ascend-cann-atb : 8.1.RC1\n  Ascend-cann-atb Version : 8.1.RC1.B150\n")
    trees.write(place.parent / "set_env.sh")
    (place.parent / "latest").symlink_to("9.1.0")
    (item,) = read(tmp_path).nnal
    assert (item.version, item.abis) == ("8.1.RC1", (1,))
    assert item.set_env == f"{INSTALL}/nnal/atb/set_env.sh"


def test_gone_after_sourcing(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    item = trees.finding(machine.report(ASCEND_HOME_PATH=f"{INSTALL}/cann-8.5.0"), "FD124")
    assert item.predicted_errors[0].startswith(
        f"Exception: ASCEND_HOME_PATH : {INSTALL}/cann-8.5.0 does not exist. Please run 'source set_env.sh'"
    )
    assert item.remedy.en == f"source {INSTALL}/cann-9.1.0/set_env.sh"


def test_another_one_sourced(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    older = f"{INSTALL}/cann-8.5.0"
    trees.lay_toolkit(machine.root, trees.Toolkit("8.5.0", folder=older))
    library_path = f"{older}/lib64:{machine.variables['LD_LIBRARY_PATH']}"
    item = trees.finding(machine.report(LD_LIBRARY_PATH=library_path), "FD125")
    assert "9.1.0" in item.title.en
    assert "8.5.0" in item.title.en
    behind = machine.report(LD_LIBRARY_PATH=f"{machine.variables['LD_LIBRARY_PATH']}:{older}/lib64")
    assert trees.codes(behind) == []


def test_both_spellings_of_one_toolkit_in_a_path_are_normal(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    both = f"{INSTALL}/ascend-toolkit/latest/lib64:{machine.variables['LD_LIBRARY_PATH']}:{INSTALL}/gone/lib64"
    assert trees.codes(machine.report(LD_LIBRARY_PATH=both)) == []


def test_home_without_the_libraries_is_sourced_in_part(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    report = machine.report(LD_LIBRARY_PATH=f"{INSTALL}/cann-8.3/lib64")
    item = trees.finding(report, "FD126")
    assert f"{INSTALL}/cann-8.3/lib64, which is gone" in trees.said(item)
    trees.write(machine.root / "etc/ld.so.conf.d/cann.conf", f"{INSTALL}/cann/lib64\n")
    assert trees.codes(machine.report(LD_LIBRARY_PATH=None)) == []


def test_libraries_without_home_only_cost_the_compiled_ways(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root").report(ASCEND_HOME_PATH=None)
    item = trees.finding(report, "FD126")
    assert "EnvironmentError: ASCEND_HOME_PATH is not set" in item.predicted_errors[0]
    assert report.capabilities["eager"].available == "yes"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("unset", "Exception: ASCEND_OPP_PATH environment variable is not set."),
        ("opp", f"Exception: ASCEND_OPP_PATH : {INSTALL}/cann-9.1.0/opp does not exist."),
        ("runtime", f"Exception: ASCEND_RUNTIME_PATH : {INSTALL}/cann-9.1.0/runtime does not exist."),
        ("compiler", f"Exception: ASCEND_COMPILER_PATH : {INSTALL}/cann-9.1.0/compiler does not exist."),
    ],
)
def test_what_torch_npu_will_raise_at_import(tmp_path: Path, change: str, text: str) -> None:
    machine = trees.machine(tmp_path / "root", trees.Toolkit(kernels=()), nodes=(), pci=None)
    place = machine.root / f"{INSTALL}/cann-9.1.0/{change}".lstrip("/")
    if change != "unset":
        place.rename(place.with_name("away"))
    report = machine.report(changes={"ASCEND_OPP_PATH": None} if change == "unset" else {})
    item = trees.finding(report, "FD127")
    assert item.predicted_errors[1].startswith(text)


def test_nnal_installed_and_forgotten_warns_and_never_decides(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    atb = machine.root / f"{INSTALL}/nnal/atb/9.1.0/atb".lstrip("/")
    for abi in (0, 1):
        (atb / f"cxx_abi_{abi}/lib").mkdir(parents=True)
    trees.write(machine.root / f"{INSTALL}/nnal/atb/set_env.sh".lstrip("/"))
    report = machine.report()
    assert trees.codes(report, "warn") == ["FD128"]
    assert trees.finding(report, "FD128").remedy.en == f"source {INSTALL}/nnal/atb/set_env.sh"
    assert report.verdict == "healthy"
    home = f"{INSTALL}/nnal/atb/9.1.0/atb"
    assert trees.codes(machine.report(ATB_HOME_PATH=f"{home}/cxx_abi_1")) == []
    wrong = trees.finding(machine.report(ATB_HOME_PATH=f"{home}/cxx_abi_0"), "FD128")
    assert "--cxx_abi=1" in wrong.remedy.en
    assert "gone" in trees.finding(machine.report(ATB_HOME_PATH=f"{home}/cxx_abi_7"), "FD128").title.en


def test_stub_before_the_driver(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    trees.write(machine.root / f"{INSTALL}/cann-9.1.0/devlib/libascend_hal.so".lstrip("/"))
    path = machine.variables["LD_LIBRARY_PATH"]
    item = trees.finding(machine.report(LD_LIBRARY_PATH=f"{INSTALL}/cann/devlib:{path}"), "FD129")
    assert f"export LD_LIBRARY_PATH={INSTALL}/driver/lib64/driver:$LD_LIBRARY_PATH" in item.remedy.en
    assert trees.codes(machine.report(LD_LIBRARY_PATH=f"{path}:{INSTALL}/cann/devlib")) == []


def test_compiler_that_the_toolkits_script_leaves_out(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root", trees.Toolkit("8.5.0"), npu="2.9.0", torch="2.9.0", triton="3.2.0")
    home = machine.variables["ASCEND_HOME_PATH"]
    report = machine.report(PATH=f"{home}/tools/ccec_compiler/bin:/usr/bin")
    item = trees.finding(report, "FD149")
    assert item.remedy.en == f"source {home}/share/info/ascendnpu-ir/bin/set_env.sh"
    assert "Couldn't find executable bishengir-compile or TRITON_NPU_COMPILER_PATH" in item.predicted_errors
    assert report.capabilities["eager"].available == "yes"


def test_compiler_that_the_wheel_brings_itself_counts_from_3_2_1_on(tmp_path: Path) -> None:
    machine = trees.machine(tmp_path / "root")
    trees.program(machine.site / "triton/backends/ascend/bishengir/bin/bishengir-compile")
    home = machine.variables["ASCEND_HOME_PATH"]
    assert trees.codes(machine.report(PATH=f"{home}/tools/ccec_compiler/bin:/usr/bin")) == []


def test_path_of_an_image_that_was_not_given_is_unknown_not_wrong(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root").report(PATH=None)
    assert trees.codes(report) == []
    assert "FD149" in trees.codes(report, "unknown")


@pytest.mark.parametrize(
    ("cann", "numpy", "fault"),
    [
        ("8.5.0", "2.1.0", True),
        ("8.3.RC2", "2.0.0", True),
        ("8.5.0", "1.26.4", False),
        ("9.0.0-beta.1", "2.1.0", True),
        ("9.0.0", "2.1.0", False),
        ("9.1.0", "2.4.0", False),
    ],
)
def test_numpy_major_by_line(tmp_path: Path, cann: str, numpy: str, fault: bool) -> None:
    report = trees.machine(tmp_path / "root", trees.Toolkit(cann), numpy=numpy).report()
    assert ("FD148" in trees.codes(report, "fail")) is fault


def test_packages_that_only_the_documents_ask_for_are_a_warning(tmp_path: Path) -> None:
    needs = [name for name in trees.NEEDS if name not in ("cffi", "sympy")]
    item = trees.finding(trees.machine(tmp_path / "root", needs=needs).report(), "FD147")
    assert item.severity == "warning"
    assert item.remedy.en.endswith("pip install sympy cffi")


def test_what_to_install_is_bounded_where_this_cann_bounds_it(tmp_path: Path) -> None:
    needs = [name for name in trees.NEEDS if name not in ("numpy", "protobuf")]
    for cann, command in (("8.5.0", '"numpy<2" "protobuf==3.20.*"'), ("9.1.0", "numpy protobuf")):
        machine = trees.machine(tmp_path / cann, trees.Toolkit(cann), needs=needs)
        assert trees.finding(machine.report(), "FD147").remedy.en.endswith(f"pip install {command}")


def test_module_without_metadata_is_not_missing(tmp_path: Path) -> None:
    needs = [name for name in trees.NEEDS if name != "attrs"]
    machine = trees.machine(tmp_path / "root", needs=needs)
    trees.write(machine.site / "attr/__init__.py")
    assert trees.codes(machine.report()) == []


@pytest.mark.parametrize(
    ("triton", "cann", "code"),
    [("3.2.2", "9.0.1", None), ("3.2.1", "9.0.0", None), ("3.2.0", "8.5.1", None), ("3.2.2", "8.5.0", "FD143")],
)
def test_triton_ascend_by_the_rows_of_any_table(tmp_path: Path, triton: str, cann: str, code: str | None) -> None:
    machine = trees.machine(tmp_path / "root", trees.Toolkit(cann), triton=triton, npu="2.9.0", torch="2.9.0")
    found = [item for item in trees.codes(machine.report()) if item in ("FD143", "FD144")]
    assert found == ([code] if code else [])


def test_the_triton_ascend_to_move_to_is_a_release_where_there_is_one(tmp_path: Path) -> None:
    report = trees.machine(tmp_path / "root", trees.Toolkit("8.5.0"), triton="3.2.2").report()
    assert "triton-ascend==3.2.0 " in trees.finding(report, "FD143").remedy.en


def test_contradicting_rows_are_both_kept_and_either_fits(tmp_path: Path) -> None:
    for number, cann in enumerate(("8.3.RC1", "9.0.0")):
        machine = trees.machine(tmp_path / str(number), trees.Toolkit(cann), npu="2.7.1", torch="2.7.1")
        assert "FD142" not in trees.codes(machine.report())


def test_secrets_stay_out_of_the_facts(tmp_path: Path) -> None:
    facts = read(tmp_path, HF_TOKEN="hf_secret", CC="g++", PATH="/secret/bin")
    assert facts.environment == {"CC": "g++"}
    assert "secret" not in repr(facts)


def test_broken_trees_never_raise(tmp_path: Path) -> None:
    top = tmp_path / INSTALL.lstrip("/")
    trees.write(top / "cann-9.1.0/aarch64-linux/ascend_toolkit_install.info", "\x00\xff=\n===\nversion")
    trees.write(top / "cann-9.0.0", "a file where a folder should be")
    (top / "cann-8.5.0/aarch64-linux/ascend_toolkit_install.info").mkdir(parents=True)
    trees.write(top / "driver/version.info", "\x00" * 100)
    trees.write(tmp_path / "etc/passwd", ":::\nroot:x:notanumber\n")
    facts = read_machine(
        tmp_path,
        {"ASCEND_HOME_PATH": "", "LD_LIBRARY_PATH": "::./x:", "CC": ""},
        interpreter=InterpreterFacts(version="broken"),
    )
    assert facts.cann == ()
