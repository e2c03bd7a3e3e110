"""The catalogue: every scenario of every area.

Importing this module enters the scenarios into the registry of :mod:`conformance.scenario`. Areas
come in the order of the imports, as a reader meets them in every list.
"""

import hashlib
from pathlib import Path

from conformance import scenarios

from conformance.scenario import Scenario, registered  # isort: skip
from conformance.scenarios import qos  # noqa: F401  # isort: skip
from conformance.scenarios import packing  # noqa: F401  # isort: skip
from conformance.scenarios import pool  # noqa: F401  # isort: skip
from conformance.scenarios import admission  # noqa: F401  # isort: skip
from conformance.scenarios import init  # noqa: F401  # isort: skip
from conformance.scenarios import restart  # noqa: F401  # isort: skip
from conformance.scenarios import state  # noqa: F401  # isort: skip
from conformance.scenarios import old_state  # noqa: F401  # isort: skip
from conformance.scenarios import discovery  # noqa: F401  # isort: skip
from conformance.scenarios import machine  # noqa: F401  # isort: skip
from conformance.scenarios import options  # noqa: F401  # isort: skip
from conformance.scenarios import gates  # noqa: F401  # isort: skip
from conformance.scenarios import allocation  # noqa: F401  # isort: skip
from conformance.scenarios import combinations  # noqa: F401  # isort: skip
from conformance.scenarios import config  # noqa: F401  # isort: skip
from conformance.scenarios import topology  # noqa: F401  # isort: skip
from conformance.scenarios import containers  # noqa: F401  # isort: skip
from conformance.scenarios import node  # noqa: F401  # isort: skip
from conformance.scenarios import crashes  # noqa: F401  # isort: skip
from conformance.scenarios import quotas  # noqa: F401  # isort: skip
from conformance.scenarios import pod_resources  # noqa: F401  # isort: skip
from conformance.scenarios import metrics  # noqa: F401  # isort: skip
from conformance.scenarios import pod_resources_more  # noqa: F401  # isort: skip
from conformance.scenarios import counters  # noqa: F401  # isort: skip
from conformance.scenarios import pod_level  # noqa: F401  # isort: skip
from conformance.scenarios import pod_level_mixes  # noqa: F401  # isort: skip
from conformance.scenarios import uneven  # noqa: F401  # isort: skip
from conformance.scenarios import state_contents  # noqa: F401  # isort: skip
from conformance.scenarios import values  # noqa: F401  # isort: skip
from conformance.scenarios import choices  # noqa: F401  # isort: skip
from conformance.scenarios import parts  # noqa: F401  # isort: skip
from conformance.scenarios import aligned_pods  # noqa: F401  # isort: skip
from conformance.scenarios import reported  # noqa: F401  # isort: skip
from conformance.scenarios import rounds  # noqa: F401  # isort: skip
from conformance.scenarios import lent_cpus  # noqa: F401  # isort: skip
from conformance.scenarios import small_sockets  # noqa: F401  # isort: skip
from conformance.scenarios import hints  # noqa: F401  # isort: skip
from conformance.scenarios import version_1  # noqa: F401  # isort: skip
from conformance.scenarios import pod_level_edges  # noqa: F401  # isort: skip
from conformance.scenarios import refusals  # noqa: F401  # isort: skip
from conformance.scenarios import more_metrics  # noqa: F401  # isort: skip
from conformance.scenarios import announced  # noqa: F401  # isort: skip
from conformance.scenarios import resize  # noqa: F401  # isort: skip
from conformance.scenarios import resize_more  # noqa: F401  # isort: skip
from conformance.scenarios import ephemeral  # noqa: F401  # isort: skip
from conformance.scenarios import devices  # noqa: F401  # isort: skip
from conformance.scenarios import memory  # noqa: F401  # isort: skip
from conformance.scenarios import memory_groups  # noqa: F401  # isort: skip
from conformance.scenarios import reported_memory  # noqa: F401  # isort: skip
from conformance.scenarios import merged_hints  # noqa: F401  # isort: skip
from conformance.scenarios import cluster_refusals  # noqa: F401  # isort: skip
from conformance.scenarios import upgraded_files  # noqa: F401  # isort: skip
from conformance.scenarios import socket_shares  # noqa: F401  # isort: skip
from conformance.scenarios import meetings  # noqa: F401  # isort: skip
from conformance.scenarios import repetition  # noqa: F401  # isort: skip
from conformance.scenarios import stopping  # noqa: F401  # isort: skip
from conformance.scenarios import labels  # noqa: F401  # isort: skip


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
