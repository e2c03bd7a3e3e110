"""The cgroup that a kubelet makes for each pod: its CFS quota and its weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, exclusive, guaranteed
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import API_SERVER, CONFIGURES, RESTARTED
from conformance.scenarios.entering import row
from conformance.scenarios.in_cluster import in_cluster, with_memory
from conformance.scenarios.outcomes import promise_pod_quota, promise_quota
from conformance.scenarios.pod_level_parts import ROOM, managed, pod_of, shared
from conformance.scenarios.resize import IN_PLACE, promise_granted
from reference import CPUSet
from reference.kubelet.cpu_quota import cpu_weight, shares_of
from reference.steps import Container, Kind, KubeletConfig, Pod, PodResources

_MADE: Final = sources.code(
    "1.36.4", "pkg/kubelet/cm/helpers_linux.go", "what the cgroup of a pod is made with"
)
_CGROUPS: Final = (Capability.CPUSETS, Capability.POD_CGROUP, Capability.CALLS)
_CPUSET: Final = sources.code(
    "1.36.4",
    "pkg/kubelet/cm/node_container_manager_linux.go",
    "under policy none the cgroup of all pods has all CPUs",
)
_of_cgroups: Final = partial(
    promised, area="quotas", source=_MADE, since="1.32", needs=Needs(free=2), capabilities=_CGROUPS
)


def _promise_weight(node: LockstepNode, pod: str, milli: int) -> None:
    """Promise the weight of a pod's cgroup, as of so many thousandths of a CPU."""
    cfs = node.view.pod_cfs.get(pod)
    expected, seen = cpu_weight(shares_of(milli)), cfs and cfs.weight
    node.promise_equal("It weighs what it requests", f"weight of pod {pod}", expected, seen)


def _sized(name: str, request: str, limit: str | None = None, kind: Kind = Kind.APP) -> Container:
    return Container(name, cpu_request=request, cpu_limit=limit, kind=kind)


@_of_cgroups()
def pod_has_all_its_limits(node: LockstepNode) -> None:
    """The cgroup of a pod has the CFS quota of all its limits, and the weight of all its requests.
    Of two containers together. A BestEffort pod has no quota, and the least weight."""
    node.boot_with(
        Pod("b", (_sized("one", "500m", "1"), _sized("two", "250m", "500m"))),
        best_effort("c"),
    )
    promise_pod_quota(node, "It has the quota of both", "b", 1500)
    _promise_weight(node, "b", 750)
    promise_pod_quota(node, "It has no quota", "c", None)
    _promise_weight(node, "c", 0)


@_of_cgroups()
def pod_with_an_unlimited_container_has_none(node: LockstepNode) -> None:
    """A pod of which one container has no cpu limit has no CFS quota either.
    Its other container has a limit. A quota would hold back what is meant to be unlimited."""
    node.boot_with(Pod("b", (_sized("one", "500m", "1"), _sized("two", "250m"))))
    promise_pod_quota(node, "It has no quota", "b", None)
    _promise_weight(node, "b", 750)


@_of_cgroups()
def largest_init_container_counts_for_its_pod(node: LockstepNode) -> None:
    """The cgroup of a pod has what its init container needs where that is more than its others.
    The init container asks for more than two app containers together, and has a larger limit.
    Sidecars count beside the app containers."""
    init, side = _sized("init", "1", "1500m", Kind.INIT), _sized("side", "1", "1500m", Kind.SIDECAR)
    apps = [_sized("one", "250m", "500m"), _sized("two", "250m", "500m")]
    node.boot_with(Pod("b", (init, *apps)))
    promise_pod_quota(node, "It has the quota of the init container", "b", 1500)
    _promise_weight(node, "b", 1000)
    node.apply(Pod("c", (side, *apps)))
    promise_pod_quota(node, "It has the quota of all", "c", 2500)
    _promise_weight(node, "c", 1500)


def _promise_beside_a_sidecar(node: LockstepNode, expected: int | None) -> None:
    side, init = _sized("side", "100m", "1", Kind.SIDECAR), _sized("init", "100m", None, Kind.INIT)
    node.boot_with(Pod("b", (side, init, _sized("c", "100m", "500m"))))
    promise_pod_quota(node, "It has the quota that it ought to have", "b", expected)


