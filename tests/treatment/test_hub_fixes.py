"""What is planned for a kernel from the Hub that does not fit diffusers."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import builders
import hub_consumers
import kernel_trees as trees
import pytest
from stacks_for_tests import KNOWLEDGE, PACKAGES

from flexdoctor.chain import diagnose
from flexdoctor.fixes import FIXES
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.readers.hub import parse_kernel, read_hub
from flexdoctor.readers.packages import find_distributions
from flexdoctor.treatment import patches
from flexdoctor.treatment.plan import Plan, TreatmentError
from flexdoctor.treatment.planning import make_plan

FA2 = "kernels-community/flash-attn2"
FILE = "diffusers/models/attention_dispatch.py"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A kernel that has the plain names only."""
    return trees.write_kernel(tmp_path / "kernel", trees.flash_attn2(wrapped=False))


@pytest.fixture
def env(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that is healthy but for diffusers, whose file is one that a patch is known for."""
    builders.install_healthy(site)
    hub_consumers.install_diffusers(site, "0.41.0", wrapped=True)
    content = (site / FILE).read_bytes()
    find = '"flash_attn_interface._wrapped_'
    line = next(number for number, text in enumerate(content.decode().splitlines(), 1) if find in text)
    digest = hashlib.sha256(content).hexdigest()
    row = patches.PatchRow("hub_registry", FILE, "0.41.0", digest, line, find, '"flash_attn_interface._')
    monkeypatch.setattr(patches, "rows", lambda: (row,))
    return site


def plan_of(site: Path, *, select: tuple[str, ...] = (), named: str | None = None, **variables: str) -> Plan:
    facts = read_site_packages(site)
    distributions, _ = find_distributions([site])
    variables = {"HF_HOME": str(site.parent / "hf"), **variables}
    kernels = (parse_kernel(named),) if named else ()
    facts = dataclasses.replace(facts, hub=read_hub([site], distributions, named=kernels, variables=variables))
    return make_plan(facts, diagnose(facts, PACKAGES), FIXES, KNOWLEDGE, select=select)


def said(plan: Plan) -> list[str]:
    return [step.title.en for step in plan.steps]


MOVE = ["install diffusers==0.42.0 (now 0.41.0)"]
PATCH = ["let diffusers ask for the names that the kernel has"]


def test_diffusers_is_moved_where_nothing_else_has_to(env: Path, kernel: Path) -> None:
    builders.install(env, "huggingface_hub", "1.33.0")
    plan = plan_of(env, LOCAL_KERNELS=f"{FA2}={kernel}")
    assert (said(plan), plan.opens, plan.manual) == (MOVE, ("FD301",), ())
    assert "downloaded at first use" in plan.steps[0].note.en


@pytest.mark.parametrize("why", ["huggingface_hub is too old", "another package forbids it"])
def test_the_registry_is_patched_where_more_would_have_to_move(why: str, env: Path, kernel: Path) -> None:
    if why.startswith("huggingface_hub"):
        builders.install(env, "huggingface_hub", "0.36.2")
    else:
        builders.install(env, "app", "1", requires=["diffusers<0.42"])
    plan = plan_of(env, LOCAL_KERNELS=f"{FA2}={kernel}")
    assert said(plan) == PATCH
    (step,) = plan.steps
    assert step.path.endswith(FILE)
    assert step.patch is not None
    assert '+        wrapped_forward_attr="flash_attn_interface._flash_attn_forward"' in step.patch.diff


def test_a_changed_file_is_not_patched(env: Path, kernel: Path) -> None:
    builders.install(env, "huggingface_hub", "0.36.2")
    (env / FILE).write_text((env / FILE).read_text() + "# mine\n")
    plan = plan_of(env, LOCAL_KERNELS=f"{FA2}={kernel}")
    assert plan.steps == ()
    (manual,) = [step for step in plan.manual if step.opens == ("FD301",)]
    parts = manual.command.en.split("; ")
    assert parts[0].startswith('(1) move to diffusers>=0.42.0: python -m pip install "diffusers>=0.42.0"')
    assert 'set_attention_backend("_native_npu")' in parts[-1]
    assert plan.hopeless.en == ""


def test_a_source_folder_of_the_users_own_is_left_alone(env: Path, kernel: Path) -> None:
    """An editable install: the metadata lies elsewhere than the sources."""
    (env / "diffusers").rename(env.parent / "diffusers")
    facts = read_site_packages(env)
    distributions, _ = find_distributions([env])
    variables = {"HF_HOME": str(env.parent / "hf"), "LOCAL_KERNELS": f"{FA2}={kernel}"}
    hub = read_hub([env, env.parent], distributions, variables=variables)
    report = diagnose(facts := dataclasses.replace(facts, hub=hub), PACKAGES)
    plan = make_plan(facts, report, FIXES, KNOWLEDGE)
    assert ([step.opens for step in plan.manual], plan.steps) == ([("FD301",)], ())


def test_a_kernel_without_the_plain_names_is_no_case_for_a_step(env: Path, tmp_path: Path) -> None:
    poor = trees.write_kernel(tmp_path / "poor", trees.sage_attention())
    plan = plan_of(env, LOCAL_KERNELS=f"{FA2}={poor}")
    assert plan.steps == ()
    assert [step.opens for step in plan.manual] == [("FD301",)]


def test_a_cached_kernel_that_nobody_chose_is_mended_only_when_selected(env: Path) -> None:
    hub_consumers.install_kernels(env)
    trees.write_cached(env.parent / "hf" / "hub", trees.flash_attn2(wrapped=False), refs=["v1"])
    assert plan_of(env).steps == ()
    assert said(plan_of(env, select=("FD301",))) == MOVE
    # Without the network the version that the newer diffusers loads could not be fetched.
    assert said(plan_of(env, select=("FD301",), HF_HUB_OFFLINE="1")) == PATCH


def test_a_kernel_named_to_a_check_is_not_what_fix_treats(env: Path, kernel: Path) -> None:
    assert plan_of(env, named=f"{FA2}={kernel}").steps == ()


def test_several_lines_are_patched_or_none() -> None:
    content = b"a _wrapped_x\nb\nc _wrapped_y\n"
    assert patches.changed(content, 1, "_wrapped_", "_", (3,)) == b"a _x\nb\nc _y\n"
    with pytest.raises(TreatmentError, match="line 2 is not"):
        patches.changed(content, 1, "_wrapped_", "_", (2,))
