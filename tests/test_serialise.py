"""Facts map to JSON and back without loss."""

from __future__ import annotations

import contextlib
import datetime
import json

import pytest
import samples
from hypothesis import given
from hypothesis import strategies as st

from flexdoctor import snapshots
from flexdoctor.facts import SCHEMA_VERSION, Facts, InterpreterFacts, TargetFacts
from flexdoctor.findings import Waiver
from flexdoctor.serialise import DocumentError, from_json, to_json

TEXTS = st.text(max_size=20)


def test_healthy_facts_survive_the_round_trip() -> None:
    assert from_json(Facts, json.loads(json.dumps(to_json(samples.HEALTHY)))) == samples.HEALTHY


@given(st.builds(InterpreterFacts, TEXTS, st.none() | TEXTS, st.none() | TEXTS))
def test_any_value_survives_the_round_trip(facts: InterpreterFacts) -> None:
    assert from_json(InterpreterFacts, json.loads(json.dumps(to_json(facts)))) == facts


def test_a_field_that_an_older_document_lacks_takes_its_default() -> None:
    target = {"kind": "environment", "description": "x", "site_packages": [], "machine_examined": True}
    assert from_json(Facts, {"target": target}).torch is None


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({}, "facts: target is missing"),
        ({"target": 3}, "facts.target: expected an object"),
        ({"target": {"kind": "rocket", "description": "", "site_packages": [], "machine_examined": True}}, "'rocket'"),
        (
            {"target": {"kind": "wheels", "description": 1, "site_packages": [], "machine_examined": True}},
            "description",
        ),
        ({"target": {"kind": "wheels", "description": "", "site_packages": [1], "machine_examined": True}}, r"\[0\]"),
    ],
)
def test_a_wrong_document_is_named_by_place(data: object, place: str) -> None:
    with pytest.raises(DocumentError, match=place):
        from_json(Facts, data, "facts")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
    )
)
def test_no_json_makes_the_reader_fail_in_another_way(data: object) -> None:
    for cls in (Facts, TargetFacts):
        with contextlib.suppress(DocumentError):
            from_json(cls, data)


NEWER = json.dumps({"kind": snapshots.KIND, "written_by": "9.9", "facts": {"schema_version": SCHEMA_VERSION + 1}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a whole snapshot"),
        (snapshots.dump(samples.HEALTHY)[:500], "is not a whole snapshot"),
        ("[1]", "is not a snapshot"),
        ('{"kind": "something else"}', "is not a snapshot"),
        ('{"kind": "flexdoctor snapshot"}', "expected an object"),
        (NEWER, "update flexdoctor"),
    ],
)
def test_a_broken_snapshot_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(snapshots.SnapshotError, match=message) as caught:
        snapshots.parse(text, "s.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("expires", [None, datetime.date(2027, 3, 31)])
def test_a_day_survives_the_round_trip(expires: datetime.date | None) -> None:
    waiver = Waiver("FD114", "known", expires)
    assert from_json(Waiver, json.loads(json.dumps(to_json(waiver)))) == waiver


def test_what_is_no_day_is_refused() -> None:
    with pytest.raises(DocumentError, match="expires: expected date, found str"):
        from_json(Waiver, {"code": "FD114", "reason": "known", "expires": "2027-02-30"})
