"""What the process that begins a run has found out, for the workers that it starts.

A worker that finds it out itself could get another answer, since another worker may be changing it.
"""

from __future__ import annotations

from typing import Final

_FOUND: Final[dict[str, bytes]] = {}
_GIVEN: Final[dict[str, bytes]] = {}


def hand_on(name: str, data: bytes) -> None:
    """Give ``data`` to each worker that begins later, in place of earlier data of this name."""
    _FOUND[name] = data


def given(name: str) -> bytes | None:
    """On a worker: the data of this name; ``None`` if it must find that out itself."""
    return _GIVEN.get(name)


def for_a_worker() -> dict[str, bytes]:
    """All that is handed on."""
    return dict(_FOUND)


def take(sent: dict[str, bytes]) -> None:
    """On a worker: what :func:`for_a_worker` sent."""
    _GIVEN.update(sent)
