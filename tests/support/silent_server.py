"""Servers on loopback that a real ``sshd`` never is: one that stops answering at a chosen moment,
and any that a function makes of a listening socket; for tests of deadlines and messages.

They are made of paramiko's server side, or of plain sockets.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import paramiko
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED

from hil.transport import NodeAddress

#: ``banner``: it accepts the connection alone. ``login``, ``session``, ``command``: it does not
#: answer that request. ``output``: it runs the command, which writes nothing. ``stdin``: it runs
#: the command, and reads nothing any more.
Moment = Literal["banner", "login", "session", "command", "output", "stdin"]


class _Server(paramiko.ServerInterface):
    def __init__(
        self, moment: Moment, over: threading.Event, stop_reading: threading.Event
    ) -> None:
        self._moment = moment
        self._over = over
        self._stop_reading = stop_reading

    def _silent_at(self, moment: Moment) -> None:
        if moment == self._moment:
            self._over.wait()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._silent_at("login")
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self._silent_at("session")
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._silent_at("command")
        if self._moment == "stdin":
            self._stop_reading.set()
        return True


def _serve(
    listener: socket.socket, key: paramiko.PKey, over: threading.Event, *, moment: Moment
) -> None:
    with contextlib.ExitStack() as stack:
        while not over.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            stack.callback(client.close)
            if moment == "banner":
                continue
            transport = paramiko.Transport(client, default_window_size=1 << 30)
            stack.callback(transport.close)
            transport.add_server_key(key)
            stop_reading = threading.Event()
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                transport.start_server(server=_Server(moment, over, stop_reading))
            if moment == "stdin":
                threading.Thread(
                    target=_stop_reading, args=(transport, stop_reading, over), daemon=True
                ).start()


def _stop_reading(
    transport: paramiko.Transport, asked: threading.Event, over: threading.Event
) -> None:
    """The transport's thread is held in its next handler, so nothing is read from the socket."""
    asked.wait()
    transport._channel_handler_table = _Held(over)  # type: ignore[attr-defined]


class _Held(dict[int, object]):
    def __init__(self, over: threading.Event) -> None:
        super().__init__()
        self._over = over

    def __contains__(self, key: object) -> bool:
        self._over.wait()
        return False


#: Serves the connections of a socket with a host key until the event is set.
Serve = Callable[[socket.socket, paramiko.PKey, threading.Event], None]


def silent_server(folder: Path, moment: Moment) -> contextlib.AbstractContextManager[NodeAddress]:
    """The address of a server on loopback that falls silent at this moment."""
    return served(folder, partial(_serve, moment=moment))


@contextlib.contextmanager
def served(folder: Path, serve: Serve) -> Iterator[NodeAddress]:
    """The address of what ``serve`` does with a socket on loopback, in a thread."""
    host_key, client_key = paramiko.RSAKey.generate(2048), paramiko.RSAKey.generate(2048)
    client_key.write_private_key_file(str(folder / "client"))
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
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
