"""Kubernetes releases, and which named behaviours each has.

What belongs here: what a release is called, and the questions asked of the table in
:mod:`reference.behaviours`. What never does: a difference that the table does not have.

A release may carry overrides, for forks: ``1.36+distribution-ends`` is 1.36 with that behaviour,
``1.36+numa-allocation=off`` is 1.36 without one that it has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from reference.behaviours import Behaviour
from reference.errors import NotModelled

#: The release that is meant where none is named.
NEWEST: Final = "1.36"
#: The first minor that the table knows, and the last whose kubelet was seen.
OLDEST: Final = 8
LATEST: Final = 37
#: The minor after it, as its changelog announces it: docs/reference/releases.md.
ANNOUNCED: Final = 38
#: The first minor whose whole node is modelled; real kubelets were compared with it from 1.15 on.
WHOLE_SINCE: Final = 8

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
    @lru_cache(maxsize=1024)
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
        """The release with more overrides, each ``NAME``, ``NAME=on`` or ``NAME=off``. Raises
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
        return OLDEST <= self.minor <= ANNOUNCED

    @property
    def announced(self) -> bool:
        """Whether the minor is known by its changelog alone."""
        return self.minor > LATEST

    def __str__(self) -> str:
        number = f"1.{self.minor}" if self.patch is None else f"1.{self.minor}.{self.patch}"
        return "".join(
            [number, *(f"+{name}" if on else f"+{name}=off" for name, on in self.overrides)]
        )


AnyRelease: TypeAlias = Release | str


def newest_known(release: Release) -> Release:
    """The release that judges ``release``: the newest that the table knows, in place of a newer
    one, which may behave as that does."""
    return Release(ANNOUNCED, None, release.overrides) if release.minor > ANNOUNCED else release


@lru_cache(maxsize=512)
def behaviours(release: AnyRelease) -> frozenset[Behaviour]:
    """The named behaviours of ``release``. Raises :class:`NotModelled` where the table does not
    know it, ``ValueError`` where the text names no release."""
    asked = Release.parse(release) if isinstance(release, str) else release
    if not asked.known:
        raise NotModelled(f"release {asked}: the model knows 1.{OLDEST} to 1.{ANNOUNCED}")
    overrides = dict(asked.overrides)
    return frozenset(one for one in Behaviour if overrides.get(one.title, _holds(one, asked)))


@lru_cache(maxsize=4096)
def has(release: AnyRelease, behaviour: Behaviour) -> bool:
    """Whether ``release`` has a behaviour. Raises as :func:`behaviours` does."""
    return behaviour in behaviours(release)


def minor_of(release: AnyRelease) -> int:
    """The number of its minor."""
    return (Release.parse(release) if isinstance(release, str) else release).minor


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


def require_whole_node(release: AnyRelease) -> None:
    """Raise :class:`NotModelled` where ``release`` is not modelled, or only in parts."""
    asked = Release.parse(release) if isinstance(release, str) else release
    if not WHOLE_SINCE <= asked.minor <= ANNOUNCED:
        raise NotModelled(
            f"release {release}: whole nodes are modelled from 1.{WHOLE_SINCE} to 1.{ANNOUNCED}"
        )
