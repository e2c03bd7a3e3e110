"""One bounded run of a script, on any way to the node.

What belongs here: deadline, limit, and that nothing keeps running. What never does: how bytes get
to the node and back (:mod:`hil.transport.ssh`, :mod:`hil.transport.local`).
"""

from __future__ import annotations

import threading
import time
from typing import Generic, Protocol, TypeVar

from hil.shell import DEADLINE, LIMIT, Done, NodeTimeout
from hil.transport.supervised import GIVE_SUDO, Sudo, Supervised


class Talk(Protocol):
    """A running script that is written to and read from at once, so that neither side waits for the
    other for ever. ``out`` and ``aside`` are its stdout and stderr so far."""

    out: bytearray
    aside: bytearray
    too_much: bool

    @property
    def status(self) -> int:
        """The exit status, once :meth:`until` was true. Raises :class:`hil.shell.NodeUnreachable`
        where the connection broke instead."""

    def until(self, end: float) -> bool:
        """Whether it ended by itself before ``end`` (of ``time.monotonic``)."""

    def close(self) -> None:
        """Close it."""


T = TypeVar("T", bound=Talk)


class BoundedShell(Generic[T]):
    """What every :class:`hil.shell.Shell` that reaches a node shares. ``root``: scripts must run as
    root. ``sudo``: how they become root. Scripts may run from several threads."""

    #: The error for a login that is not root.
    no_root = GIVE_SUDO

    def __init__(self, name: str, *, root: bool, sudo: Sudo | None = None) -> None:
        self.name = name
        self.trips = 0
        self._root = root
        self._sudo = sudo
        self._lock = threading.Lock()

    def run(
        self,
        script: str,
        *,
        stdin: bytes = b"",
        deadline: float = DEADLINE,
        limit: int = LIMIT,
    ) -> Done:
        run = Supervised.of(script, deadline, root=self._root, sudo=self._sudo)
        return self._run_bounded(run, stdin, limit)

    def _run_bounded(self, run: Supervised, stdin: bytes = b"", limit: int = LIMIT) -> Done:
        with self._lock:
            self.trips += 1
        deadline = run.deadline
        talk = self._start(run, run.before + stdin, limit)
        finished = False
        try:
            finished = talk.until(time.monotonic() + deadline)
        finally:
            if not finished:
                self._kill(run, talk)
            talk.close()
        if talk.too_much:
            raise NodeTimeout(f"{self.name}: a command wrote more than {limit} bytes")
        if not finished:
            raise NodeTimeout(f"{self.name}: a command took longer than {deadline:g} s")
        return self._done(run, talk)

    def _done(self, run: Supervised, talk: T) -> Done:
        """The result. Raises :class:`hil.shell.NodeUnfit`."""
        out, aside = bytes(talk.out), bytes(talk.aside)
        return run.done(talk.status, out, aside, node=self.name, no_root=self.no_root)

    def close(self) -> None:
        """As :meth:`hil.shell.Shell.close`."""

    def _start(self, run: Supervised, stdin: bytes, limit: int) -> T:
        """Start it. Raises :class:`hil.shell.NodeUnreachable`."""
        raise NotImplementedError

    def _kill(self, run: Supervised, talk: T) -> None:
        """End it, with all its children."""
        raise NotImplementedError
