"""The report as a SARIF 2.1.0 log, for code scanning: a result a fault, at the line that pins the culprit.

What a fault takes away, and what could not be told, are results; what holds, is blocked or was not asked for is not.
No absolute path of a home folder, no user and no machine is in it, and the fingerprints of a fault stay the same over
machines, versions and languages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flexdoctor import __version__
from flexdoctor.findings import CAPABILITIES
from flexdoctor.reports.places import Spot, below, named_target, spot, subjects
from flexdoctor.serialise import to_json
from flexdoctor.text import Language, Text

if TYPE_CHECKING:
    from flexdoctor.facts import Facts
    from flexdoctor.findings import Finding
    from flexdoctor.reports.rendering import Diagnosis, Page

#: The checkout, and the home folder of the user: whoever opens the log knows where theirs is.
_ROOT, _HOME = "%SRCROOT%", "HOME"
_SHOWN = ("fail", "warn", "unknown")


def render(diagnosis: Diagnosis, page: Page) -> str:
    """Return the log."""
    shown = [item for item in diagnosis.report.findings if item.status in _SHOWN]
    rules = list(_rules(diagnosis, page.language, {item.code for item in shown if item.code}))
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    prints = _fingerprints(shown, diagnosis.facts)
    results = []
    for finding, fingerprint in zip(shown, prints, strict=True):
        result = _result(finding, diagnosis.facts, page, fingerprint)
        if finding.code:
            result |= {"ruleId": finding.code, "ruleIndex": index[finding.code]}
        results.append(result)
    crashed = [item for item in diagnosis.report.findings if item.status == "crashed"]
    invocation = {
        "executionSuccessful": not crashed,
        "exitCode": diagnosis.exit_code,
        "toolExecutionNotifications": [
            {
                "level": "error",
                "message": {"text": _plain(f"{item.link}: {item.title.to(page.language)}")},
                **({"descriptor": {"id": item.code}} if item.code else {}),
            }
            for item in crashed
        ],
    }
    report = diagnosis.report
    about = {
        "verdict": report.verdict,
        "required": report.required,
        "rootCause": report.root_cause.code if report.root_cause else None,
        "capabilities": {name: to_json(report.capabilities[name]) for name in CAPABILITIES},
        "target": diagnosis.facts.target.description,
    }
    return _log(_driver(rules), invocation, results, about, page.language)


def render_error(message: str, exit_code: int) -> str:
    """Return the log of a run that could not diagnose anything."""
    invocation = {
        "executionSuccessful": False,
        "exitCode": exit_code,
        "toolExecutionNotifications": [{"level": "error", "message": {"text": _plain(message)}}],
    }
    return _log(_driver([]), invocation, [], {"verdict": "unknown"}, "en")


def _log(
    driver: dict[str, Any],
    invocation: dict[str, Any],
    results: list[dict[str, Any]],
    properties: dict[str, Any],
    language: Language,
) -> str:
    run = {
        "tool": {"driver": driver},
        "language": {"en": "en-US", "zh": "zh-CN"}[language],
        "automationDetails": {"id": "flexdoctor/"},
        "originalUriBaseIds": {
            _ROOT: {"description": {"text": "the checkout of a CI run, else the folder that flexdoctor ran in"}},
            _HOME: {"description": {"text": "the home folder of the user who ran flexdoctor"}},
        },
        "invocations": [invocation],
        "results": results,
        "properties": properties,
    }
    log = json.loads(resources.files("flexdoctor.reports").joinpath("sarif.json").read_text(encoding="utf-8"))
    return json.dumps({**log, "runs": [run]}, indent=2) + "\n"


def _driver(rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": "flexdoctor", "version": __version__, "rules": rules}


def _rules(diagnosis: Diagnosis, language: Language, codes: set[str]) -> Iterator[dict[str, Any]]:
    """Yield a rule for each code that occurs, in the order of the chain."""
    for check in diagnosis.chain:
        for fault in check.faults:
            if fault.code in codes:
                codes = codes - {fault.code}
                level = "error" if fault.affects else {"none": "note"}.get(fault.severity, fault.severity)
                yield _rule(fault.code, fault.title, check.question, check.link, level, language)
    for finding in diagnosis.report.findings:
        # What is found by other means than a link's own faults, such as the configuration.
        if finding.code in codes:
            codes = codes - {finding.code}
            yield _rule(finding.code, finding.title, finding.title, finding.link, "warning", language)


def _rule(code: str, title: Text, question: Text, link: str, level: str, language: Language) -> dict[str, Any]:
    summary = _plain(re.sub(r"\{\w*\}", "…", title.to(language)))
    more = Text("`flexdoctor explain {code}` says more.", "详见 `flexdoctor explain {code}`。").format(code=code)
    asked = _plain(question.to(language))
    return {
        "id": code,
        "shortDescription": {"text": summary},
        "fullDescription": {"text": asked},
        "help": {"text": f"{asked}\n\n{more.to(language)}"},
        "defaultConfiguration": {"level": level},
        "properties": {"link": link, "tags": ["flex_attention", "ascend", link]},
    }


def _result(finding: Finding, facts: Facts, page: Page, fingerprint: tuple[str, int]) -> dict[str, Any]:
    digest, ordinal = fingerprint
    is_fault = finding.status in ("fail", "warn")
    waiver = finding.waiver
    # Whatever is no failure has no level; a waived fault keeps the one that its status had.
    level = ("error" if finding.status == "fail" else "warning") if is_fault else "none"
    location: dict[str, Any] = {
        "logicalLocations": [{"name": finding.link, "kind": "module"}],
        "physicalLocation": _physical(spot(finding, facts) or named_target(facts), page),
    }
    return {
        "kind": "fail" if is_fault else "open",
        "level": level,
        "message": {"text": _message(finding, page.language)},
        "locations": [location],
        "partialFingerprints": {
            "flexdoctor/v1": f"{digest}/{ordinal}",
            "primaryLocationLineHash": f"{digest[:16]}:{ordinal}",
        },
        **({"suppressions": [{"kind": "external", "justification": _plain(waiver.reason)}]} if waiver else {}),
        "properties": {
            "link": finding.link,
            "status": finding.status,
            "severity": finding.severity,
            "affects": list(finding.affects),
            "evidence": [to_json(item) for item in finding.evidence],
        },
    }


def _message(finding: Finding, language: Language) -> str:
    parts = [finding.title.to(language), finding.detail.to(language), *finding.predicted_errors]
    if remedy := finding.remedy.to(language):
        parts.append(Text("Fix: {remedy}", "修复：{remedy}").format(remedy=remedy).to(language))
    return _plain("\n".join(part for part in parts if part))


def _plain(text: str) -> str:
    """Keep text that happens to look like a link of SARIF's own notation from being one."""
    return re.sub(r"\[(?=[^\[\]]*\]\()", r"\\[", text)


