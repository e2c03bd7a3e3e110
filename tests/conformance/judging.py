"""A scenario judged in this process, as a run judges it."""

from __future__ import annotations

from functools import partial
from typing import Any

import topologies
from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.recording import PromisesOnly
from conformance.results import Result
from conformance.scenario import Scenario
from conformance.subject import Subject
from conformance.subjects.reference import ReferenceSubject
from reference import NEWEST
from topologies import Machine


def scenario_of(name: str) -> Scenario:
    """The scenario of this id, which must be there."""
    found = find(name)
    assert found is not None, name
    return found


def judged(
    scenario: str | Scenario,
    machine: str | Machine,
    subject: Subject | None = None,
    *,
    release: str = NEWEST,
    model: bool = True,
) -> Result:
    """By the model of the release, or else by the promise in words alone. The subject is the model
    of the release where none is given."""
    found = scenario_of(scenario) if isinstance(scenario, str) else scenario
    place = topologies.machine(machine) if isinstance(machine, str) else machine
    oracle: Any = (
        partial(ModelOracle, release=release) if model else lambda *_, **__: PromisesOnly()
    )
    subject = subject or ReferenceSubject(release=release)
    return judge(Case(found, place), subject, oracle=oracle, release=release).result
