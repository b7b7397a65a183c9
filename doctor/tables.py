"""Tables that people write, in TOML: read with clear errors, and held against one list of the keys that there are."""

from __future__ import annotations

import datetime
import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Kind = Literal["text", "flag", "seconds", "date", "texts", "table", "tables"]
#: Nobody writes more by hand; a folder or a device in place of a file is told apart before.
MAX_BYTES = 4 * 1024 * 1024
_DATE = r"^\d{4}-\d{2}-\d{2}$"
_EXPECTED = {
    "text": "text",
    "flag": "true or false",
    "seconds": "a number of seconds above 0",
    "date": "a date like 2027-03-31",
    "texts": "a list of texts",
    "table": "a table",
    "tables": "a list of tables",
}


class TableError(Exception):
    """A file cannot be used. One line: which file, which key, what was expected and what was found."""


@dataclass(frozen=True)
class Key:
    """What a key of a table may hold."""

    kind: Kind
    required: bool = False
    choices: tuple[str, ...] = ()
    #: What a text, or each text of a list, must look like; `looks` says so in words.
    pattern: str = ""
    looks: str = ""
    #: Of a table: its keys. None: any name, each held against `each`.
    keys: Mapping[str, Key] | None = None
    each: Key | None = None
    #: The names that `each` goes by.
    names: str = ""
    #: A text that stands for a table with this one key.
    short: str = ""
    #: A single text stands for a list of one.
    single: bool = False
    means: str = ""


@dataclass(frozen=True)
class Shape:
    """The keys of a whole document, and what to say of those that are not there but that people look for."""

    keys: Mapping[str, Key]
    #: What the schema calls it.
    title: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)


