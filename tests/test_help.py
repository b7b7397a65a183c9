"""`--help` fits a screen of 80 columns and 24 rows, and `--help-all` leaves nothing out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from test_cli import on_terminal

from flexdoctor import cli
from flexdoctor.cli import app
from flexdoctor.commands import help as help_
from flexdoctor.reports.wrapping import cells
from flexdoctor.tables import read_toml

COMMANDS = ("check", "fix", "undo", "explain", "snapshot", "compare", "list")
CHINESE = read_toml(Path(help_.__file__).with_suffix(".toml")) or {}


def every_text() -> set[str]:
    """Return what the pages of help say, as it is declared."""
    root = typer.main.get_command(app)
    context = typer.Context(root)
    texts = {root.help, *(what for _, what in cli.COMMANDS.values())}
    pages = [(root, context)]
    for name in cli.COMMANDS:
        command = root.get_command(context, name)  # type: ignore[attr-defined]
        texts.update(help_.paragraphs_of(command.help))
        pages.append((command, typer.Context(command, parent=context)))
    for command, own in pages:
        for parameter in command.get_params(own):
            texts |= {parameter.help, getattr(parameter, "rich_help_panel", None)}  # type: ignore[attr-defined]
    return {text for text in texts if text}


def test_every_text_is_there_in_chinese_and_no_other() -> None:
    assert set(CHINESE) == every_text()


def test_what_is_typed_is_the_same_in_chinese() -> None:
    typed = re.compile(r"--?[a-z][a-z-]*|\$?\b[A-Z]{3,}[A-Z_]*\b|`[^`]*`|\b\d+\b")
    for english, chinese in CHINESE.items():
        assert set(typed.findall(english)) - {"-for"} <= set(typed.findall(chinese)), english


@pytest.mark.parametrize("how", [{"LC_ALL": "zh_CN.UTF-8"}, {"FLEXDOCTOR_LANG": "zh"}, "--lang"])
def test_help_speaks_the_language_of_who_asks(how: dict[str, str] | str) -> None:
    arguments, variables = (["--lang", "zh"], {}) if isinstance(how, str) else ([], how)
    whole = on_terminal(["check", *arguments, "--help-all"], 80, **variables)
    assert whole.startswith("用法：flexdoctor check")
    assert "环境变量：FLEXDOCTOR_FORMAT；默认：text" in whole.replace("\n" + " " * 24, "")
    assert "说明全部选项并退出。" in whole


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_screen(command: str, language: str) -> None:
    lines = on_terminal([*command.split(), "--help"], 80, FLEXDOCTOR_LANG=language).splitlines()
    assert max(map(cells, lines)) <= 80
    assert len(lines) <= 24


@pytest.mark.parametrize("command", ["check", "fix", "snapshot"])
def test_every_option_is_named_by_both(command: str) -> None:
    def named(text: str) -> set[str]:
        return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))

    short, whole = on_terminal([command, "--help"], 80), on_terminal([command, "--help-all"], 80)
    own = set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", whole, re.MULTILINE))
    assert len(own) > 8
    assert own <= named(short)


def test_what_people_use_most_stands_first() -> None:
    lines = on_terminal(["check", "--help"], 80).splitlines()
    first = lines[lines.index("Options:") + 1]
    assert first.split()[0] == "--python"
    assert on_terminal(["--help"], 80).index("  check ") < on_terminal(["--help"], 80).index("  fix ")


def test_a_command_without_rare_options_has_no_second_help() -> None:
    assert "--help-all" not in on_terminal(["undo", "--help"], 80)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("flexdoctor ch", {"check"}),
        ("flexdoctor check --select FD22", {"FD221", "FD222"}),
        ("flexdoctor check --select module", {"module_rename"}),
        ("flexdoctor check --require comp", {"compiled_forward", "compiled_backward", "compiled_captured"}),
        ("flexdoctor check --example cann", {"cann-unsourced"}),
    ],
)
def test_the_shell_completes_commands_options_and_values(typed: str, offered: set[str]) -> None:
    environment = {
        **os.environ,
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_FLEXDOCTOR_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-c", "from flexdoctor.cli import main; main()"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert set(done.stdout.split()) == offered
