"""What a report must not tell when it is posted in public: home folders, the user, the machine, credentials in URLs."""

from __future__ import annotations

import os
import platform
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexdoctor.facts import Facts

#: Names that say nothing about anybody; to replace them would only garble the report.
_NOBODY = frozenset({"root", "user", "admin", "ubuntu", "runner", "localhost", "docker", "ascend", "npu", "torch"})
#: Where a path may begin: behind what is no part of one (a Chinese character is none), a scheme, an option like `-L`.
_BEGIN = r"(?:(?<![A-Za-z0-9_./-])|(?<=://)|(?<=-[A-Za-z])(?<![A-Za-z0-9_./-]-[A-Za-z]))"
_HOME = re.compile(_BEGIN + r"(?:/(?:home|Users|data/home)/[^/\s:'\"]+|/root(?![A-Za-z0-9_-]|\.[A-Za-z0-9_]))")
#: What makes another word of a name that it touches. Chinese is written without spaces around a name.
_LETTER = r"[^\W\u3400-\u9fff]"
_CREDENTIALS = re.compile(r"://[^/\s@]+@")
_SECRET = re.compile(r"([?&][\w.-]*(?:token|key|password|secret)=)[^&\s'\"#]+", re.IGNORECASE)


class Redaction:
    """Takes out of a text whatever tells who ran this and where."""

    def __init__(self, facts: Facts) -> None:
        user = facts.machine.user.name if facts.machine and facts.machine.user else None
        names = {
            "user": {user, os.environ.get("USER"), os.environ.get("LOGNAME")},
            "host": {platform.node(), os.environ.get("HOSTNAME")},
        }
        kept = _NOBODY | {dist.name for dist in facts.packages.distributions}
        self._names = [
            (re.compile(rf"(?<!{_LETTER})(?<![.-]){re.escape(name)}(?!{_LETTER}|-)", re.IGNORECASE), f"({kind})")
            for kind, given in names.items()
            for name in given
            if name and len(name) > 2 and name.lower() not in kept
        ]

    def __call__(self, text: str) -> str:
        """Return `text` without them."""
        text = _SECRET.sub(r"\1(secret)", _CREDENTIALS.sub("://", _HOME.sub("~", text)))
        for pattern, stand_in in self._names:
            text = pattern.sub(stand_in, text)
        return text
