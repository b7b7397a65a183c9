"""Run one check on hand-made facts: for the tests of flexdoctor and of checks that others write.

from flexdoctor.testing import example_facts, run_check, run_plugin

def test_a_healthy_environment_has_no_fault():
    (finding,) = run_check(CHECK, example_facts("8-healthy"))
    assert finding.status == "pass"

def test_it_works_as_a_plugin():
    assert not [item for item in run_plugin("corp_checks:CHECK", example_facts("8-healthy")) if item.code]
"""

from __future__ import annotations

import dataclasses

from flexdoctor.chain import Check, diagnose
from flexdoctor.facts import Facts
from flexdoctor.findings import Capability, Finding


def run_check(check: Check, facts: Facts, *, required: Capability = "compiled_forward") -> tuple[Finding, ...]:
    """Return the settled findings of `check` alone, as if the links that it requires held.

    A check that raises gives one finding of status "crashed", as it would in a report.
    """
    alone = dataclasses.replace(check, requires=(), after=None)
    return diagnose(facts, [alone], required=required).findings


def run_plugin(
    value: str, facts: Facts, *, required: Capability = "compiled_forward", seconds: float = 10
) -> tuple[Finding, ...]:
    """Return the settled findings of what an entry point names, run as a plugin is: in a process of its own.

    Unlike `run_check` this shows what only then goes wrong: facts and findings travel as JSON, codes must be the
    plugin's own, and what prints, raises, ends the process or takes longer than `seconds` gives a finding of status
    "crashed". What was printed goes to stdout.

    Args:
        value: as in the entry point, `module:attribute`.
    """
    from flexdoctor.plugins.loading import Plugin, joined  # noqa: PLC0415

    def show(_: str, printed: str) -> None:
        print(printed)  # noqa: T201 - for the author of a test

    with joined((), [Plugin(value, value, "the code under test")], seconds=seconds, show=show, alone=True) as chain:
        return diagnose(facts, chain, required=required).findings


def example_facts(name: str) -> Facts:
    """Return the facts of a shipped example, one of those of `flexdoctor check --example`."""
    from flexdoctor.snapshots import load_example  # noqa: PLC0415

    return load_example(name)
