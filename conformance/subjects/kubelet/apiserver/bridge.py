"""A port in a kubelet's sandbox that leads to the API server, which is in another sandbox."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from conformance.subject import SubjectLostError


class Bridge:
    """Copies bytes between each connection to the bound socket ``listener`` and a new one from
    ``connect``, until it is closed."""

    def __init__(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listener = listener
        self._connect = connect
        self._open: set[socket.socket] = set()
        self._changing = threading.Lock()
        self._closed = False
        listener.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections, and accept no more."""
        with self._changing:
            self._closed = True
            ending = [self._listener, *self._open]
        for one in ending:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                kubelet, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except (OSError, SubjectLostError):
                kubelet.close()
                continue
            server.settimeout(None)
            self._join(kubelet, server)

    def _join(self, kubelet: socket.socket, server: socket.socket) -> None:
        with self._changing:
            self._open |= {kubelet, server}
            closed = self._closed
        if closed:
            self._end(kubelet, server)
            return
        back = threading.Thread(target=_copy, args=(server, kubelet), daemon=True)
        back.start()
        forth = threading.Thread(target=self._carry, args=(kubelet, server, back), daemon=True)
        forth.start()

    def _carry(self, kubelet: socket.socket, server: socket.socket, back: threading.Thread) -> None:
        _copy(kubelet, server)
        back.join()
        self._end(kubelet, server)

    def _end(self, kubelet: socket.socket, server: socket.socket) -> None:
        with self._changing:
            self._open -= {kubelet, server}
        kubelet.close()
        server.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until one end closes, then shut both down."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
