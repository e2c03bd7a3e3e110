"""What the CPU manager and the Topology Manager count: their part of ``/metrics``.

What belongs here: the numbers, by the names of 1.32 to 1.37. What never does: how they are asked
for. Source: ``policy_static.go``, ``pkg/kubelet/metrics/metrics.go``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = [
    "ADMISSIONS",
    "ADMISSION_ERRORS",
    "ALIGNED",
    "ERRORS",
    "EXCLUSIVE",
    "IN_ONE_CACHE",
    "MISALIGNED",
    "POOL",
    "REQUESTS",
    "Metrics",
]

REQUESTS = "kubelet_cpu_manager_pinning_requests_total"
ERRORS = "kubelet_cpu_manager_pinning_errors_total"
POOL = "kubelet_cpu_manager_shared_pool_size_millicores"
EXCLUSIVE = "kubelet_cpu_manager_exclusive_cpu_allocation_count"
_LABELS = '{boundary="physical_cpu",scope="container"}'
ALIGNED = f"kubelet_container_aligned_compute_resources_count{_LABELS}"
MISALIGNED = f"kubelet_container_aligned_compute_resources_failure_count{_LABELS}"


IN_ONE_CACHE = (
    'kubelet_container_aligned_compute_resources_count{boundary="uncore_cache",scope="container"}'
)
ADMISSIONS = "kubelet_topology_manager_admission_requests_total"
ADMISSION_ERRORS = "kubelet_topology_manager_admission_errors_total"


@dataclass(frozen=True, slots=True)
class Metrics:
    """``pool`` in CPUs, without the reserved ones; ``aligned`` and ``misaligned`` count requests
    under ``full-pcpus-only``, ``in_one_cache`` containers whose CPUs have one uncore cache,
    ``admissions`` pods that the Topology Manager was asked about."""

    requests: int = 0
    errors: int = 0
    pool: int = 0
    exclusive: int = 0
    aligned: int = 0
    misaligned: int = 0
    in_one_cache: int = 0
    admissions: int = 0
    admission_errors: int = 0

    def answered(self, *, taken: int, failed: bool, whole_cores: bool) -> Metrics:
        """After a request for exclusive CPUs; ``taken`` is how many CPUs it was given anew. CPUs of
        an init container that are given once more are counted once more."""
        return replace(
            self,
            requests=self.requests + 1,
            errors=self.errors + failed,
            pool=self.pool - taken,
            exclusive=self.exclusive + taken,
            aligned=self.aligned + (whole_cores and not failed),
            misaligned=self.misaligned + (whole_cores and failed),
        )

    def admitted(self, *, failed: bool) -> Metrics:
        """After the Topology Manager was asked about a pod."""
        errors = self.admission_errors + failed
        return replace(self, admissions=self.admissions + 1, admission_errors=errors)

    def returned(self, cpus: int) -> Metrics:
        """After so many CPUs have come back to the shared pool."""
        return replace(self, pool=self.pool + cpus, exclusive=self.exclusive - cpus)

    def by_name(self) -> dict[str, float]:
        """As ``/metrics`` has them."""
        return {
            REQUESTS: self.requests,
            ERRORS: self.errors,
            POOL: self.pool * 1000,
            EXCLUSIVE: self.exclusive,
            ALIGNED: self.aligned,
            MISALIGNED: self.misaligned,
            IN_ONE_CACHE: self.in_one_cache,
            ADMISSIONS: self.admissions,
            ADMISSION_ERRORS: self.admission_errors,
        }
