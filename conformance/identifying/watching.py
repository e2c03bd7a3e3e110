"""A history on a subject: what it shows after each step.

What belongs here: when a view has settled, and when a history is given up. What never does:
conclusions (``identity``).

How it works: the models of several releases take the same steps, the likeliest release first. A
view that the likeliest release expects has settled at once. A view that another release expects has
settled once it has stayed for a while, because a kubelet may pass through it. A history ends where
the subject does what none of the releases does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import topologies
from conformance.checks import differences
from conformance.discovered import architecture_of
from conformance.identifying.history import History
from conformance.identifying.walking import Walker, unlike, walker
from conformance.subject import Capability, NodeUnderTest, Subject, SubjectError
from reference import IllegalStep, NotModelled
from reference.steps import Step
from reference.view import View

#: Seconds that a view has to stay if another release than the likeliest one expects it.
_STAYS: Final = 1.5
#: Seconds until a view counts that no release expects. A kubelet shows an effect within 3 seconds.
_PATIENCE: Final = 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """What a subject showed after each step. ``lost``: why no more could be seen; ``""`` if all was
    seen, or the rest decides nothing."""

    history: History
    views: tuple[View, ...]
    lost: str = ""


def watch(
    subject: Subject, history: History, releases: Sequence[str], *, patient: bool = False
) -> Watched:
    """Take a history's steps on a fresh node. ``releases``: what the subject may be, overrides
    included, the likeliest first. ``patient``: wait for the likeliest release's view as long as the
    subject's own deadline allows."""
    beside = _Beside(history, releases, subject, patient=patient)
    seen: list[View] = []
    node: NodeUnderTest | None = None
    try:
        machine = topologies.machine(history.machine)
        node = subject.node(machine, history.config, machines=topologies.machine)
        for step in history.steps:
            if not beside.expect(step):
                break
            node.do(step)
            seen.append(beside.settled(node))
            if not beside.walks:
                break  # the subject does what no release does, or hangs as a release does
    except (SubjectError, NotModelled) as error:
        return Watched(history, tuple(seen), str(error) or type(error).__name__)
    finally:
        if node is not None:
            node.close()
    return Watched(history, tuple(seen))


class _Walk:
    """One release beside the subject."""

    def __init__(self, model: Walker, can: Collection[Capability]) -> None:
        self._model, self._can = model, can
        self.expected = View(running=False)

    def expect(self, step: Step) -> bool:
        """Take the step; returns whether the model knows its effect. Raises ``IllegalStep``."""
        try:
            self.expected = self._model.after(step)
        except NotModelled:
            return False
        return True

    def is_met(self, seen: View) -> bool:
        """Whether the view is exactly what is expected."""
        if self.expected.hangs:
            return bool(seen.hangs)
        return self.expected == seen or not differences(self.expected, seen, self._can)

    def may_be(self, seen: View) -> bool:
        """Whether chance may lead to this view."""
        return not seen.hangs and self._model.follow(seen, late=False) is not None

    def follows(self, seen: View) -> bool:
        """Whether the settled view is right, or chance may lead to it."""
        return not unlike(self._model, self.expected, seen, self._can)


class _Beside:
    """The releases that have shown the same as the subject so far. All but the likeliest are walked
    only when needed, which is rare."""

    def __init__(
        self, history: History, releases: Sequence[str], subject: Subject, *, patient: bool
    ) -> None:
        # An API server shows a pod that is refused right after a start ten seconds later.
        self._history, self._patient = history, patient or history.config.api_server
        self._can, self._architecture = subject.capabilities, architecture_of(subject.info)
        self._done: list[tuple[Step, View]] = []
        self._left = list(releases)
        self._step: Step | None = None
        self.walks = self._walks(1)

    def expect(self, step: Step) -> bool:
        """Let all releases take the step. Returns whether it is possible after what they have
        shown: a kubelet that gave up cannot be stopped."""
        self._step = step
        try:
            self.walks = [one for one in self.walks if one.expect(step)]
        except IllegalStep:
            return False
        return True

    def settled(self, node: NodeUnderTest) -> View:
        """The settled view. Releases that show something else are dropped. Releases that hang in
        this step are dropped too, since a hanging kubelet shows nothing more."""
        began = time.monotonic()
        last: list[tuple[View, float]] = []

        def done(view: View) -> bool:
            now = time.monotonic()
            if self.walks and self.walks[0].is_met(view):
                return True
            if not last or last[0][0] != view:
                last[:] = [(view, now)]
            if not self._patient and now - began > _PATIENCE:
                return True
            if now - last[0][1] < _STAYS:
                return False
            if self.walks and self.walks[0].may_be(view):
                return True
            self._walk_all()
            return any(one.is_met(view) for one in self.walks)

        seen = node.settle(done)
        following = [one for one in self.walks if one.follows(seen)]
        if not following and self._left:
            self.walks = []
            self._walk_all()
            following = [one for one in self.walks if one.follows(seen)]
        self.walks = [one for one in following if not one.expected.hangs]
        assert self._step is not None
        self._done.append((self._step, seen))
        return seen

    def _walk_all(self) -> None:
        """Walk the releases that were left out, as far as the subject has come."""
        assert self._step is not None
        for one in self._walks(len(self._left)):
            with contextlib.suppress(IllegalStep):
                if all(one.expect(step) and one.follows(seen) for step, seen in self._done) and (
                    one.expect(self._step)
                ):
                    self.walks.append(one)

    def _walks(self, count: int) -> list[_Walk]:
        """The next ``count`` of the releases that were left out."""
        chosen, self._left = self._left[:count], self._left[count:]
        found = []
        for release in chosen:
            with contextlib.suppress(NotModelled):
                model = walker(self._history, release, architecture=self._architecture)
                found.append(_Walk(model, self._can))
        return found
