"""A frozen dataclass of ours does what one of the standard library does."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any

import pytest

from flexdoctor import frozen


def _twin(make: Callable[..., Any]) -> Any:
    @make(frozen=True)
    class Point:
        """A point, made by one way or by the other."""

        x: int
        tags: tuple[str, ...] = ()
        found: dict[str, str] = field(default_factory=dict, compare=False)
        note: str = field(default="", compare=False, repr=False)

        @property
        def doubled(self) -> int:
            return 2 * self.x

    return Point


Ours = _twin(frozen.dataclass)
Theirs = _twin(dataclasses.dataclass)
ARGUMENTS: list[dict[str, Any]] = [{"x": 1}, {"x": 1, "tags": ("a",), "note": "n"}, {"x": 2, "found": {"a": "b"}}]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_says_the_same_of_itself(arguments: dict[str, Any]) -> None:
    ours, theirs = Ours(**arguments), Theirs(**arguments)
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert hash(ours) == hash(theirs)
    assert ours.doubled == theirs.doubled
    assert inspect.signature(Ours).parameters.keys() == inspect.signature(Theirs).parameters.keys()
    assert Ours.__match_args__ == Theirs.__match_args__


@pytest.mark.parametrize("one", ARGUMENTS, ids=str)
@pytest.mark.parametrize("other", [*ARGUMENTS, {"x": 1, "tags": ("a",), "note": "another"}], ids=str)
def test_is_equal_to_what_it_should_be(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (Ours(**one) == Ours(**other)) is (Theirs(**one) == Theirs(**other))
    assert Ours(**one) != Theirs(**one)


def test_cannot_be_changed() -> None:
    point = Ours(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="'other'"):
        point.other = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        del point.x
    assert point == Ours(1)


def test_takes_the_arguments_of_its_fields() -> None:
    assert Ours(1).found is not Ours(1).found
    with pytest.raises(TypeError, match="'x'"):
        Ours()
    with pytest.raises(TypeError, match="'y'"):
        Ours(1, y=2)


def test_is_copied_replaced_and_matched() -> None:
    point = Ours(1, ("a",))
    assert dataclasses.replace(point, x=2) == Ours(2, ("a",))
    assert copy.deepcopy(point) == point
    match point:
        case Ours(x, tags):
            assert (x, tags) == (1, ("a",))
        case _:
            pytest.fail("no match")


@frozen.dataclass(frozen=True)
class Kept:
    """At the top of a module, where pickle finds it."""

    x: int


def test_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(1))) == Kept(1)


@frozen.dataclass(frozen=True)
class Own:
    """Brings a method of its own, and something to do after its start."""

    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")

    def __repr__(self) -> str:
        return "own"


def test_keeps_what_the_class_brings() -> None:
    assert repr(Own(1)) == "own"
    with pytest.raises(ValueError, match="negative"):
        Own(-1)


def test_other_kinds_are_the_standard_librarys() -> None:
    with pytest.raises(TypeError, match="frozen"):
        frozen.dataclass(frozen=False)


def test_inherits_nothing() -> None:
    with pytest.raises(TypeError, match="inherit"):

        @frozen.dataclass(frozen=True)
        class _Below(Kept):
            y: int


@pytest.mark.parametrize("first", ["an object", "its fields"])
def test_is_complete_whoever_asks_first(first: str) -> None:
    made: Any = _twin(frozen.dataclass)
    if first == "an object":
        assert made(1).found == {}
    assert [item.name for item in dataclasses.fields(made)] == [item.name for item in dataclasses.fields(Theirs)]
    assert made(1, note="n") == made(1)
    assert not hasattr(made, "found")
    assert dataclasses.is_dataclass(made)


def test_many_may_ask_at_once() -> None:
    made = _twin(frozen.dataclass)
    start = threading.Barrier(8)

    def use(number: int) -> tuple[dict[str, Any], tuple[str, ...]]:
        start.wait()
        if number % 2:
            return dataclasses.asdict(made(number)), made.__match_args__
        names = made.__match_args__
        return dataclasses.asdict(made(number)), names

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(use, range(8)))
    assert [answer["x"] for answer, _ in answers] == list(range(8))
    assert {names for _, names in answers} == {Theirs.__match_args__}


def _every_class() -> list[type]:
    names = ("facts", "hub_facts", "findings", "chain", "treatment.plan")
    modules = [importlib.import_module(f"flexdoctor.{name}") for name in names]
    return [
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and dataclasses.is_dataclass(item)
    ]


@pytest.mark.parametrize("made", _every_class(), ids=lambda item: item.__name__)
def test_takes_its_fields_in_their_order(made: type) -> None:
    assert list(inspect.signature(made).parameters) == [item.name for item in dataclasses.fields(made)]
