"""Connections of a listening socket, each in a thread of its own, and carried on to another one;
and a port for such a socket."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def accepting(listener: socket.socket, each: Callable[[socket.socket], None]) -> Iterator[None]:
    """While the block runs, ``each`` is called with every connection, which is closed afterwards. A
    connection that breaks is nobody's error."""
    thread = threading.Thread(target=_accept, args=(listener, each), daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _accept(listener: socket.socket, each: Callable[[socket.socket], None]) -> None:
    def closed_after(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ValueError):
            each(client)

    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=closed_after, args=(client,), daemon=True).start()


def carry(one: socket.socket, other: socket.socket) -> None:
    """What comes from each goes to the other, until both have ended."""
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join()


def free_port() -> int:
    """One of loopback that nobody has now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _copy(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)
