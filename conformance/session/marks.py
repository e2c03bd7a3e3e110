"""The marks of a scenario's items, by which ``-m`` selects them."""

from __future__ import annotations

from functools import cache

import pytest

from conformance.risk import risk_of
from conformance.scenario import Scenario


@cache
def marks_of(scenario: Scenario) -> tuple[pytest.MarkDecorator, ...]:
    """A scenario's marks: its level by name (``-m core``); area, level and risk as arguments of
    ``pinproof`` (``-m 'pinproof(area="pool")'``)."""
    level = scenario.level.value
    says = {"area": scenario.area, "level": level, "risk": risk_of(scenario.capabilities).value}
    return getattr(pytest.mark, level), pytest.mark.pinproof(**says)
