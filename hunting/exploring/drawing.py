"""A row becomes a history.

What belongs here: the order of a history's parts, and which of them were possible. What never does:
what the parts are (``settings``, ``before``, ``pods``, ``events``), and which row is drawn
(``covering``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from conformance.subject import Capability
from hunting.exploring.before import prepare
from hunting.exploring.covering import Covering
from hunting.exploring.drafting import ALL, Draft, begun
from hunting.exploring.events import happen
from hunting.exploring.factors import BY_NAME, PLAIN, Part, Row
from hunting.exploring.history import History
from hunting.exploring.pods import pod_name, pod_of
from reference.steps import Apply, AskAllocatable, AskMetrics, AskPodResources, Start


def drafted(
    row: Row, machine: str, release: str, can: Collection[Capability] = ALL
) -> tuple[History, frozenset[str]] | None:
    """The history of a row, and the names of the factors whose values it shows; ``None`` where it
    shows none."""
    draft = begun(row, machine, release, can)
    if draft is None or not draft.take(Start()):
        return None
    draft.shown.add(Part.SETTINGS)
    if draft.view.running and draft.register() and not draft.view.hangs and prepare(draft):
        draft.shown.add(Part.NODE)
        _apply_own(draft)
    events = happen(draft) if Part.POD in draft.shown else frozenset()
    if draft.view.running and not draft.view.hangs:
        _ask(draft)
    factors = {name for name, one in BY_NAME.items() if one.part in draft.shown} | events
    told = {name: value for name, value in row.items() if value != PLAIN[name] and name in factors}
    return History.of(draft.task, tuple(draft.steps), told), frozenset(factors)


def _apply_own(draft: Draft) -> None:
    pod = pod_of(draft.row, draft.room, pod_name(draft.row))
    if draft.take(Apply(pod)):
        draft.pod = pod
        draft.shown.add(Part.POD)


def _ask(draft: Draft) -> None:
    draft.take(AskPodResources())
    if draft.pod is not None and draft.row["names"] != "short":
        draft.take(AskPodResources(draft.pod.name))
    draft.take(AskAllocatable())
    draft.take(AskMetrics())


#: How much of a row is left, of what is not wanted, where its history does not show what is.
_LEFT: Final = (0.6, 0.3, 0.1, 0.0)


class Drawn(NamedTuple):
    """A history with the row that it was made of and the factors whose values it shows."""

    history: History
    row: Row
    shown: frozenset[str]


def drawn(
    covering: Covering, machine: str, release: str, can: Collection[Capability] = ALL
) -> Drawn | None:
    """The next history, noted as met; ``None`` where the one that was tried is not possible."""
    row, wanted = covering.draw()
    names = {name for name, _ in wanted or ()}
    for left in (1.0, *_LEFT):
        tried = row if left == 1.0 else covering.simpler(row, wanted, left)
        made = drafted(tried, machine, release, can)
        if made is not None and (names or {"event"}) <= made[1]:
            covering.note(tried, made[1], wanted)
            return Drawn(made[0], tried, made[1])
    covering.note(row, (), wanted)
    return None
