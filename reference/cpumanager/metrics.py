"""What the CPU manager and the Topology Manager count: their part of ``/metrics``.

What belongs here: the numbers, by the names of 1.32 to 1.37. What never does: how they are asked
for. Source: ``policy_static.go``, ``pkg/kubelet/metrics/metrics.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from reference.feature_gates import enabled
from reference.releases import AnyRelease, minor_of

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
ADMISSION_TIMES = "kubelet_topology_manager_admission_duration_ms_count"
ADMISSION_MS = "kubelet_topology_manager_admission_duration_ms_sum"
SHARED_BY_POD = "pod_shared"
EXCLUSIVE_OF_POD = "pod_exclusive"
EXCLUSIVE_OF_NODE = "node_exclusive"
_KINDS = (SHARED_BY_POD, EXCLUSIVE_OF_POD, EXCLUSIVE_OF_NODE)
#: By their names of 1.36; :func:`allocations` has those from 1.37 on.
NODE_ALLOCATIONS = 'resource_manager_allocations_total{resource_name="cpu",source="node"}'
NODE_ERRORS = 'resource_manager_allocation_errors_total{resource_name="cpu",source="node"}'
POD_ERRORS = 'resource_manager_allocation_errors_total{resource_name="cpu",source="pod"}'
POD_ALLOCATIONS = 'resource_manager_allocations_total{resource_name="cpu",source="pod"}'
_ASSIGNMENTS = "resource_manager_container_assignments"
NODE_EXCLUSIVE = f'{_ASSIGNMENTS}{{assignment_type="{EXCLUSIVE_OF_NODE}",resource_name="cpu"}}'
POD_EXCLUSIVE = f'{_ASSIGNMENTS}{{assignment_type="{EXCLUSIVE_OF_POD}",resource_name="cpu"}}'
POD_SHARED = f'{_ASSIGNMENTS}{{assignment_type="{SHARED_BY_POD}",resource_name="cpu"}}'
_BOUNDARY = "kubelet_container_aligned_compute_resources"
ALIGNED_CONTAINERS = f'{_BOUNDARY}_count{{boundary="numa_node",scope="container"}}'
MISALIGNED_CONTAINERS = f'{_BOUNDARY}_failure_count{{boundary="numa_node",scope="container"}}'
ALIGNED_PODS = f'{_BOUNDARY}_count{{boundary="numa_node",scope="pod"}}'
PER_NUMA = "kubelet_cpu_manager_allocation_per_numa"
MISALIGNED_PODS = f'{_BOUNDARY}_failure_count{{boundary="numa_node",scope="pod"}}'


#: The first minor that counts a metric, by the start of its name.
_SINCE: Final[Mapping[str, int]] = {
    REQUESTS: 26, ERRORS: 26,
    ADMISSIONS: 27, ADMISSION_ERRORS: 27, ADMISSION_TIMES: 27, ADMISSION_MS: 27,
    POOL: 32, EXCLUSIVE: 32,
    _BOUNDARY: 33, PER_NUMA: 33,
    "resource_manager_allocation": 36, _ASSIGNMENTS: 36,
    "kubelet_resource_manager_allocation": 37, f"kubelet_{_ASSIGNMENTS}": 37,
}  # fmt: skip
#: What a kubelet counts beyond the model, which knows no more than what a step made it wait for.
AT_LEAST: Final = frozenset({ADMISSION_MS})
_GATED: Final = ("resource_manager_", "kubelet_resource_manager_")
_RENAMED: Final = 37


def known_to(name: str, gates: Mapping[str, bool], *, release: AnyRelease) -> bool:
    """Whether a kubelet counts this with these feature gates."""
    minor = minor_of(release)
    if name.startswith(_GATED):
        if not enabled("PodLevelResourceManagers", gates, release=release):
            return False
        return name.startswith("kubelet_") == (minor >= _RENAMED)
    longest = max((start for start in _SINCE if name.startswith(start)), key=len)
    return minor >= _SINCE[longest]


def of_numa_node(numa: int) -> str:
    """The gauge of a NUMA node's exclusive CPUs."""
    return f'{PER_NUMA}{{numa_node="{numa}"}}'


def is_gauge(name: str) -> bool:
    """Whether this says how something is now; everything else counts what has happened."""
    return name in (POOL, EXCLUSIVE) or name.startswith(PER_NUMA)


def allocations(source: str) -> str:
    """The counter of containers that were given CPUs out of those of their ``pod`` or of the
    ``node``, by its name from 1.37 on."""
    labels = f'{{resource_name="cpu",source="{source}"}}'
    return f"kubelet_resource_manager_allocations_total{labels}"


def allocation_errors(source: str) -> str:
    """The counter of refusals of CPUs out of those of the ``pod`` or of the ``node``, by its name
    from 1.37 on."""
    labels = f'{{resource_name="cpu",source="{source}"}}'
    return f"kubelet_resource_manager_allocation_errors_total{labels}"


def assignments(kind: str) -> str:
    """The counter of containers with CPUs of a kind, by its name from 1.37 on."""
    labels = f'{{assignment_type="{kind}",resource_name="cpu"}}'
    return f"kubelet_resource_manager_container_assignments_total{labels}"


