"""Where promises are made."""

from __future__ import annotations

from typing import Final

from conformance.source import Source

_DOCS = "https://kubernetes.io/docs"
_ISSUES = "https://github.com/kubernetes/kubernetes"

TASK_PAGE: Final = Source(
    "Kubernetes documentation, Control CPU Management Policies on the Node: static policy",
    f"{_DOCS}/tasks/administer-cluster/cpu-management-policies/#static-policy",
)
NONE_POLICY: Final = Source(
    "Kubernetes documentation, Control CPU Management Policies on the Node: none policy",
    f"{_DOCS}/tasks/administer-cluster/cpu-management-policies/#none-policy",
)
CHANGING_POLICY: Final = Source(
    "Kubernetes documentation, Changing the CPU Manager Policy",
    f"{_DOCS}/tasks/administer-cluster/cpu-management-policies/#changing-the-cpu-manager-policy",
)
RESERVED_CPUS: Final = Source(
    "Kubernetes documentation, Explicitly Reserved CPU List",
    f"{_DOCS}/tasks/administer-cluster/reserve-compute-resources/#explicitly-reserved-cpu-list",
)
KEP: Final = Source(
    "KEP-3570, CPU Manager",
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/3570-cpumanager",
)
TOPOLOGY_ORDER: Final = Source(
    "KEP-3570, CPU Manager: the static policy takes whole sockets, then whole cores, then CPUs",
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/"
    "3570-cpumanager#static-policy",
)
EVERY_ROUND: Final = Source(
    "Issue 100906: up to 1.21 every reconcile round updates every container",
    f"{_ISSUES}/issues/100906",
)
BY_CONTAINER: Final = Source(
    "Kubernetes 1.17: the state is keyed by container id, and a container takes its CPUs as it "
    "starts",
    f"{_ISSUES}/blob/v1.17.17/pkg/kubelet/cm/cpumanager/cpu_manager.go",
)
FORGOTTEN: Final = Source(
    "Issue 81324: a kubelet that starts forgets all assignments",
    f"{_ISSUES}/issues/81324",
)
INIT_CONTAINERS: Final = Source(
    "Pull request 90419: CPUs of an init container are reused by its pod's app containers",
    f"{_ISSUES}/pull/90419",
)
SIDECARS: Final = Source(
    "Pull request 119447: a sidecar keeps its exclusive CPUs",
    f"{_ISSUES}/pull/119447",
)
CPUS_CHANGED: Final = Source(
    "Pull request 66718: the kubelet does not start on a state file of other CPUs",
    f"{_ISSUES}/pull/66718",
)
CHECKSUM: Final = Source(
    "Pull request 59214: the state file is a checkpoint with a checksum",
    f"{_ISSUES}/pull/59214",
)
STALE_STATE: Final = Source(
    "Pull request 90377: CPUs are freed once their pod is no longer active",
    f"{_ISSUES}/pull/90377",
)
PENDING_ADMISSION: Final = Source(
    "Pull request 103979: the pod being admitted counts as active",
    f"{_ISSUES}/pull/103979",
)
DEVICE_PLUGINS: Final = Source(
    "Kubernetes documentation, Device Plugins: the pod-resources endpoint names CPUs that were "
    "exclusively allocated",
    f"{_DOCS}/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
    "#monitoring-device-plugin-resources",
)
METRICS: Final = Source(
    "Kubernetes documentation, Kubernetes Metrics Reference",
    f"{_DOCS}/reference/instrumentation/metrics/",
)
RECONCILE: Final = Source(
    "Issue 138731: a cpuset changed from outside is repaired only when the wanted set changes",
    f"{_ISSUES}/issues/138731",
)

_KEPS = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node"

