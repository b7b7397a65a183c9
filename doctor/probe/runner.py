"""Run the probe in the target's interpreter, and bring home what it said, whatever became of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from flexdoctor.facts import LiveDeath, LiveError, LiveFacts, LiveFrame, LiveStage
from flexdoctor.probe.probe import RANK_STAGES, STAGES
from flexdoctor.probe.processes import Family, children, name_of, orphans_come_to_us

Device = Literal["npu", "cpu", "cuda", "auto"]

PROBE = Path(__file__).with_name("probe.py")
DEFAULT_TIMEOUT = 900.0
#: Seconds that one stage may take. `import triton` of triton-ascend 3.2.1 and later may wait 100 s for npu-smi; the
#: compiled ones include the first start of a compiler.
STAGE_LIMITS = {
    "python": 60.0,
    "torch": 120.0,
    "torch_npu": 120.0,
    "autoload": 180.0,
    "devices": 60.0,
    "properties": 120.0,
    "triton": 180.0,
    "gate": 60.0,
    "eager": 120.0,
    "exit": 120.0,
}
COMPILED_LIMIT = 300.0
#: Stages before the device is used, in a process of their own in which torch does not load torch_npu by itself.
_IMPORTS = ("python", "torch", "torch_npu")
#: What is kept of each stream, and how much of the report is read.
KEPT_BYTES, CHUNK, REPORT_BYTES, STACK_BYTES, OUTPUT_LINES = 64 * 1024, 64 * 1024, 8 * 1024 * 1024, 64 * 1024, 12
#: How often a run is taken up again behind a stage that killed it.
MAX_RESTARTS = 4
_GRACE, _LAST_WORDS = 2.0, 2.0
_SECRET = re.compile(r"(TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE)", re.IGNORECASE)


class Progress(Protocol):
    """Who is told how far the run is."""

    def begin(self, stage: str) -> None:
        """Hear that a stage begins."""

    def tick(self, stage: str, seconds: float) -> None:
        """Hear that it is still running."""

    def end(self, stage: LiveStage) -> None:
        """Hear how it ended."""


class Silent:
    """Tells nobody."""

    def begin(self, stage: str) -> None:
        """Do nothing."""

    def tick(self, stage: str, seconds: float) -> None:
        """Do nothing."""

    def end(self, stage: LiveStage) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class LiveOptions:
    """What to run, how long, and with whose cache."""

    device: Device = "auto"
    timeout: float = DEFAULT_TIMEOUT
    keep_cache: bool = False
    ranks: int = 1
    #: Empty: all of them.
    stages: tuple[str, ...] = ()
    #: Only for tests: the script to run in place of the probe, and shorter limits.
    script: Path = PROBE
    stage_limits: Mapping[str, float] = field(default_factory=dict)

    def limit(self, stage: str) -> float:
        """Return the seconds that `stage` may take; who gives more time in all gives each stage more."""
        if stage in self.stage_limits:
            return self.stage_limits[stage]
        return STAGE_LIMITS.get(stage, COMPILED_LIMIT) * max(1.0, self.timeout / DEFAULT_TIMEOUT)


def run_live(executable: Path, options: LiveOptions = LiveOptions(), progress: Progress | None = None) -> LiveFacts:
    """Run every stage in `executable` and return what was seen. Never raises for anything that the patient does."""
    with _terminable(), orphans_come_to_us(), _folder() as folder:
        return _Run(executable, options, progress or Silent(), folder).run()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="flexdoctor-live-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the run as Ctrl-C does, so that the children and the folder go with us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # it was deleted under us


@dataclass
class _Stream:
    """The last bytes of a stream that nobody bounds."""

    kept: bytearray = field(default_factory=bytearray)
    count: int = 0
    closed_in: str = ""

    def add(self, data: bytes) -> None:
        self.count += len(data)
        self.kept += data
        if len(self.kept) > 2 * KEPT_BYTES:
            del self.kept[:-KEPT_BYTES]

    def lines(self, clean: _Cleaner) -> tuple[str, ...]:
        text = self.kept[-KEPT_BYTES:].decode("utf-8", "replace")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return tuple(clean(line)[:500] for line in lines[-OUTPUT_LINES:])


class _Cleaner:
    """Takes the home folder, escapes and everything that looks like a secret out of a text."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._home = str(Path("~").expanduser())
        secrets = {value for name, value in environment.items() if _SECRET.search(name) and len(value) >= 6}
        self._secrets = sorted(secrets, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode("utf-8")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = re.sub(r"(\w+://)[^/\s@]+@", r"\1***@", text)
        if self._home not in ("~", "/"):
            text = re.sub(rf"(?<![\w/.-]){re.escape(self._home)}(?=/|\b)", "~", text)
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)


