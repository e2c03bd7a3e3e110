"""A history is made of a row.

What belongs here: the order of a history's parts, and which of them were possible. What never does:
what the parts are (``settings``, ``before``, ``pods``, ``events``), and which row is drawn
(``covering``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from conformance.subject import Capability
from hunting.exploring.before import prepare
from hunting.exploring.covering import Covering
from hunting.exploring.drafting import ALL, Draft, begun, has_other_class, task_of
from hunting.exploring.events import LASTING, happen
from hunting.exploring.factors import BY_NAME, PLAIN, Theme
from hunting.exploring.history import History
from hunting.exploring.pods import pod_name, pod_of
from hunting.exploring.random_steps import RandomSteps
from hunting.exploring.rows import Pair, Part, Row
from reference.steps import Apply, AskAllocatable, AskMetrics, AskPodResources, Delete, Start
from reference.view import View

_NUMBERS: Final = re.compile(r"[0-9][0-9,.-]*")


class Shown(NamedTuple):
    """A row, and the names of the factors whose values a history shows."""

    row: Row
    names: frozenset[str]


class Drawn(NamedTuple):
    """A history with the names of the factors whose values it shows, the row that it was made of,
    and the refusals that the model shows in it, without numbers. ``later``: what the steps after
    the row's story show."""

    history: History
    shown: frozenset[str]
    row: Row
    refusals: frozenset[str]
    later: tuple[Shown, ...] = ()


def drafted(
    row: Row, machine: str, release: str, can: Collection[Capability] = ALL
) -> Drawn | None:
    """The history of a row; ``None`` where it shows nothing of the row."""
    drafted_row = _draft(row, machine, release, can)
    return None if drafted_row is None else _ended(*drafted_row)


def _draft(
    row: Row, machine: str, release: str, can: Collection[Capability]
) -> tuple[Draft, frozenset[str]] | None:
    """The draft of a row's story, and the names of the factors whose values it shows."""
    draft = begun(row, machine, release, can)
    if draft is None or not draft.take(Start()):
        return None
    draft.shown.add(Part.SETTINGS)
    events: frozenset[str] = frozenset()
    if draft.view.running and draft.register() and not draft.view.hangs and prepare(draft):
        draft.shown.add(Part.NODE)
        draft.measure()
        draft.prepared = draft.view
        events = _add_story(draft, pod_name(row))
    return draft, events.union(*map(_names_of, draft.shown))


def _ended(draft: Draft, shown: frozenset[str], named: Collection[str] | None = None) -> Drawn:
    """The history of a draft, with the questions to the kubelet at its end.

    The history's row has the values of the factors ``named`` that are not plain; ``None``: of the
    factors ``shown``.
    """
    _ask(draft)
    names = shown if named is None else named
    row = {name: one for name, one in draft.row.items() if name in names and one != PLAIN[name]}
    history = History.of(draft.task, tuple(draft.steps), row)
    return Drawn(history, shown, draft.row, frozenset(_refusals(draft.view)))


def _names_of(part: Part) -> frozenset[str]:
    return frozenset(name for name, one in BY_NAME.items() if one.part is part)


def _refusals(view: View) -> Iterator[str]:
    """Why the kubelet gave up, or refused pods; ``#`` stands for numbers."""
    if view.error:
        yield _NUMBERS.sub("#", view.error)
    for pod in view.pods.values():
        if pod.reason:
            yield _NUMBERS.sub("#", f"{pod.reason}: {pod.message}")
        if pod.resize:
            yield _NUMBERS.sub("#", pod.resize)


def _add_story(draft: Draft, name: str) -> frozenset[str]:
    """Apply the row's pod under this name, and let the row's events happen to it.

    Returns the names of the factors whose values the events show.
    """
    pod = pod_of(draft.row, draft.room, name)
    if not draft.take(Apply(pod)):
        return frozenset()
    draft.pod = pod
    draft.shown.add(Part.POD)
    return happen(draft)


def _add_second_story(draft: Draft) -> frozenset[str]:
    """Delete the pod of the draft's first story, and add the row's story.

    Returns the names of the factors whose values it shows. Those of ``Part.NODE`` are among them
    if the first story has left the node as it was prepared.
    """
    assert draft.pod is not None
    old = draft.pod.name
    if has_other_class(draft.row, draft.task.release):
        return frozenset()
    if old in draft.node.granted and not draft.take(Delete(old)):
        return frozenset()
    of_node = _names_of(Part.NODE) if draft.is_as_prepared else frozenset()
    draft.measure()
    events = _add_story(draft, f"{pod_name(draft.row)}-b")
    return events | _OF_PODS | of_node if Part.POD in draft.shown else events


