"""CPUSet: the laws of sets, held against frozenset, and CPU lists as the parser of each release
takes them: ``pkg/kubelet/cm/cpuset/cpuset.go`` of 1.17 to 1.27, ``k8s.io/utils/cpuset`` since."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import strategies
from reference import CPUSet, CPUSetParseError
from reference.cpuset import MAX_CPU, CPUSetTooWide

LENIENT = ["1.8", "1.17", "1.21"]
STRICT = ["1.22", "1.26", "1.27", "1.37"]

cpus = st.frozensets(st.integers(0, 600), max_size=40)


def refusal(text: str, release: str) -> str:
    with pytest.raises(CPUSetParseError) as caught:
        CPUSet.parse(text, release=release)
    return str(caught.value)


# -- sets ------------------------------------------------------------------------------------------


@given(cpus, cpus)
def test_algebra_is_that_of_frozenset(a: frozenset[int], b: frozenset[int]) -> None:
    x, y = CPUSet(a), CPUSet(b)
    assert set(x | y) == a | b
    assert set(x & y) == a & b
    assert set(x - y) == a - b
    assert set(x ^ y) == a ^ b
    assert (x <= y, x < y, x >= y, x > y) == (a <= b, a < b, a >= b, a > b)
    assert (x == y) == (a == b)
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert len(x) == len(a)
    assert bool(x) == bool(a)
    assert list(x) == sorted(a)


def test_an_id_that_no_machine_has_costs_no_memory() -> None:
    with pytest.raises(CPUSetTooWide):
        CPUSet.parse(f"0-{MAX_CPU + 1}")


def test_a_set_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        CPUSet([1]).mask = 4


def test_a_negative_mask_is_no_set() -> None:
    with pytest.raises(ValueError, match="not negative"):
        CPUSet.of_mask(-1)


def test_a_set_of_a_million_is_gone_through_in_order() -> None:
    everything = CPUSet.parse("1-4095,4097-8192,999999-1000000")
    assert list(everything) == [*range(1, 4096), *range(4097, 8193), 999999, 1000000]
    assert sum(1 for _ in CPUSet.parse("900000-1000000")) == 100001


# -- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("", ""), ("0", "0"), ("0,1", "0-1"), ("3,1,2", "1-3"), ("0-3,2-5", "0-5"), ("1-1", "1"),
     ("+3", "3"), ("007", "7"), ("0,2,4-5", "0,2,4-5")],
)  # fmt: skip
def test_what_the_parser_accepts(text: str, canonical: str) -> None:
    assert str(CPUSet.parse(text)) == canonical


@pytest.mark.parametrize("release", LENIENT)
@pytest.mark.parametrize(
    ("text", "cpus"),
    [("5-1", ""), ("1-2-3", ""), ("1--3", ""), ("--", ""), ("x-1-2", ""), ("7,5-1,0-1", "0-1,7"),
     ("3-3", "3")],
)  # fmt: skip
def test_until_1_21_an_odd_range_counts_for_nothing(release: str, text: str, cpus: str) -> None:
    assert str(CPUSet.parse(text, release=release)) == cpus


@pytest.mark.parametrize("release", STRICT)
@pytest.mark.parametrize(("text", "part"), [("1-2-3", "2-3"), ("x-1-2", "x"), ("--", "")])
def test_from_1_22_a_piece_is_cut_at_its_first_dash(release: str, text: str, part: str) -> None:
    assert refusal(text, release) == f'strconv.Atoi: parsing "{part}": invalid syntax'


@pytest.mark.parametrize(
    ("release", "sign"), [("1.22", ">="), ("1.26", ">="), ("1.27", ">"), ("1.28", ">")]
)
def test_the_refusal_of_a_range_that_runs_backwards(release: str, sign: str) -> None:
    for text, numbers in (("5-1", f"5 {sign} 1"), ("1--3", f"1 {sign} -3")):
        assert refusal(text, release) == f'invalid range "{text}" ({numbers})'


@pytest.mark.parametrize("release", LENIENT + STRICT)
@pytest.mark.parametrize(
    ("text", "part"),
    [("-1", ""), ("1,", ""), (",1", ""), (",", ""), ("0-", ""), ("0 - 3", "0 "), (" 1", " 1"),
     ("1 ", "1 "), ("0-3\n", "3\\n"), ("0x1", "0x1"), ("1.3", "1.3"), ("a", "a"),
     ("0-6:2", "6:2"), ("all", "all"), ("1_0", "1_0"), ("5-x", "x"), ("1-\udcff", "\\xff"),
     ("\u0663", "\u0663")],
)  # fmt: skip
def test_what_every_release_refuses(release: str, text: str, part: str) -> None:
    assert refusal(text, release) == f'strconv.Atoi: parsing "{part}": invalid syntax'
    long = "9" * 20
    assert refusal(long, release) == f'strconv.Atoi: parsing "{long}": value out of range'


@given(strategies.cpu_list_texts(), strategies.releases(8))
def test_right_lists_are_alike_in_every_release(text: str, release: str) -> None:
    cpus = CPUSet.parse(text, release=release)
    assert cpus == CPUSet.parse(text)
    model: set[int] = set()
    for piece in filter(None, text.split(",")):
        first, _, last = piece.partition("-")
        model.update(range(int(first), int(last or first) + 1))
    assert set(cpus) == model


@given(strategies.cpusets(max_cpu=300), strategies.releases(8))
def test_what_is_written_is_read_back_by_every_release(cpus: CPUSet, release: str) -> None:
    read = CPUSet.parse(str(cpus), release=release)
    assert read == cpus
    assert hash(read) == hash(cpus)
    assert pickle.loads(pickle.dumps(cpus)) == copy.deepcopy(cpus) == cpus


@given(strategies.any_cpu_list_texts())
def test_the_strict_take_nothing_that_the_lenient_refuse(text: str) -> None:
    try:
        strict = CPUSet.parse(text, release="1.37")
    except CPUSetParseError:
        return
    assert CPUSet.parse(text, release="1.21") == strict
