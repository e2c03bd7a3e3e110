"""A draft: a node of the model, on which only steps are taken that the model knows.

What belongs here: beginning one, and taking steps. What never does: which steps (``before``,
``events``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import factorial
from typing import Final

from conformance.discovered import topology_of
from conformance.pods import guaranteed
from conformance.step_needs import needed
from conformance.subject import Capability
from hunting.exploring.pods import Room
from hunting.exploring.rows import Part, Row
from hunting.exploring.settings import config_of, machine_name, machine_of, registration
from hunting.scope import Task
from hunting.walk import node_of, reserved_of
from reference import CPUSet, DiscoveryError, IllegalStep, NotModelled
from reference.behaviours import Behaviour
from reference.branching import BranchingNode
from reference.golang.maps import SLOTS
from reference.releases import has
from reference.steps import (
    Apply,
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    Kind,
    Pod,
    Start,
    Step,
    Stop,
    applied,
)
from reference.view import Phase, View

#: The most steps of a history, without the questions at its end. What comes later is seen less
#: well, and takes longer to shrink.
_MOST_STEPS: Final = 22

#: A starting kubelet may admit its pods in any order, and may look at every set of NUMA nodes for
#: each. The most that the model walks: seven pods of an API server on four NUMA nodes, five on
#: eight, two manifests on sixteen.
_MOST_WAYS: Final = 140_000

_QUESTIONS: Final = (AskPodResources, AskAllocatable, AskMetrics)

#: What a whole kubelet in a sandbox can do.
ALL: Final = frozenset(Capability)


@dataclass(slots=True)
class Draft:
    """A node of the model, and the steps that it has taken. ``can``: the capabilities of the
    subject that is to take them; ``pod``: the row's own; ``first``: one that was there before;
    ``old``: uids of pods that no step applies again, since a kubelet may still know them as
    terminating; ``prepared``: the view before the row's pod came."""

    row: Row
    task: Task
    node: BranchingNode
    room: Room
    reserved: CPUSet
    can: Collection[Capability] = ALL
    steps: list[Step] = field(default_factory=list)
    pod: Pod | None = None
    first: str = ""
    shown: set[Part] = field(default_factory=set)
    old: frozenset[str] = frozenset()
    prepared: View | None = None

    def twin(self, row: Row) -> Draft:
        """A copy of the draft with another row, of which nothing is shown yet."""
        old = frozenset(pod.uid for step in self.steps for pod in applied(step))
        steps, node = [*self.steps], self.node.copy()
        return replace(self, row=row, node=node, steps=steps, shown=set(), old=old)

    def take(self, *steps: Step) -> bool:
        """Take these steps; returns whether all are possible. Those before one that is not stay
        taken."""
        for step in steps:
            able = all(need in self.can for need in needed(step))
            is_long = len(self.steps) >= _MOST_STEPS and not isinstance(step, _QUESTIONS)
            is_old = any(pod.uid in self.old for pod in applied(step))
            if not able or is_long or is_old or self._takes_long(step):
                return False
            try:
                self.node.do(step)
            except (DiscoveryError, IllegalStep, NotModelled):
                return False
            self.steps.append(step)
        return True

    def _takes_long(self, step: Step) -> bool:
        pods, nodes = len(self.node.granted), len(self.room.topology.numa_masks)
        orders = pods if pods <= SLOTS and not self.task.config.api_server else factorial(pods)
        return isinstance(step, Start) and pods > 1 and orders << nodes > _MOST_WAYS

    @property
    def view(self) -> View:
        return self.node.seen()

    @property
    def is_as_prepared(self) -> bool:
        """Whether pods, exclusive CPUs and shared pool are as before the row's pod came."""
        now, before = self.view, self.prepared
        return before is not None and (now.pods, now.assignments, now.shared_pool) == (
            before.pods, before.assignments, before.shared_pool
        )  # fmt: skip

    def runs(self, pod: str) -> bool:
        seen = self.view.pods.get(pod)
        return seen is not None and seen.phase is Phase.RUNNING

    def container(self, *kinds: Kind) -> str:
        """The first container of such a kind of the row's pod; ``""``: it has none."""
        containers = self.pod.containers if self.pod else ()
        return next((one.name for one in containers if one.kind in (kinds or (Kind.APP,))), "")

    def restart(self, *between: Step, kill: bool = False) -> bool:
        """Stop the kubelet, take the steps between, start it, and register its devices again."""
        return self.take(Stop(kill=kill), *between, Start()) and self.register()

    def register(self) -> bool:
        """Let the plugin register its devices, if there are any and the kubelet runs."""
        devices = registration(self.row, self.task.machine, self.task.release)
        return devices is None or not self.view.running or self.take(devices)

    def measure(self) -> None:
        """Measure the sizes of pods by the CPUs that are left now."""
        self.room = self.room.where_are_left(self.view.shared_pool - self.reserved)

    def another(self, name: str, size: int) -> bool:
        """Apply one more Guaranteed pod of one container."""
        return self.take(Apply(guaranteed(name, max(size, 1))))


def begun(row: Row, machine: str, release: str, can: Collection[Capability] = ALL) -> Draft | None:
    """A node with the row's settings, before its first start; ``None`` where the model has no such
    node."""
    if has_other_class(row, release):
        return None
    try:
        task = task_of(row, machine, release)
        node = node_of(task, machine_of)
        topology = topology_of(machine_of(task.machine), release=release)
        reserved = reserved_of(machine_of(task.machine), task)
    except (DiscoveryError, NotModelled):
        return None
    room = Room(topology, max(len(topology.cpus) - len(reserved), 1))
    return Draft(row, task, node, room, reserved, can)


def task_of(row: Row, machine: str, release: str) -> Task:
    """The task of a row: its settings, and what its pod and its events need. Raises
    :class:`NotModelled`."""
    return Task(release, machine_name(row, machine), config_of(row, machine, release))


def has_other_class(row: Row, release: str) -> bool:
    """Whether the API server gives the pod another QoS class than a kubelet of this release would.
    The API server of all kubelets (:data:`conformance.kubelets.apiservers.VERSION`) is of 1.36: to
    it a pod with empty pod-level resources is BestEffort."""
    of_nothing = row["class"] == "pod-level of nothing" and row["pods from"] == "API server"
    return of_nothing and has(release, Behaviour.EMPTY_POD_LEVEL_IGNORED)


def is_legal(task: Task, steps: Sequence[Step]) -> bool:
    """Whether the model knows a node that takes all these steps."""
    try:
        node = node_of(task, machine_of)
        for step in steps:
            node.do(step)
    except (DiscoveryError, IllegalStep, NotModelled):
        return False
    return True
