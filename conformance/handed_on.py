"""What the process that began a run has found out, for the workers that it starts.

A worker that asked again could be told something else: another worker may be changing what it asks.
"""

from __future__ import annotations

from typing import Final

_FOUND: Final[dict[str, bytes]] = {}
_GIVEN: Final[dict[str, bytes]] = {}


def hand_on(name: str, data: bytes) -> None:
    """Give it to each worker that begins from now on, in place of an earlier one of this name."""
    _FOUND[name] = data


def given(name: str) -> bytes | None:
    """On a worker: what it was given by this name. ``None``: nothing, so it finds out itself."""
    return _GIVEN.get(name)


def for_a_worker() -> dict[str, bytes]:
    """All that is handed on."""
    return dict(_FOUND)


def take(sent: dict[str, bytes]) -> None:
    """On a worker: what :func:`for_a_worker` sent."""
    _GIVEN.update(sent)
