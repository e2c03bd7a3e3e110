"""A row becomes a history.

What belongs here: the order of a history's parts, and which of them were possible. What never does:
what the parts are (``settings``, ``before``, ``pods``, ``events``), and which row is drawn
(``covering``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from random import Random
from typing import Final, NamedTuple

from conformance.subject import Capability
from hunting.exploring.before import prepare
from hunting.exploring.covering import Covering, Pair
from hunting.exploring.drafting import ALL, Draft, begun
from hunting.exploring.events import happen
from hunting.exploring.factors import BY_NAME, PLAIN, Part, Row, Theme
from hunting.exploring.history import History
from hunting.exploring.pods import pod_name, pod_of
from hunting.exploring.random_steps import RandomSteps
from reference.steps import Apply, AskAllocatable, AskMetrics, AskPodResources, Start
from reference.view import View

_NUMBERS: Final = re.compile(r"[0-9][0-9,.-]*")


class Drafted(NamedTuple):
    """A history, the names of the factors whose values it shows, and the refusals that the model
    shows in it, without numbers."""

    history: History
    shown: frozenset[str]
    refusals: frozenset[str]


def drafted(
    row: Row, machine: str, release: str, can: Collection[Capability] = ALL
) -> Drafted | None:
    """The history of a row; ``None`` where it shows nothing of the row."""
    told = _told(row, machine, release, can)
    if told is None:
        return None
    draft, shown = told
    return Drafted(_ended(draft, shown), shown, frozenset(_refusals(draft.view)))


def _told(
    row: Row, machine: str, release: str, can: Collection[Capability]
) -> tuple[Draft, frozenset[str]] | None:
    """The row's story, and the names of the factors whose values it shows."""
    draft = begun(row, machine, release, can)
    if draft is None or not draft.take(Start()):
        return None
    draft.shown.add(Part.SETTINGS)
    if draft.view.running and draft.register() and not draft.view.hangs and prepare(draft):
        draft.shown.add(Part.NODE)
        draft.measure()
        _apply_own(draft)
    events = happen(draft) if Part.POD in draft.shown else frozenset()
    return draft, events.union(*map(_names_of, draft.shown))


def _ended(draft: Draft, shown: Collection[str]) -> History:
    """The history of a draft once the kubelet has been asked what it has to say."""
    _ask(draft)
    told = {
        name: value for name, value in draft.row.items() if name in shown and value != PLAIN[name]
    }
    return History.of(draft.task, tuple(draft.steps), told)


def _names_of(part: Part) -> frozenset[str]:
    return frozenset(name for name, one in BY_NAME.items() if one.part is part)


def _refusals(view: View) -> Iterator[str]:
    """Why the kubelet gave up, or refused pods, without numbers and names."""
    if view.error:
        yield _NUMBERS.sub("#", view.error)
    for pod in view.pods.values():
        if pod.reason:
            yield _NUMBERS.sub("#", f"{pod.reason}: {pod.message}")
        if pod.resize:
            yield _NUMBERS.sub("#", pod.resize)


def _apply_own(draft: Draft) -> None:
    pod = pod_of(draft.row, draft.room, pod_name(draft.row))
    if draft.take(Apply(pod)):
        draft.pod = pod
        draft.shown.add(Part.POD)


def _ask(draft: Draft) -> None:
    if not draft.view.running or draft.view.hangs:
        return
    draft.take(AskPodResources())
    if draft.pod is not None:
        draft.take(AskPodResources(draft.pod.name))
    draft.take(AskAllocatable())
    draft.take(AskMetrics())


#: How much of a row is left, of what is not wanted, where its history does not show what is.
_LEFT: Final = (0.6, 0.3, 0.1, 0.0)


class Drawn(NamedTuple):
    """A history with the row that it was made of, the factors whose values it shows, and the
    refusals that the model shows in it."""

    history: History
    row: Row
    shown: frozenset[str]
    refusals: frozenset[str]


def drawn(
    covering: Covering, machine: str, release: str, can: Collection[Capability] = ALL
) -> Drawn | None:
    """The next history, noted as met; ``None`` where the one that was tried is not possible."""
    draw = _of_random_steps if covering.is_for_random_steps() else _of_row
    return draw(covering, machine, release, can)


def _of_random_steps(
    covering: Covering, machine: str, release: str, can: Collection[Capability]
) -> Drawn | None:
    """Of settings and steps by chance. The history has no row, since no draft of one makes it
    again."""
    row, theme, chance = covering.settings()
    draft = begun(row, machine, release, can)
    if draft is None or not draft.take(Start()) or not draft.register():
        return None
    settings = _names_of(Part.SETTINGS)
    steps = _random_steps(draft, covering, theme, chance)
    steps.take()
    _ask(draft)
    covering.note(row, settings)
    _note_pods(steps, covering)
    history = History.of(draft.task, tuple(draft.steps))
    return Drawn(history, row, settings, frozenset(_refusals(draft.view)))


#: What a pod of random steps shows.
_OF_PODS: Final = _names_of(Part.SETTINGS) | _names_of(Part.POD)


def _random_steps(draft: Draft, covering: Covering, theme: Theme, chance: Random) -> RandomSteps:
    def new(row: Row) -> int:
        return covering.new(row, _OF_PODS) + covering.new_triples(row, _OF_PODS)

    return RandomSteps(draft, covering.offered, theme, chance, new)


def _note_pods(steps: RandomSteps, covering: Covering) -> None:
    for row in steps.pods:
        covering.note(row, _OF_PODS)


def _of_row(
    covering: Covering, machine: str, release: str, can: Collection[Capability]
) -> Drawn | None:
    """Of all rows that may be taken the one whose history shows most that is new."""
    best, most = None, -1
    for row, wanted in covering.draw():
        made = _showing(row, wanted, covering, machine, release, can)
        if made is None:
            if wanted is not None:
                covering.failed(wanted)
        elif (new := covering.new(made.row, made.shown)) > most:
            best, most = made, new
    if best is None:
        return None
    covering.note(best.row, best.shown)
    return _with_more_pods(best, covering, machine, release, can)


def _with_more_pods(
    drawn: Drawn, covering: Covering, machine: str, release: str, can: Collection[Capability]
) -> Drawn:
    """The same, and then pods come and go. No row makes these steps again: where they are needed,
    what differs is shrunk step by step."""
    told = _told(drawn.row, machine, release, can)
    assert told is not None
    draft, shown = told
    steps = _random_steps(draft, covering, *covering.theme_for(drawn.row))
    steps.more_pods()
    _note_pods(steps, covering)
    return Drawn(_ended(draft, shown), drawn.row, shown, frozenset(_refusals(draft.view)))


def _showing(
    row: Row,
    wanted: Pair | None,
    covering: Covering,
    machine: str,
    release: str,
    can: Collection[Capability],
) -> Drawn | None:
    """A history that shows what is wanted of the row, with as much of the rest as is possible."""
    names = {name for name, _ in wanted or ()} or {"event"}
    for left in (1.0, *_LEFT):
        tried = row if left == 1.0 else covering.simpler(row, wanted, left)
        made = drafted(tried, machine, release, can)
        if made is not None and names <= made.shown:
            return Drawn(made.history, tried, made.shown, made.refusals)
    return None
