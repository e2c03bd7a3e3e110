"""Do no harm: risk levels, lease, journal, dead-man timer, fingerprints, restoring.

    with Guarded(shell, facts, Risk.KUBELET_RESTART, owner="nightly") as guarded:
        guarded.change(WriteFile(path, data))      # one round trip each ...
        again = f"{distribution.stop(facts)}; {distribution.start(facts)}"
        guarded.change(                            # ... or several, and a script, in one
            *distribution.configure(facts, config), then=again
        )
        guarded.offline(3)                         # NodeUnfit for CPU 0, reserved and foreign ones
        guarded.note("crictl rmp -fa")             # a script that undoes any other change
        guarded.touch()                            # a thread does so, too
        guarded.restore()                          # undo all of it, keep the node
    # restored, compared with how it was before: NotRestored (status 5) lists what differs

What is written on the node lies in ``/var/lib/pinproof``: ``node.sh`` does all the work there and
needs nothing but a POSIX shell and flock; ``sh /var/lib/pinproof/node.sh restore`` restores the
node by hand. :func:`restore_node` undoes what a dead run left.
"""

from hil.changes import (
    Change,
    InstallFile,
    KeepFile,
    Note,
    OwnPods,
    PutBack,
    RemoveFile,
    SetOnline,
    WriteFile,
)
from hil.safety.errors import LeaseLost, NodeBusy, NotRestored
from hil.safety.guarded import Guarded
from hil.safety.restoring import forget_node, left_by_a_run, refuse_if_held, restore_node
from hil.safety.risk import Allow, Risk, risk_of

__all__ = [
    "Allow",
    "Change",
    "Guarded",
    "InstallFile",
    "KeepFile",
    "LeaseLost",
    "NodeBusy",
    "NotRestored",
    "Note",
    "OwnPods",
    "PutBack",
    "RemoveFile",
    "Risk",
    "SetOnline",
    "WriteFile",
    "forget_node",
    "left_by_a_run",
    "refuse_if_held",
    "restore_node",
    "risk_of",
]
