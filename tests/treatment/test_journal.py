"""The journal: states, torn lines, the lock, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flexdoctor.text import Text
from flexdoctor.treatment import course, journal
from flexdoctor.treatment.plan import Plan, Step, TreatmentError

PLAN = Plan(steps=(Step("install", "stack", Text("install a", "安装 a"), distribution="a", version="1"),))


def state(entry: journal.Entry) -> str:
    return entry.state


def test_the_state_is_what_the_last_whole_line_says(tmp_path: Path) -> None:
    entry = journal.begin(tmp_path, PLAN, {})
    assert state(entry) == "preparing"
    entry.note("ready")
    assert state(entry) == "interrupted"
    entry.note("done")
    assert state(entry) == "done"
    with (entry.folder / "log.jsonl").open("ab") as log:
        log.write(b'\n{"event": "restor')  # killed while writing
    assert state(entry) == "done"
    entry.note("restoring")  # starts on a line of its own
    assert state(entry) == "interrupted"


def test_two_entries_of_one_second_have_two_names(tmp_path: Path) -> None:
    names = {journal.begin(tmp_path, PLAN, {}).id for _ in range(3)}
    assert len(names) == 3
    assert [entry.id for entry in journal.entries(tmp_path)] == sorted(names)


def test_the_plan_comes_back_from_the_disk(tmp_path: Path) -> None:
    assert journal.begin(tmp_path, PLAN, {}).plan() == PLAN


@pytest.mark.parametrize("content", ["", "{", "[]", '{"steps": [{"kind": "dance"}]}'])
def test_a_damaged_entry_is_an_error_with_its_name(tmp_path: Path, content: str) -> None:
    entry = journal.begin(tmp_path, PLAN, {})
    (entry.folder / "plan.json").write_text(content)
    with pytest.raises(TreatmentError, match=entry.id):
        entry.plan()


def test_a_discarded_entry_leaves_nothing(tmp_path: Path) -> None:
    with journal.lock(tmp_path):
        journal.begin(tmp_path, PLAN, {}).discard()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_is_exclusive_between_processes_and_names_its_holder(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from flexdoctor.treatment import journal\n"
        "with journal.lock(Path(sys.argv[1])): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TreatmentError, match=f"process {holder.pid}"), journal.lock(tmp_path):
            pass
        holder.communicate("\n")
    with journal.lock(tmp_path):
        pass


def test_a_prefix_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / ".flexdoctor").write_text("a file where a folder should be")
    with pytest.raises(TreatmentError, match="cannot write"), journal.lock(tmp_path):
        pass


def test_there_is_nothing_to_undo_in_an_untouched_prefix(tmp_path: Path) -> None:
    with pytest.raises(TreatmentError, match="no fix to undo") as raised:
        course.pick(tmp_path, None)
    assert raised.value.exit_code == 2


def test_an_unknown_id_names_those_that_there_are(tmp_path: Path) -> None:
    entry = journal.begin(tmp_path, PLAN, {})
    with pytest.raises(TreatmentError, match=entry.id):
        course.pick(tmp_path, "19990101-000000")
