"""The page of one report: it says what the text says, and nothing in it can run or be fetched."""

from __future__ import annotations

import base64
import datetime
import hashlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import builders
import pytest
from html_pages import HOSTILE, assert_is_a_page_of_ours, dump_dom, read_page, recording_server, some_values
from hypothesis import given, settings
from test_cli import run

from flexdoctor.chain import Check, diagnose
from flexdoctor.checks import CHAIN
from flexdoctor.facts import Facts, InterpreterFacts, PackagesFacts, TargetFacts, TritonFacts
from flexdoctor.findings import CapabilityAnswer, Evidence, Finding, Report, Waiver
from flexdoctor.reports.document import report_document
from flexdoctor.reports.html_page import MARKS
from flexdoctor.reports.markup import visible
from flexdoctor.reports.rendering import Diagnosis, Format, Page, render
from flexdoctor.snapshots import example_names
from flexdoctor.targets import TargetOptions, read_target
from flexdoctor.text import NOTHING, Language, Text
from flexdoctor.treatment.plan import Plan, Step

Say = Callable[[], str]


def diagnosis(say: Say) -> Diagnosis:
    """Return a diagnosis with every field of a report filled with what `say` returns."""

    def text() -> Text:
        return Text(said := say(), said)

    def finding(link: str, status: str, code: str | None) -> Finding:
        return Finding(
            link=link,
            status=status,  # type: ignore[arg-type]
            title=text(),
            code=code,
            severity="error" if status == "fail" else "none",
            detail=text(),
            evidence=(Evidence("file", say(), path=say(), line=3, source=say()), Evidence("variable", say())),
            predicted_errors=(say(),),
            remedy=text(),
            affects=("compiled_forward",),
            blocked_by="FD900" if status == "blocked" else None,
            waiver=Waiver("FD902", say(), datetime.date(2027, 1, 1)) if status == "warn" else None,
        )

    broken = finding("first", "fail", "FD900")
    findings = (
        broken,
        *(finding(f"link{number}", status, f"FD90{number}") for number, status in enumerate(MARKS, 1)),
        Finding(say(), "pass", text()),
    )
    step = Step(
        "install", "x", text(), ("FD900",), command=text(), touches=text(), note=text(), distribution=say(), path=say()
    )
    return Diagnosis(
        report=Report(
            findings,
            {
                "eager": CapabilityAnswer("yes"),
                "compiled_forward": CapabilityAnswer("no", "FD900"),
                "compiled_backward": CapabilityAnswer("unknown", say()),
                "compiled_captured": CapabilityAnswer("no", say()),
            },
            "broken",
            broken,
            "compiled_forward",
        ),
        facts=Facts(
            TargetFacts("environment", say(), (say(),), machine_examined=False),
            InterpreterFacts("CPython", say(), say(), say()),
            packages=PackagesFacts(),
            triton=TritonFacts(),
        ),
        chain=[Check(item.link, text(), NOTHING, (), lambda _: ()) for item in findings[:-1]],
        plan=Plan((step,), (step,), stack=say(), stack_note=say(), alternatives=(say(),), warnings=(text(),)),
    )


@settings(max_examples=30, deadline=None)
@given(some_values())
def test_no_value_becomes_an_element_or_an_attribute(values: list[str]) -> None:
    """Whatever the values are, the page has the elements and attributes that it has for harmless ones."""
    page = assert_is_a_page_of_ours(render(Format.html, diagnosis(itertools.cycle(values).__next__), Page()))
    assert page.elements == read_page(render(Format.html, diagnosis(lambda: "x"), Page())).elements


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_value_is_shown_as_it_is(hostile: str) -> None:
    reader = assert_is_a_page_of_ours(render(Format.html, diagnosis(lambda: hostile), Page()))
    shown = [text for text in reader.texts if visible(hostile) in text]
    # Titles, details, evidence with path and source, errors, remedies, waivers, plan, target and capabilities.
    assert len(shown) > 60


def test_the_browser_is_told_that_nothing_may_be_loaded_or_run() -> None:
    reader = read_page(render(Format.html, diagnosis(lambda: "x"), Page()))
    names = [name for name, _ in reader.elements]
    policies = [value for _, name, value in reader.values if name == "content" and "default-src" in value]
    hashes = {
        name: "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        for name, code in reader.code.items()
    }
    assert policies == [
        f"default-src 'none'; style-src '{hashes['style']}'; script-src '{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'"
    ]
    # A policy holds for what comes after it.
    assert names.index("meta") < min(names.index("style"), names.index("script"), names.index("title"))
    assert not re.search(r"url\(|@import|image-set|https?:", reader.code["style"] + reader.code["script"])


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("example", example_names())
def test_the_page_says_what_the_report_says(example: str, language: Language) -> None:
    facts = read_target(TargetOptions(example=example))
    report = diagnose(facts, CHAIN)
    document = report_document(report, facts, language)
    reader = assert_is_a_page_of_ours(render(Format.html, Diagnosis(report, facts, CHAIN), Page(language=language)))
    said = [re.sub(r"\s+", " ", text) for text in reader.texts]
    assert ("html", "lang", "zh-Hans" if language == "zh" else "en") in reader.values
    for finding in document["findings"]:
        sentences = [finding["title"], finding["detail"], *finding["predicted_errors"]]
        sentences += [item["text"] for item in finding["evidence"]]
        for sentence in sentences:
            assert not sentence or any(re.sub(r"\s+", " ", sentence) in text for text in said), sentence
        if finding["status"] not in ("pass", "skipped") and finding["code"]:
            assert finding["code"] in said
    if report.root_cause is not None:
        assert document["root_cause"] in said
    assert document["target"]["description"] in said


