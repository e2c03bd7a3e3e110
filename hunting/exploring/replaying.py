"""One history is walked again, and is told how far.

What belongs here: before which step a walk ended, and why. What never does: how a history is judged
(``driving``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from conformance.oracle import ModelOracle
from conformance.results import Result
from conformance.subject import Subject
from conformance.verdict import Verdict
from hunting.exploring.driving import Walk, judged
from reference import IllegalStep, NotModelled
from reference.steps import Step
from reference.view import View


class _Telling(ModelOracle):
    """The model, which keeps why it could not take a step."""

    why = "the subject cannot take it"

    def after(self, step: Step) -> View | None:
        """See :class:`conformance.oracle.Oracle`."""
        try:
            return super().after(step)
        except NotModelled as error:
            self.why = f"the model does not know: {error}"
            raise
        except IllegalStep as error:
            self.why = f"it is not possible here: {error}"
            raise


def replayed(walk: Walk, subject: Subject, release: str) -> Result:
    """What comes of the history on this subject. The result has the command of the walk; the reason
    of one that passed is why its walk ended before a step, or empty."""
    oracles: list[_Telling] = []

    def oracle(*args: Any, **kwargs: Any) -> ModelOracle:
        oracles.append(_Telling(*args, release=release, **kwargs))
        return oracles[-1]

    judgement = judged(walk, subject, oracle, release)
    result, steps = judgement.result, walk.history.taken
    taken = len(judgement.history)
    if result.verdict != Verdict.PASS.value or taken == len(steps):
        return result
    # The first step of a story is the machine, which no history has.
    end = f"it ended before step {taken + 2} ({steps[taken].sentence}): {oracles[-1].why}"
    return msgspec.structs.replace(result, reason=end, steps=result.steps[: taken + 1])
