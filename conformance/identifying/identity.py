"""What a binary is, judged by what it showed: the release that fits best, and the behaviours that
it has or lacks unlike that release.

What belongs here: conclusions. What never does: driving a subject (``watching``).

How it works: to explain the histories that depart from a release, behaviours are switched one after
another, each time the one that explains most. That is done for the stated release and for the
release from which the fewest histories depart. The best fit is the one that leaves less
unexplained. If both leave the same, it is the one with fewer switches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import topologies
from conformance.identifying.history import History
from conformance.identifying.telling import RELEASES, Telling, switched
from conformance.identifying.walking import EVERYTHING, departs
from conformance.identifying.watching import Watched
from conformance.results import Difference
from conformance.subject import Capability, SubjectInfo, stated_release
from reference import Architecture, NotModelled
from reference.behaviours import Behaviour
from reference.releases import Release, behaviours, newest_known


def stated(info: SubjectInfo) -> str:
    """As :func:`conformance.subject.stated_release`, at most the newest known release."""
    return str(newest_known(stated_release(info)))


def chosen(
    tellings: Sequence[Telling],
    release: str,
    can: Collection[Capability],
    *,
    architecture: str | None = None,
) -> list[Telling]:
    """A few histories that together tell every behaviour of a release that this subject can show.
    Each time the history is chosen that tells most for the time that it takes. A subject that was
    built for an ``architecture`` runs only on machines of that architecture."""
    at_hand = [one for one in tellings if can_be_asked(one.history, can, architecture)]
    left = {name for one in at_hand for name in one.of(release)}
    found: list[Telling] = []
    while left:
        best = max(at_hand, key=lambda one: len(left & one.of(release)) / _cost(one.history))
        found.append(best)
        left -= best.of(release)
    return found


def can_be_asked(history: History, can: Collection[Capability], architecture: str | None) -> bool:
    """Whether a subject that can do this, built for this architecture, can run the history."""
    if not history.needs <= {*can}:
        return False
    tree = topologies.machine(history.machine).tree
    own = Architecture.of_cpuinfo(tree.get("proc/cpuinfo", ""))
    return architecture is None or own is Architecture.named(architecture)


def _cost(history: History) -> float:
    """About how many seconds a kubelet takes for the history."""
    return 1 + history.starts + 0.7 * (len(history.steps) - history.starts)


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A history in which the subject does what no known release does, switched or not."""

    history: History
    step: int
    differences: tuple[Difference, ...]

    @property
    def look(self) -> tuple[int, frozenset[str]]:
        """What two departures by one fault have in common: the step, and what differs after it."""
        return self.step, frozenset(one.what for one in self.differences)


@dataclass(frozen=True)
class Identity:
    """What a subject is. ``stated``: the release that the subject says it is. ``fits``: the release
    that fits best, overrides included. ``asked``: the behaviours that some history decided.
    ``suspects``: the titles of behaviours that could explain a history which departs from the best
    fit without overrides. ``witnesses``: for each behaviour that is switched in the best fit, the
    histories that show that. ``lost``: why histories could not be watched."""

    stated: str
    fits: str
    asked: frozenset[Behaviour]
    suspects: frozenset[str] = frozenset()
    witnesses: Mapping[Behaviour, tuple[History, ...]] = field(default_factory=dict)
    unexplained: tuple[Unexplained, ...] = ()
    lost: tuple[str, ...] = ()
    histories: int = 0
    out_of_time: int = 0

    @cached_property
    def release(self) -> str:
        """The best fit without overrides."""
        return str(Release.parse(self.fits).plain)

    @property
    def gained(self) -> list[Behaviour]:
        """The behaviours that the subject has and its best fit lacks."""
        return [Behaviour.named(name) for name, on in Release.parse(self.fits).overrides if on]

    @property
    def lacking(self) -> list[Behaviour]:
        """The behaviours that the subject lacks and its best fit has."""
        return [Behaviour.named(name) for name, on in Release.parse(self.fits).overrides if not on]

    @property
    def doubtful(self) -> list[Behaviour]:
        """The switched behaviours that only one history shows: a fault may look like one."""
        return [
            one for one in [*self.gained, *self.lacking] if len(self.witnesses.get(one, ())) < 2
        ]

    @property
    def sure(self) -> Release:
        """The best fit, with the overrides that more than one history shows."""
        doubtful = {one.title for one in self.doubtful}
        fits = Release.parse(self.fits)
        return replace(
            fits, overrides=tuple(one for one in fits.overrides if one[0] not in doubtful)
        )

    @property
    def not_asked(self) -> list[Behaviour]:
        """The behaviours that no history decided."""
        return [one for one in Behaviour if one not in self.asked]

    @property
    def contradictions(self) -> list[tuple[Behaviour, bool]]:
        """The behaviours in which the subject differs from the stated release, and whether it has
        them."""
        own, said = behaviours(self.fits), behaviours(self.stated)
        return [
            (one, one in own) for one in Behaviour
            if one in self.asked and (one in own) != (one in said)
        ]  # fmt: skip

    @property
    def as_stated(self) -> bool:
        """Whether nothing contradicts the stated release."""
        return not self.contradictions and not self.unexplained


