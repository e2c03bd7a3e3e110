"""Executor: changes and a script, in one round trip.

What belongs here: the only way in which scenarios act on a node. On a real node that is its guard
(:class:`GuardedExecutor`), which journals every change before it is made.
"""

from __future__ import annotations

from typing import Protocol

from hil.safety import Change, Guarded
from hil.shell import Done, Shell


class Executor(Protocol):
    """Acts on a node."""

    @property
    def trips(self) -> int:
        """Round trips so far."""

    def act(self, script: str, *changes: Change, deadline: float, reads: bool = False) -> Done:
        """Make the changes in order, then run the script; ``reads``: it does nothing else. Raises
        what the shell raises, and :class:`hil.shell.NodeUnfit` where a change could not be
        made."""

    def assure(self) -> None:
        """Check that the node would restore itself if this run died. Raises what the shell raises,
        and :class:`hil.safety.LeaseLost`."""


class GuardedExecutor:
    """:class:`Executor` that acts through a guard."""

    def __init__(self, shell: Shell, guarded: Guarded) -> None:
        self._shell = shell
        self._guarded = guarded

    @property
    def trips(self) -> int:
        return self._shell.trips

    def act(self, script: str, *changes: Change, deadline: float, reads: bool = False) -> Done:
        if reads and not changes:
            return self._shell.run(script, deadline=deadline)
        return self._guarded.change(*changes, then=script, deadline=deadline)

    def assure(self) -> None:
        self._guarded.touch()
