"""Named behaviours as miniatures: a release with one behaviour that it lacks, or without one.

What belongs here: the names of such miniatures, and the releases in which they show. What never
does: behaviours themselves (``reference.behaviours``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reference.behaviours import Behaviour
from reference.releases import LATEST, OLDEST, Release, has

#: The release that shows a behaviour switched off, if the first release that has it does not.
_SHOWS_IN: Final[dict[str, str]] = {
    "cache-ids=off": "1.36",
    "numa-nodes-from-cadvisor=off": "1.36",
    "single-numa-spares-the-rest=off": "1.36",
    "sockets-counted-by-id=off": "1.36",
    "topology-manager=off": "1.36",
    "unequal-hints-not-preferred=off": "1.36",
}


@dataclass(frozen=True, slots=True)
class Switch:
    """A behaviour that a release is given, or loses."""

    behaviour: Behaviour
    on: bool

    @property
    def name(self) -> str:
        """``true-sizes`` or ``true-sizes=off``."""
        return self.behaviour.title + ("" if self.on else "=off")

    @property
    def says(self) -> str:
        """What is wrong with it."""
        kind = "Has a behaviour that its release lacks"
        if not self.on:
            kind = "Lacks a behaviour of its release"
        return f"{kind}: {self.behaviour.value.says}"


def switch(text: str) -> Switch:
    """Read ``NAME``, ``NAME=on`` or ``NAME=off``. Raises ``ValueError`` for what is none."""
    ((title, on),) = Release(OLDEST).overridden(text).overrides
    return Switch(Behaviour.named(title), on)


def has_switched(one: Switch, release: str) -> bool:
    """Whether the switch makes a difference in a release."""
    return has(release, one.behaviour) != one.on


def switches() -> list[Switch]:
    """Every behaviour switched off and on, as far as some release differs from it."""
    every = (Switch(behaviour, on) for behaviour in Behaviour for on in (False, True))
    return [one for one in every if default_release(one)]


def default_release(one: Switch) -> str:
    """The release in which the switch shows: the first that has the behaviour, or the last before
    it; ``""`` where all releases are so anyway."""
    if one.name in _SHOWS_IN:
        return _SHOWS_IN[one.name]
    return next((release for release in _candidates(one) if has_switched(one, release)), "")


def _candidates(one: Switch) -> list[str]:
    """Releases around the change, nearest first."""
    known = one.behaviour.value
    if known.since is None:
        return [f"1.{LATEST}"]
    since = Release.parse(known.since)
    if not one.on:
        return [f"1.{since.minor}"]
    patches = [Release.parse(text) for text in (*known.backports, known.since)]
    before = [f"1.{release.minor}.{release.patch - 1}" for release in patches if release.patch]
    last = LATEST if known.until is None else Release.parse(known.until).minor
    minors = [*range(since.minor - 1, OLDEST - 1, -1), *range(last + 1, LATEST + 1)]
    return [*reversed(before), *(f"1.{minor}" for minor in minors)]
