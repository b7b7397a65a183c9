"""The tables of the machine's side: spellings, rows against the published pages, and a source for everything."""

from __future__ import annotations

import datetime
import re

import pytest

from flexdoctor.knowledge import cann, chips, drivers, error_codes, load_table


@pytest.mark.parametrize(
    ("spelled", "line"),
    [
        ("8.1.RC1", "8.1"),
        ("8.1.RC1.alpha001", "8.1"),
        ("8.2.rc1.alpha002", "8.2"),
        ("8.3.RC2", "8.3"),
        ("8.5.0.alpha001", "8.5"),
        ("8.5.1", "8.5"),
        ("9.0.0-beta.2", "9.0"),
        ("v9.0.0-rc.1", "9.0"),
        ("8.0.RC3", "8.0.RC3"),
        ("8.0.0", "8.0.0"),
        ("cann-9.1.0-beta.3", "9.1"),
        ("9.10.2", "9.10"),
    ],
)
def test_line_of_a_version(spelled: str, line: str) -> None:
    version = cann.parse_cann(spelled)
    assert version is not None
    assert version.line == line


def test_four_spellings_of_one_beta() -> None:
    spellings = ("9.1.0-beta.3", "9.1.0b3", "9.1.0.beta.3", "cann-9.1.0-beta3", "9.1.0-BETA.3")
    assert len({cann.parse_cann(item) for item in spellings}) == 1


@pytest.mark.parametrize("text", ["", "latest", "9", "abc-9.1", "９.１", "9.", "cann"])
def test_what_is_no_version(text: str) -> None:
    assert cann.parse_cann(text) is None or text == "９.１"


def test_versions_in_order() -> None:
    ordered = [
        "8.0.RC3", "8.0.0", "8.1.RC1.alpha001", "8.1.RC1", "8.3.RC1", "8.3.RC2", "8.5.0.alpha001", "8.5.0", "8.5.2",
        "9.0.0-beta.1", "9.0.0-beta.2", "9.0.0-rc.1", "9.0.0", "9.0.1", "9.10.0",
    ]  # fmt: skip
    versions = [cann.parse_cann(item) for item in ordered]
    assert versions == sorted(versions, key=lambda item: item or cann.CannVersion(0, 0, 0, 0, 0, 0))


# Rows of Ascend/pytorch COMPATIBILITY.en.md and of the release notes of triton-ascend, read by hand.
@pytest.mark.parametrize(
    ("package", "version", "line"),
    [
        ("torch-npu", "2.7.1.post8", "9.1.0"),
        ("torch-npu", "2.7.1.post4", "9.0.0"),
        ("torch-npu", "2.7.1.post2", "8.5.0"),
        ("torch-npu", "2.7.1", "8.3.RC1"),
        ("torch-npu", "2.1.0.post13", "8.2.RC1"),
        ("torch-npu", "2.9.0+git4c901a4", "8.5.0"),
        ("triton-ascend", "3.2.0", "8.5.0"),
        ("triton-ascend", "3.2.1", "9.0.0"),
        ("triton-ascend", "3.2.2", "9.1.0"),
    ],
)
def test_published_pairs(package: cann.Package, version: str, line: str) -> None:
    assert line in {row.cann for row in cann.rows_for(package, version)}


def test_contradicting_pages_are_both_kept() -> None:
    sources = {row.source for row in cann.rows_for("torch-npu", "2.7.1") if row.cann in ("8.3.RC1", "9.0.0")}
    assert len(sources) >= 2


def test_every_cann_version_in_a_row_can_be_read() -> None:
    for package in ("torch-npu", "triton-ascend"):
        assert all(cann.parse_cann(row.cann) for row in cann.pairs(package))


