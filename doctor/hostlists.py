"""Names of hosts, many at once: `node[01-16,20]` taken apart and put together, and files that list hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from flexdoctor.text import Text, UserError

_MOST = 1_000_000
_UNBALANCED = Text("brackets do not match in {text!r}", "{text!r} 中的方括号不配对")
_MOST_BRACKETS = 8
_RANGE = re.compile(r"([0-9]{1,18})(?:[-:]([0-9]{1,18}))?\Z")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)\Z", re.DOTALL)


class HostListError(UserError):
    """A list of hosts that cannot be taken apart; one line that says where."""


def expand(text: str) -> list[str]:
    """Return the names in a list such as `node[01-03,7],login1`, in order, each once.

    Raises:
        HostListError: a bracket is open, a range is none, or there are too many.
    """
    names: dict[str, None] = {}
    for part in _split(text):
        for name in _expand_one(part):
            names[name] = None
            if len(names) > _MOST:
                raise HostListError(
                    Text("{text} names more than {most} hosts", "{text} 列出的主机超过 {most} 台").format(
                        text=text[:60], most=_MOST
                    )
                )
    return list(names)


def parse_file(text: str) -> list[str]:
    """Return the names in a host file: one a line, with comments, slots (`slots=8`, `:8`) and INI headings left out.

    Raises:
        HostListError: see `expand`.
    """
    names: dict[str, None] = {}
    in_hosts = True
    for line in text.splitlines():
        word = line.partition("#")[0].partition(";")[0].strip().split()
        if not word:
            continue
        if word[0].startswith("["):
            # An inventory of Ansible: groups of groups and variables name no hosts.
            in_hosts = ":vars]" not in word[0] and ":children]" not in word[0]
            continue
        if in_hosts:
            names.update(dict.fromkeys(expand(re.sub(r":\d+\Z", "", word[0]))))
    return list(names)


def fold(names: Iterable[str]) -> str:
    """Return names in the short notation that `expand` reads, sorted."""
    plain: list[str] = []
    numbered: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(names):
        match = _NUMBERED.match(name)
        # A name that could be misread in the notation stands as it is.
        if match is None or set(name) & set("[],"):
            plain.append(name)
        else:
            start, digits, end = match.groups()
            numbered.setdefault((start, end), []).append(digits)
    shown = []
    for (start, end), found in numbered.items():
        padded = {len(digits) for digits in found if digits.startswith("0") and len(digits) > 1}
        widths: dict[int, list[int]] = {}
        for digits in found:
            widths.setdefault(len(digits) if len(digits) in padded else 0, []).append(int(digits))
        shown += [_fold_run(start, end, width, sorted(numbers)) for width, numbers in widths.items()]
    return ",".join(sorted([*plain, *shown]))


def _fold_run(start: str, end: str, width: int, numbers: list[int]) -> str:
    pieces, first = [], numbers[0]
    for number, following in zip(numbers, [*numbers[1:], -1], strict=True):
        if following != number + 1:
            low, high = f"{first:0{width}d}", f"{number:0{width}d}"
            pieces.append(low if first == number else f"{low}-{high}")
            first = following
    if len(numbers) == 1:
        return f"{start}{pieces[0]}{end}"
    return f"{start}[{','.join(pieces)}]{end}"


def _split(text: str) -> Iterator[str]:
    """Split at commas and blanks outside of brackets."""
    depth, part = 0, ""
    for character in text:
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        if depth < 0 or depth > 1:
            raise HostListError(_UNBALANCED.format(text=text[:60]))
        if not depth and (character == "," or character.isspace()):
            if part:
                yield part
            part = ""
        else:
            part += character
    if depth:
        raise HostListError(_UNBALANCED.format(text=text[:60]))
    if part:
        yield part


def _expand_one(part: str) -> Iterator[str]:
    start, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    if part.count("[") > _MOST_BRACKETS:
        raise HostListError(Text("too many brackets in {text!r}", "{text!r} 中的方括号过多").format(text=part[:60]))
    inner, _, end = rest.partition("]")
    for piece in inner.split(","):
        match = _RANGE.match(piece.strip())
        if match is None:
            raise HostListError(
                Text(
                    "expected numbers like 01-16 in brackets, found {piece!r} in {part!r}",
                    "方括号内应为 01-16 这样的数字，{part!r} 中却是 {piece!r}",
                ).format(piece=piece, part=part)
            )
        low, high = match[1], match[2] or match[1]
        if int(high) < int(low) or int(high) - int(low) > _MOST:
            raise HostListError(
                Text("{piece!r} in {part!r} is no range", "{part!r} 中的 {piece!r} 不是有效范围").format(
                    piece=piece, part=part
                )
            )
        for number in range(int(low), int(high) + 1):
            for tail in _expand_one(end):
                yield f"{start}{number:0{len(low)}d}{tail}"
