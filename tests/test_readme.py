"""The README shows what the program prints, and its commands are the ones that work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_cli import on_terminal

from flexdoctor.checks import CHAIN
from flexdoctor.commands.reference import with_reference

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", re.findall(r"<!-- example: flexdoctor (.*?) -->", README))
def test_examples_are_printed_by_the_program(command: str) -> None:
    (shown,) = re.findall(rf"<!-- example: flexdoctor {re.escape(command)} -->\n```text\n(.*?)```", README, re.DOTALL)
    assert shown == on_terminal(command.split(), 100, NO_COLOR="1")


def test_every_link_has_its_line() -> None:
    for check in CHAIN:
        assert f"| {check.link} |" in README


def test_commands_in_the_usage_exist() -> None:
    commands = ("check", "fix", "undo", "explain", "snapshot", "compare", "list")
    options = "".join(on_terminal([command, "--help"], 100) for command in commands)
    of_others = {"--flexdoctor-kernels", "--nnodes", "--no-python", "--install-completion"}
    usage = README[README.index("## Use") : README.index("## How it knows")]
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", usage)) - of_others:
        assert option in options


def test_the_reference_is_made_of_the_pages() -> None:
    assert with_reference(README) == README, "bring it up to date with `python -m flexdoctor.commands.reference`"
