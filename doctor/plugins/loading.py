"""From names in the configuration to links of the chain."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from flexdoctor.chain import Check
from flexdoctor.configuration_file import CODE
from flexdoctor.facts import Facts
from flexdoctor.findings import Evidence, Fault, Finding
from flexdoctor.plugins.process import FailedError, PluginProcess
from flexdoctor.readers.trees import fold_home
from flexdoctor.serialise import DocumentError, from_json, to_json
from flexdoctor.tables import nearest
from flexdoctor.text import Text, UserError

GROUP = "flexdoctor.checks"
FAILED = Fault(
    "FD004",
    Text("the check of the plugin {plugin} failed: {why}", "插件 {plugin} 的检查失败：{why}"),
)
FAULTS = (FAILED,)
#: The name under which `flexdoctor explain` lists it; in a report it stands at the link of the plugin.
LINK = "plugins"
PAGES = Path(__file__).with_suffix(".toml")
#: How much of an error's words a title takes.
_MOST = 300
_STATUSES = ("pass", "fail", "skipped", "unknown")

Show = Callable[[str, str], None]


class PluginError(UserError):
    """Plugins cannot be used as they were named: one line that names them, and what there is."""


@dataclass(frozen=True)
class Plugin:
    """An entry point, and the distribution that brings it."""

    name: str
    value: str
    distribution: str


def installed() -> tuple[Plugin, ...]:
    """Return the plugins beside flexdoctor, by name. None of them is imported."""
    found = {
        (point.name, point.value, _distribution(point)): Plugin(point.name, point.value, _distribution(point))
        for point in entry_points(group=GROUP)
    }
    return tuple(sorted(found.values(), key=lambda item: (item.name, item.distribution)))


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "?"


def pick(names: Sequence[str], where: str) -> tuple[Plugin, ...]:
    """Return the plugins of these names.

    Raises:
        PluginError: one is not installed, or two distributions bring one of the same name.
    """
    there = installed()
    picked = []
    for name in names:
        same = [item for item in there if item.name == name]
        if not same:
            known = [item.name for item in there]
            none = Text("no installed distribution brings one", "已安装的软件包均未提供")
            said = Text(
                "{where}: there is no plugin {name} beside flexdoctor;", "{where}：flexdoctor 旁没有插件 {name}；"
            )
            raise PluginError(said.format(where=where, name=name) + (nearest(name, known) if known else none))
        if len(same) > 1:
            names = [item.distribution for item in same]
            said = Text("{where}: {names} both bring a plugin {name}", "{where}：{names} 都提供插件 {name}")
            both = Text(" and ".join(names), " 与 ".join(names))
            raise PluginError(said.format(where=where, names=both, name=name))
        picked += same
    return tuple(picked)


@contextmanager
def joined(
    chain: tuple[Check, ...], plugins: Sequence[Plugin], *, seconds: float, show: Show, alone: bool = False
) -> Iterator[tuple[Check, ...]]:
    """Give `chain` with the checks of `plugins` in their places; their processes end with the context.

    Args:
        seconds: how long each answer of a plugin may take.
        show: told the name of a plugin and what it printed.
        alone: the links that a check requires are not in `chain` and are taken to hold.

    Raises:
        PluginError: a plugin brings a link or a code that is taken, or wants a place that there is not.
    """
    with ExitStack() as stack:
        owners = dict.fromkeys((check.link for check in chain), Text("flexdoctor itself", "flexdoctor 自身"))
        codes: dict[str, Text] = {}
        for plugin in plugins:
            process = PluginProcess(plugin.value, seconds, partial(show, plugin.name))
            stack.callback(process.close)
            for check in _checks(plugin, process, owners):
                _claim(plugin, check, owners, codes)
                if alone:
                    check = dataclasses.replace(check, requires=(), after=None)  # noqa: PLW2901
                chain = _place(plugin, check, chain)
        yield chain


def _checks(plugin: Plugin, process: PluginProcess, taken: Container[str]) -> list[Check]:
    try:
        described = _clean(process.ask({"do": "describe"}))
        return [_remote(plugin, process, row) for row in described]
    except FailedError as failure:
        return [_broken(plugin, failure, taken)]
    except (DocumentError, RecursionError) as error:
        return [
            _broken(
                plugin,
                FailedError(Text("it describes itself wrongly: {why}", "其声明有误：{why}").format(why=error)),
                taken,
            )
        ]


def _broken(plugin: Plugin, failure: FailedError, taken: Container[str]) -> Check:
    """Return a link in place of the plugin's, that says why there is none; its name is none of those `taken`."""
    link = "plugin_" + re.sub(r"[^a-z0-9]+", "_", plugin.name.lower()).strip("_")
    while link in taken:
        link += "_"
    name = Text(plugin.name, plugin.name)
    return Check(link=link, title=name, question=name, faults=(), examine=lambda _: [_failed(plugin, link, failure)])


def _failed(plugin: Plugin, link: str, failure: FailedError, check: Check | None = None) -> Finding:
    place = failure.place
    origin = f"{plugin.value} of {plugin.distribution}"
    evidence = [Evidence("metadata", f"{GROUP}: {plugin.name} = {origin}")]
    if place and place.path:
        evidence.insert(0, Evidence("probe", _clean(place.text), path=_clean(fold_home(place.path)), line=place.line))
    return Finding(
        link=link,
        status="crashed",
        code=FAILED.code,
        title=FAILED.title.format(
            plugin=plugin.name,
            why=Text(*(_clean(" ".join(words.split())[:_MOST]) for words in (failure.message.en, failure.message.zh))),
        ),
        evidence=tuple(evidence),
        remedy=Text(
            "tell those who make {name}; without it: take it out of `plugins`",
            "请反馈给 {name} 的维护者；如需停用，可将其从 `plugins` 中移除",
        ).format(name=plugin.distribution),
        affects=check.affects if check else (),
    )


