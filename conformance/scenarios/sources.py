"""Where promises are made."""

from __future__ import annotations

from typing import Final

from conformance.source import Source

_DOCS: Final = "https://kubernetes.io/docs"
_ISSUES: Final = "https://github.com/kubernetes/kubernetes"
_CPU_POLICIES: Final = "tasks/administer-cluster/cpu-management-policies/"
_RESERVING: Final = "tasks/administer-cluster/reserve-compute-resources/"
_TOPOLOGY: Final = "tasks/administer-cluster/topology-manager/"
PLUGINS: Final = "concepts/extend-kubernetes/compute-storage-net/device-plugins/"
_TASK: Final = "Control CPU Management Policies on the Node"
_ALIGNING: Final = "Control Topology Management Policies on a node"


def issue(number: int, says: str) -> Source:
    """An issue of Kubernetes."""
    return Source(f"Issue {number}: {says}", f"{_ISSUES}/issues/{number}")


def pull(number: int, says: str) -> Source:
    """A pull request of Kubernetes."""
    return Source(f"Pull request {number}: {says}", f"{_ISSUES}/pull/{number}")


def code(release: str, path: str, says: str) -> Source:
    """A source file of Kubernetes in a patch release; the text names its minor."""
    return Source(f"Kubernetes {release.rpartition('.')[0]}: {says}", address(release, path))


def address(release: str, path: str) -> str:
    """The address of a file of Kubernetes in a patch release."""
    return f"{_ISSUES}/blob/v{release}/{path}"


def tests(place: str, of: str) -> Source:
    """Kubernetes' own tests of a node in 1.37, by file and line."""
    return Source(f"Upstream's own tests of {of}", address("1.37.0", f"test/e2e_node/{place}"))


def documentation(page: str, path: str) -> Source:
    """A page of Kubernetes' documentation, or a part of one."""
    return Source(f"Kubernetes documentation, {page}", f"{_DOCS}/{path}")


def kep(name: str, says: str) -> Source:
    """An enhancement of sig-node, by its number and name."""
    place = f"https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/{name}"
    return Source(f"KEP-{name.partition('-')[0]}, {says}", place)


TASK_PAGE: Final = documentation(f"{_TASK}: static policy", f"{_CPU_POLICIES}#static-policy")
NONE_POLICY: Final = documentation(f"{_TASK}: none policy", f"{_CPU_POLICIES}#none-policy")
CHANGING_POLICY: Final = documentation(
    "Changing the CPU Manager Policy", f"{_CPU_POLICIES}#changing-the-cpu-manager-policy"
)
OPTION_STAGES: Final = documentation(
    f"{_TASK}: static policy options", f"{_CPU_POLICIES}#cpu-policy-static--options"
)
RESERVING: Final = documentation(
    "Reserve Compute Resources for System Daemons: Node Allocatable",
    f"{_RESERVING}#node-allocatable",
)
ENFORCING: Final = documentation(
    "Reserve Compute Resources for System Daemons: Enforcing Node Allocatable",
    f"{_RESERVING}#enforcing-node-allocatable",
)
RESERVED_CPUS: Final = documentation(
    "Explicitly Reserved CPU List", f"{_RESERVING}#explicitly-reserved-cpu-list"
)
DEVICE_PLUGINS: Final = documentation(
    "Device Plugins: the pod-resources endpoint names CPUs that were exclusively allocated",
    f"{PLUGINS}#monitoring-device-plugin-resources",
)
METRICS: Final = documentation("Kubernetes Metrics Reference", "reference/instrumentation/metrics/")
TOPOLOGY_PAGE: Final = documentation(_ALIGNING, _TOPOLOGY)
TOPOLOGY_POLICIES: Final = documentation(
    f"{_ALIGNING}: policies", f"{_TOPOLOGY}#topology-manager-policies"
)
TOPOLOGY_SCOPES: Final = documentation(
    f"{_ALIGNING}: scopes", f"{_TOPOLOGY}#topology-manager-scopes"
)

KEP: Final = kep("3570-cpumanager", "CPU Manager")
TOPOLOGY_ORDER: Final = kep(
    "3570-cpumanager#static-policy",
    "CPU Manager: the static policy takes whole sockets, then whole cores, then CPUs",
)
FULL_PCPUS: Final = kep(
    "2625-cpumanager-policies-thread-placement", "CPU Manager policies: full-pcpus-only"
)
ACROSS_NUMA: Final = kep(
    "2902-cpumanager-distribute-cpus-policy-option", "CPU Manager: distribute-cpus-across-numa"
)
BY_SOCKET: Final = kep("3327-align-by-socket", "CPU Manager: align-by-socket")
ACROSS_CORES: Final = kep(
    "4176-cpumanager-spread-cpus-preferred-policy", "CPU Manager: distribute-cpus-across-cores"
)
STRICT: Final = kep("4540-strict-cpu-reservation", "CPU Manager: strict-cpu-reservation")
UNCORE_CACHE: Final = kep(
    "4800-cpumanager-split-uncorecache", "CPU Manager: prefer-align-cpus-by-uncorecache"
)
CLOSEST_NUMA: Final = kep(
    "3545-improved-multi-numa-alignment", "Topology Manager: prefer-closest-numa-nodes"
)
NUMA_LIMIT: Final = kep(
    "4622-topologymanager-max-allowable-numa-nodes", "Topology Manager: max-allowable-numa-nodes"
)
POD_LEVEL: Final = kep(
    "2837-pod-level-resource-spec",
    "Pod Level Resources: CPU and Memory Manager leave such pods alone",
)
POD_LEVEL_MANAGERS: Final = kep("5526-pod-level-resource-managers", "Pod Level Resource Managers")
#: The text of an enhancement, and the code that goes beyond it.
BASELINES: Final = Source(
    "KEP-5554, In-place resize of exclusive CPUs: the state file keeps what was given first",
    address("1.37.0", "pkg/kubelet/cm/cpumanager/state/checkpoint.go"),
)

