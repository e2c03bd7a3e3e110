"""What kubelets up to 1.21 may take: sockets, cores, single CPUs, in an order that is part chance.

Source of the statements: ``takeByTopology``, ``freeCores`` and ``freeCPUs`` in
``pkg/kubelet/cm/cpumanager/cpu_assignment.go``, v1.17.17 and v1.20.15.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest

from reference import (
    AllocationError,
    CPUSet,
    CPUTopology,
    NotModelled,
    could_take,
    take_by_topology,
)
from tests.reference.nodes import even
from tests.reference.recorded import machines, rows

OLD = ("1.8", "1.13", "1.17", "1.20", "1.21")
ONE = even(4, 1, 1)


def interleaved(cores: int, threads: int, sockets: int) -> CPUTopology:
    """As ``even`` with one NUMA node, but cores belong to the sockets by turns."""
    return CPUTopology.of(
        {cpu: (0, cpu % cores % sockets, cpu % cores, 0) for cpu in range(threads * cores)}
    )


def possible(topology: CPUTopology, free: CPUSet, number: int, release: str = "1.20") -> set[str]:
    """Every set that can be taken, by asking about all of them."""
    return {
        str(CPUSet(cpus))
        for cpus in combinations(free, number)
        if could_take(topology, free, number, CPUSet(cpus), release=release)
    }


@pytest.mark.parametrize("release", OLD)
@pytest.mark.parametrize(
    ("free", "number", "expected"),
    [
        # Nothing is busy: the lowest cores, then the lowest CPU.
        ("0-7", 3, {"0-1,4"}),
        # A core that is partly used comes first, and it is also the lowest one.
        ("1-7", 3, {"1,4-5"}),
        # It has fewer free CPUs but a higher number: either core may be first.
        ("0-6", 3, {"0-1,4", "0,3-4"}),
    ],
)
def test_one_socket(release: str, free: str, number: int, expected: set[str]) -> None:
    assert possible(ONE, CPUSet.parse(free), number, release) == expected


def test_whole_sockets_are_taken_by_id() -> None:
    four = even(8, 1, 4)
    assert possible(four, four.cpus, 4) == {"0-1,8-9"}
    free = four.cpus - CPUSet([0])
    assert could_take(four, free, 8, CPUSet.parse("2-5,10-13"), release="1.20")
    assert not could_take(four, free, 8, CPUSet.parse("2-3,6-7,10-11,14-15"), release="1.20")


def test_cores_come_from_the_socket_with_the_fewest_or_the_lowest() -> None:
    two = even(6, 1, 2)
    # Socket 1 has two whole cores left and socket 0 three, but the lower number.
    free = two.cpus - CPUSet.parse("5")
    assert possible(two, free, 4) == {"0-1,6-7", "3-4,9-10"}
    # Socket 0 has fewer whole cores and the lower number: it is determined.
    free = two.cpus - CPUSet.parse("2")
    assert possible(two, free, 4) == {"0-1,6-7"}
    assert possible(two, free, 5) == {"0-1,6-8"}


def test_single_cpus_of_an_interleaved_machine_hang_on_the_sort() -> None:
    two = interleaved(12, 2, 2)
    # Go before 1.19 takes the first, Go 1.19 and later the second: seen on real kubelets.
    for seen in ("0-2,12,14", "0,2,4,12,14"):
        assert could_take(two, two.cpus, 5, CPUSet.parse(seen), release="1.17")
    for never in ("0,2,6,12,14", "0-1,4,12-13", "0,2-3,12,14", "0,2,5,12,14"):
        assert not could_take(two, two.cpus, 5, CPUSet.parse(never), release="1.17"), never


@pytest.mark.parametrize("release", OLD)
def test_the_answer_given_is_one_that_can_be(release: str) -> None:
    dice = random.Random(7)
    for _ in range(200):
        sockets, cores = dice.choice([1, 2, 4]), 4 * dice.randint(1, 6)
        threads = dice.choice([1, 2, 4])
        topology = even(cores, 1, sockets, threads)
        if dice.random() < 0.5:
            topology = interleaved(cores, threads, sockets)
        free = CPUSet(dice.sample(list(topology.cpus), dice.randint(1, len(topology.cpus))))
        number = dice.randint(1, len(free))
        taken = take_by_topology(topology, free, number, release=release)
        assert len(taken) == number
        assert taken <= free
        assert could_take(topology, free, number, taken, release=release)


def test_a_set_of_another_size_or_with_a_busy_cpu_is_refused() -> None:
    free = ONE.cpus - CPUSet([0])
    for taken in ("4-5", "", "0", "9", "1,4-5"):
        assert not could_take(ONE, free, 1, CPUSet.parse(taken), release="1.20")
    assert not could_take(ONE, free, 8, ONE.cpus, release="1.20")
    assert could_take(ONE, free, 0, CPUSet(), release="1.20")
    assert not could_take(ONE, free, 0, CPUSet([4]), release="1.20")


@pytest.mark.parametrize("strategy", ["spread", "uncore", "distributed"])
def test_an_old_release_has_no_policy_options(strategy: str) -> None:
    with pytest.raises(NotModelled, match=r"not in release 1\.20"):
        could_take(ONE, ONE.cpus, 1, CPUSet([0]), release="1.20", strategy=strategy)


def test_an_uneven_machine_gave_only_free_cpus_away() -> None:
    """Up to 1.21 what is taken of a free core are its free CPUs; 1.22 takes all it has."""
    uneven = CPUTopology.of({cpu: (0, 0, cpu % 4, 0) for cpu in range(7)})
    free = CPUSet.parse("2,5-6")
    for release, taken in (("1.22", "1,5"), ("1.20", "2,5")):
        assert str(take_by_topology(uneven, free, 2, release=release)) == taken


def test_from_122_on_only_the_answer_is_possible() -> None:
    topology = even(6, 1, 2)
    free = topology.cpus - CPUSet([5])
    answer = take_by_topology(topology, free, 4, release="1.22")
    assert possible(topology, free, 4, "1.22") == {str(answer)}
    assert not could_take(topology, free, 99, CPUSet(), release="1.36")


def test_a_kubelet_that_never_answers_takes_nothing() -> None:
    topology = even(16, 4, 2)
    free = topology.cpus - CPUSet.parse("0,4,8,24,12,28,13,29")
    assert not could_take(
        topology, free, 22, CPUSet(list(free)[:22]), strategy="distributed", group_size=2
    )


MACHINES = machines("kubelet-topologies.json")


def _rows() -> Iterable[dict[str, Any]]:
    return [row for row in rows("kubelet-allocations.jsonl.gz") if "v1.17" in row]


def _seen(row: dict[str, Any], column: str) -> list[Any]:
    result = row.get(column, [])
    if isinstance(result, dict) and "one_of" in result:
        return list(result["one_of"])
    return [result] if result else []


@pytest.mark.parametrize("column", ["v1.17", "v1.20", "v1.17-go1.26", "v1.20-go1.26"])
def test_everything_seen_on_a_real_kubelet_is_possible(column: str) -> None:
    release = column[1:5]
    wrong: list[object] = []
    seen = 0
    for row in _rows():
        question = (MACHINES[row["topology"]], CPUSet.parse(row["available"]), row["cpus"])
        for result in _seen(row, column):
            seen += 1
            if isinstance(result, str):
                if not could_take(*question, CPUSet.parse(result), release=release):
                    wrong.append((row["topology"], row["available"], row["cpus"], result))
                continue
            with pytest.raises(AllocationError) as caught:
                take_by_topology(*question, release=release)
            assert str(caught.value) == result["error"]
    assert seen > 50
    assert wrong == []


def test_near_misses_are_refused() -> None:
    """One CPU exchanged for another free one: nearly all of these no kubelet takes."""
    dice = random.Random(11)
    tried = refused = 0
    for row in _rows():
        free = CPUSet.parse(row["available"])
        seen = [each for column in row for each in _seen(row, column) if column.startswith("v1.")]
        first = _seen(row, "v1.20")[0]
        if isinstance(first, str) and len(CPUSet.parse(first)) < len(free):
            taken = CPUSet.parse(first)
            out, into = dice.choice(list(taken)), dice.choice(list(free - taken))
            near = (taken - CPUSet([out])) | CPUSet([into])
            if str(near) not in seen:
                tried += 1
                topology = MACHINES[row["topology"]]
                refused += not could_take(topology, free, row["cpus"], near, release="1.20")
    assert tried > 300
    assert refused / tried > 0.95
