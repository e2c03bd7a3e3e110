"""A lab node's names for itself: its host name, its kubelet's node name, its address.

A kubelet looks its node's name up again and again (``pkg/kubelet/nodestatus/setters.go``), for each
pod that starts or ends; without an answer, each lookup costs five seconds. So the guest has its
names in a file, and no name server.
"""

from __future__ import annotations

from typing import Final

#: The node name of every lab node's kubelet: so a snapshot serves nodes of any name.
NODE_NAME: Final = "pinproof-lab"
#: The addresses of the guest and of its host in QEMU's user network.
ADDRESS: Final = "10.0.2.15"
GATEWAY: Final = "10.0.2.2"


def files(hostname: str) -> dict[str, tuple[bytes, int]]:
    """The files that name a node, with their modes."""
    hosts = f"127.0.0.1 localhost\n::1 localhost\n{ADDRESS} {NODE_NAME}\n"
    if hostname != NODE_NAME:
        hosts += f"{ADDRESS} {hostname}\n"
    return {
        "etc/hostname": (f"{hostname}\n".encode(), 0o644),
        "etc/hosts": (hosts.encode(), 0o644),
        "etc/resolv.conf": (b"", 0o644),
    }
