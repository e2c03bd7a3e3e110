"""A shell on a node over SSH: one connection, one channel for each script, strict host keys.

What belongs here: connections and channels. What never does: what runs on the node
(:mod:`hil.transport.supervised`), and what an address means (:mod:`hil.transport.route`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hil.shell import DEADLINE, NodeTimeout, NodeUnreachable
from hil.transport.bounded import BoundedShell
from hil.transport.route import Hop
from hil.transport.supervised import Sudo, Supervised
from topologies.capturing.errors import CaptureError
from topologies.capturing.ssh_failures import failed_jump, failed_request
from topologies.capturing.ssh_login import Deadline, log_in
from topologies.errors import one_line

if TYPE_CHECKING:
    import paramiko

_CONNECT: Final = 20.0
_CHUNK: Final = 1 << 15
#: A channel signals what it receives, but not room to send: that is checked this often.
_LOOK: Final = 0.02
#: Seconds without output after the exit status.
_SILENCE: Final = 0.5
#: Seconds that a killed script may still take to end.
_AFTER: Final = 3.0
_KEEPALIVE: Final = 15


class SSHShell(BoundedShell["_Talk"]):
    """:class:`hil.shell.Shell` on the last host of a route.

    ``sudo``: scripts run through it. ``accept_new``: the key of a host that known_hosts has none of
    is remembered. A connection that broke raises :class:`NodeUnreachable` once; the
    next run makes another (a node that boots again).
    """

    def __init__(
        self,
        name: str,
        hops: Sequence[Hop],
        *,
        sudo: Sudo | None = None,
        accept_new: bool = False,
        patience: float = _CONNECT,
    ) -> None:
        super().__init__(name, root=True, sudo=sudo)
        self._hops = tuple(hops)
        self._accept_new = accept_new
        self._patience = patience
        self._clients: list[paramiko.SSHClient] = []

    def close(self) -> None:
        with self._lock:
            self._drop()

    def prove_password(self) -> None:
        """Check that sudo takes the password, with one attempt; do nothing without a password.
        Raises :class:`hil.shell.NodeUnfit`."""
        if self._sudo is not None and self._sudo.password is not None:
            once = replace(self._sudo, asks_again=True)
            self._run_bounded(Supervised.of(":", DEADLINE, root=True, sudo=once))

    def connect(self) -> paramiko.Transport:
        """The connection, made where there is none; raises :class:`NodeUnreachable`."""
        with self._lock:
            transport = self._clients[-1].get_transport() if self._clients else None
            if transport is None or not transport.is_active():
                self._drop()
                transport = self._connected()
            return transport

    def _drop(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def _connected(self) -> paramiko.Transport:
        transport: paramiko.Transport | None = None
        for hop in self._hops:
            try:
                transport = self._login(hop, transport)
            except CaptureError as error:
                raise self._unreachable(error.source, error.reason) from error
        assert transport is not None
        close_by_sender_only(transport)
        return transport

    def _login(self, hop: Hop, through: paramiko.Transport | None) -> paramiko.Transport:
        import paramiko

        address = hop.address
        between = through and self._through(through, hop)
        client = paramiko.SSHClient()
        self._clients.append(client)
        log_in(
            client,
            address,
            known_hosts=hop.known_hosts,
            accept_new=self._accept_new,
            keys=hop.identity,
            patience=self._patience,
            through=between or None,
        )
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(_KEEPALIVE)
        # Small requests, each of which waits for its answer: 40 ms each without this.
        if isinstance(transport.sock, socket.socket):
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport

    def _through(self, jump: paramiko.Transport, hop: Hop) -> paramiko.Channel:
        """To ``hop``, over the host before it."""
        import paramiko

        to, own = (hop.address.host, hop.address.port), ("127.0.0.1", 0)
        try:
            return jump.open_channel("direct-tcpip", to, own, timeout=self._patience)
        except (paramiko.SSHException, EOFError, OSError) as error:
            last = self._hops[len(self._clients) - 1]
            raise CaptureError(str(last), failed_jump(error, str(hop))) from error

    def _unreachable(
        self, where: str, reason: str, broken: paramiko.Transport | None = None
    ) -> NodeUnreachable:
        """``broken``: this connection is dropped, not one that another thread has made since."""
        if broken is None or (self._clients and self._clients[-1].get_transport() is broken):
            self._drop()
        at = f" ({where})" if self.name not in where else ""
        return NodeUnreachable(f"{self.name}{at}: {one_line(reason)}")

    def _start(self, run: Supervised, stdin: bytes, limit: int) -> _Talk:
        import paramiko

        transport = self.connect()
        over = Deadline(transport, self._patience)
        try:
            with over:
                channel = transport.open_session(timeout=self._patience)
                channel.exec_command(run.command())
        except paramiko.ChannelException as error:
            # Only this channel is refused (MaxSessions); what runs on the connection goes on.
            said = failed_request(error, late=False, patience=self._patience)
            raise NodeUnreachable(f"{self.name}: {one_line(said)}") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            said = failed_request(error, late=over.passed, patience=self._patience)
            with self._lock:
                raise self._unreachable(self.name, said, transport) from error
        return _Talk(self.name, channel, stdin, limit, patience=self._patience)

    def _kill(self, run: Supervised, talk: _Talk) -> None:
        """On a second channel; where none opens, the watcher on the node does it."""
        import paramiko

        transport = talk.channel.get_transport()
        command = run.killing(bytes(talk.out))
        if not command or not transport.is_active():
            return
        broken = contextlib.suppress(paramiko.SSHException, EOFError, OSError)
        with broken, Deadline(transport, 3 * _AFTER):
            channel = transport.open_session(timeout=_AFTER)
            channel.exec_command(command)
            channel.sendall(run.sudo.line if run.sudo else b"")
            channel.shutdown_write()
            channel.status_event.wait(_AFTER)
            channel.close()
            talk.channel.status_event.wait(_AFTER)


def close_by_sender_only(transport: paramiko.Transport) -> None:
    """A channel that the other side closes ends, and only the thread that sends on it closes it.
    Otherwise paramiko's thread answers at once, while a message that another thread made before is
    not sent yet. sshd ends the whole connection, with all its scripts, for a message on a channel
    that is gone (paramiko issues 1115 and 1705).
    """
    from paramiko.common import MSG_CHANNEL_CLOSE

    def ends(channel: paramiko.Channel, _: paramiko.Message) -> None:
        channel.eof_received = True
        channel.in_buffer.close()
        channel.in_stderr_buffer.close()
        channel.status_event.set()
        channel.event.set()

    table = transport._channel_handler_table  # type: ignore[attr-defined]
    table = {**table, MSG_CHANNEL_CLOSE: ends}
    transport._channel_handler_table = table  # type: ignore[attr-defined]


class _Talk:
    """See :class:`hil.transport.bounded.Talk`."""

    def __init__(
        self,
        name: str,
        channel: paramiko.Channel,
        stdin: bytes,
        limit: int,
        *,
        patience: float = _CONNECT,
    ) -> None:
        self.name = name
        self._patience = patience
        self._begun = self._answered = time.monotonic()
        self.channel = channel
        self.out, self.aside = bytearray(), bytearray()
        self.too_much = False
        self._limit = limit
        self._left = memoryview(stdin)
        self._sending = True
        self._last_output = time.monotonic()
        self._exited = False
        # Not channel.fileno(): paramiko's thread may write to that pipe when it is closed, and its
        # number may be another file's then (paramiko issue 2271).
        self._came = threading.Event()
        channel.in_buffer.set_event(self._came)
        channel.in_stderr_buffer.set_event(self._came)

    @property
    def status(self) -> int:
        status = int(self.channel.exit_status)
        if status < 0:
            if self.channel.get_transport().is_active():
                raise NodeUnreachable(
                    f"{self.name}: the SSH server ended a command without its exit status: "
                    "a signal may have killed it"
                )
            raise NodeUnreachable(f"{self.name}: the connection broke while a command ran")
        return status

    def until(self, end: float) -> bool:
        """Whether it ended by itself, or with its connection."""
        with Deadline(self.channel.get_transport(), end - time.monotonic() + _AFTER):
            while not self._ended():
                left = end - time.monotonic()
                if left <= 0:
                    return False
                if self._waited(min(left, _LOOK if self._sending else _SILENCE / 2)):
                    self._last_output = self._answered = time.monotonic()
                self._receive()
                self._send()
                self._require_an_answer()
                if len(self.out) + len(self.aside) > self._limit:
                    self.too_much = True
                    return False
            self._receive()  # what came between the last look and its end
        self.channel.status_event.wait(max(0.0, end - time.monotonic()))
        return self.channel.status_event.is_set()

    def _waited(self, seconds: float) -> bool:
        """Whether there is something to read. Reading one stream clears the event of both."""
        there = self.channel.recv_ready() or self.channel.recv_stderr_ready()
        return there or self._came.wait(seconds)

    def _require_an_answer(self) -> None:
        """A script may be silent for long; its first output comes at once, and its server answers
        at any time. Raises :class:`NodeTimeout` and :class:`NodeUnreachable`."""
        now, most = time.monotonic(), 1.25 * self._patience
        if not self.out and not self._exited and now - self._begun > most:
            raise NodeTimeout(f"{self.name}: the SSH server did not begin a command in {most:g} s")
        if now - self._answered < 0.5 * self._patience:
            return
        transport = self.channel.get_transport()
        over = Deadline(transport, 0.75 * self._patience)
        with over:
            transport.global_request("keepalive@openssh.com", wait=True)
        if over.passed:
            raise NodeUnreachable(f"{self.name}: the SSH server did not answer for {most:g} s")
        self._answered = time.monotonic()

    def _ended(self) -> bool:
        """Whether all output was read. The exit status may come before the last of the output, and
        a process that left the script's session may hold its stdout for ever. So silence after the
        exit status is the end, too."""
        channel = self.channel
        if channel.recv_ready() or channel.recv_stderr_ready():
            return False
        if channel.eof_received or channel.closed:
            return True
        if not self._exited and channel.exit_status_ready():
            self._exited, self._last_output = True, time.monotonic()
        return self._exited and time.monotonic() - self._last_output > _SILENCE

    def _receive(self) -> None:
        while self.channel.recv_ready():
            self.out += self.channel.recv(_CHUNK)
            if len(self.out) > self._limit:
                return
        while self.channel.recv_stderr_ready():
            self.aside += self.channel.recv_stderr(_CHUNK)
            if len(self.aside) > self._limit:
                return

    def _send(self) -> None:
        if not self._sending:
            return
        try:
            while self._left and self.channel.send_ready():
                sent = self.channel.send(bytes(self._left[:_CHUNK]))
                self._left = self._left[sent:]
            if not self._left:
                self._sending = False
                self.channel.shutdown_write()
        except (OSError, EOFError):  # the other side reads no more
            self._sending = False

    def close(self) -> None:
        self.channel.close()
