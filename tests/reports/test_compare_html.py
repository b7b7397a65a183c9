"""The page of a comparison: what is odd stands out, every node is there, and nothing in it can run or be fetched."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import node_folders
import pytest
from html_pages import HOSTILE, PageReader, assert_is_a_page_of_ours, dump_dom, read_page, some_values
from hypothesis import given, settings
from test_cli import run

from flexdoctor.comparison import Comparison, Difference, Group, Node, Standing, Unfinished
from flexdoctor.findings import Evidence, Finding
from flexdoctor.nodes import Unusable
from flexdoctor.reports import compare_html
from flexdoctor.reports.compare_html import render
from flexdoctor.reports.html_page import MARKS
from flexdoctor.reports.markup import visible
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Text

Say = Callable[[], str]
STANDINGS: tuple[Standing, ...] = ("fault", "drift", "other")


def comparison(say: Say, groups: int = 2) -> Comparison:
    """Return a comparison with every field filled with what `say` returns."""

    def text() -> Text:
        return Text(said := say(), said)

    def findings() -> tuple[Finding, ...]:
        return tuple(
            Finding(
                link=f"link{number}",
                status=status,
                title=text(),
                code=f"FD90{number}",
                severity="error" if status == "fail" else "none",
                detail=text(),
                evidence=(Evidence("file", say(), path=say(), line=1, source=say()),),
                predicted_errors=(say(),),
                remedy=text(),
            )
            for number, status in enumerate(MARKS)
        )

    def differences() -> tuple[Difference, ...]:
        return tuple(Difference(standing, say(), say(), standing, (say(),)) for standing in STANDINGS)

    def group(number: int) -> Group:
        return Group(
            number,
            say(),
            (Node(say(), say()),),
            "broken",
            say(),
            findings(),
            is_reference=number == 1,
            differences=()
            if number == 1
            else tuple(Difference(f"{at}", say(), say(), at, (say(),)) for at in STANDINGS),
            only_here=findings(),
            not_here=findings(),
            error=say() if number == 2 else None,
        )

    return Comparison(
        tuple(group(number) for number in range(1, groups + 1)),
        "faulty",
        {"key": say()},
        expected=9,
        missing=(say(),),
        missing_count=1,
        unexpected=(say(),),
        unfinished=(Unfinished(say(), say()),),
        unusable=(Unusable(say(), "cut off", say()), Unusable(say(), "foreign", say())),
        notes=(text(),),
    )


@settings(max_examples=20, deadline=None)
@given(some_values())
def test_no_value_becomes_an_element_or_an_attribute(values: list[str]) -> None:
    page = assert_is_a_page_of_ours(render(comparison(itertools.cycle(values).__next__), Page()))
    assert page.elements == read_page(render(comparison(lambda: "x"), Page())).elements


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_value_is_shown_as_it_is(hostile: str) -> None:
    reader = assert_is_a_page_of_ours(render(comparison(lambda: hostile), Page()))
    assert sum(visible(hostile) in text for text in reader.texts) > 100


def test_chromium_runs_nothing_of_a_hostile_comparison(tmp_path: Path) -> None:
    hostile = "\"'></title><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
    page = tmp_path / "page.html"
    page.write_text(render(comparison(lambda: hostile), Page()), encoding="utf-8")
    document = dump_dom(page)
    assert "<title>flexdoctor: " in document
    assert "<title>owned" not in document
    # Our own script ran: it shows the filter that is of no use without it.
    assert re.search(r'<input type="search"[^>]* hidden', page.read_text(encoding="utf-8"))
    assert not re.search(r'<input type="search"[^>]* hidden', document)


def everything(reader: PageReader) -> str:
    return re.sub(r"\s+", " ", " ".join(reader.texts))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_job_with_planted_drifts(tmp_path: Path, language: str) -> None:
    planted = node_folders.write_job(tmp_path / "job", 40, distributions=30)
    node_folders.write_trace(tmp_path / "job", node_folders.slurm_node(planted.missing[0]))
    (tmp_path / "job" / "half.json").write_text('{"schema_version": 1, "tool"')
    arguments = ("compare", str(tmp_path / "job"), "--expect", "40", "--lang", language)
    text, page = run(*arguments), run(*arguments, "--format", "html")
    assert (page.returncode, page.stderr) == (text.returncode, text.stderr) == (1, "")
    reader = assert_is_a_page_of_ours(page.stdout)
    assert ("html", "lang", "zh-Hans" if language == "zh" else "en") in reader.values
    said = everything(reader)
    verdict = run(*arguments, "--quiet").stdout.strip()
    assert verdict in said
    for number in (*planted.overwritten, *planted.other_torch_npu, *planted.other_numpy, planted.missing[0]):
        assert f"node{number:05}" in said
    assert "FD213" in said
    for value in ("2.13.0.post1", "1.26.3", "29 of 34", "half.json"):
        assert value in said
    # Every node that reported can be found by its name.
    names = " ".join(text for text in reader.texts if text.count("node") > 10).split()
    assert len(names) == 40 - len(planted.missing) - 4


def test_only_what_the_reference_does_not_have_is_framed(tmp_path: Path) -> None:
    node_folders.write_job(tmp_path / "job", 12, distributions=20)
    reader = read_page(run("compare", str(tmp_path / "job"), "--format", "html").stdout)
    odd = [index for index, (_, name, value) in enumerate(reader.values) if (name, value) == ("class", "cell odd")]
    labels = [next(value for _, name, value in reader.values[index:] if name == "aria-label") for index in odd]
    assert labels == ["triton install FAIL FD213", "module rename blocked"]


def test_many_groups_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_html, "_SHOWN", 3)
    reader = assert_is_a_page_of_ours(render(comparison(lambda: "x", groups=5), Page()))
    classes = [value for _, name, value in reader.values if name == "class" and value in ("group", "more")]
    assert classes == ["group", "group", "group", "more", "group", "group"]
    assert "2 more groups" in reader.texts
