"""Both languages: the same placeholders, nothing empty, and every code once."""

from __future__ import annotations

import re
import string

import pytest

from flexdoctor.checks import CHAIN
from flexdoctor.findings import Fault
from flexdoctor.text import Text, user_language

FAULTS = [fault for check in CHAIN for fault in check.faults]


def placeholders(text: str) -> set[str]:
    return {name.removesuffix("_zh") for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)
def test_titles_exist_in_both_languages_with_the_same_placeholders(fault: Fault) -> None:
    assert fault.title.en
    assert re.search(r"[\u4e00-\u9fff]", fault.title.zh)
    assert placeholders(fault.title.en) == placeholders(fault.title.zh)


def test_codes_are_unique_and_in_the_range_of_their_link() -> None:
    codes = [fault.code for fault in FAULTS]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"FD\d{3}", code) for code in codes)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_GB"}, "zh"),
        ({}, "en"),
    ],
)
def test_language_follows_the_locale(environment: dict[str, str], expected: str) -> None:
    assert user_language(environment) == expected


def test_sentences_join_by_the_rules_of_each_language() -> None:
    assert Text("One.", "一。") + Text("Two.", "二。") == Text("One. Two.", "一。二。")
