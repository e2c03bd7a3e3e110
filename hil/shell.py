"""The interface of every part that touches a node: one command, bounded in time and size.

What belongs here: the protocol, its result and its errors. What never does: how a command reaches
the node (:mod:`hil.transport`), and what is run there.

The exception says whose fault it is, as for subjects (:mod:`conformance.subject`):

    NodeError                   one line for a person, evidence may be many; status 3
    +-- NodeUsageError          the user named a node that cannot be: inventory, scheme (status 2)
    +-- NodeUnreachable         no connection, or it broke: wrong key, changed host key, cut
    +-- NodeTimeout             a command outlived its deadline, or wrote more than its bound
    +-- NodeUnfit               reached, but unfit: no sudo, no kubelet, not static, full
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from conformance.subject import WithEvidence

#: Seconds that a command may take, and bytes that it may write, where a caller says nothing.
DEADLINE: Final = 20.0
LIMIT: Final = 4 << 20


class NodeError(WithEvidence):
    """An error of a node, which is not a verdict."""


class NodeUsageError(NodeError):
    """The user named a node that cannot be."""


class NodeUnreachable(NodeError):
    """There is no connection to the node, or there is none any more."""


class NodeTimeout(NodeError):
    """A command took longer than its deadline, or wrote more than its bound."""


class NodeUnfit(NodeError):
    """The node was reached, and cannot be used for what was asked."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended: its exit status (negative: the signal), and what it wrote."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """``stdout``; bytes that are no UTF-8 survive as surrogates."""
        return self.stdout.decode(errors="surrogateescape")


@runtime_checkable
class NeedsKubelet(Protocol):
    """A shell whose way to the node ends with the node's kubelet."""

    def outlast_kubelet(self) -> None:
        """From now on it works while the kubelet is down. Raises :class:`NodeUnfit` where it
        cannot."""

    def outlast_boot(self, folder: str) -> None:
        """From now on it works after a boot, though the kubelet does not come up. ``folder`` of the
        node is the run's own, and is removed with it."""


def outlast_kubelet(shell: Shell) -> None:
    """Make ``shell``, of any kind, work while the node's kubelet is down. Raises :class:`NodeUnfit`
    where it cannot."""
    if isinstance(shell, NeedsKubelet):
        shell.outlast_kubelet()


class Shell(Protocol):
    """A way to run POSIX shell scripts on one node as root, one round trip each."""

    #: How a person calls the node: ``"node7"``.
    name: str

    #: Round trips so far: one for every :meth:`run`.
    trips: int

    def run(
        self,
        script: str,
        *,
        stdin: bytes = b"",
        deadline: float = DEADLINE,
        limit: int = LIMIT,
    ) -> Done:
        """Run ``script`` by ``sh`` on the node as root, with ``stdin``.

        A status other than 0 is a result, not an error. When this returns or raises, the command
        and all its children have ended on the node, as far as the node can still be reached. Raises
        :class:`NodeUnreachable` and :class:`NodeTimeout` (``deadline`` in seconds, ``limit`` in
        bytes of stdout and stderr together).
        """

    def close(self) -> None:
        """Close the connection. May be called twice."""
