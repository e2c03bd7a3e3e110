"""The allocator: results that were stated by hand, recorded from real kubelets, and laws; and what
kubelets take with fixes that forks carry and no release has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import AllocationError, CPUSet, CPUTopology, KubeletHangs, NotEnoughCPUs, NotModelled
from reference import take_by_topology as take
from reference.releases import ANNOUNCED
from tests.reference.nodes import even
from tests.reference.recorded import machines, rows

ONE_NODE = even(4, 1, 1)


@pytest.mark.parametrize(
    ("machine", "strategy", "busy", "results"),
    [
        (ONE_NODE, "packed", "0,5", "1:4 2:2,6 3:2,4,6"),
        (even(16, 1, 1, caches=4), "uncore", "0", "1:16 2:4,20 7:1-3,16-19"),
        (even(8, 4, 2), "distributed", "0", "4:2-3,10-11 5:2-4,10,12 8:2-5,10-13"),
    ],
)
def test_results_of_real_kubelets(
    machine: CPUTopology, strategy: str, busy: str, results: str
) -> None:
    """To read. Thousands were recorded, and ``test_model_allocation_naive`` says the same."""
    for row in results.split():
        number, _, expected = row.partition(":")
        taken = take(machine, machine.cpus - CPUSet.parse(busy), int(number), strategy=strategy)
        assert str(taken) == expected, row


def test_partly_used_uncore_caches_were_filled_otherwise_before_134() -> None:
    """And a patch release may have what its minor got late."""
    topology = even(16, 1, 1, caches=4)
    free = topology.cpus - CPUSet.parse("0-1,16-17")
    for release in ("1.32", "1.32.13", "1.33.2", "1.33.5"):
        assert str(take(topology, free, 5, strategy="uncore", release=release)) == "2-4,18-19"
    for release in ("1.33.6", "1.33", "1.34", "1.37"):
        assert str(take(topology, free, 5, strategy="uncore", release=release)) == "4-6,20-21"


def test_a_refusal_states_the_numbers_from_129_on() -> None:
    """What is available counts CPUs that the machine does not have."""
    text = "not enough cpus available to satisfy request"
    for free, number, release, numbers in (
        ("0-7", 9, "1.36", ": requested=9, available=8"),
        ("0-1,100-101", 3, "1.36", ": requested=3, available=4"),
        ("0-7", 9, "1.28", ""),
    ):
        with pytest.raises(NotEnoughCPUs) as caught:
            take(ONE_NODE, CPUSet.parse(free), number, release=release)
        assert str(caught.value) == text + numbers
        assert (caught.value.requested, caught.value.available) == (number, len(CPUSet.parse(free)))


@pytest.mark.parametrize("number", [0, -1])
def test_less_than_one_cpu_is_none(number: int) -> None:
    assert take(ONE_NODE, CPUSet(), number) == CPUSet()


@pytest.mark.parametrize(
    ("strategy", "release"),
    [("packed", "1.7"), ("packed", f"1.{ANNOUNCED + 1}"), ("nonsense", "1.36"),
     ("distributed", "1.22"), ("spread", "1.30"), ("uncore", "1.31"),
     ("distributed", "1.36+numa-distribution=off")],
)  # fmt: skip
def test_what_is_not_modelled_is_said(strategy: str, release: str) -> None:
    with pytest.raises(NotModelled):
        take(ONE_NODE, ONE_NODE.cpus, 1, strategy=strategy, release=release)


def _answer(row: dict[str, Any], topologies: dict[str, CPUTopology], release: str) -> object:
    """Of the model, in the words of the recording."""
    try:
        taken = take(
            topologies[row["topology"]],
            CPUSet.parse(row["available"]),
            row["cpus"],
            release=release,
            strategy="distributed" if row["strategy"] == "dist" else row["strategy"],
            group_size=row.get("group_size", 1),
            align_by_socket=row.get("align_by_socket", False),
        )
    except AllocationError as error:
        return {"error": str(error)}
    except KubeletHangs:
        return {"error": "HANG"}
    return str(taken)


def _wrong(
    recorded: Iterable[dict[str, Any]], topologies: dict[str, CPUTopology], release: str
) -> list[dict[str, Any]]:
    return [row for row in recorded if _answer(row, topologies, release) != row[f"v{release}"]]


#: The first of the recorded releases that has each strategy.
_RECORDED_FROM = {"packed": "1.22", "dist": "1.26", "spread": "1.32", "uncore": "1.32"}


@pytest.mark.parametrize(
    ("release", "strategy"),
    [
        (release, strategy)
        for strategy, first in _RECORDED_FROM.items()
        for release in ("1.22", "1.26", "1.32", "1.36", "1.37")
        if release >= first
    ],
)
def test_every_row_recorded_from_a_real_kubelet(release: str, strategy: str) -> None:
    recorded = [
        row
        for row in rows("kubelet-allocations.jsonl.gz")
        if row["strategy"] == strategy and f"v{release}" in row
    ]
    assert len(recorded) > 300
    assert _wrong(recorded, machines("kubelet-topologies.json"), release) == []


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_every_row_with_align_by_socket(release: str) -> None:
    recorded = rows("align-by-socket-1.37.jsonl.gz")
    assert len(recorded) > 1500
    assert _wrong(recorded, machines("align-by-socket-topologies.json"), release) == []


# -- fixes that forks carry ------------------------------------------------------------------------


UNEVEN = CPUTopology.of({cpu: (0, 0, cpu % 4, 0) for cpu in range(7)})
TRUE_SIZES = "1.37+true-sizes"


@pytest.mark.parametrize(
    ("free", "number", "without", "fixed"),
    [
        # Cores {0,4} {1,5} {2,6} {3}: on average a core has one CPU.
        ("0-6", 1, "3", "3"),
        ("2,5-6", 2, "1,5", "2,6"),
        ("0-2,4-6", 2, "0,4", "0,4"),
        ("1-2,5-6", 1, "1", "1"),
    ],
)
def test_a_core_is_free_by_its_own_size(free: str, number: int, without: str, fixed: str) -> None:
    """kubernetes/kubernetes#140498 for #124066: only the second of these changes hands."""
    cpus = CPUSet.parse(free)
    assert str(take(UNEVEN, cpus, number, release="1.37")) == without
    assert str(take(UNEVEN, cpus, number, release=TRUE_SIZES)) == fixed


