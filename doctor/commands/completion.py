"""What the shell offers for a value, where the values are known."""

from __future__ import annotations


def codes(incomplete: str) -> list[tuple[str, str]]:
    """Offer the codes that start as given, with their titles."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415 - only a shell that asks pays for it

    faults = [fault for link in CHAIN for fault in link.faults]
    return [(fault.code, fault.title.en) for fault in faults if fault.code.startswith(incomplete.upper())]


def codes_and_links(incomplete: str) -> list[tuple[str, str]]:
    """Offer the codes and the links that start as given."""
    from flexdoctor.checks import CHAIN  # noqa: PLC0415

    links = [(link.link, link.question.en) for link in CHAIN if link.link.startswith(incomplete)]
    return [*links, *codes(incomplete)]


def examples(incomplete: str) -> list[str]:
    """Offer the shipped examples."""
    from flexdoctor.snapshots import example_names  # noqa: PLC0415

    return [name for name in example_names() if name.startswith(incomplete)]
