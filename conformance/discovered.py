"""Machines as a release discovers them, each tree read once in a process.

Discovery is a pure function of tree, release and architecture, and by far the longest part of a
scenario on the model. Half of a run's cases use the same few machines.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from conformance.subject import SubjectInfo, SubjectUsageError
from reference import Architecture, CPUSet, CPUTopology, DiscoveryError, MachineInfo, discover
from reference.behaviours import Behaviour
from reference.releases import AnyRelease, has
from topologies import Machine, MachineError, Tree
from topologies.boxes import Beside
from topologies.cpulist import ids
from topologies.hotplug import online_cpus

#: More than the catalogue has machines: a run visits all of them with each scenario.
_KEPT = 256
_infos: dict[tuple[int, str, str], tuple[Mapping[str, str], MachineInfo]] = {}
_changing = threading.Lock()


def info_of(
    tree: Mapping[str, str], *, release: AnyRelease, architecture: Architecture | str | None = None
) -> MachineInfo:
    """:func:`reference.discover`, remembered for a tree that cannot change."""
    if not isinstance(tree, Tree):
        return discover(tree, release=release, architecture=architecture)
    named = architecture.value if isinstance(architecture, Architecture) else architecture
    key = (id(tree), str(release), named or "")
    with _changing:
        kept = _infos.pop(key, None)
        if kept is None:
            while len(_infos) >= _KEPT:
                _infos.pop(next(iter(_infos)))
            # The tree is kept beside what was found, so that its id stays its own.
            kept = tree, discover(tree, release=release, architecture=architecture)
        _infos[key] = kept  # at the end: the least recently used is dropped first
    return kept[1]


def topology_of(
    machine: Machine, *, release: AnyRelease, architecture: Architecture | str | None = None
) -> CPUTopology:
    """The machine's CPU topology; raises :class:`reference.DiscoveryError`."""
    return info_of(machine.tree, release=release, architecture=architecture).cpu_topology()


def topology_named(machine: Machine, *, release: AnyRelease) -> CPUTopology:
    """:func:`topology_of` for a machine that a user named: raises :class:`SubjectUsageError`, which
    names it, where the kubelet would not start on it."""
    try:
        return topology_of(machine, release=release)
    except DiscoveryError as error:
        raise SubjectUsageError(f"{machine.name}: the kubelet would not start: {error}") from error


def beside_of(
    machine: Machine, *, release: AnyRelease, architecture: Architecture | str | None = None
) -> Beside:
    """What the machine has beside its CPU topology: NUMA nodes without CPUs, and online CPUs that
    the kubelet leaves out because no NUMA node has them."""
    info = info_of(machine.tree, release=release, architecture=architecture)
    known = {cpu for node in info.nodes for core in node.cores for cpu in core.thread_ids}
    try:
        left_out = set(ids(online_cpus(machine.tree))) - known
    except MachineError:
        left_out = set()
    nodes = {node.node_id: node.memory for node in info.nodes if not node.cores}
    return Beside(nodes, frozenset(left_out))


def architecture_of(info: SubjectInfo) -> str | None:
    """The architecture that a subject's program was built for; ``None`` stands for the machine's
    own. An amd64 kubelet reads the tree of another architecture by amd64's rules."""
    return info.facts.get("architecture")


def first_core(topology: CPUTopology) -> CPUSet:
    """The physical core of the lowest CPU, which is reserved by default; empty if the machine shows
    no CPU."""
    return topology.with_siblings(CPUSet([*topology.details][:1]))


def contradiction(machine: Machine, topology: CPUTopology, *, release: AnyRelease) -> str:
    """Why this release cannot be judged on the machine, or ``""``: before 1.19 a kubelet reads
    ``/proc/cpuinfo``, and in a capture that may list CPUs which sysfs says are offline."""
    if has(release, Behaviour.SYSFS_TOPOLOGY):
        return ""
    try:
        extra = set(topology.details) - set(ids(online_cpus(machine.tree)))
    except MachineError:
        return ""
    if not extra:
        return ""
    return (
        f"needs a machine that agrees with itself: /proc/cpuinfo lists offline CPUs {CPUSet(extra)}"
    )
