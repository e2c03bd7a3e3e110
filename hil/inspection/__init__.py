"""Facts of a node: gathered in two round trips, read-only, as values.

    facts = gather(shell)                  # NodeFacts; two round trips
    facts.kubelet.release                  # "1.36"
    facts.kubelet.config                   # reference.steps.KubeletConfig: what decides CPUs
    facts.cgroup.version, facts.runtime.endpoint, facts.machine
    marks(shell).values["machine id"]      # what identifies it; one round trip more

Nothing is written on the node, except by the kubelet's own ``--version``. Text of the node never
reaches a shell: everything comes and goes encoded (:mod:`hil.inspection.script`).
"""

from hil.inspection.gathering import gather, kubelet_of, released
from hil.inspection.marks import Marks, marks
from hil.inspection.node import (
    CgroupFacts,
    KubeletFacts,
    NodeFacts,
    Process,
    Survival,
    Workload,
)

__all__ = [
    "CgroupFacts",
    "KubeletFacts",
    "Marks",
    "NodeFacts",
    "Process",
    "Survival",
    "Workload",
    "gather",
    "kubelet_of",
    "marks",
    "released",
]
