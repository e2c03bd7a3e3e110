"""The catalogue checks itself: nothing may be left out of a scenario."""

from __future__ import annotations

import itertools
import re
from typing import Final

import pytest

from conformance.catalogue import catalogue, find
from conformance.needs import Needs
from conformance.scenario import Scenario, scenario
from conformance.scenarios.sources import KEP
from reference import CPUTopology, Release, discover
from topologies import machine

SCENARIOS: Final = catalogue()
INCIDENT: Final = "machine/cpu-upgrade-incident"


@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one.id)
def test_a_scenario_is_complete(one: Scenario) -> None:
    """Id, title, source with link, releases, promise in words. Its function has its name; an
    underscore precedes a digit."""
    name = one.id.partition("/")[2].replace("-", "_")
    assert one.body.__name__ == (f"_{name}" if name[0].isdigit() else name)
    assert re.fullmatch(r"https://\S+", one.source.url)
    assert one.source.text
    assert one.promise
    assert Release.parse(one.since).minor >= 8
    assert not one.until or Release.parse(one.until).minor >= 8
    assert not re.search(r"\bshould\b", one.title + one.promise)
    assert one.title[0].isupper()
    assert not one.title.endswith(".")
    assert len(one.title) <= 110


def test_titles_and_ids_are_unique() -> None:
    """And no id is part of another, because ``-k ID`` selects by what an id contains."""
    assert len({one.title for one in SCENARIOS}) == len(SCENARIOS)
    for one, other in itertools.permutations((one.id for one in SCENARIOS), 2):
        assert one not in other


def test_find() -> None:
    found = find(INCIDENT)
    assert found is not None
    assert found.machine == "1s-1n-4c-smt1"
    assert find("machine") is None


@pytest.mark.parametrize("wrong", ["", "noslash", "A/b", "a/b/c", "a/-b", "a/b c"])
def test_an_id_has_one_form(wrong: str) -> None:
    with pytest.raises(ValueError, match="a scenario's id is"):
        scenario(wrong, "A fact", KEP)(lambda node: None)


def test_two_scenarios_cannot_have_one_id() -> None:
    with pytest.raises(ValueError, match="two scenarios have the id"):
        scenario(INCIDENT, "Another fact", KEP)(lambda node: None)


def _topology(name: str) -> CPUTopology:
    return discover(machine(name).tree).cpu_topology()


@pytest.mark.parametrize(
    ("needs", "name", "missing"),
    [
        (Needs(free=3), "1s-1n-4c-smt1", ""),
        (Needs(caches_in_nodes=True), "2s-4n-64c-smt2-l3s", ""),
        (Needs(caches_in_nodes=True), "2s-2n-32c-smt2-l3x4", ""),
        (
            Needs(caches_in_nodes=True), "qemu-4s-16n-32c-smt2-near-dies",
            "needs uncore caches within one NUMA node or as large as a socket",
        ),
        (
            Needs(even=True), "2s-8n-8c-smt1-xeon-e5472-buggynuma",
            "needs each CPU counted once, a kubelet counts 64 here for 8",
        ),
        (Needs(free=4), "1s-1n-4c-smt1", "needs 4 CPUs beside its first core, the machine has 3"),
        (Needs(free=7), "1s-1n-4c-smt2", "needs 7 CPUs beside its first core, the machine has 6"),
        (Needs(smt=2), "1s-1n-4c-smt1", "needs 2 threads on every core, the machine has 1"),
        (Needs(smt=2), "1s-1n-4c-smt2", ""),
        (Needs(numa_nodes=2), "1s-1n-4c-smt2", "needs 2 NUMA nodes with CPUs, the machine has 1"),
        (Needs(sockets=2), "1s-4n-32c-smt2", "needs 2 sockets, the machine has 1"),
        (Needs(cores=5), "1s-1n-4c-smt2", "needs 5 physical cores, the machine has 4"),
        (Needs(sockets=2, numa_nodes=4, smt=2, even=True), "2s-4n-64c-smt2", ""),
        (Needs(numa_cores=3), "1s-2n-8c-smt4-near", ""),
        (
            Needs(numa_cores=5), "1s-2n-8c-smt4-near",
            "needs 5 physical cores in every NUMA node, the machine has 4",
        ),
        (Needs(uncore_caches=8), "2s-2n-32c-smt2-l3x4", ""),
        (Needs(uncore_caches=2), "1s-1n-4c-smt2", "needs 2 uncore caches, the machine has 1"),
        (Needs(far_siblings=True), "2s-2n-12c-smt2-interleaved", ""),
        (
            Needs(far_siblings=True), "1s-1n-4c-smt2-near",
            "needs CPUs numbered core by core before thread by thread",
        ),
        (
            Needs(even=True), "1s-1n-4c-smt2-off5",
            "needs cores, NUMA nodes and sockets of one size, the machine's differ",
        ),
    ],
)  # fmt: skip
def test_needs(needs: Needs, name: str, missing: str) -> None:
    assert needs.missing(_topology(name)) == missing
