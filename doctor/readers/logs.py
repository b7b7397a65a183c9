"""A traceback or a whole log, read to what is known of its errors: each kind once, with its place and its ranks.

    with open(path, "rb") as stream:
        facts = read_log(stream, path)

What stands before a line is somebody's who passed it on (torchrun, mpirun, slurm, ray, kubectl, logging, pytest); the
lines of each sender are put together apart from the others'. Everything that is remembered has a bound.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from flexdoctor.knowledge.error_codes import look_up
from flexdoctor.knowledge.signatures import Match, Raised, Signature, log_words, match_line, recognise, unwrap
from flexdoctor.log_facts import Incident, LogFacts, LoggedError
from flexdoctor.readers.log_lines import BLOCK, DIGITS, Line, LogLines

MAX_SENDERS = 512
MAX_FRAMES = 60
MAX_CHAIN = 12
MAX_MESSAGE_LINES = 12
MAX_MESSAGE = 6000
MAX_UNKNOWN = 50
MAX_RANKS = 4096
#: How many lines after a line about an error are looked at, whoever wrote them.
WINDOW = 40
#: So many lines are read whole: a pasted error may hold none of the words that a log is searched for.
SNIPPET = 500
#: From here on a line that was seen this often, but for its digits, is only counted.
OFTEN = 500
MAX_SORTS = 4096
_SHOWN_FRAMES = 8

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
#: A code of the runtime: its digits tell one error from another.
_CODE = r"(?:code|errno|result|[Ee]rr)[^\d\n]{0,8}[1256]\d{5}(?!\d)|\bE[A-Z\d]\d{4}\b|ERR\d{5}"
_CODE_LIKE = re.compile(_CODE.encode())
#: What is between two errors, and keeps them apart.
_HEADING = re.compile(rb"Traceback \(most recent|above exception")
#: Longer lines are not compared with others.
_MAX_SORTED = 1000

# --- what stands before a line ---------------------------------------------------------------------------------------

_TIME = r"\d\d:\d\d:\d\d(?:[.,:]\d+)*"
_SEPARATOR = r"(?: ?[|\-–] | ?: (?=\S)| ?\|(?= )| |(?=$))"
_LEVEL = r"(?:ERROR|WARN(?:ING)?|INFO|DEBUG|CRITICAL|FATAL|TRACE|NOTICE)"
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        # the margin of an exception group
        r" *(?:\| |\+ (?=Exception Group)|[+]-[+-]+(?: \d+ -+)?$)",
        # torchrun and its roles, mpirun, SageMaker, srun -l
        r"\[[A-Za-z_]* ?(?P<rank>\d{1,5})\]:? ?",
        r"\[\d+,mpirank:(?P<rank>\d+),[^\]\s]+\](?:<std(?:err|out|diag)>)?:? ?",
        r"\[\d+,(?P<rank>\d+)\](?:<std(?:err|out|diag)>)?:? ?",
        r"(?:^ *(?P<rank>\d{1,5}): )(?! *\d+%| File \")",
        r"rank ?(?P<rank>\d{1,5}) ?[:|] ?",
        # ray, vLLM and other frameworks that name the process
        r"\((?P<who>[A-Za-z_][\w. :]*?(?: ?rank=(?P<rank>\d+))?),? ?pid=\d+(?:, ip=[\w.:]+)?\)"
        r"(?: \[repeated [^\]]*\])? ?",
        # kubectl --prefix, docker compose
        r"\[pod/(?P<who>[^\]\s]+)\] ?",
        r"(?P<who>[A-Za-z][\w.-]*[\w])(?: +\| )(?=.)",
        # pdsh and DeepSpeed: a host
        r"^(?P<who>[a-z][a-z-]*\d+|\d{1,3}(?:\.\d{1,3}){3}): (?=\S| {2})",
        # a container runtime's own files, `gh run view --log`, `grep -n`
        r"\d{4}-\d\d-\d\dT\S+ std(?:out|err) [FP] ",
        r"[^\t]{1,80}\t[^\t]{1,80}\t\ufeff?(?=\d{4}-\d\d-\d\dT)",
        r"^\d{1,7}[:-](?=[A-Z]| {2})",
        # times of GitHub, GitLab, Kubernetes, journald, logging, glog
        rf"\[?\d{{4}}[-/]\d\d[-/]\d\d[T _-]{_TIME}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?(?: \d\d[EO][+ ]?)?{_SEPARATOR}?",
        rf"\[?(?:\d\d-\d\d )?{_TIME}\]?{_SEPARATOR}",
        rf"(?P<level>[IWEFDC])\d{{4}} {_TIME} +(?:\d+ +)?[\w./<>-]+:\d+\] ?",
        rf"[A-Z][a-z]{{2}} [ \d]\d {_TIME} [\w.-]+ [\w.-]+(?:\[\d+\])?: ",
        # levels and loggers
        rf"\[?(?P<level>{_LEVEL})\]?:?(?: ?[|\-] | +)",
        # "error code is" is no level
        r"\[(?P<level>error|warning|info|debug)\]:?(?: ?[|\-] | +)",
        r"(?P<level>error|warning|info|debug):(?: ?[|\-] | +)",
        r"\[[\w./-]+(?::\w+)+\]:? ?",
        r"[a-z_][\w.]*(?::[\w<>]+)?(?::\d+)(?: ?[-|] |: )(?=\S)",
        r"(?:root|__main__|[a-z_]\w*(?:\.[a-z_]\w*)+) ?[-|:] (?=\S)",
        # pytest, a quotation
        r"E(?: {3}|$)",
        r"> ",
    )
)


@dataclass(frozen=True)
class _Body:
    """A line without what stands before it."""

    text: str
    sender: tuple[str, ...] = ()
    rank: int | None = None
    level: str = ""
    #: How much was taken off.
    taken: int = 0


def _take_off(line: str) -> _Body:
    """Split what was put before a line from the line; its indentation stays."""
    at, rank, level = 0, None, ""
    sender: list[str] = []
    for _ in range(6):
        for pattern in _PREFIXES:
            match = pattern.match(line, at)
            if match is None or match.end() == at:
                continue
            known = match.groupdict()
            if known.get("rank") is not None:
                rank = int(known["rank"])
                sender.append(f"rank {rank}")
            elif known.get("who"):
                sender.append(match[0].strip())
            level = known.get("level") or level
            at = match.end()
            break
        else:
            break
    return _Body(line[at:], tuple(sender), rank, level[:1].upper(), at)


# --- what a line is --------------------------------------------------------------------------------------------------

_FRAME = re.compile(r'^[\s│|]*File "(?P<path>[^"]+)", line \d+(?:, in (?P<function>\S.*))?$')
_RICH_FRAME = re.compile(r"^\s*[│|]\s+(?P<path>[^\s:]+\.py):\d+ in (?P<function>[\w<>]+)")
_TYPE = r"[A-Z]\w*(?:Error|Exception|Failed|Interrupt|Exit)|Exception"
_RAISED = re.compile(rf"^(?:[A-Za-z_]\w*\.)*(?P<type>{_TYPE}|[A-Z]\w*Warning)(?:\(\w+\))?(?:: ?(?P<message>.*))?$")
#: The same within a line of prose.
_QUOTED = re.compile(rf"(?:^|[\s\]|\"'(])(?:[A-Za-z_]\w*\.)*(?P<type>{_TYPE}|[A-Z]\w*Warning): (?P<message>.*)$")
#: After frames, at the left edge, whatever the class is called.
_ANY_TYPE = re.compile(r"^(?:[^\W\d]\w*\.)*(?P<type>[^\W\d]\w*)(?::(?: (?P<message>.*))?)?$")
_WHAT = re.compile(r"^terminate called after throwing an instance of '(?P<type>[^']+)'")
_WHAT_TEXT = re.compile(r"^\s*what\(\): +(?P<message>.*)$")
_HANDLING = "During handling of the above exception"
_LINKS = (_HANDLING, "The above exception was the direct cause")
_CAUSED_BY = re.compile(r"^\s*Caused by:? ?(?P<rest>.*)$")
_RUNTIME_CODE = re.compile(
    r"(?i:(?<!http )(?:\berr(?:or)? ?code|errno|drvretcode|\bret(?:code)?|\bresult|\berr)(?: is)?[ :=]{0,3})"
    r"(?P<number>-?\d{2,6})\b"
    r"|\b(?P<name>E[A-Z]\d{4}|E[1-4]\d{4}|ERR0\d{4})\b"
)
#: Small numbers are everybody's: only a message that speaks of these means them as codes of the driver.
_DRIVER = re.compile(r"(?i)hccl|dcmi|\bdrv|npu")
#: Levels at which no error is written.
_MILD = frozenset("WIDTN")
_ASCEND = re.compile(
    rb"(?<!No module named ')torch[_-]npu|ascend|\bnpu\b|davinci|\bCANN\b|hccl|\bacl(?:nn|rt)", re.IGNORECASE
)
_NVIDIA = re.compile(rb"nvidia|\bcuda|cudnn|\bnccl|\bNCCL", re.IGNORECASE)
_NO_NETWORK = (b"NewConnectionError", b"name resolution", b"Retrying (")
#: Lines of a log without an exception that look like the cause, the strongest first.
_SUSPECTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"Segmentation fault|Fatal Python error|core dumped|terminate called",
        r"\bfatal error\b|undefined reference|collect2: error",
        r"\bFATAL\b|\bCRITICAL\b|\bPANIC\b",
        r"(?<![\w=])(?<!level )(?<!level: )ERROR(?=[\]:\s|-])|\berror: |error code|\(exitcode: -?[1-9]",
        r"^[\w.]*[A-Z]\w*(?:Error|Exception)$",
    )
)


@dataclass
class _Sender:
    """What one sender has said that is not finished."""

    frames: list[str] = field(default_factory=list)
    #: The frames are those of a traceback, which ends in an exception.
    in_traceback: bool = False
    #: The last line of a traceback of which no exception has come yet, and its number.
    open_traceback: tuple[int, str] | None = None
    #: The exception whose message is being read.
    pending: Raised | None = None
    following: int = 0
    #: Exceptions that belong together, the cause first.
    chain: list[Raised] = field(default_factory=list)
    joined: str = ""
    #: So many of the chain, from its beginning, were being handled when the next was raised.
    handled: int = 0
    #: The last of the chain was written at a level at which no error is.
    mild: bool = False
    rank: int | None = None
    seen_at: int = 0


@dataclass
class _Kind:
    """Errors of one kind, as they are counted."""

    incident: Incident
    ranks: set[int] = field(default_factory=set)
    count: int = 0
    last_line: int = 0
    at_least: bool = False

    def done(self) -> Incident:
        return dataclasses.replace(
            self.incident,
            count=self.count,
            last_line=self.last_line,
            ranks=tuple(sorted(self.ranks)),
            at_least=self.at_least,
        )


class _Sort:
    """Lines that are the same but for their digits."""

    __slots__ = ("kind", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.kind: _Kind | None = None


def read_log(stream: BinaryIO, source: str = "", *, block: int = BLOCK) -> LogFacts:
    """Read a log to its end. Whatever it holds, this does not raise, and does not grow with it."""
    lines = LogLines(stream, log_words(), block=block)
    log = _Log()
    lines.often, lines.on_often = log.often, log.count_often
    lines.wanted_until = log.wanted_until = SNIPPET
    for line in lines:
        log.take(line)
        lines.wanted_until = log.wanted_until
    log.end()
    return LogFacts(
        source=source,
        size=lines.size,
        lines=lines.lines,
        incidents=tuple(sorted((kind.done() for kind in log.kinds.values()), key=lambda item: item.root.line)),
        dropped=log.dropped,
        suspect=log.suspect,
        mentions_ascend=log.mentions_ascend or bool(_ASCEND.search(lines.head)),
        mentions_nvidia=log.mentions_nvidia or bool(_NVIDIA.search(lines.head)),
        no_network=log.no_network,
        packed=lines.packed,
        cut_off=lines.cut_off,
        long_lines=lines.long_lines,
    )


class _Log:
    """Puts the lines that matter together to errors, and counts those that are alike."""

    def __init__(self) -> None:
        self.kinds: dict[str, _Kind] = {}
        self.dropped = 0
        self.suspect: LoggedError | None = None
        self.mentions_ascend = self.mentions_nvidia = self.no_network = False
        self._suspect_rank = len(_SUSPECTS)
        self._senders: OrderedDict[tuple[str, ...], _Sender] = OrderedDict()
        self._sorts: dict[bytes, _Sort] = {}
        #: Which sort the last lines were of.
        self._recent: OrderedDict[int, _Sort] = OrderedDict()
        self.wanted_until = 0
        self.often: set[bytes] = set()
        self._unknown = 0
        self._known = functools.lru_cache(4096)(_recognise_alike)

    def take(self, line: Line) -> None:
        """Read a line that may matter."""
        if line.hot and self._is_often(line):
            return
        if not self.mentions_ascend:
            self.mentions_ascend = bool(_ASCEND.search(line.text))
        if not self.mentions_nvidia:
            self.mentions_nvidia = bool(_NVIDIA.search(line.text))
        if not self.no_network:
            self.no_network = any(words in line.text for words in _NO_NETWORK)
        if line.hot:
            self._open(line.number + 8)
        for text in _parts(line.text):
            self._take_part(line.number, text, hot=line.hot)

    def _open(self, until: int) -> None:
        """Ask for the lines up to a number, as they may belong to what was read."""
        self.wanted_until = max(self.wanted_until, until)

    def _is_often(self, line: Line) -> bool:
        """Count a line that was seen many times already, and be done with it."""
        if len(line.text) > _MAX_SORTED:
            return False
        key = line.text.translate(None, DIGITS)
        if key in self.often:
            self.count_often(key, 1, line.number)
            return True
        sort = self._sorts.get(key)
        if sort is None:
            if len(self._sorts) >= MAX_SORTS:
                self._forget()
            sort = self._sorts[key] = _Sort()
        sort.seen += 1
        if sort.seen >= OFTEN and not _CODE_LIKE.search(line.text) and not _HEADING.search(line.text):
            self.often.add(key)
        self._recent[line.number] = sort
        if len(self._recent) > MAX_SORTS:
            self._recent.popitem(last=False)
        return False

    def _forget(self) -> None:
        """Make room: what was seen often is kept, unless that is all."""
        if len(self.often) > MAX_SORTS // 2:
            self.often.clear()
        self._sorts = {key: sort for key, sort in self._sorts.items() if key in self.often}

    def count_often(self, key: bytes, count: int, last_line: int) -> None:
        """Count lines that are not read any more."""
        sort = self._sorts.get(key)
        if sort is not None and sort.kind is not None:
            sort.kind.count += count
            sort.kind.at_least = True
            sort.kind.last_line = max(sort.kind.last_line, last_line)

    def _take_part(self, number: int, raw: str, *, hot: bool) -> None:
        body = _take_off(raw)
        sender = self._sender(body, number)
        text = body.text.rstrip()
        if not text:
            self._finish_message(sender)
            return
        frame = _FRAME.match(text) or _RICH_FRAME.match(text)
        if frame:
            self._finish_message(sender)
            sender.frames.append(f"{frame['path']} {frame['function'] or '<module>'}")
            if sender.in_traceback:
                sender.open_traceback = number, raw
            if len(sender.frames) > MAX_FRAMES:
                del sender.frames[MAX_FRAMES // 3]
            self._open(number + WINDOW)
            return
        if self._take_heading(sender, number, text, raw):
            return
        if caused := _CAUSED_BY.match(text):
            self._finish_message(sender)
            sender.joined, text = "before", caused["rest"]
            self._open(number + WINDOW)
        if self._take_exception(sender, number, text, body):
            return
        if sender.pending and sender.following < MAX_MESSAGE_LINES and not (body.level and body.level not in "EFC"):
            self._follow(sender, text, number)
            if hot:
                self._suspect(number, raw)
            return
        self._finish_message(sender)
        self._take_line(sender, number, text, raw if hot else "", body.level)

    def _take_heading(self, sender: _Sender, number: int, text: str, raw: str) -> bool:
        """Read a line that tells what follows: a traceback, or one that belongs to the last; return whether it did."""
        is_traceback = "Traceback (most recent call last" in text
        if not is_traceback and not any(link in text for link in _LINKS):
            return False
        self._finish_message(sender)
        if not is_traceback:
            sender.joined = "after"
            if _HANDLING in text:
                sender.handled = len(sender.chain)
        elif not sender.joined:
            self._finish_chain(sender)
        sender.frames, sender.in_traceback = [], is_traceback
        if is_traceback:
            sender.open_traceback = number, raw
        self._open(number + WINDOW)
        return True

    def _take_exception(self, sender: _Sender, number: int, text: str, body: _Body) -> bool:
        """Read a line that names an exception; return whether it did."""
        match = _RAISED.match(text)
        if (
            match is None
            and sender.in_traceback
            and sender.frames
            and not body.text.startswith((" ", "\t", "│", "╰", "~", "^"))
        ):
            match = _ANY_TYPE.match(text)
        if match is None and (thrown := _WHAT.match(text)):
            self._begin(sender, Raised(thrown["type"], "", (), number), MAX_MESSAGE_LINES - 2)
            return True
        if match is None:
            return False
        is_warning = match["type"].endswith("Warning") and not sender.frames
        if not sender.frames and match["message"] is None:
            return False
        sender.open_traceback = None
        if sender.pending and sender.pending.message.rstrip().endswith("raised:"):
            self._follow(sender, text, number)
            return True
        raised = Raised(match["type"], match["message"] or "", tuple(sender.frames), number)
        if is_warning:
            # What follows a warning is somebody else's; and it is no error.
            self._take_line(sender, number, text, text, body.level)
            return True
        self._begin(sender, raised, MAX_MESSAGE_LINES)
        sender.mild = body.level in _MILD
        return True

    def _begin(self, sender: _Sender, raised: Raised, room: int) -> None:
        self._finish_message(sender)
        if not sender.joined:
            self._finish_chain(sender)
        sender.frames, sender.in_traceback, sender.mild = [], False, False
        sender.pending, sender.following = raised, MAX_MESSAGE_LINES - room
        self._open((raised.line or 0) + WINDOW)

    def _follow(self, sender: _Sender, text: str, number: int) -> None:
        if sender.pending is None:
            return
        sender.following += 1
        if not sender.pending.message and (what := _WHAT_TEXT.match(text)):
            sender.pending = dataclasses.replace(sender.pending, message=what["message"])
            return
        message = f"{sender.pending.message}\n{text}"[:MAX_MESSAGE]
        sender.pending = dataclasses.replace(sender.pending, message=message)
        self._open(min(number + 8, (sender.pending.line or 0) + 2 * WINDOW))

    def _finish_message(self, sender: _Sender) -> None:
        """Take the exception that was being read for whole."""
        if sender.pending is None:
            return
        done, sender.pending = sender.pending, None
        if sender.joined == "before":
            sender.chain.insert(0, done)
            sender.handled += bool(sender.handled)
        else:
            sender.chain.append(done)
        sender.joined = ""
        if len(sender.chain) > MAX_CHAIN:
            del sender.chain[MAX_CHAIN // 2]
            sender.handled -= sender.handled > MAX_CHAIN // 2

    def _finish_chain(self, sender: _Sender) -> None:
        """Take the exceptions that belong together for whole, and count them as one."""
        chain, sender.chain = sender.chain, []
        handled, sender.handled = sender.handled, 0
        if chain:
            self._count_chain(chain, sender.rank, min(handled, len(chain) - 1), mild=sender.mild)

    def _sender(self, body: _Body, number: int) -> _Sender:
        key = body.sender
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = _Sender()
            if len(self._senders) > MAX_SENDERS:
                self._finish(self._senders.popitem(last=False)[1])
        else:
            self._senders.move_to_end(key)
            if number - sender.seen_at > 5 * WINDOW:
                # Frames that led nowhere, and whatever was waited for, are forgotten.
                self._finish(sender)
                sender.frames, sender.joined = [], ""
        sender.seen_at = number
        sender.rank = body.rank if body.rank is not None else sender.rank
        return sender

    def _finish(self, sender: _Sender) -> None:
        self._finish_message(sender)
        self._finish_chain(sender)
        if sender.open_traceback and self.suspect is None:
            # The exception is cut off, or its lines could not be told: "no error" cannot be said.
            number, text = sender.open_traceback
            self.suspect = LoggedError("", text.strip()[:500], number)
        sender.open_traceback = None

    def end(self) -> None:
        """Finish what is left."""
        for sender in self._senders.values():
            self._finish(sender)
        self._senders.clear()

    # --- counting ----------------------------------------------------------------------------------------------------

    def _take_line(self, sender: _Sender, number: int, text: str, raw: str, level: str) -> None:
        """Hold a line that is no exception against the table; `raw` is empty for one that cannot be the cause."""
        if sender.frames and text[:1] in " \t":
            return  # source code, which quotes errors that it may raise
        quoted = _QUOTED.search(text)
        match = None
        if quoted:
            match = self._known(quoted["type"], quoted["message"], ())
        match = match or _line_alike(text)
        if match is None:
            if raw:
                self._suspect(number, raw)
            if level not in _MILD and (raw or "error code" in text) and _runtime_codes(text):
                self._add(None, LoggedError("", text, number), sender.rank, number)
            return
        error = LoggedError(quoted["type"] if quoted and match.signature.type else "", text, number)
        if error.type and quoted:
            error = dataclasses.replace(error, message=quoted["message"])
        self._add(match.signature.name, error, sender.rank, number, mild=level in _MILD)

    def _suspect(self, number: int, text: str) -> None:
        for strength, pattern in enumerate(_SUSPECTS[: self._suspect_rank]):
            if pattern.search(text):
                self.suspect, self._suspect_rank = LoggedError("", text.strip()[:500], number), strength
                return

    def _count_chain(self, chain: Sequence[Raised], rank: int | None, handled: int, *, mild: bool) -> None:
        """Count exceptions that belong together; the first `handled` of them may have been harmless."""
        found = [(raised, self._known(raised.type, raised.message, raised.frames)) for raised in chain]
        raised_as = tuple(raised.type for raised in chain)
        plain = [(raised, match) for raised, match in found if match and not match.signature.wraps]
        behind = next(
            ((raised, match) for raised, match in found[handled:] if match and _tells_why(match.signature)), None
        )
        wrapper = next(((raised, match) for raised, match in found if match), None)
        last = max(raised.line or 0 for raised in chain)
        if plain:
            raised, match = behind or plain[0]
            self._add(
                match.signature.name,
                _logged(dataclasses.replace(match.raised, line=raised.line, frames=raised.frames)),
                rank,
                last,
                raised_as=_above(raised_as, chain, raised, match.raised.type),
                handled=any(raised is item for item in chain[:handled]),
                mild=mild,
            )
            return
        first = chain[0]
        inner = list(unwrap(first))[-1]
        if wrapper and (wrapper[0] is first and inner.type == wrapper[1].raised.type):
            name = wrapper[1].signature.name
            error = _logged(dataclasses.replace(wrapper[1].raised, line=first.line, frames=first.frames))
            self._add(name, error, rank, last, raised_as=raised_as[1:], mild=mild)
            return
        wrapped_by = wrapper[1].signature.name if wrapper else None
        above = _above(raised_as, chain, first, inner.type)
        self._add(None, _logged(inner), rank, last, raised_as=above, wrapped_by=wrapped_by, mild=mild)

    def _add(
        self,
        name: str | None,
        error: LoggedError,
        rank: int | None,
        last: int,
        *,
        raised_as: tuple[str, ...] = (),
        wrapped_by: str | None = None,
        handled: bool = False,
        mild: bool = False,
    ) -> None:
        key = name or f"?{error.type}: {_alike(error.message.partition(chr(10))[0])}"
        kind = self.kinds.get(key)
        if kind is None:
            if name is None:
                if self._unknown >= MAX_UNKNOWN:
                    self.dropped += 1
                    return
                self._unknown += 1
            codes = _runtime_codes(error.message)
            kind = self.kinds[key] = _Kind(
                Incident(
                    error,
                    name,
                    last,
                    0,
                    raised_as=raised_as,
                    wrapped_by=wrapped_by,
                    runtime_codes=codes,
                    handled=handled,
                    mild=mild,
                )
            )
        known = kind.incident
        if (known.handled and not handled) or (known.mild and not mild):
            kind.incident = dataclasses.replace(known, handled=known.handled and handled, mild=known.mild and mild)
        kind.count += 1
        kind.last_line = max(kind.last_line, last)
        if sort := self._recent.get(error.line):
            sort.kind = kind
        if error.line < kind.incident.root.line:
            kind.incident = dataclasses.replace(kind.incident, root=error, raised_as=raised_as, wrapped_by=wrapped_by)
        if rank is not None and len(kind.ranks) < MAX_RANKS:
            kind.ranks.add(rank)


def _parts(raw: bytes) -> Iterable[str]:
    """Return the text of a line; of a record in JSON each of the lines that it carries."""
    text = _decode(raw)
    if text.startswith("{") and "\\" in text and (carried := _carried(text)):
        return [_ANSI.sub("", line) for line in carried]
    is_record = text.startswith("{") and "\\n" in text
    if is_record:
        text = text.replace("\\u001b", "\x1b")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if is_record:
        return [part.replace('\\"', '"') for part in _json_text(text).split("\\n")]
    return (text,)


def _carried(text: str) -> list[str]:
    """Return the lines that a whole record in JSON carries, none where it is not whole or carries no text."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(record, dict):
        return []
    texts = [value for key, value in record.items() if isinstance(value, str) and (key in _TEXT_KEYS or "\n" in value)]
    # Half of a pair of surrogates is no character.
    return [line for value in texts for line in value.encode("utf-8", "replace").decode().splitlines()]


