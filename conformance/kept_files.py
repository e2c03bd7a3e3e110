"""The files in which a kubelet keeps what the next one has to know.

What belongs here: which files these are, below the kubelet's root, and which form the CPU manager's
has. What never does: what a release makes of one (``reference.cpumanager.state``).
"""

from __future__ import annotations

import json
from typing import Any, Final

from reference.cpumanager.state.checkpoint import Layout

#: The CPU manager's.
STATE: Final = "cpu_manager_state"
#: The memory manager's.
MEMORY: Final = "memory_manager_state"
#: What was allocated to pods, and what was actuated.
ALLOCATED: Final = ("allocated_pods_state", "actuated_pods_state")
#: All of them: of the CPU manager, the memory manager (since 1.21), the allocation of pods (since
#: 1.33; before, ``pod_status_manager_state``), the device manager and the DRA manager.
FILES: Final = (
    STATE,
    MEMORY,
    *ALLOCATED,
    "pod_status_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
    "dra_manager_state",
)


def whole_pods(text: str) -> frozenset[str]:
    """The uids of the pods of which a state file says which CPUs they have as a whole. There are
    none where it cannot be read."""
    try:
        found: Any = json.loads(text)
        found = json.loads(found["data"]) if "data" in found else found
        return frozenset(found.get("podEntries") or ())
    except (ValueError, TypeError, AttributeError):
        return frozenset()


def layout_of(text: str) -> Layout | None:
    """The form of a state file, by the fields that it has; ``None``: it has none of the known
    forms. Whether its content is valid is not looked at."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or "policyName" not in found:
        return None
    if "dataChecksum" in found:
        return Layout.V4
    if "podEntries" in found:
        return Layout.V3
    if "checksum" not in found:
        return Layout.PLAIN
    entries = found.get("entries") or {}
    values = entries.values() if isinstance(entries, dict) else ()
    return Layout.V1 if any(isinstance(one, str) for one in values) else Layout.V2
