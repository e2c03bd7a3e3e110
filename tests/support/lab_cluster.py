"""A booted lab node that belongs to an API server of :mod:`tests.support.cluster`.

The guest reaches no network. Over SSH, its loopback leads to the API server (``-R``), and what the
API server says to the node goes the other way (``-D``): to its kubelet's port, and to ports of its
pods. The API server is told so by its egress selector (``Cluster(…, egress=…)``). A reboot of the
guest ends the SSH connection; another one is made until the node is let go.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hil.lab import Node
from hil.lab import keys as keyring
from hil.lab.names import NODE_NAME
from hil.lab.recipe import tar
from hil.transport import connected
from hil.transport import nodes as read_inventory
from tests.support.carrying import accepting, carry, free_port
from tests.support.cluster import Cluster

FOLDER: Final = "etc/kubernetes/test-cluster"
_JOIN: Final = f"""
mkdir -p /etc/systemd/system/kubelet.service.d
command=$(sed -n 's/^ExecStart=//p' /etc/systemd/system/kubelet.service)
printf '[Service]\\nExecStart=\\nExecStart=%s --kubeconfig=/{FOLDER}/kubeconfig\\n' "$command" \\
  >/etc/systemd/system/kubelet.service.d/cluster.conf
tar -xf - -C /
systemctl daemon-reload && systemctl restart kubelet
"""
#: A request of SOCKS 5 without a password, and its first answer.
_HELLO, _WELCOME = b"\x05\x01\x00", b"\x05\x00"
#: A kubelet of the lab listens on the guest's loopback alone.
_LOOPBACK: Final = b"\x05\x01\x00\x01\x7f\x00\x00\x01"


@contextmanager
def joined(node: Node, cluster: Cluster, *, egress: Path | None = None) -> Iterator[Path]:
    """The node belongs to the cluster; an inventory of it that names the kubeconfig. ``egress``:
    the socket by which the cluster reaches it."""
    own = node.folder / "lab.toml"
    inventory = node.folder / "cluster.toml"
    inventory.write_text(f'{own.read_text()}kubeconfig = "{cluster.admin_kubeconfig}"\n')
    with contextlib.ExitStack() as stack:
        socks = stack.enter_context(_ssh(node, urlsplit(cluster.url).port or 0))
        if egress is not None:
            stack.enter_context(_carried(egress, socks))
        with connected(read_inventory(str(own))[0]) as shell:
            done = shell.run(_JOIN, stdin=_credentials(cluster), deadline=120)
            assert done.status == 0, done.stderr
        await_node(cluster, ready=False)
        yield inventory


def await_node(cluster: Cluster, *, ready: bool, seconds: float = 120) -> None:
    """Until the node has registered, and is Ready where that is asked."""
    end = time.monotonic() + seconds
    while True:
        for one in cluster.admin.list_node().items:
            conditions = {each.type: each.status for each in one.status.conditions or []}
            if one.metadata.name == NODE_NAME and (not ready or conditions.get("Ready") == "True"):
                return
        assert time.monotonic() < end, "its kubelet does not register, or is not Ready"
        time.sleep(0.5)


def _credentials(cluster: Cluster) -> bytes:
    folder = cluster.admin_kubeconfig.parent
    files = {
        f"{FOLDER}/{name}": ((folder / name).read_bytes(), 0o600)
        for name in ("authority.crt", "admin.crt", "admin.key")
    }
    kubeconfig = cluster.admin_kubeconfig.read_bytes()
    return tar({**files, f"{FOLDER}/kubeconfig": (kubeconfig, 0o600)}, {})


@contextmanager
def _ssh(node: Node, port: int) -> Iterator[int]:
    """The guest's ``port`` on its loopback is the host's; a port of the host's that speaks SOCKS
    leads to the guest."""
    assert node.record is not None
    socks = free_port()
    words = ["ssh", "-F", "none", "-N", "-p", str(node.record.port)]
    words += ["-i", str(node.folder / keyring.LOGIN), "-o", "IdentitiesOnly=yes"]
    words += ["-o", f"UserKnownHostsFile={node.folder / keyring.KNOWN_HOSTS}"]
    words += ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=6"]
    words += ["-o", "ExitOnForwardFailure=yes", "-R", f"127.0.0.1:{port}:127.0.0.1:{port}"]
    words += ["-D", f"127.0.0.1:{socks}", "root@127.0.0.1"]
    over = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def keep() -> None:
        while not over.is_set():
            quiet = subprocess.DEVNULL
            with subprocess.Popen(words, stdin=quiet, stderr=quiet) as tunnel:
                running[:] = [tunnel]
                while tunnel.poll() is None and not over.wait(0.2):
                    pass
                tunnel.kill()
            over.wait(1.0)

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield socks
    finally:
        over.set()
        keeper.join()


@contextmanager
def _carried(egress: Path, socks: int) -> Iterator[None]:
    """What an API server asks for by HTTP CONNECT at ``egress`` goes by SOCKS."""
    with socket.socket(socket.AF_UNIX) as listener:
        egress.unlink(missing_ok=True)
        listener.bind(str(egress))
        listener.listen(64)
        with accepting(listener, partial(_carry, socks)):
            yield
    egress.unlink()


def _carry(socks: int, client: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        head += _some(client)
    port = int(head.split(b" ")[1].rpartition(b":")[2])
    with socket.create_connection(("127.0.0.1", socks)) as way:
        way.sendall(_HELLO)
        if way.recv(2) != _WELCOME:
            raise ConnectionError("the tunnel speaks no SOCKS")
        way.sendall(_LOOPBACK + port.to_bytes(2))
        answer = _some(way)  # sshd's has ten bytes, in one piece
        if answer[1] != 0:
            raise ConnectionError(f"port {port} is not reached")
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n" + answer[10:])
        carry(client, way)


def _some(sock: socket.socket) -> bytes:
    got = sock.recv(65536)
    if not got:
        raise ConnectionError("it ended")
    return got
