"""Which exit status an error has that a user can mend."""

from __future__ import annotations

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
    ((KnownFailuresError, MachineError, ModelError, NodeUsageError), ExitStatus.USAGE),
    ((ResultsError, SubjectUsageError), ExitStatus.USAGE),
    ((NotRestored, SubjectNotRestored), ExitStatus.NOT_RESTORED),
    ((NodeError, SubjectError), ExitStatus.COULD_NOT_TELL),
)


def status_of(error: Exception) -> ExitStatus | None:
    """The exit status; ``None`` for an unexpected error."""
    return next((status for kinds, status in _STATUSES if isinstance(error, kinds)), None)
