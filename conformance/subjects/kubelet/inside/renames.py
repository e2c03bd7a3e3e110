"""Keeps every version of a kubelet's state file, and kills a kubelet at one or lets writes fail.

A kubelet writes a new version beside its state file and renames it into place
(``checkpointmanager``). Pid 1 is notified of each such rename, and keeps a copy of the version. At
the rename that the runner chose it kills the kubelet: before the rename, or after it has done the
rename itself. The renames of the state file count, or those of all files of the kubelet's root.
A rename that is to fail fails with ENOSPC.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from conformance.subjects.kubelet.inside import AREA, STATE_DIR, STATE_FILE, VERSIONS, calls

#: The calls that are answered here.
CALLS: Final = ("rename", "renameat", "renameat2")


class Renames:
    """Handles renames. ``kill`` ends the kubelet. ``killed``: the file at whose rename it was
    killed since the last :meth:`begin`, or ``""``."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self.killed = ""
        self._kill = kill
        self._left = 0
        self._after = False
        self._any_file = False
        self._versions = 0
        self._failures = 0

    def begin(self) -> None:
        """Forget an earlier kill, and let no rename fail: a kubelet starts."""
        self.killed, self._failures = "", 0

    def fail(self, times: int) -> None:
        """Let the next ``times`` renames of the state file fail."""
        self._failures = times

    def arm(self, number: int, *, after: bool, any_file: bool = False) -> None:
        """Kill the kubelet at the ``number``-th rename from now on, of the state file or of
        ``any_file`` of its root; 0: do not kill it."""
        self._left, self._after, self._any_file = number, after, any_file

    def carry_out(self, call: int, pid: int, arguments: list[int]) -> int | None:
        """As :data:`conformance.subjects.kubelet.inside.calls.Answer`, for one of :data:`CALLS`."""
        old, new = (0, 1) if call == calls.numbers().get("rename") else (1, 3)
        file = os.path.normpath(calls.text_at(pid, arguments[new]))
        counts = file.startswith(f"{STATE_DIR}/") if self._any_file else file == STATE_FILE
        if not counts and file != STATE_FILE:
            return None
        if file == STATE_FILE and self._failures:
            self._failures -= 1
            return errno.ENOSPC
        draft = calls.text_at(pid, arguments[old])
        last = counts and self._left == 1
        self._left = max(self._left - counts, 0)
        if file == STATE_FILE and (not last or self._after):
            self._keep(draft)
        if not last:
            return None
        if self._after:
            os.replace(draft, file)  # noqa: PTH105  - the same paths
        self.killed = file
        self._kill()
        return 0

    def _keep(self, draft: str) -> None:
        self._versions += 1
        kept = Path(AREA, f"version-{self._versions}")
        kept.write_bytes(Path(draft).read_bytes())
        kept.rename(f"{VERSIONS}/{self._versions}")
