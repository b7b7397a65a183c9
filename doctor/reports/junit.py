"""The report as JUnit XML: a test case a finding, which fails where the finding keeps the exit code from being 0.

ASCII with character references, so that no encoding of a terminal or a log can make it ill-formed. No time, no host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from flexdoctor.reports.places import below, spot
from flexdoctor.text import Text

if TYPE_CHECKING:
    from flexdoctor.findings import Evidence, Finding
    from flexdoctor.reports.rendering import Diagnosis, Page

_SUITE = "flexdoctor"
_FORBIDDEN = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return one suite with a test case a finding."""
    names = _names(diagnosis.report.findings)
    cases = [
        _case(finding, name, diagnosis, page) for finding, name in zip(diagnosis.report.findings, names, strict=True)
    ]
    return _document(cases)


def render_error(message: str, exit_code: int) -> str:
    """Return a suite with the one error of a run that could not diagnose anything."""
    case = _element("testcase", classname=_SUITE, name="run")
    case.append(_element("error", message, message=message, type=f"exit code {exit_code}"))
    return _document([case])


def _document(cases: list[ElementTree.Element]) -> str:
    counts = {tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")}
    numbers = {
        "tests": str(len(cases)),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
    }
    suites = _element("testsuites", name=_SUITE, **numbers)
    suite = _element("testsuite", name=_SUITE, **numbers, skipped=str(counts["skipped"]))
    suite.extend(cases)
    suites.append(suite)
    ElementTree.indent(suites)
    written: bytes = ElementTree.tostring(suites, encoding="us-ascii", xml_declaration=True)
    return written.decode("ascii") + "\n"


def _names(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a name a finding, the same in every run and language so that a server can follow it."""
    seen: Counter[str] = Counter()
    for finding in findings:
        name = finding.code or finding.link
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"


def _case(finding: Finding, name: str, diagnosis: Diagnosis, page: Page) -> ElementTree.Element:
    case = _element("testcase", classname=f"{_SUITE}.{finding.link}", name=name)
    title = finding.title.to(page.language)
    body = _body(finding, diagnosis, page)
    if finding.status == "crashed":
        case.append(_element("error", body, message=title, type="crashed"))
    elif diagnosis.counts(finding):
        kind = finding.status if finding.status == "unknown" else finding.severity
        case.append(_element("failure", body, message=title, type=kind))
    elif finding.waiver:
        waived = Text("waived: {reason}", "已豁免：{reason}").format(reason=finding.waiver.reason)
        case.append(_element("skipped", message=f"{title} ({waived.to(page.language)})"))
    elif finding.status in ("unknown", "blocked", "skipped"):
        case.append(_element("skipped", message=f"{finding.status}: {title}"))
    else:
        case.append(_element("system-out", body))
    return case


def _body(finding: Finding, diagnosis: Diagnosis, page: Page) -> str:
    language = page.language
    lines = [finding.title.to(language), finding.detail.to(language)]
    place = spot(finding, diagnosis.facts)
    # The schema that servers read by has no place for a file and a line.
    if diagnosis.facts.target.kind == "requirements" and place and finding.status != "pass":
        path = below(place.path, page.base) or place.path
        lines.append(f"{path}:{place.line}" if place.line else path)
    lines += [*map(_shown, finding.evidence), *finding.predicted_errors]
    if remedy := finding.remedy.to(language):
        lines.append(Text("fix: {remedy}", "修复：{remedy}").format(remedy=remedy).to(language))
    return "\n".join(line for line in lines if line)


def _shown(evidence: Evidence) -> str:
    place = f"{evidence.path}:{evidence.line}" if evidence.path and evidence.line else evidence.path
    source = f" [{evidence.source}]" if evidence.source else ""
    return (f"{place}: {evidence.text}" if place else evidence.text) + source


def _element(tag: str, body: str = "", /, **attributes: str) -> ElementTree.Element:
    element = ElementTree.Element(tag, {key: _clean(value) for key, value in attributes.items()})
    element.text = _clean(body) or None
    return element


def _clean(text: str) -> str:
    r"""Write what XML forbids as `\x1b` or `\ud800`; line ends become those of XML."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    return _FORBIDDEN.sub(
        lambda match: (
            match[0].encode("ascii", "backslashreplace").decode("ascii")
            if ord(match[0]) > 0x7F
            else f"\\x{ord(match[0]):02x}"
        ),
        unified,
    )
