"""What is asked in a case, and what comes back.

What belongs here: the requests of a case with what the model says to each, and where the answers of
the Go code differ. What never does: where requests come from (``walk``), and what an answer says
(``answers``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from conformance.subject import SubjectLostError
from conformance.subjects.exec import wire
from conformance.subjects.exec.program import Hangs, Program, Starved
from differential.exactness.answers import text_of


class End(Enum):
    """How far a case came."""

    WHOLE = "walked to its end"
    OUTSIDE = "went on where the model does not know"
    HANGS = "ended with a kubelet that hangs"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where model and Go code differ: the request, in words, and the answer of each."""

    asked: str
    model: str
    go: str

    def is_like(self, other: Difference | None) -> bool:
        """Whether the other is one at the same kind of request."""
        return other is not None and other.asked.split(" ")[0] == self.asked.split(" ")[0]


@dataclass(slots=True)
class Asked:
    """A request, in words too, with the answers that the model has as ``possible``, and the state
    file after it."""

    request: wire.Request
    words: str
    possible: Sequence[str]
    state_file: str | None

    @property
    def model(self) -> str:
        """What the model says, as one text."""
        return " or ".join(self.possible)


@dataclass(slots=True)
class Script:
    """All that is asked of a release in a case. ``outside``: what the model does not know, if that
    ends the case; ``hanging``: the request over which the kubelet hangs."""

    release: str
    asked: list[Asked] = field(default_factory=list)
    end: End = End.WHOLE
    outside: str = ""
    hanging: wire.Request | None = None

    def requests(self) -> list[wire.Request]:
        """Everything for the Go code; the node is forgotten at the end."""
        requests = [one.request for one in self.asked]
        first = requests[0] if requests else None
        node = first.node if isinstance(first, wire.Start) else ""
        return [*requests, wire.Close(node=node)]


# -- comparing -------------------------------------------------------------------------------


def compare(script: Script, program: Program) -> Difference | None:
    """The first difference, ``None`` if there is none. A program that is lost where it should not
    be is a difference. Raises :class:`Starved`."""
    try:
        answers = program.exchange(script.requests())
    except SubjectLostError as error:
        return lost(error)
    return first_difference(script, answers)


def make_sure_it_hangs(script: Script, program: Program, seconds: float) -> Difference | None:
    """As :func:`compare` of a case that ends with a kubelet that hangs. The program must not answer
    for ``seconds``, and is lost then. Raises :class:`Starved` where it had no processor."""
    assert script.hanging is not None
    try:
        found = first_difference(script, program.exchange([one.request for one in script.asked]))
    except SubjectLostError as error:
        return lost(error)
    if found is not None:
        return found
    program.patience = seconds
    try:
        (last,) = program.exchange([script.hanging])
    except Hangs:
        return None
    except Starved:
        raise
    except SubjectLostError as error:
        return Difference("the last request", "hangs", str(error))
    return Difference("the last request", "hangs", f"{last}")


def lost(error: SubjectLostError) -> Difference:
    """The difference of a program that hung or ended. Raises :class:`Starved` for one that had no
    processor: it has shown nothing."""
    if isinstance(error, Starved):
        raise error
    return Difference("the case as a whole", "goes on", str(error))


def first_difference(script: Script, answers: Sequence[wire.Answer]) -> Difference | None:
    """Where an answer is not what the model says, or the state file is another."""
    state: str | None = None
    for asked, answer in zip(script.asked, answers, strict=False):
        if answer.error or answer.panic:
            trouble = f"panics: {answer.panic}" if answer.panic else f"refuses: {answer.error}"
            return Difference(asked.words, asked.model, trouble)
        seen = text_of(answer, script.release)
        if seen not in asked.possible:
            return Difference(asked.words, asked.model, seen)
        for file in (getattr(asked.request, "state_file", msgspec.UNSET), answer.state_file):
            if not isinstance(file, msgspec.UnsetType):
                state = wire.text_of(file)
        if state != asked.state_file:
            return Difference(f"{asked.words}: state file", str(asked.state_file), str(state))
    return None
