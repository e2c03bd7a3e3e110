"""The kubelet's settings and the machine of a row.

What belongs here: what the values of factors of ``Part.SETTINGS`` mean. What never does: pods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

import topologies
from conformance.discovered import first_core, info_of, topology_of
from hunting.exploring.rows import Row
from hunting.families import DEVICE, resize_gates
from hunting.scope import POD_LEVEL
from reference import CPUSet, CPUTopology
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import OPTIONS
from reference.feature_gates import ALPHA, Maturity, readiness, stage_of
from reference.releases import has
from reference.steps import PRODUCTION_PERIOD, Device, KubeletConfig, RegisterDevices
from topologies import Machine

#: The memory of each NUMA node, in MiB, where the memory manager is static.
MEMORY: Final = 128
_RESERVED_MEMORY: Final = "1Mi"
#: The huge pages of each NUMA node, which are a part of that memory; and the same in MiB.
PAGE: Final = "2Mi"
_PAGES: Final = 16
HUGE_PAGES: Final = 2 * _PAGES

#: How often rounds come, in milliseconds, where that decides what an event shows. A kubelet forgets
#: a pod some seconds after its end; two rounds are longer.
_PERIODS: Final = {"replaced before a round": PRODUCTION_PERIOD, "put back later": 2_500}

#: Reservations that name no CPU.
AMOUNTS: Final[Mapping[str, dict[str, Any]]] = {
    "system 1": {"system_reserved": "1"},
    "kube 1500m": {"kube_reserved": "1500m"},
    "halves": {"system_reserved": "500m", "kube_reserved": "500m"},
    "uneven parts": {"system_reserved": "750m", "kube_reserved": "450m"},
}

_OWN: Final[dict[str, Machine]] = {}


def keep_machine(machine: Machine) -> None:
    """Let :func:`machine_of` find a machine by its name: an archive's is found nowhere else."""
    _OWN[machine.name] = machine


@lru_cache(maxsize=256)
def machine_of(name: str) -> Machine:
    """One object for each machine, so that what discovery finds on its tree is remembered. The name
    of any machine may end with offline CPUs or other memory, not only that of a described one.
    Raises :class:`topologies.MachineError`."""
    if name in _OWN:
        return _OWN[name]
    try:
        return topologies.machine(name)
    except topologies.MachineError:  # a name may look like a description that is wrong
        base, _, pages = name.rpartition("-hugepages-")
        if base:
            size, _, counts = pages.partition("-")
            return topologies.with_huge_pages(machine_of(base), size, *map(int, counts.split(",")))
        base, _, suffix = name.rpartition("-")
        if base and suffix.startswith("off"):
            return topologies.offline(machine_of(base), CPUSet.parse(suffix.removeprefix("off")))
        if base and suffix.endswith("mib"):
            sizes = map(int, suffix.removesuffix("mib").split(","))
            return topologies.with_memory(machine_of(base), *sizes)
        raise


def machine_name(row: Row, machine: str) -> str:
    """The name of the row's machine: ``machine``, with :data:`MEMORY` for the memory manager."""
    if row["memory manager"] == "None":
        return machine
    own = topologies.with_memory(machine_of(machine), MEMORY)
    if row["memory manager"] == "Static":
        own = topologies.with_huge_pages(own, PAGE, _PAGES)
    keep_machine(own)
    return own.name


def config_of(row: Row, machine: str, release: str) -> KubeletConfig:
    """The configuration of the row. The gates that its values need are on."""
    topology = topology_of(machine_of(machine), release=release)
    options = {name: row["spelling"] for name in OPTIONS if row[name] == "on"}
    if row["options that are off"] != "not given":
        options |= {
            name: row["options that are off"]
            for name, stages in OPTIONS.items()
            if row[name] == "off" and readiness(stages, release) is not None
        }
    aligning, gates = _topology_options(row, release)
    gates |= _for_options(options, release)
    gate = stage_of("TopologyManager", release)
    if row["topology policy"] != "none" and gate is not None and not gate.default:
        gates["TopologyManager"] = True
    gates |= _gates(row, release)
    settings: dict[str, Any] = _reservation(row["reservation"], topology, release)
    if row["memory manager"] == "Static":
        settings["memory_manager_policy"] = "Static"
    if row["memory manager"] != "None":
        settings["reserved_memory"] = dict.fromkeys(_numa_nodes(machine, release), _RESERVED_MEMORY)
    if row["CFS quota"] == "of 10 ms":
        settings["cpu_cfs_quota_period"] = 10_000
        gates["CustomCPUCFSQuotaPeriod"] = True
    settings["cpu_cfs_quota"] = row["CFS quota"] != "off"
    if row["event"] in _PERIODS:
        settings["reconcile_period"] = _PERIODS[row["event"]]
    return KubeletConfig(
        policy_options=options,
        topology_manager_policy=row["topology policy"],
        topology_manager_scope=row["scope"],
        topology_manager_policy_options=aligning,
        api_server=row["pods from"] == "API server",
        feature_gates=gates,
        **settings,
    )


