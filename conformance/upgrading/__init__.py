"""A rehearsal: an upgrade of the kubelet on one node, the way back, and the upgrade again.

What belongs here: the steps of a rehearsal, and the promises in them. What never does: how one
kubelet takes over from another (:class:`conformance.subject.TakesOver`), and how the outcome is
shown.

How it works: the old kubelet starts, and pods are applied. It is stopped, and the new one starts on
the same root: state file, manifests and running containers stay. One more pod is applied, so that
the new kubelet writes its own form of the state file. Then the old kubelet takes over again, with
one more pod, and then the new one. After every step from the new kubelet's start on, the node is
judged by :mod:`conformance.promises`, and by the models of the two releases as long as they know.
What was broken before the upgrade does not count.

If a kubelet does not start over the state file, the rehearsal is repeated without the file at that
start, as the kubelet's own error advises. It shows whether the kubelet starts then, and which pods
hold other CPUs.

The new kubelet may have another machine or another configuration; then the way back is the last
leg. There a kubelet that does not start over the state file is started again without it at once.
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
