"""The core level: quick enough for a gate, and no CPU manager that pins wrongly passes it.

The rule that chooses them stands in docs/how-to/writing-a-scenario.md.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from conformance.catalogue import catalogue, find
from conformance.scenario import Level, Scenario
from conformance.subject import Capability
from conformance.subjects.miniatures import MINIATURES
from differential import kill_matrix
from reference import NEWEST
from reference.releases import ANNOUNCED
from tests.conformance.judging import judged

CORE = [one for one in catalogue() if one.level is Level.CORE]
MACHINES = ("1s-1n-4c-smt2", "2s-2n-16c-smt2", "2s-2n-32c-smt2-l3x4", "2s-4n-64c-smt2")
#: What a scenario has to ask of other managers than these two, or to see of their insides.
BEYOND = {
    Capability.API_SERVER,
    Capability.CALLS,
    Capability.DEVICES,
    Capability.MEMORY,
    Capability.METRICS,
    Capability.POD_RESOURCES,
    Capability.POD_RESOURCES_GET,
    Capability.RENAMES,
}
#: Feature gates of policy options; every other gate that a scenario sets is a feature of its own.
OF_OPTIONS = re.compile(r"(CPU|Topology)ManagerPolicy((Alpha|Beta)?Options)")
_GATES = re.compile(r"\bgate ([A-Za-z]+)=")


@cache
def _features(scenario: Scenario, machine: str, release: str) -> frozenset[str]:
    """The feature gates that a scenario sets, but for those of options."""
    result = judged(scenario, scenario.machine or machine, release=release)
    found = {gate for step in result.steps for gate in _GATES.findall(step)}
    return frozenset(gate for gate in found if not OF_OPTIONS.fullmatch(gate))


def _is_beyond(scenario: Scenario, machine: str, release: str) -> bool:
    return bool(
        scenario.until or scenario.capabilities & BEYOND or _features(scenario, machine, release)
    )


@pytest.mark.parametrize("scenario", CORE, ids=lambda one: one.id)
def test_a_core_scenario_is_about_cpus_in_every_release_from_its_first_on(
    scenario: Scenario,
) -> None:
    """It sets no feature gate but those of options: in the newest release known and in the one
    announced, where the model can run it."""
    assert not scenario.until, "what a release stopped doing is not promised"
    assert not scenario.capabilities & BEYOND
    for release in (NEWEST, f"1.{ANNOUNCED}"):
        for machine in MACHINES:
            assert not _features(scenario, machine, release)


@pytest.mark.parametrize("name", MINIATURES)
def test_a_miniature_that_pins_wrongly_is_caught_at_the_core_level(name: str) -> None:
    """Unless the scenario that names its cause may not be core."""
    made = MINIATURES[name]
    bound = find(made.caught_by)
    assert bound is not None
    if _is_beyond(bound, made.machine, made.release):
        assert bound not in CORE
        return
    first = [one for one in CORE if one.id in (made.caught_by, *made.also)]
    for scenario in (*first, *CORE):
        machine = scenario.machine or made.machine
        if kill_matrix.judged(name, scenario, machine, model=True).verdict == "fail":
            return
    pytest.fail(f"no core scenario fails for {name}; {made.caught_by} does")
