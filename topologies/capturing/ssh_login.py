"""Logging in to a host over SSH, and the one reason of a failure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topologies.capturing import hostkeys
from topologies.capturing.address import Address
from topologies.capturing.errors import CaptureError
from topologies.capturing.ssh_failures import failed_login

if TYPE_CHECKING:
    import paramiko


class Deadline:
    """Closes a connection after ``seconds``: paramiko waits without a bound for the answer to a
    request, and for room to write. ``passed``: this deadline closed it."""

    def __init__(self, transport: paramiko.Transport, seconds: float) -> None:
        self.passed = False
        self._transport = transport
        self._timer = threading.Timer(seconds, self._close)
        self._timer.daemon = True

    def _close(self) -> None:
        self.passed = True
        self._transport.close()

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def log_in(
    client: paramiko.SSHClient,
    address: Address,
    *,
    known_hosts: Path,
    accept_new: bool,
    keys: Sequence[Path] = (),
    patience: float,
    through: paramiko.Channel | None = None,
) -> None:
    """Connect ``client``. Without ``keys`` (files) those of the agent and of ``~/.ssh`` are tried.
    ``patience`` bounds each part of the login, in seconds. ``through`` is a channel that leads to
    the host. Raises :class:`CaptureError` with one reason; where the host key is the reason, its
    subclass :class:`HostKeyError`."""
    import paramiko

    # Without a handler, paramiko's thread would log a broken connection to stderr.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    usable = [_private_key(address, path) for path in keys]
    if known_hosts.exists():
        client.load_host_keys(str(known_hosts))
    client.set_missing_host_key_policy(hostkeys.policy(address, known_hosts, accept_new))
    began = time.monotonic()
    try:
        client.connect(
            address.host,
            port=address.port,
            username=address.user,
            pkey=usable[0] if len(usable) == 1 else None,
            # paramiko accepts a list, its stubs do not. For a file, its error is about the last
            # type of key that it tried; so a single key is given as a key.
            key_filename=[str(path) for path in keys] if len(keys) > 1 else None,  # type: ignore[arg-type]
            allow_agent=not keys,
            look_for_keys=not keys,
            timeout=patience,
            banner_timeout=patience,
            auth_timeout=patience,
            channel_timeout=patience,
            sock=through,
        )
    except CaptureError:
        raise
    except paramiko.BadHostKeyException as error:
        raise hostkeys.changed(address, known_hosts, error.key) from None
    except Exception as error:  # paramiko's thread passes on any error that the host's bytes cause
        spent = time.monotonic() - began
        reason = failed_login(error, client.get_transport(), seconds=spent, patience=patience)
        raise CaptureError(str(address), reason) from error


def _private_key(address: Address, path: Path) -> paramiko.PKey:
    """The key of a file; raises :class:`CaptureError`, which names the file."""
    import paramiko
    from cryptography.exceptions import UnsupportedAlgorithm
    from paramiko.pkey import UnknownKeyType

    try:
        return paramiko.PKey.from_path(path)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except (TypeError, paramiko.PasswordRequiredException):
        reason = "the private key is encrypted: add it to the SSH agent, and name no identity"
    except (ValueError, paramiko.SSHException, UnsupportedAlgorithm, UnknownKeyType):
        reason = "this is not a private key that can be used"
    raise CaptureError(str(address), f"identity {path}: {reason}")
