"""Topology hints: the lists here were recorded from 1.36.2's own ``generateCPUTopologyHints``."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import CPUSet, CPUTopology, NotModelled
from reference.cpumanager.state.state_mem import State
from reference.cpumanager.topology_hints import (
    aligned,
    cpu_hints,
    hints_for,
    pod_exclusive_cpus,
)
from reference.steps import Container, Kind, Pod
from reference.topologymanager.hint import ANY, Hint


def smt(cores: int, numa: int, sockets: int) -> CPUTopology:
    """Cores ``{i, i + cores}``, spread evenly over NUMA nodes and sockets."""
    return CPUTopology.of(
        {
            cpu: (
                cpu % cores * numa // cores,
                cpu % cores * sockets // cores,
                cpu % cores,
                cpu % cores * sockets // cores,
            )
            for cpu in range(2 * cores)
        }
    )


ONE = smt(4, 1, 1)
TWO = smt(8, 2, 2)
FOUR = smt(8, 4, 2)  # two NUMA nodes in each socket
WIDE = smt(8, 2, 4)  # two sockets in each NUMA node


def texts(hints: list[Hint] | None) -> str:
    """``0 P · 01``: the nodes of each hint, P where it is preferred."""
    assert hints is not None
    return " · ".join(
        "".join(map(str, CPUSet.of_mask(one.nodes or 0))) + (" P" if one.preferred else "")
        for one in hints
    )


TRIPLES = "012 · 013 · 023 · 123"
PAIRS_PREFERRED = "01 P · 02 P · 03 P · 12 P · 13 P · 23 P"


@pytest.mark.parametrize(
    ("topology", "available", "reusable", "count", "by_socket", "expected"),
    [
        (TWO, "0-15", "", 2, False, "0 P · 1 P · 01"),
        (TWO, "1-15", "", 8, False, "1 P · 01"),
        (TWO, "0-1,4", "", 2, False, "0 P · 01"),
        (TWO, "0-1,4", "", 3, False, "01"),
        (TWO, "4-15", "0", 2, False, "0 P · 01"),
        (TWO, "0-15", "", 9, False, "01 P"),
        (TWO, "0-3", "", 8, False, ""),
        (
            FOUR, "0,2,4,6", "", 2, False,
            f"01 · 02 · 03 · 12 · 13 · 23 · {TRIPLES} · 0123",
        ),
        (FOUR, "0-15", "", 5, False, f"{PAIRS_PREFERRED} · {TRIPLES} · 0123"),
        (FOUR, "0-15", "", 5, True, f"{PAIRS_PREFERRED} · {TRIPLES} · 0123"),
        (
            FOUR, "0-15", "", 2, True,
            f"0 P · 1 P · 2 P · 3 P · 01 P · 02 · 03 · 12 · 13 · 23 P · {TRIPLES} · 0123",
        ),
        (FOUR, "0-15", "", 9, True, "012 P · 013 P · 023 P · 123 P · 0123 P"),
        (ONE, "0-7", "", 3, False, "0 P"),
    ],
)  # fmt: skip
def test_recorded_hints(
    topology: CPUTopology,
    available: str,
    reusable: str,
    count: int,
    by_socket: bool,
    expected: str,
) -> None:
    """``generateCPUTopologyHints`` of 1.36.2, masks in its order."""
    hints = cpu_hints(
        topology,
        CPUSet.parse(available),
        CPUSet.parse(reusable),
        count,
        release="1.36",
        align_by_socket=by_socket,
    )
    assert texts(hints) == expected


def test_more_cpus_than_the_machine_has() -> None:
    """``policy_static.go``, 1.36: no hint at all, whatever could be preferred."""
    assert cpu_hints(TWO, TWO.cpus, CPUSet(), 17) == []


def test_align_by_socket_needs_a_node_for_every_socket() -> None:
    """With fewer NUMA nodes than sockets the integer division gives 0, and the rule is off
    (``isHintSocketAligned``, 1.25 to 1.37)."""
    assert texts(cpu_hints(WIDE, WIDE.cpus, CPUSet(), 2, align_by_socket=True)) == "0 P · 1 P · 01"


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("1.17", f"01 P · 02 · 03 · 12 · 13 · 23 P · {TRIPLES} · 0123"),
        ("1.19.8", f"01 P · 02 · 03 · 12 · 13 · 23 P · {TRIPLES} · 0123"),
        ("1.19.9", f"{PAIRS_PREFERRED} · {TRIPLES} · 0123"),
        ("1.19", f"{PAIRS_PREFERRED} · {TRIPLES} · 0123"),
        ("1.20", f"{PAIRS_PREFERRED} · {TRIPLES} · 0123"),
    ],
)
def test_sockets_counted_once(release: str, expected: str) -> None:
    """Before 1.20 and 1.19.9 a pair across two sockets was not preferred (PR 90980)."""
    assert texts(cpu_hints(FOUR, FOUR.cpus, CPUSet(), 5, release=release)) == expected


def test_sockets_counted_where_every_node_is_needed() -> None:
    """Where no smaller set holds the request, all sockets are what is asked for (1.17.17)."""
    assert texts(cpu_hints(FOUR, FOUR.cpus, CPUSet(), 13, release="1.17")) == "0123 P"
    assert texts(cpu_hints(WIDE, WIDE.cpus, CPUSet(), 9, release="1.17")) == "01 P"


def test_too_many_nodes_are_refused() -> None:
    """2 to the 21 hints: the kubelet makes them (issue 135541), the model says no."""
    many = CPUTopology.of({cpu: (cpu, 0, cpu, 0) for cpu in range(21)})
    with pytest.raises(NotModelled, match="topology hints on 21 NUMA nodes"):
        cpu_hints(many, many.cpus, CPUSet(), 1)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(1, 17), st.booleans())
def test_what_a_hint_promises(free: int, again: int, count: int, by_socket: bool) -> None:
    """Its nodes hold the request and all reusable CPUs, a larger set does so too, and of those of
    one size either all are preferred or none, but for align-by-socket."""
    available, reusable = CPUSet.of_mask(free & ~again), CPUSet.of_mask(again & 0x000F)
    available -= reusable
    hints = cpu_hints(FOUR, available, reusable, count, align_by_socket=by_socket)
    by_nodes = {one.nodes: one for one in hints}
    for hint in hints:
        inside = aligned(FOUR, available | reusable, hint)
        assert reusable <= inside
        assert len(inside) >= count
        assert 0b1111 in by_nodes
    if not by_socket:
        for size in range(1, 5):
            alike = {one.preferred for one in hints if one.nodes and one.nodes.bit_count() == size}
            assert len(alike) < 2


# -- containers and pods ---------------------------------------------------------------------


def pod_of(**kinds: Kind) -> Pod:
    """A pod with these containers."""
    return Pod("p", tuple(Container(name, kind=kind) for name, kind in kinds.items()))


def state_of(default: str, pod: Pod, **held: str) -> State:
    """A state with this default set, and these entries of the pod."""
    state = State("static")
    state.default = CPUSet.parse(default)
    state.entries = {pod.uid: {name: CPUSet.parse(cpus) for name, cpus in held.items()}}
    return state


APP = pod_of(c=Kind.APP)


def of_container(
    state: State, count: int, *, reserved: str = "0", again: str = ""
) -> list[Hint] | None:
    """Hints of container ``c``."""
    reusable = CPUSet.parse(again)
    return hints_for(TWO, state, CPUSet.parse(reserved), reusable, APP.uid, count, {"c": count})


def test_who_gets_no_cpus_has_no_preference() -> None:
    """``GetTopologyHints`` returns nil (1.16 to 1.37), which is not the empty list."""
    assert of_container(state_of("0-15", APP), 0) is None


def test_reserved_cpus_are_not_available() -> None:
    """Node 0 has eight CPUs, one of them reserved."""
    assert texts(of_container(state_of("0-15", APP), 8)) == "1 P · 01"
    assert texts(of_container(state_of("0-15", APP), 8, reserved="")) == "0 P · 1 P · 01"


def test_reusable_cpus_must_be_inside() -> None:
    """Those of an init container of the same pod (``cpusToReuse``, 1.18 to 1.37)."""
    assert texts(of_container(state_of("0-3,5-15", APP), 1, again="4")) == "1 P · 01"


def test_what_is_held_is_all_there_is() -> None:
    """After a restart of the kubelet: the same hints, whatever is free or reusable."""
    held = state_of("0-3,6-11,14-15", APP, c="4-5,12-13")
    assert texts(of_container(held, 4, again="0")) == "1 P · 01"
    assert texts(of_container(state_of("0,2-8,10-15", APP, c="1,9"), 2)) == "0 P · 01"


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_than_is_held_is_impossible(count: int) -> None:
    """The empty list, which all policies but best-effort and none refuse."""
    assert of_container(state_of("0,2-8,10-15", APP, c="1,9"), count) == []


TRIO = pod_of(setup=Kind.INIT, a=Kind.APP, b=Kind.APP)


def of_pod(state: State, counts: Mapping[str, int], *, again: str = "") -> list[Hint] | None:
    """Hints of the pod with an init and two app containers."""
    count = pod_exclusive_cpus(TRIO, counts)
    every = {one.name: counts.get(one.name, 0) for one in TRIO.containers}
    return hints_for(TWO, state, CPUSet([0]), CPUSet.parse(again), TRIO.uid, count, every)


def test_a_pod_asks_for_all_its_containers() -> None:
    """Two containers of four CPUs do not fit the node with the reserved one."""
    assert texts(of_pod(state_of("0-15", TRIO), {"a": 4, "b": 4})) == "1 P · 01"
    assert of_pod(state_of("0-15", TRIO), {}) is None


def test_a_pod_that_holds_all_gets_just_that() -> None:
    """``GetPodTopologyHints``, 1.20 to 1.37: the init container's CPUs are the app's."""
    state = state_of("0-4,6-11,13-15", TRIO, setup="5,13", a="5,13", b="12")
    assert texts(of_pod(state, {"setup": 2, "a": 2, "b": 1})) == "1 P · 01"


def test_a_pod_that_holds_a_part_keeps_it() -> None:
    """The rest may come from anywhere, and the part must be inside."""
    state = state_of("0-4,6-11,13-15", TRIO, a="5")
    assert texts(of_pod(state, {"a": 1, "b": 2})) == "1 P · 01"


def test_a_pod_with_one_container_of_another_size_is_impossible() -> None:
    """A container with an entry that is to get none counts as one of another size."""
    state = state_of("0-4,6-11,13-15", TRIO, a="5", b="12")
    assert of_pod(state, {"a": 1, "b": 2}) == []
    assert of_pod(state, {"a": 1}) == []


SIDE = pod_of(first=Kind.INIT, side=Kind.SIDECAR, last=Kind.INIT, app=Kind.APP)


@pytest.mark.parametrize(
    ("counts", "now", "before"),
    [
        ({"app": 2}, 2, 2),
        ({"first": 3, "app": 2}, 3, 3),
        ({"side": 1, "app": 2}, 3, 2),
        ({"side": 1, "last": 3, "app": 2}, 4, 3),
        ({"first": 4, "side": 1, "app": 2}, 4, 4),
        ({"side": 5}, 5, 5),
        ({}, 0, 0),
    ],
)
def test_how_many_a_pod_needs(counts: Mapping[str, int], now: int, before: int) -> None:
    """Sidecars run beside all that comes after them (KEP-753, 1.29); up to 1.28 an init container
    was an init container (``podGuaranteedCPUs``)."""
    assert pod_exclusive_cpus(SIDE, counts, release="1.29") == now
    assert pod_exclusive_cpus(SIDE, counts, release="1.28") == before


# -- what a mask means -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "nodes", "by_socket", "expected"),
    [
        (FOUR, 0b0001, False, "0-1,8-9"),
        (FOUR, 0b0001, True, "0-3,8-11"),
        (FOUR, 0b0110, False, "2-5,10-13"),
        (FOUR, 0b0110, True, "0-15"),
        (FOUR, 0b110001, False, "0-1,8-9"),
        (WIDE, 0b01, True, "0-3,8-11"),
        (FOUR, ANY, False, ""),
    ],
)
def test_aligned_cpus(
    topology: CPUTopology, nodes: int | None, by_socket: bool, expected: str
) -> None:
    """``getAlignedCPUs``, 1.25 to 1.37: by NUMA node, or by every socket that one of them
    touches."""
    hint = Hint(nodes, preferred=True)
    assert str(aligned(topology, topology.cpus, hint, align_by_socket=by_socket)) == expected


def test_only_available_cpus_are_aligned() -> None:
    """And none without a hint."""
    hint = Hint(0b01, preferred=False)
    assert str(aligned(TWO, CPUSet.parse("2-5"), hint)) == "2-3"
    assert aligned(TWO, TWO.cpus, None) == CPUSet()


def test_a_hint_as_text() -> None:
    """For a person."""
    assert str(Hint(0b101, preferred=True)) == "0,2 preferred"
    assert str(Hint(ANY, preferred=False)) == "any"
