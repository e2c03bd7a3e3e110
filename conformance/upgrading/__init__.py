"""An upgrade of the kubelet on one node, the way back, and the upgrade once more, rehearsed.

What belongs here: the steps of a rehearsal, and what may not break in them. What never does: how
one kubelet takes over from another (:class:`conformance.subject.TakesOver`), and how the outcome
is shown.

How it works: the old kubelet starts and is given pods. It is stopped, and the new one starts on the
same root: state file, manifests and running containers stay. The new one is given a pod more, so
that it writes its own form of the state file. Then it is stopped, the old one starts again and is
given a pod more, and so is the new one. After every step from the new kubelet's start on, the node
is judged by :mod:`conformance.promises`, and by the models of the two releases as long as they can
tell. What was broken before the upgrade is no fault of it.

Where a kubelet does not start over the file, the rehearsal is done once more without the file at
that moment, as the kubelet's own error asks for: does it start then, and who holds other CPUs?

The new kubelet may have another machine or another configuration; then the way back is the end. A
kubelet that does not start then over the state file that it finds is started once more without that
file, as its own error asks for.
"""

from conformance.upgrading.outcome import Broken, Kept, Rehearsed, Stage, Turn
from conformance.upgrading.plan import Going, Killed, Leg, Plan
from conformance.upgrading.rehearsals import rehearse, rehearse_killed, with_drained

__all__ = [
    "Broken",
    "Going",
    "Kept",
    "Killed",
    "Leg",
    "Plan",
    "Rehearsed",
    "Stage",
    "Turn",
    "rehearse",
    "rehearse_killed",
    "with_drained",
]
