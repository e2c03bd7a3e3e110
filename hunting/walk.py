"""A search by breadth: every history up to a depth, equal states met once.

What belongs here: taking moves on copies of a node, and judging each step. What never does: the
promises (:mod:`conformance.promises`), and the finds that are made of broken ones (``finds``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final

import topologies
from conformance.discovered import info_of, topology_of
from conformance.promises import (
    GOING_ON,
    Situation,
    Violation,
    broken_in_step,
    promise_of,
    violations,
)
from conformance.subject import Capability
from hunting.families import Move, Scene, moves_of
from hunting.moves import after, next_moves
from hunting.scope import Task
from reference import CPUSet, DiscoveryError, IllegalStep, NotModelled
from reference.branching import BranchingNode
from reference.cpumanager.cpu_manager import make_policy
from reference.cpumanager.policy_static import StaticPolicy
from reference.errors import KubeletError
from reference.releases import LATEST
from reference.steps import (
    Apply,
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    AwaitReconcile,
    Configure,
    Container,
    OfflineCPUs,
    OnlineCPUs,
    Pod,
    Reboot,
    Resize,
    Start,
    Step,
    TakeOver,
    Tamper,
)
from reference.view import View
from topologies import Machine

#: The parts of the model's view by which the promises are judged.
_CAN: Final = frozenset({Capability.CPUSETS, Capability.STATE_FILE, Capability.REJECTIONS})
#: The release that finds the real topology of every machine.
_TRUE: Final = f"1.{LATEST}"
#: Steps after which the whole view is judged.
_WITH_WHOLE_VIEW: Final = (AskAllocatable, AskMetrics, AskPodResources, AwaitReconcile)
#: Steps after which more is judged than a node's key stands for.
_BEYOND_KEY: Final = (*_WITH_WHOLE_VIEW, Resize, Tamper)


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that a history breaks, by its last step; ``steps`` is the whole history."""

    task: Task
    steps: tuple[Step, ...]
    violation: Violation

    @property
    def promise(self) -> str:
        return promise_of(self.violation.rule).id

    @property
    def containers(self) -> Iterator[Container]:
        """The containers of the pods that are applied one by one."""
        for step in self.steps:
            if isinstance(step, Apply):
                yield from step.pod.containers


@dataclass(slots=True)
class Tally:
    """How far a search is: model steps taken, states met, states met again."""

    steps: int = 0
    states: int = 0
    again: int = 0

    def add(self, other: Tally) -> None:
        self.steps += other.steps
        self.states += other.states
        self.again += other.again


@dataclass(frozen=True, slots=True)
class State:
    """A node after a history. ``seen``: the last view in which its kubelet ran; ``applied``: how
    many pods have come; ``key``: the node's; ``ground``: the present one (``None``: the first one);
    ``ran``: the task with which its kubelet last ran."""

    node: BranchingNode
    steps: tuple[Step, ...] = ()
    seen: View | None = None
    pods: dict[str, Pod] = field(default_factory=dict)
    applied: int = 0
    key: Hashable = None
    ground: Ground | None = None
    ran: Task | None = None


@lru_cache(maxsize=1024)
def _machine(name: str) -> Machine:
    """One object for each machine, so that what discovery finds on its tree is remembered."""
    return topologies.machine(name)


def node_of(task: Task, machine_of: Callable[[str], Machine]) -> BranchingNode:
    """The node of a task before its first start. ``machine_of`` gives machines by name."""
    return BranchingNode(
        lambda name: machine_of(name).tree, task.machine, task.config,
        release=task.release, discovering=info_of,
    )  # fmt: skip


