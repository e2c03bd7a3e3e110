"""A connection through an API server that becomes another protocol: exec, or a pod's own port.

What belongs here: the socket, the credentials, and the request that upgrades it. What never does:
what is sent afterwards (:mod:`hil.transport.kube`).

The client library cannot make two such connections at once, and cannot bound one in time. So its
settings are used here, and its sockets are not.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from hil.shell import NodeError, NodeTimeout, NodeUnreachable
from topologies.errors import one_line

_HEAD_ENDS: Final = b"\r\n\r\n"
_LONGEST_HEAD: Final = 1 << 16
_CHUNK: Final = 1 << 16
_SWITCHED: Final = 101
_IN_SERVER: Final = 500


class Tunnel:
    """Bytes both ways. Reading and writing never wait; :meth:`wait` does."""

    def __init__(self, sock: socket.socket, first: bytes) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._first = first

    def wait(self, seconds: float, *, to_send: bool) -> None:
        """Wait until there is something to read, or, with ``to_send``, room to write."""
        waiting = isinstance(self._sock, ssl.SSLSocket) and self._sock.pending()
        if not (self._first or waiting):
            select.select([self._sock], [self._sock] if to_send else [], [], max(0.0, seconds))

    def receive(self) -> bytes | None:
        """What came since; ``None``: the other side has ended it."""
        got, self._first = bytearray(self._first), b""
        while True:
            try:
                chunk = self._sock.recv(_CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return bytes(got)
            except OSError:
                chunk = b""
            if not chunk:
                return bytes(got) or None
            got += chunk

    def send(self, data: bytes | memoryview) -> int:
        """How much of it was sent. Raises ``OSError`` where nothing can be."""
        try:
            return self._sock.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0

    def close(self) -> None:
        """End it. May be called twice."""
        self._sock.close()


def opened(
    settings: Any, auth: Mapping[str, str], path: str, upgrade: Mapping[str, str], seconds: float
) -> Tunnel:
    """A tunnel to ``path`` of the server that the client library's ``settings`` name. Raises
    :class:`NodeUnreachable`, :class:`NodeTimeout`, and for an answer that is no upgrade
    :class:`Declined`."""
    sock: socket.socket | None = None
    try:
        sock = _connected(settings, seconds)
        headers = {"Host": urlsplit(settings.host).netloc, **auth, **upgrade}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        head, rest = _head(sock, time.monotonic() + seconds)
        status = int(head.split(b" ", 2)[1])
        if status != _SWITCHED:
            raise Declined(status, _body(sock, head, rest))
        return Tunnel(sock, rest)
    except BaseException as error:
        if sock is not None:
            sock.close()
        if isinstance(error, TimeoutError):
            raise NodeTimeout(f"no answer in {seconds:g} s") from error
        if isinstance(error, OSError | ValueError | IndexError | http.client.HTTPException):
            raise NodeUnreachable(one_line(str(error)) or type(error).__name__) from error
        raise


class Declined(NodeError):
    """The server answered without switching the protocol."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(one_line(body))
        self.status = status
        self.body = body

    @property
    def behind(self) -> bool:
        """Whether what failed is behind the server: the node, or the way to it."""
        return self.status >= _IN_SERVER


def _connected(settings: Any, seconds: float) -> socket.socket:
    place = urlsplit(settings.host)
    secure = place.scheme == "https"
    host, port = place.hostname or "", place.port or (443 if secure else 80)
    through = _proxy(settings)
    if through is None:
        sock = socket.create_connection((host, port), timeout=seconds)
    else:
        proxy = http.client.HTTPConnection(through.hostname or "", through.port or 80)
        proxy.timeout = seconds
        proxy.set_tunnel(host, port, headers=dict(settings.proxy_headers or {}))
        proxy.connect()
        sock = proxy.sock
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if not secure:
        return sock
    try:
        return _context(settings).wrap_socket(
            sock, server_hostname=settings.tls_server_name or host
        )
    except BaseException:
        sock.close()
        raise


def _proxy(settings: Any) -> Any:
    from requests.utils import should_bypass_proxies

    if not settings.proxy or should_bypass_proxies(settings.host, settings.no_proxy or ""):
        return None
    return urlsplit(settings.proxy)


def _context(settings: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert or None)
    if settings.assert_hostname is False or not settings.verify_ssl:
        context.check_hostname = False
    if not settings.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file or None)
    return context


def _head(sock: socket.socket, end: float) -> tuple[bytes, bytes]:
    got = b""
    while _HEAD_ENDS not in got:
        sock.settimeout(max(0.01, end - time.monotonic()))
        chunk = sock.recv(_CHUNK)
        if not chunk or len(got) > _LONGEST_HEAD:
            raise ConnectionError("the server ended the connection before it answered")
        got += chunk
    head, _, rest = got.partition(_HEAD_ENDS)
    return head, rest


def _body(sock: socket.socket, head: bytes, rest: bytes) -> str:
    """The body of another answer, as far as it comes within two seconds."""
    wanted = _LONGEST_HEAD
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            wanted = min(wanted, int(line.partition(b":")[2]))
    sock.settimeout(2)
    try:
        while len(rest) < wanted and (chunk := sock.recv(_CHUNK)):
            rest += chunk
    except OSError:
        pass
    return rest.decode("utf-8", "replace")