row(
    "quotas/sidecar-limits-later-init-containers",
    "Up to 1.36 a pod has a CFS quota though an init container after a sidecar has no cpu limit",
    "The limits of the sidecars before an init container are taken for its own. The quota is that "
    "of sidecar and app container.",
    lambda node: _promise_beside_a_sidecar(node, 1500),
    enter=_of_cgroups, until="1.36",
)  # fmt: skip
row(
    "quotas/unlimited-init-container-lifts-its-pods-quota",
    "From 1.37 on a pod has no CFS quota if an init container after a sidecar has no cpu limit",
    "The limit of each container is looked at by itself.",
    lambda node: _promise_beside_a_sidecar(node, None),
    enter=_of_cgroups, since="1.37",
)  # fmt: skip


@_of_cgroups(source=IN_PLACE, since="1.33", capabilities=(*_CGROUPS, *API_SERVER))
def pod_follows_its_containers(node: LockstepNode) -> None:
    """The cgroup of a pod follows when its container is resized, up and down.
    Its quota and its weight."""
    node.boot_with(burstable("b", request="500m", limit="1"), config=in_cluster(node))
    for request, limit in ((1000, 1500), (100, 200)):
        resized = burstable("b", request=f"{request}m", limit=f"{limit}m")
        promise_granted(node, node.resize(resized))
        promise_pod_quota(node, "It has the new quota", "b", limit)
        _promise_weight(node, "b", request)


@_of_cgroups(source=IN_PLACE, since="1.34", capabilities=(*_CGROUPS, *API_SERVER))
def resize_of_memory_brings_no_quota_back(node: LockstepNode) -> None:
    """A pod with exclusive CPUs whose memory is resized has no CFS quota afterwards, as before.
    Its container is started again for it, as its resize policy asks. It comes back on its CPUs, and
    neither it nor the cgroup of its pod is held back."""
    (one,) = guaranteed("a", 2).containers
    pod = Pod("a", (replace(one, resize_restarts=("memory",)),))
    node.boot_with(with_memory(pod, "64Mi"), config=in_cluster(node))
    cpus, first = node.taken("a"), node.asked("a").id
    promise_granted(node, node.resize(with_memory(pod, "128Mi")))
    node.promise_that(
        node.asked("a").id != first, "It is started again", "a/c", "another", "the same"
    )
    node.promise_cpuset("It comes back on its CPUs", "a", cpus)
    promise_quota(node, "It has no quota", "a/c", None)
    promise_pod_quota(node, "Its pod has no quota", "a", None)


@_of_cgroups(needs=Needs(free=3), capabilities=(*_CGROUPS, *RESTARTED, *CONFIGURES))
def pod_keeps_its_cgroup_over_a_restart(node: LockstepNode) -> None:
    """A restart of the kubelet leaves the cgroup of a running pod as it is, under policy none too.
    Neither quotas nor weights are written again, so those of before stay."""
    node.boot_with(burstable("b", request="500m", limit="1"), guaranteed("a", "300m"))
    node.stop()
    node.remove_state()
    node.configure(replace(node.config, policy="none"))
    node.start()
    for pod, request, limit in (("b", 500, 1000), ("a", 300, 300)):
        promise_pod_quota(node, "It has its quota", pod, limit)
        _promise_weight(node, pod, request)


@_of_cgroups(since="1.34", needs=Needs(free=3))
def burstable_pods_weigh_what_they_request(node: LockstepNode) -> None:
    """The cgroup that all Burstable pods are in weighs what they request together.
    Of its containers one pod, of the pod as a whole another. A Guaranteed pod does not count, nor
    does one that is gone once the next pod comes."""
    whole = Pod("whole", (shared("c"),), resources=PodResources("1", None))
    node.boot_with(burstable("b", request="500m"), whole, guaranteed("a", "250m"))
    _promise_tier(node, 1500)
    node.delete("b")
    node.apply(burstable("later", request="700m"))
    _promise_tier(node, 1700)


def _promise_tier(node: LockstepNode, milli: int) -> None:
    expected, seen = cpu_weight(shares_of(milli)), node.view.burstable_weight
    node.promise_equal("It weighs what they request", "weight of Burstable pods", expected, seen)


def _promise_weight_of_all(node: LockstepNode, config: KubeletConfig | None, milli: int) -> None:
    """Promise what the cgroup of all pods weighs where so many thousandths of a CPU are
    reserved."""
    node.boot_with(guaranteed("a", 1), config=config)
    left = 1000 * node.topology.num_cpus - milli
    expected, seen = cpu_weight(shares_of(left)), node.view.pods_weight
    node.promise_equal("It weighs what is not reserved", "weight of all pods", expected, seen)


_of_all: Final = partial(row, enter=_of_cgroups, source=sources.RESERVING)

