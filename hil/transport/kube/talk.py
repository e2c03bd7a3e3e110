"""A script that runs behind a tunnel: its streams, its status, and that it is still alive.

What belongs here: reading and writing at once, within bounds. What never does: how either is
encoded (:mod:`hil.transport.kube.executing`, :mod:`hil.transport.kube.relay`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from hil.apiserver.tunnel import Tunnel
from hil.shell import NodeUnreachable

OUT, ASIDE, STATUS = 1, 2, 3
#: Seconds of silence after which the other side is asked for a sign of life, and after which it
#: counts as gone.
_ASK: Final = 10.0
_SILENCE: Final = 45.0
_LOOK: Final = 1.0


class Form(Protocol):
    """How streams are encoded. ``sign`` makes the other side answer; it is empty where that side
    sends signs of life by itself."""

    sign: bytes

    def read(self, data: bytes) -> Iterable[tuple[int, bytes]]:
        """What came, by stream."""

    def replies(self) -> bytes:
        """What has to be sent because of what came."""

    def status(self, data: bytes) -> int:
        """The exit status that this says. Raises :class:`hil.shell.NodeError`."""


class TunnelTalk:
    """See :class:`hil.transport.bounded.Talk`."""

    def __init__(
        self, name: str, tunnel: Tunnel, form: Form, sending: Iterator[bytes], limit: int
    ) -> None:
        self.name = name
        self.out, self.aside = bytearray(), bytearray()
        self.too_much = False
        self._tunnel, self._form, self._sending, self._limit = tunnel, form, sending, limit
        self._left = memoryview(b"")
        self._status_text: bytearray | None = None
        self._broken = False
        self._last_heard = self._asked = time.monotonic()

    @property
    def status(self) -> int:
        if self._status_text is None:
            raise NodeUnreachable(f"{self.name}: the connection broke while a command ran")
        return self._form.status(bytes(self._status_text))

    def until(self, end: float) -> bool:
        while self._status_text is None and not self._broken:
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._refill()
            self._tunnel.wait(min(left, _LOOK), to_send=bool(self._left))
            self._receive()
            self._send()
            self._require_life()
            if len(self.out) + len(self.aside) > self._limit:
                self.too_much = True
                return False
        return True

    def _refill(self) -> None:
        if not self._left:
            self._left = memoryview(self._form.replies() or next(self._sending, b""))
        if not self._left and time.monotonic() - max(self._last_heard, self._asked) > _ASK:
            self._asked = time.monotonic()
            self._left = memoryview(self._form.sign)

    def _receive(self) -> None:
        data = self._tunnel.receive()
        if data is None:
            self._broken = True
            return
        if data:
            self._last_heard = time.monotonic()
        for stream, text in self._form.read(data):
            if stream == OUT:
                self.out += text
            elif stream == ASIDE:
                self.aside += text
            elif stream == STATUS:
                self._status_text = bytearray(text)

    def _send(self) -> None:
        try:
            self._left = self._left[self._tunnel.send(self._left) :] if self._left else self._left
        except OSError:  # what it sent before it ended is still read
            self._left, self._sending = memoryview(b""), iter(())

    def _require_life(self) -> None:
        if time.monotonic() - self._last_heard > _SILENCE:
            raise NodeUnreachable(f"{self.name}: the node did not answer for {_SILENCE:g} s")

    def close(self) -> None:
        self._tunnel.close()
