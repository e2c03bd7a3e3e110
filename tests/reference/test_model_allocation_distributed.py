"""distribute-cpus-across-numa: who shares a request, with the kubelet's own faults and its fixes.

Source of the statements: ``takeByTopologyNUMADistributed``, ``cpu_assignment.go``, v1.36.3 and
v1.37.0, KEP-2902, and kubernetes/kubernetes#139778, #140730, #141237 and #139456.
"""

from __future__ import annotations

import math
import random
import statistics
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import (
    AllocationError,
    AllocationHangs,
    CPUSet,
    CPUTopology,
    KubeletHangs,
    NotModelled,
)
from reference import take_by_topology as take
from reference.cpumanager.cpu_assignment import accounting_error
from reference.cpumanager.fast.balance import Balance


def threads(cores: int, nodes: int, sockets: int, number: int = 2) -> CPUTopology:
    """Thread t of core c is CPU ``c + t * cores``."""
    return CPUTopology.of(
        {
            cpu: (core * nodes // cores, core * sockets // cores, core, 0)
            for cpu, core in ((cpu, cpu % cores) for cpu in range(number * cores))
        }
    )


FOUR_BY_14 = CPUTopology.of({cpu: (cpu // 14, cpu // 28, cpu, 0) for cpu in range(56)})
EIGHT_BY_4 = CPUTopology.of({cpu: (cpu // 4, cpu // 16, cpu, 0) for cpu in range(32)})


@pytest.mark.parametrize(
    ("busy", "number", "before", "after"),
    [
        ("", 15, "0-7,14-20", "0-7,14-20"),
        ("0-6", 15, "14-21,28-34", "28-35,42-48"),
        ("0-6", 20, "14-23,28-37", "28-37,42-51"),
        ("28-40", 15, "0-6,42-49", "0-7,14-20"),
        ("28-40", 20, "0-9,42-51", "0-9,14-23"),
        ("", 29, "0-9,14-23,28-36", "0-9,14-23,28-36"),
    ],
)
def test_from_137_on_one_socket_is_preferred(
    busy: str, number: int, before: str, after: str
) -> None:
    free = FOUR_BY_14.cpus - CPUSet.parse(busy)
    for release, aligned, expected in (
        ("1.36.3", True, before),
        ("1.37", False, before),
        ("1.37", True, after),
        ("1.36+socket-aligned-distribution", True, after),
    ):
        taken = take(
            FOUR_BY_14, free, number,
            release=release, strategy="distributed", align_by_socket=aligned,
        )  # fmt: skip
        assert str(taken) == expected, (release, aligned)


@pytest.mark.parametrize(
    ("machine", "free", "number"),
    [
        (threads(16, 4, 1), "1-3,5,8-11,14-19,23,26,28-29", 16),
        (threads(18, 6, 2), "0-5,9,12-15,17-19,21-23,27-28,30,32-34", 20),
        (threads(24, 8, 2), "3,5-6,9-11,16-23,28-31,33-35,40-41,43-45,47", 24),
    ],
)
def test_preferring_one_socket_makes_the_search_endless_more_often(
    machine: CPUTopology, free: str, number: int
) -> None:
    cpus = CPUSet.parse(free)
    for release in ("1.36.3", "1.37"):
        taken = take(machine, cpus, number, release=release, strategy="distributed", group_size=2)
        assert len(taken) == number
    with pytest.raises(AllocationHangs):
        take(
            machine, cpus, number,
            release="1.37", strategy="distributed", group_size=2, align_by_socket=True,
        )  # fmt: skip


def test_or_makes_it_end_where_it_was_endless() -> None:
    machine = threads(24, 6, 2)
    free = CPUSet.parse("8,13-15,17-21,23-26,33,36-37,40,42-44,47")
    with pytest.raises(AllocationHangs):
        take(machine, free, 16, release="1.37", strategy="distributed", group_size=2)
    taken = take(
        machine, free, 16,
        release="1.37", strategy="distributed", group_size=2, align_by_socket=True,
    )  # fmt: skip
    assert str(taken) == "13-14,17-20,23-25,36-37,40,42-44,47"


def test_an_endless_search_is_a_kubelet_that_hangs() -> None:
    """kubernetes/kubernetes#140730, seen on kubelets 1.36.3 and 1.37.0."""
    machine = threads(16, 4, 2)
    free = machine.cpus - CPUSet.parse("0,4,8,24,12,28,13,29")
    for release in ("1.23", "1.36.3", "1.37.0"):
        with pytest.raises(KubeletHangs, match="140730"):
            take(machine, free, 22, release=release, strategy="distributed", group_size=2)


def test_a_kubelet_with_the_fix_finds_an_answer() -> None:
    """The case and the result that the fix itself is tested with (#140730)."""
    machine = threads(40, 4, 2)
    free = CPUSet.parse("0-4,10-14,20-24,30-34")
    question = (machine, free, 14)
    with pytest.raises(AllocationHangs):
        take(*question, release="1.36", strategy="distributed", group_size=2)
    for release in ("1.36+distribution-ends", "1.37+distribution-ends"):
        taken = take(*question, release=release, strategy="distributed", group_size=2)
        assert str(taken) == "0-3,10-13,20-23,30-31"


@pytest.mark.parametrize(("busy", "first"), [("", 0), ("0", 4), ("0,4,8", 12)])
def test_a_combination_that_is_kept_is_the_first_of_the_best(busy: str, first: int) -> None:
    """kubernetes/kubernetes#141237: without the fix NUMA node 7 takes the place of another."""
    free = EIGHT_BY_4.cpus - CPUSet.parse(busy)
    taken = take(EIGHT_BY_4, free, 16, strategy="distributed", release="1.37")
    assert CPUSet.parse("28-31") <= taken
    kept = take(EIGHT_BY_4, free, 16, strategy="distributed", release="1.37+combinations-kept")
    assert str(kept) == f"{first}-{first + 15}"


def test_a_hint_sets_the_fewest_numa_nodes_with_the_fix() -> None:
    """kubernetes/kubernetes#139430: four NUMA nodes of eight CPUs, CPU 0 is reserved."""
    machine = CPUTopology.of({cpu: (cpu // 8, cpu // 16, cpu, 0) for cpu in range(32)})
    free = machine.cpus - CPUSet([0])
    fixed = "1.37+numa-floor-from-hint"
    question = (machine, free, 8)
    assert str(take(*question, strategy="distributed", hint_nodes=4)) == "8-15"
    assert str(take(*question, strategy="distributed", release=fixed)) == "8-15"
    spread = take(*question, strategy="distributed", release=fixed, hint_nodes=4)
    assert [len(spread & machine.cpus_in_numa_nodes(node)) for node in range(4)] == [2, 2, 2, 2]
    # A hint of more nodes than have free CPUs counts for nothing.
    assert str(take(*question, strategy="distributed", release=fixed, hint_nodes=5)) == "8-15"


def test_what_that_fix_does_where_the_nodes_have_too_little_is_not_known() -> None:
    machine = CPUTopology.of({cpu: (cpu // 8, cpu // 16, cpu, 0) for cpu in range(32)})
    fixed = "1.37+numa-floor-from-hint"
    with pytest.raises(NotModelled, match="numa-floor-from-hint"):
        take(machine, machine.cpus, 2, strategy="distributed", release=fixed, hint_nodes=4)


@pytest.mark.parametrize(
    ("busy", "results"),
    [
        ("", "5:0-2,4-5 9:0-2,4-6,8-10 10:0-6,8-10 11:0-10"),
        ("0", "5:4-6,8-9 7:4-10 9:1-6,8-10"),
        ("0,8", "5:1-2,4-6 8:1-6,9-10 10:1-7,9-11"),
    ],
)
def test_a_numa_node_in_two_sockets_is_listed_twice(busy: str, results: str) -> None:
    """With more NUMA nodes than sockets the kubelet lists the nodes of each socket in turn. These
    are results of the code of 1.37.0."""
    machine = CPUTopology.of({cpu: (cpu // 4, cpu // 6, cpu, 0) for cpu in range(12)})
    free = machine.cpus - CPUSet.parse(busy)
    for row in results.split():
        number, _, expected = row.partition(":")
        assert str(take(machine, free, int(number), strategy="distributed")) == expected, row


@pytest.mark.parametrize(
    ("need", "text"),
    [
        (2, "accounting error, not enough CPUs allocated, remaining: 2"),
        (-1, "accounting error, too many CPUs allocated, remaining: -1"),
    ],
)
def test_cpus_that_do_not_add_up_are_an_error(need: int, text: str) -> None:
    assert str(accounting_error(need)) == text


def test_cpus_that_add_up_are_none() -> None:
    assert accounting_error(0) is None


def _deviation(free: list[int]) -> float:
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
    assert found == (_deviation(left), (at,))


def test_the_search_stops_at_the_combination_after_one_that_is_wholly_even() -> None:
    """That one more is what overwrites the best, here with NUMA node 4, which has one free CPU.
    Seen on the code of 1.37.0; up to 1.36 the node is asked for four CPUs and the sum is wrong."""
    machine = CPUTopology.of({cpu: (cpu // 5, int(cpu >= 20), cpu, 0) for cpu in range(120)})
    free = CPUSet(cpu for cpu in range(120) if cpu < 20 or cpu % 5 == 0)
    with pytest.raises(AllocationHangs):
        take(machine, free, 16, strategy="distributed", release="1.37")
    with pytest.raises(AllocationError, match=r"not enough CPUs allocated, remaining: 4\b"):
        take(machine, free, 16, strategy="distributed", release="1.36")
    kept = take(machine, free, 16, strategy="distributed", release="1.37+combinations-kept")
    assert str(kept) == "0-3,5-8,10-13,15-18"


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], int, int, int]:
    """Free CPUs of up to six nodes, a number of CPUs, group size and number of nodes."""
    group = draw(st.sampled_from([1, 1, 2, 3]))
    free = draw(st.lists(st.integers(1, 9), min_size=1, max_size=7))
    cpus = group * draw(st.integers(1, max(1, sum(free) // group)))
    return free, cpus, group, draw(st.integers(1, len(free)))


@given(requests(), st.booleans())
def test_no_combination_scores_below_the_best(
    request: tuple[list[int], int, int, int], capped: bool
) -> None:
    free, cpus, group, size = request
    balance = Balance(free, cpus, group, size, capped=capped)
    found = balance.best(range(len(free)))
    # Of one combination, the best is its own score.
    scores = {
        members: only[0]
        for members in combinations(range(len(free)), size)
        if (only := balance.best(members)) is not None
    }
    if found is None:
        assert scores == {}
        return
    lowest = min(scores.values())
    assert found == (lowest, next(each for each in scores if scores[each] == lowest))


def test_sixteen_numa_nodes_are_searched_without_looking_at_every_combination() -> None:
    """65,535 combinations, up to 65,535 subsets each: plain search takes most of a minute."""
    machine = threads(64, 16, 2)
    expected = "0-35,64-74,76-78,80-82,84-86,88-90,92-94,96-98"
    assert str(take(machine, machine.cpus, 65, strategy="distributed")) == expected


@pytest.mark.parametrize("release", ["1.23", "1.36", "1.37", "1.37+combinations-kept"])
def test_an_even_machine_gives_just_free_cpus_evenly(release: str) -> None:
    dice = random.Random(3)
    for _ in range(150):
        nodes, cores = dice.choice([2, 3, 4, 6]), dice.randint(1, 4)
        machine = threads(nodes * cores, nodes, dice.choice([1, nodes]), dice.choice([1, 2]))
        free = CPUSet(dice.sample(list(machine.cpus), dice.randint(1, len(machine.cpus))))
        number = dice.randint(1, len(free))
        taken = take(machine, free, number, strategy="distributed", release=release)
        assert len(taken) == number
        assert taken <= free
        again = take(machine, free, number, strategy="distributed", release=release)
        assert again == taken
