"""What can go wrong while a machine is captured.

    MachineError
    +-- CaptureError          no capture could be had; nothing was written
        +-- BadTarget         what was asked for is no target: a fault of the user's
        +-- HostKeyError      the host is not known, or is not the one that was known

``str()`` is one line for a person. Text that a node sent is made printable in it.
"""

from __future__ import annotations

from topologies.errors import MachineError


class CaptureError(MachineError):
    """A capture could not be had from ``source``."""

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"cannot capture {source}: {reason}")


class BadTarget(CaptureError):
    """No such target, or a machine that cannot be made."""


class HostKeyError(CaptureError):
    """The host key is unknown, or another than the known one."""
