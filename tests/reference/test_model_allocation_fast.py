"""The quick search over NUMA nodes finds what the plain one finds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reference.cpumanager import cpu_assignment
from reference.cpumanager.cpu_assignment import FEW_NUMA_NODES, Request, best_combination
from reference.cpumanager.fast import distribution as fast
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
