"""Tables that people write, in TOML: read with clear errors, and held against one list of the keys that there are."""

from __future__ import annotations

import datetime
import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from flexdoctor.frozen import dataclass
from flexdoctor.text import NOTHING, Text, UserError, unreadable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Kind = Literal["text", "flag", "seconds", "date", "texts", "table", "tables"]
#: Nobody writes more by hand; a folder or a device in place of a file is told apart before.
MAX_BYTES = 4 * 1024 * 1024
_DATE = r"^\d{4}-\d{2}-\d{2}$"
_EXPECTED = {
    "text": Text("text", "文本"),
    "flag": Text("true or false", "true 或 false"),
    "seconds": Text("a number of seconds above 0", "大于 0 的秒数"),
    "date": Text("a date like 2027-03-31", "形如 2027-03-31 的日期"),
    "texts": Text("a list of texts", "文本列表"),
    "table": Text("a table", "表"),
    "tables": Text("a list of tables", "表的列表"),
}
_LIST = Text("a list", "列表")


class TableError(UserError):
    """A file cannot be used. One line: which file, which key, what was expected and what was found."""


def unexpected(where: object, expected: Text, found: Text) -> TableError:
    """Return the error that something else was expected."""
    return TableError(
        Text("{where}: expected {expected}, found {found}", "{where}：应为{expected}，实际为{found}").format(
            where=where, expected=expected, found=found
        )
    )


@dataclass(frozen=True)
class Key:
    """What a key of a table may hold."""

    kind: Kind
    required: bool = False
    choices: tuple[str, ...] = ()
    #: What a text, or each text of a list, must look like; `looks` says so in words.
    pattern: str = ""
    looks: Text = NOTHING
    #: Of a table: its keys. None: any name, each held against `each`.
    keys: Mapping[str, Key] | None = None
    each: Key | None = None
    #: The names that `each` goes by.
    names: str = ""
    #: A text that stands for a table with this one key.
    short: str = ""
    #: A single text stands for a list of one.
    single: bool = False
    means: Text = NOTHING


@dataclass(frozen=True)
class Shape:
    """The keys of a whole document, and what to say of those that are not there but that people look for."""

    keys: Mapping[str, Key]
    #: What the schema calls it.
    title: str
    elsewhere: Mapping[str, Text] = field(default_factory=dict)


