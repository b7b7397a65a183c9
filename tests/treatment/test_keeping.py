"""Keeping and putting back, path by path."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import standins

from flexdoctor.treatment import journal, keeping
from flexdoctor.treatment.journal import Entry
from flexdoctor.treatment.keeping import Ground
from flexdoctor.treatment.plan import Plan


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    site = tmp_path / "env" / "site"
    (site / "pkg" / "empty").mkdir(parents=True)
    (site / "pkg" / "a.py").write_text("old")
    (site / "pkg" / "run.sh").write_text("x")
    (site / "pkg" / "run.sh").chmod(0o750)
    (site / "pkg" / "link").symlink_to("a.py")
    (site / "pkg" / "dangling").symlink_to("nowhere")
    (site / "pkg" / "empty").chmod(0o700)
    (site / "other.py").write_text("not ours")
    return tmp_path / "env"


def begin(prefix: Path) -> tuple[Entry, Ground, keeping.Marks]:
    entry = journal.begin(prefix, Plan(), {})
    before = keeping.look(prefix, [prefix / "site"])
    touched = frozenset(path for path in before if path.startswith("site/pkg"))
    ground = Ground(touched, ("site/pkg",), ("site",), ("pkg",))
    keeping.keep(prefix, entry, touched, before)
    return entry, ground, before


def test_marks_survive_json(prefix: Path) -> None:
    marks = keeping.look(prefix, [prefix / "site"])
    assert keeping.restore_marks(json.loads(json.dumps(keeping.dump(marks)))) == marks


def test_everything_that_can_happen_to_a_path_is_put_back(prefix: Path) -> None:
    original = standins.snapshot(prefix)
    entry, ground, before = begin(prefix)
    package = prefix / "site" / "pkg"
    (package / "a.py").unlink()
    (package / "a.py").mkdir()
    (package / "a.py" / "below").write_text("")
    (package / "run.sh").chmod(0o644)
    (package / "link").unlink()
    (package / "link").write_text("a file now")
    (package / "dangling").unlink()
    (package / "empty").rmdir()
    (package / "empty").write_text("a file now")
    (package / "new" / "deep").mkdir(parents=True)
    (package / "new" / "deep" / "file").write_text("")
    (prefix / "site" / "pkg-2.dist-info").mkdir()
    (prefix / "site" / "~kg").mkdir()
    (prefix / "site" / "mine.py").write_text("")
    assert keeping.put_back(prefix, entry, ground, before, None) == []
    assert standins.differences(original, standins.snapshot(prefix)) == ["site/mine.py"]


@pytest.mark.parametrize("refused", [errno.EPERM, errno.EXDEV, errno.EMLINK])
def test_a_file_system_without_hard_links_gets_copies(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(refused, os.strerror(refused))

    original = standins.snapshot(prefix)
    monkeypatch.setattr(os, "link", refuse)
    entry, ground, before = begin(prefix)
    (prefix / "site" / "pkg" / "a.py").write_text("written in place")
    assert keeping.put_back(prefix, entry, ground, before, None) == []
    assert standins.differences(original, standins.snapshot(prefix)) == []


def test_a_full_disk_while_keeping_is_an_error(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space left"):
        begin(prefix)


def test_what_cannot_be_put_back_is_named_and_the_rest_is(prefix: Path) -> None:
    entry, ground, before = begin(prefix)
    (entry.kept / "site" / "pkg" / "a.py").unlink()
    (prefix / "site" / "pkg" / "a.py").write_text("newer")
    (prefix / "site" / "pkg" / "run.sh").unlink()
    (problem,) = keeping.put_back(prefix, entry, ground, before, None)
    assert problem.startswith("site/pkg/a.py: ")
    assert (prefix / "site" / "pkg" / "run.sh").read_text() == "x"


def test_what_was_not_replaced_is_not_kept_for_longer(prefix: Path) -> None:
    entry, ground, _ = begin(prefix)
    (prefix / "site" / "pkg" / "a.py").unlink()
    (prefix / "site" / "pkg" / "a.py").write_text("new")
    keeping.drop_unchanged(prefix, entry, ground)
    assert [path.name for path in entry.kept.rglob("*") if path.is_file()] == ["a.py"]


def test_a_name_that_only_looks_like_ours_is_not(prefix: Path) -> None:
    ground = Ground(frozenset(), ("site/triton",), ("site",), ("triton", "triton_ascend"))
    assert ground.owns("site/triton/new.py")
    assert ground.owns("site/triton_ascend-3.2.2.dist-info/RECORD")
    assert ground.owns("site/~riton/x")
    assert not ground.owns("site/tritonclient/x.py")
    assert not ground.owns("site/tritonclient-2.0.dist-info/RECORD")
    assert not ground.owns("elsewhere/triton/x.py")
