"""CPUSet: the laws of sets, held against frozenset, and the kubelet's text form."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import CPUSet, CPUSetParseError
from reference.cpuset import MAX_CPU, CPUSetTooWide

cpus = st.frozensets(st.integers(0, 600), max_size=40)


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


@given(cpus)
def test_text_is_read_back_as_it_was_written(a: frozenset[int]) -> None:
    one = CPUSet(a)
    assert CPUSet.parse(str(one)) == one
    assert hash(CPUSet.parse(str(one))) == hash(one)
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("", ""), ("0", "0"), ("0,1", "0-1"), ("3,1,2", "1-3"), ("0-3,2-5", "0-5"), ("1-1", "1"),
     ("+3", "3"), ("007", "7"), ("0,2,4-5", "0,2,4-5")],
)  # fmt: skip
def test_what_the_parser_accepts(text: str, canonical: str) -> None:
    assert str(CPUSet.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("5-1", 'invalid range "5-1" (5 > 1)'),
        ("1--3", 'invalid range "1--3" (1 > -3)'),
        ("1-2-3", 'strconv.Atoi: parsing "2-3": invalid syntax'),
        ("-1", 'strconv.Atoi: parsing "": invalid syntax'),
        ("1,", 'strconv.Atoi: parsing "": invalid syntax'),
        ("0-", 'strconv.Atoi: parsing "": invalid syntax'),
        ("0-3\n", 'strconv.Atoi: parsing "3\\n": invalid syntax'),
        ("0x1", 'strconv.Atoi: parsing "0x1": invalid syntax'),
        ("\u0663", 'strconv.Atoi: parsing "\u0663": invalid syntax'),
        ("9" * 20, f'strconv.Atoi: parsing "{"9" * 20}": value out of range'),
    ],
)
def test_what_the_parser_refuses(text: str, error: str) -> None:
    with pytest.raises(CPUSetParseError) as caught:
        CPUSet.parse(text)
    assert str(caught.value) == error


def test_an_id_that_no_machine_has_costs_no_memory() -> None:
    with pytest.raises(CPUSetTooWide):
        CPUSet.parse(f"0-{MAX_CPU + 1}")


def test_a_set_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        CPUSet([1]).mask = 4


def test_a_negative_mask_is_no_set() -> None:
    with pytest.raises(ValueError, match="not negative"):
        CPUSet.of_mask(-1)
