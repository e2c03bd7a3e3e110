"""Every scenario on every machine: the one test, which :mod:`conformance.plugin` parametrises."""

from __future__ import annotations

import pytest

from conformance.judge import Judgement
from conformance.verdict import Verdict


@pytest.mark.pinproof
def test_scenario(pin_judgement: Judgement) -> None:
    """The verdict, as pytest has it: ``unknown`` is a failure too."""
    result = pin_judgement.result
    verdict = Verdict(result.verdict)
    if verdict is Verdict.SKIP:
        pytest.skip(result.reason)
    if verdict is not Verdict.PASS:
        pytest.fail(result.explanation, pytrace=False)
