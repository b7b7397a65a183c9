"""A treatment that is killed, at every moment: undo restores byte for byte, or the fix completes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import builders
import pytest
import standins
from stacks_for_tests import KNOWLEDGE, PACKAGES

from flexdoctor.chain import diagnose
from flexdoctor.facts import Facts
from flexdoctor.findings import Report
from flexdoctor.fixes import FIXES
from flexdoctor.readers.environment import read_installed
from flexdoctor.treatment import course, journal
from flexdoctor.treatment.course import Options
from flexdoctor.treatment.installers import IndexOptions
from flexdoctor.treatment.plan import TreatmentError
from flexdoctor.treatment.planning import make_plan
from flexdoctor.treatment.target import survey

#: Everything by which a process changes a file system or starts another one, as CPython's audit hooks name it.
_CHANGING = {
    "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
    "shutil.rmtree", "subprocess.Popen",
}  # fmt: skip


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standins.full_house(tmp_path_factory.mktemp("house"))


OVERWRITTEN = (
    "torch-2.13.0",
    "torch_npu-2.13.0",
    "pybind11-3.0.1",
    "psutil-6.0.0",
    "triton_ascend-3.2.2",
    "triton-3.7.1",
)


class Patient:
    """An environment in which upstream triton lies over triton-ascend, and the means to treat it."""

    def __init__(self, prefix: Path, house: Path, *names: str) -> None:
        self.prefix, self.house = prefix, house
        self.site = standins.quick_environment(prefix)
        names = names or OVERWRITTEN
        standins.unpack(self.site, *(house / f"{name}-py3-none-any.whl" for name in names))
        (self.site / "mine").mkdir()
        (self.site / "mine" / "notes.txt").write_text("not to be lost")
        self.before = standins.snapshot(prefix)
        self.options = Options(IndexOptions(find_links=(str(house),), no_index=True))

    def examine(self) -> tuple[Facts, Report]:
        facts = read_installed(self.prefix)
        return facts, diagnose(facts, PACKAGES)

    def apply(self, stack: str | None = None) -> course.Outcome:
        facts, report = self.examine()
        plan = make_plan(facts, report, FIXES, KNOWLEDGE, stack=stack)
        return course.apply(plan, survey(facts), report, self.examine, self.options, lambda _: None)

    def apply_in_its_own_session(self) -> None:
        os.setsid()
        self.apply()

    def resume(self) -> course.Outcome:
        entry = journal.interrupted(self.prefix)
        assert entry is not None
        facts, _ = self.examine()
        return course.resume(entry, survey(facts), self.examine, self.options, lambda _: None)

    def undo(self) -> None:
        assert course.undo(course.pick(self.prefix, None)) == []

    def errors(self) -> list[str | None]:
        return [item.code for item in self.examine()[1].findings if item.severity == "error"]

    def differences(self) -> list[str]:
        return standins.differences(self.before, standins.snapshot(self.prefix))


@pytest.fixture
def patient(tmp_path: Path, house: Path) -> Patient:
    return Patient(tmp_path / "env", house)


def _in_child(act: Callable[[], object], *, kill_at: int | None) -> int:
    """Run `act` in a forked child that counts its changes and kills itself before number `kill_at`.

    Returns the number of changes when it came to its end, -1 when it was killed.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        count = 0

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if event in _CHANGING or writes:
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        code = 1
        try:
            sys.addaudithook(watch)
            act()
            os.write(writing, str(count).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    if os.WIFSIGNALED(status):
        return -1
    assert os.waitstatus_to_exitcode(status) == 0
    return int(said)


def _some(total: int, count: int) -> range:
    """Evenly spread numbers below `total`; all of them where FLEXDOCTOR_TEST_EXHAUSTIVE asks for it."""
    return range(total) if os.environ.get("FLEXDOCTOR_TEST_EXHAUSTIVE") else range(0, total, max(1, total // count))


def test_control_treats_and_undoes(patient: Patient) -> None:
    assert patient.errors() == ["FD213"]
    outcome = patient.apply()
    assert not outcome.rolled_back
    assert patient.errors() == []
    patient.undo()
    assert patient.differences() == []
    assert not (patient.prefix / ".flexdoctor").exists()


def test_killed_before_any_change_of_the_fix(tmp_path: Path, house: Path) -> None:
    total = _in_child(Patient(tmp_path / "count", house).apply, kill_at=None)
    assert total > 60
    reached = {"nothing begun": 0, "preparing": 0, "interrupted": 0, "done": 0}
    for number in _some(total, 14):
        patient = Patient(tmp_path / f"env{number}", house)
        assert _in_child(patient.apply, kill_at=number) == -1
        entries = journal.entries(patient.prefix)
        state = entries[0].state if entries else "nothing begun"
        reached[state] += 1
        if state == "interrupted" and number % 2:
            assert not patient.resume().rolled_back
            assert patient.errors() == []
        if state != "nothing begun":
            patient.undo()
        assert patient.differences() == [], f"killed before change {number} of {total}, {state}"
        assert patient.errors() == ["FD213"]
    assert all(reached[state] for state in ("nothing begun", "preparing", "interrupted")), reached


def test_killed_before_any_change_of_the_undo(tmp_path: Path, house: Path) -> None:
    counted = Patient(tmp_path / "count", house)
    counted.apply()
    total = _in_child(counted.undo, kill_at=None)
    for number in _some(total, 5):
        patient = Patient(tmp_path / f"env{number}", house)
        patient.apply()
        assert _in_child(patient.undo, kill_at=number) == -1
        if journal.entries(patient.prefix):
            patient.undo()
        assert patient.differences() == [], f"killed before change {number} of {total}"


def test_killed_before_any_change_of_the_completion(
    tmp_path: Path, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(patient: Patient) -> None:
        monkeypatch.setenv("STANDIN_FAULT", "kill:install:triton-ascend")
        assert _in_child(patient.apply_in_its_own_session, kill_at=None) == -1
        monkeypatch.delenv("STANDIN_FAULT")

    counted = Patient(tmp_path / "count", house)
    cut_off(counted)
    total = _in_child(counted.resume, kill_at=None)
    assert counted.errors() == []
    for number in _some(total, 5):
        patient = Patient(tmp_path / f"env{number}", house)
        cut_off(patient)
        assert _in_child(patient.resume, kill_at=number) == -1
        if number % 2 and journal.interrupted(patient.prefix):
            assert not patient.resume().rolled_back
        patient.undo()
        assert patient.differences() == [], f"killed before change {number} of {total}"


@pytest.mark.parametrize("scope", ["uninstall:triton", "install:triton-ascend"])
def test_killed_together_with_the_installer_at_work(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", f"kill:{scope}")

    assert _in_child(patient.apply_in_its_own_session, kill_at=None) == -1
    monkeypatch.delenv("STANDIN_FAULT")
    with pytest.raises(TreatmentError, match="was cut off"):
        patient.apply()
    assert patient.differences() != []
    patient.undo()
    assert patient.differences() == []


@pytest.mark.parametrize("fault", ["fail", "lock"])
@pytest.mark.parametrize("scope", ["uninstall:triton", "install:triton-ascend"])
def test_an_installer_that_fails_half_way_is_rolled_back(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, fault: str, scope: str
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", f"{fault}:{scope}")
    if fault == "lock":
        # What the installer renames outside of the plan is not ours to put back; it is said, and nothing is lost.
        with pytest.raises(TreatmentError, match="Everything was put back"):
            patient.apply()
        (patient.site / "torch_npu_moved").rename(patient.site / "torch_npu")
    else:
        with pytest.raises(TreatmentError, match=r"stand-in was told to fail.*Everything was put back") as raised:
            patient.apply()
        assert raised.value.exit_code == 4
        (output,) = patient.prefix.parent.glob("flexdoctor-*.log")  # outlives the entry that held it
        assert str(output) in str(raised.value)
        assert "the stand-in was told to fail" in output.read_text()
    assert patient.differences() == []
    assert journal.entries(patient.prefix) == []


@pytest.mark.parametrize("scope", ["uninstall:triton", "install:triton-ascend"])
def test_a_polite_signal_rolls_back(patient: Patient, monkeypatch: pytest.MonkeyPatch, scope: str) -> None:
    monkeypatch.setenv("STANDIN_FAULT", f"term:{scope}")
    with pytest.raises(TreatmentError, match=r"stopped by a signal\. Everything was put back"):
        patient.apply()
    assert patient.differences() == []
    assert not (patient.prefix / ".flexdoctor").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes, where the tests may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("may not mount a file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(("size", "code"), [(8 << 20, 3), (2 << 20, 4)], ids=["while fetching", "while installing"])
def test_a_disk_that_becomes_full(small_disk: Path, tmp_path: Path, house: Path, size: int, code: int) -> None:
    own_house = tmp_path / "house"
    shutil.copytree(house, own_house)
    standins.triton_ascend(own_house, "3.2.2", {**builders.triton_ascend_files(), "triton/large.bin": "x" * size})
    patient = Patient(small_disk / "env", own_house, *OVERWRITTEN[:4], "triton-3.7.1")
    with pytest.raises(TreatmentError, match="No space left on device") as raised:
        patient.apply()
    assert raised.value.exit_code == code
    assert patient.differences() == []
    assert journal.entries(patient.prefix) == []


def test_an_installer_that_installs_another_version_is_rolled_back(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "other:install:triton-ascend")
    monkeypatch.setenv("STANDIN_OTHER", str(patient.house / "triton_ascend-3.2.0-*.whl"))
    outcome = patient.apply()
    assert outcome.rolled_back
    assert outcome.problems[0].en == "triton-ascend is 3.2.0 instead of 3.2.2"
    assert patient.differences() == []


def test_an_installer_that_does_nothing_is_found_out(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "idle:uninstall:triton")
    outcome = patient.apply()
    assert outcome.problems[0].en == "triton is still there"
    assert patient.differences() == []


def test_an_installer_that_brings_something_outside_of_the_plan_is_named(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "beside:install:triton-ascend")
    outcome = patient.apply()
    assert [item.en for item in outcome.problems] == ["beside, which is not in the plan, went from - to 1.0"]


def test_nothing_is_changed_when_a_wheel_cannot_be_had(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "absent:download:triton-ascend")
    with pytest.raises(TreatmentError, match=r"No matching distribution.*Nothing was changed") as raised:
        patient.apply()
    assert raised.value.exit_code == 3
    assert patient.differences() == []
    assert not (patient.prefix / ".flexdoctor").exists()


def test_an_installed_dependency_does_not_move_unless_asked(tmp_path: Path, house: Path) -> None:
    own_house = tmp_path / "house"
    shutil.copytree(house, own_house)
    standins.torch(own_house, "2.13.0", requires=("helper>=1; python_version > '3'", "triton==3.7.1"))
    patient = Patient(tmp_path / "env", own_house, "torch-2.7.1", "torch_npu-2.7.1", "pybind11-3.0.1", "psutil-6.0.0")
    standins.unpack(patient.site, standins.package(tmp_path, "helper", "0.9"))
    with pytest.raises(TreatmentError, match=r"torch 2\.13\.0 needs helper>=1, here is 0\.9"):
        patient.apply(stack="new")
    assert journal.entries(patient.prefix) == []


def test_a_second_fix_refuses_while_one_runs_and_nothing_is_lost(patient: Patient) -> None:
    with journal.lock(patient.prefix), pytest.raises(TreatmentError, match=f"process {os.getpid()}"):
        patient.apply()
    assert not patient.apply().rolled_back


def test_the_installer_holds_the_lock_when_only_flexdoctor_is_killed(patient: Patient) -> None:
    (keep_reading, stop), (ended, end) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(stop)
        with journal.lock(patient.prefix) as held:
            inherited = (held.handle, end)
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=keep_reading, pass_fds=inherited)
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(keep_reading)
    os.close(end)
    os.waitpid(pid, 0)
    with pytest.raises(TreatmentError, match=rf"process {pid}.*or an installer that it started"):
        patient.apply()
    os.write(stop, b"\n")
    os.close(stop)
    assert os.read(ended, 1) == b""  # the installer's end of the pipe is closed: it is gone
    os.close(ended)
    assert not patient.apply().rolled_back
