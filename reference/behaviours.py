"""Named behaviours: everything in which two Kubernetes releases differ in the CPU manager.

What belongs here: one member for each difference, with the releases that have it, what a kubelet
that has it does, and where that is said. What never does: the behaviour itself, which lives where
it is used and asks ``has(release, Behaviour.NAME)``.

To add a difference, add one member here and ask for it in the one function that it changes
(``docs/reference/releases.md`` shows how). A fix that no release carries has ``since=None``: a fork
that has it is judged as ``1.36+NAME``.
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

    ``since``: the first one (``None``: no release); ``source``: where that is said; ``says``: what
    a kubelet that has it does; ``until``: the last release (``None``: the newest has it);
    ``backports``: patch releases of earlier minors from which on they have it too.
    """

    area: Area
    since: str | None
    source: str
    says: str
    until: str | None = None
    backports: tuple[str, ...] = ()


def _pr(number: int) -> str:
    return f"{_KUBERNETES}/pull/{number}"


def _issue(number: int) -> str:
    return f"{_KUBERNETES}/issues/{number}"


def _kep(number: int) -> str:
    return f"https://github.com/kubernetes/enhancements/issues/{number}"


def _code(version: str, path: str) -> str:
    return f"{_KUBERNETES}/blob/v{version}/pkg/kubelet/{path}"


def _cpumanager(version: str, name: str) -> str:
    return _code(version, f"cm/cpumanager/{name}.go")


def _topologymanager(version: str, name: str) -> str:
    return _code(version, f"cm/topologymanager/{name}.go")


def _cadvisor(version: str, path: str = "utils/sysinfo/sysinfo.go") -> str:
    return f"https://github.com/google/cadvisor/blob/v{version}/{path}"


