"""What can go wrong in the lab, and whose fault it is.

hil.shell.NodeError
+-- LabError                QEMU, the image or the guest broke (status 3)
|   +-- LabToolMissing      a program that the lab needs is not installed
+-- NodeUsageError
    +-- LabUsageError       the user named an unusable spec, kubelet or node (status 2)
"""

from __future__ import annotations

from hil.shell import NodeError, NodeUsageError


class LabError(NodeError):
    """The lab could not do what was asked; ``evidence`` is what the guest or a program said."""


class LabToolMissing(LabError):
    """A program is missing; the text names the Debian package that has it."""

    def __init__(self, program: str, package: str) -> None:
        self.program = program
        self.package = package
        super().__init__(f"{program} is not installed: apt-get install {package}")


class LabUsageError(NodeUsageError):
    """The user named something that cannot be used."""
