"""The quick search over NUMA nodes finds what the plain one finds; the shortcuts of its score are
held against what they stand for."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reference.cpumanager import cpu_assignment
from reference.cpumanager.cpu_assignment import FEW_NUMA_NODES, Request, best_combination
from reference.cpumanager.fast import distribution as fast
from reference.cpumanager.fast.balance import Balance, nearest
from reference.errors import AllocationHangs


@st.composite
def shared(draw: st.DrawFn) -> tuple[dict[int, int], int, Request]:
    """Free CPUs of each NUMA node in the kubelet's order, how many nodes share, and what."""
    group = draw(st.sampled_from([1, 1, 2, 3]))
    counts = draw(st.lists(st.integers(1, 12), min_size=2, max_size=6))
    free = dict(zip(draw(st.permutations(range(len(counts)))), sorted(counts), strict=True))
    k = draw(st.integers(1, len(free)))
    groups = draw(st.integers(1, max(1, sum(counts) // group)))
    half = len(free) // 2
    sockets = draw(st.sampled_from([None, None, [set(range(half)), set(range(half, len(free)))]]))
    request = Request(
        groups * group, group, sockets, ends=draw(st.booleans()), kept=draw(st.booleans())
    )
    return free, k, request


def answer(free: dict[int, int], k: int, request: Request, *, quick: bool) -> object:
    try:
        if quick:
            found = fast.best_combination(list(free), free, k, *request)
        else:
            found = best_combination(list(free), free, k, request)
    except AllocationHangs:
        return "hangs"
    return found and (list(found[0]), list(found[1]))


@given(shared())
@example(({0: 4, 1: 5, 2: 5, 3: 5}, 3, Request(10, 2)))
@example(({0: 3, 1: 3, 2: 3, 3: 3, 4: 3}, 4, Request(9, 1)))
def test_the_quick_search_finds_the_same(drawn: tuple[dict[int, int], int, Request]) -> None:
    free, k, request = drawn
    assert answer(free, k, request, quick=True) == answer(free, k, request, quick=False)


def test_many_numa_nodes_are_searched_quickly_and_few_plainly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So is a machine on which a NUMA node lies in two sockets and comes twice."""
    asked: list[int] = []
    monkeypatch.setattr(fast, "best_combination", lambda numas, *_: asked.append(len(numas)))
    for number in range(1, FEW_NUMA_NODES + 3):
        free = dict.fromkeys(range(number), 8)
        cpu_assignment._best_combination(list(free), free, 1, Request(8, 1))
    cpu_assignment._best_combination([0, 1, 2, 3, 0], dict.fromkeys(range(4), 8), 1, Request(8, 1))
    assert asked == [FEW_NUMA_NODES + 1, FEW_NUMA_NODES + 2]


# -- the score -------------------------------------------------------------------------------------


def deviation(free: list[int]) -> float:
    """As Go computes it, in thousandths: mean and result are rounded (kubernetes#106571)."""
    mean = math.floor(statistics.fmean(free) * 1000 + 0.5) / 1000
    squares = statistics.fmean((each - mean) ** 2 for each in free)
    return math.floor(math.sqrt(squares) * 1000 + 0.5)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.data())
def test_the_score_is_the_standard_deviation_in_thousandths(
    free: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(free) - 1))
    cpus = data.draw(st.integers(1, free[at]))
    left = [*free]
    left[at] -= cpus
    found = Balance(free, cpus, 1, 1, capped=False).best([at])
    assert found == (deviation(left), (at,))


def one_by_one(free: list[int], groups: int, group: int) -> list[int]:
    """What is left where one group after the other is taken where most is left."""
    left = list(free)
    for _ in range(groups):
        left[left.index(max(left))] -= group
    return left


@st.composite
def shared_out(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Free CPUs by node, CPUs of a group, and groups that they have."""
    group = draw(st.sampled_from([1, 2, 4]))
    free = draw(st.lists(st.integers(0, 24), min_size=2, max_size=8))
    return free, group, draw(st.integers(0, sum(each // group for each in free)))


@given(shared_out())
@example(([10, 8, 7, 1], 2, 3))  # the third of the fullest lies below the first, once it has given
@example(([10, 8, 8, 1], 2, 3))
@example(([9, 3, 2], 1, 3))  # one node gives all of them
# The shortcut for groups of different nodes must not be taken where one gives twice.
@example(([24, 14, 13, 12], 2, 2))
@example(([24, 14, 13, 12], 2, 4))
def test_levelling_is_taking_where_most_is_left(drawn: tuple[list[int], int, int]) -> None:
    free, group, groups = drawn
    left = one_by_one(free, groups, group)
    if min(left) < 0:
        return  # a node gives no group that it has not
    mean = nearest((sum(free) - groups * group) / len(free) * 1000)
    before, after = (sum((1000 * count - mean) ** 2 for count in counts) for counts in (free, left))
    balance = Balance(free, groups * group, group, len(free), capped=False)
    assert balance._levelled(list(free), groups) == after - before
