"""Capturing: the tree of this host, of a node over SSH, or of a machine booted in QEMU; and saving
it. One script reads them all (:mod:`topologies.capturing.script`)."""

from topologies.capturing.captured import Capture
from topologies.capturing.errors import BadTarget, CaptureError, HostKeyError
from topologies.capturing.local import capture_host
from topologies.capturing.qemu import capture_qemu
from topologies.capturing.saving import check_place, write_capture
from topologies.capturing.ssh import capture_ssh

__all__ = [
    "BadTarget", "Capture", "CaptureError", "HostKeyError", "capture_host", "capture_qemu",
    "capture_ssh", "check_place", "write_capture",
]  # fmt: skip
