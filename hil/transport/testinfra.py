"""A node as a testinfra host, so that users' own tests can use testinfra's API.

What belongs here: testinfra's backend over a :class:`hil.shell.Shell`: the same
connection, host keys, sudo and bounds as everything else here. What never does: facts that a run
needs, which come in few round trips (:mod:`hil.inspection`); every question to a testinfra host is
one.

    host = host_of(shell)
    assert host.service("kubelet").is_running
"""

from __future__ import annotations

from typing import Any

import testinfra.backend.base
import testinfra.host

from hil.shell import Shell


def host_of(shell: Shell) -> testinfra.host.Host:
    """A testinfra host that runs everything through ``shell``; close the shell, not the host."""
    return testinfra.host.Host(_Backend(shell))


class _Backend(testinfra.backend.base.BaseBackend):
    NAME = "pinproof"

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell.name)
        self._shell = shell
        # Set, because testinfra would ask a program for it that the node may not have.
        self._encoding = "utf-8"

    def run(self, command: str, *args: str, **kwargs: Any) -> testinfra.backend.base.CommandResult:
        """One round trip."""
        line = self.get_command(command, *args)
        done = self._shell.run(line)
        return self.result(done.status, self.encode(line), done.stdout, done.stderr)