class _Run:
    """One live run: several sessions of the probe, one after the other."""

    def __init__(self, executable: Path, options: LiveOptions, progress: Progress, folder: Path) -> None:
        self.executable, self.options, self.progress, self.folder = executable, options, progress, folder
        self.begin = time.monotonic()
        self.deadline = self.begin + options.timeout
        self.clean = _Cleaner(os.environ)
        self.stages: dict[str, LiveStage] = {}
        self.device: str | None = None
        self.asked = options.device
        self.not_started = ""
        self.stdout_bytes = self.stderr_bytes = 0
        self.closed: list[str] = []
        self.survivors: list[str] = []
        self.stuck: list[str] = []
        self.sessions = 0
        self.over = f"{options.timeout:g} s in all were over"

    def run(self) -> LiveFacts:
        """Do the imports first, then what needs the device, then, if asked for, several ranks."""
        self._group(_IMPORTS, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        self._group(("autoload",), {})
        loads = self._status("autoload") in ("passed", "skipped")
        on_npu = self._needs_npu()
        if on_npu and self._status("torch_npu") not in ("passed", None):
            self._block([name for name in self._wanted() if name not in self.stages], "torch_npu")
        if on_npu and self.asked == "auto":
            self.asked = "npu"
        main = [name for name in STAGES if name not in (*_IMPORTS, "autoload", *RANK_STAGES)]
        self._group(main, {} if loads else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        if self.options.ranks > 1:
            self._ranks({} if loads else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        return LiveFacts(
            asked=self.options.device,
            device=self.device,
            stages=tuple(self.stages[name] for name in (*STAGES, "exit") if name in self.stages),
            ranks=self.options.ranks,
            seconds=round(time.monotonic() - self.begin, 3),
            cache="the user's" if self.options.keep_cache else "temporary",
            not_started=self.not_started,
            stdout_bytes=self.stdout_bytes,
            stderr_bytes=self.stderr_bytes,
            closed=tuple(self.closed),
            survivors=tuple(self.survivors),
            stuck=tuple(self.stuck),
        )

    def _wanted(self) -> tuple[str, ...]:
        ranks = RANK_STAGES if self.options.ranks > 1 else ()
        return tuple(
            name
            for name in STAGES
            if (name not in RANK_STAGES or name in ranks) and (not self.options.stages or name in self.options.stages)
        )

    def _status(self, name: str) -> str | None:
        return self.stages[name].status if name in self.stages else None

    def _needs_npu(self) -> bool:
        stage = self.stages.get("torch_npu")
        return self.options.device == "npu" or (
            self.options.device == "auto" and stage is not None and stage.status != "skipped"
        )

    def _group(self, names: Iterable[str], environment: Mapping[str, str]) -> None:
        """Run these stages, and again those behind a stage that took the process with it."""
        for _ in range(MAX_RESTARTS + 1):
            self._block_by_needs()
            left = [name for name in names if name in self._wanted() and name not in self.stages]
            if not left or self.not_started:
                return
            if time.monotonic() >= self.deadline:
                self._not_reached(left)
                return
            self._session(left, environment)
        reason = f"{MAX_RESTARTS + 1} processes had died before"
        self._not_reached([name for name in names if name in self._wanted() and name not in self.stages], reason)

    def _block_by_needs(self) -> None:
        for name in self._wanted():
            broken = [
                needed
                for needed in STAGES[name]
                if self._status(needed) not in ("passed", "skipped", "not_reached", None)
            ]
            if name not in self.stages and broken:
                self._block([name], broken[0])

    def _block(self, names: Iterable[str], cause: str) -> None:
        for name in names:
            self.stages[name] = LiveStage(name, "blocked", reason=cause)

    def _not_reached(self, names: Iterable[str], reason: str = "") -> None:
        for name in names:
            self.stages[name] = LiveStage(name, "not_reached", reason=reason or self.over)

    def _ranks(self, environment: Mapping[str, str]) -> None:
        self._block_by_needs()
        left = [name for name in RANK_STAGES if name in self._wanted() and name not in self.stages]
        # Each way in a run of its own: a rank that dies takes the whole of torchrun with it.
        for name in left:
            if time.monotonic() >= self.deadline:
                self._not_reached([name])
            else:
                self._session([name], environment, ranks=self.options.ranks)

    def _session(self, names: Sequence[str], environment: Mapping[str, str], ranks: int = 1) -> None:
        self.sessions += 1
        folder = self.folder / str(self.sessions)
        folder.mkdir()
        session = _Session(self, names, folder, ranks)
        session.start({**os.environ, **self._variables(), **environment})
        session.watch()
        session.finish()

    def _variables(self) -> dict[str, str]:
        variables = {"PYTHONUNBUFFERED": "1"}
        if path := os.environ.get("PYTHONPATH"):
            here = _working_directory() or "/"
            variables["PYTHONPATH"] = os.pathsep.join(str(Path(here, part)) for part in path.split(os.pathsep))
        if not self.options.keep_cache:
            for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
                variables[name] = str(self.folder / name.lower())
        return variables


class _Session:
    """One process of the probe (or of torchrun above several of it), from its start to the end of its last child."""

    def __init__(self, run: _Run, names: Sequence[str], folder: Path, ranks: int) -> None:
        self.run, self.names, self.ranks = run, names, ranks
        self.report, self.stack = folder / "report", folder / "stack"
        self.offset, self.rest = 0, b""
        self.current, self.since = names[0], time.monotonic()
        self.limit_hit: float | None = None
        self.done: set[int | None] = set()
        self.by_rank: dict[str, list[LiveStage]] = {}
        self.streams = {"stdout": _Stream(), "stderr": _Stream()}
        self.selector = selectors.DefaultSelector()
        self.memory_before = _memory_kills()
        self.strangers = children(os.getpid())
        self.process: subprocess.Popen[bytes] | None = None
        self.family: Family | None = None

    def start(self, environment: Mapping[str, str]) -> None:
        """Start the interpreter in a session of its own."""
        options = self.run.options
        command = [os.path.abspath(self.run.executable), os.path.abspath(options.script)]  # noqa: PTH100 - links stay
        command += ["--report", str(self.report), "--stack", str(self.stack), "--stages", ",".join(self.names)]
        command += ["--device", self.run.asked, "--parent", str(os.getpid()), "--ranks", str(self.ranks)]
        command += ["--folder", _working_directory()]
        try:
            self.process = subprocess.Popen(  # noqa: S603 - the user named this interpreter
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                # Compilers leave files where they run; these go with the folder.
                cwd=self.report.parent,
                start_new_session=True,
            )
        except OSError as error:
            self.run.not_started = f"{self.run.clean(str(self.run.executable))}: {error.strerror or error}"
            return
        self.family = Family(self.process.pid, self.strangers)
        for name in self.streams:
            pipe: IO[bytes] = getattr(self.process, name)
            os.set_blocking(pipe.fileno(), False)
            self.selector.register(pipe, selectors.EVENT_READ, name)

    def watch(self) -> None:
        """Read what is said until the process ends, or its time."""
        process, family = self.process, self.family
        if process is None or family is None:
            return
        try:
            last_tick = 0.0
            while process.poll() is None:
                self._listen(0.05)
                self._read_report()
                now = time.monotonic()
                if now - last_tick >= 0.5:
                    last_tick = now
                    self.run.progress.tick(self.current, now - self.since)
                if now >= self._deadline():
                    self.limit_hit = self._deadline() - self.since
                    self._ask_for_last_words(family)
                    break
        finally:
            left = family.wait_for_others(_GRACE if self.limit_hit is None and process.poll() is not None else 0)
            if left and self.limit_hit is None and process.poll() is not None:
                self.run.survivors += [self.run.clean(name_of(pid)) for pid in sorted(left)]
            if left or process.poll() is None:
                self.run.stuck += [self.run.clean(name_of(pid)) for pid in sorted(family.kill())]
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            if process.returncode is None:
                self.run.stuck.append(self.run.clean(name_of(process.pid)))

    def _deadline(self) -> float:
        return min(self.since + self.run.options.limit(self.current), self.run.deadline)

    def _ask_for_last_words(self, family: Family) -> None:
        """Have the interpreters write their stacks (faulthandler answers SIGABRT), before they are killed."""
        assert self.process is not None  # noqa: S101 - for the type checker
        targets = {self.process.pid} if self.ranks == 1 else family.others()
        family.send(signal.SIGABRT, targets)
        end = time.monotonic() + _LAST_WORDS
        while self.process.poll() is None and time.monotonic() < end:
            self._listen(0.05)

    def _listen(self, seconds: float) -> None:
        if not self.selector.get_map():
            time.sleep(seconds)
            return
        for key, _ in self.selector.select(seconds):
            stream = self.streams[key.data]
            try:
                data = os.read(key.fd, CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if data:
                stream.add(data)
            else:
                self.selector.unregister(key.fileobj)
                if self.process is not None and not self._ends_soon():
                    self._read_report()
                    stream.closed_in = self.current

    def _ends_soon(self) -> bool:
        """Whether the process is about to end, which closes its streams too."""
        assert self.process is not None  # noqa: S101 - for the type checker
        try:
            self.process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _read_report(self) -> None:
        """Take the lines that were added; a half line waits for its end, a broken one is not ours."""
        data = b""
        with contextlib.suppress(OSError), self.report.open("rb") as file:
            file.seek(self.offset)
            while self.offset < REPORT_BYTES and (part := file.read(CHUNK)):
                data += part
                self.offset += len(part)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        event, rank = line["event"], line.get("rank")
        if event == "done":
            self.done.add(rank)
            if len(self.done) >= self.ranks:
                self.current, self.since = "exit", time.monotonic()
        elif event == "start" and line["stage"] in self.names:
            if self.current != line["stage"] or not rank:
                self.run.progress.begin(line["stage"])
                self.current, self.since = line["stage"], time.monotonic()
        elif event == "end" and line["stage"] in self.names:
            stage = self._stage(line)
            if line.get("device"):
                self.run.device = str(line["device"])
            if self.ranks > 1:
                self.by_rank.setdefault(stage.name, []).append(stage)
            else:
                self._keep(stage)

    def _keep(self, stage: LiveStage) -> None:
        self.run.stages[stage.name] = stage
        self.run.progress.end(stage)

    def _stage(self, line: Mapping[str, Any]) -> LiveStage:
        clean = self.run.clean
        errors = tuple(
            LiveError(
                str(item["type"]),
                clean(str(item["message"])),
                tuple(
                    LiveFrame(
                        clean(str(frame["path"])), int(frame["line"]), str(frame["function"]), clean(frame["text"])
                    )
                    for frame in item["frames"]
                ),
            )
            for item in line.get("errors", ())
        )
        if line["status"] not in ("passed", "failed", "skipped", "blocked"):
            raise ValueError(line["status"])
        failed = line["status"] == "failed"
        if failed:
            self._listen(0)
        return LiveStage(
            name=line["stage"],
            status=line["status"],
            seconds=float(line["seconds"]),
            reason=clean(str(line.get("reason", ""))),
            values={str(key): clean(str(value)) for key, value in line.get("values", {}).items()},
            errors=errors,
            output=self.streams["stderr"].lines(clean) if failed else (),
            rank=line.get("rank"),
        )

    def finish(self) -> None:
        """Judge how it ended, and close everything."""
        if self.process is None:
            return
        try:
            self._drain()
            self._read_report()
            if self.ranks > 1:
                self._merge_ranks()
            self._judge_end(self.process.returncode)
        finally:
            self.selector.close()
            for name, stream in self.streams.items():
                getattr(self.process, name).close()
                if stream.closed_in and stream.closed_in != "exit":
                    self.run.closed.append(f"{name} in {stream.closed_in}")
            self.run.stdout_bytes += self.streams["stdout"].count
            self.run.stderr_bytes += self.streams["stderr"].count

    def _drain(self) -> None:
        """Take what is left in the pipes. All writers are dead, or must not keep us."""
        for _ in range(64):
            before = sum(stream.count for stream in self.streams.values())
            self._listen(0)
            if not self.selector.get_map() or before == sum(stream.count for stream in self.streams.values()):
                return

    def _merge_ranks(self) -> None:
        """One answer for all ranks: the worst, with what the first of them measured."""
        for stages in self.by_rank.values():
            stages.sort(key=lambda item: (item.status == "passed", item.status == "skipped", item.rank or 0))
            worst = stages[0]
            if len(stages) == self.ranks:
                self._keep(worst if worst.status == "failed" else dataclasses.replace(worst, rank=None))
            elif worst.status == "failed":
                self._keep(worst)

    def _judge_end(self, code: int | None) -> None:
        missing = [name for name in self.names if name not in self.run.stages]
        everybody_done = len(self.done) >= self.ranks
        if not missing and everybody_done and self.limit_hit is None and (code is None or code in (0, 1)):
            return
        if not missing and self.ranks > 1:
            return  # torchrun's exit code only repeats what the ranks said
        name = missing[0] if missing else "exit"
        death = self._death(code)
        over = self.limit_hit is not None and self.limit_hit < self.run.options.limit(self.current)
        stage = LiveStage(
            name=name,
            status="timed_out" if death.how == "time limit" else "died",
            seconds=round(time.monotonic() - self.since, 3),
            reason=self.run.over if over else "",
            death=death,
            output=self.streams["stderr"].lines(self.run.clean),
        )
        self._keep(stage)

    def _death(self, code: int | None) -> LiveDeath:
        stack = read_stack(self.stack, self.run.clean)
        if self.limit_hit is not None:
            return LiveDeath("time limit", max(round(self.limit_hit), 0), stack=stack)
        code = code or 0
        if self.ranks > 1:
            code = _rank_exit(self.streams["stderr"], code)
        if code >= 0:
            return LiveDeath("exit", code, stack=stack)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        memory = None
        if -code == signal.SIGKILL and self.memory_before is not None:
            after = _memory_kills()
            memory = None if after is None else after > self.memory_before
        return LiveDeath("signal", -code, name, memory, stack)


def _rank_exit(stream: _Stream, code: int) -> int:
    """Take the exit code of the first rank that failed from what torchrun says of it; its own is always 1."""
    found = re.findall(rb"exitcode\s*: (-?\d+)", bytes(stream.kept))
    return int(found[-1]) if found else code


def _memory_kills() -> int | None:
    """Return how many processes the kernel has killed for want of memory since it started."""
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    match = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else None


def read_stack(path: Path, clean: _Cleaner) -> tuple[LiveFrame, ...]:
    """Return the stack of the thread that faulthandler names first, innermost first."""
    try:
        with path.open("rb") as file:
            text = file.read(STACK_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    # The thread that got the signal is marked "Current thread"; in a hang of the main thread it is that one.
    current = text.partition("Current thread")[2].partition("\n\n")[0] or text
    frames = re.findall(r'^  File "(.*)", line (\d+) in (.+)$', current, re.MULTILINE)
    inside = [frame for frame in frames if Path(frame[0]).name != PROBE.name and "importlib" not in frame[0]]
    return tuple(LiveFrame(clean(file), int(line), function) for file, line, function in inside[:20])
