"""Entries of the catalogue: what is said of each machine, in a ``NAME.toml`` of its own.

``shape``, ``why``, ``source`` and ``digest`` are required. ``kernel`` says how its kernel shows the
hardware and ``kubelet`` how a kubelet sees that, where either is remarkable; ``architecture`` is as
``uname -m`` gives it, ``x86_64`` by default. A ``[[pair]]`` names the machine that this one is
after a change. ``[imported]`` is there where the archive is another project's: who published it,
under which licence, and what was completed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from topologies.errors import BadSpec, BrokenMachine
from topologies.spec import parse

CATALOGUE: Final = Path(__file__).parent / "catalogue"
_REQUIRED: Final = frozenset({"shape", "why", "source", "digest"})
_OPTIONAL: Final = frozenset({"kernel", "kubelet", "architecture"})
_OF_AN_IMPORT: Final = frozenset({"origin", "licence", "file", "notes"})
_OF_A_PAIR: Final = frozenset({"after", "change"})


class Change(Enum):
    """What happens to a node's CPUs between two boots, as an upgrade scenario has to know."""

    CPUS_ADDED = "cpus-added"
    CPUS_REMOVED = "cpus-removed"
    SMT_OFF = "smt-off"
    NUMA_CHANGED = "numa-changed"
    CPUS_RENUMBERED = "cpus-renumbered"


@dataclass(frozen=True, slots=True)
class Pair:
    """The names of a machine before and after a change. The same pair, read from its end, is the
    reverse change."""

    before: str
    after: str
    change: Change


@dataclass(frozen=True, slots=True)
class Imported:
    """Where another project's archive comes from: ``origin`` is a URL, ``licence`` an SPDX
    identifier, ``file`` the archive's name there, ``notes`` what ``capture`` said of it."""

    origin: str
    licence: str
    file: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue says of one machine (see this module)."""

    name: str
    shape: str
    why: str
    source: str
    digest: str
    kernel: str = ""
    kubelet: str = ""
    architecture: str = "x86_64"
    imported: Imported | None = None
    pairs: tuple[Pair, ...] = ()


@lru_cache(maxsize=1)
def entry_names() -> tuple[str, ...]:
    """The names of all entries, in alphabetical order."""
    return tuple(sorted(path.stem for path in CATALOGUE.glob("*.toml")))


@lru_cache(maxsize=256)
def catalogue_entry(name: str) -> Entry:
    """What ``NAME.toml`` says; raises :class:`BrokenMachine` where a key is missing or unknown."""
    return _entry(CATALOGUE / f"{name}.toml", name)


def entry_beside(archive: Path, name: str) -> Entry | None:
    """What the ``NAME.toml`` beside a private archive says, as a capture leaves one; ``None``
    where there is none. Raises as :func:`catalogue_entry`."""
    path = archive.with_name(f"{name}.toml")
    return _entry(path, name) if path.is_file() else None


def _entry(path: Path, name: str) -> Entry:
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BrokenMachine(str(path), f"it cannot be read: {error}") from error
    pairs = said.pop("pair", [])
    imported = said.pop("imported", None)
    keys_fit = _REQUIRED <= said.keys() <= _REQUIRED | _OPTIONAL
    if not keys_fit or not _texts(said) or not isinstance(pairs, list):
        required, optional = ", ".join(sorted(_REQUIRED)), ", ".join(sorted(_OPTIONAL))
        raise BrokenMachine(str(path), f"its keys are not {required} (and {optional}), all texts")
    if said["shape"]:
        try:
            parse(said["shape"])
        except BadSpec as error:
            raise BrokenMachine(str(path), f"its shape {error}") from error
    return Entry(
        name=name,
        **said,
        imported=None if imported is None else _imported(path, imported),
        pairs=tuple(_pair(path, name, one) for one in pairs),
    )


def pairs() -> list[Pair]:
    """All pairs of the catalogue, by the kind of change and by name."""
    found = (pair for name in entry_names() for pair in catalogue_entry(name).pairs)
    return sorted(found, key=lambda pair: (pair.change.value, pair.before, pair.after))


def _texts(said: Mapping[Any, Any]) -> bool:
    return all(isinstance(value, str) for value in said.values())


def _imported(path: Path, said: Any) -> Imported:
    if isinstance(said, dict) and said.keys() == _OF_AN_IMPORT:
        notes = said.pop("notes")
        if _texts(said) and isinstance(notes, list) and _texts(dict(enumerate(notes))):
            return Imported(**said, notes=tuple(notes))
    keys = "origin, licence and file, all texts, and notes, a list of texts"
    raise BrokenMachine(str(path), f"[imported] has the keys {keys}")


def _pair(path: Path, name: str, said: Any) -> Pair:
    if not isinstance(said, dict) or said.keys() != _OF_A_PAIR or not _texts(said):
        raise BrokenMachine(str(path), "a pair has the keys after, change, both texts")
    if said["after"] not in entry_names():
        raise BrokenMachine(str(path), f"a pair ends at {said['after']!r}, which is not an entry")
    try:
        return Pair(name, said["after"], Change(said["change"]))
    except ValueError as error:
        kinds = ", ".join(change.value for change in Change)
        raise BrokenMachine(str(path), f"{said['change']!r}: it is one of {kinds}") from error