def test_a_hybrid_machine_no_longer_gives_a_reserved_cpu_away() -> None:
    """kubernetes/kubernetes#140495: eight cores of two threads and twelve of one, CPU 0 reserved;
    the issue's pod of two CPUs got CPUs 0 and 1."""
    places = {cpu: (0, 0, cpu // 2, 0) for cpu in range(16)}
    places |= {cpu: (0, 0, cpu - 8, 0) for cpu in range(16, 28)}
    hybrid = CPUTopology.of(places)
    free = hybrid.cpus - CPUSet([0])
    assert str(take(hybrid, free, 2, release="1.36")) == "0-1"
    assert take(hybrid, free, 2, release="1.36+true-sizes") <= free


def test_a_socket_is_free_by_its_own_size() -> None:
    """Two uneven sockets in one NUMA node give a busy CPU away without the fix."""
    one_node = CPUTopology.of({cpu: (0, cpu // 8, cpu, 0) for cpu in range(14)})
    two_nodes = CPUTopology.of({cpu: (cpu // 8, cpu // 8, cpu, 0) for cpu in range(14)})
    free = CPUSet.parse("1-13")
    assert str(take(one_node, free, 9)) == "0-8"
    assert str(take(two_nodes, free, 9)) == "1-3,8-13"
    assert str(take(one_node, free, 9, release=TRUE_SIZES)) == "1-3,8-13"


@st.composite
def uneven_machines(draw: st.DrawFn) -> CPUTopology:
    cores = draw(st.integers(1, 8))
    sockets = draw(st.integers(1, min(cores, 3)))
    places: dict[int, tuple[int, int, int, int]] = {}
    for core in range(cores):
        for _ in range(draw(st.integers(1, 3))):
            places[len(places)] = (core * sockets // cores, core * sockets // cores, core, 0)
    return CPUTopology.of(places)


@given(uneven_machines(), st.data())
def test_with_true_sizes_no_busy_cpu_is_ever_taken(
    topology: CPUTopology, data: st.DataObject
) -> None:
    """And nothing changes where all sizes are equal."""
    free = CPUSet(data.draw(st.sets(st.sampled_from(sorted(topology.details)), min_size=1)))
    number = data.draw(st.integers(1, len(free)))
    sockets = {mask.bit_count() for mask in topology.socket_masks.values()}
    if topology.even_cores and len(sockets) == 1:
        assert take(topology, free, number) == take(topology, free, number, release=TRUE_SIZES)
    for strategy in ("packed", "spread", "distributed"):
        taken = take(topology, free, number, release=TRUE_SIZES, strategy=strategy)
        assert taken <= free
        assert len(taken) == number


def test_whole_uncore_caches_of_their_own_size_are_taken_first() -> None:
    """Seen on the code of 1.38.0-beta.0. Cache 0 has two CPUs and cache 1 six, four on average: up
    to 1.37 a request for three does not take cache 0 as a whole."""
    uneven = CPUTopology.of({cpu: (0, 0, cpu // 2, int(cpu >= 2)) for cpu in range(8)})
    for release, taken in (("1.37", "2-4"), ("1.38", "0-2")):
        found = take(uneven, uneven.cpus, 3, strategy="uncore", release=release)
        assert str(found) == taken


@pytest.mark.parametrize(
    ("siblings", "busy", "order"),
    [
        (2, "", [0, 2, 4, 6, 1, 3, 5, 7]),
        # Cores 1, 2 and 0 have two, three and four free CPUs: it starts at those with the fewest.
        (4, "4-5,8", [6, 9, 0, 7, 10, 1, 11, 2, 3]),
    ],
)
def test_cpus_are_spread_over_cores_whatever_their_numbers(
    siblings: int, busy: str, order: list[int]
) -> None:
    """kubernetes/kubernetes#140688 and the order that its fix #140766 states."""
    cpus = range(8 if siblings == 2 else 12)
    near = CPUTopology.of({cpu: (0, 0, cpu // siblings, 0) for cpu in cpus})
    free = near.cpus - CPUSet.parse(busy)
    for number in range(1, len(order)):
        plain = take(near, free, number, strategy="spread")
        assert plain == CPUSet(sorted(free)[:number])
        fixed = take(near, free, number, strategy="spread", release="1.37+spread-over-cores")
        assert fixed == CPUSet(order[:number]), number


def test_which_cpus_of_a_large_enough_uncore_cache_the_fix_takes_is_not_known() -> None:
    """kubernetes/kubernetes#137583 for #137315: the pull request's rule is not public enough to
    model, so the case in which it would matter is refused and all others are as without it."""
    topology = CPUTopology.of({cpu: (0, 0, cpu % 8, cpu % 8 // 4) for cpu in range(16)})
    fixed = "1.37+uncore-best-fit"
    with pytest.raises(NotModelled, match="uncore-best-fit"):
        take(topology, CPUSet.parse("3,5,7,11-15"), 5, strategy="uncore", release=fixed)
    whole = take(topology, topology.cpus, 8, strategy="uncore", release=fixed)
    assert str(whole) == "0-3,8-11"
