"""Who holds which CPUs in a view, as pictures show it."""

from __future__ import annotations

from reference.cpuset import CPUSet
from reference.view import View


def holders(view: View, reserved: CPUSet) -> dict[str, CPUSet]:
    """By ``pod/container``; ``reserved`` CPUs and the rest of the shared pool come last."""
    held = {
        f"{pod}/{container}": cpus
        for pod, containers in sorted(view.assignments.items())
        for container, cpus in sorted(containers.items())
    }
    if reserved:
        held["reserved"] = reserved
    return {**held, "shared pool": view.shared_pool - reserved}
