"""The exit status of each error that a user can mend, and what each status says of a command."""

from __future__ import annotations

from typing import Final

from conformance.known import KnownFailuresError
from conformance.recording import RecordingError
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
    ((RecordingError, ResultsError, SubjectUsageError), ExitStatus.USAGE),
    ((NotRestored, SubjectNotRestored), ExitStatus.NOT_RESTORED),
    ((NodeError, SubjectError), ExitStatus.COULD_NOT_TELL),
)

#: What each says, whatever the command; README.md has the same table.
MEANINGS: Final = {
    ExitStatus.CONFORMANT: "conformant",
    ExitStatus.NOT_CONFORMANT: "not conformant: a promise is broken, a node differs from its "
    "oracle, or a listed known failure is fixed or has expired",
    ExitStatus.USAGE: "wrong usage: no such machine, scenario or file; not a kubelet",
    ExitStatus.COULD_NOT_TELL: "no verdict: the set-up, the network or the harness failed",
    ExitStatus.TOO_FEW: "too few scenarios for a verdict: none applied in the whole run or on a "
    "machine that was named, fewer passed than `--floor`, or the two runs of `compare` have none "
    "in common. One part of a run (`--shard 1/4`) never ends with 4: `pinproof report --gate` "
    "counts the parts together",
    ExitStatus.NOT_RESTORED: "a node was not restored",
}
_KEPT: Final = "every promise that was tried is kept"
_BROKEN: Final = "a promise is broken"
_CUT_OFF: Final = "no verdict"
_LEFT_CHANGED: Final = "a node was not left as it was found"
#: Commands that end with more than 0 (it did what was asked), 2 and 3, and what each status says
#: there.
OWN: Final[dict[str, dict[int, str]]] = {
    "run": {0: _KEPT, 1: _BROKEN, 3: _CUT_OFF, 4: "too few scenarios applied", 5: _LEFT_CHANGED},
    "certify": {
        0: "every certificate says success",
        1: "a certificate says failure",
        3: "a required scenario has no verdict",
        4: "a required scenario was not run",
        5: _LEFT_CHANGED,
    },
    "identify": {
        0: "the binary is the release that it says it is",
        1: "something contradicts that release, or no known release does what the binary does",
        3: "histories were lost or not finished in time",
    },
    "explore": {0: "nothing differs", 1: "a history breaks a promise", 3: _CUT_OFF},
    "hunt": {
        0: "no history breaks a promise",
        1: "a history breaks a promise",
        3: "the search was interrupted before it found any",
        4: "nothing was searched",
    },
    "simulate": {0: "the pods were placed", 1: "the change ends a pod that holds CPUs"},
    "upgrade": {
        0: "the containers keep their CPUs",
        1: "a promise is broken, or a change ends pods that hold CPUs",
        3: _CUT_OFF,
        4: "on a node: too few scenarios applied",
        5: _LEFT_CHANGED,
    },
    "advise": {
        0: "no known defect applies",
        1: "a known defect applies",
        3: "the model does not know the machine or the settings",
    },
    "probe": {
        0: "the kubelet runs with the settings that are written",
        1: "it runs with other settings",
        3: "the node does not answer",
    },
    "restore": {0: "the node is as it was", 3: "the node does not answer", 5: "the node differs"},
    "report": {
        0: "the report is made; with --gate, every promise is kept",
        1: "with --gate: a promise is broken",
        3: "with --gate: no verdict, or only a part of a run",
        4: "with --gate: too few scenarios applied",
        5: "with --gate: a node was not left as it was found",
    },
    "compare": {
        0: "no regression",
        1: "a regression",
        3: "the new run has no verdict where the old one has",
        4: "no scenario applied, or the two runs share none",
    },
    "verify": {0: "nothing is wrong with the certificate", 1: "something is wrong with it"},
    "submission check": {0: "nothing is wrong", 1: "a submission is refused"},
    "submission table": {0: "the table is printed", 1: "a submission is refused"},
}


def status_of(error: Exception) -> ExitStatus | None:
    """The exit status; ``None`` for an unexpected error."""
    return next((status for kinds, status in _STATUSES if isinstance(error, kinds)), None)
