"""`check --collect`: one whole file a node, a trace of what did not finish, and one clear line where it cannot be."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from node_folders import UNEXAMINED, document_of
from typer.testing import CliRunner

from flexdoctor import collecting
from flexdoctor.cli import app
from flexdoctor.collecting import CollectError, Collection
from flexdoctor.nodes import NodeIdentity

SCHEMA = Path(__file__).parents[1] / "doctor" / "reports" / "report.schema.json"
NODE = NodeIdentity("node1", rank=8, local_rank=0, index=1, launcher="torchrun", run="torchrun a")
TORCHRUN = {"TORCHELASTIC_RUN_ID": "a", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}
runner = CliRunner()


def check(folder: Path, *more: str, example: str = "8-healthy", **variables: str) -> Any:
    return runner.invoke(app, ["check", "--example", example, "--collect", str(folder), *more], env=variables)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node1")


def test_a_node_leaves_one_valid_report_and_no_trace(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "reports"
    result = check(folder, RANK="8", LOCAL_RANK="0", **TORCHRUN)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == f"flexdoctor: healthy, written to {folder}/node1.rank8.json\n"
    assert names(folder) == ["node1.rank8.json"]
    document = json.loads((folder / "node1.rank8.json").read_text())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["node"]["host"] == "node1"
    assert (document["node"]["rank"], document["node"]["index"], document["node"]["nodes"]) == (8, 1, 2)
    assert document["node"]["run"] == "torchrun a"
    assert document["node"]["finished"] >= document["node"]["started"]
    assert all(item["zh"]["title"] for item in document["findings"])


def test_the_exit_code_is_that_of_the_check(tmp_path: Path) -> None:
    assert check(tmp_path, example="triton-overwritten").exit_code == 1
    assert check(tmp_path, "--exit-zero", example="triton-overwritten").exit_code == 0
    assert json.loads((tmp_path / "node1.json").read_text())["root_cause"] == "FD213"


def test_other_ranks_of_a_node_stay_silent_unless_all_are_asked(tmp_path: Path) -> None:
    for rank in range(8, 12):
        result = check(tmp_path, example="triton-overwritten", RANK=str(rank), LOCAL_RANK=str(rank - 8), **TORCHRUN)
        assert (result.exit_code, result.stdout) == (1 if rank == 8 else 0, "")
    assert names(tmp_path) == ["node1.rank8.json"]
    for rank in range(8, 10):
        check(tmp_path, "--collect-ranks", RANK=str(rank), LOCAL_RANK=str(rank - 8), **TORCHRUN)
    assert names(tmp_path) == ["node1.rank8.json", "node1.rank9.json"]


def test_ranks_that_do_not_know_who_is_on_their_node_leave_one_report(tmp_path: Path) -> None:
    for rank in range(4):
        assert check(tmp_path, PMI_RANK=str(rank)).exit_code == 0
    assert names(tmp_path) == ["node1.json"]


def test_a_node_that_cannot_be_examined_says_so_in_its_report(tmp_path: Path) -> None:
    result = runner.invoke(app, ["check", "--python", "/no/such/python", "--collect", str(tmp_path)])
    assert result.exit_code != 0
    document = json.loads((tmp_path / "node1.json").read_text())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["error"]["exit_code"] == 3
    assert names(tmp_path) == ["node1.json"]


def test_an_ordinary_report_names_no_host() -> None:
    result = runner.invoke(app, ["check", "--example", "8-healthy", "--format", "json"])
    assert "node" not in json.loads(result.stdout)
    assert "node1" not in result.stdout


def test_collect_ranks_alone_is_a_mistake() -> None:
    result = runner.invoke(app, ["check", "--example", "8-healthy", "--collect-ranks"])
    assert "--collect-ranks goes with --collect" in str(result.exception)


KILLED = """
import os, signal, sys
from pathlib import Path
from flexdoctor import collecting
from flexdoctor.nodes import NodeIdentity
collection = collecting.start(Path(sys.argv[1]), NodeIdentity("node1", rank=8, local_rank=0))
if sys.argv[2] == "before writing":
    os.kill(os.getpid(), signal.SIGKILL)
whole = collecting._write_whole
def half(path, text):
    whole(path, text[: len(text) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
collecting._write_whole = half
collection.finish({key: None for key in ("schema_version", "tool", "verdict", "root_cause", "fingerprint")})
"""


@pytest.mark.parametrize("moment", ["before writing", "while writing"])
def test_a_killed_process_leaves_its_trace_and_no_half_report(tmp_path: Path, moment: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False)
    assert done.returncode == -signal.SIGKILL
    visible = [name for name in names(tmp_path) if not name.startswith(".")]
    assert visible == ["node1.rank8.started.json"]
    result = runner.invoke(app, ["compare", str(tmp_path)])
    assert result.exit_code == 1
    assert "UNFINISHED node1" in result.stdout


def test_an_earlier_report_is_whole_while_the_next_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = Collection(tmp_path, NODE)
    collection.finish(document_of(UNEXAMINED))
    seen = []
    write_whole = collecting._write_whole

    def watched(path: Path, text: str) -> None:
        write_whole(path, text)
        seen.append(json.loads(collection.report_path.read_text())["node"]["finished"])

    monkeypatch.setattr(collecting, "_write_whole", watched)
    first = json.loads(collection.report_path.read_text())["node"]["finished"]
    collection.finish(document_of(UNEXAMINED))
    assert seen == [first]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV])
def test_a_folder_that_cannot_rename_gets_the_report_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.replace", refuse)
    collection = Collection(tmp_path, NODE)
    collection.start()
    collection.finish(document_of(UNEXAMINED))
    assert names(tmp_path) == ["node1.rank8.json"]
    assert json.loads(collection.report_path.read_text())["node"]["rank"] == 8


def test_a_file_system_that_cannot_sync_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("os.fsync", refuse)
    Collection(tmp_path, NODE).finish(document_of(UNEXAMINED))
    assert names(tmp_path) == ["node1.rank8.json"]


FULL = """
import resource, sys
from flexdoctor.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.argv = ["flexdoctor", "check", "--example", "triton-overwritten", "--collect", sys.argv[1]]
main()
"""


def test_a_full_disk_is_one_line_and_leaves_the_trace(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "RANK": "0", "LOCAL_RANK": "0"},
    )
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr
    assert "File too large" in done.stderr
    (left,) = names(tmp_path)
    assert left.endswith(".rank0.started.json")


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CollectError, match="is no folder"):
        Collection(tmp_path / "file", NODE).start()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(collecting, "_write_whole", refuse)
    result = check(tmp_path)
    assert "Read-only file system" in str(result.exception)
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(CollectError, match="Permission denied"):
        Collection(tmp_path, NODE).start()
    tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("node1", "node1.rank8.json"),
        ("../../etc/x", "_.._etc_x.rank8.json"),
        ("", "_.rank8.json"),
        ("a b:c", "a_b_c.rank8.json"),
    ],
)
def test_a_host_name_cannot_leave_the_folder(tmp_path: Path, host: str, name: str) -> None:
    collection = Collection(tmp_path, dataclasses.replace(NODE, host=host))
    assert collection.report_path == tmp_path / name
