"""npu-smi: its four tables, its failures, and programs that do not behave."""

from __future__ import annotations

import os
from pathlib import Path

import cann_trees as trees
import patients
import pytest

from flexdoctor.chain import diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import DeviceNode, Facts, TargetFacts
from flexdoctor.readers.bounded import run_bounded
from flexdoctor.readers.machine import read_machine
from flexdoctor.readers.npu_smi import ask_npu_smi, find_npu_smi, parse_table

A2 = """
+------------------------------------------------------------------------------------------------+
| npu-smi 25.5.0                   Version: 25.5.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 91.2        41                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3398 / 65536         |
+===========================+===============+====================================================+
| 5     910B3               | Alarm         | 91.2        41                0    / 0             |
| 0                         | 0000:41:00.0  | 0           0    / 0          3398 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
"""
A3 = """
| npu-smi 25.3.rc1                 Version: 25.3.rc1                                             |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)         |
| 0     Ascend910           | OK            | 170.1       36                0    / 0              |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3106 / 65536          |
| 0     Ascend910           | OK            | -           36                0    / 0              |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2880 / 65536          |
"""
A5 = """
| npu-smi 25.1.rc1              Version: 25.1.rc1                                          |
| NPU ID | Name             | Health        | Power(W)    Temp(C)    Hugepages-Usage(page)   |
|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)                   |
| 0      | Ascend950PR      | OK            | 120.0       40         0 / 0                   |
|        |                  | 0000:01:00.0  | 0           2048 / 131072                      |
"""
OLD = """
| npu-smi 24.1.rc2                     Version: 24.1.rc2                                      |
| NPU     Name                  | Health          | Power(W)     Temp(C)  Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)               |
| 0       310B4                 | Alarm           | 0.0          51       15    / 15            |
| 0       0                     | NA              | 0            1567 / 3513                    |
"""


@pytest.mark.parametrize(
    ("text", "driver", "chips"),
    [
        (A2, "25.5.0", [("0", "910B3", "OK", "0000:C1:00.0"), ("5", "910B3", "Alarm", "0000:41:00.0")]),
        (A3, "25.3.rc1", [("0", "Ascend910", "OK", "0000:9D:00.0"), ("0", "Ascend910", "OK", "0000:9F:00.0")]),
        (A5, "25.1.rc1", [("0", "Ascend950PR", "OK", "0000:01:00.0")]),
        (OLD, "24.1.rc2", [("0", "310B4", "Alarm", "NA")]),
        ("", None, []),
        ("| | | |\n|\n||||\n" * 3, None, []),
    ],
)
def test_tables(text: str, driver: str | None, chips: list[tuple[str, ...]]) -> None:
    found_driver, found = parse_table(text)
    assert found_driver == driver
    assert [(item.npu, item.name, item.health, item.bus) for item in found] == chips


def smi(tmp_path: Path, body: str) -> str:
    return str(trees.program(tmp_path / "npu-smi", f"#!/bin/sh\n{body}\n"))


def test_healthy_answer(tmp_path: Path) -> None:
    trees.write(tmp_path / "table", A2)
    facts = ask_npu_smi(smi(tmp_path, f"cat {tmp_path}/table"), 10, os.environ)
    assert (facts.outcome, facts.exit_code, facts.driver_version) == ("answered", 0, "25.5.0")
    assert facts.lines[0].startswith("| npu-smi 25.5.0")


def test_driver_warning_before_the_table_is_no_failure(tmp_path: Path) -> None:
    trees.write(tmp_path / "table", "[WARNING]The driver package may not be completely installed.\n" + A2)
    assert ask_npu_smi(smi(tmp_path, f"cat {tmp_path}/table"), 10, os.environ).outcome == "answered"


@pytest.mark.parametrize(("code", "shell"), [(-8005, 187), (-8020, 172)])
def test_code_of_dcmi(tmp_path: Path, code: int, shell: int) -> None:
    body = f"echo 'dcmi module initialize failed. ret is {code}'; exit {shell}"
    facts = ask_npu_smi(smi(tmp_path, body), 10, os.environ)
    assert (facts.outcome, facts.code, facts.exit_code) == ("failed", code, shell)


def test_hang_ends_at_the_limit_and_takes_its_children_along(tmp_path: Path) -> None:
    facts = ask_npu_smi(smi(tmp_path, "echo $$; sleep 1000 & echo $!; sleep 1000"), 0.3, os.environ)
    assert (facts.outcome, facts.limit) == ("timed out", 0.3)
    for line in facts.lines:
        assert patients.is_gone(int(line))


def test_flood_is_cut(tmp_path: Path) -> None:
    facts = ask_npu_smi(smi(tmp_path, "exec yes ''"), 60, os.environ)
    assert facts.outcome == "too much"


def test_death_by_signal(tmp_path: Path) -> None:
    facts = ask_npu_smi(smi(tmp_path, "kill -SEGV $$"), 10, os.environ)
    assert (facts.outcome, facts.signal) == ("killed", 11)


def test_garbage_is_shown_without_control_characters(tmp_path: Path) -> None:
    facts = ask_npu_smi(smi(tmp_path, r"printf '\033[31mboo\007\377\n'"), 10, os.environ)
    assert facts.outcome == "failed"
    assert facts.lines[0].isprintable()


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    program = trees.program(tmp_path / "npu-smi", "#!/no/such/interpreter\n")
    assert ask_npu_smi(str(program), 10, os.environ).outcome == "not started"


def test_absent_is_absent(tmp_path: Path) -> None:
    assert ask_npu_smi(find_npu_smi({"PATH": str(tmp_path)}), 10, {}).outcome == "absent"


def test_grandchild_that_keeps_the_pipe_does_not_keep_the_doctor(tmp_path: Path) -> None:
    outcome = run_bounded([smi(tmp_path, "echo done; sleep 1000 &")], seconds=60)
    assert (outcome.ended, outcome.exit_code, outcome.output) == ("exited", 0, b"done\n")


def test_closed_output_does_not_hide_a_hang(tmp_path: Path) -> None:
    assert run_bounded([smi(tmp_path, "exec >&- 2>&-; sleep 1000")], seconds=0.2).ended == "timed out"


def test_check_tells_of_a_hang_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The live machine, with device nodes of its own as far as the reader is concerned."""
    smi(tmp_path, "sleep 1000")
    nodes = tuple(DeviceNode(f"/dev/{name}", 0o666, 0, 0) for name in trees.NODES)
    monkeypatch.setattr("flexdoctor.readers.machine.read_nodes", lambda root: nodes)
    monkeypatch.setattr("flexdoctor.readers.npu_smi.PLACES", ())
    machine = read_machine(Path("/"), {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, npu_smi_limit=0.3)
    assert machine.npu_smi is not None
    assert machine.npu_smi.outcome == "timed out"
    target = TargetFacts("environment", "here", (), machine_examined=True)
    report = diagnose(Facts(target=target, machine=machine), CHAIN)
    (item,) = [item for item in report.findings if item.code == "FD135"]
    assert "did not answer within 0.3 s" in item.title.en
    assert any(item.link == "devices" and item.status == "fail" for item in report.findings)  # no driver here: FD134


def test_nothing_is_run_for_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.lay_nodes(tmp_path)
    monkeypatch.setattr("flexdoctor.readers.bounded.subprocess.Popen", None)
    assert read_machine(tmp_path, {"PATH": os.environ["PATH"]}).npu_smi is None
