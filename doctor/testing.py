"""Run one check on hand-made facts: for the tests of flexdoctor and of checks that others write."""

from __future__ import annotations

import dataclasses

from flexdoctor.chain import Check, diagnose
from flexdoctor.facts import Facts
from flexdoctor.findings import Capability, Finding


def run_check(check: Check, facts: Facts, *, required: Capability = "compiled_forward") -> tuple[Finding, ...]:
    """Return the settled findings of `check` alone, as if the links that it requires held.

    A check that raises gives one finding of status "crashed", as it would in a report.
    """
    alone = dataclasses.replace(check, requires=())
    return diagnose(facts, [alone], required=required).findings
