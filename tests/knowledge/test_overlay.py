"""A company's own sets of packages: what is refused, how they rank, where they are named, which index they use."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path

import builders
import jsonschema
import pytest
from in_process import run

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.fixes import FIXES
from flexdoctor.knowledge import overlay, stacks
from flexdoctor.readers.environment import read_site_packages
from flexdoctor.tables import TableError, hold
from flexdoctor.treatment.installers import IndexOptions
from flexdoctor.treatment.planning import known, make_plan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = json.loads(files("flexdoctor.knowledge").joinpath("overlay.schema.json").read_text(encoding="utf-8"))
CORP = """
name = "Example Corp"

[index.corp]
url = "https://pypi.example.com/simple"
holds = "our builds of torch-npu"
source = "platform team's wiki"
date = 2026-11-30

[companions]
pybind11 = { version = "3.0.2", source = "platform team", date = 2026-11-30 }

[[stack]]
name = "corp-2.12"
torch = "2.12.0"
torch_npu = "2.12.0+corp1"
triton_ascend = "3.2.2"
cann = ["9.1.0"]
pythons = ["3.10", "3.11", "3.12"]
architectures = ["aarch64", "x86_64"]
indexes = { torch-npu = "corp", triton-ascend = "vendor" }
capabilities = ["eager", "compiled_forward", "compiled_backward"]
evidence = "reported"
source = "platform team's acceptance run"
date = 2026-11-30
"""
INDEX = "https://pypi.example.com/simple"


@pytest.fixture
def corp(tmp_path: Path) -> Path:
    path = tmp_path / "corp.toml"
    path.write_text(CORP)
    return path


def test_a_file_is_read_whole(corp: Path) -> None:
    jsonschema.validate(json.loads(json.dumps(tomllib.loads(CORP), default=str)), SCHEMA)
    added = overlay.load([corp])
    (stack,) = added.stacks
    assert (stack.name, stack.owner, stack.label) == ("corp-2.12", "Example Corp", "corp-2.12 (Example Corp)")
    assert stack.indexes == {"torch-npu": INDEX, "triton-ascend": stacks.index("vendor").url}
    assert (stack.early_import, stack.note) == (False, "")
    assert added.companions == {"pybind11": "3.0.2"}


def test_it_counts_only_while_it_is_asked_for(corp: Path) -> None:
    before, pins = stacks.stacks(), stacks.companions()
    with stacks.extended(overlay.load([corp])):
        assert [item.name for item in stacks.stacks()] == ["corp-2.12", *(item.name for item in before)]
        assert stacks.companions() == {**pins, "pybind11": "3.0.2"}
    assert stacks.stacks() == before
    assert stacks.companions() == pins


REFUSED = [
    ('name = "Example Corp"', "", "name is missing (whose sets these are)"),
    ('url = "https://', 'url = "https://user:hunter2@', "index.corp: url: expected an address without user, password"),
    ('simple"', 'simple?token=hunter2"', "index.corp: url: expected an address without user, password or token"),
    ("https://pypi", "pypi", "index.corp: url: expected an address"),
    ('holds = "our builds of torch-npu"', "", "index.corp: holds is missing"),
    ('source = "platform team\'s acceptance run"', "", "stack[0]: source is missing (who says so)"),
    ('run"\ndate = 2026-11-30', 'run"', "stack[0]: date is missing (of which day that is)"),
    ('torch = "2.12.0"', 'torch = "2.12"', ""),
    (
        'torch = "2.12.0"',
        'torch = ">=2.12"',
        "stack[0]: torch: expected a whole version as pip writes it, found '>=2.12'",
    ),
    (
        'torch = "2.12.0"',
        "torch = 2.12",
        "stack[0]: torch: expected a whole version as pip writes it, found the number",
    ),
    ('torch_npu = "2', 'torch-npu = "2', "stack[0]: there is no key torch-npu; did you mean torch_npu?"),
    ('torch-npu = "corp"', 'torch-npu = "crop"', "indexes.torch-npu: there is no index crop; did you mean corp?"),
    ('torch-npu = "corp"', 'torchvision = "corp"', "indexes: expected torch, torch-npu or triton-ascend"),
    ('triton_ascend = "3.2.2"\n', "", "indexes.triton-ascend: this set pins no triton_ascend"),
    ('"compiled_forward"', '"forward"', "capabilities[1]: expected one of eager, compiled_forward"),
    ('"aarch64"', '"arm64"', "architectures[0]: expected one of aarch64, x86_64, found 'arm64'"),
    ('"3.10"', '"cp310"', "pythons[0]: expected a version like 3.11, found 'cp310'"),
    ('evidence = "reported"', 'evidence = "sure"', "evidence: expected one of published table"),
    ("corp-2.12", "torch-2.13-cann-9.1", "flexdoctor itself has a set of that name already"),
    ("[[stack]]", "[stacks]", "there is no key stacks; did you mean stack?"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=[row[2] or "2.12 is a version" for row in REFUSED])
def test_what_is_wrong_is_told_and_no_secret_is_repeated(corp: Path, old: str, new: str, said: str) -> None:
    assert old in CORP
    corp.write_text(CORP.replace(old, new))
    if not said:
        assert overlay.load([corp]).stacks
        return
    with pytest.raises(TableError) as caught:
        overlay.load([corp])
    assert str(caught.value).startswith(f"{corp}: ")
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_two_files_may_not_name_the_same_set(corp: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(CORP)
    with pytest.raises(
        TableError, match=rf"^{re.escape(str(other))}: stack corp-2.12: {re.escape(str(corp))} has a set"
    ):
        overlay.load([corp, other])


def test_the_shipped_table_has_the_form_that_is_asked_for() -> None:
    from flexdoctor.knowledge import load_table  # noqa: PLC0415

    table = load_table("stacks")
    hold(
        {"name": "x", "index": table["index"], "companions": table["companions"], "stack": table["stack"]},
        overlay.SHAPE,
        "x",
    )


def test_where_they_fit_they_go_before_the_others(corp: Path) -> None:
    with stacks.extended(overlay.load([corp])):
        names = [item.name for item in stacks.fitting("3.11", "aarch64", "9.1.0")]
        assert names[0] == "corp-2.12"
        assert len(names) > 1
        assert "corp-2.12" not in [item.name for item in stacks.fitting("3.11", "aarch64", "9.0.0")]
        best = stacks.nearest("compiled_forward", torch="2.5.1", torch_npu="2.5.1", python="3.11", cann="9.1.0")
        assert best
        assert best.name == "corp-2.12"


def test_a_pair_that_is_in_a_known_set_is_not_moved_for_the_company(corp: Path) -> None:
    with stacks.extended(overlay.load([corp])):
        best = stacks.nearest("compiled_forward", torch="2.13.0", torch_npu="2.13.0", python="3.11", cann="9.1.0")
    assert best
    assert best.name == "torch-2.13-cann-9.1"


@pytest.mark.parametrize(
    ("installed", "pin", "same"),
    [
        ("2.13.0", "2.13.0", True),
        ("2.13.0+cpu", "2.13.0", True),
        ("2.13.0+corp1", "2.13.0+corp1", True),
        ("2.13.0", "2.13.0+corp1", False),
        ("2.13.0+cpu", "2.13.0+corp1", False),
        (None, "2.13.0", False),
        (None, None, True),
    ],
)
def test_a_pin_with_a_local_part_is_that_build_alone(installed: str | None, pin: str | None, same: bool) -> None:
    assert stacks.same_version(installed, pin) is same


@pytest.fixture
def project(tmp_path: Path, site: Path, corp: Path) -> Path:
    """A project with a company's sets, and packages that no set of flexdoctor mends without moving torch."""
    builders.install_healthy(site)
    builders.install_triton(site)
    (tmp_path / ".git").mkdir()
    (tmp_path / "flexdoctor.toml").write_text(f'knowledge = "{corp.name}"\n')
    return tmp_path


