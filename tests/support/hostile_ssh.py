"""Servers on loopback that a real ``sshd`` never is: hostile, broken in one way each, or silent
from a chosen moment on; for tests of deadlines and of what is said about them.

Those before the login are plain sockets. The others are paramiko's server side, which lets every
key in, and does what the function of that name says with a command.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    MSG_KEXINIT,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

from hil.transport import NodeAddress
from tests.support.carrying import accepting

BANNER: Final = b"SSH-2.0-hostile\r\n"
#: Serves the connections of a socket with a host key until the event is set.
Serve = Callable[[socket.socket, paramiko.PKey, threading.Event], None]
#: ``banner``: it accepts the connection alone. ``login``, ``session``, ``command``: it does not
#: answer that request. ``output``: it runs the command, which writes nothing. ``stdin``: it runs
#: the command, and reads nothing any more.
Moment = Literal["banner", "login", "session", "command", "output", "stdin"]
_Plain = Callable[[socket.socket, threading.Event], None]
_Command = Callable[[paramiko.Channel, threading.Event], None]


def _accepted(listener: socket.socket, over: threading.Event, each: Callable[..., None]) -> None:
    """Each connection in a thread of its own, until the event is set."""

    def quietly(client: socket.socket) -> None:
        with contextlib.suppress(EOFError, paramiko.SSHException):
            each(client)

    with accepting(listener, quietly):
        over.wait()


def plain(talk: _Plain) -> Serve:
    """A server that is no SSH server but for the bytes that ``talk`` sends."""

    def serve(listener: socket.socket, _: paramiko.PKey, over: threading.Event) -> None:
        _accepted(listener, over, lambda client: talk(client, over))

    return serve


def silent(client: socket.socket, over: threading.Event, said: bytes = b"") -> None:
    """It says this, and then nothing."""
    client.sendall(said)
    over.wait()


def closes(client: socket.socket, _: threading.Event, said: bytes = b"") -> None:
    """It says this, and ends the connection."""
    client.sendall(said)
    client.shutdown(socket.SHUT_RDWR)


def half_closes(client: socket.socket, over: threading.Event) -> None:
    """It ends its own side after the banner, and goes on to read."""
    client.sendall(BANNER)
    client.shutdown(socket.SHUT_WR)
    over.wait()


def http(client: socket.socket, _: threading.Event) -> None:
    """A web server, to which a banner is a bad request."""
    client.recv(1000)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<h1>400</h1>\r\n")
    client.shutdown(socket.SHUT_RDWR)


def endless(client: socket.socket, over: threading.Event, said: bytes = b"x" * 4096) -> None:
    """The same bytes again and again."""
    while not over.is_set():
        client.sendall(said)


def drips(client: socket.socket, over: threading.Event, said: bytes = b"y") -> None:
    """A byte from time to time."""
    while not over.wait(0.05):
        client.sendall(said)


def noise(client: socket.socket, over: threading.Event) -> None:
    """Random bytes after the banner; the same ones each time, since the first are a length."""
    client.sendall(BANNER + Random(0).randbytes(1 << 16))
    over.wait()


def strange(client: socket.socket, over: threading.Event) -> None:
    """A well-formed packet with a list of algorithms that is cut off."""
    body = bytes([MSG_KEXINIT]) + bytes(16) + (1 << 30).to_bytes(4, "big") + b"curve"
    padding = 8 - (5 + len(body)) % 8 + 8
    length = (len(body) + padding + 1).to_bytes(4, "big")
    client.sendall(BANNER + length + bytes([padding]) + body + bytes(padding))
    over.wait()


class _Server(paramiko.ServerInterface):
    """``denies`` is what it refuses: ``"login"``, ``"keys"``, ``"session"``, ``"command"``. At
    ``closes`` it ends the connection: ``"login"``, ``"session"``, ``"command"``. At ``silent`` it
    answers no more."""

    def __init__(
        self,
        transport: Any,
        over: threading.Event,
        *,
        denies: str = "",
        closes: str = "",
        silent: str = "",
        command: _Command | None = None,
    ) -> None:
        self._transport, self._over = transport, over
        self._denies, self._closes, self._silent = denies, closes, silent
        self._command = command

    def _reaches(self, moment: str) -> None:
        if self._silent == moment:
            self._over.wait()

    def _end(self) -> bool:
        self._transport.close()
        return False

    def _runs(self, channel: paramiko.Channel) -> None:
        self._over.wait(0.2)  # its answer that the command was begun is sent first
        assert self._command is not None
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._command(channel, self._over)

    def get_allowed_auths(self, username: str) -> str:
        return "password" if self._denies == "keys" else "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._reaches("login")
        if self._closes == "login":
            self._end()
        return AUTH_FAILED if self._denies in ("login", "keys") else AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self._reaches("session")
        if self._closes == "session":
            self._end()
        denied = self._denies == "session"
        return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED if denied else OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._reaches("command")
        if self._silent == "stdin":
            self._transport._channel_handler_table = _Held(self._over)
        if self._denies == "command":
            return False
        if self._closes == "command":
            return self._end()
        if self._command is not None:
            threading.Thread(target=self._runs, args=(channel,), daemon=True).start()
        return True


class _Held(dict[int, object]):
    """Handlers of a transport that is held once it looks for one: it reads nothing any more."""

    def __init__(self, over: threading.Event) -> None:
        super().__init__()
        self._over = over

    def __contains__(self, key: object) -> bool:
        self._over.wait()
        return False


@cache
def _key(_purpose: str) -> paramiko.ECDSAKey:
    return paramiko.ECDSAKey.generate()


def ssh(*, kex: str = "", other_key: bool = False, **manner: Any) -> Serve:
    """An SSH server with the manner of a :class:`_Server`. ``kex`` is the only key exchange that it
    knows; ``other_key``: its host key is not the known one."""

    def each(client: socket.socket, key: paramiko.PKey, over: threading.Event) -> None:
        transport: Any = paramiko.Transport(client, default_window_size=1 << 30)
        if kex:
            transport._preferred_kex = (kex,)
        transport.add_server_key(_key("another") if other_key else key)
        try:
            transport.start_server(server=_Server(transport, over, **manner))
            over.wait()
        finally:
            transport.close()

    def serve(listener: socket.socket, key: paramiko.PKey, over: threading.Event) -> None:
        _accepted(listener, over, lambda client: each(client, key, over))

    return serve


def _transport(channel: paramiko.Channel) -> Any:
    return channel.get_transport()


def says(text: bytes, status: int | None = 1) -> _Command:
    """A command that writes this and ends with this status; ``None``: with none."""

    def command(channel: paramiko.Channel, _: threading.Event) -> None:
        channel.sendall(text)
        if status is not None:
            channel.send_exit_status(status)
        channel.close()

    return command


def floods(channel: paramiko.Channel, over: threading.Event) -> None:
    while not over.is_set():
        channel.sendall(b"x" * (1 << 15))


def floods_aside(channel: paramiko.Channel, over: threading.Event) -> None:
    """Messages without end, on stderr."""
    while not over.is_set():
        channel.sendall_stderr(b"x" * (1 << 15))


def drips_output(channel: paramiko.Channel, over: threading.Event) -> None:
    """A byte of output from time to time."""
    while not over.wait(0.05):
        channel.sendall(b"x")


def never_ends(_: paramiko.Channel, over: threading.Event) -> None:
    over.wait()


def killed(channel: paramiko.Channel, _: threading.Event) -> None:
    """A command that a signal ended, as RFC 4254 6.10 has it."""
    message = paramiko.Message()
    message.add_byte(bytes([98]))
    message.add_int(channel.remote_chanid)
    message.add_string("exit-signal")
    message.add_boolean(False)
    message.add_string("KILL")
    message.add_boolean(False)
    message.add_string("")
    message.add_string("")
    _transport(channel)._send_user_message(message)
    channel.close()


def garbles(channel: paramiko.Channel, over: threading.Event) -> None:
    """Random bytes instead of packets, in the middle of a command."""
    _transport(channel).sock.sendall(os.urandom(1 << 12))
    over.wait()


def half_closes_while_it_runs(channel: paramiko.Channel, over: threading.Event) -> None:
    """It ends its own side of the connection, and goes on to read."""
    _transport(channel).sock.shutdown(socket.SHUT_WR)
    over.wait()


def silent_server(folder: Path, moment: Moment) -> contextlib.AbstractContextManager[NodeAddress]:
    """The address of a server on loopback that falls silent at this moment."""
    if moment == "banner":
        return served(folder, plain(silent))
    if moment == "output":
        return served(folder, ssh(command=never_ends))
    return served(folder, ssh(silent=moment))


@contextlib.contextmanager
def served(folder: Path, serve: Serve) -> Iterator[NodeAddress]:
    """The address of what ``serve`` does with a socket on loopback, in a thread."""
    host_key = _key("host")
    _key("client").write_private_key_file(str(folder / "client"))
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        known = folder / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {host_key.get_name()} {host_key.get_base64()}\n")
        thread = threading.Thread(target=serve, args=(listener, host_key, over))
        thread.start()
        try:
            yield NodeAddress(
                "node1",
                f"ssh://root@127.0.0.1:{port}",
                identity=(folder / "client",),
                known_hosts=known,
            )
        finally:
            over.set()
            thread.join()
