"""Kubernetes releases, and which named behaviours each has.

What belongs here: what a release is called, and the questions asked of the table in
:mod:`reference.behaviours`. What never does: a difference that the table does not have.

A release may carry overrides, for forks: ``1.36+distribution-ends`` is 1.36 with that behaviour,
``1.36+numa-allocation=off`` is 1.36 without one that it has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from reference.behaviours import Behaviour
from reference.errors import NotModelled

__all__ = ["NEWEST", "OLDEST", "AnyRelease", "Change", "Release", "behaviours", "changes", "has"]

#: The release that is meant where none is named.
NEWEST: Final = "1.36"
#: The first and the last minor that the model knows.
OLDEST: Final = 8
LATEST: Final = 37

_RELEASE: Final = re.compile(r"v?1\.([0-9]{1,3})(?:\.([0-9]{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A Kubernetes release: ``1.36``, or ``1.36.3`` where the patch release is known. Without
    one, the newest patch release of the minor is meant.

    ``overrides``: behaviours that it has, or has not, whatever the table says; sorted by title.
    """

    minor: int
    patch: int | None = None
    overrides: tuple[tuple[str, bool], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Release:
        """Read ``1.36``, ``1.36.3``, ``v1.36.3``, each with ``+NAME``, ``+NAME=on`` or
        ``+NAME=off`` any number of times. Raises ``ValueError`` for anything else."""
        number, *given = text.split("+")
        found = _RELEASE.fullmatch(number)
        if not found:
            raise ValueError(f"not a Kubernetes release (such as 1.36 or 1.36.3): {text!r}")
        patch = None if found[2] is None else int(found[2])
        return cls(int(found[1]), patch).overridden(*given)

    def overridden(self, *given: str) -> Release:
        """This release with more overrides, each ``NAME``, ``NAME=on`` or ``NAME=off``. Raises
        ``ValueError`` for a behaviour that is not known."""
        every = dict(self.overrides)
        for text in given:
            name, separator, value = text.partition("=")
            if value not in ("on", "off") and (separator or value):
                raise ValueError(f"behaviour {name!r} is on or off, not {value!r}")
            every[Behaviour.named(name).title] = value != "off"
        return Release(self.minor, self.patch, tuple(sorted(every.items())))

    @property
    def plain(self) -> Release:
        """The release without its overrides."""
        return Release(self.minor, self.patch)

    @property
    def known(self) -> bool:
        """Whether the model knows the minor at all."""
        return OLDEST <= self.minor <= LATEST

    def __str__(self) -> str:
        number = f"1.{self.minor}" if self.patch is None else f"1.{self.minor}.{self.patch}"
        return "".join(
            [number, *(f"+{name}" if on else f"+{name}=off" for name, on in self.overrides)]
        )


AnyRelease: TypeAlias = Release | str


@lru_cache(maxsize=512)
def behaviours(release: AnyRelease) -> frozenset[Behaviour]:
    """The named behaviours of ``release``. Raises :class:`NotModelled` outside 1.8 … 1.37,
    ``ValueError`` where the text names no release."""
    asked = Release.parse(release) if isinstance(release, str) else release
    if not asked.known:
        raise NotModelled(f"release {asked}: the model knows 1.{OLDEST} to 1.{LATEST}")
    overrides = dict(asked.overrides)
    return frozenset(one for one in Behaviour if overrides.get(one.title, _holds(one, asked)))


@lru_cache(maxsize=4096)
def has(release: AnyRelease, behaviour: Behaviour) -> bool:
    """Whether ``release`` has a behaviour. Raises as :func:`behaviours` does."""
    return behaviour in behaviours(release)


@dataclass(frozen=True, slots=True)
class Change:
    """A behaviour that one of two releases has and the other has not; ``gained`` by the second."""

    behaviour: Behaviour
    gained: bool


def changes(before: AnyRelease, after: AnyRelease) -> list[Change]:
    """What is different in ``after``, in the order of the table. Raises as :func:`behaviours`."""
    old, new = behaviours(before), behaviours(after)
    return [Change(one, one in new) for one in Behaviour if (one in old) != (one in new)]


def _holds(behaviour: Behaviour, release: Release) -> bool:
    known = behaviour.value
    if any(_reached(release, Release.parse(text), same_minor=True) for text in known.backports):
        return True
    if known.since is None or not _reached(release, Release.parse(known.since)):
        return False
    return known.until is None or release.minor <= Release.parse(known.until).minor


def _reached(release: Release, first: Release, *, same_minor: bool = False) -> bool:
    if release.minor != first.minor:
        return release.minor > first.minor and not same_minor
    return release.patch is None or release.patch >= (first.patch or 0)


# -- until allocation and node ask the table ---------------------------------------------------


class Packing(Enum):
    """How the packed allocator walks the machine."""

    SOCKETS = "sockets, cores, CPUs"
    NUMA = "NUMA nodes and sockets, cores, CPUs"


@dataclass(frozen=True, slots=True)
class _Rules:
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


_FIRST: Final = (22, _Rules(packing=Packing.SOCKETS))

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
def behaviour(release: AnyRelease) -> _Rules:
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
    asked = Release.parse(release) if isinstance(release, str) else release
    if not 18 <= asked.minor <= LATEST:
        raise NotModelled(f"release {release}: of this release only the allocator is modelled")
