"""A program that is started, exchanges lines, and is ended.

Every answer has a deadline and every line a largest size. A program that hangs, ends or writes too
much is killed with all its children. Then the channel is *lost*, and ``lost`` says why in one line.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from conformance.environment import own_environment
from conformance.subjects.exec.wire import LONGEST_LINE
from conformance.subjects.processor import ProcessorTime, processor_time

_KEEPER: Final = str(Path(__file__).with_name("keeper.py"))
_PIECE: Final = 1 << 16
#: How many bytes of the program's standard error are kept.
_KEPT: Final = 20_000
#: Seconds that a keeper may take to kill its program.
_GRACE: Final = 10.0


class LineLost(Exception):
    """The program cannot be used any more; ``str()`` says in one line what it did."""


class LineHangs(LineLost):
    """The program had a processor and did not answer in time."""


class LineStarved(LineLost):
    """The program had no processor, so it did not answer in time."""


class Channel:
    """A running program. ``lost``: why it cannot be used any more; ``""`` while it can."""

    def __init__(self, command: Sequence[str]) -> None:
        self.lost = ""
        life, self._life = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _KEEPER, str(life), *command],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[life],
                start_new_session=True,
                env=own_environment(),
            )
        except OSError as error:
            os.close(self._life)
            raise LineLost(f"cannot be started: {error.strerror}") from error
        finally:
            os.close(life)
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (one.fileno() for one in streams if one is not None)
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._unsent = bytearray()
        self._received = bytearray()
        self._said = bytearray()
        self._at_half_time: ProcessorTime | None = None

    def send(self, lines: Sequence[bytes]) -> None:
        """Send the lines as far as the program takes them now; :meth:`receive` sends the rest.
        Raises :class:`LineLost`."""
        self._require_there()
        self._unsent += b"".join(lines)
        self._send()

    def receive(self, count: int, *, patience: float) -> list[bytes]:
        """The next ``count`` lines; waits at most ``patience`` seconds for each. Raises
        :class:`LineLost`; the program has then ended."""
        self._require_there()
        answers: list[bytes] = []
        deadline = time.monotonic() + patience
        while len(answers) < count:
            if self._unsent:
                self._send()
            line = self._line()
            if line is not None:
                answers.append(line)
                deadline = time.monotonic() + patience
                self._at_half_time = None
            else:
                self._wait(deadline, patience)
        return answers

    def excerpt(self) -> str:
        """The end of the program's standard error."""
        self._listen()
        return self._said.decode(errors="replace")

    def close(self) -> None:
        """End the program and all its children. May be called twice."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:  # a process that the kernel cannot kill
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self.lost = self.lost or "was closed"

    def _require_there(self) -> None:
        if self.lost:
            raise LineLost(self.lost)

    def _send(self) -> None:
        try:
            del self._unsent[: os.write(self._in, self._unsent)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unsent.clear()  # why it does not read shows when it is received from

    def _line(self) -> bytes | None:
        end = self._received.find(b"\n")
        if end < 0:
            if len(self._received) > LONGEST_LINE:
                self._lose(f"wrote a line of more than {LONGEST_LINE} bytes")
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _wait(self, deadline: float, patience: float) -> None:
        sending = bool(self._unsent)
        left = deadline - time.monotonic()
        if left <= 0:
            self._lose_late(patience)
        if left > patience / 2:
            left -= patience / 2
        elif self._at_half_time is None:
            self._at_half_time = processor_time(self._process.pid)
        if sending:
            self._poll.register(self._in, select.POLLOUT)
        ready = dict(self._poll.poll(left * 1000))
        if sending:
            self._poll.unregister(self._in)
        if self._err in ready:
            self._listen()
        if self._out in ready:
            self._receive()

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self._out, _PIECE)
            if not piece:
                self._lose_ended()
            self._received += piece

    def _lose_late(self, patience: float) -> NoReturn:
        """Its time is up; the second half of that time decides whether it had a processor."""
        spent = processor_time(self._process.pid).since(self._at_half_time or ProcessorTime())
        if spent.is_starved(patience / 2):
            what = f"gave no answer in {patience:g} s; this host is too busy for it to run"
            self._lose(what, LineStarved)
        self._lose(f"hangs: no answer in {patience:g} s", LineHangs)

    def _lose_ended(self) -> None:
        """Its output has ended; most likely so has the program."""
        try:
            status = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._lose("closed its standard output")
        self._listen()
        said = self._said.decode(errors="replace").strip().splitlines()[-1:]
        last = f": {said[0][:200]}" if said else ""
        signal = f"signal {status - 128}" if status > 128 else f"exit status {status}"
        self._lose(f"ended with {signal}{last}")

    def _listen(self) -> None:
        if self._process.stderr is None or self._process.stderr.closed:
            return
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._err, _PIECE):
                self._said += piece
                del self._said[:-_KEPT]
            with contextlib.suppress(KeyError):
                self._poll.unregister(self._err)

    def _lose(self, what: str, kind: type[LineLost] = LineLost) -> NoReturn:
        self.lost = what
        self._listen()
        self.close()
        raise kind(what)
