"""A node, captured over SSH: one connection, one command, nothing left behind.

The host key must be known (``~/.ssh/known_hosts``). The script goes to ``/bin/sh`` on stdin, so the
login shell gets nothing but that path. The answer is bounded in size and time.
:mod:`topologies.capturing.stream` reads it, and does not trust it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from topologies.capturing.address import Address
from topologies.capturing.captured import Capture, captured
from topologies.capturing.errors import CaptureError
from topologies.capturing.script import script
from topologies.capturing.ssh_failures import failed_request
from topologies.capturing.ssh_login import Deadline, log_in
from topologies.capturing.stream import MAX_STREAM

if TYPE_CHECKING:
    import paramiko

_DEADLINE: Final = 60.0
_CONNECT: Final = 20.0
_CHUNK: Final = 1 << 16


def capture_ssh(
    url: str,
    *,
    known_hosts: str | os.PathLike[str] | None = None,
    accept_new_host_key: bool = False,
    key: str | os.PathLike[str] | None = None,
    deadline: float = _DEADLINE,
) -> Capture:
    """Capture the node at ``ssh://user@host:port``: no root, and nothing to install there.

    ``known_hosts`` is a file to use instead of ``~/.ssh/known_hosts``. With ``accept_new_host_key``
    the key of a host that has none there yet is added to it; a changed key is still refused.
    ``key`` is a private key to log in with instead of the agent's and ``~/.ssh``'s. ``deadline``
    bounds the whole, in seconds. Raises :class:`BadTarget`, :class:`HostKeyError`,
    :class:`CaptureError`.
    """
    import paramiko

    address = Address.parse(url)
    place = Path(known_hosts) if known_hosts is not None else Path.home() / ".ssh" / "known_hosts"
    until = time.monotonic() + deadline
    with paramiko.SSHClient() as client:
        log_in(
            client,
            address,
            known_hosts=place,
            accept_new=accept_new_host_key,
            keys=[Path(key)] if key is not None else [],
            patience=min(_CONNECT, max(0.1, until - time.monotonic())),
        )
        data = _run(client, address, until)
    return captured(data, where=str(address), source="captured over SSH")


def _run(client: paramiko.SSHClient, address: Address, until: float) -> bytes:
    """Send the script, and take what it prints."""
    import paramiko

    where = str(address)
    transport = client.get_transport()
    assert transport is not None
    left = max(0.1, until - time.monotonic())
    deadline = Deadline(transport, left)
    try:
        with deadline:
            channel = transport.open_session(timeout=left)
            channel.exec_command("exec /bin/sh -s")
            channel.settimeout(left)
            channel.sendall(script().encode())
            channel.shutdown_write()
    except (paramiko.SSHException, EOFError, OSError) as error:
        reason = failed_request(error, late=deadline.passed, patience=left)
        raise CaptureError(where, reason) from error
    data, on_stderr = bytearray(), 0
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise CaptureError(where, "it was not read in time")
        if channel.recv_stderr_ready():
            on_stderr += len(channel.recv_stderr(_CHUNK))
        if len(data) + on_stderr > MAX_STREAM:
            raise CaptureError(where, f"it sent more than {MAX_STREAM >> 20} MiB")
        # With data on stderr, do not wait for stdout: a node whose stderr is full writes nothing.
        channel.settimeout(min(left, 0.0 if channel.recv_stderr_ready() else 0.5))
        try:
            chunk = channel.recv(_CHUNK)
        except TimeoutError:
            continue
        data += chunk
        if not chunk:
            return bytes(data)