def read_toml(path: Path, *, only_with: str = "") -> dict[str, Any] | None:
    """Return the content of a TOML file; None where it does not even mention `only_with`.

    Raises:
        TableError: it cannot be read, is not UTF-8, or is not TOML; with the line where there is one.
    """
    try:
        if not path.is_file():
            found = Text("a folder", "目录") if path.is_dir() else Text("none", "无此文件")
            raise unexpected(path, Text("a file", "文件"), found)
        if path.stat().st_size > MAX_BYTES:
            said = Text("{path} is too large: more than {size} MiB", "{path} 过大：超过 {size} MiB")
            raise TableError(said.format(path=path, size=MAX_BYTES // 1024 // 1024))
        data = path.read_bytes()
    except OSError as error:
        raise TableError(unreadable(path, error)) from error
    if only_with and only_with.encode() not in data:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = Text("the byte {byte}", "字节 {byte}").format(byte=f"0x{data[error.start]:02x}")
        raise unexpected(f"{path}:{line}", Text("UTF-8", " UTF-8 编码"), byte) from error
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TableError(
            Text("{where}: not valid TOML: {why}", "{where}：不是有效的 TOML：{why}").format(
                where=f"{path}{_line(text, str(error))}", why=error or "nested too deeply"
            )
        ) from error


def _line(text: str, said: str) -> str:
    """Return the line that a parser names, as it stands behind a path."""
    if found := re.search(r"\(at line (\d+), column \d+\)", said):
        return f":{found[1]}"
    return f":{len(text.splitlines()) or 1}" if "end of document" in said else ""


def hold(data: object, shape: Shape, where: str) -> dict[str, Any]:
    """Return `data` with dates as dates and short forms as tables, once it has the shape.

    Raises:
        TableError: a key is unknown, missing, or holds something else than it should.
    """
    return _table(data, shape.keys, where, shape.elsewhere)


def _table(data: object, keys: Mapping[str, Key], where: str, elsewhere: Mapping[str, Text]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise unexpected(where, _EXPECTED["table"], _found(data))
    for name in data:
        if name in elsewhere:
            said = Text("{where}: {name} is not set here; {hint}", "{where}：{name} 不在此处设置；{hint}")
            raise TableError(said.format(where=where, name=name, hint=elsewhere[name]))
        if name not in keys:
            said = Text("{where}: there is no key {name};", "{where}：没有 {name} 这个键；")
            raise TableError(said.format(where=where, name=name) + nearest(name, keys))
    if missing := next((name for name, key in keys.items() if key.required and name not in data), None):
        means = keys[missing].means if keys[missing].means.en else _EXPECTED[keys[missing].kind]
        said = Text("{where}: {name} is missing ({means})", "{where}：缺少 {name}（{means}）")
        raise TableError(said.format(where=where, name=missing, means=means))
    return {name: _value(value, keys[name], f"{where}: {name}") for name, value in data.items()}


def nearest(name: str, names: Iterable[str]) -> Text:
    """Return a hint at the name that was meant, or at all that there are."""
    names = list(names)
    if near := difflib.get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.5):
        return Text("did you mean {near}?", "是否想输入 {near}？").format(near=near[0])
    if not names:
        return Text("there are none", "目前一个也没有")
    return Text("there are {names}", "可用的有 {names}").format(names=", ".join(names))


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
    raise unexpected(where, _EXPECTED[key.kind], _found(data))


def _named(data: object, key: Key, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise unexpected(where, key.means if key.means.en else _EXPECTED["table"], _found(data))
    each = key.each or Key("text")
    for name in data:
        if key.names and not re.search(key.names, name):
            raise unexpected(where, key.looks, _quoted(name))
    return {name: _value(value, each, f"{where}.{name}") for name, value in data.items()}


def _list(data: object, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise unexpected(where, _LIST, _found(data))
    return data


def _text(data: object, key: Key, where: str) -> str:
    choices = Text("one of {names}", " {names} 之一").format(names=", ".join(key.choices))
    expected = choices if key.choices else key.looks if key.looks.en else _EXPECTED["text"]
    if not isinstance(data, str) or not data.strip():
        raise unexpected(where, expected, _found(data))
    if (key.choices and data not in key.choices) or (key.pattern and not re.search(key.pattern, data)):
        raise unexpected(where, expected, _quoted(data))
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
            raise unexpected(where, _EXPECTED["date"], _quoted(data)) from error
    raise unexpected(where, _EXPECTED["date"], _found(data))


def _quoted(data: str) -> Text:
    """Repeat a text, unless it is an address, which may hold a secret."""
    if "://" in data or "@" in data:
        return Text("something else", "其他内容")
    return Text("{data}", " {data}").format(data=repr(data[:80]))


def _found(data: object) -> Text:
    if isinstance(data, bool):
        return Text("true", " true") if data else Text("false", " false")
    if isinstance(data, str):
        return (
            Text("the text {data}", "文本{data}").format(data=_quoted(data)) if data.strip() else Text("nothing", "空")
        )
    if isinstance(data, int | float):
        return Text("the number {data}", "数字 {data}").format(data=data)
    kinds = ((dict, _EXPECTED["table"]), (list, _LIST))
    name = type(data).__name__
    return next((words for kind, words in kinds if isinstance(data, kind)), Text(name, f" {name}"))


def json_schema(shape: Shape) -> dict[str, Any]:
    """Return the JSON Schema of documents of `shape`, for editors: dates stand there as text."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": shape.title, **_schema_of(shape.keys)}


def _schema_of(keys: Mapping[str, Key]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    if required := [name for name, key in keys.items() if key.required]:
        schema["required"] = required
    return {**schema, "properties": {name: _schema(key) for name, key in keys.items()}}


def _schema(key: Key) -> dict[str, Any]:
    about = {"description": key.means.en} if key.means.en else {}
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