class Behaviour(Enum):
    """One named behaviour; :attr:`title` is how a user names it."""

    # There is one object of each, and the model looks them up all the time.
    __hash__ = object.__hash__

    # A row each: the area, the first release, where it is said, and what it says.
    # fmt: off

    # -- CPU lists ---------------------------------------------------------------------------

    STRICT_RANGES = Known(Area.TEXT, "1.22", _code("1.22.17", "cm/cpuset/cpuset.go"),
        "The kubelet refuses a CPU list with a range that runs backwards or that has more than "
        "one dash. Earlier releases ignored such a range.")
    RANGE_TEXT_GREATER = Known(Area.TEXT, "1.27", _code("1.27.7", "cm/cpuset/cpuset.go"),
        "The refusal of a range that runs backwards says `5 > 1`, not `5 >= 1`.")

    # -- topology discovery ------------------------------------------------------------------

    SYSFS_TOPOLOGY = Known(Area.DISCOVERY, "1.19", _cadvisor("0.37.0"),
        "The kubelet reads the machine from sysfs. Earlier releases read /proc/cpuinfo: there a "
        "CPU without a core id was a core of its own, and a package was a node.")
    AARCH64_IDS_FROM_SYSFS = Known(Area.DISCOVERY, "1.14",
        _cadvisor("0.33.1", "machine/machine.go"),
        "On aarch64 the kubelet reads core ids and node ids from sysfs, because /proc/cpuinfo has "
        "none there.")
    S390X_TOPOLOGY = Known(Area.DISCOVERY, "1.32", _cadvisor("0.50.0"),
        "On s390x the kubelet finds cores, and tells cores apart by book and drawer as well. "
        "Earlier releases knew only the number of CPUs, so the static policy could not start.")
    HUGE_PAGES_OF_NODES = Known(Area.DISCOVERY, "1.17", _cadvisor("0.35.0", "machine/machine.go"),
        "The kubelet reads the huge pages of each NUMA node. A malformed entry makes the "
        "discovery of the topology fail.")
    NUMA_NODES = Known(Area.DISCOVERY, "1.16", _pr(81951),
        "The CPU manager knows NUMA nodes. Up to 1.19.8 the kubelet itself reads them, and does "
        "not start if it cannot.")
    ONLINE_NUMA_NODES = Known(Area.DISCOVERY, "1.17", _pr(83196),
        "Where the kubelet itself reads NUMA nodes, it reads node/online. Earlier releases read "
        "node/possible, and did not start if a node was possible but not online.",
        backports=("1.16.2",))
    NUMA_NODES_FROM_CADVISOR = Known(Area.DISCOVERY, "1.19.9",
        _cpumanager("1.19.9", "topology/topology"),
        "The NUMA node and the socket of a CPU are those that cAdvisor found. Earlier releases "
        "used the id of cAdvisor's node as the socket; in 1.19.0 to 1.19.8 that node is the NUMA "
        "node.")
    SOCKETS_COUNTED_BY_ID = Known(Area.DISCOVERY, "1.21", _pr(99464),
        "The number of sockets is the number of distinct physical ids. In earlier releases it was "
        "the number of cAdvisor's nodes.", backports=("1.19.9", "1.20.5"))
    CORES_BY_PACKAGE = Known(Area.DISCOVERY, "1.21", _issue(98870),
        "Two packages in one NUMA node may use the same core id, and have a core each. Earlier "
        "releases that read sysfs merged the two cores, and kept a CPU without a package id.",
        backports=("1.19.9", "1.20.5"))
    ONLINE_BY_LIST = Known(Area.DISCOVERY, "1.21", _issue(95039),
        "The kubelet looks for a list of online CPUs beside the folder of the CPU. The folder of "
        "a NUMA node has no such list, so every CPU counts as online. Earlier releases read the "
        "CPU's own file; without that file only CPU 0 counted as online.")
    ONLINE_BY_SYSTEM_LIST = Known(Area.DISCOVERY, "1.29",
        _cadvisor("0.48.1", "utils/sysfs/sysfs.go"),
        "The kubelet reads from /sys/devices/system/cpu/online whether a CPU is online, also when "
        "it counts sockets.")
    CACHE_IDS = Known(Area.DISCOVERY, "1.23", _cadvisor("0.40.0"),
        "Caches have ids. A cache above level 2 that does not span just its NUMA node is an "
        "uncore cache. Where the kernel shows no id of a cache, the kubelet reads no further "
        "caches of that NUMA node.")
    NUMA_DISTANCES = Known(Area.DISCOVERY, "1.26", _cadvisor("0.46.1"),
        "The kubelet reads the distances of NUMA nodes. A malformed distance makes the discovery "
        "of the topology fail.")
    UNCORE_CACHES_KNOWN = Known(Area.DISCOVERY, "1.32", _kep(4800),
        "The CPU manager knows uncore caches. A core without one has the id of its socket as its "
        "cache's id.")
    NO_CPU_IS_AVAILABLE = Known(Area.DISCOVERY, "1.36", _cadvisor("0.56.2"),
        "The log says `no CPU is available` of a machine without any CPU. Earlier releases said "
        "`Any CPU is not available`.")

    # -- allocation --------------------------------------------------------------------------

    ORDERED_ALLOCATION = Known(Area.ALLOCATION, "1.22", _cpumanager("1.22.17", "cpu_assignment"),
        "The packed allocator has a strict order, so the same machine state always gives the same "
        "CPUs. In earlier releases the CPUs depended on Go's map order and on its sort. The "
        "allocator takes a whole socket or core with all its CPUs.")
    NUMA_ALLOCATION = Known(Area.ALLOCATION, "1.23", _cpumanager("1.23.17", "cpu_assignment"),
        "The packed allocator takes whole NUMA nodes as well as whole sockets. It takes the "
        "larger kind first.")
    NUMA_DISTRIBUTION = Known(Area.ALLOCATION, "1.23", _kep(2902),
        "distribute-cpus-across-numa spreads a request evenly over the fewest NUMA nodes that can "
        "hold it.")
    NUMBERS_IN_REFUSAL = Known(Area.ALLOCATION, "1.29", _cpumanager("1.29.6", "cpu_assignment"),
        "`not enough cpus available to satisfy request` states how many were requested and how "
        "many are available.")
    CORE_SPREADING = Known(Area.ALLOCATION, "1.31", _kep(4176),
        "distribute-cpus-across-cores takes single CPUs of different physical cores first.")
    UNCORE_ALIGNMENT = Known(Area.ALLOCATION, "1.32", _kep(4800),
        "prefer-align-cpus-by-uncorecache keeps a request inside the fewest uncore caches that "
        "can hold it.")
    UNCORE_ROUNDED_UP = Known(Area.ALLOCATION, "1.34", _cpumanager("1.34.1", "cpu_assignment"),
        "The kubelet takes an odd number of CPUs on an SMT machine from one uncore cache, because "
        "it rounds up the number of cores that it needs.", backports=("1.33.6",))
    SOCKET_ALIGNED_DISTRIBUTION = Known(Area.ALLOCATION, "1.37", _pr(139778),
        "distribute-cpus-across-numa obeys align-by-socket: it prefers NUMA nodes of one socket "
        "to an even share. It asks no NUMA node for a larger share than the node has.")
    DISTRIBUTION_ENDS = Known(Area.ALLOCATION, "1.38", _pr(140730),
        "distribute-cpus-across-numa skips NUMA nodes that have too few whole cores left. "
        "Releases up to 1.37 count CPUs there, and search for ever.")
    COMBINATIONS_KEPT = Known(Area.ALLOCATION, "1.38", _pr(141238),
        "The kubelet keeps the best combination of NUMA nodes as it found it. Releases up to 1.37 "
        "overwrite parts of it while the search goes on.")
    TRUE_SIZES = Known(Area.ALLOCATION, "1.38", _pr(140498),
        "The kubelet compares the free CPUs of a socket or core with its own size to find out "
        "whether it is free. Releases up to 1.37 compare them with the average size, and on "
        "uneven machines hand out busy or reserved CPUs.")
    NUMA_FLOOR_FROM_HINT = Known(Area.ALLOCATION, "1.38", _pr(139456),
        "distribute-cpus-across-numa spreads a request over at least as many NUMA nodes as the "
        "hint has. Releases up to 1.37 take the fewest that hold the request.")
    WHOLE_UNCORES_FIRST = Known(Area.ALLOCATION, "1.38",
        _cpumanager("1.38.0-beta.0", "cpu_assignment"),
        "prefer-align-cpus-by-uncorecache takes every whole uncore cache that the request can "
        "fill, by the cache's own size, before it takes a part of one. Releases up to 1.37 ask by "
        "the average size, and try a part of the first cache before the next whole ones.")
    UNCORE_BEST_FIT = Known(Area.ALLOCATION, None, _pr(137583),
        "A request that fits into the free CPUs of one uncore cache stays in that cache, even if "
        "cores of it are partly used (kubernetes/kubernetes#137315). Every release spreads such a "
        "request over several caches.")
    SPREAD_OVER_CORES = Known(Area.ALLOCATION, "1.38", _pr(140766),
        "distribute-cpus-across-cores takes one CPU of each physical core in turn, whatever the "
        "CPU numbers are. Releases up to 1.37 take CPUs by number, and so take neighbouring "
        "threads of one core.")

    # -- policy options ----------------------------------------------------------------------

    POLICY_OPTIONS = Known(Area.OPTIONS, "1.22", _kep(2625),
        "The static policy takes options. They need feature gate CPUManagerPolicyOptions.")
    OPTION_MATURITY = Known(Area.OPTIONS, "1.23", _cpumanager("1.23.17", "policy_options"),
        "Options are alpha, beta or stable. One feature gate enables the alpha options, another "
        "the beta options.")
    OPTIONS_GATE_ON = Known(Area.OPTIONS, "1.23", _cpumanager("1.23.17", "policy_options"),
        "Feature gate CPUManagerPolicyOptions is on by default.")
    OPTIONS_UNGATED = Known(Area.OPTIONS, "1.33", _cpumanager("1.33.6", "policy_options"),
        "Feature gate CPUManagerPolicyOptions is locked on.")
    ALIGN_BY_SOCKET = Known(Area.OPTIONS, "1.25", _kep(3327),
        "align-by-socket widens the CPUs of a hint to whole sockets.")
    STRICT_RESERVATION = Known(Area.OPTIONS, "1.32", _kep(4540),
        "strict-cpu-reservation keeps shared containers off the reserved CPUs too.")
    FULL_PCPUS_STABLE = Known(Area.OPTIONS, "1.33", _cpumanager("1.33.6", "policy_options"),
        "full-pcpus-only is stable, and needs no feature gate.")
    NUMA_DISTRIBUTION_BETA = Known(Area.OPTIONS, "1.33", _cpumanager("1.33.6", "policy_options"),
        "distribute-cpus-across-numa is beta, so it works without the feature gate for alpha "
        "options.")
    STRICT_RESERVATION_BETA = Known(Area.OPTIONS, "1.33", _cpumanager("1.33.6", "policy_options"),
        "strict-cpu-reservation is beta, so it works without the feature gate for alpha options.")
    UNCORE_ALIGNMENT_BETA = Known(Area.OPTIONS, "1.34", _cpumanager("1.34.1", "policy_options"),
        "prefer-align-cpus-by-uncorecache is beta, so it works without the feature gate for alpha "
        "options.")
    STRICT_RESERVATION_STABLE = Known(Area.OPTIONS, "1.35", _cpumanager("1.35.2", "policy_options"),
        "strict-cpu-reservation is stable, and needs no feature gate.")
    UNCORE_ALIGNMENT_STABLE = Known(Area.OPTIONS, "1.36", _cpumanager("1.36.3", "policy_options"),
        "prefer-align-cpus-by-uncorecache is stable, and needs no feature gate.")

    # -- static policy -----------------------------------------------------------------------

    RESERVED_CPU_LIST = Known(Area.POLICY, "1.17", _pr(83592),
        "reservedSystemCPUs names the reserved CPUs.")
    UNKNOWN_RESERVED_REFUSED = Known(Area.POLICY, "1.27", _pr(114114),
        "The kubelet works out the siblings of the reserved CPUs. Where the machine lacks a "
        "reserved CPU, the error names that CPU.")
    WHOLE_CORES_LEFT_CHECKED = Known(Area.POLICY, "1.27", _pr(114114),
        "full-pcpus-only refuses a request for more CPUs than are free outside of cores with a "
        "reserved CPU.")
    WHOLE_CORES_LEFT_ALWAYS_NAMED = Known(Area.POLICY, "1.32", _issue(127959),
        "The refusal for lack of whole cores always states how many CPUs are free. Where none was "
        "free, earlier releases gave the text for a request that is not a multiple of a core's "
        "size.")
    HELD_CPUS_KEPT_FIRST = Known(Area.POLICY, "1.37", _issue(129078),
        "A container that holds CPUs keeps them, whatever full-pcpus-only says. Earlier releases "
        "refused it after a restart of the kubelet if the node did not have as many free CPUs "
        "once more.")
    INIT_CPUS_RETURNED = Known(Area.POLICY, "1.16", _pr(78762),
        "The CPUs of a pod's init containers return when a later container takes CPUs. In earlier "
        "releases they returned when the init containers were removed.", until="1.17")
    INIT_CPUS_REUSED = Known(Area.POLICY, "1.18", _pr(90419),
        "CPUs of init containers are offered to later containers of the pod.")
    SIDECARS_KEEP_CPUS = Known(Area.POLICY, "1.29", _pr(119447),
        "CPUs of a restartable init container are not offered to later containers.")
    UNKNOWN_POLICY_REFUSED = Known(Area.POLICY, "1.16", _cpumanager("1.16.15", "cpu_manager"),
        "The kubelet refuses a policy that does not exist. Earlier releases logged it and took "
        "policy none.")
    MISSING_RESERVATION_PANICS = Known(Area.POLICY, "1.8", _cpumanager("1.9.11", "cpu_manager"),
        "The static policy without a cpu reservation makes the kubelet panic. From 1.10 on the "
        "kubelet gives an error instead.", until="1.9")
    INIT_CONTAINERS_DECIDE_QOS = Known(Area.POLICY, "1.16",
        f"{_KUBERNETES}/blob/v1.16.15/pkg/apis/core/v1/helper/qos/qos.go",
        "Init containers count for the QoS class of a pod. In earlier releases only its app "
        "containers counted.")
    SHARED_CPUS_STAY_TAKEN = Known(Area.POLICY, "1.24", _pr(104837),
        "When a container is removed, those of its CPUs that another container of the pod holds "
        "too stay taken.")
    POD_LEVEL_RESOURCES = Known(Area.POLICY, "1.32", _kep(2837),
        "A pod may request resources as a whole, and these then decide its QoS class. This needs "
        "feature gate PodLevelResources, which is off up to 1.33.")
    POD_LEVEL_RESOURCES_SKIPPED = Known(Area.POLICY, "1.34", _kep(2837),
        "A pod with pod-level resources gets no exclusive CPUs. Feature gate PodLevelResources is "
        "on by default.")
    POD_LEVEL_MANAGERS = Known(Area.POLICY, "1.36", _kep(5526),
        "Feature gate PodLevelResourceManagers gives CPUs of their own to pods with pod-level "
        "resources. The gate is off by default.")
    EMPTY_POD_LEVEL_IGNORED = Known(Area.POLICY, "1.37", _kep(2837),
        "Pod-level resources that name nothing do not make a pod BestEffort.")
    POD_LEVEL_REQUESTS_NOT_FILLED_IN = Known(Area.POLICY, "1.37",
        f"{_KUBERNETES}/blob/v1.37.0/pkg/apis/core/v1/defaults.go",
        "A static pod with pod-level limits and no requests has no pod-level requests. Earlier "
        "releases filled them in.")
    NO_MEMORY_NEEDS_NO_NODE = Known(Area.POLICY, "1.37",
        _code("1.37.0", "cm/memorymanager/policy_static.go"),
        "The memory manager passes over containers that request no memory of their own, in pods "
        "with pod-level resources. Earlier releases want NUMA nodes for them, and refuse the pod "
        "where the Topology Manager names none.")
    GAUGES_FOLLOW_THE_STATE = Known(Area.POLICY, "1.38",
        _cpumanager("1.38.0-beta.0", "policy_static"),
        "The gauges of the shared pool and of exclusive CPUs are computed from the state at each "
        "change: a CPU of two containers counts once, CPUs of a pod as a whole count, and a NUMA "
        "node without exclusive CPUs has 0. Releases up to 1.37 add and subtract.")
    POD_POOL_KEPT = Known(Area.POLICY, "1.38", _pr(141041),
        "A pod that holds CPUs as a whole keeps them at a restart of the kubelet. Earlier "
        "releases gave it other CPUs, or refused it.")
    POD_MEMORY_KEPT = Known(Area.POLICY, "1.38", _pr(141077),
        "A pod that holds memory as a whole keeps it at a restart of the kubelet, on its NUMA "
        "nodes. Earlier releases take as much once more, or refuse the pod.")
    RESIZE_REFUSED = Known(Area.POLICY, "1.32",
        f"{_KUBERNETES}/blob/v1.32.2/pkg/kubelet/kubelet.go",
        "Under the static policy an in-place resize of a Guaranteed pod is infeasible, unless "
        "feature gate InPlacePodVerticalScalingExclusiveCPUs is on. Earlier releases granted the "
        "resize and left the CPUs as they were.")
    RESIZE_REFUSED_FOR_CPU = Known(Area.POLICY, "1.34",
        f"{_KUBERNETES}/blob/v1.34.1/pkg/kubelet/allocation/allocation_manager.go",
        "An in-place resize under the static policy is infeasible only where a cpu request "
        "changes, and the message quotes the policy.")
    RESIZE_LEFT_ALONE = Known(Area.POLICY, "1.37", _kep(5554),
        "The static policy does nothing at an in-place resize: it gives no hints, allocates "
        "nothing and returns no error.")
    NO_QUOTA_ON_EXCLUSIVE_CPUS = Known(Area.POLICY, "1.33", _issue(70585),
        "Containers with exclusive CPUs run without a CFS quota.")

    PLATFORM_PODS_ON_RESERVED = Known(Area.POLICY, None,
        "https://opendev.org/starlingx/integ/src/branch/master/kubernetes",
        "Containers of pods with the label app.starlingx.io/component=platform run on the reserved "
        "CPUs, and get no exclusive CPUs. No release looks at labels.")

    # -- Topology Manager --------------------------------------------------------------------

    TOPOLOGY_MANAGER = Known(Area.HINTS, "1.16", _kep(693),
        "The Topology Manager decides in which NUMA nodes a container's CPUs lie. It needs "
        "feature gate TopologyManager.")
    STATIC_PODS_ALIGNED = Known(Area.HINTS, "1.17", _topologymanager("1.16.15", "topology_manager"),
        "The Topology Manager handles every pod. Earlier releases handled only pods whose status "
        "says Guaranteed; the status of a static pod does not say so yet when the pod is "
        "admitted.")
    TOPOLOGY_MANAGER_ON = Known(Area.HINTS, "1.18", _kep(693),
        "Feature gate TopologyManager is on by default.")
    TOPOLOGY_MANAGER_UNGATED = Known(Area.HINTS, "1.27", _kep(693),
        "The Topology Manager is always on.")
    TOPOLOGY_REFUSAL_ONE_WORD = Known(Area.HINTS, "1.18",
        _topologymanager("1.18.0", "topology_manager"),
        "The reason of a refusal is `TopologyAffinityError`, and its text ends with `locality`. "
        "In earlier releases these were `Topology Affinity Error` and `Locality`.")
    NUMA_LIMIT_SPARES_NONE = Known(Area.HINTS, "1.18",
        _topologymanager("1.18.0", "topology_manager"),
        "Under policy none a machine may have any number of NUMA nodes. Earlier releases allowed "
        "eight at most there as well.")
    SINGLE_NUMA_SPARES_THE_REST = Known(Area.HINTS, "1.16.2", _issue(83697),
        "single-numa-node admits pods that request CPUs alone, or that request nothing. 1.16.0 "
        "and 1.16.1 refused every pod that had a resource without a preference.")
    TOPOLOGY_SCOPE = Known(Area.HINTS, "1.20", _pr(92967),
        "With topologyManagerScope pod the kubelet puts all containers of a pod on the same NUMA "
        "nodes.")
    HINTS_BY_NUMA_ALONE = Known(Area.HINTS, "1.20", _pr(90980),
        "The number of NUMA nodes of a hint decides whether it is preferred. In earlier releases "
        "its number of sockets counted too.", backports=("1.19.9",))
    UNEQUAL_HINTS_NOT_PREFERRED = Known(Area.HINTS, "1.24", _topologymanager("1.24.14", "policy"),
        "A merged hint is preferred only if the hints of the resources are equal. Among hints "
        "that are not preferred the merge looks for as many NUMA nodes as the neediest resource "
        "needs.")
    SETTINGS_LIST_VALUES = Known(Area.SETTINGS, "1.24",
        _code("1.24.14", "apis/config/validation/validation.go"),
        "The error about an unknown Topology Manager policy or scope lists those that exist.")
    TOPOLOGY_OPTIONS = Known(Area.HINTS, "1.26", _kep(3545),
        "The Topology Manager takes options (topologyManagerPolicyOptions), which need feature "
        "gate TopologyManagerPolicyOptions. The first is prefer-closest-numa-nodes (alpha).")
    NONE_SKIPS_TOPOLOGY_OPTIONS = Known(Area.HINTS, "1.28", _pr(116738),
        "Under policy none the kubelet does not check the Topology Manager's options.")
    TOPOLOGY_OPTIONS_ON = Known(Area.HINTS, "1.28", _kep(3545),
        "Feature gates TopologyManagerPolicyOptions and TopologyManagerPolicyBetaOptions are on "
        "by default, and prefer-closest-numa-nodes is beta.")
    NUMA_LIMIT_OPTION = Known(Area.HINTS, "1.31", _kep(4622),
        "max-allowable-numa-nodes (beta) lifts the limit of eight NUMA nodes.")
    TOPOLOGY_OPTIONS_STABLE = Known(Area.HINTS, "1.32", _kep(3545),
        "Feature gate TopologyManagerPolicyOptions and prefer-closest-numa-nodes are stable. Up to "
        "1.35 the gate can be turned off.")
    TOPOLOGY_TEXTS_LOWERED = Known(Area.HINTS, "1.33", _topologymanager("1.33.6", "policy_options"),
        "The refusal of a Topology Manager option whose maturity is not enabled is in lower case.")
    DEVICES_CHECKED_AT_RESTART = Known(Area.HINTS, "1.28", _issue(109595),
        "After a restart the kubelet refuses a container whose devices are not registered again, "
        "unless the container was running. Earlier releases let it keep its devices unchecked.",
        backports=("1.25.14", "1.26.15", "1.27.16"))
    DEVICE_HINTS_ON_DEVICE_NODES = Known(Area.HINTS, "1.36", _pr(138244),
        "The device manager gives hints only for NUMA nodes that have a device of the resource. "
        "Earlier releases gave hints for all sets of NUMA nodes that include such a node.")
    NUMA_LIMIT_OPTION_STABLE = Known(Area.HINTS, "1.35", _kep(4622),
        "max-allowable-numa-nodes is stable.")

    # -- state file ----------------------------------------------------------------------------

    STATE_FILE = Known(Area.STATE, "1.9", _pr(54408),
        "The kubelet keeps its state in the file cpu_manager_state. Earlier releases kept it in "
        "memory only.")
    BAD_STATE_FORGOTTEN = Known(Area.STATE, "1.9", _pr(54409),
        "The kubelet logs a state file that it cannot read, and starts with an empty state.",
        until="1.9")
    BAD_STATE_PANICS = Known(Area.STATE, "1.10", _cpumanager("1.10.9", "state/state_file"),
        "The kubelet panics at a state file that it cannot read.", until="1.11")
    STATE_FILE_CREATED_EMPTY = Known(Area.STATE, "1.9", _cpumanager("1.9.11", "state/state_file"),
        "Where the state file is missing, the kubelet creates an empty file, which stays empty "
        "until the state changes.", until="1.9")
    STATE_OF_OTHER_CPUS_REFUSED = Known(Area.STATE, "1.12", _pr(66718),
        "The kubelet refuses a state whose CPUs are not just those of the machine. Earlier "
        "releases went on handing out CPUs that were gone, and did not use new ones.")
    STATE_CHECKSUM = Known(Area.STATE, "1.12", _pr(59214),
        "The state file has a checksum, and the kubelet refuses an empty file. In earlier "
        "releases the file had no checksum, and an empty file counted as missing.")
    STATE_FAULT_ON_ONE_LINE = Known(Area.STATE, "1.18", _pr(84462),
        "The error about a state file has the fault and the advice to delete the file on one "
        "line.")
    STATE_MIGRATED = Known(Area.STATE, "1.18", _pr(84462),
        "The kubelet reads a state file keyed by container id: it asks the runtime which "
        "containers these are.", until="1.36")
    OLDEST_STATE_TRIED_FIRST = Known(Area.STATE, "1.18",
        _cpumanager("1.32.13", "state/state_checkpoint"),
        "The kubelet reads a state file first in the layout keyed by container id, and then in "
        "the newer one. It reports the error of the newer layout. 1.36 reads the newer layout "
        "first, and reports the error of the older.", until="1.35")
    STATE_WITH_DATA = Known(Area.STATE, "1.37", _cpumanager("1.37.0", "state/checkpoint"),
        "The state file (version 4) holds its content a second time, as a text with a checksum of "
        "its own. Older kubelets ignore this text and read the rest.")
    MEMORY_FILE_OF_ANY_GATE = Known(Area.STATE, "1.37", _kep(5526),
        "A kubelet without feature gate PodLevelResourceManagers reads the memory manager's file "
        "that one with the gate has written. 1.36 finds such a file corrupt.")

    # -- life cycle --------------------------------------------------------------------------

    CPUS_TAKEN_AT_ADMISSION = Known(Area.MANAGER, "1.18", _cpumanager("1.18.0", "cpu_manager"),
        "A container takes its CPUs when its pod is admitted. In earlier releases it took them "
        "when it was about to start.")
    KEYED_BY_POD = Known(Area.MANAGER, "1.18", _pr(84462),
        "The state is keyed by pod uid and container name. In earlier releases it was keyed by "
        "container id.")
    LOST_CPUS_TAKEN_ANEW = Known(Area.MANAGER, "1.10", _cpumanager("1.10.13", "cpu_manager"),
        "A reconcile round takes CPUs for a running container that needs exclusive CPUs and is "
        "not in the state. Earlier releases sent it the shared pool. From 1.18 on admission takes "
        "the CPUs.", until="1.17")
    FAILED_CONTAINERS_LEFT_ALONE = Known(Area.MANAGER, "1.12", _pr(67430),
        "A reconcile round that finds no CPUs for a running container leaves it as it is. Earlier "
        "releases sent it the shared pool.", until="1.17")
    INIT_CONTAINERS_RECONCILED = Known(Area.MANAGER, "1.15", _cpumanager("1.15.12", "cpu_manager"),
        "A reconcile round finds init containers. Earlier releases looked for their ids among "
        "those of app containers, and did not find them.")
    UNMET_CONTAINERS_FORGOTTEN = Known(Area.MANAGER, "1.14", _pr(68619),
        "At its end a reconcile round removes every entry whose container it did not meet. The "
        "first round after a start removes all entries, because the kubelet knows no pod yet "
        "(kubernetes/kubernetes#81324). A round also removes the entry of a new container whose "
        "id is not known yet.", until="1.16")
    STALE_CONTAINERS_FORGOTTEN = Known(Area.MANAGER, "1.17", _pr(84300),
        "A reconcile round removes an entry whose id is not that of a container of an active pod, "
        "once it knows the ids of all these containers. Up to 1.13 an entry goes only when its "
        "container is removed.", until="1.17")
    FREED_WHEN_STALE = Known(Area.MANAGER, "1.18", _pr(90377),
        "The kubelet frees CPUs when no active pod needs them any more. Earlier releases freed "
        "them when the container stopped.")
    CREATED_WITH_CPUSET = Known(Area.MANAGER, "1.21",
        _code("1.21.4", "cm/internal_container_lifecycle_linux.go"),
        "The kubelet creates a container with its cpuset. Earlier releases updated the container "
        "before it started.")
    UPDATED_ON_CHANGE = Known(Area.MANAGER, "1.22", _issue(100906),
        "A reconcile round updates a container only if its CPUs differ from those that the "
        "kubelet sent last. Earlier releases updated every container in every round, which also "
        "repaired cpusets that others had changed.")
    LAST_ADMITTED_STAYS = Known(Area.MANAGER, "1.22", _pr(103979),
        "The pod admitted last counts as active until another pod is admitted. So its CPUs stay "
        "taken after it is gone or was refused.", until="1.31")
    SHARED_POOL_REPORTED = Known(Area.MANAGER, "1.20", _pr(97415),
        "The pod-resources socket reports the shared pool for each shared container. Later "
        "releases report no CPU for it.", until="1.22")
    POD_RESOURCES_LIMITED = Known(Area.MANAGER, "1.27",
        _code("1.27.10", "apis/podresources/grpc/ratelimit.go"),
        "The pod-resources socket takes ten calls at once and then 100 a second, and refuses "
        "further calls.")
    SIDECARS_REPORTED = Known(Area.MANAGER, "1.30",
        _code("1.30.0", "apis/podresources/server_v1.go"),
        "The pod-resources socket reports sidecars beside app containers.")
    ACTIVE_PODS_REPORTED = Known(Area.MANAGER, "1.34",
        _code("1.34.0", "apis/podresources/server_v1.go"),
        "The pod-resources socket lists active pods only. Earlier releases also list pods that "
        "were refused or have ended, as long as their manifest exists.")
    POD_RESOURCES_GET = Known(Area.MANAGER, "1.34",
        _code("1.34.0", "apis/podresources/server_v1.go"),
        "The pod-resources socket serves Get without a feature gate.")
    POD_POOLS_REPORTED = Known(Area.MANAGER, "1.37", _pr(138738),
        "The pod-resources socket reports the CPUs of a pod as a whole, and none for its "
        "containers that share them. 1.36 reports these CPUs as the containers' own.")
    ALLOCATABLE_IS_WHOLE = Known(Area.MANAGER, "1.26", _pr(112913),
        "GetAllocatableResources reports all CPUs except the reserved ones. Earlier releases "
        "reported those that were free when the kubelet started.", backports=("1.23.17", "1.24.14"))
    STATIC_PODS_ARE_CRITICAL = Known(Area.MANAGER, "1.16", _code("1.16.15", "types/pod_update.go"),
        "A static pod that requests more cpu than is left is refused with "
        "UnexpectedAdmissionError, because the kubelet finds no pods to evict for it. Earlier "
        "releases refused it with OutOfcpu.")
    REJECTED_PODS_HAVE_QOS = Known(Area.MANAGER, "1.32", _code("1.32.2", "kubelet.go"),
        "The status of a pod refused at admission names its QoS class.")
    RESERVED_CPUS_ARE_ONLINE = Known(Area.POLICY, "1.22",
        f"{_KUBERNETES}/blob/v1.22.17/cmd/kubelet/app/server.go",
        "Every CPU of a list of reserved CPUs must be online. Earlier releases required ids lower "
        "than the number of CPUs, and so refused existing CPUs of machines whose CPU ids have "
        "gaps.")
    ENDED_PODS_HAVE_QOS = Known(Area.MANAGER, "1.22", _code("1.22.17", "kubelet.go"),
        "A pod that is refused at a start of the kubelet gets a complete status with its QoS class "
        "if it has containers: those that still run are ended.")
    MISSING_DEVICES_OF_INIT_PASSED_OVER = Known(Area.MANAGER, "1.31", _pr(124273),
        "A pod is admitted whose init container requests a device that no plugin has registered. "
        "Earlier releases refuse it, and admit a pod whose app containers request one.")
    ENDED_PODS_LEFT_ALONE = Known(Area.MANAGER, "1.32", _pr(126343),
        "A kubelet that starts leaves a pod alone that the API server shows as failed or "
        "succeeded. Earlier releases admit it once more, so a refused pod may get another reason.",
        backports=("1.28.14", "1.29.9", "1.30.5", "1.31.1"))
    REFUSED_MAY_RUN_ON = Known(Area.MANAGER, "1.22", _code("1.22.17", "pod_workers.go"),
        "The containers of a pod that is refused at a start of the kubelet may keep running with "
        "their cpuset, although its CPUs are given back. No pod worker ends them if the sync loop "
        "hears of them before it knows the pod, or if another request for the pods comes in "
        "between.", until="1.26")
    REJECTION_TEXT_WAS_REJECTED = Known(Area.MANAGER, "1.26", _code("1.26.7", "kubelet.go"),
        "The message of a refused pod begins with `Pod was rejected: `. In earlier releases it "
        "began with `Pod `.")
    GIVES_UP_IN_MAIN = Known(Area.MANAGER, "1.8",
        f"{_KUBERNETES}/blob/v1.9.11/cmd/kubelet/kubelet.go",
        "A kubelet that gives up prints `error: ` and the reason, and exits with status 1. From "
        "1.10 on it ends with klog's fatal exit.", until="1.9")
    EXITS_WITH_ONE = Known(Area.MANAGER, "1.21",
        f"{_KUBERNETES}/blob/v1.22.17/cmd/kubelet/app/server.go",
        "A kubelet that gives up exits with status 1. Earlier releases exit with 255, the status "
        "of klog's fatal exit.")

    # -- settings ----------------------------------------------------------------------------

    CPU_MANAGER_ON = Known(Area.SETTINGS, "1.10",
        f"{_KUBERNETES}/blob/v1.10.13/pkg/features/kube_features.go",
        "Feature gate CPUManager is on by default. In earlier releases it is off by default; the "
        "model takes it to be on.")
    DISCOVERY_UNDER_NONE = Known(Area.SETTINGS, "1.32", _cpumanager("1.32.2", "cpu_manager"),
        "The kubelet discovers the machine's topology under policy none too, so a failed "
        "discovery stops it there as well.")
    CFS_PERIOD_GATED = Known(Area.SETTINGS, "1.20",
        _code("1.20.15", "apis/config/validation/validation.go"),
        "A kubelet whose cpuCFSQuotaPeriod is not 100 ms starts only with feature gate "
        "CustomCPUCFSQuotaPeriod, which is on by default from 1.36 on. In earlier releases the "
        "setting had no effect without the gate.")
    RESERVATION_FLAG_NAMED = Known(Area.SETTINGS, "1.27", _pr(114169),
        "The error about a cpu reservation that is not a quantity names the setting and the text. "
        "In earlier releases it names only the fault.")
    RESERVATION_TO_NEAREST_MILLI = Known(Area.SETTINGS, "1.37",
        _code("1.37.0", "cm/container_manager_linux.go"),
        "The kubelet rounds reserved cpu quantities to the nearest thousandth. Earlier releases "
        "rounded them up.")

    # fmt: on

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
