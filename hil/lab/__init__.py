"""The lab: real nodes without hardware. QEMU boots a Debian kernel as the machine that was
described, with containerd and the user's kubelet, and a snapshot brings the next one of its kind
back in seconds (``docs/how-to/lab.md``)."""

from hil.lab.image import ready_image
from hil.lab.lab import Wish, clean, down, reboot, reset, up, was
from hil.lab.nodes import Node, State, all_nodes, named

__all__ = [
    "Node",
    "State",
    "Wish",
    "all_nodes",
    "clean",
    "down",
    "named",
    "ready_image",
    "reboot",
    "reset",
    "up",
    "was",
]
