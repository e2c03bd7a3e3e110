"""Why a container has CPUs of its own, or has none; and why a pod is refused.

What belongs here: the policy's own decision, put into words with the rule and its source. What
never does: the decision itself (``policy_static``, ``qos``), and which CPUs.

:func:`reason_for` asks :meth:`reference.cpumanager.policy_static.StaticPolicy.count` and says which
of its conditions does not hold. Sources: ``policy_static.go`` (``guaranteedCPUs``), 1.36;
docs/facts 5.2 and 5.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpuset import CPUSet
from reference.kubelet.configuration import as_known
from reference.kubelet.preemption import MESSAGE
from reference.machine.topology import CPUTopology
from reference.pods.pod import Container, Kind, Pod, PodResources
from reference.pods.pod_level_resources import as_decoded, has_pod_level_resources, pod_managers_on
from reference.pods.qos import BEST_EFFORT, GUARANTEED, as_judged, qos_class
from reference.pods.quantity import quantity
from reference.releases import NEWEST, AnyRelease, has
from reference.steps import KubeletConfig
from reference.view import PodView

_PAGE: Final = "https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/"
_STATIC: Final = f"{_PAGE}#static-policy"
_NONE: Final = f"{_PAGE}#none-policy"
_QOS: Final = "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/#guaranteed"
_TOPOLOGY: Final = (
    "https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/"
    "#topology-manager-policies"
)
_CODE: Final = "https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet"
_KEPS: Final = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node"


class Rule(Enum):
    """A rule that decides whether a container has CPUs of its own: its name, what it says, and the
    address of the page or source file that it is from."""

    WHOLE_CPUS = (
        "whole-cpus",
        "Under policy static a container of a Guaranteed pod whose cpu request is a whole number "
        "gets that many exclusive CPUs; every other container runs in the shared pool.",
        _STATIC,
    )
    GUARANTEED_POD = (
        "guaranteed-pod",
        "A pod is Guaranteed if each of its containers, init containers too, has a cpu limit and a "
        "memory limit, and every request equals its limit. Only Guaranteed pods get exclusive "
        "CPUs.",
        _QOS,
    )
    POLICY_NONE = (
        "policy-none",
        "Under policy none no container gets exclusive CPUs, and no cpuset is set.",
        _NONE,
    )
    POD_LEVEL = (
        "pod-level-resources",
        "From 1.34 on a pod with pod-level resources (spec.resources) gets no exclusive CPUs, "
        "unless feature gate PodLevelResourceManagers (1.36 and later) is on.",
        f"{_KEPS}/2837-pod-level-resource-spec",
    )
    POD_LEVEL_MANAGERS = (
        "pod-level-managers",
        "With feature gate PodLevelResourceManagers a container of a pod with pod-level resources "
        "gets exclusive CPUs if its own cpu and memory requests are set and equal its limits. "
        "Under Topology Manager scope pod the pod gets CPUs as a whole, and its other containers "
        "share what is left of them.",
        f"{_KEPS}/5526-pod-level-resource-managers",
    )
    INIT_CPUS = (
        "init-cpus",
        "The CPUs of an init container are offered to the containers of its pod that start after "
        "it. A sidecar (restartPolicy Always) keeps its CPUs from 1.29 on.",
        "https://github.com/kubernetes/kubernetes/pull/90419",
    )
    STATE_FILE = (
        "state-file",
        "A container keeps the CPUs that the state file says it has, whatever it asks for now.",
        f"{_CODE}/cm/cpumanager/policy_static.go",
    )
    FREE_CPUS = (
        "free-cpus",
        "Exclusive CPUs are taken out of the shared pool without the reserved CPUs. A pod is "
        "refused if one of its containers asks for more than are free there.",
        _STATIC,
    )
    WHOLE_CORES = (
        "full-pcpus-only",
        "With option full-pcpus-only a pod is refused unless each request is a whole number of "
        "physical cores, and as many cores without a reserved CPU are free.",
        f"{_KEPS}/2625-cpumanager-policies-thread-placement",
    )
    ALIGNMENT = (
        "topology-manager",
        "Topology Manager policy restricted refuses a pod whose CPUs, memory and devices cannot "
        "lie on as few NUMA nodes as would hold them; single-numa-node, unless one NUMA node does.",
        _TOPOLOGY,
    )
    MEMORY = (
        "memory-manager",
        "Under memory manager policy Static the memory of a Guaranteed pod is reserved in the NUMA "
        "nodes that the Topology Manager chooses, or else in as few as hold it. A pod is refused "
        "where they have too little left.",
        "https://kubernetes.io/docs/tasks/administer-cluster/memory-manager/",
    )
    DEVICES = (
        "devices",
        "A pod is refused where a container requests more devices of a resource than are free.",
        f"{_CODE}/cm/devicemanager/manager.go",
    )
    HUGE_PAGES = (
        "huge-pages",
        "A pod is refused if it requests more huge pages of a size than the other pods leave of "
        "the node's.",
        "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/",
    )
    NODE_CPUS = (
        "node-allocatable",
        "A pod is refused if its cpu request is above what is left of the node's CPUs without the "
        "reservation and the requests of the other pods.",
        f"{_CODE}/lifecycle/predicate.go",
    )
    CRITICAL_PODS = (
        "critical-pods",
        "Where requests leave no room for a critical pod, the kubelet ends pods of a lower "
        "priority: Guaranteed ones only where all others together are too small.",
        f"{_CODE}/preemption/preemption.go",
    )
    ENDLESS_SEARCH = (
        "endless-search",
        "With option distribute-cpus-across-numa a kubelet may search for ever where a NUMA node "
        "has CPUs left, but too few whole physical cores. It holds its lock meanwhile, and takes "
        "up no other pod until it is stopped.",
        "https://github.com/kubernetes/kubernetes/pull/140730",
    )

    ENDLESS_MERGE = (
        "endless-merge",
        "The Topology Manager tries every combination of hints of CPUs, memory and devices, and "
        "holds its lock meanwhile. With many NUMA nodes that takes minutes to hours.",
        "https://github.com/kubernetes/kubernetes/issues/131738",
    )

    def __init__(self, title: str, statement: str, url: str) -> None:
        self.title = title
        self.statement = statement
        self.url = url


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a container gets ``cpus`` exclusive CPUs; 0 of them: none. ``text`` is for a person, and
    has no container's name where it is about the container itself."""

    rule: Rule
    text: str
    cpus: int = 0