def identified(
    said: str,
    watched: Sequence[Watched],
    tellings: Iterable[Telling],
    can: Collection[Capability] = EVERYTHING,
    *,
    architecture: str | None = None,
    out_of_time: int = 0,
) -> Identity:
    """The identity by what was watched. ``out_of_time``: how many histories were not run."""
    shown = [one for one in watched if one.views]
    known = {one.history: one for one in tellings}
    judging = _Judging(shown, known, can, architecture)
    fits = judging.best(said)
    departing = judging.departing(fits)
    return Identity(
        stated=said,
        fits=fits,
        asked=judging.asked(fits),
        suspects=judging.suspects(fits),
        witnesses={
            Behaviour.named(name): judging.witnesses(fits, name)
            for name, _ in Release.parse(fits).overrides
        },
        unexplained=tuple(
            Unexplained(one.history, found[0], tuple(found[1]))
            for one, found in departing.items()
            if found
        ),
        lost=tuple(one.lost for one in watched if one.lost),
        histories=len(shown),
        out_of_time=out_of_time,
    )


def unswitched(fits: str, name: str) -> Release:
    """The release without its override of one behaviour."""
    release = Release.parse(fits)
    return replace(release, overrides=tuple(one for one in release.overrides if one[0] != name))


#: The step, and what differs after it.
Departure: TypeAlias = tuple[int, list[Difference]]
Departing: TypeAlias = dict[Watched, Departure | None]


class _Judging:
    """Compares what was watched with releases."""

    def __init__(
        self,
        shown: Sequence[Watched],
        known: dict[History, Telling],
        can: Collection[Capability],
        architecture: str | None,
    ) -> None:
        self._shown, self._known = shown, known
        self._can, self._architecture = can, architecture

    def best(self, said: str) -> str:
        """The release that fits best, with the overrides that explain the rest."""
        if not self.departing(said):
            return said
        minor = f"1.{Release.parse(said).minor}"
        order = dict.fromkeys((said, minor, *reversed(RELEASES)))
        nearest = min(order, key=lambda release: len(self.departing(release)))
        candidates = dict.fromkeys(self._explained(one) for one in (said, nearest))
        return min(candidates, key=self._oddity)

    def _oddity(self, fits: str) -> tuple[int, int]:
        """How many histories stay unexplained, and how many overrides explain the rest."""
        return len(self.departing(fits)), len(Release.parse(fits).overrides)

    def _explained(self, fits: str) -> str:
        """The release with the overrides that explain what departs from it."""
        while True:
            wrong = self.departing(fits)
            better = self._better(fits, wrong) if wrong else None
            if better is None:
                return fits
            fits = better

    def _better(self, fits: str, wrong: Departing) -> str | None:
        """The release with one more behaviour switched that explains most; ``None`` if none
        does."""
        known = (self._known.get(one.history) for one in wrong)
        names = {name for telling in known if telling for name in telling.of(fits)}
        overridden = {name for name, _ in Release.parse(fits).overrides}
        best, fewest = None, len(wrong)
        for behaviour in Behaviour:
            if behaviour.title in names - overridden:
                candidate = switched(fits, behaviour)
                count = self._count_departing(candidate, wrong, fewest)
                if count < fewest:
                    best, fewest = candidate, count
        return best

    def _count_departing(self, release: str, likely: Collection[Watched], most: int) -> int:
        """How many histories depart from a release. Counting ends at ``most``, so the ``likely``
        ones are tried first."""
        count = 0
        for one in (*likely, *(each for each in self._shown if each not in likely)):
            if count >= most:
                break
            count += self._departs(one, release)[0]
        return count

    def departing(self, release: str) -> Departing:
        """The histories that depart from a release, and in what; ``None``: the model cannot say."""
        asked = ((one, *self._departs(one, release)) for one in self._shown)
        return {one: departure for one, departs, departure in asked if departs}

    def suspects(self, fits: str) -> frozenset[str]:
        """What could explain the histories that depart from the release without overrides."""
        plain = str(Release.parse(fits).plain)
        known = (self._known.get(one.history) for one in self.departing(plain))
        return frozenset(name for telling in known if telling for name in telling.of(plain))

    def witnesses(self, fits: str, name: str) -> tuple[History, ...]:
        """The histories that show that this override of ``fits`` is right."""
        without = str(unswitched(fits, name))
        departing = self.departing(fits)
        shown = (one for one in self._shown if one not in departing)
        return tuple(one.history for one in shown if self._departs(one, without)[1])

    def asked(self, fits: str) -> frozenset[Behaviour]:
        """The behaviours that the histories would have shown, if they were switched in ``fits``."""
        decided = {Behaviour.named(name) for name, _ in Release.parse(fits).overrides}
        departing = self.departing(fits)
        for one in self._shown:
            telling = self._known.get(one.history)
            if one in departing or telling is None:
                continue
            for name in telling.of(fits):
                behaviour = Behaviour.named(name)
                if behaviour not in decided and self._departs(one, switched(fits, behaviour))[1]:
                    decided.add(behaviour)
        return frozenset(decided)

    def _departs(self, one: Watched, release: str) -> tuple[bool, Departure | None]:
        return _departs(one, release, frozenset(self._can), self._architecture)


@lru_cache(maxsize=1 << 15)  # one binary fills about ten thousand
def _departs(
    one: Watched, release: str, can: frozenset[Capability], architecture: str | None
) -> tuple[bool, Departure | None]:
    """Whether a history departs from a release, and in what, if the model knows. Results are
    cached, because what was watched is judged again after every few histories."""
    try:
        found = departs(one.history, one.views, release, can, architecture=architecture)
    except NotModelled:
        return True, None
    return found is not None, found
