"""The file of what a fork changes on purpose, as a command is given it."""

from __future__ import annotations

from pathlib import Path

from conformance.catalogue import catalogue
from conformance.fork import Fork, read


def fork_at(path: Path | None) -> Fork:
    """What the file says; a fork that changes nothing without one. Raises
    :class:`conformance.known.KnownFailuresError`."""
    return read(path, [one.id for one in catalogue()]) if path else Fork()
