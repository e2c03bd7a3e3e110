"""A pytest plugin for ``pinproof run`` on the model: an item judges a scenario on all machines.

Judging a case of the model takes a millisecond. A pytest item takes as long again, in the process
that judges it, in the one that writes the results, and in each that collects it. ``pinproof run``
loads this if the user did not choose among the cases, and if the subject is in the judging process:
a program that dies would end the scenario's other cases, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pytest

from conformance.judge import Case
from conformance.known import Standing
from conformance.results import Result
from conformance.scenario import Scenario
from conformance.session.ahead import asked_of
from conformance.session.judging import judge_item
from conformance.session.subject import subject_of

_LAST_FAILED: Final = "cache/lastfailed"
_RED: Final = frozenset({Standing.FAIL, Standing.FIXED, Standing.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Together:
    """The cases of one scenario."""

    cases: tuple[Case, ...]

    @property
    def id(self) -> str:
        return self.scenario.id

    @property
    def scenario(self) -> Scenario:
        """The scenario of the cases."""
        return self.cases[0].scenario


def together(cases: Iterable[Case]) -> list[Together]:
    """The cases by scenario, in their order."""
    return [Together((*each,)) for _, each in groupby(cases, key=lambda case: case.scenario.id)]


def together_of(item: pytest.Item | None) -> Together | None:
    """The cases of an item of this plugin; ``None`` for any other."""
    found = asked_of(item)
    return found if isinstance(found, Together) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Judge all cases of the item; each has its result. The item fails if a case failed."""
    found = together_of(pyfuncitem)
    if found is None:
        return None
    subject = subject_of(pyfuncitem.config)
    red = 0
    for case in found.cases:
        judged = judge_item(case, subject, pyfuncitem)
        red += judged.known.standing(judged.result) in _RED
    if red:
        pytest.fail(f"{red} of {len(found.cases)} cases", pytrace=False)
    return True


class LastFailed:
    """In the process that writes the results: lets ``--lf`` of a later run, which has an item for
    each case, select the cases that failed in this run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failed: dict[str, bool] = {}

    def pytest_pinproof_result(self, result: Result, standing: Standing) -> None:
        """Note a case that failed."""
        if standing in _RED:
            case = f"{result.scenario}@{result.machine.name}"
            self._failed[f"test_scenarios.py::test_scenario[{case}]"] = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> object:
        """Replace the failed items in pytest's cache by the failed cases."""
        answer = yield
        cache = self._config.cache
        if cache is not None:
            written: Mapping[str, Any] = cache.get(_LAST_FAILED, {})
            others = {name: True for name in written if "::test_scenario[" not in name}
            cache.set(_LAST_FAILED, others | self._failed)
        return answer


def pytest_configure(config: pytest.Config) -> None:
    """Register :class:`LastFailed`, except in a worker."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(LastFailed(config))
