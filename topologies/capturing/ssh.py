"""A node, captured over SSH: one connection, one command, nothing left behind.

The host key must be known (``~/.ssh/known_hosts``). The script goes to a plain ``/bin/sh`` on
stdin, so no text of ours passes a login shell but that path; what comes back is bounded in size
and time, and is read by :mod:`topologies.capturing.stream`, which trusts none of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from topologies.capturing.captured import Capture, captured
from topologies.capturing.errors import BadTarget, CaptureError
from topologies.capturing.script import script
from topologies.capturing.ssh_failures import failed_request
from topologies.capturing.ssh_login import Deadline, log_in
from topologies.capturing.stream import MAX_STREAM

if TYPE_CHECKING:
    import paramiko

SCHEME: Final = "ssh"
_DEADLINE: Final = 60.0
_CONNECT: Final = 20.0
_CHUNK: Final = 1 << 16
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9_.:%-]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """``ssh://user@host:port``; ``str()`` is that, without what was not said."""

    host: str
    user: str | None = None
    port: int = 22

    @classmethod
    def parse(cls, url: str) -> Address:
        """Raises :class:`BadTarget` for what is no such address; a password does not belong into
        one, since command lines are seen by all."""
        parts = _split(url)
        try:
            port = parts.port
        except ValueError:
            raise BadTarget(_shown(parts), "the port is not a number up to 65535") from None
        host, user = parts.hostname or "", parts.username
        if parts.password is not None:
            raise BadTarget(_shown(parts), "an address must not contain a password: use a key")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise BadTarget(_shown(parts), "an address is ssh://user@host:port, with nothing after")
        if not _HOST.fullmatch(host) or host.startswith("-") or port == 0:
            raise BadTarget(_shown(parts), "an address is ssh://user@host:port")
        if user is not None and not _USER.fullmatch(user):
            raise BadTarget(_shown(parts), "not a valid user name")
        return cls(host, user, 22 if port is None else port)

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port != 22 else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}://{user}{host}{port}"

    @property
    def known_as(self) -> str:
        """How known_hosts names it."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"


def capture_ssh(
    url: str,
    *,
    known_hosts: str | os.PathLike[str] | None = None,
    accept_new_host_key: bool = False,
    key: str | os.PathLike[str] | None = None,
    deadline: float = _DEADLINE,
) -> Capture:
    """Capture the node at ``ssh://user@host:port``: no root, and nothing to install there.

    ``known_hosts`` is a file of its own instead of ``~/.ssh/known_hosts``. With
    ``accept_new_host_key`` the key of a host that has none there yet is added to it; a changed key
    is refused all the same. ``key`` is a private key to log in with instead of the agent's and
    ``~/.ssh``'s. ``deadline`` bounds the whole, in seconds. Raises :class:`BadTarget`,
    :class:`HostKeyError`, :class:`CaptureError`.
    """
    address = Address.parse(url)
    place = Path(known_hosts) if known_hosts is not None else Path.home() / ".ssh" / "known_hosts"
    until = time.monotonic() + deadline
    with _connected(address, place, accept_new_host_key, key, until) as client:
        data = _run(client, address, until)
    return captured(data, where=str(address), source="captured over SSH")


@contextlib.contextmanager
def _connected(
    address: Address,
    known_hosts: Path,
    accept_new: bool,
    key: str | os.PathLike[str] | None,
    until: float,
) -> Iterator[paramiko.SSHClient]:
    import paramiko

    client = paramiko.SSHClient()
    try:
        log_in(
            client,
            address,
            known_hosts=known_hosts,
            accept_new=accept_new,
            keys=[Path(key)] if key is not None else [],
            patience=min(_CONNECT, max(0.1, until - time.monotonic())),
        )
        yield client
    finally:
        client.close()


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
    data, aside = bytearray(), 0
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise CaptureError(where, "it was not read in time")
        if channel.recv_stderr_ready():
            aside += len(channel.recv_stderr(_CHUNK))
        if len(data) + aside > MAX_STREAM:
            raise CaptureError(where, f"it sent more than {MAX_STREAM >> 20} MiB")
        # What waits on stderr is not to wait for stdout, or a node that fills it is never done.
        channel.settimeout(min(left, 0.0 if channel.recv_stderr_ready() else 0.5))
        try:
            chunk = channel.recv(_CHUNK)
        except TimeoutError:
            continue
        data += chunk
        if not chunk:
            return bytes(data)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadTarget(url.partition("@")[2] or url, str(error)) from error
    if parts.scheme != SCHEME or not parts.netloc:
        raise BadTarget(url, "an address is ssh://user@host:port")
    return parts


def _shown(parts: SplitResult) -> str:
    """Without the password."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
