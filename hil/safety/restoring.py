"""Finishing what a dead run left on a node."""

from __future__ import annotations

from typing import Final

from hil.safety import agent
from hil.shell import Shell

_DEADLINE: Final = 600.0


def restore_node(shell: Shell, *, root: str = "", force: bool = False) -> bool:
    """Undo all that a run left, compare, and take the journal away; whether there was anything.

    Needs no facts, and no run's memory: the journal is on the node. May be called again and again.
    ``force``: though a run holds the node that may be alive. Raises
    :class:`hil.safety.NodeBusy` without it, :class:`hil.safety.NotRestored`, and what the shell
    raises.
    """
    done = shell.run(agent.restoring(root, force=force), deadline=_DEADLINE)
    agent.check(shell.name, done, manual=agent.manual_steps(shell.name, root))
    return b"nothing" not in done.stderr


def forget_node(shell: Shell, *, root: str = "") -> None:
    """Take the node as it is: the journal goes, and what it could not restore stays."""
    agent.check(shell.name, shell.run(agent.call(root, "forget"), deadline=_DEADLINE))
