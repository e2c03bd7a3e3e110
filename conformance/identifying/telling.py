"""The histories that tell the named behaviours apart, as they are kept in the package.

    python -m differential.telling

searches for them on the model, and writes the file. A history tells a behaviour of a release if the
release shows something else in it than the same release with that behaviour switched. For each
behaviour that is not told, the file says why no history that was tried tells it.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from conformance.identifying.history import History, from_plain, to_plain
from reference.behaviours import Behaviour
from reference.releases import LATEST, Release, has

KEPT: Final = Path(__file__).parent / "telling.json.xz"
#: The releases whose kubelets can be driven.
RELEASES: Final = tuple(f"1.{minor}" for minor in range(17, LATEST + 1))
#: The releases that are searched. For any other release, the nearest of these counts.
SEARCHED: Final = ("1.36", "1.37", "1.32", "1.26", "1.22", "1.20", "1.17")


class Reason(IntEnum):
    """The result of histories for a behaviour of a release; of several the highest counts."""

    NOT_ASKED = 0
    ALIKE = 1
    NOT_MODELLED = 2
    CHANCE = 3
    TOLD = 4


#: By release, then the title of a behaviour that nothing tells there.
Untold: TypeAlias = Mapping[str, Mapping[str, Reason]]


@dataclass(frozen=True, slots=True)
class Telling:
    """A history, and the behaviours that it tells, by the minor release that has or lacks them."""

    history: History
    tells: Mapping[str, frozenset[str]]

    def of(self, release: str) -> frozenset[str]:
        """The titles of the behaviours that it tells in a release, or in the nearest one that was
        searched."""
        minor = Release.parse(release).minor
        if minor < self.history.oldest:
            return frozenset()
        nearest = min(SEARCHED, key=lambda one: abs(Release.parse(one).minor - minor))
        return self.tells.get(nearest, frozenset())


def switched(release: str, behaviour: Behaviour) -> str:
    """The release with this behaviour switched: on if the release lacks it, off if it has it."""
    value = "off" if has(release, behaviour) else "on"
    return str(Release.parse(release).overridden(f"{behaviour.title}={value}"))


class Kept(NamedTuple):
    """The file's contents."""

    tellings: tuple[Telling, ...]
    untold: Untold


@cache
def kept() -> tuple[Telling, ...]:
    """The histories in the package. Raises ``ValueError`` for a file of another version."""
    return read(KEPT.read_bytes()).tellings


def read(data: bytes) -> Kept:
    """The contents of a file. Raises ``ValueError`` for anything else."""
    try:
        plain: dict[str, Any] = msgspec.json.decode(lzma.decompress(data))
        return Kept(
            tuple(
                Telling(
                    from_plain(row["history"]),
                    {release: frozenset(names) for release, names in row["tells"].items()},
                )
                for row in plain["tellings"]
            ),
            {
                release: {title: Reason(number) for title, number in reasons.items()}
                for release, reasons in plain["untold"].items()
            },
        )
    except (lzma.LZMAError, msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not telling histories: {error}") from error


def written(tellings: Iterable[Telling], untold: Untold) -> bytes:
    """The bytes of a file with these contents."""
    rows = [
        {
            "history": to_plain(one.history),
            "tells": {release: sorted(names) for release, names in one.tells.items()},
        }
        for one in tellings
    ]
    plain = {"tellings": rows, "untold": untold}
    return lzma.compress(msgspec.json.encode(plain, order="sorted"), preset=9)
