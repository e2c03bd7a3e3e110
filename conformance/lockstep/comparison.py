"""Compares what a node shows with its oracle and with the invariants."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from conformance.accounts import as_expected
from conformance.answers import answer_differences
from conformance.checks import KUBELET_REFUSES, differences
from conformance.lockstep.outcome import CouldNotTell
from conformance.needs import DoesNotApply
from conformance.oracle import Oracle
from conformance.promises import EXCLUSIVE_TO_ONE, RESERVED_STAY, Situation, Violation, violations
from conformance.results import Difference
from conformance.subject import Capability, NodeUnderTest, SubjectLostError
from conformance.waiting import ENOUGH, SHORT, Waiting
from reference import NotModelled
from reference.steps import AwaitReconcile, Step
from reference.view import Phase, View

#: Seconds that a pod stays pending until a kubelet counts as hanging, if the model says that it
#: hangs. A kubelet starts to handle a pod within 1.1 s. A pending pod alone never makes a kubelet
#: count as hanging.
_HANG_SHOWS: Final = 5.0


#: The rules that a release breaks if it assigns CPUs that are not free.
_BY_BUSY_CPUS: Final = frozenset({EXCLUSIVE_TO_ONE, RESERVED_STAY})
_BUSY_CPUS: Final = (
    "needs cores of one size: on others this release hands out CPUs that are not free "
    "(kubernetes/kubernetes#140498), as uneven/… state"
)


@dataclass(frozen=True, slots=True)
class Offence:
    """A rule that a node broke, and the differences that show it, the cause first. ``of_cpus``:
    whether it is about who holds which CPUs. It is false for one about whether the kubelet runs."""

    rule: str
    differences: list[Difference]
    of_cpus: bool = True


class Comparison:
    """Compares a node with its oracle and the invariants, step by step. ``witness`` names what says
    what is expected. ``by_chance``: chance decided a step otherwise than the oracle had it.
    ``waited`` says that the wait for the last step was cut short. ``may_hang`` and ``known_broken``
    (rules) are known defects that the scenario itself states. ``situation`` gives what the
    invariants depend on."""

    def __init__(
        self, can: Collection[Capability], waiting: Waiting, situation: Callable[[], Situation]
    ) -> None:
        self._can = can
        self._waiting = waiting
        self._situation = situation
        self._oracle: Oracle | None = None
        self._adrift = False
        self.witness = ""
        self.by_chance = False
        self.waited = ""
        self.may_hang = False
        self.known_broken: set[str] = set()
        self.as_modelled = False
        self._outcome: View | None = None

    def begin(self, oracle: Oracle) -> None:
        """Use this oracle from now on."""
        self._oracle = oracle
        self.witness = oracle.name

    def walk(self, node: NodeUnderTest, step: Step) -> tuple[View | None, View]:
        """Let oracle and node take a step. Returns the expected view (``None`` if no oracle knows
        it) and the seen one. Raises :class:`CouldNotTell`."""
        oracle = self._oracle
        expected = self._expected(oracle, step)
        self._outcome = expected
        try:
            node.do(step)
            seen = self._settle(node, step, expected)
        except SubjectLostError as error:
            raise CouldNotTell(str(error), evidence=error.evidence) from error
        if expected is not None and expected.hangs:
            return self._hanging(expected, seen)
        if oracle is not None and expected is not None and not seen.hangs:
            right = oracle.follow(seen, late=True)
            if right is not None:
                self.by_chance |= bool(self._differences(expected, right))
                self._outcome = expected = right
        return expected, seen

    def offence(self, step: Step, expected: View | None, seen: View) -> Offence | None:
        """What is wrong with the node after the step. Raises :class:`DoesNotApply` if it shows the
        known defect of its release on cores of different sizes."""
        if seen.hangs:
            return self._hang_offence(step, expected, seen)
        broken = self._violations(seen)
        rows = [] if expected is None else self._differences(expected, seen)
        if expected is not None and expected.running != seen.running:
            rule = KUBELET_REFUSES if expected.error and seen.running else self._as_modelled(step)
            # That it runs or not is the cause of the other differences and broken invariants.
            return Offence(rule, rows + [one.difference for one in broken], of_cpus=False)
        if broken:
            rules = list(dict.fromkeys(one.rule for one in broken))
            if not rows and self._situation().gives_busy_cpus and _BY_BUSY_CPUS & {*rules}:
                raise DoesNotApply(_BUSY_CPUS)
            return Offence("; ".join(rules), [one.difference for one in broken] + rows)
        if rows:
            return Offence(self._as_modelled(step), rows)
        return None

    def _as_modelled(self, step: Step) -> str:
        return as_expected(step.sentence, self.witness)

    def _settle(self, node: NodeUnderTest, step: Step, expected: View | None) -> View:
        """Wait for what is expected; only a short time if earlier waits for it were in vain."""
        began, name, short = time.monotonic(), type(step).__name__, False

        def done(view: View) -> bool:
            nonlocal short
            if self._settled(expected, view, began + _HANG_SHOWS):
                return True
            late = time.monotonic() >= began + SHORT
            short = late and self._waiting.is_known(name, self._owed(expected, view))
            return short

        seen = node.settle(done)
        if self._oracle is not None and self._oracle.outcomes > 1 and seen.running:
            seen = _after_a_round(node, seen, done)
        self.waited = ""
        if short:
            self.waited = (
                f" (waited {SHORT:g} s: {ENOUGH} full waits before ended with the same differences)"
            )
        elif time.monotonic() >= began + SHORT:
            self._waiting.note(name, self._owed(expected, seen))
        return seen

    def _owed(self, expected: View | None, seen: View) -> list[Difference]:
        """What keeps the node from being settled."""
        found = [one.difference for one in self._violations(seen)]
        if expected is not None and not expected.hangs:
            found += self._differences(expected, seen)
        return found

    def _expected(self, oracle: Oracle | None, step: Step) -> View | None:
        if oracle is None or self._adrift:
            return None
        try:
            return oracle.after(step)
        except NotModelled as error:
            raise CouldNotTell(f"the model does not know: {error}") from error

    def _hanging(self, expected: View, seen: View) -> tuple[View | None, View]:
        """The expected and the seen view if the model says that the kubelet hangs. If the kubelet
        answers (a fork may carry the fix), no view is expected from then on."""
        if seen.hangs:
            return expected, seen
        if _is_waiting(seen):
            return expected, replace(seen, hangs=f"a pod is pending for {_HANG_SHOWS:g} s")
        self._adrift = True
        self.witness += " up to the step in which it hangs, after that the promise alone"
        return None, seen

    def _settled(self, expected: View | None, seen: View, hang_shows: float) -> bool:
        if expected is not None and expected.hangs:
            late = time.monotonic() >= hang_shows
            return late if _is_waiting(seen) else late or not self._violations(seen)
        if (seen.enforced or seen.pod_resources) and self._violations(seen):
            # The kernel applies a changed cpuset or an offline CPU a little later. The kubelet's
            # own list of its pods is updated after a pod has ended.
            return False
        if expected is not None:
            return not self._differences(expected, seen) or self._is_by_chance(seen)
        return not _is_waiting(seen) and not self._violations(seen)

    def _is_by_chance(self, seen: View) -> bool:
        """Whether chance may lead to this view, and nothing else is wrong."""
        right = None if self._oracle is None else self._oracle.follow(seen, late=False)
        return right is not None and not self._differences(right, seen)

    def _differences(self, expected: View, seen: View) -> list[Difference]:
        """The differences of the views, then those of answers."""
        found = differences(expected, seen, self._can)
        return found + list(answer_differences(expected, seen, self._can))

    def _hang_offence(self, step: Step, expected: View | None, seen: View) -> Offence | None:
        """A kubelet that hangs breaks any promise, unless the scenario states that it hangs."""
        if self.may_hang and (expected is None or expected.hangs):
            return None
        answers = "answers"
        if expected is not None and expected.hangs:
            answers = f"answers ({self.witness} hangs here as well: {expected.hangs})"
        rule = f"hang: the kubelet answers the step “{step.sentence}” in time"
        found = Difference(what="kubelet", expected=answers, seen=f"hangs: {seen.hangs}")
        return Offence(rule, [found], of_cpus=False)

    def _violations(self, seen: View) -> list[Violation]:
        found = violations(seen, self._situation())
        broken = [one for one in found if one.rule not in self.known_broken]
        if not (broken and self.as_modelled and self._outcome is not None):
            return broken
        own = {one.rule for one in violations(self._outcome, self._situation())}
        return [one for one in broken if one.rule not in own]


def _after_a_round(node: NodeUnderTest, seen: View, done: Callable[[View], bool]) -> View:
    """The view after a reconcile round: a state between two possible outcomes may look like a
    third."""
    if seen.hangs or _is_waiting(seen):
        return seen
    node.do(AwaitReconcile())
    return replace(node.settle(done), versions=seen.versions)


def _is_waiting(view: View) -> bool:
    return any(pod.phase is Phase.PENDING for pod in view.pods.values())
