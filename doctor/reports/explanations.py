"""What every form of a page says in the same way."""

from __future__ import annotations

import re

from flexdoctor.findings import Fault
from flexdoctor.pages import Explained, Topic
from flexdoctor.reports.words import CAPABILITY
from flexdoctor.text import Language, Text

LABEL: dict[Topic, Text] = {
    "means": Text("means", "含义"),
    "why": Text("why", "原因"),
    "confirm": Text("confirm", "确认"),
    "fix": Text("fix", "修复"),
    "cost": Text("cost", "代价"),
    "undo": Text("undo", "撤销"),
}
BY_HAND = Text("by hand", "手动")
SEE = Text("you see", "现象")
SOURCE = Text("source", "来源")
LINK = Text("link {link}", "环节 {link}")
NO_PAGE = Text("the check that names this code came without a page for it", "给出此代码的检查没有附带说明页")

_PLACEHOLDERS = re.compile(r"\{\w+\}(?:\s*\{\w+\})*")
#: After a stop that is not the one of "e.g.".
_SENTENCE_END = re.compile(r"(?<=[^\s.]\.)(?<!\.[a-z]\.)\s+|(?<=。)")


def title_of(fault: Fault, language: Language) -> str:
    """Return the title of a fault; what only an environment can fill in is left open."""
    return _PLACEHOLDERS.sub("…", fault.title.to(language))


def effect_of(fault: Fault, language: Language) -> str:
    """Say what a fault takes away, or how much it counts where it takes away none of the capabilities."""
    if fault.affects:
        names = "、" if language == "zh" else ", "
        text = Text("takes away {names}", "影响：{names}")
        return text.format(names=names.join(CAPABILITY[name].to(language) for name in fault.affects)).to(language)
    if fault.severity == "error":
        text = Text("an error, though it takes away none of the four capabilities", "故障，但不影响四项能力")
    elif fault.severity == "warning":
        text = Text("a warning", "警告")
    else:
        text = Text("leaves open what its link asks", "该环节无法判断")
    return text.to(language)


def automatic(item: Explained, language: Language) -> str | None:
    """Say what `flexdoctor fix` does about it."""
    if not item.fixes:
        return None
    titles = ("；" if language == "zh" else "; ").join(fix.title.to(language) for fix in item.fixes)
    text = Text(
        "`flexdoctor fix` plans it, where it can be done: {titles}", "`flexdoctor fix` 会在可行时处理：{titles}"
    )
    return text.format(titles=titles).to(language)


def first_sentence(text: str) -> str:
    """Return the first sentence of a paragraph."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]


def seen(item: Explained, language: Language) -> list[str]:
    """Return the errors that this fault shows itself by: word for word where the page has them, else what they say."""
    if item.page and item.page.errors:
        return list(item.page.errors)
    return [signature.meaning.to(language) for signature in item.signatures]
