"""Logs lead to the answers of the reports that they were made of, whoever passed them on and however they come."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flexdoctor.checks import CHAIN
from flexdoctor.knowledge.signatures import signatures
from flexdoctor.log_facts import LogFacts
from flexdoctor.log_findings import judge
from flexdoctor.pages import entries, page_of
from flexdoctor.readers import log_lines
from flexdoctor.readers.log_lines import LogLines
from flexdoctor.readers.logs import MAX_UNKNOWN, OFTEN, read_log
from flexdoctor.serialise import from_json, to_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LOGS = Path(__file__).parents[1] / "logs"
CASES: list[dict[str, Any]] = tomllib.loads((LOGS / "cases.toml").read_text(encoding="utf-8"))["log"]
DRIVER = "RuntimeError: 0 active drivers ([]). There should only be one."
TRACEBACK = f"""\
Traceback (most recent call last):
  File "/srv/train.py", line 4, in <module>
    flex(q)
  File "/env/lib/python3.11/site-packages/triton/runtime/driver.py", line 9, in _create_driver
    raise RuntimeError(f"{{len(actives)}} active drivers ({{actives}}). There should only be one.")
{DRIVER}
"""


def read(text: str | bytes, block: int = log_lines.BLOCK) -> LogFacts:
    return read_log(io.BytesIO(text.encode() if isinstance(text, str) else text), "log", block=block)


def names(facts: LogFacts) -> list[str | None]:
    return [incident.signature for incident in facts.incidents]


# --- the logs of reports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_a_log_leads_to_the_answer_of_its_report(case: dict[str, Any]) -> None:
    with (LOGS / case["file"]).open("rb") as stream:
        report = judge(read_log(stream, case["file"]))
    claimed = {code for finding in report.findings for code in finding.codes}
    first = report.first
    if case.get("row") == "clean":
        assert (report.verdict, report.findings) == ("clean", ())
    elif "row" in case:
        assert first is not None
        assert first.incident.signature == case["row"]
    else:
        assert all(finding.kind in ("unknown", "code") for finding in report.findings)
    if case["right"]:
        assert first is not None
        assert set(case["right"]) <= set(first.codes)
        # Nothing else is named besides.
        assert claimed == set(first.codes)
    else:
        assert not claimed


def test_the_logs_are_as_many_as_they_should_be_and_all_are_there() -> None:
    sources = [case["source"] for case in CASES]
    assert sum("#" in source for source in sources) >= 40
    assert sources.count("a fault of something else") >= 20
    assert {case["file"] for case in CASES} == {path.name for path in LOGS.glob("*.log")}
    codes = {fault.code for check in CHAIN for fault in check.faults}
    assert {code for case in CASES for code in case["right"]} <= codes


def test_every_row_that_names_a_fault_has_a_log() -> None:
    seen = {case.get("row") for case in CASES}
    assert [row.name for row in signatures() if row.codes and row.name not in seen] == []


def test_an_unknown_error_is_told_with_its_line() -> None:
    with (LOGS / "other-key-error.log").open("rb") as stream:
        facts = read_log(stream)
    (incident,) = facts.incidents
    assert (incident.root.headline, incident.signature, incident.ranks) == ("KeyError: 'lm_head.weight'", None, (0, 1))


# --- who passed it on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("", None),
        ("[rank5]: ", 5),
        ("[default5]:", 5),
        ("[1,5]<stderr>:", 5),
        ("5: ", 5),
        (" 5: ", 5),
        ("2026-11-30T11:50:07.123456789Z ", None),
        ("2026-11-30T11:50:07.1234567Z [rank5]: ", 5),
        ("2026-11-30T11:50:07.123456Z 01E ", None),
        ("2026-11-30 11:50:07,170 - ERROR - ", None),
        ("2026-11-30 11:50:07,170 | ERROR | ", None),
        ("[2026-11-30 11:50:07,170] [ERROR] ", None),
        ("Nov 30 11:50:07 node7 train[4711]: ", None),
        ("E1130 11:50:07.123456 4711 torch/x.py:12] ", None),
        ("ERROR 11-30 11:50:07 [core.py:712] ", None),
        ("(EngineCore_DP0 pid=812) ERROR 11-30 11:50:07 [core.py:712] ", None),
        ("(Worker rank=5 pid=4711) ", 5),
        ("(TaskRunner pid=90210, ip=10.0.0.7) ", None),
        ("worker-1  | ", None),
        ("[pod/train-0/main] ", None),
        ("E   ", None),
        ("> ", None),
        ("\x1b[31m", None),
        ("\x1b[36m(Worker_TP0 pid=1)\x1b[0;0m ", None),
    ],
)
def test_what_stands_before_a_line_is_taken_off(prefix: str, rank: int | None) -> None:
    facts = read("a line of somebody\n" + "".join(f"{prefix}{line}\n" for line in TRACEBACK.splitlines()))
    (incident,) = facts.incidents
    assert incident.signature == "no driver"
    assert (incident.root.type, incident.root.line) == ("RuntimeError", 7)
    assert incident.root.frames[-1].endswith("triton/runtime/driver.py _create_driver")
    assert incident.ranks == (() if rank is None else (rank,))


def test_ranks_that_speak_at_once_are_put_together_apart() -> None:
    other = TRACEBACK.replace(DRIVER, "KeyError: 'x'").splitlines()
    lines = []
    for one, two in zip(TRACEBACK.splitlines(), other, strict=True):
        lines += [f"[rank0]: {one}", f"[rank1]: {two}", f"[rank2]: {one}"]
    first, second = read("\n".join(lines)).incidents
    assert (first.signature, first.count, first.ranks) == ("no driver", 2, (0, 2))
    assert (second.root.headline, second.ranks) == ("KeyError: 'x'", (1,))
    assert len(second.root.frames) == 2


def test_carriage_returns_are_ends_of_lines_that_do_not_count() -> None:
    text = "start\n" + "".join(f"\rstep {number}" for number in range(50)) + "\r" + TRACEBACK.replace("\n", "\r\n")
    (incident,) = read(text).incidents
    assert (incident.signature, incident.root.line, len(incident.root.frames)) == ("no driver", 7, 2)


def test_a_record_of_docker_or_of_a_logger_in_json_carries_lines() -> None:
    text = TRACEBACK.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    record = f'{{"message": "{text}", "level": "error"}}\n'
    (incident,) = read(record).incidents
    assert (incident.signature, incident.root.line, len(incident.root.frames)) == ("no driver", 1, 2)


# --- chains ----------------------------------------------------------------------------------------------------------

INNER = 'Traceback (most recent call last):\n  File "/env/torch_npu/npu/utils.py", line 8, in <module>\n'
LIBRARY = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
OUTER = (
    'Traceback (most recent call last):\n  File "/env/torch/__init__.py", line 9, in _import_device_backends\n'
    "RuntimeError: Failed to load the backend extension: torch_npu.\n"
)


@pytest.mark.parametrize(
    "joint",
    [
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    ],
)
def test_a_chain_is_one_error_and_its_cause_is_the_root(joint: str) -> None:
    (incident,) = read(f"{INNER}{LIBRARY}\n\n{joint}\n\n{OUTER}").incidents
    assert (incident.signature, incident.root.headline) == ("cann library not found", LIBRARY)
    assert (incident.root.line, incident.last_line, incident.raised_as) == (3, 9, ("RuntimeError",))


def test_a_cause_that_is_written_last_is_the_root_too() -> None:
    (incident,) = read(f"{OUTER}Caused by: {LIBRARY}\n").incidents
    assert (incident.signature, incident.raised_as) == ("cann library not found", ("RuntimeError",))


def test_what_was_made_of_an_unknown_cause_does_not_name_a_fault() -> None:
    joint = "\nThe above exception was the direct cause of the following exception:\n\n"
    report = judge(read(f"{INNER}OSError: something new\n{joint}{OUTER}"))
    (finding,) = report.findings
    assert (finding.kind, finding.codes, finding.incident.wrapped_by) == ("unknown", (), "autoload")
    assert finding.incident.root.headline == "OSError: something new"


def test_a_message_that_quotes_its_cause_is_taken_apart() -> None:
    text = TRACEBACK.replace("RuntimeError: 0", "torch._inductor.exc.InductorError: LoweringException: RuntimeError: 0")
    (incident,) = read(text).incidents
    assert (incident.signature, incident.root.headline, incident.raised_as) == ("no driver", DRIVER, ("InductorError",))


def test_source_code_in_a_traceback_is_no_error() -> None:
    text = TRACEBACK.replace(DRIVER, "KeyError: 5").replace("flex(q)", 'raise Exception("Invalid device ID")')
    (incident,) = read(text).incidents
    assert incident.root.headline == "KeyError: 5"


def test_a_stack_that_is_printed_ends_in_no_exception() -> None:
    stack = TRACEBACK.replace("Traceback", "Stack").replace(DRIVER, "Epoch: 1\ndone")
    assert read(stack).incidents == ()


@pytest.mark.parametrize("last", ["OutOfResources: shared memory", "queue.Empty", "my.pkg.Odd: x: y"])
def test_a_traceback_ends_in_an_exception_whatever_it_is_called(last: str) -> None:
    (incident,) = read(TRACEBACK.replace(DRIVER, last)).incidents
    assert incident.root.headline == last.replace("queue.", "").replace("my.pkg.", "")


# --- judging ---------------------------------------------------------------------------------------------------------


def test_several_faults_are_told_apart_in_order_of_time_and_what_follows_names_its_cause() -> None:
    text = (
        "".join(f"[rank0]: {line}\n" for line in TRACEBACK.splitlines())
        + "[rank1]: Traceback (most recent call last):\n"
        + '[rank1]:   File "/srv/train.py", line 9, in reduce\n'
        + "[rank1]: RuntimeError: HcclAllReduce\n"
        + "[rank1]: EI0002: The wait execution of the Notify register times out.\n"
        + "E1130 11:50:10.000 99 torch/api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 4711) of binary: python\n"
        + "[rank2]: ModuleNotFoundError: No module named 'pybind11'\n"
    )
    findings = judge(read(text)).findings
    assert [finding.incident.signature for finding in findings] == [
        "no driver",
        "hccl timeout",
        "rank killed",
        "triton needs pybind11",
    ]
    assert [finding.follows for finding in findings] == [None, 6, 6, None]
    assert [finding.kind for finding in findings] == ["chain", "beside", "beside", "chain"]


def test_an_error_that_others_raise_too_is_not_claimed_in_the_log_of_a_gpu() -> None:
    alone, gpu, both = (
        judge(read(head + DRIVER + "\n")).findings[0]
        for head in ("", "NVIDIA H100, CUDA 12.6\n", "NVIDIA H100\ntorch_npu 2.7.1\n")
    )
    assert (alone.confidence, alone.because.en) == ("low", "nothing else in the log speaks of an NPU")
    assert (gpu.kind, gpu.codes) == ("beside", ())
    assert (both.kind, both.confidence) == ("chain", "medium")


def test_the_line_of_a_long_message_that_tells_is_named() -> None:
    with (LOGS / "8186-target-310p.log").open("rb") as stream:
        (finding,) = judge(read_log(stream)).findings
    assert finding.incident.root.headline == "MLIRCompilationError"
    assert finding.telling == "bishengir-compile: for the --target option: Cannot find option named 'Ascend310P3'!"
    assert judge(read(DRIVER)).findings[0].telling == ""


def test_how_sure_it_is() -> None:
    frame = '  File "/env/torch/utils/_triton.py", line 3, in f\n'
    message = "ModuleNotFoundError: No module named 'pybind11'\n"
    backend = "  File \"/env/torch_npu/_inductor/x.py\", line 3, in f\nModuleNotFoundError: No module named 'psutil'\n"
    comparison = "TypeError: '>=' not supported between instances of 'NoneType' and 'int'\n"
    found = {text: judge(read("torch_npu\n" + text)).findings[0] for text in (message, backend, frame + comparison)}
    assert found[message].confidence == "high"
    assert (found[backend].confidence, "traceback" in found[backend].because.en) == ("high", True)
    assert found[frame + comparison].confidence == "medium"  # two faults raise it


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        ("", 0),
        ("all is well\n", 0),
        ("log level: ERROR\nLOG_LEVEL=ERROR\n", 0),
        ("[ERROR] odd\n", 3),
        (DRIVER, 1),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", 1),
        ("KeyError: 'x'", 3),
        ("/x.cpp:1: fatal error: y.h: No such file or directory", 3),
    ],
)
def test_exit_codes(text: str, exit_code: int) -> None:
    assert judge(read(text)).exit_code == exit_code


def test_a_code_of_the_runtime_is_looked_up_where_the_message_says_nothing() -> None:
    (finding,) = judge(read("RuntimeError: NPU function error: aclrtFoo, error code is 507010\n")).findings
    assert finding.kind == "code"
    assert [row.name for row in finding.runtime] == ["ACL_ERROR_RT_LOST_HEARTBEAT"]


def test_the_facts_are_json() -> None:
    facts = read(TRACEBACK)
    assert from_json(LogFacts, to_json(facts)) == facts


# --- streams ---------------------------------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        *TRACEBACK.splitlines(keepends=True),
        "[rank1]: ",
        "(Worker pid=4) ",
        "\r",
        "\n",
        "\r\n",
        "\r\n\r\n",
        "2026-11-30T11:50:07.1Z ",
        "\x1b[31m",
        "KeyError: 5\n",
        LIBRARY,
        "During handling of the above exception, another exception occurred:\n",
        "Caused by: ",
        "EZ9999: Inner Error!\n",
        "error code is 507033\n",
        '{"log":"x\\n"}',
        "\x00",
        "进程退出\n",
        "x" * 90,
    ]
).map(str.encode)


@settings(max_examples=150, deadline=None)
@given(st.lists(FRAGMENTS | st.binary(max_size=20), max_size=40), st.integers(8, 200))
def test_nothing_makes_it_raise_and_blocks_do_not_matter(parts: list[bytes], block: int) -> None:
    text = b"".join(parts)
    assert read(text, block) == read(text)


@pytest.mark.parametrize("limit", [20, 100])
def test_blocks_do_not_matter_for_long_lines(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MAX_LINE", limit)
    chance = random.Random(1)
    parts = [*TRACEBACK.splitlines(keepends=True), "x" * 150, "y" * 30, "\r", "\n", "Error ", "\r\n", "[rank0]: "]
    for _ in range(200):
        text = "".join(chance.choices(parts, k=30))
        results = [read(text, block) for block in (8, 17, 64, 1000)]
        assert all(result == results[0] for result in results), text


class Dribble(io.RawIOBase):
    """Hands out a few bytes at a time, as a pipe may."""

    def __init__(self, text: bytes) -> None:
        self._rest, self._chance = text, random.Random(2)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = min(size, self._chance.randint(1, 7)) if size > 0 else 7
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def test_a_pipe_that_hands_out_little_at_a_time() -> None:
    text = ("step\n" * 50 + TRACEBACK).encode()
    assert read_log(Dribble(text), "log") == read(text)  # type: ignore[arg-type]


def test_a_flood_of_errors_is_counted_and_hides_nothing() -> None:
    flood = [f"[rank{number % 8}]: RuntimeError: lost step {number}\n" for number in range(5 * OFTEN)]
    flood[4 * OFTEN] += DRIVER + "\n"
    text = "".join(flood)
    facts = read(text)
    lost, driver = facts.incidents
    assert (lost.count, lost.at_least, lost.last_line) == (5 * OFTEN, True, 5 * OFTEN + 1)
    assert lost.ranks == tuple(range(8))
    assert (driver.signature, driver.root.line) == ("no driver", 4 * OFTEN + 2)
    assert read(text, 1000).incidents == facts.incidents


def test_codes_of_the_runtime_are_told_apart_in_a_flood() -> None:
    line = "RuntimeError: NPU function error: f, error code is {}\n"
    text = line.format(507010) * 2 * OFTEN + line.format(507033)
    assert [incident.count for incident in read(text).incidents] == [2 * OFTEN, 1]


def test_kinds_of_unknown_errors_are_bounded() -> None:
    names = (f"{a}{b}" for a in "abcdefghij" for b in "abcdefghij")
    facts = read("".join(f"ValueError: {name}\n" for name in names) + DRIVER)
    assert (len(facts.incidents), facts.dropped) == (MAX_UNKNOWN + 1, 100 - MAX_UNKNOWN)
    assert facts.incidents[-1].signature == "no driver"


@pytest.mark.parametrize(
    "start",
    [
        " ",
        "a.",
        "[a:1",
        ":1",
        "│ ",
        "a ",
        "A",
        "(a ",
        "1: ",
        "[rank0]: ",
        "torch==",
        'File "',
        "\x1b[",
        '{"log": "',
        "Aa",
    ],
)
def test_a_line_that_repeats_itself_is_read_in_time(start: str) -> None:
    text = f"{start * 30_000}Error\n{start * 30_000} Error: x\n{DRIVER}\n"
    assert names(read(text))[-1:] == ["no driver"]


def test_a_line_without_end_is_read_in_part() -> None:
    size = 3 * 1024 * 1024
    facts = read(DRIVER + " " + "x" * size + "\n" + LIBRARY + "\n")
    assert names(facts) == ["no driver", "cann library not found"]
    assert (facts.lines, facts.long_lines, facts.size) == (2, 1, len(DRIVER) + len(LIBRARY) + 3 + size)
    assert len(facts.incidents[0].root.message) < 100_000


def test_every_line_is_handed_out_with_its_number() -> None:
    text = b"a\nError 1\r\nb\rc Error 2\nd\n\nError 3"
    lines = LogLines(io.BytesIO(text), (b"Error",), block=8)
    assert [(line.number, line.text) for line in lines] == [(2, b"Error 1"), (3, b"c Error 2"), (6, b"Error 3")]
    assert lines.lines == 6


def test_lines_that_are_asked_for_are_handed_out() -> None:
    lines = LogLines(io.BytesIO(b"a\nError\nb\n\nc\nd\ne\n"), (b"Error",))
    seen = []
    for line in lines:
        seen.append((line.number, line.text, line.hot))
        lines.wanted_until = 5
    assert seen == [(2, b"Error", True), (3, b"b", False), (4, b"", False), (5, b"c", False)]


# --- packed and decoded ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pack", "name"),
    [
        (gzip.compress, "gzip"),
        (bz2.compress, "bzip2"),
        (lzma.compress, "xz"),
        (lambda text: text.decode().encode("utf-16"), "UTF-16"),
        (lambda text: text.decode().encode("utf-16-le"), "UTF-16-LE"),
        (lambda text: text.decode().encode("utf-16-be"), "UTF-16-BE"),
        (lambda text: b"\xef\xbb\xbf" + text, None),
        (lambda text: gzip.compress(text.decode().encode("utf-16")), "gzip, UTF-16"),
    ],
)
def test_a_log_is_unpacked_and_decoded(pack: Any, name: str | None) -> None:
    facts = read(pack(TRACEBACK.encode()))
    assert (names(facts), facts.packed, facts.cut_off) == (["no driver"], name, None)
    assert facts.incidents[0].root.line == 6


def test_a_packed_log_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    noise = "".join(f"{random.Random(number).random()}\n" for number in range(20_000))
    facts = read(gzip.compress((TRACEBACK + noise).encode())[:-5000])
    assert names(facts) == ["no driver"]
    assert facts.cut_off


@pytest.mark.parametrize("magic", [b"PK\x03\x04rest", b"\x28\xb5\x2f\xfdrest", b"7z\xbc\xaf\x27\x1crest"])
def test_an_archive_is_named(magic: bytes) -> None:
    facts = read(magic)
    assert facts.size == 0
    assert "unpack it first" in str(facts.cut_off)


def test_what_is_no_text_is_named() -> None:
    facts = read(random.Random(0).randbytes(5000))
    assert facts.size == 0
    assert facts.cut_off == "it is not text"


def test_a_hole_of_zeros_at_the_head_of_a_log_is_passed_over() -> None:
    assert names(read(bytes(5000) + TRACEBACK.encode())) == ["no driver"]


def test_chinese_in_gbk_is_told_as_it_was_written() -> None:
    (incident,) = read("RuntimeError: 设备不可用\n".encode("gb18030")).incidents
    assert incident.root.message == "设备不可用"


def test_binary_junk_has_no_errors() -> None:
    facts = read(random.Random(3).randbytes(200_000))
    assert (facts.incidents, facts.suspect) == ((), None)


# --- what must not end as a clean log --------------------------------------------------------------------------------

GATE = (
    "ValueError: FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. Found input tensors on npu device."
)


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-30T11:50:07.123456789Z stderr F ",
        "worker-1: ",
        "10.0.0.1: ",
        "[0] ",
        "[Rank 3] ",
        "[trainer0]:",
        "[1,mpirank:3,algo-1]<stderr>:",
        "build\tRun tests\t2026-11-30T11:50:07.1234567Z ",
    ],
)
def test_further_senders_are_known(prefix: str) -> None:
    text = TRACEBACK.replace(DRIVER, "ValueError: bad user config")
    (incident,) = read("".join(f"{prefix}{line}\n" for line in text.splitlines())).incidents
    assert (incident.root.headline, len(incident.root.frames)) == ("ValueError: bad user config", 2)


def test_lines_that_grep_numbered_are_read() -> None:
    (incident,) = read("".join(f"{at}:{line}\n" for at, line in enumerate(TRACEBACK.splitlines(), 812))).incidents
    assert (incident.signature, len(incident.root.frames)) == ("no driver", 2)


def test_an_exception_within_a_group_is_read() -> None:
    inner = TRACEBACK.replace(DRIVER, GATE).splitlines()
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/srv/train.py", line 4, in main\n'
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        + "".join(f"    | {line}\n" for line in inner)
        + "    +------------------------------------\n"
    )
    assert "gate" in names(read(text))


def test_a_class_with_a_chinese_name_ends_a_traceback() -> None:
    (incident,) = read(TRACEBACK.replace(DRIVER, "配置有误: 第 3 项")).incidents
    assert incident.root.headline == "配置有误: 第 3 项"


@pytest.mark.parametrize(
    "text",
    [
        "".join(TRACEBACK.splitlines(keepends=True)[:-1]),
        "".join(f"some odd thing // {line}\n" for line in TRACEBACK.replace(DRIVER, "Odd").splitlines()),
        "AssertionError\n",
    ],
)
def test_after_a_traceback_a_log_is_never_clean(text: str) -> None:
    report = judge(read(text))
    assert (report.verdict, report.exit_code) == ("unknown", 3)
    assert report.facts.suspect is not None


@pytest.mark.parametrize("code", ["207006", "507033"])
def test_an_error_line_pasted_alone_is_read_whole(code: str) -> None:
    # It holds none of the words that a long log is searched for; and "error" is no level here.
    for text in (f"error code is {code}", f"c10_npu::SetDevice(device_id_), error code is {code}"):
        assert judge(read(f"{text}\n")).verdict == "known"


# --- what was only handled -------------------------------------------------------------------------------------------

HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("handled", "error", "row", "confidence"),
    [
        ("ModuleNotFoundError: No module named 'triton'", GATE, "gate", "medium"),
        (LIBRARY, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "gpu memory", None),
        ("ModuleNotFoundError: No module named 'triton'", "KeyError: 'x'", "triton absent", "low"),
    ],
)
def test_the_error_behind_one_that_was_handled_decides(
    handled: str, error: str, row: str, confidence: str | None
) -> None:
    last = TRACEBACK.replace(DRIVER, error)
    (finding,) = judge(read(f"{INNER}{handled}\n{HANDLING}{last}")).findings
    assert (finding.incident.signature, finding.confidence) == (row, confidence)


# --- what is somebody else's -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [path.stem for path in sorted(LOGS.glob("other-*")) if path.stem.endswith(("13", "code", "sqlite", "-3"))]
)
def test_a_number_alone_is_no_code_of_the_runtime(name: str) -> None:
    with (LOGS / f"{name}.log").open("rb") as stream:
        report = judge(read_log(stream))
    assert (report.verdict, [finding.runtime for finding in report.findings]) == ("unknown", [()])


def test_an_error_in_a_warning_is_no_root_of_what_comes_then() -> None:
    warning = "WARNING 11-30 11:50:07 [core.py:712] ModuleNotFoundError: No module named 'torch_npu'\n"
    assertion = TRACEBACK.replace(DRIVER, "RuntimeError: CUDA error: device-side assert triggered")
    report = judge(read(f"device: NVIDIA A100\n{warning}{assertion}"))
    assert not report.facts.mentions_ascend
    assert report.first is not None
    assert report.first.incident.signature == "gpu fault"
    (mild,) = [finding for finding in report.findings if finding.codes]
    assert (mild.codes, mild.confidence, report.first.follows) == (("FD112",), "low", None)


def test_the_same_error_written_as_an_error_counts_whole() -> None:
    text = "No module named 'torch_npu'\n"
    (finding,) = judge(read(f"[WARNING] ModuleNotFoundError: {text}[ERROR] ModuleNotFoundError: {text}")).findings
    assert (finding.incident.count, finding.confidence) == (2, "high")


@pytest.mark.parametrize(("before", "confidence"), [("", "high"), ("WARNING: Retrying (Retry(total=4)) Error", "low")])
def test_without_a_network_a_wheel_that_is_not_found_says_little(before: str, confidence: str) -> None:
    text = "ERROR: No matching distribution found for torch-npu==2.9.0\n"
    finding = judge(read(f"{before}\n{text}")).first
    assert finding is not None
    assert (finding.codes, finding.confidence) == (("FD162",), confidence)


def test_codes_in_lines_that_are_no_exceptions_are_told() -> None:
    line = "[ERROR] RUNTIME(88,python):2026-11-30-11:50:07.123 [model.cc:6]88 CANN: execution failed, ret=507011\n"
    report = judge(read(line))
    assert report.first is not None
    assert (report.first.kind, [row.code for row in report.first.runtime]) == ("code", ["507011"])


# --- errors that the pages quote -------------------------------------------------------------------------------------

#: Texts that say too little alone: general words of Python and pip, or another code's own error.
TOO_LITTLE = (
    "ResolutionImpossible",
    "'NoneType' and 'int'",
    "'psutil'",
    "'kernel_function'",
    "'NoneType' object is not callable",
    "'unflatten'",
    "not enough values to unpack",
    "Cannot find a local snapshot",
    "device_count() is 0",
)
QUOTED = [
    (entry.code, error)
    for entry in entries(CHAIN)
    if (page := page_of(entry)) is not None
    for error in page.errors
    if not any(words in error for words in TOO_LITTLE)
]


def test_many_pages_quote_an_error() -> None:
    assert len(QUOTED) >= 50


@pytest.mark.parametrize(("code", "error"), QUOTED)
def test_an_error_that_a_page_quotes_leads_to_the_page(code: str, error: str) -> None:
    report = judge(read(error))
    assert code in {item for finding in report.findings for item in finding.codes}


# --- records and c++ -------------------------------------------------------------------------------------------------


def test_a_record_in_json_is_decoded() -> None:
    text = TRACEBACK.replace(DRIVER, "KeyError: '中文'")
    record = json.dumps({"level": "error", "message": text}).replace("<", "\\u003c").replace(">", "\\u003e")
    (incident,) = read(f"{record}\n").incidents
    assert incident.root.headline == "KeyError: '中文'"
    assert incident.root.frames[0] == "/srv/train.py <module>"


@pytest.mark.parametrize(
    "text", ['{"message": "a\\n', '{"a": [1, "\\n"]}', "{" * 50_000 + "\\n", '{"log": "\\ud800\\n"}']
)
def test_a_broken_record_is_read_as_far_as_it_goes(text: str) -> None:
    assert read(f"{text}\n").incidents == ()


def test_what_a_program_in_cpp_threw_is_its_message() -> None:
    text = (
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
        "  what():  [0] is setting up NCCL communicator, but store->get failed\n"
    )
    (incident,) = read(text).incidents
    assert incident.root.message.startswith("[0] is setting up")
