"""The shortcuts of the score, against what they stand for: one group after the other, each taken
where most is left."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reference.cpumanager.fast.balance import Balance, nearest


def one_by_one(free: list[int], groups: int, group: int, cpus: int) -> int:
    """What it costs, plainly."""
    left = list(free)
    mean = nearest((sum(free) - cpus) / len(free) * 1000)
    before = sum((1000 * count - mean) ** 2 for count in left)
    for _ in range(groups):
        most = left.index(max(left))
        left[most] -= group
    return sum((1000 * count - mean) ** 2 for count in left) - before


@st.composite
def shared_out(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Free CPUs by node, CPUs of a group, and groups that they have."""
    group = draw(st.sampled_from([1, 2, 4]))
    free = draw(st.lists(st.integers(min_value=0, max_value=24), min_size=2, max_size=8))
    return (
        free,
        group,
        draw(st.integers(min_value=0, max_value=sum(each // group for each in free))),
    )


@given(shared_out())
@example(([10, 8, 7, 1], 2, 3))  # the third of the fullest lies below the first, once it has given
@example(([10, 8, 8, 1], 2, 3))
@example(([9, 3, 2], 1, 3))  # one node gives all of them
def test_levelling_is_taking_where_most_is_left(drawn: tuple[list[int], int, int]) -> None:
    free, group, groups = drawn
    balance = Balance(free, groups * group, group, len(free), capped=False)
    cpus = groups * group
    if any(left < 0 for left in _after(free, groups, group)):
        return  # a node gives no group that it has not
    assert balance._levelled(list(free), groups) == one_by_one(free, groups, group, cpus)


def _after(free: list[int], groups: int, group: int) -> list[int]:
    left = list(free)
    for _ in range(groups):
        left[left.index(max(left))] -= group
    return left


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_far_apart_nodes_give_more_than_one_group(groups: int) -> None:
    """The shortcut for groups of different nodes must not be taken where one gives twice."""
    free = [24, 14, 13, 12]
    balance = Balance(free, 2 * groups, 2, 4, capped=False)
    assert balance._levelled(list(free), groups) == one_by_one(free, groups, 2, 2 * groups)
