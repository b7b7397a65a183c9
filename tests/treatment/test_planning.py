"""Which plan is made: pure, on facts of look-alikes, with sets of packages that the tests decide."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import builders
import pytest
from stacks_for_tests import KNOWLEDGE, stack

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import CannInstallation, Facts, InterpreterFacts, MachineFacts
from flexdoctor.findings import COMPILED, Capability, Finding
from flexdoctor.fixes import FIXES
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.serialise import from_json, to_json
from flexdoctor.text import Text
from flexdoctor.treatment import patches
from flexdoctor.treatment.plan import Plan, TreatmentError
from flexdoctor.treatment.planning import Knowledge, make_plan

#: FD101 too, which is of the interpreter.
PACKAGES = tuple(check for check in CHAIN if check.link not in ("cann", "devices"))


def facts_of(site: Path, *, cann: str | None = None, python: str = "3.11.9") -> Facts:
    interpreter = InterpreterFacts(
        implementation="cpython", version=python, architecture="aarch64", executable="/env/bin/python", prefix="/env"
    )
    machine = MachineFacts(
        cann=(CannInstallation("/usr/local/Ascend/cann", cann, None),) if cann else (),
        device_nodes=("/dev/davinci0",),
        environment={"ASCEND_HOME_PATH": "/usr/local/Ascend/cann"} if cann else {},
    )
    facts = read_site_packages(site)
    return dataclasses.replace(facts, interpreter=interpreter, machine=machine if cann else None)


def plan_of(
    facts: Facts,
    *,
    required: Capability = "compiled_forward",
    knowledge: Knowledge = KNOWLEDGE,
    select: tuple[str, ...] = (),
    name: str | None = None,
) -> Plan:
    return make_plan(facts, diagnose(facts, PACKAGES, required=required), FIXES, knowledge, select=select, stack=name)


def said(plan: Plan) -> list[str]:
    return [step.title.en for step in plan.steps]


def install_eight(site: Path, npu: builders.TorchNpuShape, torch: str = "2.7.1") -> None:
    builders.install_torch(
        site, builders.TorchShape(torch, gate=builders.GATE_CHAIN, has_triton=builders.HAS_TRITON_CAPABLE)
    )
    builders.install_torch_npu(site, npu)


OLD_NPU = builders.TorchNpuShape("2.7.1", "torch==2.7.1", gate=None, kernel=False, helpers=builders.HELPERS_ASCEND_ONLY)
LATE_NPU = builders.TorchNpuShape("2.7.1.post4", "torch==2.7.1", gate="inductor_load", handles_index=True)


def test_nothing_is_planned_for_a_healthy_environment(site: Path) -> None:
    builders.install_healthy(site)
    plan = plan_of(facts_of(site, cann="9.1.0"))
    assert (plan.steps, plan.manual, plan.hopeless.en) == ((), (), "")
    assert plan.expected["compiled_forward"] == "yes"


def test_upstream_triton_over_triton_ascend_changes_nothing_else(site: Path) -> None:
    builders.install_healthy(site)
    builders.install_triton(site)
    plan = plan_of(facts_of(site))
    assert said(plan) == ["uninstall triton 3.7.1", "reinstall triton-ascend==3.2.2"]
    assert plan.opens == ("FD213",)
    assert (plan.stack, plan.alternatives) == ("new", ("late", "old"))
    assert plan.expected == {
        "eager": "yes",
        "compiled_forward": "yes",
        "compiled_backward": "yes",
        "compiled_captured": "no",
    }
    assert plan.untouched == 3


def test_the_package_that_will_bring_upstream_triton_back_is_named(site: Path) -> None:
    builders.install_healthy(site)
    builders.install_triton(site)
    builders.install(site, "xgrammar", "0.1", {"xgrammar/__init__.py": ""}, requires=["triton>=3"])
    builders.install(
        site, "elsewhere", "1", {"e.py": ""}, requires=['triton; platform_machine == "x86_64"', 'triton; extra == "x"']
    )
    (warning,) = plan_of(facts_of(site)).warnings
    assert "xgrammar 0.1: triton>=3" in warning.en
    assert "elsewhere" not in warning.en


def test_triton_ascend_is_put_back_as_it_was_beside_a_pair_that_nobody_knows(site: Path) -> None:
    builders.install_torch(site, builders.TorchShape("2.99.0"))
    builders.install_torch_npu(site, builders.TorchNpuShape("2.99.0", "torch==2.99.0"))
    builders.install(site, "pybind11", "3", {"pybind11/__init__.py": ""})
    builders.install_triton_ascend(site, "3.9.9")
    builders.install_triton(site)
    plan = plan_of(facts_of(site))
    assert said(plan) == ["uninstall triton 3.7.1", "reinstall triton-ascend==3.9.9"]
    assert plan.stack is None
    assert plan.expected["compiled_forward"] == "unknown"  # what hides behind FD213 was not judged


def test_no_triton_ascend_is_guessed_beside_a_pair_that_nobody_knows(site: Path) -> None:
    builders.install_torch(site, builders.TorchShape("2.99.0"))
    builders.install_torch_npu(site, builders.TorchNpuShape("2.99.0", "torch==2.99.0"))
    plan = plan_of(facts_of(site))
    assert plan.steps == ()
    assert [step.opens for step in plan.manual] == [("FD211",)]


def test_a_missing_triton_ascend_comes_with_what_it_imports(site: Path) -> None:
    builders.install_torch(site)
    builders.install_torch_npu(site)
    plan = plan_of(facts_of(site))
    assert said(plan) == ["install pybind11==3.0.1", "install triton-ascend==3.2.2"]


def test_a_leftover_folder_goes_before_triton_ascend_comes(site: Path) -> None:
    builders.install_torch(site)
    builders.install_torch_npu(site)
    (site / "triton" / "backends" / "nvidia").mkdir(parents=True)
    plan = plan_of(facts_of(site))
    assert [step.kind for step in plan.steps] == ["remove", "install", "install"]
    assert plan.steps[0].path.endswith("/triton")


def test_the_set_that_changes_least_is_taken(site: Path) -> None:
    install_eight(site, OLD_NPU)
    builders.install_triton_ascend(site, "3.2.0", builders.triton_ascend_files(extra=("ascend/libdevice.py",)))
    builders.install(site, "pybind11", "3", {"pybind11/__init__.py": ""})
    plan = plan_of(facts_of(site, cann="9.1.0"))
    # torch stays; torch-npu and triton-ascend move; what the new backend imports comes along; triton-ascend is last.
    assert said(plan) == [
        "install torch-npu==2.7.1.post11 (now 2.7.1)",
        "install psutil==6.0.0",
        "install triton-ascend==3.2.2 (now 3.2.0)",
    ]
    assert plan.stack == "old"


def test_another_set_can_be_chosen_by_name(site: Path) -> None:
    install_eight(site, OLD_NPU)
    plan = plan_of(facts_of(site, cann="9.1.0"), name="new")
    assert said(plan)[0] == "install torch==2.13.0 (now 2.7.1)"


def test_cann_decides_and_the_gate_is_patched_where_the_set_opens_it_late(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_eight(site, OLD_NPU)
    file = site / "torch/nn/attention/flex_attention.py"
    row = patches.PatchRow(
        name="gate",
        file="torch/nn/attention/flex_attention.py",
        release="2.7.1",
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        line=3,
        find='query.device.type != "cuda"',
        replace='query.device.type != "npu" and query.device.type != "cuda"',
    )
    monkeypatch.setattr(patches, "rows", lambda: (row,))
    plan = plan_of(facts_of(site, cann="9.0.0"))
    assert plan.stack == "late"
    assert [step.kind for step in plan.steps] == ["install", "install", "install", "install", "patch"]
    patch = plan.steps[-1]
    assert '+    if query.device.type != "npu" and query.device.type != "cuda"' in (
        patch.patch.diff if patch.patch else ""
    )
    assert "first compiled call" in patch.note.en
    assert plan.expected["compiled_captured"] == "yes"
    assert plan.manual == ()


def test_without_a_fitting_patch_the_early_import_stays_with_the_user(site: Path) -> None:
    install_eight(site, OLD_NPU)
    plan = plan_of(facts_of(site, cann="9.0.0"))
    assert [step.kind for step in plan.steps] == ["install"] * 4
    (manual,) = plan.manual
    assert manual.opens == ("FD202",)
    assert "import torch_npu._inductor" in manual.command.en
    assert plan.remaining == ("FD202",)
    assert plan.expected["compiled_forward"] == "no"


def test_no_set_for_this_cann_means_no_step_and_says_so(site: Path) -> None:
    install_eight(site, OLD_NPU)
    plan = plan_of(facts_of(site, cann="8.5.0"))
    assert plan.steps == ()
    assert "with CANN 8.5.0" in plan.hopeless.en
    assert "9.0.0, 9.1.0" in plan.hopeless.en


def test_no_set_for_this_python_means_no_step_and_says_so(site: Path) -> None:
    install_eight(site, OLD_NPU)
    plan = plan_of(facts_of(site, python="3.14.0"))
    assert plan.steps == ()
    assert "for Python 3.14.0 on aarch64" in plan.hopeless.en


def test_a_wrong_pair_is_moved_together(site: Path) -> None:
    builders.install_torch(site, builders.TorchShape("2.13.0", has_triton=builders.HAS_TRITON_CAPABLE))
    builders.install_torch_npu(site, builders.TorchNpuShape("2.12.0", "torch==2.12.0", gate=None, kernel=False))
    plan = plan_of(facts_of(site))
    assert said(plan)[0] == "install torch-npu==2.13.0 (now 2.12.0)"
    assert "FD113" in plan.opens


def test_the_vendors_index_is_passed_for_one_package_only(site: Path) -> None:
    install_eight(site, OLD_NPU)
    knowledge = Knowledge(
        lambda *_: [stack("v", "2.13.0", "2.13.0", indexes={"triton-ascend": "https://vendor.example/pypi"})], {}
    )
    plan = plan_of(facts_of(site), knowledge=knowledge)
    assert [bool(step.index) for step in plan.steps] == [False, False, True]
    assert "--extra-index-url https://vendor.example/pypi" in plan.steps[-1].command.en
    assert "no triton-ascend of the default index gives compiled flex_attention" in plan.steps[-1].note.en


def test_a_warning_is_mended_only_when_selected(site: Path) -> None:
    builders.install_torch(site, builders.TorchShape(cuda="13.0"))
    builders.install_torch_npu(site)
    builders.install_triton_ascend(site)
    builders.install(site, "pybind11", "3.0.1", {"pybind11/__init__.py": ""})
    facts = facts_of(site)
    assert plan_of(facts).steps == ()
    knowledge = dataclasses.replace(KNOWLEDGE, cpu_index="https://cpu.example")
    plan = plan_of(facts, select=("FD114",), knowledge=knowledge)
    assert said(plan) == ["install torch==2.13.0+cpu (now 2.13.0)"]


def test_half_installed_torch_is_reinstalled_in_its_own_version(site: Path) -> None:
    builders.install_healthy(site)
    (site / "torch/version.py").unlink()
    plan = plan_of(facts_of(site))
    assert said(plan) == ["reinstall torch==2.13.0"]


def test_what_no_tool_may_do_is_left_with_its_command(site: Path) -> None:
    builders.install_healthy(site)
    plan = planned_with(site, finding("FD123", "cann", "source /opt/cann/set_env.sh"))
    assert plan.steps == ()
    assert [step.command.en for step in plan.manual] == ["source /opt/cann/set_env.sh"]


def test_what_the_real_check_says_of_python_needs_is_mended(site: Path) -> None:
    builders.install_healthy(site)
    facts = facts_of(site, cann="9.1.0")
    report = diagnose(facts, CHAIN)
    (needs,) = [item for item in report.findings if item.code == "FD147"]
    plan = make_plan(facts, report, FIXES, KNOWLEDGE)
    mending = [step for step in plan.steps if "FD147" in step.opens]
    assert needs.remedy.en.endswith(" ".join(step.requirement or step.distribution for step in mending))
    assert "decorator" in [step.distribution for step in mending]


def test_a_plan_survives_the_journal(site: Path) -> None:
    builders.install_healthy(site)
    builders.install_triton(site)
    plan = plan_of(facts_of(site))
    assert from_json(Plan, to_json(plan)) == plan


@pytest.mark.parametrize("row", patches.rows(), ids=lambda row: f"{row.name}-{row.release}")
def test_every_patch_row_opens_what_it_says(row: patches.PatchRow) -> None:
    assert row.find != row.replace
    assert len(row.sha256) == 64
    line = {
        "gate": f"    if {row.find} and query.device.type:\n",
        "major": f"    return {row.find}\n",
        "hub_registry": f'        wrapped_forward_attr={row.find}flash_attn_forward",\n',
    }[row.name]
    if row.find.startswith("supported"):
        line = '    supported_devices = {"cuda", "cpu"}\n'
    lines = [row.line, *row.also]
    content = "".join(line if number in lines else "\n" for number in range(1, max(lines) + 1)).encode()
    changed = patches.changed(content, row.line, row.find, row.replace, row.also).decode()
    assert ("npu" in changed) == (row.name == "gate")
    assert "_wrapped_" not in changed


def finding(code: str, link: str, remedy: str = "") -> Finding:
    return Finding(
        link=link,
        status="fail",
        code=code,
        severity="error",
        title=Text(code, code),
        remedy=Text(remedy, remedy),
        affects=COMPILED,
    )


def planned_with(site: Path, *extra: Finding) -> Plan:
    facts = facts_of(site, cann="9.1.0")
    report = diagnose(facts, PACKAGES)
    return make_plan(facts, dataclasses.replace(report, findings=(*extra, *report.findings)), FIXES, KNOWLEDGE)


def test_a_chip_that_is_no_target_ends_every_plan(site: Path) -> None:
    install_eight(site, OLD_NPU)
    plan = planned_with(site, finding("FD136", "devices"))
    assert plan.steps == ()
    assert plan.hopeless.en.startswith("FD136")
    assert "FD241" in [code for step in plan.manual for code in step.opens]


def test_what_cann_needs_of_python_is_installed_at_its_pin_or_pinned_later(site: Path) -> None:
    builders.install_healthy(site)
    command = "/env/bin/python -m pip install psutil requests"
    plan = planned_with(site, finding("FD147", "cann", command))
    assert said(plan) == ["install psutil==6.0.0", "install requests"]
    assert [step.requirement for step in plan.steps] == ["", "requests"]
    assert plan.opens == ("FD147",)


def test_a_numpy_that_is_too_new_goes_below_the_bound(site: Path) -> None:
    builders.install_healthy(site)
    builders.install(site, "numpy", "2.1.0", {"numpy/__init__.py": ""})
    plan = planned_with(site, finding("FD148", "cann", '/env/bin/python -m pip install "numpy<2"'))
    assert said(plan) == ["install numpy<2 (now 2.1.0)"]
    assert plan.steps[0].command.en.endswith("'numpy<2'")


def test_a_remedy_that_is_no_command_is_left_to_a_person(site: Path) -> None:
    builders.install_healthy(site)
    plan = planned_with(site, finding("FD147", "cann", "ask your administrator"))
    assert plan.steps == ()
    assert [step.command.en for step in plan.manual] == ["ask your administrator"]


def test_a_set_that_is_not_there_is_an_error_that_names_those_that_are(site: Path) -> None:
    install_eight(site, OLD_NPU)
    with pytest.raises(TreatmentError, match="there are new, late, old") as raised:
        plan_of(facts_of(site), name="nonsense")
    assert raised.value.exit_code == 2


def test_an_own_build_is_not_replaced(site: Path) -> None:
    install_eight(site, OLD_NPU)
    facts = facts_of(site)
    dists = tuple(
        dataclasses.replace(item, is_editable=item.name == "torch-npu") for item in facts.packages.distributions
    )
    plan = plan_of(dataclasses.replace(facts, packages=dataclasses.replace(facts.packages, distributions=dists)))
    assert plan.steps == ()
    assert plan.hopeless.en.startswith("torch-npu: installed from a source folder")
