"""Answers as texts, in which the model and the Go code are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from conformance.subjects.exec import wire
from reference import CheckpointError, KubeletError, StateError
from reference.cpumanager.state.state_checkpoint import reported
from reference.kubelet.admission import refusal
from reference.topologymanager.hint import Hint
from topologies.cpulist import ids

_STATE_FILE: Final = "/var/lib/kubelet/cpu_manager_state"
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
RUNS: Final = "runs"
ADMITTED: Final = "admitted"
REFUSED: Final = "refused: {}"
_GIVES_UP: Final = "gives up: {}: {}"


def text_of(answer: wire.Answer, release: str) -> str:
    """What the Go code says; ``""`` where nothing in it could differ."""
    match answer:
        case wire.StartAnswer(refused=None):
            return RUNS
        case wire.StartAnswer(refused=wire.Refused(stage=stage, message=message)):
            return _GIVES_UP.format(stage, message)
        case wire.AdmitAnswer(admitted=True):
            return ADMITTED
        case wire.AdmitAnswer(reason=reason, message=message):
            return REFUSED.format(refusal(reason, message, release))
        case wire.CreateAnswer(cpus=cpus):
            return str(cpus)
        case wire.ReconcileAnswer(updates=updates):
            return str([(one.pod_uid, one.container, one.cpus) for one in updates or ()])
        case wire.HintsAnswer(hints=hints):
            found = (hints or {}).get("cpu")
            return _listed(None if found is None else [(one.numa, one.preferred) for one in found])
    return ""


def giving_up(error: KubeletError, release: str) -> list[str]:
    """The texts with which a kubelet may give up: at which stage, with which message."""
    stage = "start" if isinstance(error, StateError | CheckpointError) else "configuration"
    texts = error.possible
    if isinstance(error, CheckpointError):
        texts = tuple(reported(text, release, _STATE_FILE) for text in texts)
    # Bytes of the file that are not UTF-8 arrive as U+FFFD in JSON.
    return sorted({_GIVES_UP.format(stage, _NO_TEXT.sub("\ufffd", text)) for text in texts})


def hints_text(found: list[Hint] | None) -> str:
    if found is None:
        return _listed(None)
    return _listed(
        (None if one.nodes is None else list(ids(one.nodes)), one.preferred) for one in found
    )


def _listed(hints: Iterable[tuple[list[int] | None, bool]] | None) -> str:
    if hints is None:
        return "none"
    texts = [f"{nodes}{' preferred' if preferred else ''}" for nodes, preferred in hints]
    return ", ".join(texts) or "impossible"
