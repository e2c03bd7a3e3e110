"""Undoing what a dead run left on a node."""

from __future__ import annotations

from typing import Final

from hil.safety import agent
from hil.safety.errors import NodeBusy
from hil.shell import Shell
from topologies.errors import one_line

_DEADLINE: Final = 600.0


def restore_node(shell: Shell, *, root: str = "", force: bool = False) -> bool:
    """Undo all that a run left, compare, and take the journal away; whether there was anything.

    Needs no facts, and nothing of that run but the journal on the node. May be called again and
    again. ``force``: also where a run that may be alive holds the node. Raises
    :class:`hil.safety.NodeBusy` without it, :class:`hil.safety.NotRestored`, and what the shell
    raises.
    """
    done = shell.run(agent.restoring(root, force=force), deadline=_DEADLINE)
    agent.check(shell.name, done, manual=agent.manual_steps(shell.name, root))
    return b"nothing" not in done.stderr


def refuse_if_held(shell: Shell, *, root: str = "") -> None:
    """Raises :class:`hil.safety.NodeBusy` where a run that may be alive holds the node."""
    first = shell.run(agent.status(root)).text.partition("\n")[0]
    if first.partition(" ")[0] == "held":
        raise NodeBusy(one_line(f"{shell.name}: this node is {_words(first)}"))


def left_by_a_run(shell: Shell, *, root: str = "") -> list[str]:
    """What a run that has not ended left: who holds the node, what is changed, what differs after
    an attempt to restore it, and what is wrong with its dead-man timer; a line each. Reads only;
    raises what the shell raises."""
    text = shell.run(agent.status(root)).text
    return [words for line in text.splitlines() if (words := _words(one_line(line)))]


def _words(line: str) -> str:
    """A line of :func:`hil.safety.agent.status` in words; ``""`` where it says that no run holds
    the node."""
    kind, _, rest = line.partition(" ")
    match kind:
        case "" | "free":
            return ""
        case "held":
            holder, _, left = rest.partition(" ")
            return f"held by {holder} for {left} s more"
        case "timer":
            return f"the dead-man timer: {rest}"
        case "differs":
            return f"not restored: {rest}"
    return f"changed: {rest}" if rest else f"changed: a {kind}"


def forget_node(shell: Shell, *, root: str = "") -> None:
    """Accept the node as it is: the journal is removed, and what it could not restore stays."""
    agent.check(shell.name, shell.run(agent.call(root, "forget"), deadline=_DEADLINE))