_of_all(
    "quotas/pods-weigh-what-is-not-reserved",
    "The cgroup that all pods are in weighs the CPUs that are not reserved",
    "They are reserved by a list, which stands for an amount. Under load the rest of the system "
    "has its part of the processor time.",
    lambda node: _promise_weight_of_all(
        node, None, 1000 * len(node.default_config().reserved_system_cpus or ())
    ),
)
_of_all(
    "quotas/pods-weigh-what-both-amounts-leave",
    "The cgroup that all pods are in weighs what systemReserved and kubeReserved leave of the CPUs",
    "Both together, in thousandths of a CPU, though the reserved CPUs are whole ones.",
    lambda node: _promise_weight_of_all(
        node, KubeletConfig(system_reserved="500m", kube_reserved="700m"), 1200
    ),
    capabilities=(*_CGROUPS, Capability.CONFIGURE, Capability.RESERVATION), needs=Needs(free=3),
)  # fmt: skip


@_of_cgroups(source=_CPUSET, needs=Needs(), capabilities=(*_CGROUPS, Capability.CONFIGURE))
def pods_have_every_cpu_under_policy_none(node: LockstepNode) -> None:
    """Under policy none the cgroup that all pods are in has every CPU in its cpuset.
    Without it systemd would take the cpuset controller from the cgroup."""
    node.boot_with(best_effort("a"), config=KubeletConfig(policy="none"))
    node.promise_cpus("It has every CPU", "cpuset of all pods", node.cpus, node.view.pods_cpus)


@_of_cgroups(source=_CPUSET, needs=Needs(free=2))
def pods_have_no_cpuset_under_static(node: LockstepNode) -> None:
    """Under the static policy the cgroup that all pods are in keeps an empty cpuset.
    It has the CPUs of the cgroup above then, so shared containers run on reserved CPUs, too."""
    node.boot_with(guaranteed("a", 2), best_effort("shared"))
    node.promise_cpus("It is empty", "cpuset of all pods", CPUSet(), node.view.pods_cpus)


def _whole(*containers: Container, request: str | None, limit: str | None) -> Pod:
    return Pod("a", containers, resources=PodResources(request, limit))


def _promise_of_pod(node: LockstepNode, pod: Pod, request: int, limit: int | None) -> None:
    node.boot(node.default_config())
    node.apply(pod)
    promise_pod_quota(node, "It has the limit of the pod", "a", limit)
    _promise_weight(node, "a", request)


row(
    "quotas/pod-has-its-pod-level-limit",
    "With pod-level resources the cgroup of a pod has the quota and the weight of these",
    "Though its containers together ask for less, and one of them has no limit.",
    lambda node: _promise_of_pod(
        node, _whole(_sized("one", "250m", "500m"), shared("two"), request="1", limit="1500m"),
        1000, 1500,
    ),
    enter=_of_cgroups, since="1.34",
)  # fmt: skip
row(
    "quotas/pod-without-containers-requests-weighs-its-own",
    "A pod whose pod-level resources alone ask for CPU weighs what these ask for",
    "No container has a request or a limit. The pod has no limit either, and no quota.",
    lambda node: _promise_of_pod(
        node, _whole(shared("one"), shared("two"), request="1", limit=None), 1000, None
    ),
    enter=_of_cgroups, since="1.34",
)  # fmt: skip


def _promise_lifted(node: LockstepNode, containers: Sequence[Container], lifted: bool) -> None:
    node.boot(managed(node))
    node.run(pod_of("a", 3, *containers))
    promise_pod_quota(node, "It has the quota of its pod", "a", None if lifted else 3000)
    _promise_weight(node, "a", 3000)


row(
    "quotas/pod-of-exclusive-containers-has-none",
    "A pod with pod-level resources whose containers are all exclusive has no CFS quota",
    "Under scope pod, two containers that share its three CPUs among them.",
    lambda node: _promise_lifted(node, [exclusive("one", 1), exclusive("two", 2)], lifted=True),
    enter=partial(_of_cgroups, since="1.36", needs=ROOM),
)  # fmt: skip
row(
    "quotas/pod-with-a-shared-container-keeps-its-own",
    "A pod with pod-level resources of which one container shares CPUs keeps its CFS quota",
    "Under scope pod. The quota of the pod holds its exclusive container back as well.",
    lambda node: _promise_lifted(node, [exclusive("one", 2), shared("two")], lifted=False),
    enter=partial(_of_cgroups, since="1.36", needs=ROOM),
)  # fmt: skip