def _ask(draft: Draft) -> None:
    if not draft.view.running or draft.view.hangs:
        return
    draft.take(AskPodResources())
    if draft.pod is not None:
        draft.take(AskPodResources(draft.pod.name))
    draft.take(AskAllocatable())
    draft.take(AskMetrics())


#: The part of a row's other values that is left, in each try after its history did not show what is
#: wanted.
_LEFT: Final = (0.6, 0.3, 0.1, 0.0)
#: The names of the factors that a pod of random steps shows.
_OF_PODS: Final = _names_of(Part.SETTINGS) | _names_of(Part.POD)


def drawn(
    covering: Covering, machine: str, release: str, can: Collection[Capability] = ALL
) -> Drawn | None:
    """The next history, noted in ``covering``; ``None`` where the one that was tried is not
    possible."""
    drawing = _Drawing(covering, machine, release, can)
    return drawing.of_random_steps() if covering.is_for_random_steps() else drawing.of_row()


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What is drawn for: a machine, a release, and the capabilities of a subject (``can``)."""

    covering: Covering
    machine: str
    release: str
    can: Collection[Capability]

    def of_random_steps(self) -> Drawn | None:
        """A history of random settings and steps. It has no row, since no draft of one makes it
        again."""
        row, theme, chance = self.covering.settings()
        draft = begun(row, self.machine, self.release, self.can)
        if draft is None or not draft.take(Start()) or not draft.register():
            return None
        settings = _names_of(Part.SETTINGS)
        steps = self._random_steps(draft, theme, chance)
        steps.take()
        history = _ended(draft, settings, named=())
        self.covering.note(row, settings)
        return history._replace(later=self._noted(*_of_pods(steps)))

    def of_row(self) -> Drawn | None:
        """The history of that one of the drawn rows which shows most new pairs."""
        best, most = None, -1
        for row, wanted in self.covering.draw():
            candidate = self._showing(row, wanted)
            if candidate is None:
                if wanted is not None:
                    self.covering.failed(wanted)
            elif (new := self.covering.new(candidate.row, candidate.shown)) > most:
                best, most = candidate, new
        if best is None:
            return None
        self.covering.note(best.row, best.shown)
        return self._with_more_pods(best.row)

    def _with_more_pods(self, row: Row) -> Drawn:
        """The row's story, and then pods come and go. No row makes these later steps again: a
        difference that needs them is shrunk step by step."""
        drafted_row = _draft(row, self.machine, self.release, self.can)
        assert drafted_row is not None
        first, shown = drafted_row
        draft, other = self._with_another_story(first)
        steps = self._random_steps(draft, *self.covering.theme_for(row))
        steps.more_pods()
        return _ended(draft, shown)._replace(later=other + self._noted(*_of_pods(steps)))

    def _with_another_story(self, draft: Draft) -> tuple[Draft, tuple[Shown, ...]]:
        """The draft with a second story: another pod in place of the row's own, and its events.

        Of the stories that are possible on this node it is the one that shows most new pairs; none
        is added if no story shows a new pair. The row stays that of the first story.
        """
        runs = draft.view.running and not draft.view.hangs
        if draft.pod is None or draft.row["event"] in LASTING or not runs:
            return draft, ()
        best, most = draft, 0
        other: tuple[Shown, ...] = ()
        for row in self.covering.stories_for(draft.row):
            if task_of(row, self.machine, self.release) != draft.task:
                continue  # its events need another configuration, such as another reconcile period
            tried = draft.twin(row)
            shown = Shown(row, _add_second_story(tried))
            if (new := self.covering.new(*shown)) > most:
                best, other, most = tried, (shown,), new
        return replace(best, row=draft.row), self._noted(*other)

    def _showing(self, row: Row, wanted: Pair | None) -> Drawn | None:
        """A history that shows what is wanted of the row, with as much of the rest as is
        possible."""
        names = {name for name, _ in wanted or ()} or {"event"}
        for left in (1.0, *_LEFT):
            tried = row if left == 1.0 else self.covering.simpler(row, wanted, left)
            candidate = drafted(tried, self.machine, self.release, self.can)
            if candidate is not None and names <= candidate.shown:
                return candidate
        return None

    def _random_steps(self, draft: Draft, theme: Theme, chance: Random) -> RandomSteps:
        def new(row: Row) -> int:
            return self.covering.new(row, _OF_PODS) + self.covering.triples.new(row, _OF_PODS)

        return RandomSteps(draft, self.covering.offered, theme, chance, new)

    def _noted(self, *later: Shown) -> tuple[Shown, ...]:
        for one in later:
            self.covering.note(*one)
        return later


def _of_pods(steps: RandomSteps) -> list[Shown]:
    return [Shown(row, _OF_PODS) for row in steps.pods]
