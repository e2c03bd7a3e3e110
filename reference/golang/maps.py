"""The orders in which Go walks a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

_Entry = TypeVar("_Entry")

#: How many entries a map keeps in one bucket or group (``runtime/map.go``, ``bucketCnt``;
#: ``internal/abi``, ``MapGroupSlots``).
SLOTS: Final = 8


def turns(entries: Sequence[_Entry]) -> Iterator[list[_Entry]]:
    """The orders in which Go may walk a new map into which these at most :data:`SLOTS` entries were
    put one after the other, the likeliest first.

    They lie in the slots of one group in the order in which they came, and a walk goes once around
    from a slot that is drawn (``Iter.Init`` and ``Iter.Next``, ``internal/runtime/maps/table.go``;
    up to Go 1.23 ``mapiterinit`` and ``mapiternext``, ``runtime/map.go``). So the first of ``n``
    entries comes first in ``9 - n`` of 8 walks, and each of the others in one of 8.
    """
    assert len(entries) <= SLOTS
    for first in range(max(len(entries), 1)):
        yield [*entries[first:], *entries[:first]]