FULL_PCPUS: Final = Source(
    "KEP-2625, CPU Manager policies: full-pcpus-only",
    f"{_KEPS}/2625-cpumanager-policies-thread-placement",
)
ACROSS_NUMA: Final = Source(
    "KEP-2902, CPU Manager: distribute-cpus-across-numa",
    f"{_KEPS}/2902-cpumanager-distribute-cpus-policy-option",
)
ENDLESS_SEARCH: Final = Source(
    "Pull request 140730: distribute-cpus-across-numa with full-pcpus-only searches for ever",
    f"{_ISSUES}/pull/140730",
)
BY_SOCKET: Final = Source(
    "KEP-3327, CPU Manager: align-by-socket",
    f"{_KEPS}/3327-align-by-socket",
)
ACROSS_CORES: Final = Source(
    "KEP-4176, CPU Manager: distribute-cpus-across-cores",
    f"{_KEPS}/4176-cpumanager-spread-cpus-preferred-policy",
)
STRICT: Final = Source(
    "KEP-4540, CPU Manager: strict-cpu-reservation",
    f"{_KEPS}/4540-strict-cpu-reservation",
)
EMPTY_POOL: Final = Source(
    "Issue 141196: under strict-cpu-reservation exclusive CPUs may empty the shared pool",
    f"{_ISSUES}/issues/141196",
)
UNCORE_CACHE: Final = Source(
    "KEP-4800, CPU Manager: prefer-align-cpus-by-uncorecache",
    f"{_KEPS}/4800-cpumanager-split-uncorecache",
)

UNEVEN_CORES: Final = Source(
    "Pull request 140498: on cores of different sizes busy or reserved CPUs are handed out",
    f"{_ISSUES}/pull/140498",
)
BASELINES: Final = Source(
    "KEP-5554, In-place resize of exclusive CPUs: the state file keeps what was given first",
    f"{_ISSUES}/blob/v1.37.0/pkg/kubelet/cm/cpumanager/state/checkpoint.go",
)
POD_LEVEL: Final = Source(
    "KEP-2837, Pod Level Resources: CPU and Memory Manager leave such pods alone",
    f"{_KEPS}/2837-pod-level-resource-spec",
)
POD_LEVEL_EMPTY: Final = Source(
    "Kubernetes 1.37: only pod-level resources that name something decide the QoS class",
    f"{_ISSUES}/blob/v1.37.0/pkg/apis/core/v1/helper/qos/qos.go",
)
POD_LEVEL_MANAGERS: Final = Source(
    "KEP-5526, Pod Level Resource Managers",
    f"{_KEPS}/5526-pod-level-resource-managers",
)
POD_LEVEL_LIMITS: Final = Source(
    "Kubernetes 1.37: missing pod-level requests are filled in by the API server alone",
    f"{_ISSUES}/blob/v1.37.0/pkg/apis/core/v1/defaults.go",
)
POD_LEVEL_STATE: Final = Source(
    "Kubernetes 1.37: a state file with the CPUs of whole pods is read whatever the feature gate",
    f"{_ISSUES}/blob/v1.37.0/pkg/kubelet/cm/cpumanager/state/state_checkpoint.go",
)
POD_LEVEL_POOL: Final = Source(
    "Pull request 138738: a container that shares its pod's CPUs has none of its own",
    f"{_ISSUES}/pull/138738",
)
POD_LEVEL_RESTART: Final = Source(
    "Issue 140989: after a restart of the kubelet a pod's own pool is allocated again",
    f"{_ISSUES}/issues/140989",
)

_TOPOLOGY = f"{_DOCS}/tasks/administer-cluster/topology-manager/"

TOPOLOGY_PAGE: Final = Source(
    "Kubernetes documentation, Control Topology Management Policies on a node", _TOPOLOGY
)
TOPOLOGY_POLICIES: Final = Source(
    "Kubernetes documentation, Control Topology Management Policies on a node: policies",
    f"{_TOPOLOGY}#topology-manager-policies",
)
TOPOLOGY_SCOPES: Final = Source(
    "Kubernetes documentation, Control Topology Management Policies on a node: scopes",
    f"{_TOPOLOGY}#topology-manager-scopes",
)
TOPOLOGY_WITHOUT_DEVICES: Final = Source(
    "Issue 83777: single-numa-node refused pods that ask for nothing",
    f"{_ISSUES}/issues/83777",
)
CLOSEST_NUMA: Final = Source(
    "KEP-3545, Topology Manager: prefer-closest-numa-nodes",
    f"{_KEPS}/3545-improved-multi-numa-alignment",
)
NUMA_LIMIT: Final = Source(
    "KEP-4622, Topology Manager: max-allowable-numa-nodes",
    f"{_KEPS}/4622-topologymanager-max-allowable-numa-nodes",
)

