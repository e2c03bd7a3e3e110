"""Every version of a kubelet's state file, and the end of a kubelet at one of them.

A kubelet writes a new version beside its state file and renames it into place
(``checkpointmanager``). Pid 1 hears of each such rename. It keeps a copy of the version, and at the
rename that it was told kills the kubelet: before it, or after it has renamed the file itself. The
renames of all files below the kubelet's root may count instead of those of that file alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from conformance.subjects.kubelet.inside import AREA, STATE_DIR, STATE_FILE, VERSIONS, calls

#: The calls that are answered here.
CALLS: Final = ("rename", "renameat", "renameat2")


class Renames:
    """``kill`` ends the kubelet. ``killed``: the file at whose rename it was killed since the last
    :meth:`begin`, or ``""``."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self.killed = ""
        self._kill = kill
        self._left = 0
        self._after = False
        self._any_file = False
        self._versions = 0

    def begin(self) -> None:
        """A kubelet starts."""
        self.killed = ""

    def arm(self, number: int, *, after: bool, any_file: bool = False) -> None:
        """Kill the kubelet at the ``number``-th rename from now on, of the state file or of
        ``any_file`` of its root; 0: at none."""
        self._left, self._after, self._any_file = number, after, any_file

    def carry_out(self, call: int, pid: int, arguments: list[int]) -> int | None:
        """As :data:`conformance.subjects.kubelet.inside.calls.Answer`, of one of :data:`CALLS`."""
        old, new = (0, 1) if call == calls.numbers().get("rename") else (1, 3)
        file = os.path.normpath(calls.text_at(pid, arguments[new]))
        counts = file.startswith(f"{STATE_DIR}/") if self._any_file else file == STATE_FILE
        if not counts and file != STATE_FILE:
            return None
        draft = calls.text_at(pid, arguments[old])
        last = counts and self._left == 1
        self._left = max(self._left - counts, 0)
        if file == STATE_FILE and (not last or self._after):
            self._keep(draft)
        if not last:
            return None
        if self._after:
            os.replace(draft, file)  # noqa: PTH105  - as it was asked for
        self.killed = file
        self._kill()
        return 0

    def _keep(self, draft: str) -> None:
        self._versions += 1
        kept = Path(AREA, f"version-{self._versions}")
        kept.write_bytes(Path(draft).read_bytes())
        kept.rename(f"{VERSIONS}/{self._versions}")
