"""Named behaviours: everything in which two Kubernetes releases differ in the CPU manager.

What belongs here: one member for each difference, with the releases that have it, what a kubelet
that has it does, and where that is said. What never does: the behaviour itself, which lives where
it is used and asks ``has(release, Behaviour.NAME)``.

To add a difference, add one member here and ask for it in the one function that it changes
(``docs/releases.md`` shows how). A fix that no release carries has ``since=None``: a fork that
has it is judged as ``1.36+NAME``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

_KUBERNETES: Final = "https://github.com/kubernetes/kubernetes"


class Area(Enum):
    """The part of the CPU manager that a behaviour belongs to."""

    TEXT = "CPU lists"
    DISCOVERY = "topology discovery"
    ALLOCATION = "allocation"
    OPTIONS = "policy options"
    POLICY = "static policy"
    HINTS = "Topology Manager"
    STATE = "state file"
    MANAGER = "life cycle"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class Known:
    """Which releases have a behaviour.

    ``since``: the first one (``None``: no release); ``until``: the last one (``None``: the newest
    has it); ``backports``: patch releases of earlier minors from which on they have it too.
    ``says``: what a kubelet that has it does. ``source``: where that is said.
    """

    area: Area
    since: str | None
    until: str | None
    says: str
    source: str
    backports: tuple[str, ...] = ()


def _pr(number: int) -> str:
    return f"{_KUBERNETES}/pull/{number}"


def _issue(number: int) -> str:
    return f"{_KUBERNETES}/issues/{number}"


def _kep(number: int) -> str:
    return f"https://github.com/kubernetes/enhancements/issues/{number}"


def _code(tag: str, path: str) -> str:
    return f"{_KUBERNETES}/blob/{tag}/pkg/kubelet/{path}"


def _cadvisor(tag: str, path: str) -> str:
    return f"https://github.com/google/cadvisor/blob/{tag}/{path}"


class Behaviour(Enum):
    """One named behaviour; :attr:`title` is how a user names it."""

    # There is one object of each, and the model looks them up all the time.
    __hash__ = object.__hash__

    # -- CPU lists ---------------------------------------------------------------------------

    STRICT_RANGES = Known(
        Area.TEXT, "1.22", None,
        "The kubelet refuses a CPU list with a range that runs backwards or that has more than "
        "one dash. Earlier releases ignored such a range.",
        _code("v1.22.17", "cm/cpuset/cpuset.go"),
    )  # fmt: skip
    RANGE_TEXT_GREATER = Known(
        Area.TEXT, "1.27", None,
        "The refusal of a range that runs backwards says `5 > 1`, not `5 >= 1`.",
        _code("v1.27.7", "cm/cpuset/cpuset.go"),
    )  # fmt: skip

    # -- topology discovery ------------------------------------------------------------------

    SYSFS_TOPOLOGY = Known(
        Area.DISCOVERY, "1.19", None,
        "The kubelet reads the machine from sysfs. Earlier releases read /proc/cpuinfo: there a "
        "CPU without a core id was a core of its own, and a package was a node.",
        _cadvisor("v0.37.0", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    AARCH64_IDS_FROM_SYSFS = Known(
        Area.DISCOVERY, "1.14", None,
        "On aarch64 the kubelet reads core ids and node ids from sysfs, because /proc/cpuinfo has "
        "none there.",
        _cadvisor("v0.33.1", "machine/machine.go"),
    )  # fmt: skip
    S390X_TOPOLOGY = Known(
        Area.DISCOVERY, "1.32", None,
        "On s390x the kubelet finds cores, and tells cores apart by book and drawer as well. "
        "Earlier releases knew only the number of CPUs, so the static policy could not start.",
        _cadvisor("v0.50.0", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    HUGE_PAGES_OF_NODES = Known(
        Area.DISCOVERY, "1.17", None,
        "The kubelet reads the huge pages of each NUMA node. A malformed entry makes the "
        "discovery of the topology fail.",
        _cadvisor("v0.35.0", "machine/machine.go"),
    )  # fmt: skip
    NUMA_NODES = Known(
        Area.DISCOVERY, "1.16", None,
        "The CPU manager knows NUMA nodes. Up to 1.19.8 the kubelet itself reads them, and does "
        "not start if it cannot.",
        _pr(81951),
    )  # fmt: skip
    ONLINE_NUMA_NODES = Known(
        Area.DISCOVERY, "1.17", None,
        "Where the kubelet itself reads NUMA nodes, it reads node/online. Earlier releases read "
        "node/possible, and did not start if a node was possible but not online.",
        _pr(83196), backports=("1.16.2",),
    )  # fmt: skip
    NUMA_NODES_FROM_CADVISOR = Known(
        Area.DISCOVERY, "1.19.9", None,
        "The NUMA node and the socket of a CPU are those that cAdvisor found. Earlier releases "
        "used the id of cAdvisor's node as the socket; in 1.19.0 to 1.19.8 that node is the NUMA "
        "node.",
        _code("v1.19.9", "cm/cpumanager/topology/topology.go"),
    )  # fmt: skip
    SOCKETS_COUNTED_BY_ID = Known(
        Area.DISCOVERY, "1.21", None,
        "The number of sockets is the number of distinct physical ids. In earlier releases it was "
        "the number of cAdvisor's nodes.",
        _pr(99464), backports=("1.19.9", "1.20.5"),
    )  # fmt: skip
    CORES_BY_PACKAGE = Known(
        Area.DISCOVERY, "1.21", None,
        "Two packages in one NUMA node may use the same core id, and have a core each. Earlier "
        "releases that read sysfs merged the two cores, and kept a CPU without a package id.",
        _issue(98870), backports=("1.19.9", "1.20.5"),
    )  # fmt: skip
    ONLINE_BY_LIST = Known(
        Area.DISCOVERY, "1.21", None,
        "The kubelet looks for a list of online CPUs beside the folder of the CPU. The folder of "
        "a NUMA node has no such list, so every CPU counts as online. Earlier releases read the "
        "CPU's own file; without that file only CPU 0 counted as online.",
        _issue(95039),
    )  # fmt: skip
    ONLINE_BY_SYSTEM_LIST = Known(
        Area.DISCOVERY, "1.29", None,
        "The kubelet reads from /sys/devices/system/cpu/online whether a CPU is online, also when "
        "it counts sockets.",
        _cadvisor("v0.48.1", "utils/sysfs/sysfs.go"),
    )  # fmt: skip
    CACHE_IDS = Known(
        Area.DISCOVERY, "1.23", None,
        "Caches have ids. A cache above level 2 that does not span just its NUMA node is an "
        "uncore cache. Where the kernel shows no id of a cache, the kubelet reads no further "
        "caches of that NUMA node.",
        _cadvisor("v0.40.0", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    NUMA_DISTANCES = Known(
        Area.DISCOVERY, "1.26", None,
        "The kubelet reads the distances of NUMA nodes. A malformed distance makes the discovery "
        "of the topology fail.",
        _cadvisor("v0.46.1", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    UNCORE_CACHES_KNOWN = Known(
        Area.DISCOVERY, "1.32", None,
        "The CPU manager knows uncore caches. A core without one has the id of its socket as its "
        "cache's id.",
        _kep(4800),
    )  # fmt: skip
    NO_CPU_IS_AVAILABLE = Known(
        Area.DISCOVERY, "1.36", None,
        "The log says `no CPU is available` of a machine without any CPU. Earlier releases said "
        "`Any CPU is not available`.",
        _cadvisor("v0.56.2", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip

    # -- allocation --------------------------------------------------------------------------

    ORDERED_ALLOCATION = Known(
        Area.ALLOCATION, "1.22", None,
        "The packed allocator has a strict order, so the same machine state always gives the same "
        "CPUs. In earlier releases the CPUs depended on Go's map order and on its sort. The "
        "allocator takes a whole socket or core with all its CPUs.",
        _code("v1.22.17", "cm/cpumanager/cpu_assignment.go"),
    )  # fmt: skip
    NUMA_ALLOCATION = Known(
        Area.ALLOCATION, "1.23", None,
        "The packed allocator takes whole NUMA nodes as well as whole sockets. It takes the "
        "larger kind first.",
        _code("v1.23.17", "cm/cpumanager/cpu_assignment.go"),
    )  # fmt: skip
    NUMA_DISTRIBUTION = Known(
        Area.ALLOCATION, "1.23", None,
        "distribute-cpus-across-numa spreads a request evenly over the fewest NUMA nodes that can "
        "hold it.",
        _kep(2902),
    )  # fmt: skip
    NUMBERS_IN_REFUSAL = Known(
        Area.ALLOCATION, "1.29", None,
        "`not enough cpus available to satisfy request` states how many were requested and how "
        "many are available.",
        _code("v1.29.6", "cm/cpumanager/cpu_assignment.go"),
    )  # fmt: skip
    CORE_SPREADING = Known(
        Area.ALLOCATION, "1.31", None,
        "distribute-cpus-across-cores takes single CPUs of different physical cores first.",
        _kep(4176),
    )  # fmt: skip
    UNCORE_ALIGNMENT = Known(
        Area.ALLOCATION, "1.32", None,
        "prefer-align-cpus-by-uncorecache keeps a request inside the fewest uncore caches that "
        "can hold it.",
        _kep(4800),
    )  # fmt: skip
    UNCORE_ROUNDED_UP = Known(
        Area.ALLOCATION, "1.34", None,
        "The kubelet takes an odd number of CPUs on an SMT machine from one uncore cache, because "
        "it rounds up the number of cores that it needs.",
        _code("v1.34.1", "cm/cpumanager/cpu_assignment.go"), backports=("1.33.6",),
    )  # fmt: skip
    SOCKET_ALIGNED_DISTRIBUTION = Known(
        Area.ALLOCATION, "1.37", None,
        "distribute-cpus-across-numa obeys align-by-socket: it prefers NUMA nodes of one socket "
        "to an even share. It asks no NUMA node for a larger share than the node has.",
        _pr(139778),
    )  # fmt: skip
    DISTRIBUTION_ENDS = Known(
        Area.ALLOCATION, "1.38", None,
        "distribute-cpus-across-numa skips NUMA nodes that have too few whole cores left. "
        "Releases up to 1.37 count CPUs there, and search for ever.",
        _pr(140730),
    )  # fmt: skip
    COMBINATIONS_KEPT = Known(
        Area.ALLOCATION, "1.38", None,
        "The kubelet keeps the best combination of NUMA nodes as it found it. Releases up to 1.37 "
        "overwrite parts of it while the search goes on.",
        _pr(141238),
    )  # fmt: skip
    TRUE_SIZES = Known(
        Area.ALLOCATION, "1.38", None,
        "The kubelet compares the free CPUs of a socket or core with its own size to find out "
        "whether it is free. Releases up to 1.37 compare them with the average size, and on "
        "uneven machines hand out busy or reserved CPUs.",
        _pr(140498),
    )  # fmt: skip
    NUMA_FLOOR_FROM_HINT = Known(
        Area.ALLOCATION, "1.38", None,
        "distribute-cpus-across-numa spreads a request over at least as many NUMA nodes as the "
        "hint has. Releases up to 1.37 take the fewest that hold the request.",
        _pr(139456),
    )  # fmt: skip
    UNCORE_BEST_FIT = Known(
        Area.ALLOCATION, None, None,
        "A request that fits into the free CPUs of one uncore cache stays in that cache, even if "
        "cores of it are partly used (kubernetes/kubernetes#137315). Every release spreads such a "
        "request over several caches.",
        _pr(137583),
    )  # fmt: skip
    SPREAD_OVER_CORES = Known(
        Area.ALLOCATION, "1.38", None,
        "distribute-cpus-across-cores takes one CPU of each physical core in turn, whatever the "
        "CPU numbers are. Releases up to 1.37 take CPUs by number, and so take neighbouring "
        "threads of one core.",
        _pr(140766),
    )  # fmt: skip

    # -- policy options ----------------------------------------------------------------------

    POLICY_OPTIONS = Known(
        Area.OPTIONS, "1.22", None,
        "The static policy takes options. They need feature gate CPUManagerPolicyOptions.",
        _kep(2625),
    )  # fmt: skip
    OPTION_MATURITY = Known(
        Area.OPTIONS, "1.23", None,
        "Options are alpha, beta or stable. One feature gate enables the alpha options, another "
        "the beta options.",
        _code("v1.23.17", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    OPTIONS_GATE_ON = Known(
        Area.OPTIONS, "1.23", None,
        "Feature gate CPUManagerPolicyOptions is on by default.",
        _code("v1.23.17", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    OPTIONS_UNGATED = Known(
        Area.OPTIONS, "1.33", None,
        "Feature gate CPUManagerPolicyOptions is locked on.",
        _code("v1.33.6", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    ALIGN_BY_SOCKET = Known(
        Area.OPTIONS, "1.25", None,
        "align-by-socket widens the CPUs of a hint to whole sockets.",
        _kep(3327),
    )  # fmt: skip
    STRICT_RESERVATION = Known(
        Area.OPTIONS, "1.32", None,
        "strict-cpu-reservation keeps shared containers off the reserved CPUs too.",
        _kep(4540),
    )  # fmt: skip
    FULL_PCPUS_STABLE = Known(
        Area.OPTIONS, "1.33", None,
        "full-pcpus-only is stable, and needs no feature gate.",
        _code("v1.33.6", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    NUMA_DISTRIBUTION_BETA = Known(
        Area.OPTIONS, "1.33", None,
        "distribute-cpus-across-numa is beta, so it works without the feature gate for alpha "
        "options.",
        _code("v1.33.6", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    STRICT_RESERVATION_BETA = Known(
        Area.OPTIONS, "1.33", None,
        "strict-cpu-reservation is beta, so it works without the feature gate for alpha options.",
        _code("v1.33.6", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    UNCORE_ALIGNMENT_BETA = Known(
        Area.OPTIONS, "1.34", None,
        "prefer-align-cpus-by-uncorecache is beta, so it works without the feature gate for alpha "
        "options.",
        _code("v1.34.1", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    STRICT_RESERVATION_STABLE = Known(
        Area.OPTIONS, "1.35", None,
        "strict-cpu-reservation is stable, and needs no feature gate.",
        _code("v1.35.2", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    UNCORE_ALIGNMENT_STABLE = Known(
        Area.OPTIONS, "1.36", None,
        "prefer-align-cpus-by-uncorecache is stable, and needs no feature gate.",
        _code("v1.36.3", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip

    # -- static policy -----------------------------------------------------------------------

    RESERVED_CPU_LIST = Known(
        Area.POLICY, "1.17", None,
        "reservedSystemCPUs names the reserved CPUs.",
        _pr(83592),
    )  # fmt: skip
    UNKNOWN_RESERVED_REFUSED = Known(
        Area.POLICY, "1.27", None,
        "The kubelet works out the siblings of the reserved CPUs. Where the machine lacks a "
        "reserved CPU, the error names that CPU.",
        _pr(114114),
    )  # fmt: skip
    WHOLE_CORES_LEFT_CHECKED = Known(
        Area.POLICY, "1.27", None,
        "full-pcpus-only refuses a request for more CPUs than are free outside of cores with a "
        "reserved CPU.",
        _pr(114114),
    )  # fmt: skip
    WHOLE_CORES_LEFT_ALWAYS_NAMED = Known(
        Area.POLICY, "1.32", None,
        "The refusal for lack of whole cores always states how many CPUs are free. Where none was "
        "free, earlier releases gave the text for a request that is not a multiple of a core's "
        "size.",
        _issue(127959),
    )  # fmt: skip
    HELD_CPUS_KEPT_FIRST = Known(
        Area.POLICY, "1.37", None,
        "A container that holds CPUs keeps them, whatever full-pcpus-only says. Earlier releases "
        "refused it after a restart of the kubelet if the node did not have as many free CPUs "
        "once more.",
        _issue(129078),
    )  # fmt: skip
    INIT_CPUS_RETURNED = Known(
        Area.POLICY, "1.16", "1.17",
        "The CPUs of a pod's init containers return when a later container takes CPUs. In earlier "
        "releases they returned when the init containers were removed.",
        _pr(78762),
    )  # fmt: skip
    INIT_CPUS_REUSED = Known(
        Area.POLICY, "1.18", None,
        "CPUs of init containers are offered to later containers of the pod.",
        _pr(90419),
    )  # fmt: skip
    SIDECARS_KEEP_CPUS = Known(
        Area.POLICY, "1.29", None,
        "CPUs of a restartable init container are not offered to later containers.",
        _pr(119447),
    )  # fmt: skip
    UNKNOWN_POLICY_REFUSED = Known(
        Area.POLICY, "1.16", None,
        "The kubelet refuses a policy that does not exist. Earlier releases logged it and took "
        "policy none.",
        _code("v1.16.15", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    MISSING_RESERVATION_PANICS = Known(
        Area.POLICY, "1.8", "1.9",
        "The static policy without a cpu reservation makes the kubelet panic. From 1.10 on the "
        "kubelet gives an error instead.",
        _code("v1.9.11", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    INIT_CONTAINERS_DECIDE_QOS = Known(
        Area.POLICY, "1.16", None,
        "Init containers count for the QoS class of a pod. In earlier releases only its app "
        "containers counted.",
        f"{_KUBERNETES}/blob/v1.16.15/pkg/apis/core/v1/helper/qos/qos.go",
    )  # fmt: skip
    SHARED_CPUS_STAY_TAKEN = Known(
        Area.POLICY, "1.24", None,
        "When a container is removed, those of its CPUs that another container of the pod holds "
        "too stay taken.",
        _pr(104837),
    )  # fmt: skip
    POD_LEVEL_RESOURCES = Known(
        Area.POLICY, "1.32", None,
        "A pod may request resources as a whole, and these then decide its QoS class. This needs "
        "feature gate PodLevelResources, which is off up to 1.33.",
        _kep(2837),
    )  # fmt: skip
    POD_LEVEL_RESOURCES_SKIPPED = Known(
        Area.POLICY, "1.34", None,
        "A pod with pod-level resources gets no exclusive CPUs. Feature gate PodLevelResources is "
        "on by default.",
        _kep(2837),
    )  # fmt: skip
    POD_LEVEL_MANAGERS = Known(
        Area.POLICY, "1.36", None,
        "Feature gate PodLevelResourceManagers gives CPUs of their own to pods with pod-level "
        "resources. The gate is off by default.",
        _kep(5526),
    )  # fmt: skip
    EMPTY_POD_LEVEL_IGNORED = Known(
        Area.POLICY, "1.37", None,
        "Pod-level resources that name nothing do not make a pod BestEffort.",
        _kep(2837),
    )  # fmt: skip
    POD_LEVEL_REQUESTS_NOT_FILLED_IN = Known(
        Area.POLICY, "1.37", None,
        "A static pod with pod-level limits and no requests has no pod-level requests. Earlier "
        "releases filled them in.",
        f"{_KUBERNETES}/blob/v1.37.0/pkg/apis/core/v1/defaults.go",
    )  # fmt: skip
    POD_POOL_KEPT = Known(
        Area.POLICY, "1.38", None,
        "A pod that holds CPUs as a whole keeps them at a restart of the kubelet. Earlier "
        "releases gave it other CPUs, or refused it.",
        _pr(141041),
    )  # fmt: skip
    RESIZE_REFUSED = Known(
        Area.POLICY, "1.32", None,
        "Under the static policy an in-place resize of a Guaranteed pod is infeasible, unless "
        "feature gate InPlacePodVerticalScalingExclusiveCPUs is on. Earlier releases granted the "
        "resize and left the CPUs as they were.",
        f"{_KUBERNETES}/blob/v1.32.2/pkg/kubelet/kubelet.go",
    )  # fmt: skip
    RESIZE_REFUSED_FOR_CPU = Known(
        Area.POLICY, "1.34", None,
        "An in-place resize under the static policy is infeasible only where a cpu request "
        "changes, and the message quotes the policy.",
        f"{_KUBERNETES}/blob/v1.34.1/pkg/kubelet/allocation/allocation_manager.go",
    )  # fmt: skip
    RESIZE_LEFT_ALONE = Known(
        Area.POLICY, "1.37", None,
        "The static policy does nothing at an in-place resize: it gives no hints, allocates "
        "nothing and returns no error.",
        _kep(5554),
    )  # fmt: skip
    NO_QUOTA_ON_EXCLUSIVE_CPUS = Known(
        Area.POLICY, "1.33", None,
        "Containers with exclusive CPUs run without a CFS quota.",
        _issue(70585),
    )  # fmt: skip

    # -- Topology Manager --------------------------------------------------------------------

    TOPOLOGY_MANAGER = Known(
        Area.HINTS, "1.16", None,
        "The Topology Manager decides in which NUMA nodes a container's CPUs lie. It needs "
        "feature gate TopologyManager.",
        _kep(693),
    )  # fmt: skip
    STATIC_PODS_ALIGNED = Known(
        Area.HINTS, "1.17", None,
        "The Topology Manager handles every pod. Earlier releases handled only pods whose status "
        "says Guaranteed; the status of a static pod does not say so yet when the pod is admitted.",
        _code("v1.16.15", "cm/topologymanager/topology_manager.go"),
    )  # fmt: skip
    TOPOLOGY_MANAGER_ON = Known(
        Area.HINTS, "1.18", None,
        "Feature gate TopologyManager is on by default.",
        _kep(693),
    )  # fmt: skip
    TOPOLOGY_MANAGER_UNGATED = Known(
        Area.HINTS, "1.27", None,
        "The Topology Manager is always on.",
        _kep(693),
    )  # fmt: skip
    TOPOLOGY_REFUSAL_ONE_WORD = Known(
        Area.HINTS, "1.18", None,
        "The reason of a refusal is `TopologyAffinityError`, and its text ends with `locality`. "
        "In earlier releases these were `Topology Affinity Error` and `Locality`.",
        _code("v1.18.0", "cm/topologymanager/topology_manager.go"),
    )  # fmt: skip
    NUMA_LIMIT_SPARES_NONE = Known(
        Area.HINTS, "1.18", None,
        "Under policy none a machine may have any number of NUMA nodes. Earlier releases allowed "
        "eight at most there as well.",
        _code("v1.18.0", "cm/topologymanager/topology_manager.go"),
    )  # fmt: skip
    SINGLE_NUMA_SPARES_THE_REST = Known(
        Area.HINTS, "1.16.2", None,
        "single-numa-node admits pods that request CPUs alone, or that request nothing. 1.16.0 "
        "and 1.16.1 refused every pod that had a resource without a preference.",
        _issue(83697),
    )  # fmt: skip
    TOPOLOGY_SCOPE = Known(
        Area.HINTS, "1.20", None,
        "With topologyManagerScope pod the kubelet puts all containers of a pod on the same NUMA "
        "nodes.",
        _pr(92967),
    )  # fmt: skip
    HINTS_BY_NUMA_ALONE = Known(
        Area.HINTS, "1.20", None,
        "The number of NUMA nodes of a hint decides whether it is preferred. In earlier releases "
        "its number of sockets counted too.",
        _pr(90980), backports=("1.19.9",),
    )  # fmt: skip
    UNEQUAL_HINTS_NOT_PREFERRED = Known(
        Area.HINTS, "1.24", None,
        "A merged hint is preferred only if the hints of the resources are equal. Among hints "
        "that are not preferred the merge looks for as many NUMA nodes as the neediest resource "
        "needs.",
        _code("v1.24.14", "cm/topologymanager/policy.go"),
    )  # fmt: skip
    SETTINGS_LIST_VALUES = Known(
        Area.SETTINGS, "1.24", None,
        "The error about an unknown Topology Manager policy or scope lists those that exist.",
        _code("v1.24.14", "apis/config/validation/validation.go"),
    )  # fmt: skip
    TOPOLOGY_OPTIONS = Known(
        Area.HINTS, "1.26", None,
        "The Topology Manager takes options (topologyManagerPolicyOptions), which need feature "
        "gate TopologyManagerPolicyOptions. The first is prefer-closest-numa-nodes (alpha).",
        _kep(3545),
    )  # fmt: skip
    NONE_SKIPS_TOPOLOGY_OPTIONS = Known(
        Area.HINTS, "1.28", None,
        "Under policy none the kubelet does not check the Topology Manager's options.",
        _pr(116738),
    )  # fmt: skip
    TOPOLOGY_OPTIONS_ON = Known(
        Area.HINTS, "1.28", None,
        "Feature gates TopologyManagerPolicyOptions and TopologyManagerPolicyBetaOptions are on "
        "by default, and prefer-closest-numa-nodes is beta.",
        _kep(3545),
    )  # fmt: skip
    NUMA_LIMIT_OPTION = Known(
        Area.HINTS, "1.31", None,
        "max-allowable-numa-nodes (beta) lifts the limit of eight NUMA nodes.",
        _kep(4622),
    )  # fmt: skip
    TOPOLOGY_OPTIONS_STABLE = Known(
        Area.HINTS, "1.32", None,
        "The Topology Manager's options no longer need feature gate TopologyManagerPolicyOptions, "
        "and prefer-closest-numa-nodes is stable.",
        _kep(3545),
    )  # fmt: skip
    TOPOLOGY_TEXTS_LOWERED = Known(
        Area.HINTS, "1.33", None,
        "The refusal of a Topology Manager option whose maturity is not enabled is in lower case.",
        _code("v1.33.6", "cm/topologymanager/policy_options.go"),
    )  # fmt: skip
    DEVICES_CHECKED_AT_RESTART = Known(
        Area.HINTS, "1.28", None,
        "After a restart the kubelet refuses a container whose devices are not registered again, "
        "unless the container was running. Earlier releases let it keep its devices unchecked.",
        _issue(109595), backports=("1.25.14", "1.26.15", "1.27.16"),
    )  # fmt: skip
    DEVICE_HINTS_ON_DEVICE_NODES = Known(
        Area.HINTS, "1.36", None,
        "The device manager gives hints only for NUMA nodes that have a device of the resource. "
        "Earlier releases gave hints for all sets of NUMA nodes that include such a node.",
        _pr(138244),
    )  # fmt: skip
    NUMA_LIMIT_OPTION_STABLE = Known(
        Area.HINTS, "1.35", None,
        "max-allowable-numa-nodes is stable.",
        _kep(4622),
    )  # fmt: skip

    # -- state file ----------------------------------------------------------------------------

    STATE_FILE = Known(
        Area.STATE, "1.9", None,
        "The kubelet keeps its state in the file cpu_manager_state. Earlier releases kept it in "
        "memory only.",
        _pr(54408),
    )  # fmt: skip
    BAD_STATE_FORGOTTEN = Known(
        Area.STATE, "1.9", "1.9",
        "The kubelet logs a state file that it cannot read, and starts with an empty state.",
        _pr(54409),
    )  # fmt: skip
    BAD_STATE_PANICS = Known(
        Area.STATE, "1.10", "1.11",
        "The kubelet panics at a state file that it cannot read.",
        _code("v1.10.9", "cm/cpumanager/state/state_file.go"),
    )  # fmt: skip
    STATE_FILE_CREATED_EMPTY = Known(
        Area.STATE, "1.9", "1.9",
        "Where the state file is missing, the kubelet creates an empty file, which stays empty "
        "until the state changes.",
        _code("v1.9.11", "cm/cpumanager/state/state_file.go"),
    )  # fmt: skip
    STATE_OF_OTHER_CPUS_REFUSED = Known(
        Area.STATE, "1.12", None,
        "The kubelet refuses a state whose CPUs are not just those of the machine. Earlier "
        "releases went on handing out CPUs that were gone, and did not use new ones.",
        _pr(66718),
    )  # fmt: skip
    STATE_CHECKSUM = Known(
        Area.STATE, "1.12", None,
        "The state file has a checksum, and the kubelet refuses an empty file. In earlier "
        "releases the file had no checksum, and an empty file counted as missing.",
        _pr(59214),
    )  # fmt: skip
    STATE_FAULT_ON_ONE_LINE = Known(
        Area.STATE, "1.18", None,
        "The error about a state file has the fault and the advice to delete the file on one line.",
        _pr(84462),
    )  # fmt: skip
    STATE_MIGRATED = Known(
        Area.STATE, "1.18", "1.36",
        "The kubelet reads a state file keyed by container id: it asks the runtime which "
        "containers these are.",
        _pr(84462),
    )  # fmt: skip
    OLDEST_STATE_TRIED_FIRST = Known(
        Area.STATE, "1.18", "1.35",
        "The kubelet reads a state file first in the layout keyed by container id, and then in "
        "the newer one. It reports the error of the newer layout. 1.36 reads the newer layout "
        "first, and reports the error of the older.",
        _code("v1.32.13", "cm/cpumanager/state/state_checkpoint.go"),
    )  # fmt: skip
    STATE_WITH_DATA = Known(
        Area.STATE, "1.37", None,
        "The state file (version 4) holds its content a second time, as a text with a checksum of "
        "its own. Older kubelets ignore this text and read the rest.",
        _code("v1.37.0", "cm/cpumanager/state/checkpoint.go"),
    )  # fmt: skip

    # -- life cycle --------------------------------------------------------------------------

    CPUS_TAKEN_AT_ADMISSION = Known(
        Area.MANAGER, "1.18", None,
        "A container takes its CPUs when its pod is admitted. In earlier releases it took them "
        "when it was about to start.",
        _code("v1.18.0", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    KEYED_BY_POD = Known(
        Area.MANAGER, "1.18", None,
        "The state is keyed by pod uid and container name. In earlier releases it was keyed by "
        "container id.",
        _pr(84462),
    )  # fmt: skip
    LOST_CPUS_TAKEN_ANEW = Known(
        Area.MANAGER, "1.10", "1.17",
        "A reconcile round takes CPUs for a running container that needs exclusive CPUs and is "
        "not in the state. Earlier releases sent it the shared pool. From 1.18 on admission takes "
        "the CPUs.",
        _code("v1.10.13", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    FAILED_CONTAINERS_LEFT_ALONE = Known(
        Area.MANAGER, "1.12", "1.17",
        "A reconcile round that finds no CPUs for a running container leaves it as it is. Earlier "
        "releases sent it the shared pool.",
        _pr(67430),
    )  # fmt: skip
    INIT_CONTAINERS_RECONCILED = Known(
        Area.MANAGER, "1.15", None,
        "A reconcile round finds init containers. Earlier releases looked for their ids among "
        "those of app containers, and did not find them.",
        _code("v1.15.12", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    UNMET_CONTAINERS_FORGOTTEN = Known(
        Area.MANAGER, "1.14", "1.16",
        "At its end a reconcile round removes every entry whose container it did not meet. The "
        "first round after a start removes all entries, because the kubelet knows no pod yet "
        "(kubernetes/kubernetes#81324). A round also removes the entry of a new container whose "
        "id is not known yet.",
        _pr(68619),
    )  # fmt: skip
    STALE_CONTAINERS_FORGOTTEN = Known(
        Area.MANAGER, "1.17", "1.17",
        "A reconcile round removes an entry whose id is not that of a container of an active pod, "
        "once it knows the ids of all these containers. Up to 1.13 an entry goes only when its "
        "container is removed.",
        _pr(84300),
    )  # fmt: skip
    FREED_WHEN_STALE = Known(
        Area.MANAGER, "1.18", None,
        "The kubelet frees CPUs when no active pod needs them any more. Earlier releases freed "
        "them when the container stopped.",
        _pr(90377),
    )  # fmt: skip
    CREATED_WITH_CPUSET = Known(
        Area.MANAGER, "1.21", None,
        "The kubelet creates a container with its cpuset. Earlier releases updated the container "
        "before it started.",
        _code("v1.21.4", "cm/internal_container_lifecycle_linux.go"),
    )  # fmt: skip
    UPDATED_ON_CHANGE = Known(
        Area.MANAGER, "1.22", None,
        "A reconcile round updates a container only if its CPUs differ from those that the "
        "kubelet sent last. Earlier releases updated every container in every round, which also "
        "repaired cpusets that others had changed.",
        _issue(100906),
    )  # fmt: skip
    LAST_ADMITTED_STAYS = Known(
        Area.MANAGER, "1.22", "1.31",
        "The pod admitted last counts as active until another pod is admitted. So its CPUs stay "
        "taken after it is gone or was refused.",
        _pr(103979),
    )  # fmt: skip
    SHARED_POOL_REPORTED = Known(
        Area.MANAGER, "1.20", "1.22",
        "The pod-resources socket reports the shared pool for each shared container. Later "
        "releases report no CPU for it.",
        _pr(97415),
    )  # fmt: skip
    POD_RESOURCES_LIMITED = Known(
        Area.MANAGER, "1.27", None,
        "The pod-resources socket takes ten calls at once and then 100 a second, and refuses "
        "further calls.",
        _code("v1.27.10", "apis/podresources/grpc/ratelimit.go"),
    )  # fmt: skip
    SIDECARS_REPORTED = Known(
        Area.MANAGER, "1.30", None,
        "The pod-resources socket reports sidecars beside app containers.",
        _code("v1.30.0", "apis/podresources/server_v1.go"),
    )  # fmt: skip
    ACTIVE_PODS_REPORTED = Known(
        Area.MANAGER, "1.34", None,
        "The pod-resources socket lists active pods only. Earlier releases also list pods that "
        "were refused or have ended, as long as their manifest exists.",
        _code("v1.34.0", "apis/podresources/server_v1.go"),
    )  # fmt: skip
    POD_RESOURCES_GET = Known(
        Area.MANAGER, "1.34", None,
        "The pod-resources socket serves Get without a feature gate.",
        _code("v1.34.0", "apis/podresources/server_v1.go"),
    )  # fmt: skip
    POD_POOLS_REPORTED = Known(
        Area.MANAGER, "1.37", None,
        "The pod-resources socket reports the CPUs of a pod as a whole, and none for its "
        "containers that share them. 1.36 reports these CPUs as the containers' own.",
        _pr(138738),
    )  # fmt: skip
    ALLOCATABLE_IS_WHOLE = Known(
        Area.MANAGER, "1.26", None,
        "GetAllocatableResources reports all CPUs except the reserved ones. Earlier releases "
        "reported those that were free when the kubelet started.",
        _pr(112913), backports=("1.23.17", "1.24.14"),
    )  # fmt: skip
    STATIC_PODS_ARE_CRITICAL = Known(
        Area.MANAGER, "1.16", None,
        "A static pod that requests more cpu than is left is refused with "
        "UnexpectedAdmissionError, because the kubelet finds no pods to evict for it. Earlier "
        "releases refused it with OutOfcpu.",
        _code("v1.16.15", "types/pod_update.go"),
    )  # fmt: skip
    REJECTED_PODS_HAVE_QOS = Known(
        Area.MANAGER, "1.32", None,
        "The status of a pod refused at admission names its QoS class.",
        _code("v1.32.2", "kubelet.go"),
    )  # fmt: skip
    RESERVED_CPUS_ARE_ONLINE = Known(
        Area.POLICY, "1.22", None,
        "Every CPU of a list of reserved CPUs must be online. Earlier releases required ids lower "
        "than the number of CPUs, and so refused existing CPUs of machines whose CPU ids have "
        "gaps.",
        "https://github.com/kubernetes/kubernetes/blob/v1.22.17/cmd/kubelet/app/server.go",
    )  # fmt: skip
    ENDED_PODS_HAVE_QOS = Known(
        Area.MANAGER, "1.22", None,
        "A pod that is refused at a start of the kubelet gets a complete status with its QoS class "
        "if it has containers: those that still run are ended.",
        _code("v1.22.17", "kubelet.go"),
    )  # fmt: skip
    MISSING_DEVICES_OF_INIT_PASSED_OVER = Known(
        Area.MANAGER, "1.31", None,
        "A pod is admitted whose init container requests a device that no plugin has registered. "
        "Earlier releases refuse it, and admit a pod whose app containers request one.",
        _pr(124273),
    )  # fmt: skip
    ENDED_PODS_LEFT_ALONE = Known(
        Area.MANAGER, "1.32", None,
        "A kubelet that starts leaves a pod alone that the API server shows as failed or "
        "succeeded. Earlier releases admit it once more, so a refused pod may get another reason.",
        _pr(126343), backports=("1.28.14", "1.29.9", "1.30.5", "1.31.1"),
    )  # fmt: skip
    REFUSED_MAY_RUN_ON = Known(
        Area.MANAGER, "1.22", "1.26",
        "The containers of a pod that is refused at a start of the kubelet may keep running with "
        "their cpuset, although its CPUs are given back. No pod worker ends them if the sync loop "
        "hears of them before it knows the pod, or if another request for the pods comes in "
        "between.",
        _code("v1.22.17", "pod_workers.go"),
    )  # fmt: skip
    REJECTION_TEXT_WAS_REJECTED = Known(
        Area.MANAGER, "1.26", None,
        "The message of a refused pod begins with `Pod was rejected: `. In earlier releases it "
        "began with `Pod `.",
        _code("v1.26.7", "kubelet.go"),
    )  # fmt: skip
    GIVES_UP_IN_MAIN = Known(
        Area.MANAGER, "1.8", "1.9",
        "A kubelet that gives up prints `error: ` and the reason, and exits with status 1. From "
        "1.10 on it ends with klog's fatal exit.",
        f"{_KUBERNETES}/blob/v1.9.11/cmd/kubelet/kubelet.go",
    )  # fmt: skip
    EXITS_WITH_ONE = Known(
        Area.MANAGER, "1.21", None,
        "A kubelet that gives up exits with status 1. Earlier releases exit with 255, the status "
        "of klog's fatal exit.",
        "https://github.com/kubernetes/kubernetes/blob/v1.22.17/cmd/kubelet/app/server.go",
    )  # fmt: skip

    # -- settings ----------------------------------------------------------------------------

    CPU_MANAGER_ON = Known(
        Area.SETTINGS, "1.10", None,
        "Feature gate CPUManager is on by default. In earlier releases it is off by default; the "
        "model takes it to be on.",
        f"{_KUBERNETES}/blob/v1.10.13/pkg/features/kube_features.go",
    )  # fmt: skip
    DISCOVERY_UNDER_NONE = Known(
        Area.SETTINGS, "1.32", None,
        "The kubelet discovers the machine's topology under policy none too, so a failed "
        "discovery stops it there as well.",
        _code("v1.32.2", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    CFS_PERIOD_GATED = Known(
        Area.SETTINGS, "1.20", None,
        "A kubelet whose cpuCFSQuotaPeriod is not 100 ms starts only with feature gate "
        "CustomCPUCFSQuotaPeriod, which is on by default from 1.36 on. In earlier releases the "
        "setting had no effect without the gate.",
        _code("v1.20.15", "apis/config/validation/validation.go"),
    )  # fmt: skip
    RESERVATION_FLAG_NAMED = Known(
        Area.SETTINGS, "1.27", None,
        "The error about a cpu reservation that is not a quantity names the setting and the text. "
        "In earlier releases it names only the fault.",
        _pr(114169),
    )  # fmt: skip
    RESERVATION_TO_NEAREST_MILLI = Known(
        Area.SETTINGS, "1.37", None,
        "The kubelet rounds reserved cpu quantities to the nearest thousandth. Earlier releases "
        "rounded them up.",
        _code("v1.37.0", "cm/container_manager_linux.go"),
    )  # fmt: skip

    @property
    def title(self) -> str:
        """``numa-allocation``."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def named(cls, title: str) -> Behaviour:
        """The behaviour of this title; ``ValueError`` where there is none."""
        for one in cls:
            if one.title == title:
                return one
        raise ValueError(f"no behaviour {title!r}")