SMT_AFTER_RESTART: Final = Source(
    "Issue 129078: under full-pcpus-only a restart refuses pods that run",
    f"{_ISSUES}/issues/129078",
)
INIT_ADDS_CPUS: Final = Source(
    "Issue 112228: an init container books CPUs beyond its pod's request",
    f"{_ISSUES}/issues/112228",
)
INIT_PINS_NODE: Final = Source(
    "Issue 123816: the CPUs of an init container decide on which NUMA node its pod lies",
    f"{_ISSUES}/issues/123816",
)
SIDECARS_AND_HINTS: Final = Source(
    "Pull request 119407: sidecars count for the hint of their pod",
    f"{_ISSUES}/pull/119407",
)
DISTRIBUTED_BY_SOCKET: Final = Source(
    "Pull request 139778: distribute-cpus-across-numa honours align-by-socket",
    f"{_ISSUES}/pull/139778",
)
OVERWRITTEN_COMBINATION: Final = Source(
    "Issue 141237: distribute-cpus-across-numa overwrites the combination that it has chosen",
    f"{_ISSUES}/issues/141237",
)
UNCORE_ODD: Final = Source(
    "Issue 131610: an odd request is split over uncore caches",
    f"{_ISSUES}/issues/131610",
)
UNCORE_PARTIAL: Final = Source(
    "Issue 137315: a request that fits one uncore cache is split over two",
    f"{_ISSUES}/issues/137315",
)
NEIGHBOURING_THREADS: Final = Source(
    "Issue 140688: distribute-cpus-across-cores takes neighbouring threads of one core",
    f"{_ISSUES}/issues/140688",
)
EXPLICIT_OVER_AMOUNTS: Final = Source(
    "Pull request 83592: reservedSystemCPUs wins over systemReserved and kubeReserved",
    f"{_ISSUES}/pull/83592",
)
POD_POOL_KEPT: Final = Source(
    "Pull request 141041: a pod keeps the CPUs that it holds as a whole over a restart",
    f"{_ISSUES}/pull/141041",
)
CORES_MERGED: Final = Source(
    "Issue 98870: cores of two packages in one NUMA node are merged",
    f"{_ISSUES}/issues/98870",
)
NO_ONLINE_FILES: Final = Source(
    "Issue 95039: on kernels without CPU hot-plug only CPU 0 is found",
    f"{_ISSUES}/issues/95039",
)
S390X: Final = Source(
    "cAdvisor 0.50: cores of s390x are distinguished by book and drawer",
    "https://github.com/google/cadvisor/blob/v0.50.0/utils/sysinfo/sysinfo.go",
)
OPTION_STAGES: Final = Source(
    "Kubernetes documentation, Control CPU Management Policies on the Node: static policy options",
    f"{_DOCS}/tasks/administer-cluster/cpu-management-policies/#cpu-policy-static--options",
)
HINTS_IN_TURN: Final = Source(
    "Pull request 84462: a container's hint counts what earlier containers of its pod have taken",
    f"{_ISSUES}/pull/84462",
)
MILLIONTHS: Final = Source(
    "Kubernetes 1.37: reserved quantities are rounded to the nearest thousandth",
    f"{_ISSUES}/blob/v1.37.0/pkg/kubelet/cm/container_manager_linux.go",
)
MIGRATED: Final = Source(
    "Pull request 86689: a state file keyed by container id is migrated",
    f"{_ISSUES}/pull/86689",
)
RANGES: Final = Source(
    "Kubernetes 1.22: a CPU list with a range that runs backwards is refused",
    f"{_ISSUES}/blob/v1.22.17/pkg/kubelet/cm/cpuset/cpuset.go",
)
BAD_STATE_FORGOTTEN: Final = Source(
    "Pull request 54409: a state file that cannot be read is logged and forgotten",
    f"{_ISSUES}/pull/54409",
)
BAD_STATE_PANICS: Final = Source(
    "Kubernetes 1.10: a state file that cannot be read makes the kubelet panic",
    f"{_ISSUES}/blob/v1.10.9/pkg/kubelet/cm/cpumanager/state/state_file.go",
)
SPLIT_CORES: Final = Source(
    "Issue 113537: full-pcpus-only splits cores of which a CPU is reserved",
    f"{_ISSUES}/issues/113537",
)
