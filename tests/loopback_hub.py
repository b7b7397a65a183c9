"""A Hub on a loopback port, with the routes and headers that the real huggingface_hub client asks for."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


@dataclass
class Hub:
    """What the server has, and what was asked of it.

    `faults` maps a part of a path to what becomes of requests for it: an error code of the Hub, "slow" (no answer
    until the end of the test) or "truncated" (fewer bytes than announced).
    """

    #: Repository ("kernels/org/name") to the branches and the folder that each stands for.
    repositories: dict[str, dict[str, Path]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    organizations: dict[str, bool] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def commit(self, repo: str, branch: str) -> str:
        return f"{sorted(self.repositories[repo]).index(branch) + 1:040x}"


_STATUS = {"RepoNotFound": 404, "RevisionNotFound": 404, "EntryNotFound": 404, "GatedRepo": 403, "ServerError": 500}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path, hub = unquote(self.path.partition("?")[0]), self.hub
        hub.asked.append(f"{self.command} {path}")
        fault = next((kind for part, kind in hub.faults.items() if part in path), None)
        if fault == "slow":
            hub.over.wait(60)
            self.close_connection = True
            return
        if fault in _STATUS:
            self._error(fault)
            return
        if match := re.fullmatch(r"/api/organizations/([^/]+)/overview", path):
            if match[1] not in hub.organizations:
                self._error("EntryNotFound")
                return
            self._json(
                {
                    "name": match[1],
                    "fullname": match[1],
                    "avatarUrl": "",
                    "trustedKernelPublisher": hub.organizations[match[1]],
                }
            )
        elif match := re.fullmatch(r"/api/((?:models|kernels)/[^/]+/[^/]+)/(refs|tree/([^/]+)(?:/(.*))?)", path):
            self._api(match[1], match[3], match[4] or "")
        elif match := re.fullmatch(r"/(kernels/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            repo = f"{match[1] or 'models/'}{match[2]}"
            self._file(repo, match[3], match[4], body=body, cut=fault == "truncated")
        else:
            self._error("RepoNotFound")

    def _folder(self, repo: str, revision: str) -> Path | None:
        for branch, folder in self.hub.repositories.get(repo, {}).items():
            if revision in (branch, self.hub.commit(repo, branch)):
                return folder
        return None

    def _api(self, repo: str, revision: str | None, below: str) -> None:
        if repo not in self.hub.repositories:
            self._error("RepoNotFound")
            return
        if revision is None:
            branches = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": self.hub.commit(repo, name)}
                for name in self.hub.repositories[repo]
            ]
            self._json({"branches": branches, "tags": [], "converts": []})
            return
        folder = self._folder(repo, revision)
        if folder is None:
            self._error("RevisionNotFound")
            return
        base = folder / below
        if not base.is_dir():
            self._error("EntryNotFound")
            return
        recursive = "recursive=true" in self.path.lower()
        entries = sorted(base.rglob("*") if recursive else base.iterdir())
        self._json([
            {
                "type": "directory" if entry.is_dir() else "file",
                "path": entry.relative_to(folder).as_posix(),
                "size": 0 if entry.is_dir() else entry.stat().st_size,
                "oid": "0" * 40,
            }
            for entry in entries
        ])  # fmt: skip

    def _file(self, repo: str, revision: str, name: str, *, body: bool, cut: bool) -> None:
        folder = self._folder(repo, revision)
        if folder is None or not (folder / name).is_file():
            self._error("RevisionNotFound" if folder is None else "EntryNotFound")
            return
        data = (folder / name).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hash(data) & 0xFFFFFFFF:08x}"')
        self.send_header("X-Repo-Commit", revision)
        self.end_headers()
        if body:
            self.wfile.write(data[: len(data) // 2] if cut else data)
            if cut:
                self.close_connection = True

    def _json(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _error(self, code: str) -> None:
        self.send_response(_STATUS[code])
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", f"{code} on the loopback")
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def serving(repositories: Mapping[str, dict[str, Path]], **organizations: bool) -> Iterator[Hub]:
    hub = Hub(
        dict(repositories), organizations={name.replace("_", "-"): value for name, value in organizations.items()}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
