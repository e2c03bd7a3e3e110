"""The search: for each behaviour and release the shortest history that tells.

How it works: every short history is tried by breadth; then what the scenarios of the catalogue do,
on small machines and on those that they name; then what explore draws on two small machines. What
is found is made smaller. A behaviour of a release that no history tells has a reason: the best one
of all histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Final, NamedTuple, TypeAlias

import topologies
from conformance.identifying.history import History
from conformance.identifying.telling import SEARCHED, Reason, Telling, switched
from conformance.identifying.walking import alike, departs, tells, views
from differential.telling.asked_behaviours import asking
from differential.telling.breadth import histories
from differential.telling.seeds import length, of_explore, of_scenarios
from differential.telling.shrinking import shrunk
from reference import DiscoveryError, discover
from reference.behaviours import Behaviour
from reference.errors import NotModelled
from reference.releases import Release
from reference.view import View

#: A history, what a release shows, and the behaviours that the model asked for.
Candidate: TypeAlias = tuple[History, list[View], frozenset[Behaviour]]
#: How many steps after the first start every history is tried.
DEPTH: Final = 1


class Searched(NamedTuple):
    """The result of a search in a release: the histories that were ``found``, and why no history
    tells the rest."""

    found: list[History]
    untold: dict[str, Reason]


def searched(release: str) -> Searched:
    """The histories that tell behaviours in a release, and why no history tells the rest."""
    best: dict[Behaviour, Reason] = dict.fromkeys(Behaviour, Reason.NOT_ASKED)
    found: list[History] = []
    for every in _seeds(release):
        for history, own, asked in _candidates(every, release):
            for one in best:
                if one in asked and best[one] is not Reason.TOLD:
                    other = switched(release, one)
                    best[one] = max(best[one], _reason(history, own, other, release))
                    if best[one] is Reason.TOLD:
                        found.append(shrunk(history, partial(tells, one=release, other=other)))
    return Searched(found, {one.title: best[one] for one in best if best[one] is not Reason.TOLD})


def _seeds(release: str) -> Iterator[list[History]]:
    """The short histories, then those of the scenarios, then those that explore draws."""
    yield sorted(histories(release, DEPTH), key=length)
    yield of_scenarios(release)
    yield sorted(of_explore(release), key=length)


def _candidates(every: Iterable[History], release: str) -> Iterator[Candidate]:
    """Histories, what the release shows, and the behaviours that the model asked for: no other one
    can make a difference."""
    for one in every:
        if Release.parse(release).minor < one.oldest:
            continue
        with asking() as asked:
            own = views(one, release)
        if own is not None:
            yield one, own, frozenset(asked | _asked_of(one.machine, release))


@cache
def _asked_of(machine: str, release: str) -> frozenset[Behaviour]:
    """The behaviours that discovery of a machine asks for; its results are cached."""
    with asking() as asked, suppress(DiscoveryError):
        found = discover(topologies.machine(machine).tree, release=release)
        found.cpu_topology()
    return frozenset(asked)


def telling_of(history: History) -> Telling:
    """The behaviours that a history tells in each release that is searched."""
    found = {release: _told_in(history, release) for release in SEARCHED}
    return Telling(history, {release: names for release, names in found.items() if names})


def few(tellings: Iterable[Telling], each: int) -> list[Telling]:
    """The shortest of these that tell each behaviour of each release ``each`` times, where so many
    do."""
    counted, chosen = Counter[tuple[str, str]](), list[Telling]()
    for one in sorted(tellings, key=lambda telling: length(telling.history)):
        pairs = [(release, name) for release, names in one.tells.items() for name in names]
        if any(counted[pair] < each for pair in pairs):
            counted.update(pairs)
            chosen.append(one)
    return chosen


def _told_in(history: History, release: str) -> frozenset[str]:
    with asking() as asked:
        own = views(history, release)
    if own is None or Release.parse(release).minor < history.oldest:
        return frozenset()
    asked |= _asked_of(history.machine, release)
    return frozenset(
        one.title
        for one in asked
        if _reason(history, own, switched(release, one), release) is Reason.TOLD
    )


def _reason(history: History, own: list[View], other: str, release: str) -> Reason:
    """Whether a history tells ``other`` from the release, which shows ``own``; or why not."""
    seen = views(history, other)
    if seen is None:
        return Reason.NOT_MODELLED
    if alike(seen, own):
        return Reason.ALIKE
    try:
        telling = departs(history, seen, release) and departs(history, own, other)
    except NotModelled:
        return Reason.NOT_MODELLED
    return Reason.TOLD if telling else Reason.CHANCE
