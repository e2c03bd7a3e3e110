"""A node, guarded: whatever is done to it inside is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

from hil.facts import NodeFacts
from hil.safety.changes import Change
from hil.safety.risk import Allow, Risk
from hil.shell import Done, Shell

#: Seconds of silence after which the node restores itself.
PATIENCE = 120.0


class Guarded:
    """A node that is ours for a while, and is left as it was.

    Entering takes the lease, sweeps what a dead run left, takes the fingerprint, writes the
    journal and sets the dead-man timer, in one round trip; a thread then keeps the lease alive.
    Leaving, however it happens, undoes all changes, compares, and gives the lease back, in one
    round trip. ``owner`` names the run (``""``: made up); ``say`` takes one line for a person.
    """

    def __init__(
        self,
        shell: Shell,
        facts: NodeFacts,
        risk: Risk,
        owner: str = "",
        *,
        allow: Iterable[Allow] = (),
        static_pods: bool = False,
        patience: float = PATIENCE,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Raises :class:`hil.shell.NodeUnfit` on entering where the node runs what would be
        disturbed and ``allow`` does not say so, :class:`hil.safety.NodeBusy` where another run has
        it. ``static_pods``: the run brings pods that the kubelet evicts others for."""
        raise NotImplementedError

    def __enter__(self) -> Guarded:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restores. Raises :class:`hil.safety.NotRestored`."""

    def change(self, *changes: Change, then: str = "") -> Done:
        """Journal and make all these changes in order, then run the script ``then``: one round
        trip. How ``then`` ended is the result. Nothing is changed that is not journalled; raises
        :class:`hil.shell.NodeUnfit` where one could not be made, :class:`hil.safety.LeaseLost`,
        and what the shell raises. A CPU that must stay online is refused before anything is done:
        CPU 0, a reserved one, one of a foreign pinned pod."""
        raise NotImplementedError

    def change_file(self, path: str, text: str) -> None:
        """:class:`~hil.safety.changes.WriteFile` with this text."""

    def remove_file(self, path: str) -> None:
        """:class:`~hil.safety.changes.RemoveFile`."""

    def offline(self, *cpus: int) -> None:
        """Take CPUs offline, in this order."""

    def online(self, *cpus: int) -> None:
        """Bring CPUs online."""

    def note(self, undo: str) -> None:
        """:class:`~hil.safety.changes.Note`."""

    def touch(self) -> None:
        """Say that we live (a thread does so by itself). Raises :class:`LeaseLost`."""

    def restore(self) -> None:
        """Undo all changes so far, and go on holding the node. Raises :class:`NotRestored`."""
