"""Cores of two CPUs each, all looked at in one go.

What belongs here: which cores of a list are free, whole or by half, where all of them are twins:
two CPUs, as far apart in one core as in any other. What never does: which list is looked at, and
what is taken of it.

Most machines are made of such cores, and have up to hundreds of them: a CPU set is one int, so a
shift lays each CPU over its twin, and a few operations do what a loop over the cores does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Twins", "lowest"]

#: A loop over fewer cores than this is as fast.
_FEWEST_CORES: Final = 8
#: Fewer bits than this are found faster one by one than by halves.
_FEW_BITS: Final = 6


class Twins(NamedTuple):
    """A list of twins by ascending id: ``low`` is the lower CPU of each, ``apart`` the distance to
    its twin. Sets of cores are sets of their lower CPUs."""

    low: int
    apart: int

    @classmethod
    def of(cls, cores: Sequence[tuple[int, int, int, int]]) -> Twins | None:
        """Of a list of units (id, CPUs, their number, those that belong to the list); ``None``
        where they are few, no such cores, belong to the list by a part only, or are not in the
        order of their CPUs."""
        if len(cores) < _FEWEST_CORES:
            return None
        low = apart = last = 0
        for _, mask, size, within in cores:
            first = mask & -mask
            apart = apart or (mask ^ first).bit_length() - first.bit_length()
            if size != 2 or within != mask or first < last or mask != first | first << apart:
                return None
            low |= first
            last = first
        return cls(low, apart)

    def whole(self, free: int) -> int:
        """The cores of which both CPUs are free."""
        return free & free >> self.apart & self.low

    def halved(self, free: int) -> int:
        """The cores of which one CPU is free."""
        return (free ^ free >> self.apart) & self.low

    def cpus(self, cores: int) -> int:
        """The CPUs of these cores."""
        return cores | cores << self.apart


def lowest(mask: int, number: int) -> int:
    """The lowest bits of ``mask``, that many of them or all."""
    more = mask.bit_count() - number
    if more <= 0:
        return mask
    if more < _FEW_BITS:
        for _ in range(more):
            mask ^= 1 << mask.bit_length() - 1
        return mask
    if number < _FEW_BITS:
        found = 0
        for _ in range(number):
            found |= mask & -mask
            mask &= mask - 1
        return found
    # The bits often stand side by side, at least those asked for.
    low = (mask & -mask).bit_length() - 1 + number
    if (mask & (1 << low) - 1).bit_count() == number:
        return mask & (1 << low) - 1
    high = mask.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (mask & (1 << middle) - 1).bit_count() < number:
            low = middle + 1
        else:
            high = middle
    return mask & (1 << low) - 1
