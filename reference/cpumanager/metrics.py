"""What the CPU manager and the Topology Manager count: their part of ``/metrics``.

What belongs here: the numbers, by the names of 1.32 to 1.37. What never does: how they are asked
for. Source: ``policy_static.go``, ``pkg/kubelet/metrics/metrics.go``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

__all__ = [
    "ADMISSIONS",
    "ADMISSION_ERRORS",
    "ALIGNED",
    "ERRORS",
    "EXCLUSIVE",
    "EXCLUSIVE_OF_NODE",
    "EXCLUSIVE_OF_POD",
    "IN_ONE_CACHE",
    "MISALIGNED",
    "POOL",
    "REQUESTS",
    "SHARED_BY_POD",
    "Metrics",
    "allocations",
    "assignments",
    "on_numa_node",
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
SHARED_BY_POD = "pod_shared"
EXCLUSIVE_OF_POD = "pod_exclusive"
EXCLUSIVE_OF_NODE = "node_exclusive"
ADMISSIONS = "kubelet_topology_manager_admission_requests_total"
ADMISSION_ERRORS = "kubelet_topology_manager_admission_errors_total"


def on_numa_node(node: int) -> str:
    """The gauge of exclusive CPUs in one NUMA node."""
    return f'kubelet_cpu_manager_allocation_per_numa{{numa_node="{node}"}}'


def allocations(source: str) -> str:
    """The counter of containers that were given CPUs out of those of their ``pod`` or of the
    ``node``."""
    labels = f'{{resource_name="cpu",source="{source}"}}'
    return f"kubelet_resource_manager_allocations_total{labels}"


def assignments(kind: str) -> str:
    """The counter of containers with CPUs of a kind, by its name from 1.37 on."""
    labels = f'{{assignment_type="{kind}",resource_name="cpu"}}'
    return f"kubelet_resource_manager_container_assignments_total{labels}"


@dataclass(frozen=True, slots=True)
class Metrics:
    """``pool`` in CPUs, without the reserved ones; ``aligned`` and ``misaligned`` count requests
    under ``full-pcpus-only``, ``in_one_cache`` containers whose CPUs have one uncore cache,
    ``admissions`` pods that the Topology Manager was asked about. ``by_numa_node`` is the gauge of
    exclusive CPUs in each NUMA node (:meth:`spread`), ``allocations`` and ``assignments`` count
    containers by the source and the kind of their CPUs."""

    requests: int = 0
    errors: int = 0
    pool: int = 0
    exclusive: int = 0
    aligned: int = 0
    misaligned: int = 0
    in_one_cache: int = 0
    admissions: int = 0
    admission_errors: int = 0
    by_numa_node: Mapping[int, int] = field(default_factory=dict)
    allocations: Mapping[str, int] = field(default_factory=dict)
    assignments: Mapping[str, int] = field(default_factory=dict)

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

    def spread(self, held: Mapping[int, int]) -> Metrics:
        """After exclusive CPUs have changed hands; ``held``: how many there are by NUMA node, where
        there are any. The gauge of a NUMA node that has lost its last one stays as it was
        (``updateAllocationPerNUMAMetric``)."""
        return replace(self, by_numa_node={**self.by_numa_node, **held})

    def assigned(self, source: str, kinds: Iterable[str]) -> Metrics:
        """After containers were given CPUs of these kinds out of those of the pod or node."""
        counted = Counter(kinds)
        return replace(
            self,
            allocations=Counter(self.allocations) + Counter({source: counted.total()}),
            assignments=Counter(self.assignments) + counted,
        )

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
            **{on_numa_node(node): count for node, count in self.by_numa_node.items()},
            **{allocations(source): count for source, count in self.allocations.items()},
            **{assignments(kind): count for kind, count in self.assignments.items()},
        }
