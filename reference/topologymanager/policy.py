"""How the Topology Manager makes one hint of many.

What belongs here: the choice of the best set of NUMA nodes out of the hints of all resources. What
never does: where hints come from (``cpumanager``), or what a policy admits (``topology_manager``).

Every resource has a list of hints. One hint of each makes a *candidate*: the nodes that all of
them allow. Resources without a preference allow every node. Of two candidates a preferred one
wins, then the one with fewer nodes, then the one with the lower ids. From 1.24 on a candidate of
unequal hints is not preferred, and where none is, the best has as many nodes as the resource that
needs most of them.
Source: ``topologymanager/policy.go``, ``numa_info.go``, 1.17 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final, NamedTuple

from reference.behaviours import Behaviour
from reference.errors import KubeletHangs, NotModelled
from reference.releases import NEWEST, AnyRelease, has
from reference.topologymanager.hint import ANY, Hint

#: More combinations keep a kubelet busy for minutes: 255 to the fourth for 21 of them
#: (kubernetes/kubernetes#131738).
_ENDLESS: Final = 10**9


class _Candidate(NamedTuple):
    """What some resources allow together. ``given``: the nodes of their hints as long as these are
    equal, :data:`ANY` as long as none names any."""

    nodes: int
    preferred: bool
    given: int | None

    def merged(self, hint: Hint, *, equal_only: bool) -> _Candidate:
        """With one resource more; under ``equal_only`` unequal hints are not preferred."""
        preferred = self.preferred and hint.preferred
        if hint.nodes is ANY:
            return _Candidate(self.nodes, preferred, self.given)
        unequal = self.given is not ANY and self.given != hint.nodes
        if unequal and equal_only:
            preferred = False
        return _Candidate(self.nodes & hint.nodes, preferred, 0 if unequal else hint.nodes)


@dataclass(frozen=True, slots=True)
class Merger:
    """``HintMerger`` (``NewHintMerger``): merges hints on one machine.

    ``every``: a bit for each of its NUMA nodes, those without CPUs included. ``distances``: from
    each node to all of them by id, where closer nodes are preferred (``None``: they are not).
    """

    every: int
    distances: Mapping[int, Sequence[int]] | None = None
    release: AnyRelease = NEWEST

    def merge(self, lists: Sequence[Sequence[Hint]]) -> Hint:
        """``Merge``: the best hint; its ``nodes`` are never :data:`ANY`. Every node, not preferred,
        where some list is empty or no candidate has a node left."""
        if self.distances is None:
            return _merged_before(self.every, self.release, tuple(map(tuple, lists)))
        return self._merge(lists)

    def _merge(self, lists: Sequence[Sequence[Hint]]) -> Hint:
        if not has(self.release, Behaviour.UNEQUAL_HINTS_NOT_PREFERRED):
            return self._merge_by_size(lists)
        needed = max(map(_fewest, lists), default=0)
        best: Hint | None = None
        for candidate in self._candidates(lists):
            if best is None or self._better(candidate, best, needed):
                best = candidate
        return best or Hint(self.every, preferred=False)

    def _merge_by_size(self, lists: Sequence[Sequence[Hint]]) -> Hint:
        """Up to 1.23: what is not preferred must at least be narrower than the whole machine."""
        best = Hint(self.every, preferred=False)
        for candidate in self._candidates(lists):
            if candidate.preferred != best.preferred:
                best = candidate if candidate.preferred else best
            elif _narrower(_nodes(candidate), _nodes(best)):
                best = candidate
        return best

    def _candidates(self, lists: Sequence[Sequence[Hint]]) -> Iterator[Hint]:
        """``iterateAllProviderTopologyHints``, each with ``mergePermutation``; those that are equal
        once. A kubelet goes through all of them. Raises :class:`KubeletHangs`."""
        count = prod(map(len, lists))
        if count > _ENDLESS:
            raise KubeletHangs(f"it merges {count} combinations of hints")
        equal_only = has(self.release, Behaviour.UNEQUAL_HINTS_NOT_PREFERRED)
        # In the kubelet's order, which decides whether it looks up distances that are not there.
        found = [_Candidate(self.every, preferred=True, given=ANY)]
        for hints in lists:
            merged = (one.merged(hint, equal_only=equal_only) for one in found for hint in hints)
            found = list(dict.fromkeys(merged))
        for one in found:
            if one.nodes:
                yield Hint(one.nodes, one.preferred)

    def _better(self, candidate: Hint, current: Hint, needed: int) -> bool:
        """``compare``: whether ``candidate`` replaces ``current``; ``needed``: how many nodes the
        neediest resource needs."""
        if candidate.preferred != current.preferred:
            return candidate.preferred
        new, old = _nodes(candidate), _nodes(current)
        if candidate.preferred or old.bit_count() > needed:
            return self._fitter(new, old)
        if old.bit_count() == needed or new.bit_count() > needed:
            return new.bit_count() == needed and self._fitter(new, old)
        if new.bit_count() != old.bit_count():
            return new.bit_count() > old.bit_count()
        return self._fitter(new, old)

    def _fitter(self, new: int, old: int) -> bool:
        """``Closest``, or ``Narrowest`` where closer nodes are not preferred."""
        if new.bit_count() == old.bit_count() and self.distances is not None:
            near, far = self._distance(new), self._distance(old)
            if near != far:
                return near < far
        return _narrower(new, old)

    def _distance(self, nodes: int) -> float:
        """``CalculateAverageFor``: the average over all ordered pairs, each node with itself
        included."""
        distances = self.distances or {}
        ids = [one for one in range(nodes.bit_length()) if nodes >> one & 1]
        try:
            return sum(distances[one][other] for one in ids for other in ids) / len(ids) ** 2
        except IndexError:
            raise NotModelled(
                f"prefer-closest-numa-nodes with NUMA nodes {ids}: the kubelet looks distances up "
                "by id, where the kernel lists them in order, and panics"
            ) from None


@lru_cache(maxsize=4096)
def _merged_before(every: int, release: AnyRelease, lists: tuple[tuple[Hint, ...], ...]) -> Hint:
    """Cached: a search over histories merges the same hints again and again."""
    return Merger(every, release=release)._merge(lists)


def _nodes(hint: Hint) -> int:
    return 0 if hint.nodes is None else hint.nodes


def _narrower(one: int, other: int) -> bool:
    return (one.bit_count(), one) < (other.bit_count(), other)


def _fewest(hints: Sequence[Hint]) -> int:
    """``maxOfMinAffinityCounts``: how many nodes the ``narrowestHint`` of a resource has; 0 if none
    names any."""
    return min((one.nodes.bit_count() for one in hints if one.nodes is not None), default=0)
