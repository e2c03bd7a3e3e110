"""A program that speaks the protocol: one greeting, then requests.

What belongs here: requests and answers in pairs, and errors for broken answers. What never does:
bytes and processes (``channel``), and what an answer means for a node (``node``).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Final, TypeVar, cast

import msgspec

from conformance.subject import SubjectLostError, SubjectSetupError
from conformance.subjects.exec import wire
from conformance.subjects.exec.channel import Channel, LineHangs, LineLost, LineStarved

_A = TypeVar("_A", bound=wire.Answer)

#: How long a program may take for one answer, in seconds. It is long, because a busy host must not
#: look like a hang. A hang takes this long.
PATIENCE: Final = 30.0


class Panicked(Exception):
    """The CPU manager panicked, which ended its kubelet. ``state_file`` is the answer's."""

    def __init__(self, text: str, state_file: wire.StateFile | msgspec.UnsetType) -> None:
        super().__init__(text)
        self.state_file = state_file


class Hangs(SubjectLostError):
    """The program had a processor and did not answer in time; it was killed."""


class Starved(SubjectLostError):
    """The program had no processor, so it did not answer in time; it was killed."""


class Program:
    """A running program; ``about`` is what it says of itself.

    Raises :class:`SubjectSetupError` if it cannot be started, does not answer, or speaks another
    version of the protocol.
    """

    def __init__(self, name: str, command: Sequence[str], *, patience: float = PATIENCE) -> None:
        self.name = name
        #: How long an answer may take from now on, in seconds; the start may take longer.
        self.patience = max(patience, PATIENCE)
        self._numbers = itertools.count(1)
        #: Several nodes of one program may be driven at a time, each in a thread of its own.
        self._turn = threading.Lock()
        try:
            self._channel = Channel(command)
        except LineLost as error:
            raise SubjectSetupError(f"{name}: the program {error}") from error
        try:
            self.about = self._greet()
        except SubjectLostError as error:
            self.close()
            raise SubjectSetupError(str(error), evidence=error.evidence) from error
        except SubjectSetupError:
            self.close()
            raise
        self.patience = patience

    @property
    def lost(self) -> bool:
        """Whether the program cannot be used any more."""
        return bool(self._channel.lost)

    def ask(self, request: wire.Request, kind: type[_A]) -> _A:
        """The answer to one request. Raises as :meth:`ask_all`."""
        (answer,) = self.ask_all([request])
        return cast(_A, answer)

    def ask_all(self, requests: Sequence[wire.Request]) -> list[wire.Answer]:
        """The answers to requests that are sent together.

        Raises as :meth:`exchange`, and :class:`SubjectLostError` if the program refused a request,
        and :class:`Panicked` if the CPU manager panicked.
        """
        answers = self.exchange(requests)
        for request, answer in zip(requests, answers, strict=True):
            if answer.error:
                op = type(request).__struct_config__.tag
                raise self._lost(f"the program refuses {op}: {answer.error[:500]}")
            if answer.panic:
                raise Panicked(answer.panic, answer.state_file)
        return answers

    def exchange(self, requests: Sequence[wire.Request]) -> list[wire.Answer]:
        """The answers, even if they are errors. Raises :class:`SubjectLostError` if the program
        ended or wrote a line that is not an answer, and :class:`Hangs`."""
        with self._turn:
            self.send(requests)
            return self.receive(requests)

    def send(self, requests: Sequence[wire.Request]) -> None:
        """Send requests. :meth:`receive` takes their answers later, in the same order. Raises
        :class:`SubjectLostError` if the program cannot be used any more."""
        for request in requests:
            request.id = next(self._numbers)
        try:
            self._channel.send([wire.encode(request) for request in requests])
        except LineLost as error:
            raise self._lost(f"the program {error}") from error

    def receive(self, requests: Sequence[wire.Request]) -> list[wire.Answer]:
        """The answers to requests that were sent. Raises as :meth:`exchange`."""
        try:
            lines = self._channel.receive(len(requests), patience=self.patience)
        except LineHangs as error:
            raise Hangs(f"the program {error}", evidence=self.excerpt()) from error
        except LineStarved as error:
            raise Starved(f"the program {error}", evidence=self.excerpt()) from error
        except LineLost as error:
            raise self._lost(f"the program {error}") from error
        return [self._answer(*pair) for pair in zip(requests, lines, strict=True)]

    def excerpt(self) -> str:
        """The end of the program's standard error."""
        return self._channel.excerpt()

    def close(self) -> None:
        """End the program. May be called twice."""
        self._channel.close()

    def _greet(self) -> wire.HelloAnswer:
        about = self.ask(wire.Hello(protocol=wire.PROTOCOL), wire.HelloAnswer)
        if about.protocol != wire.PROTOCOL:
            raise SubjectSetupError(
                f"{self.name}: the program speaks protocol {about.protocol}, not {wire.PROTOCOL}"
            )
        if not about.release:
            raise SubjectSetupError(f"{self.name}: the program does not say which release it is")
        return about

    def _answer(self, request: wire.Request, line: bytes) -> wire.Answer:
        try:
            answer = wire.decode(request, line)
        except msgspec.DecodeError as error:
            shown = line[:80].decode(errors="replace")
            raise self._broken(f"wrote {shown!r}, which is not an answer: {error}") from error
        if answer.id != request.id:
            raise self._broken(
                f"answered request {str(answer.id)[:20]}, and {request.id} was asked"
            )
        return answer

    def _broken(self, what: str) -> SubjectLostError:
        """End a program after an invalid answer."""
        self.close()
        return self._lost(f"the program {what}")

    def _lost(self, what: str) -> SubjectLostError:
        return SubjectLostError(f"{self.name}: {what}", evidence=self.excerpt())
