"""Slices as Go appends to them.

What belongs here: that ``append`` may write into an array that other slices see. What never does:
anything that a Python list does as well.
"""

from __future__ import annotations

from typing import Final


class Slice:
    """Numbers in an array that other slices may share. Items beyond the length are not shown."""

    __slots__ = ("_array", "_length")

    def __init__(self, array: list[int] | None = None, length: int = 0) -> None:
        self._array: Final = [] if array is None else array
        self._length: Final = length

    def append(self, value: int) -> Slice:
        """``append``: in place as far as the array reaches, else in a copy of twice the size."""
        array = self._array
        if self._length == len(array):
            array = array + [0] * max(1, len(array))
        array[self._length] = value
        return Slice(array, self._length + 1)

    def items(self) -> list[int]:
        """What the array holds now."""
        return self._array[: self._length]