EVERY_ROUND: Final = issue(100906, "up to 1.21 every reconcile round updates every container")
FORGOTTEN: Final = issue(81324, "a kubelet that starts forgets all assignments")
RECONCILE: Final = issue(
    138731, "a cpuset changed from outside is repaired only when the wanted set changes"
)
EMPTY_POOL: Final = issue(
    141196, "under strict-cpu-reservation exclusive CPUs may empty the shared pool"
)
POD_LEVEL_RESTART: Final = issue(
    140989, "after a restart of the kubelet a pod's own pool is allocated again"
)
TOPOLOGY_WITHOUT_DEVICES: Final = issue(83777, "single-numa-node refused pods that ask for nothing")
SMT_AFTER_RESTART: Final = issue(129078, "under full-pcpus-only a restart refuses pods that run")
INIT_ADDS_CPUS: Final = issue(112228, "an init container books CPUs beyond its pod's request")
INIT_PINS_NODE: Final = issue(
    123816, "the CPUs of an init container decide on which NUMA node its pod lies"
)
OVERWRITTEN_COMBINATION: Final = issue(
    141237, "distribute-cpus-across-numa overwrites the combination that it has chosen"
)
UNCORE_ODD: Final = issue(131610, "an odd request is split over uncore caches")
UNCORE_PARTIAL: Final = issue(137315, "a request that fits one uncore cache is split over two")
NEIGHBOURING_THREADS: Final = issue(
    140688, "distribute-cpus-across-cores takes neighbouring threads of one core"
)
CORES_MERGED: Final = issue(98870, "cores of two packages in one NUMA node are merged")
NO_ONLINE_FILES: Final = issue(95039, "on kernels without CPU hot-plug only CPU 0 is found")
SPLIT_CORES: Final = issue(113537, "full-pcpus-only splits cores of which a CPU is reserved")
RESTARTS: Final = issue(90303, "a container that was killed comes back on its CPUs")

INIT_CONTAINERS: Final = pull(
    90419, "CPUs of an init container are reused by its pod's app containers"
)
SIDECARS: Final = pull(119447, "a sidecar keeps its exclusive CPUs")
SIDECARS_AND_HINTS: Final = pull(119407, "sidecars count for the hint of their pod")
CPUS_CHANGED: Final = pull(66718, "the kubelet does not start on a state file of other CPUs")
CHECKSUM: Final = pull(59214, "the state file is a checkpoint with a checksum")
STALE_STATE: Final = pull(90377, "CPUs are freed once their pod is no longer active")
PENDING_ADMISSION: Final = pull(103979, "the pod being admitted counts as active")
ENDLESS_SEARCH: Final = pull(
    140730, "distribute-cpus-across-numa with full-pcpus-only searches for ever"
)
UNEVEN_CORES: Final = pull(
    140498, "on cores of different sizes busy or reserved CPUs are handed out"
)
POD_LEVEL_POOL: Final = pull(138738, "a container that shares its pod's CPUs has none of its own")
POD_POOL_KEPT: Final = pull(141041, "a pod keeps the CPUs that it holds as a whole over a restart")
DISTRIBUTED_BY_SOCKET: Final = pull(139778, "distribute-cpus-across-numa honours align-by-socket")
EXPLICIT_OVER_AMOUNTS: Final = pull(
    83592, "reservedSystemCPUs wins over systemReserved and kubeReserved"
)
HINTS_IN_TURN: Final = pull(
    84462, "a container's hint counts what earlier containers of its pod have taken"
)
MIGRATED: Final = pull(86689, "a state file keyed by container id is migrated")
BAD_STATE_FORGOTTEN: Final = pull(54409, "a state file that cannot be read is logged and forgotten")

BY_CONTAINER: Final = code(
    "1.17.17",
    "pkg/kubelet/cm/cpumanager/cpu_manager.go",
    "the state is keyed by container id, and a container takes its CPUs as it starts",
)
POD_LEVEL_EMPTY: Final = code(
    "1.37.0",
    "pkg/apis/core/v1/helper/qos/qos.go",
    "only pod-level resources that name something decide the QoS class",
)
POD_LEVEL_LIMITS: Final = code(
    "1.37.0",
    "pkg/apis/core/v1/defaults.go",
    "missing pod-level requests are filled in by the API server alone",
)
POD_LEVEL_STATE: Final = code(
    "1.37.0",
    "pkg/kubelet/cm/cpumanager/state/state_checkpoint.go",
    "a state file with the CPUs of whole pods is read whatever the feature gate",
)
MILLIONTHS: Final = code(
    "1.37.0",
    "pkg/kubelet/cm/container_manager_linux.go",
    "reserved quantities are rounded to the nearest thousandth",
)
RANGES: Final = code(
    "1.22.17",
    "pkg/kubelet/cm/cpuset/cpuset.go",
    "a CPU list with a range that runs backwards is refused",
)
BAD_STATE_PANICS: Final = code(
    "1.10.9",
    "pkg/kubelet/cm/cpumanager/state/state_file.go",
    "a state file that cannot be read makes the kubelet panic",
)
S390X: Final = Source(
    "cAdvisor 0.50: cores of s390x are distinguished by book and drawer",
    "https://github.com/google/cadvisor/blob/v0.50.0/utils/sysinfo/sysinfo.go",
)
