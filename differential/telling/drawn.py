"""What explore draws, as histories that may tell: more happens in them than in the scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from conformance.identifying.history import History
from conformance.lockstep.steps import Question
from conformance.subject import OF_REAL_NODES, Capability
from hunting.exploring import drawing
from hunting.exploring.covering import Covering
from hunting.exploring.factors import offered

_MACHINES: Final = ("1s-1n-4c-smt2", "2s-2n-8c-smt2")
#: How many rows are drawn on each machine.
ROWS: Final = 150
#: What a kubelet in a sandbox can do.
_CAN: Final = frozenset(Capability) - OF_REAL_NODES


def of_explore(release: str, rows: int = ROWS) -> Iterator[History]:
    """The histories of the first ``rows`` that explore draws on each of two small machines: each
    time the same. The questions are left out: explore does not hold the answers against the model,
    and while pods end they hang on the host."""
    for machine in _MACHINES:
        covering = Covering(offered(release, _CAN), machine)
        for _ in range(rows):
            found = drawing.drawn(covering, machine, release, _CAN)
            if found is not None:
                task, taken = found.history.task(release), found.history.taken
                steps = (one for one in taken if not isinstance(one, Question))
                yield History(task.machine, task.config, tuple(steps))
