"""The reference: a pure model of the kubelet's CPU manager."""

from reference.cpuset import CPUSet, CPUSetParseError

__all__ = ["CPUSet", "CPUSetParseError"]
