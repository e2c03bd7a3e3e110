"""The model of the kubelet that is on the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from conformance.accounts import as_expected
from conformance.discovered import architecture_of
from conformance.oracle import ModelOracle
from conformance.results import Difference
from conformance.subject import SubjectInfo
from conformance.upgrading.plan import Plan
from reference import NotModelled
from reference.steps import Step
from reference.view import View

#: The promises alone judge.
_NO_MODEL: Final = "the promises alone"
#: A rule that was broken, its source or model, and the differences.
Found: TypeAlias = tuple[str, str, tuple[Difference, ...]]


class Model:
    """The model of the kubelet that is on the node, as long as it knows
    (:class:`conformance.oracle.Oracle`). ``notes`` and ``silent`` say why it no longer knows."""

    def __init__(self, plan: Plan, info: SubjectInfo) -> None:
        self.notes: list[str] = []
        self.silent = ""
        self.name = f"the model of {info.release}"
        self._oracle: ModelOracle | None = None
        try:
            self._oracle = ModelOracle(
                plan.machine,
                plan.config,
                machines=plan.named,
                release=info.release,
                architecture=architecture_of(info),
            )
        except NotModelled as error:
            self.silence(str(error))

    def silence(self, why: str) -> None:
        """Use the model no more, for this reason."""
        if self._oracle is not None or not self.notes:
            self.notes.append(f"from here on {_NO_MODEL} judge: {why}")
            self.silent = self.silent or why
        self._oracle = None

    def unlike(
        self, step: Step, differing: Sequence[Difference], kubelet: SubjectInfo
    ) -> list[Found]:
        """The broken rule for what differs after a step, if anything does. A node that differs from
        the model is not compared with it any more."""
        if not differing:
            return []
        self.silence(f"{kubelet.name} differs from {self.name}")
        return [(as_expected(step.sentence, self.name), self.name, tuple(differing))]

    def hand_over(self, release: str) -> None:
        self.name = f"the model of {release}"
        if self._oracle is not None:
            try:
                self._oracle.hand_over(release)
            except NotModelled as error:
                self.silence(str(error))

    def after(self, step: Step) -> View | None:
        if self._oracle is None:
            return None
        try:
            return self._oracle.after(step)
        except NotModelled as error:
            self.silence(str(error))
            return None

    @property
    def outcomes(self) -> int:
        return 1 if self._oracle is None else self._oracle.outcomes

    def follow(self, seen: View, *, late: bool) -> View | None:
        return None if self._oracle is None else self._oracle.follow(seen, late=late)
