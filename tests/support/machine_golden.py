"""Golden results read again, and what a kubelet would say of a model of the machine."""

from __future__ import annotations

import lzma
from typing import Any

import msgspec

from differential.detected import Detected
from differential.machine_golden import Golden, path_of
from reference import Cache, MachineInfo
from topologies import Machine


def golden(machine: Machine) -> Golden | None:
    """The golden result of this machine as it is now, or ``None``."""
    path = path_of(machine.name)
    if not path.is_file():
        return None
    found = msgspec.json.decode(lzma.decompress(path.read_bytes()), type=Golden)
    return found if found.machine == machine.digest else None


def modelled(info: MachineInfo) -> Detected:
    """What a kubelet would say of this machine if it were as the model is."""
    topology = info.cpu_topology()
    places = {
        str(cpu): {
            "NUMANodeID": place.numa,
            "SocketID": place.socket,
            "CoreID": place.core,
            "UncoreCacheID": place.uncore,
        }
        for cpu, place in topology.details.items()
    }
    return Detected(
        cpu_topology={
            "NumCPUs": topology.num_cpus,
            "NumCores": topology.num_cores,
            "NumUncoreCache": len(topology.uncore_masks),
            "NumSockets": topology.num_sockets,
            "NumNUMANodes": len(topology.numa_masks),
            "CPUDetails": places,
        },
        machine_info={
            "NumCores": info.num_cores,
            "NumPhysicalCores": info.num_physical_cores,
            "NumSockets": info.num_sockets,
            "Topology": [
                {
                    "Id": node.node_id,
                    "Memory": node.memory,
                    "Cores": [
                        {
                            "Id": core.core_id,
                            "Threads": list(core.thread_ids),
                            "Caches": _caches(core.caches),
                            "UncoreCaches": _caches(core.uncore_caches),
                            "SocketID": core.socket_id,
                        }
                        for core in node.cores
                    ],
                    "Caches": _caches(node.caches),
                    "Distances": list(node.distances),
                }
                for node in info.nodes
            ],
        },
    )


def in_order(machine_info: dict[str, Any]) -> dict[str, Any]:
    """With its NUMA nodes by id. A kubelet that takes packages for nodes, as there are none, has
    them in Go's map order."""
    nodes = sorted(machine_info["Topology"], key=lambda node: int(node["Id"]))
    return {**machine_info, "Topology": nodes}


def _caches(caches: tuple[Cache, ...]) -> list[dict[str, int | str]]:
    return [
        {"Id": one.id, "Size": one.size, "Type": one.type, "Level": one.level} for one in caches
    ]