def _for_options(names: Collection[str], release: str) -> dict[str, bool]:
    """The gates that these options need. The first release with options has one for all of them."""
    needed = ["CPUManagerPolicyOptions"] if names else []
    if any(readiness(OPTIONS[name], release) is ALPHA for name in names):
        needed.append("CPUManagerPolicyAlphaOptions")
    stages = {name: stage_of(name, release) for name in needed}
    return {name: True for name, stage in stages.items() if stage and not stage.default}


def _topology_options(row: Row, release: str) -> tuple[dict[str, str], dict[str, bool]]:
    options = {}
    if row["prefer-closest-numa-nodes"] == "on":
        options["prefer-closest-numa-nodes"] = row["spelling"]
    if row["max-allowable-numa-nodes"] == "on":
        options["max-allowable-numa-nodes"] = "12"
    beta = stage_of("TopologyManagerPolicyBetaOptions", release)
    gates: dict[str, bool] = {}
    if options and beta is not None and not beta.default:
        gates = {"TopologyManagerPolicyOptions": True, "TopologyManagerPolicyBetaOptions": True,
                 "TopologyManagerPolicyAlphaOptions": True}  # fmt: skip
    return options, gates


def _gates(row: Row, release: str) -> Mapping[str, bool]:
    if row["gates"] == "pod-level managers":
        return POD_LEVEL
    if row["gates"] == "resize of exclusive CPUs":
        return resize_gates(release)
    if row["gates"] == "beta options off":
        return {"CPUManagerPolicyBetaOptions": False}
    pod_level = row["class"].startswith("pod-level")
    stage = stage_of("PodLevelResources", release) if pod_level else None
    if stage is not None and not stage.default and stage.maturity is not Maturity.GA:
        return {"PodLevelResources": True}
    return {}


def _reservation(value: str, topology: CPUTopology, release: str) -> dict[str, Any]:
    if value in AMOUNTS:
        return dict(AMOUNTS[value])
    listed = _listed(value, topology)
    if not has(release, Behaviour.RESERVED_CPU_LIST):
        return {"system_reserved": str(len(listed))}
    more = {"system_reserved": "1"} if value == "list and amount" else {}
    return {"reserved_system_cpus": listed, **more}


def _listed(value: str, topology: CPUTopology) -> CPUSet:
    cores = sorted(topology.core_masks.values(), key=lambda mask: mask & -mask)
    match value:
        case "first CPU":
            return CPUSet([min(topology.cpus)])
        case "last core":
            return CPUSet.of_mask(cores[-1])
        case "CPU of each socket":
            return CPUSet(min(CPUSet.of_mask(mask)) for mask in topology.socket_masks.values())
        case "two cores":
            return CPUSet.of_mask(cores[0] | cores[min(1, len(cores) - 1)])
        case _:
            return first_core(topology)


def registration(row: Row, machine: str, release: str) -> RegisterDevices | None:
    """The devices of the row; ``None`` where it has none."""
    nodes = _numa_nodes(machine, release)
    match row["devices"]:
        case "none":
            return None
        case "one a NUMA node":
            devices = [Device(f"d{node}", (node,)) for node in nodes]
        case "two a NUMA node":
            twice = [node for node in nodes for _ in range(2)]
            devices = [Device(f"d{number}", (node,)) for number, node in enumerate(twice)]
        case "near the last NUMA node":
            devices = [Device(f"d{number}", (nodes[-1],)) for number in range(2)]
        case "of two NUMA nodes":
            devices = [Device(f"d{number}", tuple(nodes[-2:])) for number in range(2)]
        case "of an empty list":
            devices = [Device(f"d{number}", names_none=True) for number in range(2)]
        case _:
            devices = [Device(f"d{number}") for number in range(3)]
    return RegisterDevices(DEVICE, tuple(devices))


def _numa_nodes(machine: str, release: str) -> tuple[int, ...]:
    return info_of(machine_of(machine).tree, release=release).numa_node_ids
