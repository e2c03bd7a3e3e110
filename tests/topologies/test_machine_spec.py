"""The grammar of described machines."""

from __future__ import annotations

import pytest

from topologies import BadSpec
from topologies.cpulist import bits
from topologies.spec import parse


def test_totals() -> None:
    spec = parse("2s-4n-64c-smt2")
    assert (spec.sockets, spec.nodes, spec.cores, spec.threads) == (2, 4, 64, 2)
    assert spec.present == bits(range(128))
    assert str(spec) == "2s-4n-64c-smt2"


def test_every_suffix_at_once() -> None:
    text = "2s-4n-16c-smt2-near-interleaved-l3x2-cpustep2-pkgstep3-nodestep8-mem1-off2,4-6,20"
    spec = parse(text.replace("off2,4-6,20", "off2,4,6,20"))
    assert (spec.near, spec.interleaved, spec.caches) == (True, True, 2)
    assert (spec.cpu_step, spec.package_step, spec.node_step, spec.memory_nodes) == (2, 3, 8, 1)
    assert spec.offline == bits([2, 4, 6, 20])


def test_the_canonical_order_is_one() -> None:
    spec = parse("2s-2n-8c-smt2-off3,7-9-mem1-l3x2-near")
    assert str(spec) == "2s-2n-8c-smt2-near-l3x2-mem1-off3,7-9"
    assert parse(str(spec)) == spec


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("1s-1n-4c-smt1-near", "1s-1n-4c-smt1"),
        ("1s-1n-4c-smt2-interleaved", "1s-1n-4c-smt2"),
        ("2s-2n-4c-smt2-l3x1", "2s-2n-4c-smt2"),
        ("2s-2n-4c-smt2-l3s", "2s-2n-4c-smt2"),
        ("2s-2n-4c-smt2-mem0-cpustep1", "2s-2n-4c-smt2"),
        ("02s-2n-4c-smt2", "2s-2n-4c-smt2"),
        ("2s-2n-4c-smt2-off3,1-2", "2s-2n-4c-smt2-off1-3"),
        ("2s-4n-8c-smt1-l3s", "2s-4n-8c-smt1-l3s"),
    ],
)
def test_what_changes_nothing_is_dropped(given: str, canonical: str) -> None:
    assert str(parse(given)) == canonical


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a spec starts like"),
        ("2s-2n-16c", "a spec starts like"),
        ("0s-1n-4c-smt1", "at least 1"),
        ("2s-3n-12c-smt1", "3 NUMA nodes do not spread evenly over 2 sockets"),
        ("2s-4n-6c-smt1", "6 cores do not spread evenly over 4 NUMA nodes"),
        ("4s-2n-6c-smt1", "6 cores do not spread evenly over 4 sockets"),
        ("2s-2n-12c-smt1-l3x4", "6 cores do not spread evenly over 4 L3 caches"),
        ("1s-1n-9000c-smt1", "Linux stops at CPU 8191"),
        ("1s-1n-4096c-smt1-cpustep3", "Linux stops at CPU 8191"),
        ("1s-1n-1c-smt1-mem1024", "Linux stops at NUMA node 1023"),
        ("1s-1n-4c-smt1-off4", "it has no CPU 4"),
        ("1s-1n-4c-smt1-cpustep2-off1", "it has no CPU 1"),
        ("1s-1n-4c-smt1-off0-3", "no CPU would be online"),
        ("1s-1n-4c-smt1-off3-1", "not a CPU list"),
        ("1s-1n-4c-smt1-off", "'off' is no suffix"),
        ("1s-1n-4c-smt1-off1-off2", "'off2' says again"),
        ("1s-1n-4c-smt2-l3s-l3x2", "'l3x2' says again"),
        ("1s-1n-4c-smt1-l3x0", "l3x0 means nothing"),
        ("1s-1n-4c-smt1-cpustep0", "cpustep0 means nothing"),
        ("1s-1n-4c-smt1-farther", "'farther' is no suffix"),
        ("1s-1n-4c-smt1-", "'' is no suffix"),
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
