"""Frozen dataclasses to JSON and back, one to one.

The hinge between reading and judging is a tree of frozen dataclasses. It is written to snapshots, so the mapping
must be exact in both directions; a field that an older document lacks takes its default.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class DocumentError(ValueError):
    """A document does not have the shape that its type asks for."""


def to_json(value: object) -> Any:
    """Return `value` as JSON data: dataclasses as objects, tuples as arrays, days as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def from_json(cls: type[T], data: object, where: str = "document") -> T:
    """Build a `cls` from JSON data.

    Raises:
        DocumentError: a value has the wrong type or a field without default is missing; the text names the place.
    """
    result: T = _convert(cls, data, where)
    return result


def _convert(kind: Any, data: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(kind), data, where)
    if origin is Literal:
        if data in get_args(kind):
            return data
        raise DocumentError(f"{where}: {data!r} is not one of {', '.join(map(repr, get_args(kind)))}")
    if origin is tuple:
        if not isinstance(data, list):
            raise DocumentError(f"{where}: expected a list, found {type(data).__name__}")
        (item_kind, *_) = get_args(kind)
        return tuple(_convert(item_kind, item, f"{where}[{index}]") for index, item in enumerate(data))
    if origin in (dict, Mapping):
        if not isinstance(data, dict):
            raise DocumentError(f"{where}: expected an object, found {type(data).__name__}")
        return {str(key): _convert(get_args(kind)[1], item, f"{where}.{key}") for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        return _convert_dataclass(kind, data, where)
    return _convert_plain(kind, data, where)


def _convert_plain(kind: Any, data: Any, where: str) -> Any:
    if kind is datetime.date and isinstance(data, str):
        with contextlib.suppress(ValueError):
            return datetime.date.fromisoformat(data)
    if isinstance(kind, type) and (isinstance(data, kind) and not (kind is int and isinstance(data, bool))):
        return data
    raise DocumentError(f"{where}: expected {getattr(kind, '__name__', kind)}, found {type(data).__name__}")


def _convert_union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    (kind,) = [kind for kind in kinds if kind is not type(None)]
    return _convert(kind, data, where)


def _convert_dataclass(cls: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise DocumentError(f"{where}: expected an object, found {type(data).__name__}")
    values = {}
    for field in dataclasses.fields(cls):
        if field.name in data:
            values[field.name] = _convert(_hints(cls)[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DocumentError(f"{where}: {field.name} is missing")
    return cls(**values)
