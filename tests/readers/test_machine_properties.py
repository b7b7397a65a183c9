"""No input makes a reader of the machine raise."""

from __future__ import annotations

from pathlib import Path

import cann_trees as trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flexdoctor.checks.devices import parse_mask
from flexdoctor.facts import Facts, TargetFacts
from flexdoctor.knowledge.cann import parse_cann
from flexdoctor.readers.machine import ALLOWED_VARIABLES, read_machine
from flexdoctor.readers.npu_smi import parse_table
from flexdoctor.readers.rooted import Root
from flexdoctor.serialise import from_json, to_json

FILES = (
    "usr/local/Ascend/cann-9.1.0/aarch64-linux/ascend_toolkit_install.info",
    "usr/local/Ascend/cann-9.1.0/share/info/runtime/version.info",
    "usr/local/Ascend/nnal/atb/9.1.0/version.info",
    "usr/local/Ascend/driver/version.info",
    "etc/ascend_install.info",
    "etc/passwd",
    "etc/group",
    "etc/ld.so.conf",
    "sys/bus/pci/devices/0000:c1:00.0/vendor",
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)


@given(st.text(max_size=400))
def test_table_of_npu_smi(text: str) -> None:
    parse_table(text)
    parse_table("\n".join(f"| {line} | a | b |" for line in text.splitlines()))


@given(TEXT, st.integers(0, 64))
def test_mask(value: str, count: int) -> None:
    mask = parse_mask(value, count)
    assert all(0 <= item < count for item in mask.ids)
    assert list(mask.ids) == sorted(set(mask.ids))


@given(TEXT)
def test_version(text: str) -> None:
    parse_cann(text)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=st.lists(st.binary(max_size=80), min_size=len(FILES), max_size=len(FILES)),
    variables=st.dictionaries(st.sampled_from([*ALLOWED_VARIABLES, "PATH", "HOME"]), TEXT, max_size=6),
)
def test_machine_of_garbage_is_read_and_survives_a_snapshot(
    tmp_path: Path, contents: list[bytes], variables: dict[str, str]
) -> None:
    for name, content in zip(FILES, contents, strict=True):
        trees.write(tmp_path / name)
        (tmp_path / name).write_bytes(content)
    trees.lay_nodes(tmp_path)
    machine = read_machine(tmp_path, variables)
    facts = Facts(target=TargetFacts("site-packages", "x", (), machine_examined=True), machine=machine)
    assert from_json(Facts, to_json(facts)) == facts


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["a", "b", "..", "/a", "/b/a", "../../..", "/"]), min_size=1, max_size=4))
def test_links_never_lead_out_of_the_root(tmp_path: Path, targets: list[str]) -> None:
    for name in ("a", "b"):
        place = tmp_path / name
        place.unlink(missing_ok=True)
    for name, target in zip(("a", "b"), targets, strict=False):
        (tmp_path / name).symlink_to(target)
    root = Root(tmp_path)
    for path in ("/a", "/b", "/a/b/../a", "/b/../../a"):
        host = root.host(path)
        assert host == str(tmp_path) or host.startswith(f"{tmp_path}/")
        assert ".." not in host.removeprefix(str(tmp_path)).split("/")
