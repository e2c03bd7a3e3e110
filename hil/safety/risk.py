"""What a user allows besides a risk; the risks are those of :mod:`conformance.risk`."""

from __future__ import annotations

from enum import Enum

from conformance.risk import RISK_OF as RISK_OF
from conformance.risk import Risk as Risk
from conformance.risk import risk_of as risk_of


class Allow(Enum):
    """What is done only where the user allows it, for one node (``allow`` in the inventory)."""

    FOREIGN_WORKLOADS = "foreign-workloads"  # disturb pods of others
    STATIC_PODS = "static-pods"  # on a node with pods of others: the kubelet evicts those for them
    REBOOT = "reboot"