def test_list_stacks_shows_them_first_and_whose_they_are(project: Path) -> None:
    done = run("list", "stacks", "--cann", "9.1.0", cwd=project)
    assert done.stdout.startswith("corp-2.12 (Example Corp): eager · compiled_forward · compiled_backward\n")
    assert f"  index for torch-npu: {INDEX}\n" in done.stdout
    assert "corp-2.12" not in run("list", "stacks", "--no-config", cwd=project).stdout
    assert "corp-2.12" not in run("list", "stacks", "--cann", "9.0.0", cwd=project).stdout


def test_a_mistake_in_it_is_a_wrong_command_line(project: Path, corp: Path) -> None:
    corp.write_text("name = ")
    done = run("check", "--example", "8-healthy", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"flexdoctor: {corp}:1: not valid TOML: ")


def test_remedies_name_the_company_with_the_set(project: Path, corp: Path) -> None:
    corp.write_text(CORP.replace('"compiled_backward"', '"compiled_backward", "compiled_captured"'))
    arguments = ("check", "--example", "triton-overwritten", "--exit-zero")
    (line,) = [line for line in run(*arguments, cwd=project).stdout.splitlines() if " FD243 " in line]
    pins = "torch==2.12.0  torch-npu==2.12.0+corp1  triton-ascend==3.2.2"
    assert f"move to the set corp-2.12 (Example Corp): {pins} on CANN 9.1.0" in line
    without = run(*arguments, "--no-config", cwd=project).stdout
    assert "Example Corp" not in without
    assert "move to the set torch-2.9-cann-9.1-captured: " in without


