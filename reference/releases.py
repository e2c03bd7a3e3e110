"""Kubernetes releases, and what differs between them in the CPU manager.

What belongs here: one named fact for each difference, with the minor release that brought it.
What never does: the behaviour itself, which lives where it is used and asks for the fact.

``CHANGES`` is read from top to bottom: a row states what is new in its minor, and everything
else stays as the row above left it. Two releases are compared by reading the rows between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from reference.errors import NotModelled

__all__ = ["NEWEST", "Behaviour", "Packing", "Release", "behaviour"]

#: The release that is meant where none is named.
NEWEST: Final = "1.36"

_RELEASE: Final = re.compile(r"v?1\.([0-9]{1,3})(?:\.([0-9]{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A Kubernetes release: ``1.36``, or ``1.36.3`` where the patch release is known."""

    minor: int
    patch: int | None = None

    @classmethod
    def parse(cls, text: str) -> Release:
        """Read ``1.36``, ``1.36.3`` or ``v1.36.3``; ``ValueError`` for anything else."""
        found = _RELEASE.fullmatch(text)
        if not found:
            raise ValueError(f"not a Kubernetes release (such as 1.36 or 1.36.3): {text!r}")
        return cls(int(found[1]), None if found[2] is None else int(found[2]))

    def __str__(self) -> str:
        return f"1.{self.minor}" if self.patch is None else f"1.{self.minor}.{self.patch}"


AnyRelease: TypeAlias = Release | str


class Packing(Enum):
    """How the packed allocator walks the machine."""

    SOCKETS = "sockets, cores, CPUs"
    NUMA = "NUMA nodes and sockets, cores, CPUs"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a minor release does, as far as the model knows it.

    ``packing``: the packed allocator (``cpu_assignment.go``). ``numbers_in_refusal``: whether "not
    enough cpus available" states how many. ``strategies``: the allocators it has.
    ``cores_rounded_up``: whether the cores that fill a partly used uncore cache are counted by
    rounding up (``takePartialUncore``). ``socket_aligned_distribution``: whether align-by-socket
    matters inside the distributed allocator. ``whole_node``: whether checkpoint, policies, manager
    and node are modelled too.
    """

    packing: Packing
    numbers_in_refusal: bool = False
    strategies: frozenset[str] = frozenset({"packed"})
    cores_rounded_up: bool = False
    socket_aligned_distribution: bool = False
    whole_node: bool = False


_FIRST: Final = (22, Behaviour(packing=Packing.SOCKETS))

_SINCE_23: Final = frozenset({"packed", "distributed"})

CHANGES: Final[tuple[tuple[int, dict[str, Any]], ...]] = (
    (23, {"packing": Packing.NUMA, "strategies": _SINCE_23}),
    (29, {"numbers_in_refusal": True}),
    (31, {"strategies": _SINCE_23 | {"spread"}}),
    (32, {"strategies": _SINCE_23 | {"spread", "uncore"}}),
    # The rounding came in a patch release of 1.33 that is not known, between .2 and .6.
    (33, {"strategies": _SINCE_23 | {"spread"}}),
    (34, {"strategies": _SINCE_23 | {"spread", "uncore"}, "cores_rounded_up": True}),
    (36, {"whole_node": True}),
    (37, {"whole_node": False, "socket_aligned_distribution": True}),
)
_LAST: Final = 37


@lru_cache(maxsize=128)
def behaviour(release: AnyRelease) -> Behaviour:
    """What ``release`` does. Raises :class:`NotModelled` outside 1.22 … 1.37, ``ValueError``
    where the text names no release."""
    asked = Release.parse(release) if isinstance(release, str) else release
    first, known = _FIRST
    if not first <= asked.minor <= _LAST:
        raise NotModelled(f"release {asked}: the model knows 1.{first} to 1.{_LAST}")
    for minor, change in CHANGES:
        if minor <= asked.minor:
            known = replace(known, **change)
    return known


def require_whole_node(release: AnyRelease) -> None:
    """Raise :class:`NotModelled` where only the allocator of ``release`` is modelled."""
    if not behaviour(release).whole_node:
        raise NotModelled(f"release {release}: of this release only the allocator is modelled")
