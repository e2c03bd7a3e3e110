"""Every scenario on every machine: the one test, which :mod:`conformance.plugin` parametrises."""

from __future__ import annotations

import pytest

from conformance.judge import Judgement
from conformance.known import Standing


@pytest.mark.pinproof
def test_scenario(pin_judgement: Judgement) -> None:
    """The verdict as pytest's outcome. ``unknown`` is a failure, too, and so is a listed known
    failure that passes."""
    result = pin_judgement.result
    entry = pin_judgement.known.entry(result)
    match pin_judgement.known.standing(result):
        case Standing.PASS:
            return
        case Standing.SKIP:
            pytest.skip(result.reason)
        case Standing.KNOWN:
            assert entry is not None
            pytest.xfail(entry.reason)
        case Standing.FIXED:
            pytest.fail("it passes, but is listed as a known failure", pytrace=False)
        case Standing.FAIL | Standing.UNKNOWN:
            pytest.fail(result.explanation, pytrace=False)
