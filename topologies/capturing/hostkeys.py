"""Host keys: which one a host may show, over every connection that the project makes.

A key must be in known_hosts. An unknown key is accepted only where the user allows it, and is then
added to known_hosts. A changed key is always refused.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from topologies.capturing.address import Address
from topologies.capturing.errors import HostKeyError

if TYPE_CHECKING:
    import paramiko


def policy(address: Address, known_hosts: Path, accept_new: bool) -> paramiko.MissingHostKeyPolicy:
    """The policy for a key of a type that known_hosts lacks for this host."""
    import paramiko

    class Policy(paramiko.MissingHostKeyPolicy):
        def missing_host_key(
            self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
        ) -> None:
            if client.get_host_keys().lookup(address.known_as):
                # A key of another type than the known one counts as changed.
                raise changed(address, known_hosts, key)
            if not accept_new:
                raise HostKeyError(
                    str(address),
                    f"its host key {_fingerprint(key)} is not in {known_hosts}: "
                    "check it and let it be added: --accept-new-host-key of capture and probe, "
                    "or accept_new = true in an inventory",
                )
            _remember(address, known_hosts, key)

    return Policy()


def changed(address: Address, known_hosts: Path, key: paramiko.PKey) -> HostKeyError:
    return HostKeyError(
        str(address),
        f"its host key {_fingerprint(key)} is another than the one in {known_hosts}: "
        "the host was reinstalled, or the connection is intercepted",
    )


def _fingerprint(key: paramiko.PKey) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def _remember(address: Address, known_hosts: Path, key: paramiko.PKey) -> None:
    """Append a line: paramiko's own saving drops every line that it cannot read."""
    known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(known_hosts, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as stream:
        size = stream.seek(0, os.SEEK_END)
        unfinished = size and os.pread(stream.fileno(), 1, size - 1) != b"\n"
        line = f"{address.known_as} {key.get_name()} {key.get_base64()}\n"
        stream.write(b"\n" * bool(unfinished) + line.encode())