class Metrics(NamedTuple):
    """``pool`` in CPUs, without the reserved ones; ``aligned`` and ``misaligned`` count requests
    under ``full-pcpus-only``, ``in_one_cache`` containers whose CPUs have one uncore cache,
    ``admissions`` pods that the Topology Manager was asked about, ``admission_ms`` how long device
    plugins made it wait; the counts of NUMA nodes are
    those under single-numa-node, by scope. ``per_numa`` keeps what was counted last of a NUMA node
    that has no exclusive CPU any more, as the kubelet does. ``allocations`` and ``assignments``
    count containers by the source and the kind of their CPUs: an allocation of a pod as a whole is
    counted once for each of its containers, as up to 1.37."""

    requests: int = 0
    errors: int = 0
    pool: int = 0
    exclusive: int = 0
    aligned: int = 0
    misaligned: int = 0
    in_one_cache: int = 0
    admissions: int = 0
    admission_errors: int = 0
    admission_ms: int = 0
    node_errors: int = 0
    pod_errors: int = 0
    aligned_containers: int = 0
    misaligned_containers: int = 0
    aligned_pods: int = 0
    misaligned_pods: int = 0
    per_numa: Mapping[int, int] = {}
    allocations: Mapping[str, int] = {}
    assignments: Mapping[str, int] = {}

    def answered(self, *, taken: int, failed: bool, whole_cores: bool) -> Metrics:
        """After a request for exclusive CPUs; ``taken``: how many it was given. CPUs of an init
        container that are given again are counted again."""
        return self._replace(
            requests=self.requests + 1,
            errors=self.errors + failed,
            pool=self.pool - taken,
            exclusive=self.exclusive + taken,
            aligned=self.aligned + (whole_cores and not failed),
            misaligned=self.misaligned + (whole_cores and failed),
            node_errors=self.node_errors + failed,
        )

    def answered_whole(self, *, taken: int, exclusive: int) -> Metrics:
        """After a pod was given CPUs as a whole; ``exclusive`` of its containers asked for CPUs of
        their own."""
        return self._replace(
            requests=self.requests + exclusive,
            pool=self.pool - taken,
            exclusive=self.exclusive + taken,
        )

    def assigned(self, source: str, kinds: Iterable[str]) -> Metrics:
        """After containers were given CPUs of these kinds out of those of the pod or node."""
        counted = list(kinds)
        return self._replace(
            allocations=_added(self.allocations, [source] * len(counted)),
            assignments=_added(self.assignments, counted),
        )

    def refused_whole(self) -> Metrics:
        """After a pod was refused CPUs as a whole."""
        return self._replace(errors=self.errors + 1, pod_errors=self.pod_errors + 1)

    def counted_by_numa(self, counts: Mapping[int, int]) -> Metrics:
        """With the exclusive CPUs of the NUMA nodes that have any."""
        return self._replace(per_numa={**self.per_numa, **counts})

    def on_one_numa_node(self, *, scope: str, kept: int, missed: bool) -> Metrics:
        """After single-numa-node has judged a pod under this scope: ``kept`` containers, or the
        pod, are on one NUMA node, and one more could not be where it ``missed``."""
        if scope == "pod":
            aligned, misaligned = self.aligned_pods + (not missed), self.misaligned_pods + missed
            return self._replace(aligned_pods=aligned, misaligned_pods=misaligned)
        aligned = self.aligned_containers + kept
        misaligned = self.misaligned_containers + missed
        return self._replace(aligned_containers=aligned, misaligned_containers=misaligned)

    def admitted(self, *, failed: bool) -> Metrics:
        """After the Topology Manager was asked about a pod."""
        errors = self.admission_errors + failed
        return self._replace(admissions=self.admissions + 1, admission_errors=errors)

    def waited(self, seconds: int) -> Metrics:
        """After an admission has waited so long for device plugins."""
        return self._replace(admission_ms=self.admission_ms + seconds * 1000)

    def returned(self, cpus: int) -> Metrics:
        """After ``cpus`` CPUs have come back to the shared pool."""
        return self._replace(pool=self.pool + cpus, exclusive=self.exclusive - cpus)

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
            ADMISSION_TIMES: self.admissions,
            ADMISSION_MS: self.admission_ms,
            NODE_ALLOCATIONS: self.allocations.get("node", 0),
            NODE_ERRORS: self.node_errors,
            POD_ERRORS: self.pod_errors,
            POD_ALLOCATIONS: self.allocations.get("pod", 0),
            NODE_EXCLUSIVE: self.assignments.get(EXCLUSIVE_OF_NODE, 0),
            POD_EXCLUSIVE: self.assignments.get(EXCLUSIVE_OF_POD, 0),
            POD_SHARED: self.assignments.get(SHARED_BY_POD, 0),
            ALIGNED_CONTAINERS: self.aligned_containers,
            MISALIGNED_CONTAINERS: self.misaligned_containers,
            ALIGNED_PODS: self.aligned_pods,
            MISALIGNED_PODS: self.misaligned_pods,
            **{of_numa_node(numa): count for numa, count in self.per_numa.items()},
            **{allocations(one): self.allocations.get(one, 0) for one in ("node", "pod")},
            allocation_errors("node"): self.node_errors,
            allocation_errors("pod"): self.pod_errors,
            **{assignments(kind): self.assignments.get(kind, 0) for kind in _KINDS},
        }


def _added(counts: Mapping[str, int], more: Iterable[str]) -> dict[str, int]:
    added = dict(counts)
    for one in more:
        added[one] = added.get(one, 0) + 1
    return added
