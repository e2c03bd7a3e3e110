"""How a kubelet gives up at its start: with which text, and with which exit status.

What belongs here: what surrounds a fault. What never does: the fault's own text, which is the
error's (``errors``), and what is a fault.
"""

from __future__ import annotations

from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.state.state_checkpoint import reported
from reference.errors import (
    CheckpointError,
    ConfigurationError,
    InvalidConfiguration,
    KubeletError,
    StartupError,
    StateError,
)
from reference.releases import AnyRelease, has

STATE_FILE: Final = "/var/lib/kubelet/cpu_manager_state"

_PANIC: Final = "panic: "
#: The exit status of Go's runtime for a panic that is not recovered.
STATUS_OF_PANIC: Final = 2
#: The exit status of klog's fatal exit.
_STATUS_OF_KLOG: Final = 255
_NO_RESERVATION: Final = "[cpumanager] unable to determine reserved CPU resources"


def status(error: KubeletError, release: AnyRelease) -> int:
    """The exit status. Up to 1.17 the static policy panics; in 1.8 and 1.9 all else ends with 1,
    from 1.10 to 1.20 with klog's 255, and from 1.21 on with 1."""
    if not has(release, Behaviour.KEYED_BY_POD) and _panics(error, str(error), release):
        return STATUS_OF_PANIC
    in_main = has(release, Behaviour.GIVES_UP_IN_MAIN)
    return 1 if in_main or has(release, Behaviour.EXITS_WITH_ONE) else _STATUS_OF_KLOG


def panic_is_caught(error: KubeletError, release: AnyRelease) -> bool:
    """Whether the kubelet stays up all the same, without its managers. Up to 1.17 the static policy
    panics over a state that contradicts the machine or itself, in a function whose panics are only
    logged (``updateRuntimeUp``; ``HandleCrash`` without ``ReallyCrash``, which
    ``cmd/kubelet/app/server.go`` takes away; seen on 1.17.17)."""
    return isinstance(error, StateError) and not has(release, Behaviour.KEYED_BY_POD)


def error_text(error: KubeletError, text: str, release: AnyRelease) -> str:
    """The error as the kubelet gives up with it: what follows ``start cpu manager error: ``, or
    its last error line where it did not come as far as that. ``text``: one of the texts that
    ``error`` may have."""
    plain = isinstance(error, (StateError, StartupError, InvalidConfiguration))
    if isinstance(error, CheckpointError):
        text = reported(text, release, STATE_FILE)
        if has(release, Behaviour.KEYED_BY_POD):
            return text
        text = text.partition("\n")[0]
        if has(release, Behaviour.STATE_CHECKSUM):
            text = f"could not initialize checkpoint manager: {text}"
    if not plain and _panics(error, text, release):
        return text if text.startswith(_PANIC) else f"{_PANIC}{text}"
    if plain or text.startswith(_PANIC):
        return text
    died = "error: " if has(release, Behaviour.GIVES_UP_IN_MAIN) else ""
    return f"{died}failed to run Kubelet: {text}"


def _panics(error: KubeletError, text: str, release: AnyRelease) -> bool:
    if isinstance(error, CheckpointError):
        return has(release, Behaviour.BAD_STATE_PANICS)
    if isinstance(error, ConfigurationError) and text.startswith(_NO_RESERVATION):
        return has(release, Behaviour.MISSING_RESERVATION_PANICS)
    return text.startswith(_PANIC)
