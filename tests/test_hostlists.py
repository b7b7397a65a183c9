"""Lists of hosts: taken apart as the tools that write them mean them, and put together again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flexdoctor.hostlists import HostListError, expand, fold, parse_file


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login1", ["login1"]),
        ("a,b c", ["a", "b", "c"]),
        ("node[01-03]", ["node01", "node02", "node03"]),
        ("node[8-11]", ["node8", "node9", "node10", "node11"]),
        ("node[01,03-04],login1", ["node01", "node03", "node04", "login1"]),
        ("rack[1-2]-node[1-2]", ["rack1-node1", "rack1-node2", "rack2-node1", "rack2-node2"]),
        ("a,a", ["a"]),
        ("", []),
    ],
)
def test_a_list_is_taken_apart(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["node[1-", "node]1[", "node[a-b]", "node[3-1]", "node[]", "n[[1]]", "n[0-9999999]"])
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(HostListError):
        expand(text)


def test_a_host_file_of_open_mpi_mpich_or_ansible() -> None:
    text = """\
# the machines
node1 slots=8
node2:8    # of MPICH
[workers]
node[3-4] ansible_user=me
[workers:vars]
ansible_python_interpreter=/usr/bin/python3
[all:children]
workers

node1
"""
    assert parse_file(text) == ["node1", "node2", "node3", "node4"]


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["node02", "node01", "node03", "node7"], "node7,node[01-03]"),
        (["node09", "node10", "node100"], "node100,node[09-10]"),
        (["node8", "node9", "node10"], "node[8-10]"),
        (["a", "b"], "a,b"),
        (["a1.x", "a2.x"], "a[1-2].x"),
        (["n1", "n3"], "n[1,3]"),
        ([], ""),
    ],
)
def test_names_are_put_together(names: list[str], folded: str) -> None:
    assert fold(names) == folded


NAMES = st.builds(
    lambda start, number, width, end: f"{start}{number:0{width}d}{end}",
    st.sampled_from(["node", "n-", "a1b"]),
    st.integers(0, 1200),
    st.integers(1, 4),
    st.sampled_from(["", ".x", "-r"]),
)


@given(st.lists(NAMES, max_size=20))
def test_folding_loses_no_name(names: list[str]) -> None:
    assert set(expand(fold(names))) == set(names)


def test_a_list_that_is_longer_than_a_file_name_can_be(tmp_path: Path) -> None:
    hosts = ",".join(f"node{number:04d}" for number in range(60))
    done = subprocess.run(
        [sys.executable, "-m", "flexdoctor", "compare", str(tmp_path), "--hosts", hosts, "-f", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(json.loads(done.stdout)["missing"]["hosts"]) == 60
