"""A search by breadth: every history up to a depth, equal states met once.

What belongs here: taking moves on copies of a node, and judging each step. What never does: which
promise is what (:mod:`conformance.promises`), and what becomes of a broken one (``finds``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import topologies
from conformance.discovered import info_of, topology_of
from conformance.promises import Situation, Violation, broken_in_step, promise_of, violations
from conformance.subject import Capability
from hunting.moves import Move, after, next_moves
from hunting.scope import Task
from reference import CPUSet, CPUTopology, DiscoveryError, IllegalStep, NotModelled, Release
from reference.branching import BranchingNode
from reference.cpumanager.cpu_manager import make_policy
from reference.cpumanager.policy_static import StaticPolicy
from reference.errors import KubeletError
from reference.steps import Pod, Start, Step
from reference.view import View

#: What of a view of the model the promises are judged by.
_CAN: Final = frozenset({Capability.CPUSETS, Capability.STATE_FILE, Capability.REJECTIONS})


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that a history breaks, by its last step; ``steps`` is the whole history."""

    task: Task
    steps: tuple[Step, ...]
    violation: Violation

    @property
    def promise(self) -> str:
        """The id of the promise."""
        return promise_of(self.violation.rule).id


@dataclass(slots=True)
class Tally:
    """How far a search is: model steps taken, states met, states met again."""

    steps: int = 0
    states: int = 0
    again: int = 0

    def add(self, other: Tally) -> None:
        """Count another search as well."""
        self.steps += other.steps
        self.states += other.states
        self.again += other.again


@dataclass(frozen=True, slots=True)
class State:
    """A node after a history, with the last view in which its kubelet ran, and its pods. ``key``
    is the node's."""

    node: BranchingNode
    steps: tuple[Step, ...] = ()
    seen: View | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    applied: int = 0
    key: Hashable = None


@lru_cache(maxsize=1024)
def _machine(name: str) -> topologies.Machine:
    """One object for each machine, so that what is found on its tree is remembered."""
    return topologies.machine(name)


class Ground:
    """The machine and configuration of a task, and how a step on it is judged. Raises
    :class:`NotModelled`, :class:`DiscoveryError`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        machine = _machine(task.machine)
        self.topology = topology_of(machine, release=task.release)
        self._tree = machine.tree
        self._minor = Release.parse(task.release).minor
        self.cpus = self.topology.cpus
        self.reserved = _reserved(self.topology, task)
        self.free = len(self.cpus) - len(self.reserved)
        self._kept: set[Hashable] = set()

    def _is_made(self, violation: Violation) -> bool:
        """Whether the promise is made for this release."""
        promise = promise_of(violation.rule)
        last = Release.parse(promise.until).minor if promise.until else self._minor
        return Release.parse(promise.since).minor <= self._minor <= last

    def first(self) -> State:
        """The node before its first start."""
        task = self.task
        node = BranchingNode(
            lambda _: self._tree, task.machine, task.config, release=task.release,
            discovering=info_of,
        )  # fmt: skip
        return State(node)

    def _judged(
        self, before: State, step: Step, view: View, pods: dict[str, Pod], key: Hashable
    ) -> list[Violation]:
        """Every promise that is broken after the step. A view that breaks none by itself is not
        judged again where a node has the same ``key``: the two differ in names alone."""
        situation = situation_of(self.task, self, pods)
        found = broken_in_step(before.seen, step, view, situation)
        if key not in self._kept:
            alone = violations(view, situation)
            if not alone:
                self._kept.add(key)
            found += alone
        return [one for one in found if self._is_made(one)]

    def taken(
        self, state: State, move: Move, tally: Tally
    ) -> Iterator[tuple[State, list[Violation]]]:
        """The states after a move, with the promises that its steps break; several where chance
        decides. None where a step is not modelled, or not possible. A move ends with the step that
        breaks a promise."""
        states = [State(state.node.copy(), state.steps, state.seen, state.pods, state.applied)]
        for number, step in enumerate(move):
            reached = []
            for one in states:
                try:
                    one.node.do(step)
                except (IllegalStep, NotModelled):
                    continue
                tally.steps += 1
                pods = after(one.pods, (step,))
                applied = one.applied + (len(pods) > len(one.pods))
                for node in (one.node, *one.node.others()):
                    view, key = node.seen(), node.key()
                    wrong = self._judged(one, step, view, pods, key)
                    seen = view if view.running else one.seen
                    made = State(node, (*one.steps, step), seen, pods, applied, key)
                    if wrong or number == len(move) - 1:
                        yield made, wrong
                    else:
                        reached.append(made)
            states = reached


def situation_of(task: Task, ground: Ground, pods: dict[str, Pod]) -> Situation:
    """What the promises are judged against, with these pods applied."""
    return Situation(
        config=task.config, pods=pods, cpus=ground.cpus, reserved=ground.reserved, can=_CAN,
        release=task.release, topology=ground.topology,
    )  # fmt: skip


def _reserved(topology: CPUTopology, task: Task) -> CPUSet:
    listed = task.config.reserved_system_cpus
    if listed:
        return listed
    try:
        policy = make_policy(topology, task.config, release=task.release)
    except KubeletError as error:
        raise NotModelled(str(error)) from error
    assert isinstance(policy, StaticPolicy)
    return policy.reserved


def search(
    task: Task,
    depth: int,
    *,
    tally: Tally | None = None,
    ignored: Collection[str] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Broken]:
    """Every shortest way in which a history of ``depth`` moves breaks a promise. A history ends
    with the first that it breaks, unless its id is ``ignored``. A kubelet that never starts breaks
    none."""
    tally = tally if tally is not None else Tally()
    try:
        ground = Ground(task)
        started = [one for one, _ in ground.taken(ground.first(), (Start(),), tally)]
    except (DiscoveryError, NotModelled):
        return
    frontier = [one for one in started if one.seen is not None]
    met = {one.key for one in frontier}
    for level in range(depth):
        reached = []
        for state in frontier:
            if stop():
                return
            name = f"p{state.applied + 1}"
            for move in next_moves(state.pods, name, ground.free, task.config, task.release):
                for made, wrong in ground.taken(state, move, tally):
                    wrong_here = [one for one in wrong if promise_of(one.rule).id not in ignored]
                    yield from (Broken(task, made.steps, one) for one in wrong_here)
                    if wrong_here or not made.seen:
                        continue
                    if made.key in met:
                        tally.again += 1
                        continue
                    met.add(made.key)
                    tally.states += 1
                    if level + 1 < depth:
                        reached.append(made)
        frontier = reached
