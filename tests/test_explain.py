"""`flexdoctor explain` as a user runs it."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import on_terminal, run

from flexdoctor.checks import CHAIN
from flexdoctor.commands.explain import gather
from flexdoctor.commands.running import StopError
from flexdoctor.pages import Explained, entries
from flexdoctor.reports import explain_markdown, explain_text
from flexdoctor.reports.explanations import first_sentence
from flexdoctor.reports.rendering import Page
from flexdoctor.reports.wrapping import cells, wrap

CODES = [entry.code for entry in entries(CHAIN)]


def test_without_a_code_every_code_is_listed() -> None:
    lines = run("explain", "--lang", "en").stdout.splitlines()
    assert [line.split()[0] for line in lines] == CODES
    assert "FD112 packages torch-npu is not installed here" in lines
    assert not [line for line in lines if "{" in line]


def test_a_page_in_a_pipe_has_a_line_for_each_topic_and_wraps_nothing() -> None:
    done = run("explain", "FD123", "--lang", "en", COLUMNS="40")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "FD123 CANN … is installed but not sourced"
    assert lines[1] == "link cann · takes away eager, compiled forward, compiled backward, captured tensors"
    labels = [line.partition(":")[0] for line in lines if re.match(r"[a-z]", line)]
    assert [label for label in labels if label != "you see"][1:] == [
        "means",
        "why",
        "confirm",
        "fix",
        "cost",
        "undo",
        "source",
    ]
    assert any(line.startswith("  source /usr/local/Ascend/cann/set_env.sh") for line in lines)


def test_chinese() -> None:
    lines = run("explain", "FD123", "--lang", "zh").stdout.splitlines()
    assert lines[0] == "FD123 CANN … 已安装但未加载环境变量"
    assert {"含义", "原因", "确认", "修复", "代价", "撤销", "来源"} <= {line.partition("：")[0] for line in lines}


@pytest.mark.parametrize("encoding", ["ascii", "gbk"])
def test_any_encoding_can_show_a_page(encoding: str) -> None:
    done = run("explain", "cann", "--lang", "zh", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("含义" in done.stdout) is (encoding == "gbk")


@pytest.mark.parametrize(
    ("asked", "codes"),
    [
        (["fd123"], ["FD123"]),
        (["FD131,FD121", "FD131"], ["FD131", "FD121"]),
        (["interpreter"], [code for code in CODES if code.startswith("FD10")]),
        (
            ["triton-install"],
            [fault.code for check in CHAIN if check.link == "triton_install" for fault in check.faults],
        ),
        (["FD15"], ["FD151", "FD152", "FD153", "FD154", "FD155", "FD156"]),
        (["any"], ["FD001"]),
    ],
)
def test_codes_prefixes_and_links_name_pages(asked: list[str], codes: list[str]) -> None:
    data = json.loads(run("explain", *asked, "--format", "json").stdout)
    assert [item["code"] for item in data["explanations"]] == codes


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("FD2l3", "did you mean FD2"),
        ("pakages", "did you mean packages?"),
        ("qqqqqq", "`flexdoctor explain` lists them all"),
        ("F", "there is no code and no link F"),
    ],
)
def test_an_unknown_code_is_a_usage_error_with_the_nearest(asked: str, hint: str) -> None:
    done = run("explain", asked)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr


def test_an_unknown_code_is_one_document_in_json() -> None:
    done = run("explain", "FD999", "--format", "json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["exit_code"] == 2


def test_json_tells_all_that_is_known() -> None:
    (page,) = json.loads(run("explain", "FD114", "--format", "json").stdout)["explanations"]
    assert (page["link"], page["severity"], page["affects"]) == ("packages", "warning", [])
    assert page["fixes"] == ["cuda_build"]
    assert [item["name"] for item in page["signatures"]]
    assert page["confirm"]["run"]
    assert page["sources"]


def test_the_automatic_fix_stands_before_the_manual_one() -> None:
    lines = run("explain", "FD114", "--lang", "en").stdout.splitlines()
    automatic = next(number for number, line in enumerate(lines) if line.startswith("fix: `flexdoctor fix`"))
    assert lines[automatic + 1].startswith("by hand: ")


@pytest.mark.parametrize("columns", [60, 80, 140])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_prose_keeps_to_the_terminal_and_commands_stay_whole(columns: int, language: str) -> None:
    shown = on_terminal(["explain", "cann", "--lang", language], columns, NO_COLOR="1")
    assert "\x1b" not in shown
    commands = [
        command for item in gather(entries(CHAIN)) if item.entry.link == "cann" for command in commands_of(item)
    ]
    lines = shown.splitlines()
    assert commands
    assert not [command for command in commands if not any(line.endswith(command) for line in lines)]
    for line in lines:
        unbroken = line.endswith(tuple(commands)) or " " not in line[11:].strip()
        assert unbroken or cells(line) <= columns, line


def commands_of(item: Explained) -> list[str]:
    page = item.page
    assert page is not None
    return [*page.confirm.run, *page.fix.run, *page.undo.run, *page.errors]


def test_colour_only_where_it_is_wanted() -> None:
    assert "\x1b[1mFD123" in on_terminal(["explain", "FD123"], 80)
    assert "\x1b" not in run("explain", "FD123").stdout


def test_markdown_shows_code_and_escapes_prose() -> None:
    shown = run("explain", "FD121", "-f", "markdown", "--lang", "en").stdout
    assert shown.startswith("## FD121: there is no CANN")
    assert "```sh\nls -l /dev/davinci*" in shown


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    done = run("explain", "FD121", "--lang", "en", "-o", str(tmp_path / "page.txt"))
    assert done.stdout == ""
    assert (tmp_path / "page.txt").read_text(encoding="utf-8").startswith("FD121 ")


def test_a_check_without_pages_is_explained_by_its_fault() -> None:
    entry = dataclasses.replace(next(item for item in entries(CHAIN) if item.code == "FD121"), pages=None)
    text = explain_text.render(gather([entry]), Page())
    assert text.startswith("FD121 there is no CANN and no Ascend device on this machine\nlink cann")
    assert "came without a page" in text
    assert "came without a page" in explain_markdown.render_reference(gather([entry]), Page())


def test_a_broken_file_of_pages_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "pages.toml").write_text("[FD121]\nmeans = 3\n", encoding="utf-8")
    entry = next(item for item in entries(CHAIN) if item.code == "FD121")
    with pytest.raises(StopError, match=r"pages\.toml: FD121\.means: expected") as caught:
        gather([dataclasses.replace(entry, pages=tmp_path / "pages.toml")])
    assert caught.value.exit_code == 3


def test_a_check_reads_no_page() -> None:
    code = (
        "import sys; sys.argv = ['flexdoctor', 'check', '--example', '8-healthy', '-q']\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "from flexdoctor.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert 'flexdoctor.pages' not in sys.modules\n"
        "assert not [path for path in opened if path.endswith('.toml') and '/checks/' in path], opened\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("see `ls -l /dev` now", 10, ["see", "`ls -l /dev`", "now"]),
        ("https://example.org/a-very-long-path next", 10, ["https://example.org/a-very-long-path", "next"]),
        ("没有找到设备节点，请检查", 16, ["没有找到设备节", "点，请检查"]),
        ("安装 CANN（完整包）后", 10, ["安装 CANN", "（完整包）", "后"]),
        ("", 10, [""]),
    ],
)
def test_lines_break_where_each_language_lets_them(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One folder triton/. Two.", "One folder triton/."),
        ("CANN up to 8.5. It lacks 9.1.0.", "CANN up to 8.5."),
        ("Some, e.g. this one, `a b`. torch goes on.", "Some, e.g. this one, `a b`."),
        ("第一句。第二句。", "第一句。"),
        ("Only one", "Only one"),
    ],
)
def test_the_first_sentence_stands_for_the_page(text: str, first: str) -> None:
    assert first_sentence(text) == first
