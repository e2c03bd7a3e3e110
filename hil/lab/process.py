"""QEMU as a process that outlives this one: one for each node, found by the node's folder.

What belongs here: starting, finding and ending a process; QEMU is only a command line here. What
never does: QEMU's arguments and commands (:mod:`hil.lab.machine`, :mod:`hil.lab.monitor`).

A node's process takes a lock (``alive``) before it executes the program, and holds it to its end.
So another process that has got its number is never mistaken for it. It also writes its number
(``pid``) before it executes the program. The process that started it may die at any moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from conformance.kubelets.shelf import taken
from hil.lab import places
from hil.lab.errors import LabError
from hil.lab.tools import found
from topologies.capturing.running import last_lines

ALIVE: Final = "alive"
PID: Final = "pid"
LOG: Final = "qemu.log"

#: Two shells: the first leaves the second to init and ends, the second executes the program. No
#: shell expands the program's words.
_LAUNCH: Final = '(exec /bin/sh -c \'echo $$ >pid.new && mv pid.new pid && exec "$@"\' sh "$@") &'

#: Seconds for a killed process to be gone, and for a new one to write its number.
_GONE: Final = 20.0
_POLL: Final = 0.02


def start(folder: Path, command: Sequence[str], *, pass_fds: Sequence[int] = ()) -> None:
    """Start ``command`` in ``folder``, with no terminal, its output in ``qemu.log``. Raises
    :class:`LabError` where one runs there already, or none can be started."""
    argv = [found(command[0]) if "/" not in command[0] else command[0], *command[1:]]
    with places.lock_file(folder / ALIVE) as lock, (folder / LOG).open("ab") as log:
        if not taken(lock):
            raise LabError(f"{folder.name}: its QEMU runs already")
        (folder / PID).unlink(missing_ok=True)
        subprocess.run(
            ["/bin/sh", "-c", _LAUNCH, "sh", *argv],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock, *pass_fds],
            start_new_session=True,
            check=True,
        )


def alive(folder: Path) -> bool:
    """Whether the process that was started in ``folder`` is still there."""
    return places.is_held(folder / ALIVE)


def pid(folder: Path) -> int | None:
    """Its number, ``None`` where it is not there, or cannot be distinguished from others."""
    if not alive(folder):
        return None
    try:
        number = int((folder / PID).read_text())
        where = Path(f"/proc/{number}/cwd").readlink()
    except (OSError, ValueError):
        return None
    return number if where == folder.resolve() else None


def end(folder: Path) -> None:
    """Kill it, and wait until it is gone. Nothing happens where none runs. Raises
    :class:`LabError` where it stays."""
    until = time.monotonic() + _GONE
    while alive(folder):
        number = pid(folder)
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        if time.monotonic() > until:
            who = f"process {number}" if number else "a process without a number"
            raise LabError(f"{folder.name}: its QEMU does not end: {who}")
        time.sleep(_POLL)


def gone(folder: Path, *, deadline: float, stop: Callable[[], None] = lambda: None) -> bool:
    """Wait until it has ended by itself; whether it has within ``deadline`` seconds. ``stop`` is
    called now and then, and may raise."""
    until = time.monotonic() + deadline
    while alive(folder):
        if time.monotonic() > until:
            return False
        stop()
        time.sleep(_POLL)
    return True


def complaint(folder: Path) -> str:
    """The last line that it wrote, warnings left out; ``""`` without one."""
    lines = [line for line in last_lines(folder / LOG) if "warning:" not in line]
    return lines[-1][:300] if lines else ""
