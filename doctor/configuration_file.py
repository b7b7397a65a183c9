"""What a project has settled: `[tool.flexdoctor]` of pyproject.toml, or flexdoctor.toml.

The nearest one counts: of the current folder, else of the first parent that has one, up to the root of the repository
(.git, .hg, .svn) or the home folder. In one folder flexdoctor.toml wins. Flags beat environment variables, and both
beat the file. What is a matter of taste or of one run (format, language, colour, output) is not settled there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flexdoctor.configuration import OWN_FILE, PLUGIN_SECONDS, SHARED_FILE, Configuration, folders_with_files
from flexdoctor.findings import CAPABILITIES, Waiver
from flexdoctor.readers.trees import fold_home
from flexdoctor.tables import Key, Shape, TableError, hold, read_toml, unexpected
from flexdoctor.text import Text

#: The code of a finding, of our own or of somebody else's check.
CODE = r"^[A-Z]{2,5}\d{2,4}$"
#: Of the target options at most one may be given; the others say more about it.
TARGETS = ("python", "site-packages", "requirements", "wheels", "snapshot")

_PATH = Key("text", means=Text("a path, relative to the folder of this file", "路径，相对于该文件所在目录"))
SHAPE = Shape(
    title="flexdoctor settings: flexdoctor.toml, or [tool.flexdoctor] of pyproject.toml",
    keys={
        "select": Key(
            "texts", means=Text("show only these codes, code prefixes or links", "仅显示这些代码、代码前缀或环节")
        ),
        "ignore": Key(
            "table",
            names=CODE,
            looks=Text("a code like FD114", "形如 FD114 的代码"),
            each=Key(
                "table",
                short="reason",
                keys={
                    "reason": Key("text", required=True, means=Text("why it is accepted", "豁免原因")),
                    "expires": Key("date", means=Text("the last day on which it is accepted", "豁免的最后一天")),
                },
            ),
            means=Text(
                'a table of codes with the reason for each: ignore.FD114 = "why"',
                '由代码与原因组成的表：ignore.FD114 = "原因"',
            ),
        ),
        "fail-on": Key(
            "text",
            choices=("error", "warning"),
            means=Text("exit with 1 from this severity on", "自该严重级别起退出码为 1"),
        ),
        "strict": Key("flag", means=Text("exit with 3 when something is unknown", "有无法判断的项目时退出码为 3")),
        "require": Key(
            "text",
            choices=CAPABILITIES,
            means=Text("what must work; decides which faults are errors", "必须可用的能力；决定哪些故障算错误"),
        ),
        "target": Key(
            "table",
            keys={
                **dict.fromkeys(TARGETS, _PATH),
                "root": _PATH,
                "env-file": _PATH,
                "platform": Key(
                    "text",
                    means=Text(
                        "for requirements and wheels: linux_aarch64 or linux_x86_64",
                        "用于 requirements 与 wheels：linux_aarch64 或 linux_x86_64",
                    ),
                ),
                "python-version": Key(
                    "text",
                    means=Text("for requirements and wheels: the Python", "用于 requirements 与 wheels：Python 版本"),
                ),
            },
            means=Text("what to examine where the command line names nothing", "命令行未指定时的检查对象"),
        ),
        "knowledge": Key(
            "texts", single=True, means=Text("files with sets of packages of your own", "自定义软件包组合的文件")
        ),
        "plugins": Key(
            "texts",
            means=Text(
                "checks of other distributions to run, by the name of their entry point",
                "要运行的第三方检查，以其入口点名称指定",
            ),
        ),
        "plugin-time-limit": Key(
            "seconds", means=Text("how long a check of a plugin may take, 10 by default", "插件检查的时限，默认 10 秒")
        ),
    },
    elsewhere={
        "tool": Text(
            "in a file of flexdoctor alone the keys stand at the top, without [tool.flexdoctor]",
            "flexdoctor 专用文件中的键直接写在顶层，不带 [tool.flexdoctor]",
        ),
        "format": Text("use --format or FLEXDOCTOR_FORMAT", "请用 --format 或 FLEXDOCTOR_FORMAT"),
        "output": Text("use --output", "请用 --output"),
        "lang": Text("use --lang or FLEXDOCTOR_LANG", "请用 --lang 或 FLEXDOCTOR_LANG"),
        "color": Text("use --color, NO_COLOR or FORCE_COLOR", "请用 --color、NO_COLOR 或 FORCE_COLOR"),
        "exit-zero": Text("use --exit-zero", "请用 --exit-zero"),
    },
)


def load(path: Path) -> Configuration:
    """Return what one file settles; any name but pyproject.toml is taken for a file of ours alone.

    Raises:
        TableError: it cannot be used.
    """
    document = read_toml(path) or {}
    if path.name == SHARED_FILE:
        table = _own_table(document, path)
        if table is None:
            raise TableError(
                Text("{path} has no table [tool.flexdoctor]", "{path} 中没有 [tool.flexdoctor] 表").format(path=path)
            )
        return _settle(table, path, f"{path}: tool.flexdoctor")
    return _settle(document, path, str(path))


def find(start: Path | None = None) -> Configuration:
    """Return what the nearest file settles, looked for from `start` upwards.

    Raises:
        TableError: it cannot be used.
    """
    for place in folders_with_files(start):
        own, shared = place / OWN_FILE, place / SHARED_FILE
        in_shared = _own_table(read_toml(shared, only_with="flexdoctor") or {}, shared) if shared.is_file() else None
        if own.exists() or own.is_symlink():
            found = load(own)
            return Configuration(**{**found.__dict__, "beside": shared if in_shared is not None else None})
        if in_shared is not None:
            return _settle(in_shared, shared, f"{shared}: tool.flexdoctor")
    return Configuration()


def _own_table(document: dict[str, Any], path: Path) -> dict[str, Any] | None:
    tool = document.get("tool", {})
    if not isinstance(tool, dict) or "flexdoctor" not in tool:
        return None
    if not isinstance(tool["flexdoctor"], dict):
        raise unexpected(f"{path}: tool.flexdoctor", Text("a table", "表"), Text("something else", "其他内容"))
    return tool["flexdoctor"]


def _settle(table: dict[str, Any], path: Path, where: str) -> Configuration:
    data = hold(table, SHAPE, where)
    target = data.get("target", {})
    _refuse_contradictions(target, f"{where}: target")
    folder = path.absolute().parent
    return Configuration(
        path=path,
        select=tuple(data.get("select", ())),
        waivers=tuple(
            Waiver(code, row["reason"].strip(), row.get("expires"), path=fold_home(path))
            for code, row in data.get("ignore", {}).items()
        ),
        fail_on=data.get("fail-on"),
        strict=data.get("strict"),
        require=data.get("require"),
        target={
            name.replace("-", "_"): value if name in ("platform", "python-version") else _below(folder, value)
            for name, value in target.items()
        },
        knowledge=tuple(_below(folder, item) for item in data.get("knowledge", ())),
        plugins=tuple(dict.fromkeys(data.get("plugins", ()))),
        plugin_seconds=data.get("plugin-time-limit", PLUGIN_SECONDS),
    )


def _refuse_contradictions(target: dict[str, Any], where: str) -> None:
    named = [name for name in TARGETS if name in target]
    if len(named) > 1:
        said = Text(
            "{where}: {names} are {count} targets; name one", "{where}：{names} 是 {count} 个检查对象，请只指定一个"
        )
        raise TableError(
            said.format(where=where, names=Text(" and ".join(named), " 与 ".join(named)), count=len(named))
        )
    if "root" in target and named != ["site-packages"]:
        raise _alone(where, "root", ["site-packages"])
    if "env-file" in target and "root" not in target:
        raise _alone(where, "env-file", ["root"])
    planned = named[:1] in (["requirements"], ["wheels"])
    if stray := next((name for name in ("platform", "python-version") if name in target and not planned), None):
        raise _alone(where, stray, ["requirements", "wheels"])
    if target.get("requirements") == "-":
        raise unexpected(
            f"{where}: requirements", Text("a path", "路径"), Text("-; only -r reads stdin", " -；仅 -r 读取 stdin")
        )


def _alone(where: str, name: str, partners: Sequence[str]) -> TableError:
    return TableError(
        Text("{where}: {name} goes with {partners}", "{where}：{name} 须与 {partners} 同用").format(
            where=where, name=name, partners=Text(" or ".join(partners), " 或 ".join(partners))
        )
    )


def _below(folder: Path, path: str) -> Path:
    try:
        return folder / Path(path).expanduser()
    except RuntimeError:
        return folder / path