@pytest.mark.parametrize("expected", [0, 1])
def test_the_exit_code_is_that_of_the_text(site: Path, expected: int) -> None:
    builders.install_healthy(site)
    if expected:
        builders.install_triton(site)
    for format_ in ("text", "html"):
        done = run("check", "--site-packages", str(site), "--format", format_)
        assert (done.returncode, done.stderr) == (expected, ""), format_


def test_every_link_in_the_page_leads_somewhere(site: Path) -> None:
    builders.install_healthy(site)
    builders.install_triton(site)
    reader = read_page(run("check", "--site-packages", str(site), "--format", "html").stdout)
    targets = {value for _, name, value in reader.values if name == "id"}
    links = [value.removeprefix("#") for _, name, value in reader.values if name == "href"]
    assert len(links) >= 11
    assert set(links) <= targets


def test_a_page_goes_into_a_file_whole_or_not_at_all(site: Path, tmp_path: Path) -> None:
    builders.install_healthy(site)
    target = tmp_path / "report.html"
    done = run("check", "--site-packages", str(site), "--format", "html", "-o", str(target))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert_is_a_page_of_ours(target.read_text(encoding="ascii"))


def test_a_run_that_could_not_diagnose_tells_a_person_on_stderr() -> None:
    done = run("check", "--python", "/nowhere", "--format", "html")
    assert (done.returncode, done.stdout) == (3, "")
    assert "/nowhere does not exist" in done.stderr


def test_a_waived_fault_is_hollow_and_says_why() -> None:
    plain = render(Format.html, diagnosis(lambda: "because"), Page())
    reader = read_page(plain)
    assert sum(value == "mark waived" for _, name, value in reader.values if name == "class") == 2
    assert "because (until 2027-01-01)" in reader.texts
    assert [value for _, name, value in reader.values if name == "class"].count("row waived") == 1


def test_beside_another_format(site: Path, tmp_path: Path) -> None:
    builders.install_healthy(site)
    done = run("check", "--site-packages", str(site), "--also", f"html={tmp_path / 'report.html'}")
    assert done.returncode == 0
    assert "nothing found that keeps it" in done.stdout
    assert_is_a_page_of_ours((tmp_path / "report.html").read_text(encoding="ascii"))


@pytest.mark.parametrize("encoding", ["gbk", "ascii", "latin-1"])
def test_the_encoding_of_stdout_does_not_matter(encoding: str) -> None:
    done = run("check", "--example", "triton-overwritten", "--format", "html", PYTHONIOENCODING=encoding)
    assert "29 of 34" in " ".join(assert_is_a_page_of_ours(done.stdout).texts)


@pytest.mark.parametrize("hostile", HOSTILE[:5])
def test_a_hostile_environment_on_disk(tmp_path: Path, hostile: str) -> None:
    """The names of folders and distributions are not ours."""
    site = tmp_path / hostile.replace("/", "_") / "site-packages"
    site.mkdir(parents=True)
    builders.install_healthy(site)
    builders.install_triton(site)
    reader = assert_is_a_page_of_ours(run("check", "--site-packages", str(site), "--format", "html").stdout)
    assert any(visible(str(site)) in text for text in reader.texts)


def test_chromium_runs_and_fetches_nothing_of_a_hostile_report(tmp_path: Path) -> None:
    with recording_server() as (url, asked):
        hostile = (
            f"\"'></title></style></code><script>document.title='owned'</script>"
            f"<img src={url}/leak onerror=document.title='owned'>"
            f"<link rel=stylesheet href={url}/leak><iframe src={url}/leak></iframe>"
        )
        page = tmp_path / "page.html"
        page.write_text(render(Format.html, diagnosis(lambda: hostile), Page()), encoding="utf-8")
        document = dump_dom(page)
        assert "<title>flexdoctor: " in document
        assert asked == []
        # Our own script ran, so it is not for want of scripts that nothing happened.
        assert 'class="tools" hidden' in page.read_text(encoding="utf-8")
        assert 'class="tools" hidden' not in document
        # Had the escaping failed, the policy of the page would still stand.
        page.write_text(page.read_text(encoding="utf-8").replace("<main>", f"<main>{hostile}"), encoding="utf-8")
        assert "<title>flexdoctor: " in dump_dom(page)
        assert asked == []
        # And without either, the page would have been taken over: what is looked for can be seen.
        page.write_text(f"<title>flexdoctor: x</title>{hostile}", encoding="utf-8")
        assert "<title>owned</title>" in dump_dom(page)
        assert "/leak" in asked
