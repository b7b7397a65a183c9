"""What can be read of a fault beyond its one line: a page per code, in a TOML file that lies beside the check.

A check names its file in `Check.pages`; only `flexdoctor explain` and the tests open it. One table per code:

    [FD121]
    errors = ["..."]           # optional: what a person sees, word for word
    means.en = "..."           # what it means
    means.zh = "..."
    why.en = "..."             # why it happens on Ascend
    why.zh = "..."
    confirm.en = "..."         # how to confirm it by hand
    confirm.zh = "..."
    confirm.run = ["..."]      # optional, also for fix and undo: commands to type, the same in both languages
    fix.en = "..."             # what mends it
    fix.zh = "..."
    cost.en = "..."            # what that costs: a download, a restart, a loss, a risk
    cost.zh = "..."
    undo.en = "..."            # how to take it back
    undo.zh = "..."
    sources = ["..."]          # an address, or a package with its version, file and line; with a date where known
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from flexdoctor import chain, waivers
from flexdoctor.plugins import loading
from flexdoctor.text import NOTHING, Text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from flexdoctor.findings import Fault
    from flexdoctor.knowledge.signatures import Signature
    from flexdoctor.treatment.plan import Fix

Topic = Literal["means", "why", "confirm", "fix", "cost", "undo"]
TOPICS: tuple[Topic, ...] = ("means", "why", "confirm", "fix", "cost", "undo")
#: Topics that may carry commands.
_WITH_COMMANDS = ("confirm", "fix", "undo")
#: A blank between two Chinese characters, or beside a full-width sign.
_BREAK_IN_CHINESE = re.compile(
    r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])|(?<=[，。、；：？！）》”]) | (?=[，。、；：？！（）《》“”])"
)

_MISSING = Text("is missing", "缺失")


class PageError(Exception):
    """A file of pages cannot be read, or a page in it is not well-formed.

    `message` names file, code and key, in both languages.
    """

    def __init__(self, where: str, what: Text) -> None:
        self.message = Text("{where}:", "{where}：").format(where=where) + what
        super().__init__(self.message.en)


@dataclass(frozen=True)
class Passage:
    """What a page says on one topic, with the commands to type."""

    text: Text
    run: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The page of one code."""

    code: str
    means: Passage
    why: Passage
    confirm: Passage
    fix: Passage
    cost: Passage
    undo: Passage
    sources: tuple[str, ...]
    errors: tuple[str, ...] = ()

    def on(self, topic: Topic) -> Passage:
        """Return what the page says on `topic`."""
        passage: Passage = getattr(self, topic)
        return passage


@dataclass(frozen=True)
class Entry:
    """A code that can be explained: the fault, the link that can name it, and the file with its page."""

    fault: Fault
    link: str
    link_title: Text = NOTHING
    pages: Traversable | None = None

    @property
    def code(self) -> str:
        """The code of the fault."""
        return self.fault.code


@dataclass(frozen=True)
class Explained:
    """All that is known of one code. A check of somebody else may come without a page."""

    entry: Entry
    page: Explanation | None = None
    #: Errors of the knowledge that stand for this code.
    signatures: tuple[Signature, ...] = ()
    #: Remedies of `flexdoctor fix` that mend it.
    fixes: tuple[Fix, ...] = ()


def entries(links: Sequence[chain.Check]) -> tuple[Entry, ...]:
    """Return every code: those that are of no link of its own, then those of the links in order."""
    any_link = Text("any link", "任一环节")
    crash = Entry(chain.CRASH, "any", any_link, chain.PAGES)
    settings = [Entry(fault, waivers.LINK, Text("configuration", "配置"), waivers.PAGES) for fault in waivers.FAULTS]
    plugin = Entry(loading.FAILED, loading.LINK, Text("checks of others", "第三方检查"), loading.PAGES)
    return (
        crash,
        *settings,
        plugin,
        *(Entry(fault, link.link, link.title, link.pages) for link in links for fault in link.faults),
    )


def page_of(entry: Entry) -> Explanation | None:
    """Return the page of one code; None when its check came without one.

    Raises:
        PageError: the file is broken.
    """
    return None if entry.pages is None else _loaded(cast("Any", entry.pages)).get(entry.code)


@functools.cache
def _loaded(pages: Any) -> dict[str, Explanation]:
    return load(pages)


def load(pages: Traversable) -> dict[str, Explanation]:
    """Read a file of pages.

    Raises:
        PageError: it cannot be read, is no TOML, or a page lacks something.
    """
    try:
        document = tomllib.loads(pages.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        what = Text("cannot be read: {why}", "不可读：{why}").format(why=getattr(error, "strerror", None) or error)
        raise PageError(str(pages), what) from error
    except tomllib.TOMLDecodeError as error:
        raise PageError(str(pages), Text("{why}", "{why}").format(why=error)) from error
    return {code: _explanation(code, table, f"{pages}: {code}") for code, table in document.items()}


def _explanation(code: str, table: Any, where: str) -> Explanation:
    if not isinstance(table, Mapping):
        raise PageError(where, Text("expected a table, found {kind}", "应为表，实为 {kind}").format(kind=_kind(table)))
    _refuse_strange(table, (*TOPICS, "sources", "errors"), where)
    passages = {topic: _passage(table.get(topic), f"{where}.{topic}", topic in _WITH_COMMANDS) for topic in TOPICS}
    sources = _lines(table.get("sources"), f"{where}.sources")
    errors = _lines(table["errors"], f"{where}.errors") if "errors" in table else ()
    return Explanation(code, **passages, sources=sources, errors=errors)


def _refuse_strange(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    if strange := next((key for key in table if key not in known), None):
        raise PageError(where, Text("there is no key {key}", "没有名为 {key} 的键").format(key=strange))


def _kind(value: Any) -> str:
    return type(value).__name__


def _passage(value: Any, where: str, with_commands: bool) -> Passage:
    if not isinstance(value, Mapping):
        raise PageError(where, _MISSING if value is None else Text("expected .en and .zh", "应有 .en 与 .zh"))
    _refuse_strange(value, ("en", "zh", "run") if with_commands else ("en", "zh"), where)
    run = _lines(value["run"], f"{where}.run") if "run" in value else ()
    return Passage(Text(_prose(value.get("en"), f"{where}.en"), _prose(value.get("zh"), f"{where}.zh")), run)


def _prose(value: Any, where: str) -> str:
    """Return one paragraph: a line break in the file is for those who read the file."""
    if value is None:
        raise PageError(where, _MISSING)
    if not isinstance(value, str) or not value.strip():
        raise PageError(where, Text("expected a text", "应为文字"))
    # Chinese needs no blank where a line was broken, but for the one between it and a word in Latin letters.
    return _BREAK_IN_CHINESE.sub("", " ".join(value.split()))


def _lines(value: Any, where: str) -> tuple[str, ...]:
    if value is None:
        raise PageError(where, _MISSING)
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item.strip() for item in value):
        raise PageError(where, Text("expected a list of texts", "应为文字列表"))
    return tuple(value)
