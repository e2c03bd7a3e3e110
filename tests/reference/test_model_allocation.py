"""The allocator: results that were stated by hand, recorded from real kubelets, and laws."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import AllocationError, CPUSet, CPUTopology, NotEnoughCPUs, NotModelled
from reference import take_by_topology as take

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden"


def smt(cores: int, *, numa: int, socket: int, uncore: int = 10**6) -> CPUTopology:
    """Cores {i, i + cores}; ``numa``, ``socket``, ``uncore``: how many cores each holds."""
    return CPUTopology.of(
        {
            cpu: (cpu % cores // numa, cpu % cores // socket, cpu % cores, cpu % cores // uncore)
            for cpu in range(2 * cores)
        }
    )


MACHINES = {
    "A": smt(4, numa=4, socket=4),
    "B": CPUTopology.of({cpu: (0, 0, cpu // 2, 0) for cpu in range(8)}),
    "C": smt(8, numa=4, socket=4),
    "D": smt(8, numa=2, socket=4),
    "E": smt(8, numa=4, socket=2),
}


@pytest.mark.parametrize(
    ("machine", "busy", "results"),
    [
        ("A", "", "1:0 2:0,4 3:0-1,4 4:0-1,4-5 5:0-2,4-5 8:0-7"),
        ("A", "0", "1:4 2:1,5 3:1,4-5 6:1-3,5-7"),
        ("A", "0,4", "1:1 2:1,5 3:1-2,5 4:1-2,5-6"),
        ("A", "0,5", "1:4 2:2,6 3:2,4,6"),
        ("B", "", "1:0 2:0-1 3:0-2"),
        ("B", "0", "2:2-3 3:1-3"),
        ("C", "", "2:0,8 8:0-3,8-11 9:0-4,8-11 10:0-4,8-12"),
        ("C", "0", "1:8 2:1,9 8:4-7,12-15 9:4-8,12-15"),
        ("C", "0,8", "1:1 2:1,9 6:1-3,9-11 7:1-4,9-11 8:4-7,12-15"),
        ("C", "4-7", "1:12 2:0,8 5:0-2,8-9"),
        ("D", "", "2:0,8 4:0-1,8-9 5:0-2,8-9 8:0-3,8-11 10:0-4,8-12"),
        ("D", "0", "1:8 2:1,9 4:2-3,10-11 8:4-7,12-15"),
        ("D", "4,12", "2:5,13 4:6-7,14-15 6:5-7,13-15"),
        ("E", "", "2:0,8 4:0-1,8-9 5:0-2,8-9 8:0-3,8-11 10:0-4,8-12"),
        ("E", "0", "1:8 2:1,9 4:2-3,10-11 8:4-7,12-15"),
        ("E", "4,12", "2:5,13 4:6-7,14-15 6:5-7,13-15"),
    ],
)
def test_packed_results_of_real_kubelets(machine: str, busy: str, results: str) -> None:
    topology = MACHINES[machine]
    free = topology.cpus - CPUSet.parse(busy)
    for row in results.split():
        number, _, expected = row.partition(":")
        assert str(take(topology, free, int(number))) == expected, row


UNEVEN = CPUTopology.of({cpu: (0, 0, cpu % 4, 0) for cpu in range(7)})


@pytest.mark.parametrize(
    ("free", "number", "expected"),
    [("0-6", 1, "3"), ("2,5-6", 2, "1,5"), ("0-2,4-6", 2, "0,4"), ("1-2,5-6", 1, "1")],
)
def test_an_uneven_machine_hands_out_what_the_kubelet_hands_out(
    free: str, number: int, expected: str
) -> None:
    assert str(take(UNEVEN, CPUSet.parse(free), number)) == expected


def test_two_uneven_sockets_in_one_numa_node_give_a_busy_cpu_away() -> None:
    one_node = CPUTopology.of({cpu: (0, cpu // 8, cpu, 0) for cpu in range(14)})
    two_nodes = CPUTopology.of({cpu: (cpu // 8, cpu // 8, cpu, 0) for cpu in range(14)})
    free = CPUSet.parse("1-13")
    assert str(take(one_node, free, 9)) == "0-8"
    assert str(take(two_nodes, free, 9)) == "1-3,8-13"


def test_a_refusal_states_the_numbers_from_129_on() -> None:
    machine = MACHINES["A"]
    with pytest.raises(NotEnoughCPUs) as caught:
        take(machine, machine.cpus, 9)
    assert (caught.value.requested, caught.value.available) == (9, 8)
    assert str(caught.value) == (
        "not enough cpus available to satisfy request: requested=9, available=8"
    )
    with pytest.raises(NotEnoughCPUs) as caught:
        take(machine, machine.cpus, 9, release="1.28")
    assert str(caught.value) == "not enough cpus available to satisfy request"


def test_available_counts_cpus_that_the_machine_does_not_have() -> None:
    with pytest.raises(NotEnoughCPUs, match="requested=3, available=4"):
        take(MACHINES["A"], CPUSet.parse("0-1,100-101"), 3)


@pytest.mark.parametrize("number", [0, -1])
def test_less_than_one_cpu_is_none(number: int) -> None:
    assert take(MACHINES["A"], CPUSet(), number) == CPUSet()


@pytest.mark.parametrize(("strategy", "release"), [("packed", "1.21"), ("nonsense", "1.36")])
def test_what_is_not_modelled_is_said(strategy: str, release: str) -> None:
    with pytest.raises(NotModelled):
        take(MACHINES["A"], MACHINES["A"].cpus, 1, strategy=strategy, release=release)


@st.composite
def even_machines(draw: st.DrawFn) -> CPUTopology:
    sockets, nodes = draw(st.sampled_from([(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 2), (4, 4)]))
    cores = max(sockets, nodes) * draw(st.integers(1, 4))
    threads = draw(st.integers(1, 4))
    near = draw(st.booleans())
    places = {}
    for core in range(cores):
        for thread in range(threads):
            cpu = core * threads + thread if near else thread * cores + core
            numa, socket = core * nodes // cores, core * sockets // cores
            places[cpu] = (numa, socket, core, socket)
    return CPUTopology.of(places)


@given(even_machines(), st.data())
def test_on_an_even_machine_just_free_cpus_are_taken(
    topology: CPUTopology, data: st.DataObject
) -> None:
    free = CPUSet(data.draw(st.sets(st.sampled_from(sorted(topology.details)))))
    number = data.draw(st.integers(0, len(topology.details) + 1))
    try:
        taken = take(topology, free, number)
    except NotEnoughCPUs:
        assert number > len(free)
        return
    assert taken <= free
    assert len(taken) == number


@given(even_machines(), st.data())
def test_whole_cores_stay_whole_on_an_idle_machine(
    topology: CPUTopology, data: st.DataObject
) -> None:
    cores = data.draw(st.integers(1, topology.num_cores))
    taken = take(topology, topology.cpus, cores * topology.cpus_per_core)
    assert topology.with_siblings(taken) == taken


def _rows() -> Iterable[dict[str, object]]:
    path = GOLDEN / "kubelet-allocations.jsonl.gz"
    if not path.exists():
        pytest.skip(f"golden data is not here: {path.name}")
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("release", ["1.22", "1.26", "1.32", "1.36", "1.37"])
def test_every_packed_row_recorded_from_a_real_kubelet(release: str) -> None:
    rows = [row for row in _rows() if row["strategy"] == "packed"]
    tables = json.loads((GOLDEN / "kubelet-topologies.json").read_text())
    machines = {
        table["topology"]: CPUTopology.of({int(c): tuple(p) for c, p in table["cpus"].items()})
        for table in tables
    }
    wrong = []
    for row in rows:
        machine, free = machines[row["topology"]], CPUSet.parse(str(row["available"]))
        result: object
        try:
            result = str(take(machine, free, int(str(row["cpus"])), release=release))
        except AllocationError as error:
            result = {"error": str(error)}
        if result != row[f"v{release}"]:
            wrong.append((row["topology"], row["available"], row["cpus"], result))
    assert len(rows) > 600
    assert wrong == []
