"""The catalogue: every scenario of every area.

Importing this module enters the scenarios into the registry of :mod:`conformance.scenario`. Areas
come in the order of the imports, as a reader meets them in every list.
"""

import hashlib
from pathlib import Path

from conformance import scenarios
from conformance.scenario import Scenario, registered

# In the order of the catalogue.
from conformance.scenarios import (  # noqa: F401  # isort: skip
    qos, packing, pool, admission, init, restart, state, old_state, discovery, machine,
    options, gates, allocation, combinations, config, topology, containers, node,
    crashes, quotas, pod_resources, metrics, pod_resources_more, counters, pod_level,
    pod_level_mixes, uneven, state_contents, values, choices, parts, aligned_pods,
    reported, rounds, lent_cpus, small_sockets, hints, version_1, pod_level_edges,
    refusals, more_metrics, announced, resize, resize_more, resize_shared, resize_waiting,
    pod_cgroups, reserved_cgroups, ephemeral, devices,
    memory, memory_groups, reported_memory, pod_level_memory, merged_hints, cluster_refusals,
    critical_pods, huge_pages,
    upgraded_files, socket_shares, meetings, repetition, stopping, labels,
)  # fmt: skip


def catalogue() -> tuple[Scenario, ...]:
    """Every scenario, in the order of their areas."""
    return registered()


def find(scenario_id: str) -> Scenario | None:
    return next((one for one in catalogue() if one.id == scenario_id), None)


def digest() -> str:
    """The sha256 of the scenarios' source files: two runs with the same digest had the same
    scenarios."""
    found = hashlib.sha256()
    for path in sorted(Path(scenarios.__file__).parent.glob("*.py")):
        found.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return f"sha256:{found.hexdigest()}"
