"""Risk: how much a scenario does to a node.

What belongs here: the levels, and which scenario has which. What never does: which level a user
allowed (``hil.safety.risk``), and how a change is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import total_ordering
from typing import Final

from conformance.subject import Capability


@total_ordering
class Risk(Enum):
    """What a scenario does to a node, from harmless to severe: each includes those before it."""

    READ_ONLY = "read-only"
    PODS = "pods"
    KUBELET_RESTART = "kubelet-restart"
    CPU_OFFLINE = "cpu-offline"
    REBOOT = "reboot"

    def __lt__(self, other: Risk) -> bool:
        order = list(Risk)
        return order.index(self) < order.index(other)


#: The risk of using each capability.
RISK_OF: Final = {
    Capability.PODS: Risk.PODS,
    Capability.CPUSETS: Risk.READ_ONLY,
    Capability.REJECTIONS: Risk.PODS,
    Capability.STATE_FILE: Risk.READ_ONLY,
    Capability.EDIT_STATE: Risk.KUBELET_RESTART,
    Capability.RESTART: Risk.KUBELET_RESTART,
    Capability.CONFIGURE: Risk.KUBELET_RESTART,
    Capability.REBOOT: Risk.REBOOT,
    Capability.TAMPER: Risk.PODS,
    Capability.START_ERROR: Risk.KUBELET_RESTART,
    Capability.KERNEL: Risk.READ_ONLY,
    Capability.POD_CGROUP: Risk.READ_ONLY,
    Capability.CONTAINERS: Risk.PODS,
    Capability.EXIT_CODES: Risk.PODS,
    Capability.CALLS: Risk.PODS,
    Capability.METRICS: Risk.READ_ONLY,
    Capability.CFS: Risk.READ_ONLY,
    Capability.RUNTIME: Risk.KUBELET_RESTART,
    Capability.SERVICES: Risk.KUBELET_RESTART,
    Capability.HOTPLUG: Risk.CPU_OFFLINE,
    Capability.POD_RESOURCES: Risk.READ_ONLY,
    Capability.POD_RESOURCES_GET: Risk.READ_ONLY,
    Capability.API_SERVER: Risk.PODS,
    Capability.RENAMES: Risk.KUBELET_RESTART,
    Capability.DEVICES: Risk.PODS,
    Capability.MEMORY: Risk.KUBELET_RESTART,
    Capability.RESERVATION: Risk.KUBELET_RESTART,
}


def risk_of(capabilities: Iterable[Capability]) -> Risk:
    """The risk of a scenario that needs these capabilities."""
    return max((RISK_OF.get(one, Risk.REBOOT) for one in capabilities), default=Risk.READ_ONLY)
