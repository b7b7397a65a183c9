"""Sets of packages that a company adds to what is known: a TOML file in the form of stacks.toml, with its own indexes.

    name = "Example Corp"             # whose they are; shown wherever one of them is named

    [index.corp]
    url = "https://pypi.example.com/simple"
    holds = "our builds of torch-npu"
    source = "platform team's wiki"
    date = 2026-11-30

    [companions]                      # optional: pins of what triton-ascend imports without asking for it
    pybind11 = { version = "3.0.1", source = "platform team", date = 2026-11-30 }

    [[stack]]
    name = "corp-2.13"
    torch = "2.13.0"
    ...                               # the keys of stacks.toml
    indexes = { torch-npu = "corp" }  # this one package comes from there; "vendor" and "pytorch-cpu" are known too

What comes from an index of the company is asked for there alone (`--index-url`), not at the default index. Further
indexes of pip's own settings still count, so builds of your own do best with a local part: 2.13.0+corp1. An address
holds no user, password or token: those belong into ~/.netrc or the keyring, where pip finds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flexdoctor.findings import CAPABILITIES
from flexdoctor.knowledge import load_table, stacks
from flexdoctor.tables import Key, Shape, TableError, hold, nearest, read_toml
from flexdoctor.text import Text

_WORDS = Text("a few words", "简短说明")
_SENTENCE = Key("text", required=True, pattern=r".{3}", looks=_WORDS)
_SOURCE = Key("text", required=True, pattern=r".{3}", looks=_WORDS, means=Text("who says so", "依据来源"))
_DATE = Key("date", required=True, means=Text("of which day that is", "依据的日期"))
_VERSION = Key(
    "text",
    required=True,
    pattern=r"^\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?$",
    looks=Text("a whole version as pip writes it", "pip 格式的完整版本号"),
)
_NAMES = Key("texts", required=True)
SHAPE = Shape(
    title="sets of packages that a company adds to those of flexdoctor",
    keys={
        "name": Key("text", required=True, means=Text("whose sets these are", "组合的提供方")),
        "index": Key(
            "table",
            each=Key(
                "table",
                keys={
                    "url": Key(
                        "text",
                        required=True,
                        pattern=r"^(https?|file)://[^@?#\s]+$",
                        looks=Text(
                            "an address without user, password or token (pip finds those in ~/.netrc or the keyring)",
                            "不含用户名、密码或令牌的地址（pip 会从 ~/.netrc 或 keyring 读取）",
                        ),
                    ),
                    "holds": _SENTENCE,
                    "source": _SOURCE,
                    "date": _DATE,
                },
            ),
        ),
        "companions": Key("table", each=Key("table", keys={"version": _VERSION, "source": _SOURCE, "date": _DATE})),
        "stack": Key(
            "tables",
            required=True,
            keys={
                "name": Key(
                    "text",
                    required=True,
                    pattern=r"^[a-z0-9.-]+$",
                    looks=Text("a name of a-z, 0-9, . and -", "由 a-z、0-9、. 与 - 组成的名称"),
                ),
                "torch": _VERSION,
                "torch_npu": _VERSION,
                "triton_ascend": Key("text", pattern=_VERSION.pattern, looks=_VERSION.looks),
                "cann": _NAMES,
                "pythons": Key(
                    "texts", required=True, pattern=r"^3\.\d+$", looks=Text("a version like 3.11", "形如 3.11 的版本")
                ),
                "architectures": Key("texts", required=True, choices=("aarch64", "x86_64")),
                "indexes": Key(
                    "table",
                    names=r"^(torch|torch-npu|triton-ascend)$",
                    looks=Text("torch, torch-npu or triton-ascend", " torch、torch-npu 或 triton-ascend "),
                    each=Key("text"),
                ),
                "capabilities": Key("texts", required=True, choices=CAPABILITIES),
                "early_import": Key("flag"),
                "evidence": Key("text", choices=stacks.TRUST, required=True),
                "source": _SOURCE,
                "date": _DATE,
                "note": Key("text"),
            },
        ),
    },
)


def load(paths: Iterable[Path]) -> stacks.Overlay:
    """Return what the files add, in their order.

    Raises:
        TableError: a file cannot be used, or names a set that there is already.
    """
    sets: list[stacks.Stack] = []
    companions: dict[str, str] = {}
    indexes: list[str] = []
    where: dict[str, object] = {stack.name: Text("flexdoctor itself", "flexdoctor 自身") for stack in stacks.shipped()}
    for path in paths:
        data = hold(read_toml(path) or {}, SHAPE, str(path))
        urls = {name: row["url"] for name, row in load_table("stacks")["index"].items()}
        own = {name: row["url"] for name, row in data.get("index", {}).items()}
        urls |= own
        indexes += own.values()
        for row in data["stack"]:
            name = row["name"]
            if name in where:
                said = Text(
                    "{path}: stack {name}: {owner} has a set of that name already",
                    "{path}：stack {name}：{owner} 已有同名组合",
                )
                raise TableError(said.format(path=path, name=name, owner=where[name]))
            where[name] = str(path)
            sets.append(_stack(row, urls, data["name"], f"{path}: stack {name}"))
        companions |= {name: row["version"] for name, row in data.get("companions", {}).items()}
    return stacks.Overlay(tuple(sets), companions, tuple(dict.fromkeys(indexes)))


def _stack(row: dict[str, Any], urls: dict[str, str], owner: str, where: str) -> stacks.Stack:
    for distribution, name in row.get("indexes", {}).items():
        if name not in urls:
            said = Text(
                "{where}: indexes.{key}: there is no index {name};", "{where}：indexes.{key}：没有软件源 {name}；"
            )
            raise TableError(said.format(where=where, key=distribution, name=name) + nearest(name, urls))
        if distribution == "triton-ascend" and "triton_ascend" not in row:
            said = Text(
                "{where}: indexes.triton-ascend: this set pins no triton_ascend",
                "{where}：indexes.triton-ascend：该组合未指定 triton_ascend",
            )
            raise TableError(said.format(where=where))
    return stacks.stack_of({"early_import": False, "note": "", **row}, urls, owner)
