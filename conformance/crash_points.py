"""Tries every moment at which a kubelet may die between two writes, on a real kubelet.

What belongs here: short histories, the points at which their last step is cut off, and the promises
after the kubelet's next start. What never does: how a kubelet is killed at a rename
(``conformance.subjects.kubelet.inside.renames``).

How it works: a kubelet changes each file of its root by a rename. So a step is cut off just before
its first rename and just after it, then before and after its second, until it ends without being
cut off. Each time the kubelet is started again. It must run, no CPU may be lost, containers that
were pinned keep their CPUs, and pods that were applied are pinned. Only the last step of a history
is cut off: each earlier step is the last of a shorter history.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import PurePosixPath
from typing import Final

import topologies
from conformance.checks import kubelet_text
from conformance.discovered import first_core, topology_of
from conformance.pods import best_effort, guaranteed
from conformance.promises import EVERY_CPU, EXCLUSIVE_TO_ONE
from conformance.subject import (
    Capability,
    NamesKilledRename,
    NodeUnderTest,
    Subject,
    SubjectUnable,
    SubjectUsageError,
    WaitsMost,
)
from reference import CPUSet, CPUTopology
from reference.pods.qos import exclusive_cpus
from reference.steps import (
    Apply,
    Delete,
    KillAtRename,
    KubeletConfig,
    Pod,
    Start,
    Step,
    Stop,
    note_pods,
)
from reference.view import Phase, View
from topologies import Machine

MACHINE: Final = "1s-1n-4c-smt2"
DEPTH: Final = 3
#: More renames than any step makes.
_MOST: Final = 60

#: Exclusive CPUs of all pods together.
_PODS: Final = 3

#: One event on a node: a pod is applied or deleted, or the kubelet is started again.
Act = tuple[Step, ...]
_RESTART: Final[Act] = (Stop(), Start())
_ACTS: Final[tuple[Act, ...]] = (
    (Apply(guaranteed("a", 2)),),
    (Apply(guaranteed("b", 1)),),
    (Apply(best_effort("shared")),),
    (Delete("a"),),
    (Delete("b"),),
    _RESTART,
)


@dataclass(frozen=True, slots=True)
class Point:
    """The moment before or ``after`` the ``number``-th rename of a history's last act. ``file``:
    the name of the renamed file. Number 0: the kubelet was not killed."""

    acts: tuple[Act, ...]
    number: int
    after: bool
    file: str = ""

    def __str__(self) -> str:
        """As ``apply pod a; killed before rename 2 (of cpu_manager_state)``."""
        done = "; ".join(step.sentence for act in self.acts for step in act) or "start the kubelet"
        if not self.number:
            return f"{done}; not killed"
        when = "after" if self.after else "before"
        return f"{done}; killed {when} rename {self.number} ({self.file})"


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a point. ``broken``: the promises that were broken, in words."""

    point: Point
    broken: tuple[str, ...]


def histories(depth: int = DEPTH) -> Iterator[tuple[Act, ...]]:
    """Every history of up to ``depth`` acts, shortest first; the empty one is the kubelet's first
    start. A pod is applied again only after its deletion, and only an applied pod is deleted."""
    for count in range(depth + 1):
        yield from filter(_is_sensible, product(_ACTS, repeat=count))


def _is_sensible(acts: tuple[Act, ...]) -> bool:
    there: set[str] = set()
    for first, *_ in acts:
        if isinstance(first, Apply):
            if first.pod.name in there:
                return False
            there.add(first.pod.name)
        if isinstance(first, Delete):
            if first.pod not in there:
                return False
            there.remove(first.pod)
    return True


