"""The pages of the faults: every code has one, whole in both languages; and how a file of pages is read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from flexdoctor.checks import CHAIN
from flexdoctor.pages import TOPICS, Entry, Explanation, PageError, entries, load
from flexdoctor.text import Text

LINKS = tuple(dict.fromkeys(entry.link for entry in entries(CHAIN)))
PAGE = "[FD999]\n" + "".join(f'{topic}.en = "Words."\n{topic}.zh = "文字。"\n' for topic in TOPICS)
GOOD = PAGE + 'sources = ["a file, line 3"]\n'


def of(link: str) -> list[Entry]:
    return [entry for entry in entries(CHAIN) if entry.link == link]


def pages_of(link: str) -> dict[str, Explanation]:
    (path,) = {entry.pages for entry in of(link)}
    assert path is not None, f"{link} names no file of pages"
    return load(path) if path.is_file() else {}


@pytest.mark.parametrize("link", LINKS)
def test_every_code_has_its_page_and_every_page_its_code(link: str) -> None:
    codes, pages = {entry.code for entry in of(link)}, set(pages_of(link))
    assert not codes - pages, f"no page for {' '.join(sorted(codes - pages))}"
    assert not pages - codes, f"no code for the page {' '.join(sorted(pages - codes))}"


@pytest.mark.parametrize("link", LINKS)
def test_pages_say_the_same_in_both_languages(link: str) -> None:
    for page in pages_of(link).values():
        for topic in TOPICS:
            text, where = page.on(topic).text, f"{page.code}.{topic}"
            assert re.search(r"[\u4e00-\u9fff]", text.zh), f"{where}.zh is not Chinese"
            assert not re.search(r"[\u3000-\u9fff\uff00-\uffef]", text.en), f"{where}.en holds Chinese"
            assert code_in(text.en) == code_in(text.zh), f"{where} quotes other code in the two languages"
            assert not re.search(r"(?<!\$)\{", text.en + text.zh), f"{where} has a placeholder that nothing fills"


def code_in(text: str) -> set[str]:
    assert text.count("`") % 2 == 0, f"a backtick is open in {text!r}"
    return set(text.split("`")[1::2])


def test_a_page_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(
        GOOD + 'errors = ["E: x"]\nconfirm.run = ["ls -l", "id"]\n' + GOOD.replace("FD999", "FD998"), encoding="utf-8"
    )
    pages = load(tmp_path / "good.toml")
    assert list(pages) == ["FD999", "FD998"]
    page = pages["FD999"]
    assert page.confirm.text == Text("Words.", "文字。")
    assert page.confirm.run == ("ls -l", "id")
    assert page.undo.run == ()
    assert (page.errors, page.sources) == (("E: x",), ("a file, line 3",))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("第一行\n第二行。\n第三行", "第一行第二行。第三行"),
        ("使用 CANN\n的环境", "使用 CANN 的环境"),
        ("安装\nCANN 9，\nCANN 8", "安装 CANN 9，CANN 8"),
        ("见下文\n（旧版）\n`a b`", "见下文（旧版）`a b`"),
    ],
)
def test_lines_of_chinese_join_without_a_blank(tmp_path: Path, written: str, read: str) -> None:
    path = tmp_path / "pages.toml"
    path.write_text(GOOD.replace('why.zh = "文字。"', f'why.zh = """\n{written}\n"""'), encoding="utf-8")
    assert load(path)["FD999"].why.text.zh == read


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[FD999\n", "line 1"),
        ("[FD999]\nmeans.en = '文'".encode("gbk"), "cannot be read"),
        (b"FD999 = 3", "FD999: expected a table, found int"),
        (PAGE.encode(), "FD999.sources: is missing"),
        (GOOD.replace('cost.zh = "文字。"\n', "").encode(), "FD999.cost.zh: is missing"),
        (GOOD.replace("undo.", "redo.").encode(), "FD999: there is no key redo"),
        (GOOD.replace('why.en = "Words."\nwhy.zh = "文字。"', 'why = "Words."').encode(), "FD999.why: expected .en"),
        (GOOD.replace('why.en = "Words."', 'why.en = " "').encode(), "FD999.why.en: expected a text"),
        ((GOOD + "errors = [1]\n").encode(), "FD999.errors: expected a list of texts"),
        ((GOOD + "fix.run = []\n").encode(), "FD999.fix.run: expected a list of texts"),
        ((GOOD + 'cost.run = ["x"]\n').encode(), "FD999.cost: there is no key run"),
        ((GOOD + 'fix.de = "Worte."\n').encode(), "FD999.fix: there is no key de"),
    ],
)
def test_a_broken_file_is_told_by_file_code_and_key(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "pages.toml"
    path.write_bytes(content)
    with pytest.raises(PageError, match=re.escape(complaint)) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert str(path) in caught.value.message.zh


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"nothing\.toml: cannot be read: No such file"):
        load(tmp_path / "nothing.toml")


def test_every_command_is_one_that_a_shell_takes() -> None:
    pages = [page for link in LINKS for page in pages_of(link).values()]
    commands = [line for page in pages for topic in TOPICS for line in page.on(topic).run]
    assert not [line for line in commands if "\n" in line]
    filled = [re.sub(r"<[A-Za-z][^<>]*>", "word", line) for line in commands]
    done = subprocess.run(["bash", "-n"], input="\n".join(filled), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
