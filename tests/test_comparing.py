"""Comparisons of made-up jobs: alike, drifted, broken, incomplete; and what must not be claimed."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from node_folders import (
    START,
    UNEXAMINED,
    crowded,
    document_of,
    overwritten,
    slurm_node,
    with_versions,
    write_job,
    write_node,
    write_trace,
)
from samples import HEALTHY

from flexdoctor.collecting import report_text
from flexdoctor.comparing import Expectation, Gathering
from flexdoctor.comparison import Comparison, FailOn, exit_code
from flexdoctor.facts import Facts
from flexdoctor.findings import Waiver
from flexdoctor.nodes import NodeReport, NodeSnapshot, StartedTrace, Unusable
from flexdoctor.readers.node_reports import ReportReader

NOBODY_SAID = Expectation()
WELL = document_of(UNEXAMINED)
BROKEN = document_of(overwritten(UNEXAMINED))


def compare_folder(
    folder: Path, expectation: Expectation = NOBODY_SAID, *, run: str | None = None, whole_job: bool = True
) -> Comparison:
    gathering = Gathering(run=run)
    for item in ReportReader().read_folder(folder):
        if isinstance(item, NodeReport):
            gathering.add(item)
        elif isinstance(item, StartedTrace):
            gathering.add_trace(item)
        else:
            assert isinstance(item, Unusable)
            gathering.add_unusable(item)
    return gathering.compare(expectation, whole_job=whole_job)


def compare_facts(*nodes: Facts) -> Comparison:
    gathering = Gathering()
    for number, facts in enumerate(nodes):
        gathering.add(NodeReport(f"{number}.json", document_of(facts), slurm_node(number)))
    return gathering.compare()


def test_alike_and_healthy(tmp_path: Path) -> None:
    for number in range(4):
        write_node(tmp_path, WELL, slurm_node(number))
    found = compare_folder(tmp_path, Expectation(4, by="--expect"))
    assert (found.verdict, len(found.groups), found.node_count) == ("alike", 1, 4)
    assert all(exit_code(found, fail_on=level) == 0 for level in ("error", "drift", "warning", "any"))
    assert found.groups[0].differences == ()
    assert found.environment["package torch-npu"] == "2.13.0"


def test_three_drifts_and_two_missing_nodes_among_three_hundred(tmp_path: Path) -> None:
    planted = write_job(tmp_path, 300, distributions=40)
    hosts = tuple(f"node{number:05d}" for number in range(300))
    found = compare_folder(tmp_path, Expectation(hosts=hosts, by="--hosts"))
    assert found.verdict == "faulty"
    assert found.missing == tuple(f"node{number:05d}" for number in planted.missing)
    assert [len(group.nodes) for group in found.groups] == [294, 2, 1, 1]
    by_nodes = {tuple(node.index for node in group.nodes): group for group in found.groups[1:]}
    assert set(by_nodes) == {planted.overwritten, planted.other_torch_npu, planted.other_numpy}

    broken = by_nodes[planted.overwritten]
    assert broken.cause is not None
    assert broken.cause.code == "FD213"
    assert [item.key for item in broken.differences if item.codes == ("FD213",)] == [
        "package triton",
        "triton files of triton-ascend overwritten",
        "triton owner",
    ]
    drifted = by_nodes[planted.other_torch_npu]
    (difference,) = drifted.differences
    assert (difference.key, difference.usual, difference.here) == ("package torch-npu", "2.13.0", "2.13.0.post1")
    assert (difference.standing, difference.codes) == ("drift", ())
    (aside,) = by_nodes[planted.other_numpy].differences
    assert (aside.key, aside.standing) == ("package numpy", "other")


@pytest.mark.parametrize(
    ("odd", "verdict", "fails_from"),
    [
        pytest.param(UNEXAMINED, "alike", None, id="nothing"),
        pytest.param(with_versions(UNEXAMINED, numpy="2.1.0"), "drift", "any", id="a package outside of the chain"),
        pytest.param(with_versions(UNEXAMINED, torchvision="0.25.0"), "drift", "drift", id="a package of the chain"),
        pytest.param(overwritten(UNEXAMINED), "faulty", "error", id="a fault"),
    ],
)
def test_exit_code_by_what_differs(odd: Facts, verdict: str, fails_from: FailOn | None) -> None:
    levels: tuple[FailOn, ...] = ("error", "drift", "warning", "any")
    found = compare_facts(UNEXAMINED, UNEXAMINED, odd)
    assert found.verdict == verdict
    failing = levels[levels.index(fails_from) :] if fails_from else ()
    assert [level for level in levels if exit_code(found, fail_on=level) == 1] == list(failing)


def test_a_working_node_is_the_reference_however_many_are_broken() -> None:
    found = compare_facts(*[overwritten(UNEXAMINED)] * 5, UNEXAMINED)
    assert [len(group.nodes) for group in found.groups] == [5, 1]
    assert found.reference is found.groups[1]
    assert found.groups[0].cause is not None
    assert found.groups[0].cause.code == "FD213"
    assert found.reference.differences == ()


def test_the_same_fault_everywhere_sets_no_node_apart() -> None:
    broken = overwritten(UNEXAMINED)
    found = compare_facts(broken, broken, with_versions(broken, numpy="2.1.0"))
    odd = found.groups[1]
    assert (odd.only_here, odd.not_here) == ((), ())
    assert [(item.key, item.standing) for item in odd.differences] == [("package numpy", "other")]
    assert [item.code for item in found.groups[0].noteworthy] == ["FD213"]


def test_same_environment_and_a_fault_on_one_node_is_told_as_that() -> None:
    broken = {**WELL, "verdict": "broken", "root_cause": "FD401"}
    broken["findings"] = [
        {**item, "code": "FD401", "status": "fail", "severity": "error", "title": "it hung"}
        if item["link"] == "live_run"
        else item
        for item in WELL["findings"]
    ]
    gathering = Gathering()
    for number, document in enumerate([WELL, WELL, broken]):
        gathering.add(NodeReport(f"{number}.json", document, slurm_node(number)))
    found = gathering.compare()
    assert [group.fingerprint for group in found.groups] == [WELL["fingerprint"]] * 2
    assert found.groups[1].differences == ()
    assert [item.code for item in found.groups[1].only_here] == ["FD401"]


def test_what_was_not_looked_at_is_no_drift() -> None:
    found = compare_facts(HEALTHY, UNEXAMINED)
    odd = next(group for group in found.groups if not group.is_reference)
    assert {item.standing for item in odd.differences} == {"other"}


def test_many_different_environments_are_told_by_what_differs() -> None:
    facts = [crowded(with_versions(UNEXAMINED, numpy=f"1.{number}"), 30) for number in range(20)]
    found = compare_facts(*facts)
    assert len(found.groups) == 20
    values = {item.here for group in found.groups for item in group.differences}
    assert len(values) == 19
    assert all(len(group.differences) <= 1 for group in found.groups)


def test_ranks_of_one_node_count_once_unless_they_differ(tmp_path: Path) -> None:
    for rank in range(4):
        write_node(tmp_path, WELL, dataclasses.replace(slurm_node(0), rank=rank, local_rank=rank))
    assert compare_folder(tmp_path).node_count == 1
    write_node(tmp_path, BROKEN, dataclasses.replace(slurm_node(0), rank=4, local_rank=4))
    found = compare_folder(tmp_path)
    assert sorted(node.name for group in found.groups for node in group.nodes) == [
        "node00000 (node 0) (rank 0)",
        "node00000 (node 0) (rank 4)",
    ]


def test_containers_that_bear_the_same_name_are_nodes_of_their_own(tmp_path: Path) -> None:
    for rank in (0, 8):
        identity = dataclasses.replace(slurm_node(0), host="localhost", index=None, rank=rank)
        write_node(tmp_path, WELL, identity)
    assert compare_folder(tmp_path, Expectation(2, by="--expect")).missing_count == 0


def test_a_start_without_a_report_is_unfinished(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    write_trace(tmp_path, slurm_node(1))
    found = compare_folder(tmp_path, Expectation(3, by="--expect"))
    assert [item.name for item in found.unfinished] == ["node00001"]
    assert (found.missing_count, found.verdict, exit_code(found, fail_on="error")) == (1, "faulty", 1)


def test_a_trace_that_could_not_be_removed_is_none(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    write_trace(tmp_path, slurm_node(0))
    assert compare_folder(tmp_path).verdict == "alike"


def test_a_later_start_that_died_is_unfinished_although_there_is_a_report(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    write_trace(tmp_path, slurm_node(0, started=START + 100))
    assert [item.name for item in compare_folder(tmp_path).unfinished] == ["node00000"]


def test_reports_of_an_earlier_run_do_not_stand_for_nodes_of_this_one(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0, run="Slurm 2", started=START + 900))
    write_node(tmp_path, WELL, slurm_node(1, run="Slurm 1"))
    expectation = Expectation(2, by="--expect")
    found = compare_folder(tmp_path, expectation)
    assert (found.missing_count, found.verdict) == (1, "faulty")
    assert "other runs than the newest (Slurm 2)" in found.notes[0].en
    assert compare_folder(tmp_path, expectation, run="all").verdict == "alike"
    only = compare_folder(tmp_path, expectation, run="1")
    assert [node.name for group in only.groups for node in group.nodes] == ["node00001"]


def test_the_newest_report_of_a_host_is_the_one_that_counts(tmp_path: Path) -> None:
    write_node(tmp_path, BROKEN, slurm_node(0, run="Slurm 1"))
    write_node(tmp_path, WELL, dataclasses.replace(slurm_node(0, run="Slurm 2", started=START + 900), rank=3))
    found = compare_folder(tmp_path)
    assert (found.node_count, found.verdict) == (1, "alike")


@pytest.mark.parametrize("whole_job", [True, False])
def test_a_launcher_tells_who_is_missing_where_the_whole_job_is_looked_at(tmp_path: Path, whole_job: bool) -> None:
    told = dataclasses.replace(slurm_node(0), nodes=3, node_names="node[00000-00002]")
    write_node(tmp_path, WELL, told)
    found = compare_folder(tmp_path, whole_job=whole_job)
    assert found.missing == (("node00001", "node00002") if whole_job else ())
    assert found.expected_by == ("Slurm" if whole_job else None)


def test_hosts_with_and_without_domain_are_the_same(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, dataclasses.replace(slurm_node(0), host="Node0.cluster.example"))
    write_node(tmp_path, WELL, dataclasses.replace(slurm_node(1), host="10.0.0.7"))
    hosts = Expectation(hosts=("node0", "10.0.0.8"), by="--hosts")
    found = compare_folder(tmp_path, hosts)
    assert (found.missing, found.unexpected) == (("10.0.0.8",), ("10.0.0.7",))


def test_versions_that_do_not_compare_are_named() -> None:
    newer = {**WELL, "tool": {**WELL["tool"], "knowledge_date": "2027-01-31"}}
    gathering = Gathering()
    gathering.add(NodeReport("a.json", WELL))
    gathering.add(NodeReport("b.json", newer))
    (note,) = gathering.compare().notes
    assert "2027-01-31" in note.en
    assert "2027-01-31" in note.zh


def test_a_report_without_environment_is_compared_by_its_findings() -> None:
    old = {key: item for key, item in BROKEN.items() if key not in ("environment", "fingerprint")}
    gathering = Gathering()
    gathering.add(NodeReport("a.json", WELL))
    gathering.add(NodeReport("b.json", old))
    found = gathering.compare()
    assert found.groups[1].differences == ()
    assert found.groups[1].cause is not None
    assert any("do not hold the environment" in note.en for note in found.notes)


WRECKS: dict[str, tuple[bytes, str]] = {
    "cut.json": (json.dumps(WELL).encode()[:2000], "cut off"),
    "early.json": (b'{"schema_ver', "cut off"),
    "empty.json": (b"", "empty"),
    "blank.json": (b" \n", "empty"),
    "binary.json": (b"\x7fELF\x02\x01\x00\xff\xfe", "binary"),
    "newer.json": (json.dumps({**WELL, "schema_version": 2}).encode(), "newer"),
    "other.json": (b'{"tool": {"name": "ruff"}, "schema_version": 1}', "foreign"),
    "list.json": (b"[1, 2]", "foreign"),
    "prose.json": (b"not JSON at all", "foreign"),
    "deep.json": (b"[" * 100_000, "foreign"),
    "verdict.json": (json.dumps({**WELL, "verdict": "fine"}).encode(), "malformed"),
    "findings.json": (json.dumps({**WELL, "findings": [1]}).encode(), "malformed"),
    "inside.json": (
        json.dumps({**WELL, "findings": [{"link": "x", "status": "fail", "evidence": [{}]}]}).encode(),
        "malformed",
    ),
    "status.json": (
        json.dumps({**WELL, "findings": [{"link": "x", "code": None, "status": "odd"}]}).encode(),
        "malformed",
    ),
    "trace.started.json": (b'{"kind": "flexdoctor started"}', "malformed"),
}


def test_wrecks_are_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    for name, (content, _) in WRECKS.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".node.json.1-ab.tmp").write_bytes(b"{")
    (tmp_path / "notes.txt").write_text("not looked at")
    write_node(tmp_path, WELL, slurm_node(0))
    write_node(tmp_path, BROKEN, slurm_node(1))
    found = compare_folder(tmp_path)
    assert found.node_count == 2
    kinds = {Path(item.path).name: item.kind for item in found.unusable}
    wanted = {name: kind for name, (_, kind) in WRECKS.items()}
    assert kinds == {**wanted, "folder.json": "folder", "gone.json": "unreadable"}
    assert found.verdict == "faulty"


def test_a_foreign_file_costs_no_node(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    (tmp_path / "other.json").write_text('{"tool": {"name": "ruff"}}')
    found = compare_folder(tmp_path)
    assert found.verdict == "alike"
    assert exit_code(found) == 0
    assert exit_code(found, strict=True) == 3


def test_nothing_but_wrecks_could_not_complete(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    assert exit_code(compare_folder(tmp_path)) == 3


def test_a_seam_in_a_string_is_no_seam(tmp_path: Path) -> None:
    identity = dataclasses.replace(slurm_node(0), launcher='","target":{},"x":"')
    path = write_node(tmp_path, WELL, identity)
    reader = ReportReader()
    for _ in range(2):
        item = reader.read_file(str(path))
        assert isinstance(item, NodeReport)
        assert item.document == json.loads(path.read_text())


def test_a_shared_tail_gives_the_same_document_as_parsing_it_whole(tmp_path: Path) -> None:
    paths = [write_node(tmp_path, WELL, slurm_node(number)) for number in range(3)]
    reader = ReportReader()
    for path in paths:
        item = reader.read_file(str(path))
        assert isinstance(item, NodeReport)
        assert item.document == json.loads(path.read_text())
    half = tmp_path / "half.json"
    half.write_bytes(paths[0].read_bytes()[:-20])
    assert isinstance(reader.read_file(str(half)), Unusable)


def test_a_snapshot_is_handed_on(tmp_path: Path) -> None:
    from flexdoctor.snapshots import dump  # noqa: PLC0415

    (tmp_path / "a.json").write_text(dump(UNEXAMINED))
    assert isinstance(ReportReader().read_file(str(tmp_path / "a.json")), NodeSnapshot)


def test_nothing_in_a_report_reaches_a_terminal_as_a_command(tmp_path: Path) -> None:
    identity = dataclasses.replace(slurm_node(0), host="a\x1b[2J\nMISSING b\ud800", launcher="\u4e2d\U0001f600")
    (tmp_path / "x.json").write_text(report_text(dict(WELL), identity))
    item = ReportReader().read_file(str(tmp_path / "x.json"))
    assert isinstance(item, NodeReport)
    assert item.identity is not None
    assert item.identity.host == "a\ufffd[2J MISSING b\ufffd"
    assert item.identity.launcher == "\u4e2d\U0001f600"
    assert {**item.document, "node": None} == {**WELL, "node": None}


@pytest.mark.parametrize("started", ["NaN", "Infinity", "1e400", "-1e300", "1" * 400, "true", '"now"'])
def test_a_time_that_is_none_is_not_known(tmp_path: Path, started: str) -> None:
    text = report_text(dict(WELL), dataclasses.replace(slurm_node(0), started=None))
    (tmp_path / "x.json").write_text(text.replace('"started":null', f'"started":{started}'))
    item = ReportReader().read_file(str(tmp_path / "x.json"))
    assert isinstance(item, NodeReport)
    assert item.identity is not None
    assert item.identity.started in (None, 1.0)


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json")
    Path(path).write_text("")
    (item,) = ReportReader().read_folder(tmp_path)
    assert item.path == f"{tmp_path}/?.json"


def test_a_crashed_check_could_not_complete() -> None:
    crashed = {**WELL, "findings": [{**WELL["findings"][0], "status": "crashed", "code": "FD001"}]}
    gathering = Gathering()
    gathering.add(NodeReport("a.json", crashed))
    assert exit_code(gathering.compare(), fail_on="error") == 3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_waived_node_does_not_speak_for_a_broken_one(tmp_path: Path, order: tuple[int, int]) -> None:
    broken = overwritten(UNEXAMINED)
    documents = (document_of(broken, Waiver("FD213", "known")), document_of(broken))
    for document, number in zip(documents, order, strict=True):
        write_node(tmp_path, document, slurm_node(number))
    comparison = compare_folder(tmp_path)
    assert sorted(group.verdict for group in comparison.groups) == ["broken", "waived"]
    assert exit_code(comparison) == 1


def test_a_node_that_has_another_number_in_the_next_run_is_the_same_node(tmp_path: Path) -> None:
    first = dataclasses.replace(slurm_node(1, run="Slurm 1"), index=0, rank=0)
    write_node(tmp_path, BROKEN, first)
    write_node(tmp_path, WELL, dataclasses.replace(slurm_node(1, run="Slurm 2", started=START + 60), rank=8))
    comparison = compare_folder(tmp_path)
    assert comparison.node_count == 1
    assert comparison.verdict == "alike"


def test_a_rank_that_died_is_told_although_another_of_its_node_reported(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, dataclasses.replace(slurm_node(0), started=START + 1))
    write_trace(tmp_path, dataclasses.replace(slurm_node(0), rank=1, local_rank=1))
    comparison = compare_folder(tmp_path)
    assert [item.name for item in comparison.unfinished] == ["node00000"]
    assert exit_code(comparison) == 1


def test_ranks_of_one_node_that_differ_are_one_node_of_those_expected(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    write_node(tmp_path, BROKEN, dataclasses.replace(slurm_node(0), rank=1, local_rank=1))
    assert compare_folder(tmp_path, Expectation(2, by="--expect")).missing_count == 1


def test_another_document_of_flexdoctor_in_the_folder_is_no_lost_node(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    (tmp_path / "compare.json").write_text(json.dumps({"tool": {"name": "flexdoctor"}, "kind": "comparison"}))
    comparison = compare_folder(tmp_path)
    assert [item.kind for item in comparison.unusable] == ["foreign"]
    assert exit_code(comparison) == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path: Path) -> None:
    write_node(tmp_path, WELL, slurm_node(0))
    os.mkfifo(tmp_path / "pipe.json")
    assert compare_folder(tmp_path).node_count == 1
