"""Topology hints: the lists here were recorded from 1.36.2's own ``generateCPUTopologyHints``."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import CPUSet, CPUTopology, NotModelled
from reference.cpumanager.state.state_mem import State
from reference.cpumanager.topology_hints import aligned, cpu_hints, hints_for, pod_exclusive_cpus
from reference.steps import Container, Kind, Pod
from reference.topologymanager.hint import ANY, Hint
from tests.reference.nodes import even, hint_text

ONE = even(4, 1, 1)
TWO = even(8, 2, 2)
FOUR = even(8, 4, 2)  # two NUMA nodes in each socket
WIDE = even(8, 2, 4)  # two sockets in each NUMA node


def texts(hints: list[Hint] | None) -> str:
    assert hints is not None
    return ", ".join(map(hint_text, hints))


TRIPLES = "012, 013, 023, 123"
PAIRS_PREFERRED = "01 P, 02 P, 03 P, 12 P, 13 P, 23 P"


@pytest.mark.parametrize(
    ("topology", "available", "reusable", "count", "by_socket", "expected"),
    [
        (TWO, "0-15", "", 2, False, "0 P, 1 P, 01"),
        (TWO, "1-15", "", 8, False, "1 P, 01"),
        (TWO, "0-1,4", "", 2, False, "0 P, 01"),
        (TWO, "0-1,4", "", 3, False, "01"),
        (TWO, "4-15", "0", 2, False, "0 P, 01"),
        (TWO, "0-15", "", 9, False, "01 P"),
        (TWO, "0-3", "", 8, False, ""),
        # More than the machine has: no hint at all, whatever could be preferred.
        (TWO, "0-15", "", 17, False, ""),
        (FOUR, "0,2,4,6", "", 2, False, f"01, 02, 03, 12, 13, 23, {TRIPLES}, 0123"),
        (FOUR, "0-15", "", 5, False, f"{PAIRS_PREFERRED}, {TRIPLES}, 0123"),
        (FOUR, "0-15", "", 5, True, f"{PAIRS_PREFERRED}, {TRIPLES}, 0123"),
        (FOUR, "0-15", "", 2, True,
         f"0 P, 1 P, 2 P, 3 P, 01 P, 02, 03, 12, 13, 23 P, {TRIPLES}, 0123"),
        (FOUR, "0-15", "", 9, True, "012 P, 013 P, 023 P, 123 P, 0123 P"),
        # With fewer NUMA nodes than sockets the integer division gives 0, and the rule is off
        # (``isHintSocketAligned``, 1.25 to 1.37).
        (WIDE, "0-15", "", 2, True, "0 P, 1 P, 01"),
        (ONE, "0-7", "", 3, False, "0 P"),
    ],
)  # fmt: skip
def test_recorded_hints(
    topology: CPUTopology, available: str, reusable: str, count: int, by_socket: bool, expected: str
) -> None:
    """``generateCPUTopologyHints`` of 1.36.2, masks in its order."""
    free, again = CPUSet.parse(available), CPUSet.parse(reusable)
    hints = cpu_hints(topology, free, again, count, release="1.36", align_by_socket=by_socket)
    assert texts(hints) == expected


@pytest.mark.parametrize(
    ("releases", "pairs"),
    [
        (["1.17", "1.19.8"], "01 P, 02, 03, 12, 13, 23 P"),
        (["1.19.9", "1.19", "1.20"], PAIRS_PREFERRED),
    ],
)
def test_sockets_counted_once(releases: list[str], pairs: str) -> None:
    """Before 1.20 and 1.19.9 a pair across two sockets was not preferred (PR 90980). Where no
    smaller set holds the request, all sockets are what is asked for (1.17.17)."""
    for release in releases:
        hints = cpu_hints(FOUR, FOUR.cpus, CPUSet(), 5, release=release)
        assert texts(hints) == f"{pairs}, {TRIPLES}, 0123", release
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
    return Pod("p", tuple(Container(name, kind=kind) for name, kind in kinds.items()))


def state_of(default: str, pod: Pod, **held: str) -> State:
    state = State("static")
    state.default = CPUSet.parse(default)
    state.entries = {pod.uid: {name: CPUSet.parse(cpus) for name, cpus in held.items()}}
    return state


APP = pod_of(c=Kind.APP)


@pytest.mark.parametrize(
    ("default", "held", "count", "reserved", "again", "expected"),
    [
        # Who gets no CPUs has no preference, which is not the empty list.
        ("0-15", {}, 0, "0", "", None),
        # Reserved CPUs are not available: node 0 has eight CPUs, one of them reserved.
        ("0-15", {}, 8, "0", "", "1 P, 01"),
        ("0-15", {}, 8, "", "", "0 P, 1 P, 01"),
        # CPUs of an init container of the same pod must be inside (``cpusToReuse``, from 1.18 on).
        ("0-3,5-15", {}, 1, "0", "4", "1 P, 01"),
        # After a restart what is held is all there is, whatever is free or reusable.
        ("0-3,6-11,14-15", {"c": "4-5,12-13"}, 4, "0", "0", "1 P, 01"),
        ("0,2-8,10-15", {"c": "1,9"}, 2, "0", "", "0 P, 01"),
        # Another number than is held: the empty list, which all policies but best-effort and none
        # refuse.
        ("0,2-8,10-15", {"c": "1,9"}, 1, "0", "", ""),
        ("0,2-8,10-15", {"c": "1,9"}, 3, "0", "", ""),
    ],
)
def test_hints_of_a_container(
    default: str, held: dict[str, str], count: int, reserved: str, again: str, expected: str | None
) -> None:
    """``GetTopologyHints``, 1.16 to 1.37."""
    state, reusable = state_of(default, APP, **held), CPUSet.parse(again)
    uid, counts = APP.uid, {"c": count}
    hints = hints_for(TWO, state, CPUSet.parse(reserved), reusable, uid, count, counts)
    assert hints is None if expected is None else texts(hints) == expected


TRIO = pod_of(setup=Kind.INIT, a=Kind.APP, b=Kind.APP)


@pytest.mark.parametrize(
    ("default", "held", "counts", "expected"),
    [
        # Two containers of four CPUs do not fit the node with the reserved one.
        ("0-15", {}, {"a": 4, "b": 4}, "1 P, 01"),
        ("0-15", {}, {}, None),
        # A pod that holds all gets just that: the init container's CPUs are the app's.
        ("0-4,6-11,13-15", {"setup": "5,13", "a": "5,13", "b": "12"},
         {"setup": 2, "a": 2, "b": 1}, "1 P, 01"),
        # One that holds a part keeps it: the part must be inside, the rest may be anywhere.
        ("0-4,6-11,13-15", {"a": "5"}, {"a": 1, "b": 2}, "1 P, 01"),
        # One container of another size, as one with an entry that is to get none.
        ("0-4,6-11,13-15", {"a": "5", "b": "12"}, {"a": 1, "b": 2}, ""),
        ("0-4,6-11,13-15", {"a": "5", "b": "12"}, {"a": 1}, ""),
    ],
)  # fmt: skip
def test_hints_of_a_pod(
    default: str, held: dict[str, str], counts: Mapping[str, int], expected: str | None
) -> None:
    """``GetPodTopologyHints``, 1.20 to 1.37: all its containers, one init and two of the app."""
    count = pod_exclusive_cpus(TRIO, counts)
    every = {one.name: counts.get(one.name, 0) for one in TRIO.containers}
    state = state_of(default, TRIO, **held)
    hints = hints_for(TWO, state, CPUSet([0]), CPUSet(), TRIO.uid, count, every)
    assert hints is None if expected is None else texts(hints) == expected


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
    touches. Only available ones, and none without a hint."""
    hint = Hint(nodes, preferred=True)
    found = aligned(topology, topology.cpus, hint, align_by_socket=by_socket)
    assert str(found) == expected
    few = CPUSet.parse("2-5")
    assert aligned(topology, few, hint, align_by_socket=by_socket) == found & few
    assert aligned(topology, topology.cpus, None, align_by_socket=by_socket) == CPUSet()


def test_a_hint_as_text() -> None:
    assert str(Hint(0b101, preferred=True)) == "0,2 preferred"
    assert str(Hint(ANY, preferred=False)) == "any"
