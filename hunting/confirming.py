"""A find on a real subject: the same history, judged by the same promises.

What belongs here: driving a subject through a history, and whether what it shows breaks the
promise. What never does: what the model would have done.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import topologies
from conformance.promises import Violation, promise_of
from conformance.subject import NodeUnderTest, Subject, SubjectLostError
from hunting.finds import Find
from hunting.moves import after
from hunting.scope import Task
from hunting.walk import Ground
from reference import NotModelled
from reference.branching import BranchingNode
from reference.steps import Pod, Step
from reference.view import Phase, View

#: A kubelet that starts takes another of two static pods first than the first by name in one of 8
#: starts (:func:`reference.golang.maps.turns`): so many tries miss that once in a hundred times.
_TRIES: Final = 35


def confirmed(find: Find, subject: Subject) -> Violation | None:
    """How the subject breaks the promise of the find by the same history; ``None`` if it keeps it.

    Raises :class:`SubjectLostError` where the history could not be driven.
    """
    for _ in range(_TRIES if _is_chance(find) else 1):
        found = _driven(find, subject)
        if found is not None:
            return found
    return None


def _is_chance(find: Find) -> bool:
    """Whether a step of the history may have several outcomes on the model."""
    node = Ground(find.task).first().node
    return any(_taken(node, step) and node.outcomes > 1 for step in find.history)


def _driven(find: Find, subject: Subject) -> Violation | None:
    machine = topologies.machine(find.machine)
    task = Task(subject.info.release, find.machine, find.task.config)
    node = subject.node(machine, task.config, machines=topologies.machine)
    try:
        for broken in _judged(node, task, find.history):
            if promise_of(broken.rule).id == find.promise:
                return broken
    finally:
        node.close()
    return None


def _judged(node: NodeUnderTest, task: Task, history: tuple[Step, ...]) -> Iterator[Violation]:
    ground = Ground(task)
    beside = ground.first().node
    pods: dict[str, Pod] = {}
    before: View | None = None
    ran: Task | None = None
    for step in history:
        node.do(step)
        ground = ground.after(step)
        known = _taken(beside, step)
        pods = after(pods, (step,), beside.granted if known else None)
        view = node.settle(partial(_rests, beside if known else None))
        if any(one.phase is Phase.PENDING for one in view.pods.values()) and view.running:
            raise SubjectLostError("a pod is still pending")
        yield from ground.judged(before, step, view, pods, ran)
        before, ran = (view, ground.task) if view.running else (before, ran)


def _taken(beside: BranchingNode, step: Step) -> bool:
    """Whether the model could take the step as well."""
    try:
        beside.do(step)
    except NotModelled:
        return False
    return True


def _rests(beside: BranchingNode | None, seen: View) -> bool:
    """Whether nothing more is awaited: the subject shows what the model does, in some outcome of
    the step; where the model does not know, no pod is pending."""
    if beside is None:
        return all(one.phase is not Phase.PENDING for one in seen.pods.values())
    if beside.follow(seen):
        return True
    expected = beside.view()
    return (
        seen.running == expected.running
        and {name: one.phase for name, one in seen.pods.items()}
        == {name: one.phase for name, one in expected.pods.items()}
        and seen.assignments == expected.assignments
        and seen.cpusets == expected.cpusets
    )
