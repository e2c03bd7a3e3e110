"""Which known defects show in the stories of a node.

What belongs here: walking the stories, and matching what they break with the known defects. What
never does: what is said of a defect (``known``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from hunting.advising.stories import Level, Story, stories
from hunting.defects import Defect, defect_of
from hunting.finds import without_numbers
from hunting.moves import SIDECARS_SINCE
from hunting.replaying import releases_with
from hunting.scope import Task
from hunting.walk import Broken, Ground, State, Tally, begun, key_of, scene_of
from reference.releases import minor_of
from reference.steps import Kind, Pod

#: How many histories of one kind are matched with defects.
_ALIKE: Final = 2


@dataclass(frozen=True, slots=True)
class Shown:
    """A promise that a story breaks, by its shortest history. ``defect``: the known one that breaks
    it (``None``: no issue is known). ``happens``: what has to happen for it (``""``: nothing beside
    what the node does anyway)."""

    broken: Broken
    defect: Defect | None
    happens: str = ""

    @property
    def key(self) -> str:
        """Broken promises of one cause have one key."""
        return self.defect.title if self.defect else self.broken.promise

    @property
    def releases(self) -> list[str]:
        """The minors whose models break the promise by the same history, with the same settings
        on the same machine; of a history with a sidecar, those that have sidecars."""
        has_sidecar = any(one.kind is Kind.SIDECAR for one in self.broken.containers)
        first = SIDECARS_SINCE if has_sidecar else 0
        return [one for one in releases_with(self.broken) if minor_of(one) >= first]


@dataclass(frozen=True, slots=True)
class Found:
    """``applies``: what shows anyway; ``otherwise``: what shows only if something else happens.
    ``is_answer``: whether the model could take a step beyond the starts of the kubelet."""

    applies: tuple[Shown, ...]
    otherwise: tuple[Shown, ...]
    is_answer: bool


def advice(
    task: Task, pods: tuple[Pod, ...] | None = None, *, say: Callable[[str], None] = lambda _: None
) -> Found:
    """Which defects show on the node of this task. With ``pods``, those apply that these pods meet;
    without, those that any pods of one container meet. ``say`` is given what is tried.

    Raises :class:`reference.NotModelled` or :class:`reference.DiscoveryError` where the model does
    not know the node.
    """
    Ground(task)
    tally, known = Tally(), dict[str, Shown]()
    applies: list[Shown] = []
    otherwise: list[Shown] = []
    every = list(stories(pods))
    for anyway, story in every:
        say(story.happens or "these pods come and go")
        for one in shown(task, story, tally):
            if one.key not in known:
                happens = "" if anyway else story.happens
                known[one.key] = replace(one, happens=happens)
                (applies if anyway else otherwise).append(known[one.key])
    return Found(tuple(applies), tuple(otherwise), tally.steps > len(every))


def shown(task: Task, story: Story, tally: Tally) -> list[Shown]:
    """The promises that a story breaks: the shortest history of each cause."""
    own = replace(task, config=story.settings(task.config))
    alike = Counter[tuple[object, ...]]()
    shortest: dict[str, Shown] = {}
    for broken in walked(own, story.levels, tally):
        kind = _kind(broken)
        alike[kind] += 1
        if alike[kind] <= _ALIKE:
            one = Shown(broken, defect_of(broken), story.happens)
            known = shortest.get(one.key)
            if known is None or len(one.broken.steps) < len(known.broken.steps):
                shortest[one.key] = one
    return list(shortest.values())


def walked(task: Task, levels: tuple[Level, ...], tally: Tally) -> Iterator[Broken]:
    """Every promise that histories of these levels break, shorter histories first. A history ends
    with the first promise that it breaks. Of equal states one is followed."""
    ground, started = begun(task, tally)
    for new, wrong in started:
        yield from (Broken(task, new.steps, one) for one in wrong)
    frontier = [new for new, wrong in started if new.seen is not None and not wrong]
    for level in levels:
        reached: dict[object, State] = {}
        for state in frontier:
            for move in level(scene_of(state, ground)):
                for new, wrong in ground.taken(state, move, tally):
                    yield from (Broken(task, new.steps, one) for one in wrong)
                    if not wrong and new.seen is not None:
                        reached.setdefault(key_of(new, (task.release,)), new)
        frontier = list(reached.values())


def _kind(broken: Broken) -> tuple[object, ...]:
    difference = broken.violation.difference
    seen = map(without_numbers, (difference.what, difference.seen))
    return broken.promise, *seen, *sorted({type(one).__name__ for one in broken.steps})
