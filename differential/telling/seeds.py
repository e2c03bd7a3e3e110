"""Where the search for telling histories begins: small machines and configurations, and whatever
the catalogue's scenarios do on the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import topologies
from conformance.catalogue import find
from conformance.identifying.history import History
from conformance.judge import Case, judge
from conformance.recording import PromisesOnly
from conformance.scenario import Scenario
from conformance.subjects.reference import ModelNode, ReferenceSubject
from differential import kill_matrix
from reference.behaviours import Behaviour
from reference.steps import KubeletConfig, Step
from topologies import Machine

_PAGE: Final = Path(__file__).parents[2] / "docs/kill-matrix.md"
#: How many scenarios are tried for a behaviour.
_MOST: Final = 6
#: Small ones: of one NUMA node, and of two.
MACHINES: Final = ("1s-1n-4c-smt2", "2s-2n-16c-smt2")
#: For scenarios that need several uncore caches, and more than two NUMA nodes.
WITH_CACHES: Final = "2s-2n-32c-smt2-l3x4"
WITH_NODES: Final = "2s-4n-64c-smt2"


class _Heard:
    """A node of the model that writes down its steps."""

    def __init__(self, node: ModelNode, kept: list[Step]) -> None:
        self._node, self._kept = node, kept
        self.view, self.settle = node.view, node.settle
        self.evidence, self.close = node.evidence, node.close

    def do(self, step: Step) -> None:
        """Take the step."""
        self._kept.append(step)
        self._node.do(step)


class _Hearing(ReferenceSubject):
    """The model; ``heard``: each node's machine, configuration and steps."""

    def __init__(self, release: str) -> None:
        super().__init__(release=release)
        self.heard: list[tuple[Machine, KubeletConfig, list[Step]]] = []

    def node(  # type: ignore[override]
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> _Heard:
        """A node whose steps are written down."""
        steps: list[Step] = []
        self.heard.append((machine, config, steps))
        return _Heard(super().node(machine, config, machines=machines), steps)


def of_scenarios(behaviour: Behaviour, release: str) -> list[History]:
    """What the scenarios that catch a behaviour's switching do to the model of a release, shortest
    first, on machines of the catalogue alone."""
    found: dict[str, History] = {}
    for scenario in _catching().get(behaviour.title, ())[:_MOST]:
        for machine in _machines(scenario):
            for one in _done(scenario, machine, release):
                found.setdefault(str(one), one)
    return sorted(found.values(), key=length)


@cache
def _catching() -> dict[str, list[Scenario]]:
    """Scenarios by the behaviour that they catch where it is switched (docs/kill-matrix.md), those
    first that few behaviours make fail."""
    matrix = kill_matrix.read(_PAGE.read_text(encoding="utf-8"))
    failing = Counter(kill.scenario for kills in matrix.values() for kill in kills)
    found: dict[str, set[str]] = defaultdict(set)
    for name, kills in matrix.items():
        found[name.removesuffix("=off")] |= {kill.scenario for kill in kills}
    return {
        name: [
            scenario
            for one in sorted(ids, key=lambda each: (failing[each], each))
            if (scenario := find(one)) is not None
        ]
        for name, ids in found.items()
    }


def _machines(scenario: Scenario) -> tuple[str, ...]:
    if scenario.machine:
        return (scenario.machine,)
    if scenario.needs.numa_nodes > 2:
        return (WITH_NODES,)
    return (WITH_CACHES,) if scenario.needs.uncore_caches > 1 else MACHINES


def length(history: History) -> tuple[int, int, int]:
    """What makes a history long: starts above all, then steps, then words."""
    return history.starts, len(history.steps), len(str(history))


def _done(scenario: Scenario, machine: str, release: str) -> Iterator[History]:
    subject = _Hearing(release)
    case = Case(scenario, topologies.machine(machine))
    judge(case, subject, oracle=lambda *_, **__: PromisesOnly(), release=release)
    for booted, config, steps in subject.heard:
        if steps and booted.name in topologies.names() and _is_whole(steps):
            yield History(booted.name, config, tuple(steps))


def _is_whole(steps: list[Step]) -> bool:
    """Whether all machines that the steps name are of the catalogue."""
    named = {getattr(step, "machine", "") for step in steps} - {""}
    return named <= {*topologies.names()}
