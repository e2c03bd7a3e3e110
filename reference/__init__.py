"""The reference: a pure model of the kubelet's CPU manager."""

from reference.allocation import take_by_topology
from reference.cpuset import CPUSet, CPUSetParseError
from reference.topology import CPUTopology

__all__ = ["CPUSet", "CPUSetParseError", "CPUTopology", "take_by_topology"]