_TEXT_KEYS = ("log", "message", "msg")
_JSON_LOG = re.compile(r'^\{"(?:log|message|msg)": ?"(?P<text>(?:[^"\\]|\\.)*)"')


def _json_text(text: str) -> str:
    match = _JSON_LOG.match(text)
    return match["text"].removesuffix("\\n") if match else text


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _tells_why(row: Signature) -> bool:
    return not row.wraps and not row.consequence


def _logged(raised: Raised) -> LoggedError:
    return LoggedError(raised.type, raised.message, raised.line or 0, raised.frames[-_SHOWN_FRAMES:])


def _above(types: tuple[str, ...], chain: Sequence[Raised], root: Raised, inner: str) -> tuple[str, ...]:
    """Return the types that were made of the root, outermost last."""
    at = next(index for index, raised in enumerate(chain) if raised is root)
    return (*((root.type,) if inner != root.type else ()), *types[at + 1 :])


_NUMBER = re.compile(rf"(?P<code>{_CODE})|0x[0-9a-fA-F]+|\d+")


def _alike(text: str) -> str:
    """Return a message without the numbers that differ from case to case; codes of the runtime stay."""
    return _NUMBER.sub(lambda match: match["code"] or "0", text[:600])


def _recognise_alike(type_: str, message: str, frames: tuple[str, ...]) -> Match | None:
    return recognise([Raised(type_, message, frames)])


@functools.lru_cache(4096)
def _line_alike(text: str) -> Match | None:
    return match_line(text[:MAX_MESSAGE])


def _runtime_codes(message: str) -> tuple[str, ...]:
    """Return the codes of the runtime that a message quotes and of which something is known."""
    found = dict.fromkeys(match["number"] or match["name"] for match in _RUNTIME_CODE.finditer(message))
    if not _DRIVER.search(message):
        found = {code: None for code in found if len(code) >= len("EI0002") or code.startswith("E")}
    return tuple(code for code in found if look_up(code))[:6]
