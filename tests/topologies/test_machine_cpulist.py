"""CPU lists and masks, as the kernel writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.cpulist import bits, format_list, format_mask, ids, parse_list, parse_mask

SETS = st.frozensets(st.integers(0, 300))


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([], ""),
        ([0, 2, 3, 4, 9], "0,2-4,9"),
        ([191, 190], "190-191"),
    ],
)
def test_a_list_joins_runs(members: list[int], text: str) -> None:
    assert format_list(bits(members)) == text
    assert parse_list(text) == bits(members)


@pytest.mark.parametrize(
    ("members", "width", "text"),
    [
        ([0, 1], 2, "3"),
        ([2, 3], 20, "0000c"),
        ([2, 3], 64, "00000000,0000000c"),
        (range(36), 36, "f,ffffffff"),
        ([], 33, "0,00000000"),
    ],
)
def test_a_mask_has_a_digit_for_four_possible_cpus(
    members: list[int], width: int, text: str
) -> None:
    assert format_mask(bits(members), width) == text
    assert parse_mask(text) == bits(members)


@given(SETS)
def test_both_forms_come_back(members: frozenset[int]) -> None:
    mask = bits(members)
    assert list(ids(mask)) == sorted(members)
    assert parse_list(format_list(mask) + "\n") == mask
    assert parse_mask(format_mask(mask, 304) + "\n\0") == mask


@pytest.mark.parametrize(
    "text", ["3-1", "a", "1,,2", "1-", "-1", "0-3,", "0x3", "٣", "99999999999", "1-2-3"]
)
def test_what_the_kernel_never_writes_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPU list"):
        parse_list(text)


@pytest.mark.parametrize("text", ["", "g", "1,", "0x1", "1 2"])
def test_what_the_kernel_never_writes_is_no_mask(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPU mask"):
        parse_mask(text)
