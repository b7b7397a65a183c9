"""`--help` fits a screen of 80 columns and 24 rows, and `--help-all` leaves nothing out."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from test_cli import on_terminal

COMMANDS = ("check", "fix", "undo", "explain", "snapshot", "compare", "list")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_screen(command: str) -> None:
    lines = on_terminal([*command.split(), "--help"], 80).splitlines()
    assert max(map(len, lines)) <= 80
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
