"""The reference: a pure model of the kubelet's CPU manager.

A tree of files goes in, decisions come out: nothing here opens a file, looks at a clock or starts
a thread. It models whole nodes of 1.8 to 1.37; ``behaviours`` names what differs between releases.
"""

from reference.cpumanager.could_take import could_take
from reference.cpumanager.cpu_assignment import take_by_topology
from reference.cpumanager.cpu_manager import CPUManager, make_policy
from reference.cpumanager.policy import Policy
from reference.cpumanager.policy_none import NonePolicy
from reference.cpumanager.policy_options import StaticOptions
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpumanager.state.state_checkpoint import Checkpoint, parse_leniently
from reference.cpuset import CPUSet, CPUSetParseError
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
from reference.machine.architecture import Architecture
from reference.machine.discovery import discover
from reference.machine.machineinfo import Cache, Core, MachineInfo, NUMANode
from reference.machine.topology import CPUTopology, Place
from reference.node import Node
from reference.pods.qos import exclusive_cpus, qos_class
from reference.releases import NEWEST, Release

__all__ = [
    "NEWEST", "AllocationError", "AllocationHangs", "Architecture", "CPUManager", "CPUSet",
    "CPUSetParseError", "CPUTopology", "Cache", "Checkpoint", "CheckpointError",
    "ConfigurationError", "Core", "DiscoveryError", "IllegalStep", "KubeletError", "KubeletHangs",
    "MachineInfo", "ModelError", "NUMANode", "Node", "NonePolicy", "NotEnoughCPUs", "NotModelled",
    "NothingFits", "Place", "Policy", "QuantityError", "Release", "SMTAlignmentError", "StateError",
    "StaticOptions", "StaticPolicy", "could_take", "discover", "exclusive_cpus", "make_policy",
    "parse_leniently", "qos_class", "take_by_topology",
]  # fmt: skip
