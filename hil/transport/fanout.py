"""Many nodes at once: a thread for each, since all of them wait most of the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from hil.shell import NodeError
from hil.transport.inventory import NodeAddress

#: Connections at the same time.
MOST: Final = 64
T = TypeVar("T")


def each(addresses: Sequence[NodeAddress], work: Callable[[NodeAddress], T]) -> list[T | NodeError]:
    """What ``work`` makes of each, in their order; a :class:`NodeError` it raised is its result,
    so that one node's trouble is not the others'. Anything else is raised once all have ended."""

    def one(address: NodeAddress) -> T | NodeError:
        try:
            return work(address)
        except NodeError as error:
            return error

    with ThreadPoolExecutor(min(MOST, max(1, len(addresses)))) as pool:
        return list(pool.map(one, addresses))
