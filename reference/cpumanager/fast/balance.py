"""How even a shared request leaves the NUMA nodes: the kubelet's score, and who scores best.

What belongs here: the score of a combination of nodes, the lowest score of all, and the first
combination and subset that has it. What never does: which number of nodes is tried, and what the
kubelet makes of the result (``distribution``).

How it works: the kubelet scores every combination and every subset, up to 2^n of each, by the
standard deviation of the free CPUs that all nodes would be left with. Each node's part of it
depends on its own free CPUs only, the mean is the same for every way to share the request, and
squares are convex. So a share changes the sum of squares by an int that follows from the CPUs given
and the free ones alone; what a combination can reach at best is found
by taking each group where most is free; and a search that leaves out what cannot be better finds
the same combination. Nodes are named by their positions in the kubelet's order.
Source: ``takeByTopologyNUMADistributed`` and ``standardDeviation``, ``cpu_assignment.go``, 1.23 to
1.37.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TypeAlias

Members: TypeAlias = tuple[int, ...]
Counts: TypeAlias = tuple[int, ...]


class Balance:
    """Scores of the combinations of ``size`` nodes for a request of ``cpus`` in groups.

    ``nodes``: the number of nodes; ``group``: CPUs that stay together. ``free``: free CPUs by
    position. ``capped``: a node that cannot give the even share lowers it; otherwise it rules the
    combination out. Scores are thousandths."""

    __slots__ = (
        "_base",
        "_bounds",
        "_capped",
        "_cpus",
        "_even",
        "_excesses",
        "_free",
        "_mean",
        "_rest",
        "_size",
        "_wholes",
        "group",
        "nodes",
    )

    def __init__(
        self, free: Sequence[int], cpus: int, group: int, size: int, *, capped: bool
    ) -> None:
        self._free = free
        self.nodes = len(free)
        self._cpus = cpus
        self.group = group
        self._wholes = free if group == 1 else [count - count % group for count in free]
        self._size = size
        self._capped = capped
        self._even = group * (cpus // size // group)
        self._rest = self._groups_after(self._even)
        self._mean = mean = nearest((sum(free) - cpus) / len(free) * 1000)
        # What each node adds to the sum of squares, before it gives any.
        self._base = sum([(1000 * number - mean) ** 2 for number in free])
        self._bounds: dict[Counts, int] = {}
        self._excesses: dict[Counts, int] = {}

    @property
    def grouped(self) -> bool:
        """Whether every node's free CPUs are whole groups."""
        group = self.group
        return group == 1 or not any(count % group for count in self._free)

    def best(self, positions: Sequence[int]) -> tuple[int, Members] | None:
        """The lowest score among combinations of these positions, and the first that has it."""
        if self._size == 1:
            return self._best_alone(positions)
        able = [at for at in positions if self._capped or self._free[at] >= self._even]
        if len(able) == self._size:
            return (self._score_of(able), tuple(able)) if self._enough(able) else None
        most_first = sorted(able, key=self._free.__getitem__, reverse=True)
        if len(able) < self._size or not self._enough(most_first[: self._size]):
            return None
        lowest = self._lowest(most_first)
        return lowest, self._first(able, lowest)

    def _best_alone(self, positions: Sequence[int]) -> tuple[int, Members] | None:
        """The best of single nodes: each gives the whole request."""
        free, cpus = self._free, self._cpus
        best: tuple[int, Members] | None = None
        seen: set[int] = set()
        for at in positions:
            if free[at] >= cpus and free[at] not in seen:
                seen.add(free[at])
                score = self._score(self._base + self._change((free[at],), cpus))
                if best is None or score < best[0]:
                    best = score, (at,)
        return best

    def share(self, members: Sequence[int]) -> int:
        """The share that every member gives."""
        if not self._capped:
            return self._even
        return min(self._even, min(self._wholes[at] for at in members))

    def able(self, members: Sequence[int]) -> list[int]:
        """The members that have a group left after the even share."""
        left = self.share(members) + self.group
        return [at for at in members if self._free[at] >= left]

    def candidates(self, last: Members | None) -> Iterator[Counts]:
        """The free CPUs of the members of each combination that the kubelet looks into, up to
        ``last`` (``None``: all). Equal ones come once."""
        seen: set[Counts] = set()
        for members in combinations(range(len(self._free)), self._size):
            counts = tuple(sorted([self._free[at] for at in members]))
            if counts not in seen:
                seen.add(counts)
                whole = sum(each - each % self.group for each in counts)
                if whole >= self._cpus and (self._capped or counts[0] >= self._even):
                    yield counts
            if members == last:
                return

    def endless(self, counts: Counts) -> int:
        """The CPUs that can never be dealt out over some subset of nodes with these ``counts`` of
        free CPUs; 0 where dealing always ends.

        The kubelet skips a subset whose leftovers hold too few CPUs, but not one that holds
        enough of them and too few whole groups.
        """
        group = self.group
        each = self._even
        if self._capped:
            each = min(each, counts[0] - counts[0] % group)
        rest = self._cpus - each * self._size
        # The largest odd rest of CPUs by the whole groups of a subset.
        odd = {0: 0}
        for count in counts:
            groups, more = divmod(count - each, group)
            if groups:
                for held, before in list(odd.items()):
                    if (held + groups) * group < rest:
                        odd[held + groups] = max(odd.get(held + groups, 0), before + more)
        return max(
            (rest - held * group for held, more in odd.items() if held * group + more >= rest > 0),
            default=0,
        )

    def first_subset(self, members: Sequence[int], lowest: int) -> Members:
        """The first subset of members that makes for this score when the rest is dealt out over
        it: larger ones come first. Empty where nothing is left to deal out."""
        each = self.share(members)
        groups = self._groups_after(each)
        if not groups:
            return ()
        able = self.able(members)
        left = [self._free[at] - each for at in able]
        even = self._base + self._change([self._free[at] for at in members], each)
        for size in range(len(able), 0, -1):
            for subset in _subsets(left, self.group, size, groups):
                dealt = self._dealt([left[at] for at in subset], groups)
                if dealt is not None and self._score(even + dealt) == lowest:
                    return tuple(able[at] for at in subset)
        raise AssertionError(f"no subset of {members} scores {lowest}")

    def _groups_after(self, each: int) -> int:
        """The groups that are left to deal out once every member gave that many CPUs."""
        return (self._cpus - each * self._size) // self.group

    def _enough(self, members: Sequence[int]) -> bool:
        if not (self._rest or self._capped):
            return True  # each member can give the even share, and no more is needed
        wholes = self._wholes
        return sum([wholes[at] for at in members]) >= self._cpus

    def _score(self, total: int) -> int:
        """The standard deviation, rounded; floats decide at half a thousandth, as in Go."""
        number = len(self._free)
        doubled = math.isqrt(4 * total // number)
        if doubled % 2 and number * doubled * doubled == 4 * total:
            return nearest(math.sqrt(total / 1e6 / number) * 1000)
        return (doubled + 1) // 2

    def _change(self, counts: Sequence[int], each: int) -> int:
        """The cost of taking ``each`` CPUs from nodes with these ``counts`` of free CPUs: the sum
        over the nodes of the cost after and before, a difference of squares."""
        of_all = len(counts) * (1000 * each + 2 * self._mean) - 2000 * sum(counts)
        return 1000 * each * of_all

    # -- the search ---------------------------------------------------------------------------

    def _lowest(self, most_first: Sequence[int]) -> int:
        """The lowest score; ``most_first``: the nodes, most free CPUs first."""
        top = most_first[: self._size]
        counts = tuple(sorted([self._free[at] for at in top]))
        bound = self._bound(counts)
        if self._reaches_bound(counts):
            return bound
        best = self._score_of(top)
        if best == bound:
            return best
        chosen: list[int] = []

        def visit(start: int) -> None:
            nonlocal best
            missing = self._size - len(chosen)
            for at in range(start, len(most_first) - missing + 1):
                members = [*chosen, *most_first[at : at + missing]]
                # What follows has no more free CPUs, so it is no better.
                if not self._enough(members) or self._bound_of(members) >= best:
                    return
                if missing == 1:
                    best = min(best, self._score_of(members))
                    continue
                chosen.append(most_first[at])
                visit(at + 1)
                chosen.pop()

        visit(0)
        return best

    def _first(self, able: Sequence[int], lowest: int) -> Members:
        """The first combination that has the lowest score."""
        free = self._free
        most_first: dict[int, list[int]] = {}

        def reached(start: int, missing: int) -> list[int]:
            """Those from ``start`` on where most is free; few starts are ever asked for."""
            if start not in most_first:
                most_first[start] = sorted(able[start:], key=free.__getitem__, reverse=True)
            return most_first[start][:missing]

        def visit(start: int, chosen: Members) -> Members | None:
            missing = self._size - len(chosen) - 1
            for at in range(start, len(able) - missing):
                members = (*chosen, able[at])
                reach = [*members, *reached(at + 1, missing)]
                if not self._enough(reach) or self._bound_of(reach) > lowest:
                    continue
                # The first of all that begin with these members; mostly it is the one.
                first = (*members, *able[at + 1 : at + 1 + missing])
                if self._enough(first) and self._score_of(first) == lowest:
                    return first
                found = visit(at + 1, members) if missing else None
                if found is not None:
                    return found
            return None

        found = visit(0, ())
        if found is None:
            raise AssertionError(f"no combination scores {lowest}")
        return found

    def _bound_of(self, members: Sequence[int]) -> int:
        """A score that no way to share the request among these members falls below."""
        return self._bound(tuple(sorted([self._free[at] for at in members])))

    def _bound(self, counts: Counts) -> int:
        """The same of nodes with these ``counts`` of free CPUs, ascending."""
        score = self._bounds.get(counts)
        if score is None:
            each = 0 if self._capped else self._even
            total = self._base + self._change(counts, each)
            total += self._levelled([count - each for count in counts], self._groups_after(each))
            score = self._bounds[counts] = self._score(total)
        return score

    def _levelled(self, left: list[int], groups: int) -> int:
        """The cost of taking each group where most is left, whatever the kubelet's order."""
        if not groups:
            return 0
        group = self.group
        most = sorted(left, reverse=True)[:groups]
        if len(most) == groups and most[-1] >= most[0] - group:
            # Each of them is the fullest once.
            return self._change(most, group)
        level = _level(left, group, groups)
        change = 0
        for count in left:
            steps = max(0, -(-(count - level) // group))
            groups -= steps
            change += self._change((count,), steps * group)
        # Those that are at the level may give one more; which of them does not matter.
        return change + groups * self._change((level,), group)

    def _score_of(self, members: Sequence[int]) -> int:
        """The score of a combination: that of its best subset."""
        counts = tuple([self._free[at] for at in sorted(members)])
        score = self._excesses.get(counts)
        if score is None:
            ascending = tuple(sorted(counts))
            reached = self._reaches_bound(ascending)
            score = self._bound(ascending) if reached else self._by_dealing(members, counts)
            self._excesses[counts] = score
        return score

    def _by_dealing(self, members: Sequence[int], counts: Counts) -> int:
        """The score of a combination with these ``counts`` of free CPUs, in the kubelet's order."""
        each = self.share(members)
        total = self._base + self._change(counts, each)
        groups = self._groups_after(each)
        if groups:
            left = [count - each for count in counts if count - each >= self.group]
            total += self._least(left, groups)
        return self._score(total)

    def _reaches_bound(self, counts: Counts) -> bool:
        """Whether it can be seen without dealing that the best subset makes for the bound: where
        nothing is left to deal out; or where the nodes that have most left can give one group each,
        and stay within a group of each other. Such a subset deals just to them. ``counts``: free
        CPUs, ascending."""
        rest, group = self._rest, self.group
        if self._capped or rest > self._size:
            return False
        return not rest or counts[-rest] >= max(self._even + group, counts[-1] - group)

    def _least(self, left: list[int], groups: int) -> int:
        """What the best subset costs. Dealing goes round and round, so it ends in some round at
        some node: those before it have given one group more than those after it."""
        levelled = self._levelled(left, groups)
        if groups <= len(left):
            most = sorted(left, reverse=True)[:groups]
            if self._change(most, self.group) == levelled:
                return levelled
        return min(self._least_by_round(left, groups, full) for full in range(groups))

    def _least_by_round(self, left: list[int], groups: int, full: int) -> int:
        """The least cost where the nodes after the last one gave ``full`` groups, or all theirs."""
        never = 1 << 200
        before, after = [0] + [never] * groups, [never] * (groups + 1)
        for count in left:
            held = count // self.group
            after = [min(pair) for pair in zip(before, after, strict=True)]
            before = self._or_give(before, count, min(held, full + 1))
            after = self._or_give(after, count, min(held, full))
        return min(before[groups], after[groups])

    def _or_give(self, costs: list[int], count: int, number: int) -> list[int]:
        """The costs by groups dealt, where a node may give ``number`` groups or be left out."""
        if not number or number >= len(costs):
            return costs
        change = self._change((count,), number * self.group)
        given = [each + change for each in costs[:-number]]
        return costs[:number] + [min(pair) for pair in zip(costs[number:], given, strict=True)]

    def _dealt(self, left: list[int], groups: int) -> int | None:
        """The cost of dealing over these nodes, each of which has at least one group; ``None``
        where they have fewer than ``groups`` together."""
        group = self.group
        if groups <= len(left):
            return self._change(left[:groups], group)
        given = [0] * len(left)
        held = [count // group for count in left]
        if sum(held) < groups:
            return None
        while groups:
            for at, most in enumerate(held):
                if groups and given[at] < most:
                    given[at] += 1
                    groups -= 1
        return sum(
            [
                self._change((count,), number * group)
                for count, number in zip(left, given, strict=True)
            ]
        )


def nearest(value: float) -> int:
    """``math.Round`` of Go for a value that is not negative: halves go up."""
    whole = math.floor(value)
    return whole + 1 if value - whole >= 0.5 else whole


def _level(left: Sequence[int], group: int, groups: int) -> int:
    """The lowest level to which all can be brought by taking at most ``groups`` groups."""
    high = max(left)
    low = max(0, high - group * groups)  # what the highest alone can be brought to
    while low < high:
        middle = (low + high) // 2
        if sum([-(-(count - middle) // group) for count in left if count > middle]) <= groups:
            high = middle
        else:
            low = middle + 1
    return low


def _subsets(left: Sequence[int], group: int, size: int, groups: int) -> Iterator[Members]:
    """Subsets of that size that differ in what they give, in the kubelet's order."""
    number = len(left)
    if size <= groups:
        yield from combinations(range(number), size)
        return
    # Each of the first ones gives a group and the others nothing: the first such subset will do.
    for first in combinations(range(number - (size - groups)), groups):
        yield (*first, *range(first[-1] + 1, first[-1] + 1 + size - groups))
