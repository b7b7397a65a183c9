"""The builder of pages: a text is only ever a text."""

from __future__ import annotations

import pytest
from html_pages import HOSTILE, read_page
from hypothesis import given
from hypothesis import strategies as st

from flexdoctor.reports.markup import fragment, tag, verbatim, visible


@given(st.text(), st.text())
def test_text_comes_back_as_it_was(content: str, value: str) -> None:
    page = read_page(tag("p", content, title=value).html)
    assert page.elements == [("p", ("title",))]
    assert "".join(page.texts) == visible(content)
    assert page.values == [("p", "title", visible(value))]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element(text: str) -> None:
    assert read_page(tag("b", text, class_=text).html).elements == [("b", ("class",))]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a\\u202eb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\ud800", "\\ud800"),
        ("\u200b", "\\u200b"),
        ("\x80", "\\x80"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("昇腾 · × é", "昇腾 · × é"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_markup_is_ascii_whatever_the_text() -> None:
    assert tag("p", "昇腾").html == "<p>&#26119;&#33150;</p>"


def test_attributes() -> None:
    assert tag("p", hidden=True, open=False, id=None, aria_label="x", class_="y").html == (
        '<p hidden aria-label="x" class="y"></p>'
    )
    assert tag("meta", name="a").html == '<meta name="a">'
    for attributes in ({"onclick": "x"}, {"style": "x"}, {"a b": "x"}, {'a"': "x"}):
        with pytest.raises(ValueError, match="is no attribute"):
            tag("p", **attributes)
    with pytest.raises(ValueError, match="is no element"):
        tag("p><script")


def test_children_may_be_nested_and_absent() -> None:
    assert fragment("a", None, ["b", (tag("i"), "<")]).html == "ab<i></i>&lt;"


def test_code_that_could_end_its_element_is_refused() -> None:
    assert verbatim("style", "a > b { }").html == "<style>a > b { }</style>"
    for code in ("</style>", "a<b", "é"):
        with pytest.raises(ValueError, match="cannot stand in"):
            verbatim("style", code)
