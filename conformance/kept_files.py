"""The files in which a kubelet keeps what it needs after a restart or an upgrade.

What belongs here: which files these are, below the kubelet's root, and which form the CPU manager's
has. What never does: how a release reads one (``reference.cpumanager.state``).
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
#: All files: of the CPU manager, the memory manager (since 1.21), the allocation of pods (since
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
    """The uids of the pods that hold CPUs as a whole by a state file (``podEntries``). There are
    none if the file cannot be read."""
    try:
        content: Any = json.loads(text)
        content = json.loads(content["data"]) if "data" in content else content
        return frozenset(content.get("podEntries") or ())
    except (ValueError, TypeError, AttributeError):
        return frozenset()


def layout_of(text: str) -> Layout | None:
    """The form of a state file, by the fields that it has; ``None`` for an unknown form. Whether
    the content is valid is not checked."""
    try:
        content: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(content, dict) or "policyName" not in content:
        return None
    if "dataChecksum" in content:
        return Layout.V4
    if "podEntries" in content:
        return Layout.V3
    if "checksum" not in content:
        return Layout.PLAIN
    entries = content.get("entries") or {}
    values = entries.values() if isinstance(entries, dict) else ()
    return Layout.V1 if any(isinstance(one, str) for one in values) else Layout.V2
