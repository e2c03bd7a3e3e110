"""Messages of failed SSH connections: what happened, and what to check.

What belongs here: a message for each kind of failure. paramiko raises one type for most of them,
with texts such as ``No existing session``, so the kind follows from how far the connection came.
What never does: connecting (:mod:`topologies.capturing.ssh_login`).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from topologies.errors import one_line

if TYPE_CHECKING:
    import paramiko

_LOG: Final = "see the log of its sshd"
_BUSY: Final = "the host may be overloaded or hung"
_PORT: Final = "another service may have this port"


def failed_login(
    error: BaseException, transport: paramiko.Transport | None, *, seconds: float, patience: float
) -> str:
    """Why there is no connection. ``transport`` is as far as it came. ``seconds`` have passed; each
    part of a login may take ``patience`` seconds."""
    late = seconds >= patience and not _closed(error)
    if transport is None:
        return _no_connection(error, seconds)
    if not transport.remote_version:
        return _no_banner(error, late, seconds)
    if not transport.initial_kex_done:
        return _no_key_exchange(error, late, seconds)
    return _no_login(error, late, seconds)


def failed_request(error: BaseException, *, late: bool, patience: float) -> str:
    """Why a command did not begin on an open connection. ``late``: its deadline passed."""
    import paramiko

    if late or _comes_from(error, TimeoutError) or str(error) == "Timeout opening channel.":
        return f"the SSH server did not answer a request within {patience:g} s: {_BUSY}"
    if isinstance(error, paramiko.ChannelException):
        return f"the SSH server refuses to open a session ({one_line(error.text)}): {_LOG}"
    if str(error) == "Channel closed.":
        return f"the SSH server refuses to run a command: this login may be for files alone; {_LOG}"
    return f"the connection broke: {_text_of(error) or 'the host closed it'}"


def failed_jump(error: BaseException, target: str) -> str:
    """Why a jump host opens no connection to ``target``."""
    import paramiko

    if isinstance(error, paramiko.ChannelException):
        return f"it opens no connection to {target}: {one_line(error.text)}"
    if str(error) == "Timeout opening channel.":
        return f"it opens no connection to {target} in time"
    return f"it opens no connection to {target}: {_text_of(error) or 'it closed its own'}"


def _no_connection(error: BaseException, seconds: float) -> str:
    import paramiko

    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        reasons = dict.fromkeys(
            getattr(one, "strerror", "") or str(one) for one in error.errors.values()
        )
        return f"{error.strerror}: {', '.join(reasons)}"
    if isinstance(error, TimeoutError):
        return f"no connection within {seconds:.0f} s: it may be down, or a firewall drops packets"
    if isinstance(error, socket.gaierror):
        return f"its name cannot be resolved: {error.strerror}"
    return _text_of(error)


def _no_banner(error: BaseException, late: bool, seconds: float) -> str:
    if late or _comes_from(error, TimeoutError):
        return f"no SSH server answered within {seconds:.0f} s: {_BUSY}, or {_PORT}"
    if _closed(error):
        return (
            "the host closed the connection before an SSH server named itself: its sshd refuses "
            f"connections (see its log), or {_PORT}"
        )
    return f"what answers is not an SSH server of version 2: {_text_of(error)}"


def _no_key_exchange(error: BaseException, late: bool, seconds: float) -> str:
    import paramiko

    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        hint = "" if "version" in str(error) else ": permit a current one in its sshd_config"
        return f"{_text_of(error)}{hint}"
    if late or str(error) == "No existing session":
        return f"the SSH server did not exchange keys within {seconds:.0f} s: {_BUSY}"
    if _closed(error):
        return f"the SSH server closed the connection while keys were exchanged: {_LOG}"
    return f"the SSH server's messages cannot be read: {_text_of(error)}"


def _no_login(error: BaseException, late: bool, seconds: float) -> str:
    import paramiko

    if isinstance(error, paramiko.BadAuthenticationType):
        allowed = ", ".join(one_line(one) for one in error.allowed_types) or "nothing"
        return f"authentication failed: the SSH server permits {allowed}; keys alone are used here"
    if str(error) == "Authentication failed.":
        return f"authentication failed: the SSH server accepts none of the keys; {_LOG}"
    if str(error) == "No authentication methods available":
        return "authentication failed: there is no private key in the SSH agent, ~/.ssh or --key"
    if late:
        return f"the SSH server did not answer the login within {seconds:.0f} s: {_BUSY}"
    if _closed(error) or "saw EOF" in str(error) or str(error) == "No existing session":
        return f"the SSH server closed the connection during the login: {_LOG}"
    return f"authentication failed: {_text_of(error)}"


def _text_of(error: BaseException) -> str:
    """The error's text, else its type; ``""`` for an end of the connection."""
    if isinstance(error, EOFError):
        return ""
    text = (isinstance(error, OSError) and error.strerror) or str(error).rstrip(".")
    return one_line(text) or type(error).__name__


def _closed(error: BaseException) -> bool:
    return _comes_from(error, EOFError) or _comes_from(error, ConnectionError)


def _comes_from(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(one, kind) for one in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes; paramiko raises its own while it handles a socket's."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
