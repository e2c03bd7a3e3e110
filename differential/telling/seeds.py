"""Where the search for telling histories begins: small machines and configurations, what the
catalogue's scenarios do on the model, and what explore draws, in which more happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import topologies
from conformance.catalogue import catalogue
from conformance.identifying.history import History
from conformance.judge import Case, judge
from conformance.lockstep.steps import Question
from conformance.recording import PromisesOnly
from conformance.scenario import Scenario
from conformance.subject import OF_REAL_NODES, Capability
from conformance.subjects.reference import ModelNode, ReferenceSubject
from differential.kill_matrix import MACHINES, WITH_CACHES, WITH_NODES
from hunting.exploring import drawing
from hunting.exploring.covering import Covering
from hunting.exploring.factors import offered
from reference.releases import Release
from reference.steps import KubeletConfig, Step
from topologies import Machine


class _NotedNode:
    """A node of the model that adds its steps to a list."""

    def __init__(self, node: ModelNode, steps: list[Step]) -> None:
        self._node, self._steps = node, steps
        self.view, self.settle = node.view, node.settle
        self.evidence, self.close = node.evidence, node.close

    def do(self, step: Step) -> None:
        self._steps.append(step)
        self._node.do(step)


class _NotingSubject(ReferenceSubject):
    """The model; ``noted``: each node's machine, configuration and steps."""

    def __init__(self, release: str) -> None:
        super().__init__(release=release)
        self.noted: list[tuple[Machine, KubeletConfig, list[Step]]] = []

    def node(  # type: ignore[override]
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> _NotedNode:
        steps: list[Step] = []
        self.noted.append((machine, config, steps))
        return _NotedNode(super().node(machine, config, machines=machines), steps)


def of_scenarios(release: str) -> list[History]:
    """What every scenario does to the model of a release, or of the nearest for which its promise
    is made, shortest first, on machines of the catalogue alone."""
    found: dict[str, History] = {}
    for scenario in catalogue():
        for machine in _machines(scenario):
            for one in _histories(scenario, machine, _promised(scenario, release)):
                found.setdefault(str(one), one)
    return sorted(found.values(), key=length)


def _promised(scenario: Scenario, release: str) -> str:
    """The release, or else the first or last for which the scenario's promise is made."""
    minor = Release.parse(release).minor
    if scenario.since and minor < Release.parse(scenario.since).minor:
        return scenario.since
    if scenario.until and minor > Release.parse(scenario.until).minor:
        return scenario.until
    return release


def _machines(scenario: Scenario) -> tuple[str, ...]:
    if scenario.machine:
        return (scenario.machine,)
    return tuple(dict.fromkeys((*MACHINES, WITH_CACHES, WITH_NODES)))


def length(history: History) -> tuple[int, int, int, str]:
    """The order of histories, shortest first: by starts, then steps, then characters, then text."""
    return history.starts, len(history.steps), len(str(history)), str(history)


def _histories(scenario: Scenario, machine: str, release: str) -> Iterator[History]:
    subject = _NotingSubject(release)
    case = Case(scenario, topologies.machine(machine))
    judge(case, subject, oracle=PromisesOnly, release=release)
    for booted, config, steps in subject.noted:
        if steps and booted.name in topologies.names() and _is_whole(steps):
            yield History(booted.name, config, tuple(steps))


def _is_whole(steps: list[Step]) -> bool:
    """Whether all machines that the steps name are of the catalogue."""
    named = {getattr(step, "machine", "") for step in steps} - {""}
    return named <= {*topologies.names()}


_DRAWN_ON: Final = ("1s-1n-4c-smt2", "2s-2n-8c-smt2")
#: How many rows are drawn on each machine.
ROWS: Final = 150
#: What a kubelet in a sandbox can do.
_CAN: Final = frozenset(Capability) - OF_REAL_NODES


def of_explore(release: str, rows: int = ROWS) -> Iterator[History]:
    """The histories of the first ``rows`` that explore draws on each of two small machines: each
    time the same. The questions are left out: explore does not compare the answers with the model,
    and while pods end the answers depend on the host."""
    for machine in _DRAWN_ON:
        covering = Covering(offered(release, _CAN), machine)
        for _ in range(rows):
            found = drawing.drawn(covering, machine, release, _CAN)
            if found is not None:
                task, taken = found.history.task(release), found.history.taken
                steps = (one for one in taken if not isinstance(one, Question))
                yield History(task.machine, task.config, tuple(steps))
