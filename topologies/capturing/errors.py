"""What can go wrong while a machine is captured.

    MachineError
    +-- CaptureError          there is no capture; nothing was written
        +-- BadTarget         the user named something that cannot be captured
        +-- HostKeyError      the host's key is unknown, or has changed

``str()`` is one line for a person. Text that a node sent is made printable in it.
"""

from __future__ import annotations

from topologies.errors import MachineError


class CaptureError(MachineError):
    """``source`` could not be captured."""

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"cannot capture {source}: {reason}")


class BadTarget(CaptureError):
    """No such target, or a machine that cannot be made."""


class HostKeyError(CaptureError):
    """The host key is unknown, or has changed."""
