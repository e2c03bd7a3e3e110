"""What can be wrong with a machine that a user names.

    MachineError
    +-- UnknownMachine        nothing has that name
    +-- BadSpec               a description of a machine that cannot exist
    +-- BrokenMachine         an archive or folder that is not a machine, cut off, or hostile
    +-- UnwritableMachine     the tree cannot be written there

Every ``str()`` is one line for a person; what comes from an archive is made printable in it.
"""

from __future__ import annotations

from collections.abc import Sequence


class MachineError(Exception):
    """A machine cannot be used; ``str()`` is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class UnknownMachine(MachineError):
    """No catalogue name, spec or path; ``near`` holds the names that look like it."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        self.name = name
        self.near = tuple(near)
        likely = " or ".join(self.near)
        hint = f"did you mean {likely}?" if near else "`pinproof machines` lists them"
        super().__init__(f"there is no machine {name!r}: {hint}")


class BadSpec(MachineError):
    """A spec breaks the grammar of :mod:`topologies.spec`, or describes no possible machine."""

    def __init__(self, spec: str, reason: str) -> None:
        self.spec = spec
        self.reason = reason
        super().__init__(f"{spec!r} is not a valid description: {reason}")


class BrokenMachine(MachineError):
    """What lies at ``where`` cannot be used as a machine."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where}: {reason}")


class UnwritableMachine(MachineError):
    """The tree cannot be written to ``where``."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"cannot write a machine to {where}: {reason}")


def one_line(text: str, limit: int = 500) -> str:
    """``text`` on one line of printable characters: names come out of untrusted archives, and
    end up in terminals and logs."""
    shown = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