def _remote(plugin: Plugin, process: PluginProcess, row: dict[str, Any]) -> Check:
    """Return a check that is examined in the plugin's process."""
    link = row["link"]
    if not isinstance(link, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", link):
        raise DocumentError(f"link: expected a name of a-z, 0-9 and _, found {link!r}")
    faults = tuple(from_json(Fault, item, f"{link}: fault") for item in row["faults"])
    for fault in faults:
        if not re.search(CODE, fault.code) or fault.code.startswith("FD"):
            raise DocumentError(
                f"code {fault.code}: expected two to five capital letters of its own, not FD, and digits"
            )
    check = Check(
        link=link,
        title=from_json(Text, row["title"], f"{link}: title"),
        question=from_json(Text, row["question"], f"{link}: question"),
        faults=faults,
        examine=lambda _: (),
        requires=from_json(_Names, {"names": row["requires"]}, link).names,
        after=row["after"] if isinstance(row["after"], str) else None,
    )
    if row["pages"]:
        check = dataclasses.replace(check, pages=Path(str(row["pages"])))
    return dataclasses.replace(check, examine=partial(_examine, plugin, process, check))


@dataclass(frozen=True)
class _Names:
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Findings:
    findings: tuple[Finding, ...]


def _examine(plugin: Plugin, process: PluginProcess, check: Check, facts: Facts) -> list[Finding]:
    try:
        answer = _clean(process.ask({"do": "examine", "link": check.link, "facts": to_json(facts)}))
        findings = from_json(_Findings, {"findings": answer}, check.link).findings
        for finding in findings:
            _accept(finding, check)
    except FailedError as failure:
        return [_failed(plugin, check.link, failure, check)]
    except (DocumentError, RecursionError) as error:
        return [
            _failed(
                plugin,
                check.link,
                FailedError(Text("it gave what is no finding: {why}", "其返回的不是有效结果：{why}").format(why=error)),
                check,
            )
        ]
    return [_only_said(finding) for finding in findings]


def _only_said(finding: Finding) -> Finding:
    """Take away what is not a plugin's to say: that a fault is waived, refuted or blocked, and what does not count."""
    severity = finding.severity if finding.status == "fail" else "none"
    return dataclasses.replace(finding, waiver=None, proves=(), blocked_by=None, severity=severity)


def _clean(value: Any) -> Any:
    """Return what a plugin sent with each text on one line, and control characters as they are written in code."""
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(" " if char.isspace() else char if char.isprintable() else _escaped(char) for char in value)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _accept(finding: Finding, check: Check) -> None:
    """Refuse what would speak for another link, or with a code that nobody can look up.

    Raises:
        DocumentError: it is such a finding.
    """
    codes = [fault.code for fault in check.faults]
    if finding.link != check.link:
        raise DocumentError(f"it speaks for the link {finding.link}, not for {check.link}")
    if finding.status not in _STATUSES:
        raise DocumentError(f"status: expected one of {', '.join(_STATUSES)}, found {finding.status!r}")
    if finding.code not in (None, *codes) or (finding.code is None and finding.status == "fail"):
        raise DocumentError(f"code: expected one of {', '.join(codes) or 'no'} faults, found {finding.code}")


def _claim(plugin: Plugin, check: Check, links: dict[str, Text], codes: dict[str, Text]) -> None:
    taken = Text("plugin {name}: {owner} has a link {link} already", "插件 {name}：{owner}已有环节 {link}")
    if check.link in links:
        raise PluginError(taken.format(name=plugin.name, owner=links[check.link], link=check.link))
    owner = Text("plugin {name}", "插件 {name} ").format(name=plugin.name)
    links[check.link] = owner
    taken = Text("plugin {name}: {owner} has a code {code} already", "插件 {name}：{owner}已有代码 {code}")
    for fault in check.faults:
        if fault.code in codes:
            raise PluginError(taken.format(name=plugin.name, owner=codes[fault.code], code=fault.code))
        codes[fault.code] = owner


def _place(plugin: Plugin, check: Check, chain: tuple[Check, ...]) -> tuple[Check, ...]:
    """Put a check behind the link that it names, else at the end; what it requires must come before it."""
    links = [item.link for item in chain]
    absent = Text("plugin {name}: {key}: there is no link {link};", "插件 {name}：{key}：没有环节 {link}；")
    if check.after is not None and check.after not in links:
        raise PluginError(absent.format(name=plugin.name, key="after", link=check.after) + nearest(check.after, links))
    position = links.index(check.after) + 1 if check.after is not None else len(links)
    for wanted in check.requires:
        if wanted not in links:
            raise PluginError(absent.format(name=plugin.name, key="requires", link=wanted) + nearest(wanted, links))
        if links.index(wanted) >= position:
            said = Text(
                "plugin {name}: {link} requires {wanted}, but stands before it (after {after})",
                "插件 {name}：{link} 依赖 {wanted}，却排在其之前（位于 {after} 之后）",
            )
            raise PluginError(said.format(name=plugin.name, link=check.link, wanted=wanted, after=check.after))
    return (*chain[:position], check, *chain[position:])
