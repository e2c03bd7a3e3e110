"""The grammar of described machines."""

from __future__ import annotations

import pytest

from topologies import BadSpec
from topologies.cpulist import bits
from topologies.spec import parse


def test_totals_and_every_suffix_at_once() -> None:
    spec = parse("2s-4n-64c-smt2")
    assert (spec.sockets, spec.nodes, spec.cores, spec.threads) == (2, 4, 64, 2)
    assert spec.present == bits(range(128))
    assert str(spec) == "2s-4n-64c-smt2"
    text = "2s-4n-16c-smt2-near-interleaved-l3x2-cpustep2-pkgstep3-nodestep8-mem1-off2,4-6,20"
    spec = parse(text.replace("off2,4-6,20", "off2,4,6,20"))
    assert (spec.near, spec.interleaved, spec.caches) == (True, True, 2)
    assert (spec.cpu_step, spec.package_step, spec.node_step, spec.memory_nodes) == (2, 3, 8, 1)
    assert spec.offline == bits([2, 4, 6, 20])


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("2s-2n-8c-smt2-off3,7-9-mem1-l3x2-near", "2s-2n-8c-smt2-near-l3x2-mem1-off3,7-9"),
        ("1s-1n-4c-smt1-near", "1s-1n-4c-smt1"),
        ("1s-1n-4c-smt2-interleaved", "1s-1n-4c-smt2"),
        ("2s-2n-4c-smt2-l3x1", "2s-2n-4c-smt2"),
        ("2s-2n-4c-smt2-l3s", "2s-2n-4c-smt2"),
        ("2s-2n-4c-smt2-mem0-cpustep1", "2s-2n-4c-smt2"),
        ("02s-2n-4c-smt2", "2s-2n-4c-smt2"),
        ("2s-2n-4c-smt2-off3,1-2", "2s-2n-4c-smt2-off1-3"),
        ("2s-4n-8c-smt1-l3s", "2s-4n-8c-smt1-l3s"),
        ("1s-1n-4c-smt2-e0", "1s-1n-4c-smt2"),
        ("1s-1n-4c-smt8-near-ppc64", "1s-1n-4c-smt8-ppc64"),
        ("2s-2n-8c-smt1-drawers1-books2-s390x", "2s-2n-8c-smt1-s390x-books2"),
    ],
)
def test_the_order_is_one_and_what_changes_nothing_is_dropped(given: str, canonical: str) -> None:
    assert str(parse(given)) == canonical
    assert parse(canonical) == parse(given)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1s-3n-128c-smt2", [[43, 43, 42]]),
        ("2s-6n-256c-smt2", [[43, 43, 42], [43, 43, 42]]),
        ("2s-4n-30c-smt8-ppc64", [[8, 7], [8, 7]]),
        ("4s-2n-6c-smt1", [[2], [2], [1], [1]]),
        ("2s-2n-5c-smt1", [[3], [2]]),
    ],
)
def test_cores_spread_as_evenly_as_they_can_the_larger_parts_first(
    text: str, parts: list[list[int]]
) -> None:
    assert parse(text).parts == parts


def test_small_cores_have_one_thread() -> None:
    assert parse("1s-1n-14c-smt2-e8").present == bits(range(20))
    assert parse("1s-1n-288c-smt1-e288").cpus == 288


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a spec starts like"),
        ("2s-2n-16c", "a spec starts like"),
        ("0s-1n-4c-smt1", "at least 1"),
        ("2s-3n-12c-smt1", "3 NUMA nodes do not spread evenly over 2 sockets"),
        ("2s-4n-3c-smt1", "3 cores are too few for 4 NUMA nodes"),
        ("4s-2n-3c-smt1", "3 cores are too few for 4 sockets"),
        ("1s-1n-4c-smt2-e5", "5 of 4 cores cannot be small"),
        ("1s-1n-4c-smt2-e4", "small cores have one thread: smt1"),
        ("2s-2n-4c-smt2-e2", "cores of two kinds are described in one socket"),
        ("1s-1n-4c-smt1-arm64-e2", "only descriptions of x86 have small cores, not of arm64"),
        ("1s-1n-4c-smt1-arm64-ppc64", "'ppc64' repeats"),
        ("1s-1n-4c-smt1-riscv64", "'riscv64' is not a suffix"),
        ("1s-1n-4c-smt8-ppc64-l3x2", "on ppc64 each core has an L3 of its own"),
        ("1s-1n-4c-smt1-books2", "books and drawers are of s390x"),
        ("2s-1n-4c-smt1-s390x", "s390x shows no NUMA nodes"),
        ("1s-1n-4c-smt1-s390x-mem1", "s390x shows no NUMA nodes"),
        ("1s-1n-4c-smt1-s390x-off1", "neither caches nor offline CPUs are described on s390x"),
        ("2s-2n-4c-smt1-s390x-drawers2", "as many books as drawers"),
        ("2s-2n-6c-smt1-l3x4", "3 cores are too few for 4 L3 caches"),
        ("1s-1n-9000c-smt1", "Linux stops at CPU 8191"),
        ("1s-1n-4096c-smt1-cpustep3", "Linux stops at CPU 8191"),
        ("1s-1n-1c-smt1-mem1024", "Linux stops at NUMA node 1023"),
        ("1s-1n-4c-smt1-off4", "it has no CPU 4"),
        ("1s-1n-4c-smt1-cpustep2-off1", "it has no CPU 1"),
        ("1s-1n-4c-smt1-off0-3", "no CPU would be online"),
        ("1s-1n-4c-smt1-off3-1", "not a CPU list"),
        ("1s-1n-4c-smt1-off", "'off' is not a suffix"),
        ("1s-1n-4c-smt1-off1-off2", "'off2' repeats"),
        ("1s-1n-4c-smt2-l3s-l3x2", "'l3x2' repeats"),
        ("1s-1n-4c-smt1-l3x0", "l3x0 means nothing"),
        ("1s-1n-4c-smt1-cpustep0", "cpustep0 means nothing"),
        ("1s-1n-4c-smt1-farther", "'farther' is not a suffix"),
        ("1s-1n-4c-smt1-", "'' is not a suffix"),
        ("1s-1n-4c-smt1\n", "a spec starts like"),
        ("1s-1n-٤c-smt1", "a spec starts like"),
    ],
)
def test_what_cannot_be_says_why_in_a_line(text: str, reason: str) -> None:
    with pytest.raises(BadSpec) as raised:
        parse(text)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.spec == text
