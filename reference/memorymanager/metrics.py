"""What the memory manager counts at ``/metrics``, from 1.32 on.

Source: ``pkg/kubelet/metrics/metrics.go``, ``memorymanager/policy_static.go``.
"""

from __future__ import annotations

from reference.memorymanager.policy_static import MemoryManager
from reference.releases import AnyRelease, minor_of

REQUESTS = "kubelet_memory_manager_pinning_requests_total"
ERRORS = "kubelet_memory_manager_pinning_errors_total"
_SINCE = 32


def counts(manager: MemoryManager | None, *, release: AnyRelease) -> dict[str, float]:
    """How often it was asked for the memory of a container or of a pod as a whole, and how often it
    refused. Nothing under policy None."""
    if manager is None or minor_of(release) < _SINCE:
        return {}
    return {REQUESTS: manager.requests, ERRORS: manager.errors}
