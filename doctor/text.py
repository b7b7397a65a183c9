"""Text that exists in English and Chinese."""

from __future__ import annotations

import os
from typing import Literal

from flexdoctor.frozen import dataclass

Language = Literal["en", "zh"]


@dataclass(frozen=True)
class Text:
    """One sentence in both languages; `{name}` placeholders are the same in each."""

    en: str
    zh: str

    def format(self, **values: object) -> Text:
        """Fill the placeholders of both languages with the same values; a text among them with itself."""
        texts = {name: value for name, value in values.items() if isinstance(value, Text)}
        in_chinese = {**values, **{name: value.zh for name, value in texts.items()}}
        in_english = {**values, **{name: value.en for name, value in texts.items()}}
        return Text(self.en.format(**in_english), self.zh.format(**in_chinese))

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
