"""A guest's boot, with its stages reported on the way.

What belongs here: the order of a cold boot, its deadlines, and why one failed. What never does:
what happens to the folder then (:mod:`hil.lab.lab`).

The guest reports its stages on its serial line, ``pinproof-lab: kernel``, ``disk``, ``ssh``,
``workload``; other lines are the kernel's or systemd's.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hil.lab import accelerators, process
from hil.lab.accelerators import Way
from hil.lab.errors import LabError
from hil.lab.machine import CONSOLE, MONITOR, Machine, arguments
from topologies.errors import one_line

_STAGE: Final = re.compile(rb"^pinproof-lab: (.*?)\r?$", re.M)
_STAGES: Final = {
    "kernel": "the kernel runs",
    "disk": "its disk is there, systemd starts",
    "ssh": "sshd listens",
    "workload": "containerd runs, the workload's image is in",
}
#: What a boot has to reach, the first and any later one.
_FIRST: Final = frozenset({"ssh", "workload"})
_AGAIN: Final = frozenset({"ssh"})
_PANIC: Final = re.compile(rb"Kernel panic - not syncing: .*")
_TAIL: Final = 4096
_POLL: Final = 0.1

#: In the error of a boot whose port another program has.
PORT_TAKEN: Final = "its port is taken"

#: Seconds for a boot, and more for each CPU, on a busy host.
_DEADLINE: Final = 600.0
_DEADLINE_PER_CPU: Final = 10.0


@dataclass(slots=True)
class Watch:
    """How a boot is watched: ``say`` gets its progress, ``stop`` raises to cancel it, and ``until``
    (of ``time.monotonic``) is its deadline."""

    say: Callable[[str], None] = lambda _: None
    stop: Callable[[], None] = lambda: None
    until: float = field(default=float("inf"))

    @classmethod
    def for_boot(
        cls,
        cpus: int,
        *,
        say: Callable[[str], None] = lambda _: None,
        stop: Callable[[], None] = lambda: None,
        deadline: float | None = None,
    ) -> Watch:
        """``deadline`` in seconds; ``None``: by the number of CPUs."""
        seconds = deadline or _DEADLINE + _DEADLINE_PER_CPU * cpus
        return cls(say, stop, time.monotonic() + seconds)

    def while_running(self, folder: Path) -> Watch:
        """The same, cancelled also when the QEMU of ``folder`` has ended."""

        def stop() -> None:
            self.stop()
            if not process.alive(folder):
                raise ended(folder)

        return replace(self, stop=stop)


class _Silent(Exception):
    """The guest's kernel never ran: another way may work."""


def boot(
    folder: Path,
    machine: Machine,
    *,
    kernel: Path,
    port: int,
    accel: str,
    watch: Watch,
    again: bool = False,
) -> Way:
    """Start the guest of ``folder`` and wait until its sshd listens, and, unless it boots
    ``again``, until its containers' image is there; returns the way in which it runs.

    Raises :class:`LabError`; nothing runs then.
    """
    reason = ""
    for way in accelerators.ways(accel):
        watch.say(f"booting {machine.layout.cpus} CPUs ({way.name})")
        patience = time.monotonic() + way.wait(machine.layout.cpus)
        command = arguments(
            machine,
            kernel=str(kernel),
            port=port,
            accelerator=way.accelerator,
            words=accelerators.kernel_words(way.accelerator),
        )
        try:
            launch(folder, command)
            _follow(folder, watch, min(patience, watch.until), _AGAIN if again else _FIRST)
        except _Silent as silent:
            process.end(folder)
            reason = str(silent)
        except BaseException:
            process.end(folder)
            raise
        else:
            return way
    raise LabError(reason)


def launch(folder: Path, command: list[str], *, pass_fds: tuple[int, ...] = ()) -> None:
    """Start QEMU, after removing what an earlier one left."""
    for name in (MONITOR, CONSOLE, process.LOG):
        (folder / name).unlink(missing_ok=True)
    process.start(folder, command, pass_fds=pass_fds)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _follow(folder: Path, watch: Watch, patience: float, wanted: frozenset[str]) -> None:
    """Wait until the guest has reported the ``wanted`` stages."""
    reached: set[str] = set()
    while not wanted <= reached:
        watch.stop()
        running = process.alive(folder)
        text = _console(folder)
        for stage in (found.decode("utf-8", "replace") for found in _STAGE.findall(text)):
            if stage.startswith("failed: "):
                why = one_line(stage.removeprefix("failed: "))
                raise LabError(f"{folder.name}: the guest cannot boot: {why}")
            if stage in _STAGES and stage not in reached:
                reached.add(stage)
                watch.say(_STAGES[stage])
        if panic := _PANIC.search(text):
            raise LabError(f"{folder.name}: {one_line(panic[0].decode('utf-8', 'replace'))}")
        if not running:
            error = ended(folder)
            raise error if reached or PORT_TAKEN in str(error) else _Silent(str(error))
        _check_time(folder, watch, patience, reached)
        time.sleep(_POLL)


def ended(folder: Path) -> LabError:
    """The error of a guest whose QEMU has ended, with QEMU's last message."""
    why = one_line(process.complaint(folder)) or "without a message"
    if "host forwarding" in why:
        return LabError(f"{folder.name}: {PORT_TAKEN}: {why}")
    return LabError(f"{folder.name}: QEMU ended: {why}", evidence=tail(folder))


def _check_time(folder: Path, watch: Watch, patience: float, reached: set[str]) -> None:
    now = time.monotonic()
    if not reached and now > patience:
        raise _Silent(f"{folder.name}: the guest's kernel was not up in time")
    if now > watch.until:
        last = _STAGES[max(reached, key=list(_STAGES).index)] if reached else "nothing"
        raise LabError(
            f"{folder.name}: not booted in time; the last that was seen: {last}",
            evidence=tail(folder),
        )


def tail(folder: Path) -> str:
    """The end of what the guest wrote to its console."""
    return _console(folder)[-_TAIL:].decode("utf-8", "replace")


def _console(folder: Path) -> bytes:
    try:
        return (folder / CONSOLE).read_bytes()[-(1 << 20) :]
    except OSError:
        return b""
