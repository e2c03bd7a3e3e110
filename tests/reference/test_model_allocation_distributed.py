"""distribute-cpus-across-numa: who shares a request, with the kubelet's own faults and its fixes.

Source of the statements: ``takeByTopologyNUMADistributed``, ``cpu_assignment.go``, v1.36.3 and
v1.37.0, KEP-2902, and kubernetes/kubernetes#139778, #140730, #141237 and #139456.
"""

from __future__ import annotations

import random
from functools import partial

import pytest

from reference import (
    AllocationError,
    AllocationHangs,
    CPUSet,
    CPUTopology,
    KubeletHangs,
)
from reference import take_by_topology as take
from reference.cpumanager.cpu_assignment import accounting_error
from tests.reference.nodes import even

FOUR_BY_14 = CPUTopology.of({cpu: (cpu // 14, cpu // 28, cpu, 0) for cpu in range(56)})
EIGHT_BY_4 = CPUTopology.of({cpu: (cpu // 4, cpu // 16, cpu, 0) for cpu in range(32)})

distributed = partial(take, strategy="distributed")


@pytest.mark.parametrize(
    ("busy", "number", "before", "after"),
    [
        ("0-6", 15, "14-21,28-34", "28-35,42-48"),
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
        taken = distributed(FOUR_BY_14, free, number, release=release, align_by_socket=aligned)
        assert str(taken) == expected, (release, aligned)


def in_pairs(machine: CPUTopology, free: str, number: int, release: str) -> CPUSet:
    """In groups of two."""
    return distributed(machine, CPUSet.parse(free), number, release=release, group_size=2)


def test_an_endless_search_is_a_kubelet_that_hangs() -> None:
    """kubernetes/kubernetes#140730, seen on kubelets 1.36.3 and 1.37.0."""
    free = "1-3,5-7,9-11,14-23,25-27,30-31"
    for release in ("1.23", "1.36.3", "1.37.0"):
        with pytest.raises(KubeletHangs, match="140730"):
            in_pairs(even(16, 4, 2), free, 22, release)
    for number in (16, 18, 20, 24):
        assert len(in_pairs(even(16, 4, 2), free, number, "1.36")) == number


def test_a_kubelet_with_the_fix_finds_an_answer() -> None:
    """The case and the result that the fix itself is tested with (#140730)."""
    question = (even(40, 4, 2), "0-4,10-14,20-24,30-34", 14)
    with pytest.raises(AllocationHangs):
        in_pairs(*question, "1.36")
    for release in ("1.36+distribution-ends", "1.37+distribution-ends"):
        assert str(in_pairs(*question, release)) == "0-3,10-13,20-23,30-31"


@pytest.mark.parametrize(("busy", "first"), [("", 0), ("0", 4), ("0,4,8", 12)])
def test_a_combination_that_is_kept_is_the_first_of_the_best(busy: str, first: int) -> None:
    """kubernetes/kubernetes#141237: without the fix NUMA node 7 takes the place of another."""
    free = EIGHT_BY_4.cpus - CPUSet.parse(busy)
    taken = distributed(EIGHT_BY_4, free, 16, release="1.37")
    assert CPUSet.parse("28-31") <= taken
    kept = distributed(EIGHT_BY_4, free, 16, release="1.37+combinations-kept")
    assert str(kept) == f"{first}-{first + 15}"


def test_a_hint_sets_the_fewest_numa_nodes_with_the_fix() -> None:
    """kubernetes/kubernetes#139430: four NUMA nodes of eight CPUs, CPU 0 is reserved. A hint of
    more nodes than have free CPUs, or than the request has CPUs, counts for nothing (seen on the
    code of 1.38.0-beta.0)."""
    machine = CPUTopology.of({cpu: (cpu // 8, cpu // 16, cpu, 0) for cpu in range(32)})
    free = machine.cpus - CPUSet([0])
    fixed = "1.37+numa-floor-from-hint"
    for release, hint_nodes in (("1.36", 4), (fixed, 0), (fixed, 5)):
        taken = distributed(machine, free, 8, release=release, hint_nodes=hint_nodes)
        assert str(taken) == "8-15"
    spread = distributed(machine, free, 8, release=fixed, hint_nodes=4)
    assert [len(spread & machine.cpus_in_numa_nodes(node)) for node in range(4)] == [2, 2, 2, 2]
    taken = distributed(machine, machine.cpus, 2, release=fixed, hint_nodes=4)
    assert str(taken) == "0-1"


def test_cpus_that_do_not_add_up_are_an_error() -> None:
    text = "accounting error, {} CPUs allocated, remaining: {}"
    assert str(accounting_error(2)) == text.format("not enough", 2)
    assert str(accounting_error(-1)) == text.format("too many", -1)
    assert accounting_error(0) is None


def test_the_search_stops_at_the_combination_after_one_that_is_wholly_even() -> None:
    """That one more is what overwrites the best, here with NUMA node 4, which has one free CPU.
    Seen on the code of 1.37.0; up to 1.36 the node is asked for four CPUs and the sum is wrong."""
    machine = CPUTopology.of({cpu: (cpu // 5, int(cpu >= 20), cpu, 0) for cpu in range(120)})
    free = CPUSet(cpu for cpu in range(120) if cpu < 20 or cpu % 5 == 0)
    with pytest.raises(AllocationHangs):
        distributed(machine, free, 16, release="1.37")
    with pytest.raises(AllocationError, match=r"not enough CPUs allocated, remaining: 4\b"):
        distributed(machine, free, 16, release="1.36")
    kept = distributed(machine, free, 16, release="1.37+combinations-kept")
    assert str(kept) == "0-3,5-8,10-13,15-18"


def test_sixteen_numa_nodes_are_searched_without_looking_at_every_combination() -> None:
    """65,535 combinations, up to 65,535 subsets each: plain search takes most of a minute."""
    machine = even(64, 16, 2)
    expected = "0-35,64-74,76-78,80-82,84-86,88-90,92-94,96-98"
    assert str(distributed(machine, machine.cpus, 65)) == expected


@pytest.mark.parametrize("strategy", ["packed", "distributed"])
@pytest.mark.parametrize("release", ["1.23", "1.37+combinations-kept"])
def test_an_even_machine_gives_just_free_cpus(release: str, strategy: str) -> None:
    """And the same ones whenever it is asked. ``test_model_allocation_naive`` says which for 1.33
    to 1.37."""
    dice = random.Random(3)
    for _ in range(150):
        nodes, cores = dice.choice([2, 3, 4, 6]), dice.randint(1, 4)
        machine = even(nodes * cores, nodes, dice.choice([1, nodes]), dice.choice([1, 2]))
        free = CPUSet(dice.sample(list(machine.cpus), dice.randint(1, len(machine.cpus))))
        number = dice.randint(1, len(free))
        taken = take(machine, free, number, strategy=strategy, release=release)
        assert len(taken) == number
        assert taken <= free
        assert take(machine, free, number, strategy=strategy, release=release) == taken
