"""The search: for each behaviour and release the shortest history that tells.

How it works: every short history by breadth first; then what those scenarios do that the kill
matrix names for the behaviour, made smaller. A history that was found for one release is tried for
the others before anything is searched.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Final, TypeAlias

import topologies
from conformance.identifying.history import History
from conformance.identifying.telling import SEARCHED, Telling, switched
from conformance.identifying.walking import alike, departs, tells, views
from differential.telling.asking import asking
from differential.telling.breadth import histories
from differential.telling.seeds import length, of_scenarios
from differential.telling.shrinking import shrunk
from reference import DiscoveryError, discover
from reference.behaviours import Behaviour
from reference.errors import NotModelled
from reference.releases import Release
from reference.view import View

#: A history, what a release shows, and the behaviours that the model asked for.
Candidate: TypeAlias = tuple[History, list[View], frozenset[Behaviour]]
#: Releases in which every short history is tried.
BY_BREADTH: Final = SEARCHED
#: How many steps after the first start every history is tried.
DEPTH: Final = 1


class Search:
    """``found``: for each behaviour its histories so far."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.found: dict[Behaviour, list[History]] = defaultdict(list)
        self._say = say

    def release(self, release: str) -> None:
        """Find what tells each behaviour in a release, where nothing that was found does."""
        missing = [one for one in Behaviour if not self._is_told(release, one)]
        short = list(_short(release)) if release in BY_BREADTH else []
        for one in missing:
            history = _searched(release, one, short)
            if history is not None:
                self.found[one].append(history)
        told = sum(self._is_told(release, one) for one in Behaviour)
        self._say(f"{release}: {told} of {len(Behaviour)} behaviours are told")

    def _is_told(self, release: str, one: Behaviour) -> bool:
        return any(tells(history, release, switched(release, one)) for history in self.found[one])


def _searched(release: str, behaviour: Behaviour, short: Sequence[Candidate]) -> History | None:
    """The shortest history that tells a behaviour."""
    other = switched(release, behaviour)
    for history, own, asked in itertools.chain(short, _seeds(release, behaviour)):
        if behaviour in asked and _differs(history, own, other, release):
            return _shortest(history, release, other)
    return None


def _shortest(history: History, release: str, other: str) -> History:
    return shrunk(history, lambda less: tells(less, release, other))


def _short(release: str) -> Iterator[Candidate]:
    return _candidates(sorted(histories(release, DEPTH), key=length), release)


def _seeds(release: str, behaviour: Behaviour) -> Iterator[Candidate]:
    return _candidates(of_scenarios(behaviour, release), release)


def _candidates(every: Iterable[History], release: str) -> Iterator[Candidate]:
    """Histories, what the release shows, and the behaviours that the model asked for on the way: no
    other can make a difference."""
    for one in every:
        if Release.parse(release).minor < one.oldest:
            continue
        with asking() as asked:
            own = views(one, release)
        if own is not None:
            yield one, own, frozenset(asked | _asked_of(one.machine, release))


@cache
def _asked_of(machine: str, release: str) -> frozenset[Behaviour]:
    """The behaviours that finding out about a machine asks for: that is done once for many."""
    with asking() as asked, suppress(DiscoveryError):
        found = discover(topologies.machine(machine).tree, release=release)
        found.cpu_topology()
    return frozenset(asked)


def told(history: History) -> Telling:
    """What a history tells in the releases that are searched."""
    found = {release: _told_in(history, release) for release in SEARCHED}
    return Telling(history, {release: names for release, names in found.items() if names})


def _told_in(history: History, release: str) -> frozenset[str]:
    with asking() as asked:
        own = views(history, release)
    if own is None or Release.parse(release).minor < history.oldest:
        return frozenset()
    asked |= _asked_of(history.machine, release)
    return frozenset(
        one.title for one in asked if _differs(history, own, switched(release, one), release)
    )


def _differs(history: History, own: list[View], other: str, release: str) -> bool:
    """Whether ``other`` shows something else than ``own``, what the release shows."""
    seen = views(history, other)
    if seen is None or alike(seen, own):
        return False
    try:
        return bool(departs(history, seen, release) and departs(history, own, other))
    except NotModelled:
        return False
