"""Look at an HTML page: its elements, its texts, and what a browser makes of it."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import strategies as st

#: What a page of ours may be made of.
TAGS = frozenset(
    """html head meta title style body main script header section footer h1 h2 h3 p span small b em a div ul ol li dl
    dt dd table thead tbody tr th td pre code details summary button input""".split()  # noqa: SIM905
)
ATTRIBUTES = frozenset(
    """charset http-equiv content name lang class href id title role aria-label aria-hidden type hidden open scope
    data-open data-filter placeholder""".split()  # noqa: SIM905
)
VOID = frozenset({"meta", "input", "br"})
HOSTILE = (
    '"><script>alert(1)</script>',
    "'><img src=x onerror=alert(1)>",
    "</title><script>document.title='owned'</script>",
    "</style><script>document.title='owned'</script>",
    "<!-- --><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "&lt;script&gt;&#x3c;b&#x3e;",
    "\u202egnp.exe\x1b]0;owned\x07\ud800",
)


def some_values() -> st.SearchStrategy[list[str]]:
    """Return texts of which some try to be more than text."""
    hostile = st.sampled_from(HOSTILE)
    hard = st.text(alphabet="<>\"'&;/=!-[],\n\0aé昇9", min_size=1)
    return st.lists(st.one_of(hostile, hard, st.text(min_size=1)), min_size=1, max_size=5)


@dataclass
class PageReader(HTMLParser):
    """Reads a page as a browser tokenises it."""

    elements: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    values: list[tuple[str, str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    code: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] in ("style", "script"):
            self.code[self.stack[-1]] = self.code.get(self.stack[-1], "") + data
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def handle_decl(self, decl: str) -> None:
        self.others.append(decl)

    def handle_pi(self, data: str) -> None:
        self.others.append(data)


def read_page(page: str) -> PageReader:
    """Return what `page` consists of. Every element is closed where it should be."""
    reader = PageReader()
    reader.feed(page)
    reader.close()
    assert not reader.stack
    return reader


def assert_is_a_page_of_ours(page: str) -> PageReader:
    """Assert that nothing in `page` can run or be fetched but what we put there."""
    reader = read_page(page)
    assert page.isascii()
    assert reader.others == ["doctype html"]
    tags = [name for name, _ in reader.elements]
    assert set(tags) <= TAGS
    assert {name for _, names in reader.elements for name in names} <= ATTRIBUTES
    assert [tags.count(name) for name in ("html", "head", "body", "title", "style", "script")] == [1] * 6
    assert all(value.startswith("#") for _, name, value in reader.values if name == "href")
    return reader


@functools.cache
def chromium() -> str:
    """Return a Chromium to look at pages with."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")


def dump_dom(page: Path, *options: str) -> str:
    """Return the document that Chromium has after it loaded `page` and ran what it may."""
    profile = page.with_name("profile")
    done = subprocess.run(
        [
            chromium(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={profile}",
            *options,
            "--dump-dom",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return done.stdout.decode("utf-8")


@contextmanager
def recording_server() -> Iterator[tuple[str, list[str]]]:
    """Serve nothing, and record every request."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
