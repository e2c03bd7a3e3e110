"""Which exit status an error has that a user can mend."""

from __future__ import annotations

import traceback
from pathlib import Path

from conformance import scenarios
from conformance.known import KnownFailuresError
from conformance.results import ResultsError
from conformance.subject import SubjectError, SubjectNotRestored, SubjectUsageError
from conformance.verdict import ExitStatus
from hil.safety.errors import NotRestored
from hil.shell import NodeError, NodeUsageError
from reference.errors import ModelError
from topologies import MachineError
from topologies.capturing import BadTarget, CaptureError

#: The first that fits counts.
_STATUSES = (
    (BadTarget, ExitStatus.USAGE),
    (CaptureError, ExitStatus.COULD_NOT_TELL),
    (
        (
            KnownFailuresError,
            MachineError,
            ModelError,
            NodeUsageError,
            ResultsError,
            SubjectUsageError,
        ),
        ExitStatus.USAGE,
    ),
    ((NotRestored, SubjectNotRestored), ExitStatus.NOT_RESTORED),
    ((NodeError, SubjectError), ExitStatus.COULD_NOT_TELL),
)


def status_of(error: Exception) -> ExitStatus | None:
    """The exit status; ``None`` for an unexpected error."""
    return next((status for kinds, status in _STATUSES if isinstance(error, kinds)), None)


def fault_of_scenarios(error: Exception) -> str:
    """One line with file and line where ``error`` keeps a module of scenarios from being imported,
    ``""`` for any other error."""
    frames = [(frame.filename, frame.lineno, frame.name) for frame in _frames(error)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno, "<module>"))
    found = [one for one in frames if one[2] == "<module>" and _is_of_scenarios(one[0])]
    if not found:
        return ""
    name, line, _ = found[-1]
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return f"{name}:{line}: this file of scenarios cannot be imported: {said}"


def _frames(error: Exception) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _is_of_scenarios(name: str) -> bool:
    return Path(name).parent == Path(scenarios.__file__).parent
