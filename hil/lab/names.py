"""Who a lab node is to itself: its name, the node that its kubelet speaks for, its address.

A kubelet looks its node's name up again and again (``pkg/kubelet/nodestatus/setters.go``), for each
pod that starts or ends; where nobody answers, each look costs five seconds. So the guest knows its
names by itself, and has no name server to ask.
"""

from __future__ import annotations

from typing import Final

#: Every lab node's kubelet calls its node so: a snapshot serves nodes of any name.
NODE_NAME: Final = "pinproof-lab"
#: QEMU's user network gives the guest this, and its host that.
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
