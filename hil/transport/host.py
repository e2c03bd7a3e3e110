"""A shell on the host of a container, with which a pod certifies its own node.

What belongs here: how a script gets from the container to the host. What never does: how it runs
there (:mod:`hil.transport.local`).

The container is privileged and shares the host's process ids (``hostPID``), so its first process is
the host's. A script enters that process's namespaces and its cgroup.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from hil.shell import Done, NodeUnfit, NodeUsageError
from hil.transport.cgroup import leaving
from hil.transport.local import LocalShell, Talk
from hil.transport.supervised import Supervised
from topologies.errors import one_line

_NAMESPACES: Final = ("--mount", "--uts", "--ipc", "--net", "--cgroup")


class HostShell(LocalShell):
    """:class:`hil.shell.Shell` on the host of the container that this process is in, as root.
    ``first`` is a process of the host, by its id.

    Raises :class:`hil.shell.NodeUsageError` where the first process is of this container, or where
    there is no container. A script raises :class:`hil.shell.NodeUnfit` where the container has not
    the rights to enter the host.
    """

    def __init__(self, name: str, first: int = 1) -> None:
        super().__init__(name, require_root=True)
        self._first = str(first)
        # Where this cannot be read, the first script says so.
        with contextlib.suppress(OSError):
            if Path(f"/proc/{first}/ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink():
                raise NodeUsageError(
                    f"{name}: host: is the host of a container with hostPID, and the first process "
                    "here has the mounts of pinproof itself; outside of a container use local:"
                )

    def _arguments(self, run: Supervised) -> list[str]:
        enter = ["nsenter", "--target", self._first, *_NAMESPACES, "--"]
        leave = f'q=$$; {leaving(self._first)}exec "$@"'
        return [*enter, "/bin/sh", "-c", leave, "sh", *super()._arguments(run)]

    def _done(self, run: Supervised, talk: Talk) -> Done:
        if run.token.encode() not in talk.out:
            said = one_line(talk.aside.decode("utf-8", "replace").strip()[-200:]) or "nothing"
            raise NodeUnfit(
                f"{self.name}: the host is not entered, which takes a privileged container with "
                f"hostPID: {said}"
            )
        return super()._done(run, talk)
