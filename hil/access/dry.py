"""A shell that runs nothing: what ``--dry-run`` is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hil.shell import DEADLINE, LIMIT, Done
from topologies.errors import one_line

_LONGEST_LINE: Final = 200


class DryShell:
    """:class:`hil.shell.Shell` that tells each script instead of running it, line by line, with
    the node's name before it; every script ends well and says nothing. Facts are gathered through
    the real shell beforehand."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self.name = name
        self.trips = 0
        self._say = say

    def run(
        self,
        script: str,
        *,
        stdin: bytes = b"",
        deadline: float = DEADLINE,
        limit: int = LIMIT,
    ) -> Done:
        """As :meth:`hil.shell.Shell.run`, but for the running."""
        self.trips += 1
        for line in [*script.splitlines(), *stdin.decode("utf-8", "replace").splitlines()]:
            if line.strip():
                self._say(f"{self.name}: {one_line(line, limit=_LONGEST_LINE)}")
        return Done(0, b"", b"")

    def close(self) -> None:
        """As :meth:`hil.shell.Shell.close`."""
