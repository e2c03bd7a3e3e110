"""A find on a real subject: the same history, judged by the same promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import topologies
from conformance.promises import Violation, promise_of
from conformance.subject import (
    NodeUnderTest,
    Subject,
    SubjectError,
    SubjectLostError,
    SubjectUsageError,
    TakesOver,
)
from hunting.finds import Find
from hunting.moves import after
from hunting.scope import Task
from hunting.walk import Ground
from reference import NotModelled
from reference.branching import BranchingNode
from reference.steps import Pod, Step, TakeOver
from reference.view import Phase, View

#: In one of 8 starts a kubelet admits two static pods in another order than by name
#: (:func:`reference.golang.maps.turns`). So many tries miss that order once in a hundred times.
_TRIES: Final = 35
#: The scheme of kubelets. Alone it names the kubelet of the release that a find has.
KUBELET: Final = "kubelet"


class Witnesses:
    """The subjects of these ``names``. ``kubelet`` names the kubelet of the release that a find
    has; it is opened when it is first needed. Raises :class:`SubjectError`."""

    def __init__(self, names: Sequence[str], opening: Callable[[str], Subject]) -> None:
        self._names = names
        self._opening = opening
        self._opened: dict[str, Subject] = {}
        try:
            for name in names:
                if name != KUBELET:
                    self._open(name)
        except SubjectError:
            self.close()
            raise

    def of(self, find: Find) -> Iterator[tuple[str, tuple[Subject, ...]]]:
        """The groups of subjects that are to show a find, each with its name. A group is one
        subject; if another release takes over, it is one subject for each release of the history.
        Raises :class:`SubjectError`."""
        names = [f"{KUBELET}:{find.release}" if one == KUBELET else one for one in self._names]
        casts: list[tuple[str, ...]] = [(one,) for one in names]
        if names and len(find.cast) > 1:
            casts = [tuple(self._name_of(release) for release in find.cast)]
        for cast in casts:
            yield " then ".join(cast), tuple(map(self._open, cast))

    def _name_of(self, release: str) -> str:
        given = [one for one in self._names if one != KUBELET]
        fits = (one for one in given if self._opened[one].info.release == release)
        name = next(fits, f"{KUBELET}:{release}" if KUBELET in self._names else "")
        if not name:
            raise SubjectUsageError(f"--confirm: a kubelet of {release} is needed as well")
        return name

    def _open(self, name: str) -> Subject:
        if name not in self._opened:
            self._opened[name] = self._opening(name)
        return self._opened[name]

    def close(self) -> None:
        for one in self._opened.values():
            one.close()


def confirmed(find: Find, subjects: Sequence[Subject]) -> Violation | None:
    """How the find's promise is broken on the subjects by the same history; ``None``: it is kept.
    ``subjects``: one for each release of the history. Raises :class:`SubjectLostError` where a
    subject could not take the history."""
    for _ in range(_TRIES if _is_chance(find) else 1):
        violation = _driven(find, subjects)
        if violation is not None:
            return violation
    return None


def _is_chance(find: Find) -> bool:
    """Whether a step of the history may have several outcomes on the model."""
    node = Ground(find.task).first().node
    return any(_model_takes(node, step) and node.outcomes > 1 for step in find.history)


def _driven(find: Find, subjects: Sequence[Subject]) -> Violation | None:
    machine, subject = topologies.machine(find.machine), subjects[0]
    by_release = dict(zip(find.cast, subjects, strict=True))
    task = Task(subject.info.release, find.machine, find.task.config)
    node = subject.node(machine, task.config, machines=topologies.machine)
    try:
        for broken in _judged(node, task, find.history, by_release):
            if promise_of(broken.rule).id == find.promise:
                return broken
    finally:
        node.close()
    return None


def _judged(
    node: NodeUnderTest, task: Task, history: tuple[Step, ...], subjects: Mapping[str, Subject]
) -> Iterator[Violation]:
    ground = Ground(task)
    model = ground.first().node
    pods: dict[str, Pod] = {}
    before: View | None = None
    ran: Task | None = None
    for step in history:
        _take(node, step, subjects)
        ground = ground.after(step)
        known = _model_takes(model, step)
        pods = after(pods, (step,), model.granted if known else None)
        view = node.settle(partial(_rests, model if known else None))
        if any(one.phase is Phase.PENDING for one in view.pods.values()) and view.running:
            raise SubjectLostError("a pod is still pending")
        yield from ground.judged(before, step, view, pods, ran)
        before, ran = (view, ground.task) if view.running else (before, ran)


def _take(node: NodeUnderTest, step: Step, subjects: Mapping[str, Subject]) -> None:
    if not isinstance(step, TakeOver):
        node.do(step)
        return
    other = subjects[step.release]
    if not isinstance(other, TakesOver):
        raise SubjectUsageError(f"{other.info.name} cannot take over from another kubelet")
    other.take_over(node)


def _model_takes(model: BranchingNode, step: Step) -> bool:
    """Take the step on the model too; returns whether it is modelled."""
    try:
        model.do(step)
    except NotModelled:
        return False
    return True


def _rests(model: BranchingNode | None, seen: View) -> bool:
    """Whether the subject is at rest: it shows what the model shows in some outcome of the step.
    Without a ``model`` it is at rest once no pod is pending."""
    if model is None:
        return all(one.phase is not Phase.PENDING for one in seen.pods.values())
    if model.follow(seen):
        return True
    expected = model.view()
    return (
        seen.running == expected.running
        and {name: one.phase for name, one in seen.pods.items()}
        == {name: one.phase for name, one in expected.pods.items()}
        and seen.assignments == expected.assignments
        and seen.cpusets == expected.cpusets
    )