def test_break_is_of_one_version_and_line() -> None:
    newer = cann.parse_cann("9.1.1")
    older = cann.parse_cann("9.0.0")
    assert newer is not None
    assert older is not None
    assert [row.instead for row in cann.breaks("triton-ascend", "3.2.0", newer)] == ["3.2.2"]
    assert cann.breaks("triton-ascend", "3.2.2", newer) == ()
    assert cann.breaks("triton-ascend", "3.2.0", older) == ()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Ascend910B", "910"),
        ("910B4", "910B"),
        ("Ascend910B4-1", "910B"),
        ("Ascend910B4_1", "910B"),
        ("Ascend910_9391", "910_93"),
        ("Ascend910_9579", "950"),
        ("Ascend950PR_9579", "950"),
        ("Ascend950DT_7777", "950"),
        ("310P3", "310P"),
        ("310B4", "310B"),
        ("Ascend777", None),
        ("", None),
    ],
)
def test_family_of_a_chip(name: str, key: str | None) -> None:
    family = chips.family_of_chip(name)
    assert (family.key if family else None) == key


def test_pci_ids_of_the_driver_headers() -> None:
    ids = {"0xd100": "310", "0xd500": "310P", "0xd801": "910", "0xd802": "910B", "0xd803": "910_93", "0xd806": "950"}
    found = {pci: chips.family_of_pci([pci]) for pci in ids}
    assert {pci: family.key for pci, family in found.items() if family} == ids
    assert chips.family_of_pci(["0xd802", "0xd806"]) is None
    assert chips.family_of_pci(["0x0001"]) is None


def test_driver_rows_of_8_0_hold_for_its_candidates() -> None:
    version = cann.parse_cann("8.0.RC1")
    assert version is not None
    assert {row.cann for row in drivers.rows_for_line(version)} == {"8.0", "8.0.RC1"}
    assert drivers.driver_line("24.1.rc2.2") == "24.1"
    assert drivers.driver_line("rc2") is None


# Names and numbers as the public headers have them.
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("207004", "ACL_ERROR_RT_NO_DEVICE"),
        ("507008", "ACL_ERROR_RT_SOC_VERSION"),
        ("500001", "ACL_ERROR_FAILURE"),
        ("561103", "ACLNN_ERR_INNER_NULLPTR"),
        ("561112", "ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND"),
        ("-8005", "DCMI_ERR_CODE_INNER_ERR"),
        ("87", "DRV_ERROR_RESOURCE_OCCUPIED"),
    ],
)
def test_error_codes(code: str, name: str) -> None:
    assert name in {row.name for row in error_codes.look_up(code)}


def test_code_that_is_not_known_is_not_known() -> None:
    assert error_codes.look_up("999999") == ()
    assert error_codes.look_up("") == ()


def test_class_stands_for_its_codes() -> None:
    assert [row.code for row in error_codes.look_up("E21234")] == ["E2xxxx"]
    assert [row.code for row in error_codes.look_up("E40020")] == ["E40020"]


def test_doubt_of_a_derived_meaning_is_kept() -> None:
    rows = error_codes.error_codes()
    assert len(rows) > 450
    derived = [row for row in rows if row.doubt == "meaning derived from the name"]
    assert derived
    assert all(re.fullmatch(r"\(.*\)", row.meaning.en) and not row.meaning.zh for row in derived)


def test_what_is_known_of_a_code_is_told_in_both_languages() -> None:
    for row in error_codes.error_codes():
        for text in (row.meaning, row.causes):
            is_read_off_the_name = bool(re.fullmatch(r"\(.*\)", text.en))
            assert bool(text.zh) == (bool(text.en) and not is_read_off_the_name), row
        # A report that is cited is cited in both.
        cited = re.compile(r"[\w-]+/[\w-]+#\d+")
        assert cited.findall(row.causes.en) == cited.findall(row.causes.zh), row


def test_every_row_of_every_table_has_a_source_and_a_date() -> None:
    for name in ("cann", "chips", "drivers", "error_codes", "toolchain"):
        for kind, rows in load_table(name).items():
            for row in rows:
                assert row.get("source"), (name, kind, row)
                assert isinstance(row.get("date"), datetime.date), (name, kind, row)
