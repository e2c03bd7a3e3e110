"""A shell on this host: for the node that pinproof runs on, and for tests."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import IO, Final

from hil.shell import NodeUnreachable
from hil.transport.bounded import BoundedShell
from hil.transport.supervised import Supervised

_CHUNK: Final = 1 << 16


class LocalShell(BoundedShell["Talk"]):
    """:class:`hil.shell.Shell` on this host, as the user of this process.

    ``environment`` is added to this process's for every script; ``require_root`` refuses other
    users (:class:`hil.shell.NodeUnfit`).
    """

    no_root = "pinproof runs as {user}, not root: run pinproof itself as root"

    def __init__(
        self,
        name: str = "this host",
        *,
        environment: Mapping[str, str] | None = None,
        require_root: bool = False,
    ) -> None:
        super().__init__(name, root=require_root)
        self._environment = {**os.environ, **(environment or {})}

    def _start(self, run: Supervised, stdin: bytes, limit: int) -> Talk:
        try:
            process = subprocess.Popen(
                self._arguments(run),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            raise NodeUnreachable(f"{self.name}: no shell starts: {error.strerror}") from error
        return Talk(process, stdin, limit)

    def _arguments(self, run: Supervised) -> list[str]:
        return run.arguments(os.getpid())

    def _kill(self, run: Supervised, talk: Talk) -> None:
        """Kill the script's session first: its supervisor then ends by itself, and ends the
        watcher."""
        if command := run.killing(bytes(talk.out)):
            subprocess.run(
                ["/bin/sh", "-c", command], check=False, stderr=subprocess.DEVNULL, timeout=10
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            talk.process.wait(timeout=2 if command else 0.1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(talk.process.pid, signal.SIGKILL)


class Talk:
    """See :class:`hil.transport.bounded.Talk`."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> None:
        self.process = process
        self.out, self.aside = bytearray(), bytearray()
        self.too_much = False
        self._limit = limit
        self._left = memoryview(stdin)
        self._selector = selectors.DefaultSelector()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, self.out)
        self._selector.register(process.stderr, selectors.EVENT_READ, self.aside)
        if stdin:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()

    @property
    def status(self) -> int:
        return int(self.process.returncode)

    def until(self, end: float) -> bool:
        while self._selector.get_map():
            ready = self._selector.select(max(0.0, end - time.monotonic()))
            if not ready and time.monotonic() >= end:
                return False
            for key, _ in ready:
                self._serve(key)
            if len(self.out) + len(self.aside) > self._limit:
                self.too_much = True
                return False
        try:
            self.process.wait(timeout=max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _serve(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            self._send(key)
            return
        chunk = os.read(key.fd, _CHUNK)
        key.data.extend(chunk)
        if not chunk:
            self._selector.unregister(key.fileobj)

    def _send(self, key: selectors.SelectorKey) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                self._left = self._left[os.write(key.fd, self._left[:_CHUNK]) :]
            except BrokenPipeError:
                self._left = self._left[:0]
        if not self._left:
            self._selector.unregister(key.fileobj)
            _close(self.process.stdin)

    def close(self) -> None:
        self._selector.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            _close(stream)
        self.process.wait()


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.close()