class Ground:
    """The release, machine and configuration of a task, and how a step on it is judged. Raises
    :class:`NotModelled`, :class:`DiscoveryError`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        machine = _machine(task.machine)
        self.topology = topology_of(machine, release=_TRUE)
        self.cpus = self.topology.cpus
        self.reserved = reserved_of(machine, task)
        self.free = len(self.cpus) - len(self.reserved)
        self._kept: set[Hashable] = set()
        self._others: dict[str, Ground] = {}

    def first(self) -> State:
        """The node before its first start."""
        return State(node_of(self.task, _machine))

    def after(self, step: Step) -> Ground:
        """The ground of the node after the step. Raises as the constructor does."""
        match step:
            case Configure(config=config):
                task = replace(self.task, config=config)
            case TakeOver(release=release):
                task = self.task.taken_over(release)
            case Reboot(machine=name) | OfflineCPUs(machine=name) | OnlineCPUs(machine=name):
                task = replace(self.task, machine=name or self.task.machine)
            case _:
                return self
        known = self._others.get(str(task))
        if known is None:
            known = self._others[str(task)] = Ground(task)
            known._others = self._others
        return known

    def judged(
        self,
        before: View | None,
        step: Step,
        view: View,
        pods: dict[str, Pod],
        ran: Task | None = None,
        key: Hashable = None,
    ) -> list[Violation]:
        """Every promise that is broken after the step. A view that breaks none by itself is not
        judged again where a node has the same ``key`` (``None``: it has none): the two differ in
        names alone. A kubelet may refuse to go on if its machine or policy is another than that of
        the task with which it last ``ran``. So may one of another release that does not start on an
        empty node either."""
        situation = situation_of(self.task, self, pods, step)
        found = broken_in_step(before, step, view, situation)
        if key is None or isinstance(step, _BEYOND_KEY) or key not in self._kept:
            alone = violations(view, situation)
            if not alone and not isinstance(step, _BEYOND_KEY):
                self._kept.add(key)
            found += alone
        if ran is not None and self._may_refuse(ran):
            found = [one for one in found if one.rule not in GOING_ON]
        return [one for one in found if promise_of(one.rule).is_made_for(self.task.release)]

    def _may_refuse(self, ran: Task) -> bool:
        task = self.task
        if (ran.machine, ran.config.policy) != (task.machine, task.config.policy):
            return True
        return ran.release != task.release and not self._starts

    @cached_property
    def _starts(self) -> bool:
        """Whether a kubelet starts on the empty node."""
        node = self.first().node
        node.do(Start())
        return node.seen().running

    def taken(
        self, state: State, move: Move, tally: Tally
    ) -> Iterator[tuple[State, list[Violation]]]:
        """The states after a move, with the promises that its steps break; several where chance
        decides. None where a step is not modelled, or not possible. A move ends with the step that
        breaks a promise."""
        states = [(state, state.node.copy())]
        for number, step in enumerate(move):
            reached = []
            for old, own in states:
                try:
                    ground = (old.ground or self).after(step)
                    own.do(step)
                except (DiscoveryError, IllegalStep, NotModelled):
                    continue
                tally.steps += 1
                pods = after(old.pods, (step,), own.granted)
                applied = old.applied + (len(pods) > len(old.pods))
                for node in (own, *own.others()):
                    view = node.view() if isinstance(step, _WITH_WHOLE_VIEW) else node.seen()
                    key = node.key()
                    wrong = ground.judged(old.seen, step, view, pods, old.ran, key)
                    seen, ran = (view, ground.task) if view.running else (old.seen, old.ran)
                    if seen is not None and isinstance(step, Reboot):
                        seen = replace(seen, cpusets={}, pods={})  # nothing runs any more
                    new = State(node, (*old.steps, step), seen, pods, applied, key, ground, ran)
                    if wrong or number == len(move) - 1:
                        yield new, wrong
                    else:
                        reached.append((new, node))
            states = reached


def situation_of(
    task: Task, ground: Ground, pods: dict[str, Pod], step: Step | None = None
) -> Situation:
    """The situation in which promises are judged after the step, with these pods applied."""
    tampered = [(step.pod, step.container)] if isinstance(step, Tamper) else ()
    return Situation(
        config=task.config, pods=pods, cpus=ground.cpus, reserved=ground.reserved, can=_CAN,
        release=task.release, topology=ground.topology, tampered=tampered,
    )  # fmt: skip


def reserved_of(machine: Machine, task: Task) -> CPUSet:
    """The CPUs that the task reserves, also by an amount. Raises :class:`NotModelled`."""
    listed = task.config.reserved_system_cpus
    if listed or task.config.policy != "static":
        return listed or CPUSet()
    topology = topology_of(machine, release=task.release)
    try:
        policy = make_policy(topology, task.config, release=task.release)
    except KubeletError as error:
        raise NotModelled(str(error)) from error
    assert isinstance(policy, StaticPolicy)
    return policy.reserved


def scene_of(state: State, ground: Ground) -> Scene:
    """What moves from this state depend on, in histories that began on this ground."""
    now = state.ground or ground
    task = now.task
    return Scene(
        state.pods, f"p{state.applied + 1}", now.free, task.config, task.release, task.machine,
        now.topology, task.others,
    )  # fmt: skip


def moves_from(state: State, ground: Ground, families: tuple[str, ...]) -> Iterator[Move]:
    """The moves that may come next, in histories that began on this ground."""
    scene = scene_of(state, ground)
    yield from next_moves(scene.applied, scene.name, scene.free, scene.config, scene.release)
    yield from moves_of(scene, families)


def key_of(state: State, families: tuple[str, ...]) -> Hashable:
    """States with one key break the same promises by the same further moves."""
    if not families:
        return state.key
    task = str(state.ground.task) if state.ground else ""
    return (state.key, state.node.beside(), task)


def begun(task: Task, tally: Tally) -> tuple[Ground, list[tuple[State, list[Violation]]]]:
    """The ground of a task and the states after the first start, with the promises that it breaks.
    Raises as :class:`Ground`."""
    ground = Ground(task)
    return ground, list(ground.taken(ground.first(), (Start(),), tally))


def counted(wrong: Iterable[Violation], ignored: Collection[str]) -> list[Violation]:
    """The violations of promises that are not ``ignored``."""
    return [one for one in wrong if promise_of(one.rule).id not in ignored]


def search(
    task: Task,
    depth: int,
    *,
    tally: Tally | None = None,
    ignored: Collection[str] = (),
    families: tuple[str, ...] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Broken]:
    """Every broken promise of histories of at most ``depth`` moves; of equal states the first one
    alone is followed. ``families``: their moves come beside those that every history has. A history
    ends with the first promise that it breaks, unless its id is ``ignored``."""
    tally = tally if tally is not None else Tally()
    try:
        ground, started = begun(task, tally)
    except (DiscoveryError, NotModelled):
        return
    for new, wrong in started:
        yield from (Broken(task, new.steps, one) for one in counted(wrong, ignored))
    frontier = [one for one, _ in started if one.seen is not None]
    met = {key_of(one, families) for one in frontier}
    for level in range(depth):
        reached = []
        for state in frontier:
            if stop():
                return
            for move in moves_from(state, ground, families):
                for new, wrong in ground.taken(state, move, tally):
                    wrong_here = counted(wrong, ignored)
                    yield from (Broken(task, new.steps, one) for one in wrong_here)
                    if wrong_here or not new.seen:
                        continue
                    key = key_of(new, families)
                    if key in met:
                        tally.again += 1
                        continue
                    met.add(key)
                    tally.states += 1
                    if level + 1 < depth:
                        reached.append(new)
        frontier = reached
