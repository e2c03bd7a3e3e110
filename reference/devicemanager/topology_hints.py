"""The NUMA nodes on which enough devices of a resource are available.

What belongs here: the hints of one resource. What never does: which devices are available
(``manager``), or what is made of the hints (``topologymanager``).

There is a hint for every set of NUMA nodes that holds the request, each device counted that is near
to one of them. It is *preferred* if no smaller set could hold the request were all devices free.
Up to 1.35 sets of all NUMA nodes of the machine are looked at, from 1.36 on of those alone that
have a device of the resource.
Source: ``devicemanager/topology_hints.go``, 1.20 to 1.37.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from reference.behaviours import Behaviour
from reference.errors import NotModelled
from reference.releases import AnyRelease, has
from reference.steps import Device
from reference.topologymanager.hint import Hint

#: A kubelet looks at every set of NUMA nodes. Beyond this many nodes it works for hours.
_MAX_NUMA_NODES: Final = 20


def device_has_topology_alignment(devices: Mapping[str, Device]) -> bool:
    """``deviceHasTopologyAlignment``: whether some device says where it is."""
    return any(one.numa_nodes for one in devices.values())


def generate_device_topology_hints(
    every: Mapping[str, Device],
    available: Collection[str],
    reusable: Collection[str],
    request: int,
    numa_nodes: Sequence[int],
    *,
    release: AnyRelease,
) -> list[Hint]:
    """``generateDeviceTopologyHints``: for ``request`` devices out of those ``available`` and
    ``reusable`` (ids in ``every``), the latter all used; empty if nothing holds them.
    ``numa_nodes``: those of the machine. Raises :class:`NotModelled` on too many NUMA nodes."""
    if has(release, Behaviour.DEVICE_HINTS_ON_DEVICE_NODES):
        numa_nodes = _device_numa_nodes(every, numa_nodes) or numa_nodes
    near = {one: _mask(device.numa_nodes) for one, device in every.items()}
    least = len(numa_nodes)
    found: list[int] = []
    for mask in _iterate_bit_masks(numa_nodes):
        if sum(1 for one in near.values() if one & mask) >= request:
            least = min(least, mask.bit_count())
        if any(near[one] and not near[one] & mask for one in reusable):
            continue
        matching = [one for one in (*reusable, *available) if near[one] & mask]
        if len(matching) >= request:
            found.append(mask)
    return [Hint(mask, mask.bit_count() == least) for mask in found]


def _device_numa_nodes(every: Mapping[str, Device], numa_nodes: Sequence[int]) -> list[int]:
    """``deviceNUMANodes``: those of the machine that have a device."""
    named = {node for device in every.values() for node in device.numa_nodes}
    return sorted(named.intersection(numa_nodes))


def _iterate_bit_masks(numa_nodes: Sequence[int]) -> Iterator[int]:
    """``IterateBitMasks``: every set of these nodes, the smallest first."""
    if len(numa_nodes) > _MAX_NUMA_NODES:
        raise NotModelled(
            f"device hints on {len(numa_nodes)} NUMA nodes: the model goes up to {_MAX_NUMA_NODES}"
        )
    for size in range(1, len(numa_nodes) + 1):
        for chosen in combinations(numa_nodes, size):
            yield _mask(chosen)


def _mask(nodes: Sequence[int]) -> int:
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask
