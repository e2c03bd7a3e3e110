"""A shell that runs nothing, and an executor that acts through it."""

from __future__ import annotations

import threading

from hil.dry_run.ledger import Ledger
from hil.safety import Change, agent
from hil.session.executor import Executor
from hil.shell import DEADLINE, LIMIT, Done


class NotSent(Exception):
    """A command was entered in the ledger; there is no answer to it."""


class DryRunShell:
    """:class:`hil.shell.Shell` that enters each script into a ledger instead of running
    it. What other threads send (a lease's renewals) is not entered."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name = name
        self.trips = 0
        #: The changes that the next script makes.
        self.changes: tuple[Change, ...] = ()
        self.looks = False
        self._ledger = ledger

    def run(
        self,
        script: str,
        *,
        stdin: bytes = b"",
        deadline: float = DEADLINE,
        limit: int = LIMIT,
    ) -> Done:
        """As :meth:`hil.shell.Shell.run`, but nothing runs: the result is a success that only says
        that the changes were made."""
        if threading.current_thread() is threading.main_thread():
            self.trips += 1
            self._ledger.add(self.name, script, stdin=stdin, changes=self.changes, looks=self.looks)
        return Done(0, b"", agent.answer_to(script))

    def close(self) -> None:
        """Nothing is open."""


class DryRunExecutor:
    """:class:`hil.session.executor.Executor` that acts through ``inner``, whose shell runs nothing:
    each act ends with :class:`NotSent`."""

    def __init__(self, inner: Executor, shell: DryRunShell | None = None) -> None:
        self._inner = inner
        self._shell = shell

    @property
    def trips(self) -> int:
        return self._inner.trips

    def looking(self, looks: bool) -> None:
        """Whether the next act only looks."""
        if self._shell is not None:
            self._shell.looks = looks

    def act(self, script: str, *changes: Change, deadline: float, reads: bool = False) -> Done:
        if self._shell is not None:
            self._shell.changes = changes
        try:
            self._inner.act(script, *changes, deadline=deadline, reads=reads)
        finally:
            if self._shell is not None:
                self._shell.changes, self._shell.looks = (), False
        raise NotSent

    def assure(self) -> None:
        self._inner.assure()
