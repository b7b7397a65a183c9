"""Text that exists in English and Chinese."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]


@dataclass(frozen=True)
class Text:
    """One sentence in both languages; `{name}` placeholders are the same in each."""

    en: str
    zh: str

    def format(self, **values: object) -> Text:
        """Fill the placeholders of both languages with the same values."""
        return Text(self.en.format(**values), self.zh.format(**values))

    def __add__(self, other: Text) -> Text:
        """Append a further sentence. Chinese needs no blank between sentences, English does."""
        return Text(f"{self.en} {other.en}".strip(), f"{self.zh}{other.zh}")

    def to(self, language: Language) -> str:
        """Return the sentence in `language`."""
        return self.zh if language == "zh" else self.en


NOTHING = Text("", "")


class UserError(Exception):
    """An error that a person can act on: one sentence that says what was expected, what was found, what to type."""

    def __init__(self, message: Text) -> None:
        super().__init__(message.en)
        self.message = message


def unreadable(what: object, error: OSError) -> Text:
    """Say that a file or folder cannot be read, and why."""
    return Text("{what} cannot be read: {why}", "无法读取 {what}：{why}").format(what=what, why=error.strerror or error)


def user_language(environment: dict[str, str] | None = None) -> Language:
    """Pick the language from LC_ALL, LC_MESSAGES, LANG, in the order that POSIX gives them."""
    variables = os.environ if environment is None else environment
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := variables.get(name):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