def test_a_plan_uses_the_index_for_exactly_the_packages_that_it_names(site: Path, corp: Path) -> None:
    """An old pair must move in any case: to the company's set, each package from where the file says."""
    builders.install_torch(site, builders.TorchShape(version="2.5.1"))
    npu = builders.TorchNpuShape(version="2.5.1", torch_pin="torch==2.5.1", gate=None, kernel=False)
    builders.install_torch_npu(site, npu)
    facts = read_site_packages(site)
    report = diagnose(facts, CHAIN)
    with stacks.extended(overlay.load([corp])):
        plan = make_plan(facts, report, FIXES, known(), stack="corp-2.12")
        unnamed = make_plan(facts, report, FIXES, known())
    assert (plan.stack, plan.stack_owner) == ("corp-2.12", "Example Corp")
    assert unnamed.stack == "corp-2.12"
    pins = {step.distribution: (step.version, step.index) for step in plan.steps if step.kind == "install"}
    assert pins["torch-npu"] == ("2.12.0+corp1", INDEX)
    assert pins["triton-ascend"] == ("3.2.2", stacks.index("vendor").url)
    assert pins["torch"][1] != INDEX
    assert [step.distribution for step in plan.steps if step.index == INDEX] == ["torch-npu"]
    commands = {step.distribution: step.command.en for step in plan.steps}
    assert commands["torch-npu"].endswith(f" --index-url {INDEX}")
    assert commands["triton-ascend"].endswith(f" --extra-index-url {stacks.index('vendor').url}")
    (note,) = [step.note.en for step in plan.steps if step.distribution == "torch-npu"]
    assert note.startswith((f"from {INDEX}, for this package only", "without dependencies:"))


def test_a_package_put_back_as_it_was_does_not_come_from_the_company(site: Path, corp: Path) -> None:
    builders.install_torch(site, builders.TorchShape(version="2.5.1"))
    builders.install(site, "torch-npu", "2.5.1")  # nothing of it is there
    facts = read_site_packages(site)
    with stacks.extended(overlay.load([corp])):
        plan = make_plan(facts, diagnose(facts, CHAIN), FIXES, known(), stack="corp-2.12")
    (step,) = plan.steps
    assert (step.distribution, step.version, step.index) == ("torch-npu", "2.5.1", "")


def test_for_what_comes_from_the_company_the_default_index_is_not_asked() -> None:
    """A public package of the same name, with any build of the version, must not take its place."""
    options = IndexOptions("https://default.example", ("https://extra.example",), ("/wheels",), exclusive=(INDEX,))
    assert options.arguments(INDEX) == ["--index-url", INDEX, "--find-links", "/wheels"]
    assert INDEX not in options.arguments()
    assert INDEX not in options.arguments("https://vendor.example")
    assert "--no-index" in IndexOptions(no_index=True, exclusive=(INDEX,)).arguments(INDEX)
