"""The sandboxes of one subject: the next one is made while a kubelet is waited for, the last one
ends meanwhile.

What belongs here: when a sandbox begins and when its end is waited for. What never does: what it is
made of. No thread is needed: a sandbox is made by its own process and taken down by the kernel.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable

from conformance.subject import SubjectNotRestored, SubjectSetupError
from conformance.subjects.kubelet.sandbox import Sandbox


class Sandboxes:
    """Sandboxes that are all made alike, by ``make``.

    With ``ahead`` one spare is begun as soon as a sandbox is taken, and :meth:`give_back` waits for
    the sandbox that was given back before, so that at most one is ending. Without, there is no
    spare, and a sandbox that was given back is gone. The end of the interpreter is a
    :meth:`close`.
    """

    def __init__(self, make: Callable[[], Sandbox], *, ahead: bool) -> None:
        self._make = make
        self._ahead = ahead
        self._open: set[Sandbox] = set()
        self._spare: Sandbox | None = None
        self._ending: Sandbox | None = None
        self._failures: list[str] = []

    def take(self) -> Sandbox:
        """One that can be used. Raises :class:`SubjectSetupError`."""
        taken, self._spare = self._spare or self._begin(), None
        taken.await_birth()
        if self._ahead:
            with contextlib.suppress(SubjectSetupError):  # the next one to take it will see
                self._spare = self._begin()
        return taken

    def give_back(self, sandbox: Sandbox) -> None:
        """Have it end. What goes wrong with that, :meth:`close` raises."""
        sandbox.end()
        before, self._ending = self._ending, sandbox
        gone = before if self._ahead else sandbox
        if gone is not None:
            self._finish(gone)

    def close(self) -> None:
        """End all that are left, and wait until they are gone. Raises
        :class:`SubjectNotRestored` where one could not be ended. May be called twice."""
        atexit.unregister(self.close)
        self._spare = self._ending = None
        for sandbox in self._open:
            sandbox.end()
        for sandbox in list(self._open):
            self._finish(sandbox)
        failures, self._failures = self._failures, []
        if failures:
            raise SubjectNotRestored(f"a sandbox could not be ended: {'; '.join(failures)}")

    def _begin(self) -> Sandbox:
        if not self._open:
            atexit.register(self.close)
        made = self._make()
        self._open.add(made)
        return made

    def _finish(self, sandbox: Sandbox) -> None:
        try:
            sandbox.close()
        except OSError as error:
            self._failures.append(str(error))
        self._open.discard(sandbox)
