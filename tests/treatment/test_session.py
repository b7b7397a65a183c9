"""A whole run of `fix`, in this process and with the stand-in for pip: what it says, asks, changes and returns."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import standins
from stacks_for_tests import KNOWLEDGE, PACKAGES
from typer.testing import CliRunner

from flexdoctor.chain import diagnose
from flexdoctor.cli import app
from flexdoctor.facts import Facts
from flexdoctor.findings import Report
from flexdoctor.fixes import FIXES
from flexdoctor.readers.environment import read_installed
from flexdoctor.treatment import course, journal, patches
from flexdoctor.treatment.course import Options
from flexdoctor.treatment.installers import IndexOptions
from flexdoctor.treatment.plan import TreatmentError
from flexdoctor.treatment.session import Session

WHOLE = ("torch-2.13.0", "torch_npu-2.13.0", "pybind11-3.0.1", "psutil-6.0.0", "triton_ascend-3.2.2")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standins.full_house(tmp_path_factory.mktemp("house"))


@pytest.fixture
def env(tmp_path: Path) -> Path:
    standins.quick_environment(tmp_path / "env")
    return tmp_path / "env"


def install(env: Path, house: Path, *names: str) -> None:
    standins.unpack(standins.site_of(env), *(house / f"{name}-py3-none-any.whl" for name in names))


def session(env: Path, house: Path, ask: Callable[[str], bool] | None = None, **given: Any) -> Session:
    def examine() -> tuple[Facts, Report]:
        facts = read_installed(env)
        return facts, diagnose(facts, PACKAGES, required=given.get("required", "compiled_forward"))

    options = Options(IndexOptions(find_links=(str(house),), no_index=True))
    rest = {name: value for name, value in given.items() if name != "required"}
    return Session(examine, FIXES, KNOWLEDGE, options, rest.pop("language", "en"), ask, **rest)


def undo_all(env: Path) -> None:
    while journal.entries(env):
        assert course.undo(course.pick(env, None)) == []


def test_a_healthy_environment_needs_nothing(env: Path, house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(env, house, *WHOLE)
    assert session(env, house).run(yes=True) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing to mend"
    assert not (env / ".flexdoctor").exists()


def test_without_a_terminal_nothing_is_done_and_the_flag_is_named(
    env: Path, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    before = standins.snapshot(env)
    assert session(env, house).run() == 1
    assert "--yes" in capsys.readouterr().err
    assert standins.snapshot(env) == before


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_asks(env: Path, house: Path, answer: bool) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    before = standins.snapshot(env)
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return answer

    assert session(env, house, ask).run() == (0 if answer else 1)
    assert asked == ["apply?"]
    assert bool(journal.entries(env)) == answer
    undo_all(env)
    assert standins.differences(before, standins.snapshot(env)) == []


def test_before_and_after_are_shown_and_the_way_back(
    env: Path, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    assert session(env, house).run(yes=True) == 0
    out = capsys.readouterr().out
    assert "compiled forward: no (FD213) → yes" in out
    assert "captured tensors: no (FD213) → no (FD243)" in out
    (entry,) = journal.entries(env)
    assert out.splitlines()[-1].endswith(f"flexdoctor undo {entry.id}")


def test_what_made_nothing_better_is_rolled_back_with_exit_code_4(
    env: Path, house: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    before = standins.snapshot(env)
    monkeypatch.setenv("STANDIN_FAULT", "idle:uninstall:triton")
    assert session(env, house, as_json=True).run(yes=True) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["treatment"]["rolled_back"] is True
    assert document["treatment"]["problems"][0] == "triton is still there"
    assert document["root_cause"] == "FD213"  # the report is of what is there now
    assert standins.differences(before, standins.snapshot(env)) == []


def test_a_leftover_folder_is_replaced_and_comes_back(env: Path, house: Path) -> None:
    install(env, house, *WHOLE[:4])
    folder = standins.site_of(env) / "triton" / "backends" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "driver.py").write_text("left behind")
    (folder / "link").symlink_to("driver.py")
    before = standins.snapshot(env)
    assert session(env, house).run(yes=True) == 0
    assert not folder.exists()
    undo_all(env)
    assert standins.differences(before, standins.snapshot(env)) == []


def patch_row(env: Path, line: int, find: str, replace: str) -> patches.PatchRow:
    file = standins.site_of(env) / "torch/nn/attention/flex_attention.py"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return patches.PatchRow("gate", "torch/nn/attention/flex_attention.py", "2.7.1", digest, line, find, replace)


def test_the_gate_patch_gives_eager_where_only_eager_is_asked_for(
    env: Path, house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(env, house, "torch-2.7.1", "torch_npu-2.7.1")
    row = patch_row(env, 3, 'query.device.type != "cuda"', 'query.device.type != "npu" and query.device.type != "cuda"')
    monkeypatch.setattr(patches, "rows", lambda: (row,))
    file = standins.site_of(env) / row.file
    file.chmod(0o640)
    before = standins.snapshot(env)
    assert session(env, house, required="eager").run(yes=True) == 0
    assert "gives eager flex_attention only" in capsys.readouterr().out
    assert 'type != "npu" and' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640
    undo_all(env)
    assert standins.differences(before, standins.snapshot(env)) == []


def test_a_file_that_was_edited_is_never_patched(env: Path, house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(env, house, "torch-2.7.1", "torch_npu-2.7.1")
    row = patch_row(env, 3, 'query.device.type != "cuda"', 'query.device.type != "npu" and query.device.type != "cuda"')
    monkeypatch.setattr(patches, "rows", lambda: (row,))
    file = standins.site_of(env) / row.file
    plain = session(env, house, required="eager")

    def edit_while_asked(_: str) -> bool:
        file.write_text(file.read_text() + "# mine\n")
        return True

    with pytest.raises(TreatmentError, match=r"left alone Everything was put back|left alone\. Everything") as raised:
        dataclasses.replace(plain, ask=edit_while_asked).run()
    assert raised.value.exit_code == 4
    assert file.read_text().endswith("# mine\n")


def test_a_cut_off_fix_is_offered_at_the_next_start(
    env: Path, house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    before = standins.snapshot(env)
    monkeypatch.setattr(course, "_roll_back", lambda _: None)  # as if it had been killed
    monkeypatch.setenv("STANDIN_FAULT", "fail:install:triton-ascend")
    with pytest.raises(TreatmentError):
        session(env, house).run(yes=True)
    monkeypatch.undo()
    with pytest.raises(TreatmentError, match="was cut off") as raised:
        session(env, house).run(yes=True)
    assert raised.value.exit_code == 3
    noted = CliRunner().invoke(app, ["check", "--python", str(env)])
    assert "was cut off; complete it with flexdoctor fix --continue" in noted.stderr
    assert session(env, house, lambda _: True).run() == 0
    assert "applied and verified" in capsys.readouterr().out
    undo_all(env)
    assert standins.differences(before, standins.snapshot(env)) == []


def test_there_is_nothing_to_continue(env: Path, house: Path) -> None:
    install(env, house, *WHOLE)
    with pytest.raises(TreatmentError, match="no fix was cut off") as raised:
        session(env, house).resume()
    assert raised.value.exit_code == 2


def test_a_read_only_environment_is_refused_with_the_way_out(
    env: Path, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    before = standins.snapshot(env)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(TreatmentError, match="-m venv --system-site-packages"):
        session(env, house).run(yes=True)
    monkeypatch.undo()
    assert standins.snapshot(env) == before


def test_chinese_throughout(env: Path, house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    assert session(env, house, language="zh").run(yes=True) == 0
    said = capsys.readouterr()
    assert "卸载 triton 3.7.1" in said.out
    assert "已执行并验证" in said.out
    assert "验证" in said.err


def test_the_target_must_have_an_interpreter(env: Path, house: Path) -> None:
    install(env, house, *WHOLE, "triton-3.7.1")
    (env / "bin" / "python").unlink()
    with pytest.raises(TreatmentError, match="no interpreter"):
        session(env, house).run(yes=True)


def test_an_environment_in_which_nothing_is_installed_is_not_filled(
    env: Path, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session(env, house).run(yes=True) == 1
    assert "examine the environment that holds torch" in capsys.readouterr().out
    assert session(env, house, stack="new").run(dry_run=True) == 0
    assert "install torch==2.13.0" in capsys.readouterr().out
