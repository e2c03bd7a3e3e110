"""What explore draws, as histories that may tell: more happens in them than in the scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from conformance.identifying.history import History
from conformance.subject import OF_REAL_NODES, Capability
from hunting.exploring import drawing
from hunting.exploring.covering import Covering
from hunting.exploring.factors import offered
from reference.releases import Release

_MACHINES: Final = ("1s-1n-4c-smt2", "2s-2n-8c-smt2")
#: How many rows are drawn on each machine.
ROWS: Final = 150
#: What a kubelet in a sandbox can do.
_CAN: Final = frozenset(Capability) - OF_REAL_NODES


def of_explore(release: str, rows: int = ROWS) -> Iterator[History]:
    """The histories of the first ``rows`` that explore draws on each of two small machines: each
    time the same."""
    for machine in _MACHINES:
        covering = Covering(offered(release, _CAN), machine)
        for _ in range(rows):
            found = drawing.drawn(covering, machine, release, _CAN)
            if found is not None:
                yield _askable(found, release)


def _askable(found: drawing.Drawn, release: str) -> History:
    """Without the steps that kubelets of the release do not know."""
    task, minor = found.history.task(release), Release.parse(release).minor
    whole = History(task.machine, task.config, found.history.taken)
    known = (one for one in whole.steps if replace(whole, steps=(one,)).oldest <= minor)
    return replace(whole, steps=tuple(known))
