"""The kubelet's own search over NUMA nodes, combination by combination.

What belongs here: the search as it stands in the kubelet, for machines on which a NUMA node lies
in two sockets and yet there are more NUMA nodes than sockets. There the kubelet lists such a node
once for each socket, and then takes it twice. What never does: all other machines, for which
``balance`` finds the same much faster.
Source: ``takeByTopologyNUMADistributed``, ``cpu_assignment.go``, 1.23 to 1.37.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from reference.cpumanager.fast.balance import Members, nearest

__all__ = ["Best", "Search", "Unending"]


class Unending(Exception):
    """So many CPUs can never be dealt out, as whole groups, over some subset of nodes."""

    def __init__(self, rest: int) -> None:
        super().__init__(rest)
        self.rest = rest


@dataclass(frozen=True, slots=True)
class Best:
    """The best combination and its best subset, by positions; ``able``: what subsets were made of.
    ``stopped``: the search broke off because nothing could be better."""

    score: float
    inside: bool
    members: Members
    subset: Members
    able: Sequence[int]
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """Combinations of ``size`` out of ``order``, the nodes as the kubelet lists them; ``held``:
    free CPUs by node. The rest is as in ``distribution.Request``."""

    order: Sequence[int]
    held: Mapping[int, int]
    cpus: int
    group: int
    size: int
    sockets: Sequence[Sequence[int]] | None
    ends: bool

    def best(self) -> Best | None:
        """The first of the best. Raises :class:`Unending`."""
        best: Best | None = None
        for members in combinations(range(len(self.order)), self.size):
            if best and best.score == 0 and (best.inside or self.sockets is None):
                return Best(
                    best.score, best.inside, best.members, best.subset, best.able, stopped=True
                )
            found = self._look_into(members)
            if found and (best is None or self._is_better(found, best)):
                best = found
        return best

    def _is_better(self, found: Best, best: Best) -> bool:
        return found.inside if found.inside != best.inside else found.score < best.score

    def _look_into(self, members: Members) -> Best | None:
        nodes = [self.order[at] for at in members]
        groups = sum(self.held[node] // self.group for node in nodes)
        if sum(self.held[node] for node in set(nodes)) < self.cpus:
            return None
        each = self.cpus // self.size // self.group * self.group
        if self.sockets is not None:
            each = min(each, min(self.held[node] // self.group * self.group for node in nodes))
        if groups * self.group < self.cpus or any(self.held[node] < each for node in nodes):
            return None
        left = dict(self.held)
        for node in nodes:
            left[node] -= each
        able = [at for at in members if left[self.order[at]] >= self.group]
        inside = any(set(members) <= set(each) for each in self.sockets or ())
        rest = self.cpus - each * self.size
        if not rest:
            return Best(_deviation(left), inside, members, (), able)
        score: float = math.inf
        subset: Members = ()
        for one in self._subsets(able):
            after = self._dealt(left, one, rest)
            if after and _deviation(after) < score:
                score, subset = _deviation(after), one
        return Best(score, inside, members, subset, able) if subset else None

    def _subsets(self, able: Sequence[int]) -> Iterator[Members]:
        for size in range(len(able), 0, -1):
            yield from combinations(able, size)

    def _dealt(self, left: dict[int, int], subset: Members, rest: int) -> dict[int, int] | None:
        nodes = [self.order[at] for at in subset]
        if sum(left[node] // self.group if self.ends else left[node] for node in nodes) < (
            rest // self.group if self.ends else rest
        ):
            return None
        after = dict(left)
        while rest > 0:
            before = rest
            for node in nodes:
                if rest and after[node] >= self.group:
                    after[node] -= self.group
                    rest -= self.group
            if rest == before:
                raise Unending(rest)
        return after


def _deviation(left: Mapping[int, int]) -> float:
    """The standard deviation, its mean rounded to thousandths, in rounded thousandths."""
    mean = nearest(sum(left.values()) / len(left) * 1000) / 1000
    squares = sum((each - mean) ** 2 for each in left.values())
    return nearest(math.sqrt(squares / len(left)) * 1000)