def reason_for(
    pod: Pod, container: Container, config: KubeletConfig, *, release: AnyRelease = NEWEST
) -> Reason:
    """Why a kubelet of ``release`` with this configuration gives a container of ``pod`` exclusive
    CPUs, or none; once the pod is admitted, and whatever the state file says.

    Raises :class:`reference.errors.NotModelled`, and :class:`reference.errors.QuantityError`.
    """
    config = as_known(config, release)
    if config.policy != "static":
        return Reason(Rule.POLICY_NONE, f"the CPU manager's policy is {config.policy}")
    decoded = as_decoded(pod, config.feature_gates, release=release)
    judged = as_judged(decoded, release=release)
    managers = pod_managers_on(config.feature_gates, release=release)
    policy = StaticPolicy(CPUTopology.of({}), CPUSet(), release=release, pod_managers=managers)
    count = policy.count(judged, container)
    if policy.serves_whole(judged) and _is_for_whole_pods(config):
        return _out_of_the_pods(policy, judged, container, count)
    if count:
        text = f"the pod is Guaranteed and asks for {container.requested_cpu or 0} CPUs here"
        return Reason(Rule.WHOLE_CPUS, text, count)
    return _why_none(judged, container, managers, release)


def _is_for_whole_pods(config: KubeletConfig) -> bool:
    return config.topology_manager_policy != "none" and config.topology_manager_scope == "pod"


def _out_of_the_pods(policy: StaticPolicy, pod: Pod, container: Container, count: int) -> Reason:
    """The reason where the pod gets CPUs as a whole."""
    rule, total = Rule.POD_LEVEL_MANAGERS, policy.total(pod, policy.counts(pod))
    if not total:
        return Reason(rule, _why_no_pool(pod))
    if count:
        return Reason(rule, f"{count} of the {total} CPUs of the pod", count)
    return Reason(rule, f"shares what is left of the {total} CPUs of the pod")


def _why_no_pool(pod: Pod) -> str:
    if qos_class(pod) != GUARANTEED:
        return _not_guaranteed(pod, None)
    text = pod.resources.cpu_request if pod.resources else None
    return f"the pod-level cpu request {text} is not a whole number"


def _why_none(pod: Pod, container: Container, managers: bool, release: AnyRelease) -> Reason:
    if has_pod_level_resources(pod) and has(release, Behaviour.POD_LEVEL_RESOURCES_SKIPPED):
        if not managers:
            return Reason(Rule.POD_LEVEL, _gate_text(release))
        fault = next(_unlike(container), "")
        if fault:
            return Reason(Rule.POD_LEVEL_MANAGERS, f"it has {fault}")
    if qos_class(pod) != GUARANTEED:
        return Reason(Rule.GUARANTEED_POD, _not_guaranteed(pod, container))
    text = container.requested_cpu or "0"
    if quantity(text) == 0:
        return Reason(Rule.WHOLE_CPUS, "it asks for no CPU")
    return Reason(Rule.WHOLE_CPUS, f"{text} CPUs is not a whole number")