def read_toml(path: Path, *, only_with: str = "") -> dict[str, Any] | None:
    """Return the content of a TOML file; None where it does not even mention `only_with`.

    Raises:
        TableError: it cannot be read, is not UTF-8, or is not TOML; with the line where there is one.
    """
    try:
        if not path.is_file():
            raise TableError(f"{path}: expected a file, found {'a folder' if path.is_dir() else 'none'}")
        if path.stat().st_size > MAX_BYTES:
            raise TableError(f"{path} is too large: more than {MAX_BYTES // 1024 // 1024} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from error
    if only_with and only_with.encode() not in data:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TableError(f"{path}:{line}: expected UTF-8, found the byte 0x{data[error.start]:02x}") from error
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        at_end = f":{text.count(chr(10)) + (not text.endswith(chr(10)))}" if "end of document" in str(error) else ""
        line_ = f":{found[1]}" if found else at_end
        raise TableError(f"{path}{line_}: not valid TOML: {error or 'nested too deeply'}") from error


def hold(data: object, shape: Shape, where: str) -> dict[str, Any]:
    """Return `data` with dates as dates and short forms as tables, once it has the shape.

    Raises:
        TableError: a key is unknown, missing, or holds something else than it should.
    """
    return _table(data, shape.keys, where, shape.elsewhere)


def _table(data: object, keys: Mapping[str, Key], where: str, elsewhere: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TableError(f"{where}: expected a table, found {_found(data)}")
    for name in data:
        if name in elsewhere:
            raise TableError(f"{where}: {name} is not set here; {elsewhere[name]}")
        if name not in keys:
            raise TableError(f"{where}: there is no key {name}{nearest(name, keys)}")
    if missing := next((name for name, key in keys.items() if key.required and name not in data), None):
        raise TableError(f"{where}: {missing} is missing ({keys[missing].means or _EXPECTED[keys[missing].kind]})")
    return {name: _value(value, keys[name], f"{where}: {name}") for name, value in data.items()}


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint at the name that was meant, or at all that there are."""
    names = list(names)
    if near := difflib.get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.5):
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(names)}" if names else "; there are none"


def _value(data: object, key: Key, where: str) -> Any:
    if key.short and isinstance(data, str):
        data = {key.short: data}
    if key.single and isinstance(data, str):
        data = [data]
    if key.kind == "table":
        return _named(data, key, where) if key.keys is None else _table(data, key.keys, where, {})
    if key.kind == "tables":
        return [
            _table(item, key.keys or {}, f"{where}[{number}]", {}) for number, item in enumerate(_list(data, where))
        ]
    if key.kind == "texts":
        return [_text(item, key, f"{where}[{number}]") for number, item in enumerate(_list(data, where))]
    if key.kind == "date":
        return _date(data, where)
    if key.kind == "text":
        return _text(data, key, where)
    if key.kind == "flag" and isinstance(data, bool):
        return data
    if key.kind == "seconds" and isinstance(data, int | float) and not isinstance(data, bool) and 0 < data < 1e6:
        return float(data)
    raise TableError(f"{where}: expected {_EXPECTED[key.kind]}, found {_found(data)}")


def _named(data: object, key: Key, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TableError(f"{where}: expected {key.means or 'a table'}, found {_found(data)}")
    each = key.each or Key("text")
    for name in data:
        if key.names and not re.search(key.names, name):
            raise TableError(f"{where}: expected {key.looks}, found {name!r}")
    return {name: _value(value, each, f"{where}.{name}") for name, value in data.items()}


def _list(data: object, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise TableError(f"{where}: expected a list, found {_found(data)}")
    return data


def _text(data: object, key: Key, where: str) -> str:
    if not isinstance(data, str) or not data.strip():
        choices = f": {', '.join(key.choices)}" if key.choices else ""
        raise TableError(f"{where}: expected {key.looks or 'text'}{choices}, found {_found(data)}")
    if key.choices and data not in key.choices:
        raise TableError(f"{where}: expected one of {', '.join(key.choices)}, found {data!r}")
    if key.pattern and not re.search(key.pattern, data):
        # An address may hold a secret, so it is never repeated.
        found = "something else" if "://" in data else repr(data)
        raise TableError(f"{where}: expected {key.looks}, found {found}")
    return data


def _date(data: object, where: str) -> datetime.date:
    if isinstance(data, datetime.datetime):
        return data.date()
    if isinstance(data, datetime.date):
        return data
    if isinstance(data, str) and re.search(_DATE, data):
        try:
            return datetime.date.fromisoformat(data)
        except ValueError as error:
            raise TableError(f"{where}: expected a date like 2027-03-31, found {data!r}: {error}") from error
    raise TableError(f"{where}: expected a date like 2027-03-31, found {_found(data)}")


def _found(data: object) -> str:
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, str):
        return "nothing" if not data.strip() else "text" if "://" in data else f"the text {data[:80]!r}"
    kinds = ((dict, "a table"), (list, "a list"), (int, f"the number {data}"), (float, f"the number {data}"))
    return next((words for kind, words in kinds if isinstance(data, kind)), type(data).__name__)


def json_schema(shape: Shape) -> dict[str, Any]:
    """Return the JSON Schema of documents of `shape`, for editors: dates stand there as text."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": shape.title, **_schema_of(shape.keys)}


def _schema_of(keys: Mapping[str, Key]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    if required := [name for name, key in keys.items() if key.required]:
        schema["required"] = required
    return {**schema, "properties": {name: _schema(key) for name, key in keys.items()}}


def _schema(key: Key) -> dict[str, Any]:
    about = {"description": key.means} if key.means else {}
    text: dict[str, Any] = {"type": "string", "pattern": key.pattern or r"\S"}
    if key.choices:
        text = {"enum": list(key.choices)}
    if key.kind == "table" and key.keys is None:
        names = {"propertyNames": {"pattern": key.names}} if key.names else {}
        return {"type": "object", **names, "additionalProperties": _schema(key.each or Key("text")), **about}
    if key.kind == "table":
        table = _schema_of(key.keys or {})
        return {**({"oneOf": [text, table]} if key.short else table), **about}
    shapes: dict[str, dict[str, Any]] = {
        "text": text,
        "flag": {"type": "boolean"},
        "seconds": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e6},
        "date": {"type": "string", "format": "date", "pattern": _DATE},
        "texts": {"type": "array", "items": text},
        "tables": {"type": "array", "items": _schema_of(key.keys or {})},
    }
    shape = shapes[key.kind]
    return {**({"oneOf": [text, shape]} if key.single else shape), **about}
