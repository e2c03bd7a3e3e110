"""Topology hints: on which NUMA nodes a request could be met, and how well.

What belongs here: the hints that the CPU manager gives the Topology Manager, the numbers they are
made for, and the CPUs that the mask of a hint stands for. What never does: choosing among hints
(``topologymanager``), or CPUs (``cpu_assignment``).

A hint is a set of NUMA nodes, as a bit mask over their ids. The CPU manager gives one for every
set of nodes that can hold the request now. It is *preferred* if no smaller set could hold the
request were the machine empty: a request that would fit one node, and on the machine as it is
needs two, gets no preferred hint at all.
Source: ``policy_static.go`` (``GetTopologyHints``, ``GetPodTopologyHints``,
``generateCPUTopologyHints``, ``getAlignedCPUs``), 1.16 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.state.state_mem import State
from reference.cpuset import CPUSet
from reference.errors import NotModelled
from reference.machine.topology import CPUTopology
from reference.pods.pod import Kind, Pod
from reference.releases import NEWEST, AnyRelease, has
from reference.topologymanager.hint import ANY, Hint

#: A kubelet builds a hint for every set of NUMA nodes. Beyond this many nodes it works for hours.
MAX_NUMA_NODES: Final = 20


@dataclass(frozen=True, slots=True)
class _Mask:
    """A set of NUMA nodes: ``nodes`` as a bit mask, their number and their CPUs."""

    nodes: int
    size: int
    cpus: int


#: The sets of up to this many NUMA nodes are cached; of 8 there are 255.
_KEPT_UP_TO: Final = 8


def _masks(topology: CPUTopology) -> Sequence[_Mask]:
    """Every set of NUMA nodes that have CPUs: the smallest first, then by their ids."""
    if len(topology.numa_masks) <= _KEPT_UP_TO:
        return _kept_masks(tuple(topology.numa_masks.items()))
    return list(_made_masks(topology.numa_masks))


@lru_cache(maxsize=256)
def _kept_masks(numa_masks: tuple[tuple[int, int], ...]) -> tuple[_Mask, ...]:
    return tuple(_made_masks(dict(numa_masks)))


def _made_masks(numa_masks: Mapping[int, int]) -> Iterator[_Mask]:
    ids = list(numa_masks)
    if len(ids) > MAX_NUMA_NODES:
        raise NotModelled(
            f"topology hints on {len(ids)} NUMA nodes: the model goes up to {MAX_NUMA_NODES}"
        )
    for size in range(1, len(ids) + 1):
        for chosen in combinations(ids, size):
            nodes, cpus = 0, 0
            for one in chosen:
                nodes |= 1 << one
                cpus |= numa_masks[one]
            yield _Mask(nodes, size, cpus)


def cpu_hints(
    topology: CPUTopology,
    available: CPUSet,
    reusable: CPUSet,
    count: int,
    *,
    release: AnyRelease = NEWEST,
    align_by_socket: bool = False,
) -> list[Hint]:
    """``generateCPUTopologyHints``: for ``count`` CPUs out of ``available`` and ``reusable``; empty
    if nothing holds them.

    A set of nodes counts if it holds every reusable CPU, and with the available ones ``count``.
    ``align_by_socket``: also preferred is what touches as few sockets as the fewest nodes do
    (KEP-3327). Up to 1.19.8 a preferred set had to touch few sockets as well
    (kubernetes/kubernetes#90980). Raises :class:`NotModelled` beyond :data:`MAX_NUMA_NODES`.
    """
    return list(_cpu_hints(topology, available, reusable, count, release, align_by_socket))


@lru_cache(maxsize=8192)
def _cpu_hints(
    topology: CPUTopology,
    available: CPUSet,
    reusable: CPUSet,
    count: int,
    release: AnyRelease,
    align_by_socket: bool,
) -> tuple[Hint, ...]:
    masks = _masks(topology)
    fewest = next((one for one in masks if one.cpus.bit_count() >= count), None)
    least = len(topology.numa_masks)
    enough = _fits(masks, available, reusable, count)
    if fewest is not None:
        least = min(least, fewest.size)
    preferred = {one.nodes for one in enough if one.size == least}
    if not has(release, Behaviour.HINTS_BY_NUMA_ALONE):
        preferred &= _on_few_sockets(topology, enough, fewest)
    if align_by_socket:
        preferred |= _aligned_with_sockets(topology, enough, least)
    return tuple(Hint(one.nodes, one.nodes in preferred) for one in enough)


def _fits(masks: Sequence[_Mask], available: CPUSet, reusable: CPUSet, count: int) -> list[_Mask]:
    """The sets that can hold the request. A CPU both available and reusable counts twice."""
    still = count - len(reusable)
    return [
        one
        for one in masks
        if not reusable.mask & ~one.cpus and (available.mask & one.cpus).bit_count() >= still
    ]


def _sockets(topology: CPUTopology, mask: _Mask) -> int:
    return sum(1 for cpus in topology.socket_masks.values() if cpus & mask.cpus)


def _on_few_sockets(topology: CPUTopology, enough: list[_Mask], fewest: _Mask | None) -> set[int]:
    """The sets that touch as many sockets as the first of the smallest sets that could hold the
    request, or as all of the machine where that is every node."""
    least = len(topology.socket_masks)
    if fewest is not None and fewest.size < len(topology.numa_masks):
        least = min(least, _sockets(topology, fewest))
    return {one.nodes for one in enough if _sockets(topology, one) == least}


def _aligned_with_sockets(topology: CPUTopology, enough: list[_Mask], least: int) -> set[int]:
    """``isHintSocketAligned``: the sets that touch as few sockets as ``least`` nodes need."""
    per_socket = topology.num_numa_nodes // topology.num_sockets if topology.num_sockets else 0
    if not per_socket:
        return set()
    sockets = -(-least // per_socket)
    return {one.nodes for one in enough if _sockets(topology, one) == sockets}


def hints_for(
    topology: CPUTopology,
    state: State,
    reserved: CPUSet,
    reusable: CPUSet,
    uid: str,
    count: int,
    counts: Mapping[str, int],
    *,
    release: AnyRelease = NEWEST,
    align_by_socket: bool = False,
) -> list[Hint] | None:
    """``getTopologyHintsForAdd`` for one container of the pod ``uid``, and
    ``getPodTopologyHintsForAdd`` for all of them under scope ``pod``.

    ``counts``: how many exclusive CPUs each gets, by name; ``count``: how many they need at once
    (:func:`pod_exclusive_cpus`). ``None``: no preference, as they get none. An empty list: it is
    impossible. Every container that has an entry must hold just its number. What is held already is
    all there is to choose from if it is enough, and else must be part of every hint.
    """
    if not count:
        return None
    assigned = CPUSet()
    for name, own in counts.items():
        held = state.get(uid, name)
        if held is None:
            continue
        if len(held) != own:
            return []
        assigned |= held
    if len(assigned) == count:
        available, reusable = assigned, CPUSet()
    else:
        available, reusable = state.default - reserved, reusable | assigned
    return cpu_hints(
        topology, available, reusable, count, release=release, align_by_socket=align_by_socket
    )


def pod_exclusive_cpus(pod: Pod, counts: Mapping[str, int], *, release: AnyRelease = NEWEST) -> int:
    """How many exclusive CPUs a pod needs at once (``podGuaranteedCPUs``).

    ``counts``: of each container, by name. From 1.29 on a sidecar runs on beside the containers
    after it (KEP-753); before, it counted as any other init container.
    """
    sidecars_stay = has(release, Behaviour.SIDECARS_KEEP_CPUS)
    running, peak = 0, 0
    for container in pod.containers:
        count = counts.get(container.name, 0)
        if container.kind is Kind.APP or (container.kind is Kind.SIDECAR and sidecars_stay):
            running += count
        else:
            peak = max(peak, running + count)
    return max(running, peak)


def aligned(
    topology: CPUTopology, available: CPUSet, hint: Hint | None, *, align_by_socket: bool = False
) -> CPUSet:
    """``getAlignedCPUs``: the available CPUs that the static policy takes first: those in the
    hint's NUMA nodes, under ``align-by-socket`` those in every socket that they touch. None of them
    without a hint."""
    if hint is None or hint.nodes is ANY:
        return CPUSet()
    near = topology.cpus_in_numa_nodes(
        *(one for one in topology.numa_masks if hint.nodes >> one & 1)
    )
    if align_by_socket:
        sockets = (one for one, cpus in topology.socket_masks.items() if cpus & near.mask)
        near = topology.cpus_in_sockets(*sockets)
    return available & near
