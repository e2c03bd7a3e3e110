"""Cores of two CPUs, looked at all at once, are what a loop over the cores finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import CPUSet, CPUTopology, take_by_topology
from reference.cpumanager.fast.twins import Twins, lowest
from reference.errors import AllocationError, AllocationHangs

MASKS = st.integers(0, (1 << 32) - 1)
RELEASES = ("1.8", "1.18", "1.22", "1.28", "1.32", "1.36", "1.37")


def cores(number: int, apart: int) -> list[tuple[int, int, int, int]]:
    """Twins as a topology lists them; neighbours, or far from each other."""
    step = 2 if apart == 1 else 1
    masks = [(1 | 1 << apart) << core * step for core in range(number)]
    return [(core, mask, 2, mask) for core, mask in enumerate(masks)]


@pytest.mark.parametrize("apart", [1, 16])
@given(free=MASKS)
def test_free_cores_are_those_that_a_loop_finds(apart: int, free: int) -> None:
    twins = Twins.of(cores(16, apart))
    assert twins is not None
    assert twins.apart == apart
    whole = halved = 0
    for _, mask, _, _ in cores(16, apart):
        whole |= mask & -mask if mask & free == mask else 0
        halved |= mask & -mask if (mask & free).bit_count() == 1 else 0
    assert (twins.whole(free), twins.halved(free)) == (whole, halved)
    assert twins.cpus(twins.low) == (1 << 32) - 1


@given(MASKS, st.integers(0, 40))
def test_the_lowest_bits_are_the_first_cpus(mask: int, number: int) -> None:
    assert lowest(mask, number) == CPUSet(list(CPUSet.of_mask(mask))[:number]).mask


@pytest.mark.parametrize(
    "odd",
    [
        (20, 0b1 << 40, 1, 0b1 << 40),
        (20, 0b111 << 40, 3, 0b111 << 40),
        (20, 0b101 << 40, 2, 0b101 << 40),
        (20, 0b11 << 40, 2, 0b01 << 40),
    ],
    ids=["alone", "three", "farther apart", "by a part"],
)
def test_one_odd_core_makes_a_list_ordinary(odd: tuple[int, int, int, int]) -> None:
    assert Twins.of(cores(16, 1)) is not None
    assert Twins.of([*cores(16, 1), odd]) is None


def test_cores_out_of_order_are_ordinary() -> None:
    assert Twins.of(cores(16, 1)[::-1]) is None


def test_few_cores_are_ordinary() -> None:
    assert Twins.of(cores(4, 1)) is None
    assert Twins.of([]) is None


def machine(sockets: int, nodes: int, apart: int, *, uneven: bool = False) -> CPUTopology:
    """64 CPUs; ``nodes`` in all. Uneven ones have cores of one CPU in their second half, so that
    the average of a core is one CPU."""
    step = 2 if apart == 1 else 1
    return CPUTopology.of(
        {
            core * step + thread * apart: (
                core * nodes // 32,
                core * sockets // 32,
                core * step,
                core * 8 // 32,
            )
            for core in range(32)
            for thread in range(1 if uneven and core >= 16 else 2)
        }
    )


def answer(topology: CPUTopology, free: int, count: int, release: str, strategy: str) -> str:
    try:
        taken = take_by_topology(
            topology, CPUSet.of_mask(free), count, release=release, strategy=strategy
        )
    except (AllocationError, AllocationHangs) as error:
        return repr(error)
    return str(taken)


@pytest.mark.parametrize("apart", [1, 32])
@pytest.mark.parametrize(("sockets", "nodes"), [(1, 1), (2, 2), (2, 4), (1, 4), (4, 2)])
@given(data=st.data())
def test_an_allocation_is_the_same_core_by_core(
    sockets: int, nodes: int, apart: int, data: st.DataObject
) -> None:
    assert_same(data, sockets, nodes, apart)


@pytest.mark.parametrize("apart", [1, 32])
@pytest.mark.parametrize(("sockets", "nodes"), [(2, 2), (2, 4), (4, 2)])
@given(data=st.data())
def test_so_it_is_where_other_cores_are_smaller(
    sockets: int, nodes: int, apart: int, data: st.DataObject
) -> None:
    assert_same(data, sockets, nodes, apart, uneven=True)


def assert_same(
    data: st.DataObject, sockets: int, nodes: int, apart: int, *, uneven: bool = False
) -> None:
    """Any allocation of a machine with twins, and of one whose cores are looked at one by one."""
    topology = machine(sockets, nodes, apart, uneven=uneven)
    assert topology.cpus_per_core == (1 if uneven else 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Twins, "of", lambda _: None)
        plain = machine(sockets, nodes, apart, uneven=uneven)
    assert any(topology.twins_of_numa.values())
    assert not any(plain.twins_of_numa.values())
    free = data.draw(st.integers(0, (1 << 64) - 1))
    free |= data.draw(st.sampled_from([0, (1 << 64) - 1, 0xFFFF, 0xFFFF << 32]))
    count = data.draw(st.integers(1, max(1, free.bit_count())))
    release = data.draw(st.sampled_from(RELEASES))
    strategies = ["packed"]
    strategies += ["distributed"] if release in RELEASES[3:] else []
    strategies += ["spread", "uncore"] if release in RELEASES[4:] else []
    strategy = data.draw(st.sampled_from(strategies))
    expected = answer(plain, free, count, release, strategy)
    assert answer(topology, free, count, release, strategy) == expected
