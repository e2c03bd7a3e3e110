"""The sandboxes of one subject: while one is used, the next one is made and the last one ends.

That needs no thread: a sandbox is made by its own process, and the kernel ends it. Several threads
may take and give back.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable

from conformance.subject import SubjectNotRestored, SubjectSetupError
from conformance.subjects.kubelet.sandbox import Sandbox


class Sandboxes:
    """Sandboxes that ``make`` makes, all alike.

    With ``ahead`` a spare one is begun as soon as a sandbox is taken, and :meth:`give_back` waits
    for the end of the sandbox that was given back before, so that at most one is ending. Without
    it, there is no spare, and :meth:`give_back` waits for its own sandbox. The interpreter's exit
    calls :meth:`close`.
    """

    def __init__(self, make: Callable[[], Sandbox], *, ahead: bool) -> None:
        self._make = make
        self._ahead = ahead
        self._open: set[Sandbox] = set()
        self._spare: Sandbox | None = None
        self._ending: Sandbox | None = None
        self._failures: list[str] = []
        self._interrupted = False
        self._changing = threading.RLock()

    def take(self) -> Sandbox:
        """A sandbox that can be used. Raises :class:`SubjectSetupError`."""
        with self._changing:
            taken, self._spare = self._spare or self._begin(), None
        taken.await_birth()
        with self._changing:
            if self._ahead and self._spare is None:
                with contextlib.suppress(SubjectSetupError):  # the next call raises it again
                    self._spare = self._begin()
        return taken

    def give_back(self, sandbox: Sandbox) -> None:
        """End a sandbox. :meth:`close` raises errors of that."""
        sandbox.end()
        with self._changing:
            before, self._ending = self._ending, sandbox
        gone = before if self._ahead else sandbox
        if gone is not None:
            self._finish(gone)

    def interrupt(self) -> None:
        """End all sandboxes, and make no more. Does not wait."""
        with self._changing:
            self._interrupted, self._spare = True, None
            for sandbox in self._open:
                sandbox.end()

    def close(self) -> None:
        """End all sandboxes that are left, and wait until they are gone. Raises
        :class:`SubjectNotRestored` if one could not be ended. May be called twice."""
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
        with self._changing:
            if self._interrupted:
                raise SubjectSetupError("no sandbox: the run is over")
            if not self._open:
                atexit.register(self.close)
            sandbox = self._make()
            self._open.add(sandbox)
            return sandbox

    def _finish(self, sandbox: Sandbox) -> None:
        try:
            sandbox.close()
        except OSError as error:
            self._failures.append(str(error))
        with self._changing:
            self._open.discard(sandbox)
