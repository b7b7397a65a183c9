"""The doctor's end of a plugin's process: it asks, waits no longer than the limit, and shows what was printed."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from flexdoctor.places import Place
from flexdoctor.text import Text, UserError

_REAP_SECONDS = 1.0
_CHUNK = 65536
_MAX_REPLY = 16 * 1024 * 1024
_MAX_PRINTED = 16 * 1024
#: The child sees the modules that we see, and nothing of the current folder that we do not. It needs sys alone for it.
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10)); "
    "from flexdoctor.plugins.child import main; main(int(sys.argv[1]), sys.argv[2])"
)


class FailedError(UserError):
    """The plugin gave no answer. `place` is the line of it that raised, where there is one."""

    def __init__(self, why: Text, place: Place | None = None) -> None:
        super().__init__(why)
        self.place = place


def _answer(reply: bytes | bytearray) -> dict[str, Any]:
    try:
        answer = json.loads(reply)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not ("result" in answer or {"error", "path", "line", "text"} <= set(answer)):
        raise FailedError(
            Text(
                "its answer cannot be read: it wrote to the channel of flexdoctor",
                "其结果无法读取：它向 flexdoctor 的通道写入了数据",
            )
        )
    return answer


class PluginProcess:
    """One child, asked in turn. It lives until it fails or is closed."""

    def __init__(self, value: str, seconds: float, show: Callable[[str], None]) -> None:
        """Start it.

        Args:
            value: what the entry point names, `module:attribute`.
            seconds: how long each answer may take.
            show: told what the plugin printed, once after each answer.
        """
        self._seconds, self._show = seconds, show
        self._printed, self._left_out = bytearray(), 0
        self._to_send = memoryview(b"")
        self._failure: FailedError | None = None
        self._channel, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _START, "\n".join(sys.path), str(theirs.fileno()), value]
            try:
                self._child: subprocess.Popen[bytes] | None = subprocess.Popen(  # noqa: S603 - our own interpreter
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(theirs.fileno(),),
                )
            except OSError as error:
                self._child = None
                self._failure = FailedError(
                    Text("it could not be started: {why}", "无法启动：{why}").format(why=error.strerror or error)
                )

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Return the answer to `request`.

        Raises:
            FailedError: there is none: it raised, did not end in time, ended itself, or was killed.
        """
        if self._failure:
            raise self._failure
        try:
            reply = self._exchange(json.dumps(request).encode() + b"\n")
        except FailedError as failure:
            self._failure = failure
            self.close()
            raise
        finally:
            self._tell()
        if "error" in reply:
            said = str(reply["error"])
            raise FailedError(Text(said, said), Place(reply["path"], reply["line"], reply["text"]))
        return reply["result"]

    def close(self) -> None:
        """End the child and what it has started in its own session; what began one of its own is left alone."""
        self._channel.close()
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_REAP_SECONDS)
        if child.stdout:
            child.stdout.close()

    def _exchange(self, request: bytes) -> dict[str, Any]:
        child = self._child
        assert child is not None and child.stdout is not None  # noqa: S101, PT018 - `ask` looked
        self._channel.setblocking(False)
        os.set_blocking(child.stdout.fileno(), False)
        self._to_send, reply = memoryview(request), bytearray()
        deadline = time.monotonic() + self._seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ | selectors.EVENT_WRITE)
            selector.register(child.stdout, selectors.EVENT_READ)
            while not reply.endswith(b"\n"):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise FailedError(
                        Text("it did not end within {seconds} s", "未在 {seconds} 秒内结束").format(
                            seconds=f"{self._seconds:g}"
                        )
                    )
                if len(reply) > _MAX_REPLY:
                    raise FailedError(Text("its answer is too long", "其结果过长"))
                for key, events in selector.select(left):
                    reply += self._turn(selector, key.fileobj, events)
        self._read_printed()
        return _answer(reply)

    def _turn(self, selector: selectors.BaseSelector, ready: object, events: int) -> bytes:
        """Take or give what can be taken or given now; return what came of the answer."""
        if ready is not self._channel:
            if not self._read_printed() and self._child and self._child.stdout:
                selector.unregister(self._child.stdout)
            return b""
        if events & selectors.EVENT_WRITE:
            self._to_send = self._to_send[self._send() :]
            if not self._to_send:
                selector.modify(self._channel, selectors.EVENT_READ)
        return self._receive() if events & selectors.EVENT_READ else b""

    def _send(self) -> int:
        try:
            return self._channel.send(self._to_send)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise FailedError(self._how_it_ended()) from error

    def _receive(self) -> bytes:
        try:
            data = self._channel.recv(_CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise FailedError(self._how_it_ended()) from error
        if not data:
            raise FailedError(self._how_it_ended())
        return data

    def _how_it_ended(self) -> Text:
        child = self._child
        assert child is not None  # noqa: S101 - it was asked
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_REAP_SECONDS)
        self._read_printed()
        if child.returncode is None:
            return Text("it closed the channel of flexdoctor", "它关闭了与 flexdoctor 的通道")
        if child.returncode < 0:
            number = -child.returncode
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
            return Text("its process was killed by {name}", "其进程被 {name} 终止").format(name=name)
        said = Text("its process ended itself with exit code {code}", "其进程自行退出，退出码 {code}")
        return said.format(code=child.returncode)

    def _read_printed(self) -> bool:
        """Take what was printed; False when nothing more can come."""
        child = self._child
        if child is None or child.stdout is None:
            return False
        while True:
            try:
                data = os.read(child.stdout.fileno(), _CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            kept = data[: _MAX_PRINTED - len(self._printed)]
            self._printed += kept
            self._left_out += len(data) - len(kept)
            if len(data) < _CHUNK:
                return True

    def _tell(self) -> None:
        if self._printed:
            more = f"\n({self._left_out} bytes more)" if self._left_out else ""
            self._show(self._printed.decode("utf-8", errors="replace").rstrip("\n") + more)
        self._printed, self._left_out = bytearray(), 0
