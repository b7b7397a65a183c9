"""The pages of faults as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexdoctor.pages import TOPICS, Explained
from flexdoctor.reports.document import head
from flexdoctor.reports.explanations import title_of
from flexdoctor.reports.json import render_json as as_json
from flexdoctor.reports.rendering import Page
from flexdoctor.text import Language


def render_json(explained: Sequence[Explained], page: Page) -> str:
    """Return all that is known of the codes; sentences are in the language of `page`."""
    return as_json({**head(), "explanations": [_one(item, page.language) for item in explained]})


def _one(item: Explained, language: Language) -> dict[str, Any]:
    fault = item.entry.fault
    topics: dict[str, Any] = dict.fromkeys(TOPICS)
    if item.page is not None:
        for topic in TOPICS:
            passage = item.page.on(topic)
            topics[topic] = {"text": passage.text.to(language), "run": list(passage.run)}
    return {
        "code": fault.code,
        "link": item.entry.link,
        "title": title_of(fault, language),
        "affects": list(fault.affects),
        "severity": "error" if fault.affects else fault.severity,
        **topics,
        "errors": list(item.page.errors if item.page else ()),
        "signatures": [
            {"name": signature.name, "meaning": signature.meaning.to(language)} for signature in item.signatures
        ],
        "fixes": [fix.name for fix in item.fixes],
        "sources": list(item.page.sources if item.page else ()),
    }
