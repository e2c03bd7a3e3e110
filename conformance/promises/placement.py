"""The promises about which CPUs a pod gets.

A promise is judged only if a single option or policy decides: for a pod of one app container
without init containers, right after its admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from conformance.promises.situation import Situation, Violation
from reference import CPUSet, CPUTopology
from reference.cpumanager.policy_options import (
    ACROSS_CORES,
    ACROSS_NUMA,
    BY_SOCKET,
    BY_UNCORE,
    FULL_PCPUS,
    is_true,
)

WHOLE_CORES: Final = "Under full-pcpus-only a container gets whole physical cores"
EVEN_OVER_NUMA: Final = (
    "Under distribute-cpus-across-numa the CPUs of a container that needs several NUMA nodes are "
    "spread evenly over them"
)
OVER_CORES: Final = (
    "Under distribute-cpus-across-cores the CPUs of a container in one NUMA node lie in as many "
    "physical cores as possible"
)
ONE_CACHE: Final = (
    "Under prefer-align-cpus-by-uncorecache a container whose CPUs fit one uncore cache gets all "
    "of them from one uncore cache"
)
ONE_SOCKET: Final = (
    "Under align-by-socket a container whose CPUs fit one socket gets all of them from one socket"
)
ONE_NUMA: Final = "Under single-numa-node a container's exclusive CPUs lie in one NUMA node"
ONE_NUMA_IF_IT_FITS: Final = (
    "Under the Topology Manager policies best-effort and restricted a container whose CPUs fit one "
    "NUMA node gets all of them from one NUMA node"
)


ONE_SOCKET_DISTRIBUTED: Final = (
    "Under align-by-socket and distribute-cpus-across-numa a container gets CPUs of one socket, if "
    "equally many NUMA nodes of one socket can hold them"
)
WHOLE_PARTS_FIRST: Final = (
    "Without policy options a container gets whole sockets and whole physical cores, as far as "
    "these are free and its request is large enough"
)


def split(taken: Iterable[CPUSet], situation: Situation) -> Iterator[Violation]:
    """Violations of single-numa-node by the containers of a pod: CPUs in more than one NUMA
    node."""
    topology = situation.topology
    if topology is None or situation.config.topology_manager_policy != "single-numa-node":
        return
    for cpus in taken:
        if _parts(cpus, topology.numa_masks) > 1:
            yield _spread(ONE_NUMA, "NUMA node", cpus, topology.numa_masks)


def misplaced(taken: CPUSet, free: CPUSet, situation: Situation) -> Iterator[Violation]:
    """What is wrong with the CPUs that a pod's only container got out of the free ones. Nothing is
    judged without a topology."""
    topology = situation.topology
    if topology is None or not taken:
        return
    options = {name for name, value in situation.config.policy_options.items() if is_true(value)}
    if FULL_PCPUS in options:
        yield from _whole_cores(taken, topology)
    if ACROSS_CORES in options:
        yield from _over_cores(taken, free, topology)
    yield from _by_topology_manager(taken, free, situation, options)
    if situation.config.topology_manager_policy != "none":
        return
    if not options:
        yield from _whole_parts_first(taken, free, topology)
    usable = _of_whole_cores(free, topology) if FULL_PCPUS in options else free
    if BY_UNCORE in options:
        yield from _in_one(ONE_CACHE, "uncore cache", taken, usable, topology.uncore_masks)
    if ACROSS_NUMA in options:
        group = topology.cpus_per_core if FULL_PCPUS in options else 1
        yield from _evenly(taken, usable, topology.numa_masks, max(group, 1))
        if BY_SOCKET in options:
            yield from _in_socket(taken, usable, topology)


def _by_topology_manager(
    taken: CPUSet, free: CPUSet, situation: Situation, options: Iterable[str]
) -> Iterator[Violation]:
    policy, topology = situation.config.topology_manager_policy, situation.topology
    if policy == "none" or topology is None:
        return
    usable = _of_whole_cores(free, topology) if FULL_PCPUS in options else free
    if BY_SOCKET in options:
        yield from _in_one(ONE_SOCKET, "socket", taken, usable, topology.socket_masks)
    elif policy == "single-numa-node":
        if _parts(taken, topology.numa_masks) > 1:
            yield _spread(ONE_NUMA, "NUMA node", taken, topology.numa_masks)
    else:
        yield from _in_one(ONE_NUMA_IF_IT_FITS, "NUMA node", taken, usable, topology.numa_masks)


def _whole_cores(taken: CPUSet, topology: CPUTopology) -> Iterator[Violation]:
    whole = topology.with_siblings(taken)
    if whole != taken:
        yield Violation.of(WHOLE_CORES, "CPUs of whole physical cores", whole, taken)


def _whole_parts_first(taken: CPUSet, free: CPUSet, topology: CPUTopology) -> Iterator[Violation]:
    """Judged only if all sockets, and then all cores, have equally many CPUs."""
    parts = {"sockets": topology.socket_masks, "physical cores": topology.core_masks}
    for noun, masks in parts.items():
        sizes = {mask.bit_count() for mask in masks.values()}
        if len(sizes) > 1:
            return
        whole = sum(mask & ~free.mask == 0 for mask in masks.values())
        owed = min(len(taken) // min(sizes), whole)
        given = sum(mask & ~taken.mask == 0 for mask in masks.values())
        if given < owed:
            what = f"whole {noun} in the CPUs {taken}"
            yield Violation.of(WHOLE_PARTS_FIRST, what, f"at least {owed}", str(given))


def _over_cores(taken: CPUSet, free: CPUSet, topology: CPUTopology) -> Iterator[Violation]:
    nodes = topology.numa_node_ids(taken)
    if len(nodes) > 1:
        return  # NUMA nodes are filled one after the other
    near = free & topology.cpus_in_numa_nodes(*nodes)
    possible = min(len(taken), _parts(near, topology.core_masks))
    used = _parts(taken, topology.core_masks)
    if used < possible:
        what = f"physical cores of the CPUs {taken}"
        yield Violation.of(OVER_CORES, what, str(possible), str(used))


def _in_one(
    rule: str, noun: str, taken: CPUSet, free: CPUSet, masks: Mapping[int, int]
) -> Iterator[Violation]:
    """CPUs must lie in one part if they fit the free CPUs of some part."""
    fits = any((mask & free.mask).bit_count() >= len(taken) for mask in masks.values())
    if fits and _parts(taken, masks) > 1:
        yield _spread(rule, noun, taken, masks)


def _spread(rule: str, noun: str, taken: CPUSet, masks: Mapping[int, int]) -> Violation:
    return Violation.of(rule, f"{noun}s of the CPUs {taken}", "1", str(_parts(taken, masks)))


def _evenly(
    taken: CPUSet, free: CPUSet, masks: Mapping[int, int], group: int
) -> Iterator[Violation]:
    """An even share is owed only if each NUMA node that is used has such a share free."""
    shares = {numa: (mask & taken.mask).bit_count() for numa, mask in masks.items()}
    used = {numa: count for numa, count in shares.items() if count}
    share = -(-len(taken) // (len(used) * group)) * group
    room = all((masks[numa] & free.mask).bit_count() >= share for numa in used)
    if room and max(used.values()) - min(used.values()) > group:
        seen = ", ".join(f"{count} of NUMA node {numa}" for numa, count in sorted(used.items()))
        what = f"NUMA nodes of the CPUs {taken}"
        yield Violation.of(EVEN_OVER_NUMA, what, f"at most {share} of each", seen)


def _in_socket(taken: CPUSet, free: CPUSet, topology: CPUTopology) -> Iterator[Violation]:
    count = _parts(taken, topology.numa_masks)
    for socket in topology.socket_masks.values():
        inside = [mask & socket & free.mask for mask in topology.numa_masks.values()]
        largest = sorted((mask.bit_count() for mask in inside), reverse=True)[:count]
        if sum(largest) >= len(taken) and _parts(taken, topology.socket_masks) > 1:
            yield _spread(ONE_SOCKET_DISTRIBUTED, "socket", taken, topology.socket_masks)
            return


def _parts(cpus: CPUSet, masks: Mapping[int, int]) -> int:
    return sum(1 for mask in masks.values() if mask & cpus.mask)


def _of_whole_cores(free: CPUSet, topology: CPUTopology) -> CPUSet:
    """The free CPUs of cores that are free as a whole."""
    mask = 0
    for core in topology.core_masks.values():
        if core & ~free.mask == 0:
            mask |= core
    return CPUSet.of_mask(mask)