def walk(
    subject: Subject,
    *,
    machine: str = MACHINE,
    depth: int = DEPTH,
    chosen: Iterable[tuple[Act, ...]] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Generator[Tried, None, None]:
    """Try every point of the ``chosen`` histories, or of every history up to ``depth``. Closing the
    walk early ends the running nodes and the subject. Raises :class:`SubjectUnable` if the subject
    cannot be killed at a rename, and :class:`SubjectUsageError` for a machine that is too small for
    the pods."""
    if Capability.RENAMES not in subject.capabilities:
        raise SubjectUnable(f"{subject.info.name} cannot {Capability.RENAMES.value}")
    place = _Place(subject, topologies.machine(machine))
    every = list(histories(depth) if chosen is None else chosen)
    for number, points in enumerate(_several(subject, place.points, every), 1):
        say(f"history {number} of {len(every)}")
        yield from points


def _several(
    subject: Subject, points: Callable[[tuple[Act, ...]], list[Tried]], every: list[tuple[Act, ...]]
) -> Iterator[list[Tried]]:
    """The results of each history, in order; several run at a time if the subject mostly waits."""
    waits = subject if isinstance(subject, WaitsMost) else None
    threads = ThreadPoolExecutor(waits.at_a_time if waits else 1, "crash-points")
    begun = [threads.submit(points, acts) for acts in every]
    try:
        for future in begun:
            yield future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        if waits and not all(future.done() for future in begun):
            waits.interrupt()
        threads.shutdown()


class _Place:
    """A subject on a machine."""

    def __init__(self, subject: Subject, machine: Machine) -> None:
        self._subject, self._machine = subject, machine
        self._topology: CPUTopology = topology_of(machine, release=subject.info.release)
        reserved = first_core(self._topology)
        if len(self._topology.details) - len(reserved) < _PODS:
            raise SubjectUsageError(
                f"--machine {machine.name}: crash points need {_PODS} CPUs beside the first core"
            )
        self._config = KubeletConfig(reserved_system_cpus=reserved)

    def points(self, acts: tuple[Act, ...]) -> list[Tried]:
        """The results of every point of a history, until its last act ends without being cut off.
        That end is among them only if it breaks a promise."""
        results: list[Tried] = []
        for number, after in product(range(1, _MOST + 1), (False, True)):
            tried = self.tried(acts, number, after=after)
            if tried.point.number or tried.broken:
                results.append(tried)
            if not tried.point.number:
                break
        return results

    def tried(self, acts: tuple[Act, ...], number: int, *, after: bool) -> Tried:
        """The result of a kill at a point, or of the last act if it ends before that."""
        fresh = self._subject.node(self._machine, self._config, machines=topologies.machine)
        with closing(fresh) as node:
            before, pods = self._before(node, acts[:-1], first=not acts)
            *undisturbed, last = acts[-1] if acts else (Start(),)
            for step in undisturbed:
                node.do(step)
            node.do(KillAtRename(number, after, any_file=True))
            note_pods(pods, [last])
            node.do(last)
            seen = node.settle(lambda view: not view.running or self._is_settled(view, pods))
            if seen.running:
                return Tried(Point(acts, 0, after=False), tuple(self._broken(before, seen, pods)))
            point = Point(acts, number, after, _file(node))
            node.do(Start())
            seen = node.settle(lambda view: not self._broken(before, view, pods))
            return Tried(point, tuple(self._broken(before, seen, pods)))

    def _before(
        self, node: NodeUnderTest, acts: tuple[Act, ...], *, first: bool
    ) -> tuple[View, dict[str, Pod]]:
        pods: dict[str, Pod] = {}
        steps = [] if first else [Start(), *(step for act in acts for step in act)]
        for step in steps:
            node.do(step)
            note_pods(pods, [step])
            node.settle(lambda view: self._is_settled(view, pods))
        return node.view(), pods

    def _is_settled(self, view: View, pods: dict[str, Pod]) -> bool:
        return not self._broken(View(running=True), view, pods)

    def _broken(self, before: View, seen: View, pods: dict[str, Pod]) -> list[str]:
        """The promises that a kubelet breaks which ought to run."""
        if not seen.running:
            return [f"The kubelet starts again: it {kubelet_text(seen)}"]
        return [
            *self._lost(seen),
            *(text for pod in pods.values() for text in _unpinned(pod, seen)),
            *(text for name in pods for text in _moved(name, before, seen)),
            *(f"pod {name} is gone: it still holds CPUs" for name in seen.assignments
              if name not in pods),
        ]  # fmt: skip

    def _lost(self, seen: View) -> Iterator[str]:
        held = seen.shared_pool
        for containers in seen.assignments.values():
            for cpus in containers.values():
                if held & cpus:
                    yield f"{EXCLUSIVE_TO_ONE}: {held & cpus} are held twice"
                held |= cpus
        lost = CPUSet(self._topology.details) - held
        if lost:
            yield f"{EVERY_CPU}: {lost} are neither"


def _unpinned(pod: Pod, seen: View) -> Iterator[str]:
    """How an applied pod does not run as it requests."""
    view = seen.pods.get(pod.name)
    if view is None or view.phase is not Phase.RUNNING:
        said = f"{view.phase.value} {view.reason} {view.message}".strip() if view else "not there"
        yield f"pod {pod.name} runs: it is {said}"
        return
    for container in pod.containers:
        wanted = exclusive_cpus(pod, container)
        held = seen.assignments.get(pod.name, {}).get(container.name, CPUSet())
        if len(held) != wanted:
            yield f"{pod.name}/{container.name} has {wanted} CPUs of its own: it has {len(held)}"
        cpuset = seen.cpusets.get(pod.name, {}).get(container.name)
        right = held if wanted else seen.shared_pool
        if cpuset != right:
            yield f"{pod.name}/{container.name} runs on {right}: it runs on {cpuset}"


def _moved(name: str, before: View, seen: View) -> Iterator[str]:
    for container, held in before.assignments.get(name, {}).items():
        now = seen.assignments.get(name, {}).get(container, CPUSet())
        if now != held:
            yield f"{name}/{container} keeps its CPUs: it had {held}, it has {now}"


def _file(node: NodeUnderTest) -> str:
    """The name of the renamed file, without its folders."""
    name = node.killed_at_rename if isinstance(node, NamesKilledRename) else ""
    return PurePosixPath(name).name or "unknown"