def _gate_text(release: AnyRelease) -> str:
    if not has(release, Behaviour.POD_LEVEL_MANAGERS):
        return f"the pod has pod-level resources, and {release} pins no such pod"
    return "the pod has pod-level resources, and feature gate PodLevelResourceManagers is off"


# -- why a pod is not Guaranteed ---------------------------------------------------------------


def _not_guaranteed(pod: Pod, container: Container | None) -> str:
    """What keeps the pod from being Guaranteed, first in the container itself."""
    said = f"the pod is {qos_class(pod)}"
    if pod.resources is not None:
        fault = next(_unlike(pod.resources), "requests unlike its limits")
        return f"{said}: as a whole it has {fault}"
    if qos_class(pod) == BEST_EFFORT:
        return f"{said}: no container has a request or a limit"
    others = [one for one in pod.containers if container is None or one.name != container.name]
    own = [] if container is None else [one for one in pod.containers if one not in others]
    for one in (*own, *others):
        fault = next(_unlike(one), "")
        if fault:
            return f"{said}: {_name(one)} has {fault}"
    return f"{said}: its requests are not its limits"


def _name(container: Container) -> str:
    kind = {Kind.INIT: "init container", Kind.SIDECAR: "sidecar", Kind.APP: "container"}
    return f"{kind[container.kind]} {container.name}"


def _unlike(owner: Container | PodResources) -> Iterator[str]:
    """Every way in which requests are not limits. A limit without a request is also the request of
    a container, but not of a pod as a whole."""
    for what, request, limit in (
        ("cpu", owner.cpu_request, owner.cpu_limit),
        ("memory", owner.memory_request, owner.memory_limit),
    ):
        if limit is None or quantity(limit) == 0:
            yield f"no {what} limit"
        elif request is None:
            if isinstance(owner, PodResources):
                yield f"{what} limit {limit} and no request"
        elif quantity(request) != quantity(limit):
            yield f"{what} limit {limit} and request {request}"


# -- why a pod is refused ----------------------------------------------------------------------

_UNALIGNED: Final = Reason(
    Rule.ALIGNMENT, "what it requests cannot lie on the NUMA nodes that it must lie on"
)
_NODE_CPUS: Final = Reason(Rule.NODE_CPUS, "the pod asks for more cpu than the node has left")
_DEVICES: Final = Reason(Rule.DEVICES, "it asks for more devices than are free")
_HUGE_PAGES: Final = Reason(Rule.HUGE_PAGES, "it requests more huge pages than the node has left")
#: By a part of the message, the first that fits, and the reason.
_REFUSALS: Final = (
    (
        "not multiple cpus per core",
        Reason(Rule.WHOLE_CORES, "a request is not a whole number of physical cores"),
    ),
    ("SMT Alignment Error", Reason(Rule.WHOLE_CORES, "too few whole physical cores are free")),
    ("pod-level resources failed admission", _UNALIGNED),
    ("cannot be allocated with Topology", _UNALIGNED),
    (
        "pod rejected, ",
        Reason(Rule.POD_LEVEL_MANAGERS, "the pod leaves its shared containers no CPU"),
    ),
    (
        "failed to allocate cpus",
        Reason(Rule.FREE_CPUS, "the free CPUs cannot be handed out in this number"),
    ),
    (MESSAGE, Reason(Rule.CRITICAL_PODS, "it was ended to make room for a critical pod")),
    ("[memorymanager]", Reason(Rule.MEMORY, "its memory cannot be reserved in NUMA nodes")),
    ("devices unavailable for", _DEVICES),
    ("Allocate failed", Reason(Rule.FREE_CPUS, "a container asks for more CPUs than are free")),
    ("enough resource: cpu", _NODE_CPUS),
    ("reclaim resources: [(res: cpu", _NODE_CPUS),
    ("reclaim resources: [(res: hugepages-", _HUGE_PAGES),
    ("enough resource: hugepages-", _HUGE_PAGES),
    ("reclaim resources: ", _DEVICES),
    ("enough resource: ", _DEVICES),
)


def reason_of_refusal(status: PodView) -> Reason:
    """Why a pod was rejected, by its message (:mod:`reference.kubelet.admission`)."""
    message = status.message
    return next((reason for part, reason in _REFUSALS if part in message), _NODE_CPUS)