def _physical(place: Spot | None, page: Page) -> dict[str, Any]:
    if place is None:
        # GitHub's code scanning refuses a log with a result that has no file at all.
        return {"artifactLocation": {"uri": "flexdoctor", "uriBaseId": _ROOT}}
    location: dict[str, Any] = {"artifactLocation": artifact(place.path, page)}
    if place.line:
        location["region"] = {"startLine": place.line}
    return location


def artifact(path: str, page: Page) -> dict[str, str]:
    """Return where a file lies, without the name of a home folder in it."""
    if (relative := below(path, page.base)) is not None:
        return {"uri": quote(_bytes(relative)), "uriBaseId": _ROOT}
    if path == "~" or path.startswith("~/"):
        return {"uri": quote(_bytes(path[2:] or ".")), "uriBaseId": _HOME}
    if path.startswith("/"):
        return {"uri": "file://" + quote(_bytes(path))}
    return {"uri": quote(_bytes(path))}


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", errors="surrogateescape")


def _fingerprints(findings: Iterable[Finding], facts: Facts) -> Iterator[tuple[str, int]]:
    """Yield a digest of what each finding is about, and which of its kind it is."""
    seen: Counter[str] = Counter()
    for finding in findings:
        about = "|".join((finding.code or "", finding.link, *sorted(dist.name for dist in subjects(finding, facts))))
        seen[about] += 1
        yield hashlib.sha256(about.encode()).hexdigest(), seen[about]
