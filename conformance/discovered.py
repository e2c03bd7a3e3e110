"""Machines as a release discovers them, each tree read once in a process.

Discovery is a pure function of tree, release and architecture, and by far the longest part of a
scenario on the model: half a run's machines are the same few, again and again.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.subject import SubjectInfo
from reference import Architecture, CPUSet, CPUTopology, MachineInfo, discover
from reference.releases import AnyRelease
from topologies import Machine, Tree

#: More than the catalogue has machines: a run comes to all of them with one scenario after another.
_KEPT = 256
_infos: dict[tuple[int, str, str], tuple[Mapping[str, str], MachineInfo]] = {}


def info_of(
    tree: Mapping[str, str],
    *,
    release: AnyRelease,
    architecture: Architecture | str | None = None,
) -> MachineInfo:
    """:func:`reference.discover`, remembered for a tree that cannot change."""
    if not isinstance(tree, Tree):
        return discover(tree, release=release, architecture=architecture)
    named = architecture.value if isinstance(architecture, Architecture) else architecture
    key = (id(tree), str(release), named or "")
    kept = _infos.get(key)
    if kept is None:
        while len(_infos) >= _KEPT:
            _infos.pop(next(iter(_infos)))
        # The tree is kept beside what was found, so that its id stays its own.
        kept = _infos[key] = (tree, discover(tree, release=release, architecture=architecture))
    return kept[1]


def topology_of(
    machine: Machine, *, release: AnyRelease, architecture: Architecture | str | None = None
) -> CPUTopology:
    """The machine's CPU topology; raises :class:`reference.DiscoveryError`."""
    return info_of(machine.tree, release=release, architecture=architecture).cpu_topology()


def architecture_of(info: SubjectInfo) -> str | None:
    """What a subject's program was built for, where it says so; ``None``: for the machine it is
    shown. An amd64 kubelet reads the tree of another architecture by its own rules."""
    return info.facts.get("architecture")


def first_core(topology: CPUTopology) -> CPUSet:
    """The physical core of the lowest CPU, which is reserved where nothing else is said."""
    return topology.with_siblings(CPUSet([min(topology.details)]))
