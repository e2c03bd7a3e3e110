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
        "A CPU list is refused if a range runs backwards or has more than one dash; before, such "
        "a piece was ignored.",
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
        "The machine is read from sysfs; before, from /proc/cpuinfo, where a CPU without a core id "
        "is a core of its own and a package is a node.",
        _cadvisor("v0.37.0", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    AARCH64_IDS_FROM_SYSFS = Known(
        Area.DISCOVERY, "1.14", None,
        "On aarch64 core and node ids come from sysfs, as /proc/cpuinfo has none there.",
        _cadvisor("v0.33.1", "machine/machine.go"),
    )  # fmt: skip
    S390X_TOPOLOGY = Known(
        Area.DISCOVERY, "1.32", None,
        "On s390x cores are found, and told apart by book and drawer too; before, only the number "
        "of CPUs was known and the static policy could not start.",
        _cadvisor("v0.50.0", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    HUGE_PAGES_OF_NODES = Known(
        Area.DISCOVERY, "1.17", None,
        "The huge pages of each NUMA node are read, and a malformed entry spoils the topology.",
        _cadvisor("v0.35.0", "machine/machine.go"),
    )  # fmt: skip
    NUMA_NODES = Known(
        Area.DISCOVERY, "1.16", None,
        "The CPU manager knows NUMA nodes; up to 1.19.8 the kubelet reads them itself and does "
        "not start if it cannot.",
        _pr(81951),
    )  # fmt: skip
    ONLINE_NUMA_NODES = Known(
        Area.DISCOVERY, "1.17", None,
        "Where the kubelet reads NUMA nodes itself, it uses node/online; before, node/possible, "
        "and a node that was only possible stopped it.",
        _pr(83196), backports=("1.16.2",),
    )  # fmt: skip
    NUMA_NODES_FROM_CADVISOR = Known(
        Area.DISCOVERY, "1.19.9", None,
        "NUMA node and socket of a CPU are cAdvisor's; before, cAdvisor's node was taken for the "
        "socket, which in 1.19.0 to 1.19.8 is the NUMA node.",
        _code("v1.19.9", "cm/cpumanager/topology/topology.go"),
    )  # fmt: skip
    SOCKETS_COUNTED_BY_ID = Known(
        Area.DISCOVERY, "1.21", None,
        "The number of sockets is that of distinct physical ids; before, that of cAdvisor's nodes.",
        _pr(99464), backports=("1.19.9", "1.20.5"),
    )  # fmt: skip
    CORES_BY_PACKAGE = Known(
        Area.DISCOVERY, "1.21", None,
        "Equal core ids of two packages in one NUMA node are two cores; before, sysfs readers "
        "merged them, and kept a CPU without a package id.",
        _issue(98870), backports=("1.19.9", "1.20.5"),
    )  # fmt: skip
    ONLINE_BY_LIST = Known(
        Area.DISCOVERY, "1.21", None,
        "Whether a CPU is online is looked up in the list beside its folder, which NUMA nodes do "
        "not have: all count; before, by its own file, without which only CPU 0 counted.",
        _issue(95039),
    )  # fmt: skip
    ONLINE_BY_SYSTEM_LIST = Known(
        Area.DISCOVERY, "1.29", None,
        "Whether a CPU is online is looked up in /sys/devices/system/cpu/online, for counting "
        "sockets too.",
        _cadvisor("v0.48.1", "utils/sysfs/sysfs.go"),
    )  # fmt: skip
    CACHE_IDS = Known(
        Area.DISCOVERY, "1.23", None,
        "Caches have ids, and one beyond level 2 that does not span its NUMA node is an uncore "
        "cache; where the kernel shows no id, caches are lost.",
        _cadvisor("v0.40.0", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    NUMA_DISTANCES = Known(
        Area.DISCOVERY, "1.26", None,
        "The distances of NUMA nodes are read, and a malformed one spoils the topology.",
        _cadvisor("v0.46.1", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip
    UNCORE_CACHES_KNOWN = Known(
        Area.DISCOVERY, "1.32", None,
        "The CPU manager knows uncore caches; a core without one counts as its socket's.",
        _kep(4800),
    )  # fmt: skip
    NO_CPU_IS_AVAILABLE = Known(
        Area.DISCOVERY, "1.36", None,
        "A machine without any CPU is logged as `no CPU is available`, not `Any CPU is not "
        "available`.",
        _cadvisor("v0.56.2", "utils/sysinfo/sysinfo.go"),
    )  # fmt: skip

    # -- allocation --------------------------------------------------------------------------

    ORDERED_ALLOCATION = Known(
        Area.ALLOCATION, "1.22", None,
        "The packed allocator's orders are total, so one machine state has one answer; before, it "
        "hung on Go's map order and on its sort. Whole objects are taken with all their CPUs.",
        _code("v1.22.17", "cm/cpumanager/cpu_assignment.go"),
    )  # fmt: skip
    NUMA_ALLOCATION = Known(
        Area.ALLOCATION, "1.23", None,
        "The packed allocator takes whole NUMA nodes as well as whole sockets, whichever is "
        "larger first.",
        _code("v1.23.17", "cm/cpumanager/cpu_assignment.go"),
    )  # fmt: skip
    NUMA_DISTRIBUTION = Known(
        Area.ALLOCATION, "1.23", None,
        "distribute-cpus-across-numa spreads a request evenly over as few NUMA nodes as hold it.",
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
        "prefer-align-cpus-by-uncorecache keeps a request inside as few uncore caches as hold it.",
        _kep(4800),
    )  # fmt: skip
    UNCORE_ROUNDED_UP = Known(
        Area.ALLOCATION, "1.34", None,
        "An odd number of CPUs on an SMT machine is taken from one uncore cache: the cores needed "
        "are rounded up.",
        _code("v1.34.1", "cm/cpumanager/cpu_assignment.go"), backports=("1.33.6",),
    )  # fmt: skip
    SOCKET_ALIGNED_DISTRIBUTION = Known(
        Area.ALLOCATION, "1.37", None,
        "align-by-socket counts inside distribute-cpus-across-numa: NUMA nodes of one socket are "
        "preferred to an even share. No node is asked for a larger share than it has.",
        _pr(139778),
    )  # fmt: skip
    DISTRIBUTION_ENDS = Known(
        Area.ALLOCATION, "1.38", None,
        "distribute-cpus-across-numa passes over NUMA nodes whose leftovers hold too few whole "
        "cores; releases count CPUs there and search for ever.",
        _pr(140730),
    )  # fmt: skip
    COMBINATIONS_KEPT = Known(
        Area.ALLOCATION, "1.38", None,
        "The best combination of NUMA nodes is kept as it was found; releases overwrite parts of "
        "it while they go on searching.",
        _pr(141238),
    )  # fmt: skip
    TRUE_SIZES = Known(
        Area.ALLOCATION, "1.38", None,
        "Whether a socket or core is free is judged by its own size; releases use the average "
        "and hand out busy or reserved CPUs on uneven machines.",
        _pr(140498),
    )  # fmt: skip
    NUMA_FLOOR_FROM_HINT = Known(
        Area.ALLOCATION, "1.38", None,
        "distribute-cpus-across-numa spreads over at least as many NUMA nodes as the hint has; "
        "releases take the fewest that hold the request.",
        _pr(139456),
    )  # fmt: skip
    UNCORE_BEST_FIT = Known(
        Area.ALLOCATION, None, None,
        "A request that fits into the free CPUs of one uncore cache stays there whatever cores are "
        "partly used (kubernetes/kubernetes#137315); releases spread it over several.",
        _pr(137583),
    )  # fmt: skip
    SPREAD_OVER_CORES = Known(
        Area.ALLOCATION, "1.38", None,
        "distribute-cpus-across-cores takes a CPU of each physical core in turn, whatever the CPU "
        "numbers; releases go by CPU number and so take neighbouring threads of one core.",
        _pr(140766),
    )  # fmt: skip

    # -- policy options ----------------------------------------------------------------------

    POLICY_OPTIONS = Known(
        Area.OPTIONS, "1.22", None,
        "The static policy takes options, behind feature gate CPUManagerPolicyOptions.",
        _kep(2625),
    )  # fmt: skip
    OPTION_MATURITY = Known(
        Area.OPTIONS, "1.23", None,
        "Options are alpha, beta or stable; alpha and beta ones have a feature gate each.",
        _code("v1.23.17", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    OPTIONS_GATE_ON = Known(
        Area.OPTIONS, "1.23", None,
        "Feature gate CPUManagerPolicyOptions is on by default.",
        _code("v1.23.17", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    OPTIONS_UNGATED = Known(
        Area.OPTIONS, "1.33", None,
        "CPUManagerPolicyOptions is locked on.",
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
        "full-pcpus-only is stable: no feature gate is asked.",
        _code("v1.33.6", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    NUMA_DISTRIBUTION_BETA = Known(
        Area.OPTIONS, "1.33", None,
        "distribute-cpus-across-numa is beta, so on without the alpha gate.",
        _code("v1.33.6", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    STRICT_RESERVATION_BETA = Known(
        Area.OPTIONS, "1.33", None,
        "strict-cpu-reservation is beta, so on without the alpha gate.",
        _code("v1.33.6", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    UNCORE_ALIGNMENT_BETA = Known(
        Area.OPTIONS, "1.34", None,
        "prefer-align-cpus-by-uncorecache is beta, so on without the alpha gate.",
        _code("v1.34.1", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    STRICT_RESERVATION_STABLE = Known(
        Area.OPTIONS, "1.35", None,
        "strict-cpu-reservation is stable: no feature gate is asked.",
        _code("v1.35.2", "cm/cpumanager/policy_options.go"),
    )  # fmt: skip
    UNCORE_ALIGNMENT_STABLE = Known(
        Area.OPTIONS, "1.36", None,
        "prefer-align-cpus-by-uncorecache is stable: no feature gate is asked.",
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
        "A reserved CPU that the machine lacks is named: the siblings of reserved CPUs are worked "
        "out.",
        _pr(114114),
    )  # fmt: skip
    WHOLE_CORES_LEFT_CHECKED = Known(
        Area.POLICY, "1.27", None,
        "full-pcpus-only refuses a request larger than the free CPUs outside cores with a reserved "
        "CPU.",
        _pr(114114),
    )  # fmt: skip
    WHOLE_CORES_LEFT_ALWAYS_NAMED = Known(
        Area.POLICY, "1.32", None,
        "That refusal always names the free CPUs; before, none free gave the other text.",
        _issue(127959),
    )  # fmt: skip
    HELD_CPUS_KEPT_FIRST = Known(
        Area.POLICY, "1.37", None,
        "A container that holds CPUs keeps them whatever full-pcpus-only says; before, it was "
        "refused after a restart if as many more were not free.",
        _issue(129078),
    )  # fmt: skip
    INIT_CPUS_RETURNED = Known(
        Area.POLICY, "1.16", "1.17",
        "CPUs of a pod's init containers return when a later container takes some; before, when "
        "the init containers were removed.",
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
        "A policy that does not exist is refused; before, it was logged, and policy none taken.",
        _code("v1.16.15", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    MISSING_RESERVATION_PANICS = Known(
        Area.POLICY, "1.8", "1.9",
        "The static policy without a cpu reservation makes the kubelet panic; from 1.10 on it is "
        "an error.",
        _code("v1.9.11", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    INIT_CONTAINERS_DECIDE_QOS = Known(
        Area.POLICY, "1.16", None,
        "Init containers count for the QoS class of a pod; before, its app containers alone.",
        f"{_KUBERNETES}/blob/v1.16.15/pkg/apis/core/v1/helper/qos/qos.go",
    )  # fmt: skip
    SHARED_CPUS_STAY_TAKEN = Known(
        Area.POLICY, "1.24", None,
        "CPUs of a container that is removed stay taken while another container of its pod holds "
        "them too.",
        _pr(104837),
    )  # fmt: skip
    POD_LEVEL_RESOURCES = Known(
        Area.POLICY, "1.32", None,
        "A pod may ask for resources as a whole, which then decide its QoS class (feature gate "
        "PodLevelResources, off up to 1.33).",
        _kep(2837),
    )  # fmt: skip
    POD_LEVEL_RESOURCES_SKIPPED = Known(
        Area.POLICY, "1.34", None,
        "A pod with pod-level resources gets no exclusive CPUs (feature gate PodLevelResources, "
        "on).",
        _kep(2837),
    )  # fmt: skip
    POD_LEVEL_MANAGERS = Known(
        Area.POLICY, "1.36", None,
        "Feature gate PodLevelResourceManagers (off) gives pods with pod-level resources CPUs of "
        "their own.",
        _kep(5526),
    )  # fmt: skip
    EMPTY_POD_LEVEL_IGNORED = Known(
        Area.POLICY, "1.37", None,
        "Pod-level resources that name nothing do not make a pod BestEffort.",
        _kep(2837),
    )  # fmt: skip
    POD_LEVEL_REQUESTS_NOT_FILLED_IN = Known(
        Area.POLICY, "1.37", None,
        "A static pod with pod-level limits and no requests has no pod-level requests; before, the "
        "kubelet filled them in.",
        f"{_KUBERNETES}/blob/v1.37.0/pkg/apis/core/v1/defaults.go",
    )  # fmt: skip
    POD_POOL_KEPT = Known(
        Area.POLICY, "1.38", None,
        "A pod that holds CPUs as a whole keeps them at a restart of the kubelet; before, it was "
        "given others, or refused.",
        _pr(141041),
    )  # fmt: skip
    RESIZE_REFUSED = Known(
        Area.POLICY, "1.32", None,
        "Under the static policy an in-place resize of a Guaranteed pod is infeasible, unless "
        "feature gate InPlacePodVerticalScalingExclusiveCPUs is on; before, it went through, and "
        "the CPUs stayed as they were.",
        f"{_KUBERNETES}/blob/v1.32.2/pkg/kubelet/kubelet.go",
    )  # fmt: skip
    RESIZE_REFUSED_FOR_CPU = Known(
        Area.POLICY, "1.34", None,
        "It is infeasible only where a cpu request changes, and the message quotes the policy.",
        f"{_KUBERNETES}/blob/v1.34.1/pkg/kubelet/allocation/allocation_manager.go",
    )  # fmt: skip
    RESIZE_LEFT_ALONE = Known(
        Area.POLICY, "1.37", None,
        "The static policy does nothing at an in-place resize: no hints, no allocation, no error.",
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
        "The Topology Manager decides on which NUMA nodes a container's CPUs lie, behind feature "
        "gate TopologyManager.",
        _kep(693),
    )  # fmt: skip
    STATIC_PODS_ALIGNED = Known(
        Area.HINTS, "1.17", None,
        "The Topology Manager looks at every pod; before, at those whose status says Guaranteed, "
        "which that of a static pod does not when it is admitted.",
        _code("v1.16.15", "cm/topologymanager/topology_manager.go"),
    )  # fmt: skip
    TOPOLOGY_MANAGER_ON = Known(
        Area.HINTS, "1.18", None,
        "Feature gate TopologyManager is on by default.",
        _kep(693),
    )  # fmt: skip
    TOPOLOGY_MANAGER_UNGATED = Known(
        Area.HINTS, "1.27", None,
        "The Topology Manager is always there.",
        _kep(693),
    )  # fmt: skip
    TOPOLOGY_REFUSAL_ONE_WORD = Known(
        Area.HINTS, "1.18", None,
        "The reason of a refusal is `TopologyAffinityError`, its text ends with `locality`; "
        "before, `Topology Affinity Error` and `Locality`.",
        _code("v1.18.0", "cm/topologymanager/topology_manager.go"),
    )  # fmt: skip
    NUMA_LIMIT_SPARES_NONE = Known(
        Area.HINTS, "1.18", None,
        "Under policy none a machine may have any number of NUMA nodes; before, eight there too.",
        _code("v1.18.0", "cm/topologymanager/topology_manager.go"),
    )  # fmt: skip
    SINGLE_NUMA_SPARES_THE_REST = Known(
        Area.HINTS, "1.16.2", None,
        "single-numa-node admits pods that ask for CPUs alone, or for nothing; before, it refused "
        "every resource without a preference.",
        _issue(83697),
    )  # fmt: skip
    TOPOLOGY_SCOPE = Known(
        Area.HINTS, "1.20", None,
        "topologyManagerScope pod puts all containers of a pod on the same NUMA nodes.",
        _pr(92967),
    )  # fmt: skip
    HINTS_BY_NUMA_ALONE = Known(
        Area.HINTS, "1.20", None,
        "A hint is preferred by its number of NUMA nodes; before, by that of sockets as well.",
        _pr(90980), backports=("1.19.9",),
    )  # fmt: skip
    UNEQUAL_HINTS_NOT_PREFERRED = Known(
        Area.HINTS, "1.24", None,
        "Hints of different resources are merged into a preferred one only where they are equal, "
        "and among the others the merge goes for the nodes that the neediest resource needs.",
        _code("v1.24.14", "cm/topologymanager/policy.go"),
    )  # fmt: skip
    SETTINGS_LIST_VALUES = Known(
        Area.SETTINGS, "1.24", None,
        "The error about an unknown Topology Manager policy or scope lists those that exist.",
        _code("v1.24.14", "apis/config/validation/validation.go"),
    )  # fmt: skip
    TOPOLOGY_OPTIONS = Known(
        Area.HINTS, "1.26", None,
        "topologyManagerPolicyOptions, first of all prefer-closest-numa-nodes (alpha), behind "
        "feature gate TopologyManagerPolicyOptions.",
        _kep(3545),
    )  # fmt: skip
    NONE_SKIPS_TOPOLOGY_OPTIONS = Known(
        Area.HINTS, "1.28", None,
        "Under policy none the Topology Manager's options are not checked.",
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
        "The options need no gate of their own any more, and prefer-closest-numa-nodes is stable.",
        _kep(3545),
    )  # fmt: skip
    TOPOLOGY_TEXTS_LOWERED = Known(
        Area.HINTS, "1.33", None,
        "An option whose maturity is not enabled is refused in lower case.",
        _code("v1.33.6", "cm/topologymanager/policy_options.go"),
    )  # fmt: skip
    DEVICES_CHECKED_AT_RESTART = Known(
        Area.HINTS, "1.28", None,
        "A kubelet that starts refuses a container whose devices are not registered again, unless "
        "it was running; before, it kept its devices unchecked.",
        _issue(109595), backports=("1.25.14", "1.26.15", "1.27.16"),
    )  # fmt: skip
    DEVICE_HINTS_ON_DEVICE_NODES = Known(
        Area.HINTS, "1.36", None,
        "The device manager gives hints for NUMA nodes that have a device of the resource; before, "
        "for all sets of NUMA nodes that include one.",
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
        "The state is kept in the file cpu_manager_state; before, in memory only.",
        _pr(54408),
    )  # fmt: skip
    BAD_STATE_FORGOTTEN = Known(
        Area.STATE, "1.9", "1.9",
        "A state file that cannot be read is logged, and the state starts empty.",
        _pr(54409),
    )  # fmt: skip
    BAD_STATE_PANICS = Known(
        Area.STATE, "1.10", "1.11",
        "A state file that cannot be read makes the kubelet panic.",
        _code("v1.10.9", "cm/cpumanager/state/state_file.go"),
    )  # fmt: skip
    STATE_FILE_CREATED_EMPTY = Known(
        Area.STATE, "1.9", "1.9",
        "A missing state file is created empty, and stays so until something changes.",
        _code("v1.9.11", "cm/cpumanager/state/state_file.go"),
    )  # fmt: skip
    STATE_OF_OTHER_CPUS_REFUSED = Known(
        Area.STATE, "1.12", None,
        "A state that does not have just the machine's CPUs is refused; before, CPUs that are gone "
        "went on being handed out, and new ones were not used.",
        _pr(66718),
    )  # fmt: skip
    STATE_CHECKSUM = Known(
        Area.STATE, "1.12", None,
        "The state file has a checksum, and an empty file is refused; before, it had none and an "
        "empty one counted as missing.",
        _pr(59214),
    )  # fmt: skip
    STATE_FAULT_ON_ONE_LINE = Known(
        Area.STATE, "1.18", None,
        "The advice to delete the state file follows its fault on the same line.",
        _pr(84462),
    )  # fmt: skip
    STATE_MIGRATED = Known(
        Area.STATE, "1.18", "1.36",
        "A state file keyed by container id is read by asking the runtime what its containers are.",
        _pr(84462),
    )  # fmt: skip
    OLDEST_STATE_TRIED_FIRST = Known(
        Area.STATE, "1.18", "1.35",
        "The layout keyed by container id is tried first and the fault reported is that of the "
        "newer one; in 1.36 it is the other way round.",
        _code("v1.32.13", "cm/cpumanager/state/state_checkpoint.go"),
    )  # fmt: skip
    STATE_WITH_DATA = Known(
        Area.STATE, "1.37", None,
        "The state file holds its content once more as a text with a checksum of its own (version "
        "4); older kubelets read the rest.",
        _code("v1.37.0", "cm/cpumanager/state/checkpoint.go"),
    )  # fmt: skip

    # -- life cycle --------------------------------------------------------------------------

    CPUS_TAKEN_AT_ADMISSION = Known(
        Area.MANAGER, "1.18", None,
        "CPUs are taken when the pod is admitted; before, when a container was about to start.",
        _code("v1.18.0", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    KEYED_BY_POD = Known(
        Area.MANAGER, "1.18", None,
        "The state is kept by pod uid and container name; before, by container id.",
        _pr(84462),
    )  # fmt: skip
    LOST_CPUS_TAKEN_ANEW = Known(
        Area.MANAGER, "1.10", "1.17",
        "A reconcile round takes CPUs for a running container that is to have some and is not in "
        "the state; before, it sent it the shared pool, and from 1.18 on admission takes them.",
        _code("v1.10.13", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    FAILED_CONTAINERS_LEFT_ALONE = Known(
        Area.MANAGER, "1.12", "1.17",
        "A running container for which a round finds no CPUs is left as it is; before, it was sent "
        "the shared pool.",
        _pr(67430),
    )  # fmt: skip
    INIT_CONTAINERS_RECONCILED = Known(
        Area.MANAGER, "1.15", None,
        "A reconcile round finds init containers; before, it looked for their ids among those of "
        "app containers.",
        _code("v1.15.12", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    UNMET_CONTAINERS_FORGOTTEN = Known(
        Area.MANAGER, "1.14", "1.16",
        "At the end of a reconcile round every entry goes whose container the round did not meet: "
        "at a start all of them, as no pod is known yet (kubernetes/kubernetes#81324), and that of "
        "a container so new that its id is not known.",
        _pr(68619),
    )  # fmt: skip
    STALE_CONTAINERS_FORGOTTEN = Known(
        Area.MANAGER, "1.17", "1.17",
        "An entry is removed once the ids of all containers of all active pods are known, and "
        "its own is not among them. Up to 1.13 an entry goes only with its container.",
        _pr(84300),
    )  # fmt: skip
    FREED_WHEN_STALE = Known(
        Area.MANAGER, "1.18", None,
        "CPUs are freed when no active pod needs them any more; before, when a container stopped.",
        _pr(90377),
    )  # fmt: skip
    CREATED_WITH_CPUSET = Known(
        Area.MANAGER, "1.21", None,
        "A container is created with its cpuset; before, it was updated before it started.",
        _code("v1.21.4", "cm/internal_container_lifecycle_linux.go"),
    )  # fmt: skip
    UPDATED_ON_CHANGE = Known(
        Area.MANAGER, "1.22", None,
        "A reconcile round updates a container only where its CPUs differ from those sent last; "
        "before, every container in every round, which repaired what others had changed.",
        _issue(100906),
    )  # fmt: skip
    LAST_ADMITTED_STAYS = Known(
        Area.MANAGER, "1.22", "1.31",
        "The pod admitted last counts as active until another is admitted, so its CPUs stay taken "
        "when it is gone or was refused.",
        _pr(103979),
    )  # fmt: skip
    SHARED_POOL_REPORTED = Known(
        Area.MANAGER, "1.20", "1.22",
        "The pod-resources socket reports the shared pool for each shared container; later no CPU.",
        _pr(97415),
    )  # fmt: skip
    POD_RESOURCES_LIMITED = Known(
        Area.MANAGER, "1.27", None,
        "The pod-resources socket refuses calls beyond 100 a second, after ten at once.",
        _code("v1.27.10", "apis/podresources/grpc/ratelimit.go"),
    )  # fmt: skip
    SIDECARS_REPORTED = Known(
        Area.MANAGER, "1.30", None,
        "The pod-resources socket reports sidecars beside app containers.",
        _code("v1.30.0", "apis/podresources/server_v1.go"),
    )  # fmt: skip
    ACTIVE_PODS_REPORTED = Known(
        Area.MANAGER, "1.34", None,
        "The pod-resources socket lists active pods; before, also those that were refused or have "
        "ended, as long as their manifest is there.",
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
        "containers that share them; 1.36 reports those as the containers' own.",
        _pr(138738),
    )  # fmt: skip
    ALLOCATABLE_IS_WHOLE = Known(
        Area.MANAGER, "1.26", None,
        "GetAllocatableResources reports all CPUs but the reserved ones; before, those that were "
        "free when the kubelet started.",
        _pr(112913), backports=("1.23.17", "1.24.14"),
    )  # fmt: skip
    STATIC_PODS_ARE_CRITICAL = Known(
        Area.MANAGER, "1.16", None,
        "A static pod that asks for more cpu than is left is refused for want of pods to put out "
        "for it (UnexpectedAdmissionError); before, as OutOfcpu.",
        _code("v1.16.15", "types/pod_update.go"),
    )  # fmt: skip
    REJECTED_PODS_HAVE_QOS = Known(
        Area.MANAGER, "1.32", None,
        "The status of a pod refused at admission names its QoS class.",
        _code("v1.32.2", "kubelet.go"),
    )  # fmt: skip
    RESERVED_CPUS_ARE_ONLINE = Known(
        Area.POLICY, "1.22", None,
        "A list of reserved CPUs must lie within those that are online; before, its ids must be "
        "lower than the number of CPUs, which refuses CPUs that are there where ids have gaps.",
        "https://github.com/kubernetes/kubernetes/blob/v1.22.17/cmd/kubelet/app/server.go",
    )  # fmt: skip
    ENDED_PODS_HAVE_QOS = Known(
        Area.MANAGER, "1.22", None,
        "A pod refused at a start while its containers still ran gets a whole status, QoS class "
        "included, when they are ended.",
        _code("v1.22.17", "kubelet.go"),
    )  # fmt: skip
    REFUSED_MAY_RUN_ON = Known(
        Area.MANAGER, "1.22", "1.26",
        "A pod refused at a start while its containers still run may keep them, with their cpuset, "
        "and its CPUs are given back all the same: no pod worker ends them where the sync loop "
        "hears of them before it knows the pod, or where another request for the pods comes in "
        "between.",
        _code("v1.22.17", "pod_workers.go"),
    )  # fmt: skip
    REJECTION_TEXT_WAS_REJECTED = Known(
        Area.MANAGER, "1.26", None,
        "The message of a refused pod begins `Pod was rejected: `; before, with `Pod `.",
        _code("v1.26.7", "kubelet.go"),
    )  # fmt: skip
    GIVES_UP_IN_MAIN = Known(
        Area.MANAGER, "1.8", "1.9",
        "A kubelet that gives up prints `error: ` and why, and exits with status 1; from 1.10 on "
        "by klog's fatal exit.",
        f"{_KUBERNETES}/blob/v1.9.11/cmd/kubelet/kubelet.go",
    )  # fmt: skip
    EXITS_WITH_ONE = Known(
        Area.MANAGER, "1.21", None,
        "A kubelet that gives up exits with status 1; before, with 255, klog's fatal exit.",
        "https://github.com/kubernetes/kubernetes/blob/v1.22.17/cmd/kubelet/app/server.go",
    )  # fmt: skip

    # -- settings ----------------------------------------------------------------------------

    CPU_MANAGER_ON = Known(
        Area.SETTINGS, "1.10", None,
        "Feature gate CPUManager is on by default; before, it has to be turned on. "
        "Nodes here count as having it on.",
        f"{_KUBERNETES}/blob/v1.10.13/pkg/features/kube_features.go",
    )  # fmt: skip
    DISCOVERY_UNDER_NONE = Known(
        Area.SETTINGS, "1.32", None,
        "The machine's topology is discovered under policy none too, so a failure stops the "
        "kubelet there as well.",
        _code("v1.32.2", "cm/cpumanager/cpu_manager.go"),
    )  # fmt: skip
    CFS_PERIOD_GATED = Known(
        Area.SETTINGS, "1.20", None,
        "A kubelet with another cpuCFSQuotaPeriod than 100 ms does not start without feature gate "
        "CustomCPUCFSQuotaPeriod (on by default from 1.36 on); before, the setting had no effect "
        "without it.",
        _code("v1.20.15", "apis/config/validation/validation.go"),
    )  # fmt: skip
    RESERVATION_FLAG_NAMED = Known(
        Area.SETTINGS, "1.27", None,
        "The error about a cpu reservation that is not a quantity names the setting and the text; "
        "before, only the fault.",
        _pr(114169),
    )  # fmt: skip
    RESERVATION_TO_NEAREST_MILLI = Known(
        Area.SETTINGS, "1.37", None,
        "Reserved cpu quantities are rounded to the nearest thousandth; before, up.",
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
