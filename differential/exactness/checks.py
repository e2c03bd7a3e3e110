"""What the Go code must answer.

What belongs here: one check for each kind of answer: ``None`` where it is as the model says, else
what it says instead. What never does: what the model says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from conformance.subjects.exec import wire
from reference import CheckpointError, KubeletError, StateError
from reference.cpumanager.state.state_checkpoint import reported
from reference.kubelet.admission import Refusal, refusal
from reference.topologymanager.hint import Hint

Check: TypeAlias = Callable[[wire.Answer], str | None]

_STATE_FILE: Final = "/var/lib/kubelet/cpu_manager_state"
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")


def nothing(answer: wire.Answer) -> str | None:
    """It says nothing that could differ."""
    return None


def runs(answer: wire.Answer) -> str | None:
    """The kubelet runs."""
    assert isinstance(answer, wire.StartAnswer)
    refused = answer.refused
    return None if refused is None else f"gives up: {refused.stage}: {refused.message}"


def told(error: KubeletError, release: str) -> set[str]:
    """With what a kubelet may give up: where, and in which words."""
    stage = "start" if isinstance(error, StateError | CheckpointError) else "configuration"
    texts = error.possible
    if isinstance(error, CheckpointError):
        texts = tuple(reported(text, release, _STATE_FILE) for text in texts)
    # What is no text in a file arrives as JSON has it.
    return {f"{stage}: {_NO_TEXT.sub(chr(0xFFFD), text)}" for text in texts}


def gives_up(possible: set[str]) -> Check:
    """The kubelet gives up with one of these."""

    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.StartAnswer)
        refused = answer.refused
        if refused is None:
            return "runs"
        seen = f"{refused.stage}: {refused.message}"
        return None if seen in possible else f"gives up: {seen}"

    return check


def admitted(answer: wire.Answer) -> str | None:
    """The pod is admitted."""
    assert isinstance(answer, wire.AdmitAnswer)
    return None if answer.admitted else f"refused: {answer.reason}: {answer.message}"


def refused(possible: Refusal, release: str) -> Check:
    """The pod is refused, and why."""

    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.AdmitAnswer)
        if answer.admitted:
            return "admitted"
        seen = refusal(answer.reason, answer.message, release)
        return None if seen == possible else f"refused: {seen}"

    return check


def created(cpus: str) -> Check:
    """A container is created with these CPUs."""

    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.CreateAnswer)
        return None if answer.cpus == cpus else str(answer.cpus)

    return check


def sent(expected: Sequence[tuple[str, str, str]]) -> Check:
    """A round sends the runtime just this: pod uid, container, CPUs."""

    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.ReconcileAnswer)
        seen = [(one.pod_uid, one.container, one.cpus) for one in answer.updates or ()]
        return None if seen == expected else str(seen)

    return check


def hinted(shown: str) -> Check:
    """The hints are these (:func:`hints_text`)."""

    def check(answer: wire.Answer) -> str | None:
        assert isinstance(answer, wire.HintsAnswer)
        found = (answer.hints or {}).get("cpu")
        seen = "none" if found is None else ", ".join(_seen_hints(found)) or "impossible"
        return None if seen == shown else seen

    return check


def _seen_hints(found: list[wire.Hint]) -> Iterator[str]:
    for one in found:
        yield f"{one.numa}{' preferred' if one.preferred else ''}"


def hints_text(found: list[Hint] | None) -> str:
    """Hints as one text."""
    if found is None:
        return "none"
    texts = []
    for one in found:
        bits = None if one.nodes is None else _bits(one.nodes)
        texts.append(f"{bits}{' preferred' if one.preferred else ''}")
    return ", ".join(texts) or "impossible"


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
