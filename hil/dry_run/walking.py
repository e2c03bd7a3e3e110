"""The walk: one scenario after the other, as far as assumptions carry.

What belongs here: what is shown of each scenario. What never does: a verdict; a dry run has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.verdict import Verdict
from hil.dry_run.ledger import Ledger
from hil.dry_run.subject import DryRunSubject
from hil.safety import risk_of


def walk(cases: Iterable[Case], subject: DryRunSubject, ledger: Ledger) -> int:
    """Show what each scenario would send. One that does not apply, or is not allowed, is shown with
    its reason; so is one that could not be walked to its end. How many would be run."""
    walked = 0

    def oracle(*args: Any, **kwargs: Any) -> ModelOracle:
        return ModelOracle(*args, release=subject.info.release, **kwargs)

    for case in cases:
        ledger.scenario = case.scenario.id
        ledger.risk = risk_of(case.scenario.capabilities).value
        ledger.step = "before its first step"
        result = judge(case, subject, oracle=oracle, release=subject.info.release).result
        if result.verdict == Verdict.SKIP.value:
            ledger.skipped(result.reason)
            continue
        walked += 1
        if result.verdict != Verdict.PASS.value:
            ledger.note(f"not simulated to its end: {result.reason}")
    ledger.scenario = ledger.risk = ""
    return walked
