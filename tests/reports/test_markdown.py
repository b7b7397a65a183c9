"""Markdown for a bug report: what it tells, what it keeps to itself, and that no name takes effect in it."""

from __future__ import annotations

import dataclasses
import platform
import re

import diagnoses
import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from flexdoctor.facts import DriverFacts, MachineFacts, UserFacts
from flexdoctor.findings import Evidence, Finding, Waiver, found
from flexdoctor.reports.markdown import code, prose, render
from flexdoctor.reports.redaction import Redaction
from flexdoctor.reports.rendering import Diagnosis, Page
from flexdoctor.text import Text

MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def fails(name: str = "x", *quotes: str, **changes: Text) -> Finding:
    evidence = [Evidence("file", quote, path="/a/b.py", line=1) for quote in quotes]
    return dataclasses.replace(found("invented", diagnoses.FAILS, name=name, evidence=evidence), **changes)  # type: ignore[arg-type]


def shown(diagnosis: Diagnosis) -> str:
    return render(diagnosis, Page())


def test_what_a_maintainer_asks_for() -> None:
    text = shown(diagnoses.of(fails("torch", "def f(): ...")))
    assert text.startswith("### flexdoctor: compiled flex_attention cannot run here: torch is at fault")
    assert "| torch-npu | `2.13.0` |" in text
    assert "| Python | `3.11.9 aarch64` |" in text
    assert "Can run: eager yes · compiled forward no (FD901)" in text
    assert "**FD901** ❌ torch is at fault" in text
    assert "<details><summary>Proof</summary>\n\n```text\n/a/b.py:1: def f(): ...\n```\n\n</details>" in text
    html = MARKDOWN.render(text)
    assert html.count("<details>") == html.count("</details>") == 2
    assert "<table>" in html


def test_a_waived_fault_says_why() -> None:
    text = shown(diagnoses.of(fails(), waivers=[Waiver("FD901", "patched <by hand>")]))
    assert "(waived: patched &lt;by hand&gt;)" in text


def test_chinese() -> None:
    text = render(diagnoses.of(fails()), Page(language="zh"))
    assert "有问题" in text
    assert "<summary>完整检查链</summary>" in text


def test_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "train-node-17")
    monkeypatch.setenv("USER", "bo")
    machine = MachineFacts(
        user=UserFacts(1000, name="alice"), driver=DriverFacts("/usr/local/Ascend", version="25.5.1")
    )
    facts = dataclasses.replace(samples.HEALTHY, machine=machine)
    quotes = (
        "open /home/alice/venv/x.py, /Users/Bob/y and /root/z",
        "alice@train-node-17: permission denied for Alice",
        "https://alice:secret@index.example/simple",
        "train-node-17.cluster.local refused",
    )
    text = shown(diagnoses.of(fails("x", *quotes), facts=facts))
    for private in ("alice", "Alice", "Bob", "train-node-17", "secret", "/root"):
        assert private not in text, private
    assert "open ~/venv/x.py, ~/y and ~/z" in text
    assert "https://index.example/simple" in text
    assert "| driver | `25.5.1` |" in text


@pytest.mark.parametrize(
    ("said", "shown_as"),
    [
        ("file:///home/alice/w", "file://~/w"),
        ("gcc -L/home/alice/lib -I/root/include", "gcc -L~/lib -I~/include"),
        ("位于/home/alice/w，/root目录", "位于~/w，~目录"),
        ("/opt/home/alice/w x-L/home/a", "/opt/home/alice/w x-L/home/a"),
        ("/root.txt /rooted", "/root.txt /rooted"),
        ("https://i.example/s?x=1&token=abc&y=2", "https://i.example/s?x=1&token=(secret)&y=2"),
        ("https://i.example/s?access_token=abc#x", "https://i.example/s?access_token=(secret)#x"),
        ("https://i.example/?key=a&Password=b c", "https://i.example/?key=(secret)&Password=(secret) c"),
    ],
)
def test_what_is_taken_out(said: str, shown_as: str) -> None:
    assert Redaction(samples.HEALTHY)(said) == shown_as


@pytest.mark.parametrize(
    ("said", "shown_as"),
    [
        ("设备属主为alice，用户alice没有权限", "设备属主为(user)，用户(user)没有权限"),
        ("alice's malice, alice-2, x.alice", "(user)'s malice, alice-2, x.alice"),
        ("málice", "málice"),
    ],
)
def test_a_name_is_found_wherever_it_is_a_word(monkeypatch: pytest.MonkeyPatch, said: str, shown_as: str) -> None:
    monkeypatch.setenv("USER", "alice")
    assert Redaction(samples.HEALTHY)(said) == shown_as


def test_names_that_are_words_of_ours_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "torch")
    monkeypatch.setattr(platform, "node", lambda: "npu")
    assert "| torch | `2.13.0` |" in shown(diagnoses.of(fails()))


HOSTILE = (
    "```\n</details><script>alert(1)</script>",
    "~~~\n````\n# heading",
    "<img src=x onerror=alert(1)>",
    "`` ` ``|<b>",
    "@org/team please [click](javascript:alert(1)) ![x](http://evil.example/x.png)",
    "| a | b |\n|---|---|",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_text(name: str) -> None:
    dist = dataclasses.replace(samples.DISTRIBUTIONS[0], version=name)
    facts = dataclasses.replace(
        samples.HEALTHY, packages=dataclasses.replace(samples.HEALTHY.packages, distributions=(dist,))
    )
    finding = fails(name, name, detail=Text(name, name), remedy=Text(name, name))
    html = MARKDOWN.render(shown(diagnoses.of(finding, facts=facts)))
    tags = set(re.findall(r"<(/?[a-z]\w*)", html))
    assert {tag.lstrip("/") for tag in tags} <= {
        "h3", "h4", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "strong", "details", "summary",
        "ul", "li",
    }  # fmt: skip
    assert "@org" not in re.sub(r"<(code|pre).*?</\1>", "", html, flags=re.DOTALL)


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text())
def test_whatever_is_quoted_comes_back_as_it_was(title: str, quote: str) -> None:
    html = MARKDOWN.render(shown(diagnoses.of(fails(title, quote))))
    assert html.count("<details>") == html.count("</details>") == 2
    assert html.count("<table>") == 1


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="`|\\a _*[]<&@~-1.)#"))
def test_prose_and_code_show_what_they_were_given(text: str) -> None:
    flat = " ".join(text.split())
    for written in (f"x {prose(text)}", f"x {code(text)}", prose(text)):
        html = MARKDOWN.render(written)
        bare = re.sub(r"</?(p|code)>", "", html).strip()
        for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
            bare = bare.replace(entity, character)
        assert bare.replace("\u200b", "").removeprefix("x").strip() == flat
