"""The reference: a pure model of the kubelet's CPU manager.

A tree of files goes in, decisions come out: nothing here opens a file, looks at a clock or starts
a thread. It models whole nodes of 1.8 to 1.37; ``behaviours`` names what differs between releases.
"""

from reference.allocation import take_by_topology
from reference.architecture import Architecture
from reference.checkpoint import Checkpoint, glance
from reference.cpuset import CPUSet, CPUSetParseError
from reference.discovery import Cache, Core, MachineInfo, NUMANode, discover
from reference.errors import (
    AllocationError,
    AllocationHangs,
    CheckpointError,
    ConfigurationError,
    DiscoveryError,
    IllegalStep,
    KubeletError,
    KubeletHangs,
    ModelError,
    NotEnoughCPUs,
    NothingFits,
    NotModelled,
    QuantityError,
    SMTAlignmentError,
    StateError,
)
from reference.manager import CPUManager
from reference.node import Node
from reference.options import StaticOptions
from reference.policy import NonePolicy, Policy, StaticPolicy, make_policy
from reference.possible import could_take
from reference.qos import exclusive_cpus, qos_class
from reference.releases import NEWEST, Release
from reference.topology import CPUTopology, Place

__all__ = [
    "NEWEST",
    "AllocationError",
    "AllocationHangs",
    "Architecture",
    "CPUManager",
    "CPUSet",
    "CPUSetParseError",
    "CPUTopology",
    "Cache",
    "Checkpoint",
    "CheckpointError",
    "ConfigurationError",
    "Core",
    "DiscoveryError",
    "IllegalStep",
    "KubeletError",
    "KubeletHangs",
    "MachineInfo",
    "ModelError",
    "NUMANode",
    "Node",
    "NonePolicy",
    "NotEnoughCPUs",
    "NotModelled",
    "NothingFits",
    "Place",
    "Policy",
    "QuantityError",
    "Release",
    "SMTAlignmentError",
    "StateError",
    "StaticOptions",
    "StaticPolicy",
    "could_take",
    "discover",
    "exclusive_cpus",
    "glance",
    "make_policy",
    "qos_class",
    "take_by_topology",
]
