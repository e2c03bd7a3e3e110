"""Resizes that are granted: quota and weight of containers that share, and what containers start
with afterwards; resizes that wait for other pods; and those that are refused for other reasons than
the CPUs of app containers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import burstable, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Needs, Source, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import API_SERVER, CALLS, ENDS, KILLS, MEMORY, QUOTAS, RESIZES
from conformance.scenarios.hint_parts import TWO_NODES, far_node
from conformance.scenarios.in_cluster import in_cluster, with_memory
from conformance.scenarios.memory import MIB_OF_A_NODE, boot_with_free, with_memory_of
from conformance.scenarios.outcomes import configured_quota, promise_quota, promise_running
from conformance.scenarios.pod_level_parts import pod_of, promise_no_exclusive_cpus, shared
from conformance.scenarios.resize import (
    DEFERRED,
    IN_PLACE,
    INFEASIBLE,
    REFUSED,
    promise_granted,
    promise_pending,
    promise_unmoved,
)
from reference import CPUSet
from reference.steps import Container, Kind, Pod, RestartPolicy

RETRIED: Final = Source(
    "Resize CPU and Memory Resources assigned to Containers: how kubelet retries them",
    "https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/"
    "#how-kubelet-retries-deferred-resizes",
)
ENDSRETRIED: Final = sources.pull(136231, "a deferred resize is tried again when a pod ends")
UNLIMITED: Final = sources.pull(126388, "the request of a container without a limit is resized")
_BY_POLICY: Final = sources.code(
    "1.36.4", "pkg/kubelet/allocation/handlers.go", "which resizes a policy refuses"
)
_WHOLE: Final = sources.kep(
    "5419-pod-level-resources-in-place-resize", "Pod Level Resources in place resize"
)
_resize: Final = partial(promised, area="resize")
#: The kernel has no more.
_MOST_SHARES: Final = 1 << 18
_granted: Final = partial(_resize, source=IN_PLACE)
_waiting: Final = partial(_resize, source=RETRIED, since="1.36")


@_granted(since="1.33", needs=Needs(free=3), capabilities=(*RESIZES, *QUOTAS))
def limit_becomes_quota(node: LockstepNode) -> None:
    """A Burstable pod that is resized gets the quota of its new limit, in place.
    Its request goes down and its limit up, and both back again. Quota and weight of the running
    container follow each time, and stay over a restart of the kubelet."""
    node.boot_with(burstable("b", request="1", limit="2"), config=in_cluster(node))
    promise_granted(node, node.resize(burstable("b", request="500m", limit="3")))
    _promise_size(node, "b", 500, 3000)
    node.restart()
    _promise_size(node, "b", 500, 3000)
    promise_granted(node, node.resize(burstable("b", request="1", limit="2")))
    _promise_size(node, "b", 1000, 2000)


@_granted(since="1.33", needs=Needs(free=2), capabilities=API_SERVER)
def memory_request_alone_is_resized(node: LockstepNode) -> None:
    """A resize that changes nothing but a memory request is carried out.
    The limit stays, so the runtime has little to do."""
    pod = burstable("b", request="500m")
    node.boot_with(pod, config=in_cluster(node))
    one = replace(pod.containers[0], memory_request="96Mi")
    promise_granted(node, node.resize(replace(pod, containers=(one,))))


@_granted(since="1.32", needs=Needs(free=3), capabilities=(*API_SERVER, *QUOTAS, *CALLS))
def containers_shrink_before_others_grow(node: LockstepNode) -> None:
    """At a resize the kubelet shrinks a pod's containers before it grows others.
    One container gets what the other gives up, the first from the second and the other way round.
    The pod keeps its size, and at no moment do the two together have more than that."""

    def pod(first: int, second: int) -> Pod:
        sizes = {"first": first, "second": second}
        return Pod("b", tuple(Container(n, "250m", f"{milli}m") for n, milli in sizes.items()))

    node.boot_with(pod(500, 1500), config=in_cluster(node))
    both = configured_quota(node, 2000)
    for first, second in ((1500, 500), (500, 1500)):
        promise_granted(node, node.resize(pod(first, second)))
        _promise_size(node, "b", 250, first, "first")
        _promise_size(node, "b", 250, second, "second")
        what, peak = "most that the CFS quotas of b came to", node.view.peak_quotas.get("b")
        node.promise_equal("They never have more than their pod", what, both, peak or None)


@_granted(since="1.33", needs=Needs(free=5), capabilities=(*API_SERVER, *QUOTAS, *CALLS))
def resize_policy_starts_a_container_again(node: LockstepNode) -> None:
    """A container whose resize policy says so is started again with its new size, and no other.
    Both containers of a Burstable pod grow, and the first alone has policy RestartContainer for its
    cpu. Meanwhile another pod has taken CPUs, so the first starts on the shared pool that is left.
    The second one runs on."""
    small = _with_policy("500m", "1")
    node.boot_with(small, config=in_cluster(node))
    node.apply(guaranteed("a", 2))
    before = {name: node.asked("b", name).id for name in ("again", "on")}
    promise_granted(node, node.resize(_with_policy("1", "2")))
    ids = {name: node.asked("b", name).id for name in before}
    for name, rule in (("again", "It is started again"), ("on", "The other one runs on")):
        restarted = "another" if before[name] != ids[name] else "the same"
        expected = "another" if name == "again" else "the same"
        node.promise_equal(rule, f"container b/{name} by its id", expected, restarted)
        _promise_size(node, "b", 1000, 2000, name)
    started = node.asked("b", "again").started_on or CPUSet()
    node.promise_cpus("It starts on the pool", "b/again", node.view.shared_pool, started)


def _with_policy(request: str, limit: str) -> Pod:
    first, second = (Container(name, request, limit, "64Mi", "64Mi") for name in ("again", "on"))
    return Pod("b", (replace(first, resize_restarts=("cpu",)), second))


@_granted(source=UNLIMITED, since="1.33", needs=Needs(free=2), capabilities=(*API_SERVER, *QUOTAS))
def request_without_a_limit_is_resized(node: LockstepNode) -> None:
    """A container without a cpu limit is resized as well: its weight follows its request.
    Up and down. It has no CFS quota before and after."""
    node.boot_with(burstable("b", request="500m"), config=in_cluster(node))
    for request, milli in (("1500m", 1500), ("250m", 250)):
        promise_granted(node, node.resize(burstable("b", request=request)))
        promise_weight(node, "b", milli)
        promise_quota(node, "It has no quota", "b/c", None)


@_granted(since="1.33", needs=Needs(free=3), capabilities=(*API_SERVER, *QUOTAS))
def policy_none_resizes_guaranteed_pods(node: LockstepNode) -> None:
    """Under CPU manager policy none a Guaranteed pod is resized in place.
    Its first container asks for a CPU less, its second for one more. Quotas and weights follow, and
    neither has a CPU of its own."""
    node.boot(replace(in_cluster(node), policy="none"))
    node.apply(guaranteed("a", 2, "500m"))
    promise_granted(node, node.resize(guaranteed("a", 1, "1500m")))
    _promise_size(node, "a", 1000, 1000, "c1")
    _promise_size(node, "a", 1500, 1500, "c2")
    promise_no_exclusive_cpus(node, "a")


@_granted(source=REFUSED, since="1.34", needs=Needs(free=3), capabilities=(*API_SERVER, *KILLS))
def restarted_with_its_old_size(node: LockstepNode) -> None:
    """A container that ends while its resize is infeasible is started with the size that it had.
    It comes back on its exclusive CPUs, with the weight of what was allocated to it."""
    node.boot_with(guaranteed("a", 2), config=in_cluster(node))
    cpus = node.taken("a")
    promise_pending(node, node.resize(guaranteed("a", 3)), INFEASIBLE)
    node.kill_container("a")
    node.promise_cpuset("It comes back on its CPUs", "a", cpus)
    node.promise_equal("It has its old weight", "CPU shares of a/c", 2048, node.shares("a"))


@_granted(since="1.33", needs=Needs(free=3), capabilities=(*API_SERVER, *KILLS))
def restarted_with_its_new_size(node: LockstepNode) -> None:
    """A container that ends after its resize was granted is started with its new size.
    Its quota and its weight are those of the new limit and request."""
    node.boot_with(burstable("b", request="500m", limit="1"), config=in_cluster(node))
    promise_granted(node, node.resize(burstable("b", request="1", limit="2")))
    node.kill_container("b")
    _promise_size(node, "b", 1000, 2000)


@_waiting(needs=Needs(free=4, counted_once=True), capabilities=API_SERVER)
def smaller_pod_makes_room(node: LockstepNode) -> None:
    """A resize that waits is granted when another pod is resized to less.
    One pod has nearly all CPUs that the node gives to pods, another asks for one CPU more than is
    left: deferred. Once the first one has asked for less, the second has its size."""
    node.boot(in_cluster(node))
    every = len(node.free)
    limit = str(every)
    node.apply(burstable("large", request=str(every - 1), limit=limit))
    node.apply(burstable("b", request="500m", limit=limit))
    promise_pending(node, node.resize(burstable("b", request="1500m", limit=limit)), DEFERRED)
    promise_granted(node, node.resize(burstable("large", request="1", limit=limit)))
    promise_granted(node, node.view.pods["b"])
    promise_weight(node, "b", 1500)


@_waiting(
    source=ENDSRETRIED, needs=Needs(free=4, counted_once=True), capabilities=(*API_SERVER, *ENDS)
)
def ended_pod_makes_room(node: LockstepNode) -> None:
    """A resize that waits is granted when another pod has ended, which is not deleted.
    The other pod runs once, and had nearly all CPUs that the node gives to pods. Otherwise the
    kubelet would try again three minutes later."""
    node.boot(in_cluster(node))
    every = len(node.free)
    limit = str(every)
    large = burstable("large", request=str(every - 1), limit=limit)
    node.apply(replace(large, restart_policy=RestartPolicy.NEVER))
    node.apply(burstable("b", request="500m", limit=limit))
    promise_pending(node, node.resize(burstable("b", request="1500m", limit=limit)), DEFERRED)
    node.kill_container("large", exit_code=0)
    promise_granted(node, node.view.pods["b"])
    promise_weight(node, "b", 1500)


@_waiting(needs=Needs(free=5, counted_once=True), capabilities=API_SERVER)
def longest_waiting_comes_first(node: LockstepNode) -> None:
    """Of three resizes that wait, the one that waits longest is granted first.
    Each asks for more than half of what comes back when a fourth pod is deleted. The others wait
    on, and one is granted at once when it asks for less than it has."""
    node.boot(in_cluster(node))
    every = len(node.free)
    limit, most = str(every), str(every - 1)
    node.apply(burstable("large", request=most, limit=limit))
    for pod in ("b", "c", "d"):
        node.apply(burstable(pod, request="300m", limit=limit))
    for pod in ("b", "c", "d"):
        promise_pending(node, node.resize(burstable(pod, request=most, limit=limit)), DEFERRED)
    node.delete("large")
    promise_granted(node, node.view.pods["b"])
    promise_weight(node, "b", 1000 * (every - 1))
    for pod in ("c", "d"):
        promise_pending(node, node.view.pods[pod], DEFERRED)
    promise_granted(node, node.resize(burstable("c", request="250m", limit=limit)))
    promise_weight(node, "c", 250)


# -- refused for more than the CPUs of app containers ----------------------------------------------


@_resize(
    source=_BY_POLICY,
    since="1.34",
    needs=TWO_NODES,
    capabilities=(*API_SERVER, *MEMORY),
)
def memory_of_a_numa_node_infeasible(node: LockstepNode) -> None:
    """The static memory manager refuses to resize the memory of a Guaranteed pod.
    The pod has 64 MiB of a NUMA node that has room for more. It keeps its memory and its CPUs. A
    Burstable pod gets more memory."""
    boot_with_free(node, "none", {far_node(node): MIB_OF_A_NODE - 1}, api_server=True)
    node.apply(with_memory_of("a", 64))
    node.apply(burstable("b"))
    cpus, pool = node.taken("a"), node.view.shared_pool
    status = node.resize(with_memory_of("a", 65))
    promise_pending(node, status, INFEASIBLE)
    named = 'Memory Manager policy "Static"' in status.resize
    node.promise_that(
        named, "It says why", "message", 'Memory Manager policy "Static"', status.resize
    )
    promise_unmoved(node, "a", cpus, pool)
    promise_granted(node, node.resize(with_memory(burstable("b"), "65Mi")))


@_resize(source=REFUSED, since="1.36", needs=Needs(free=3), capabilities=API_SERVER)
def init_container_infeasible_too(node: LockstepNode) -> None:
    """The kubelet refuses to give an init container of a Guaranteed pod another number of CPUs.
    It has ended, and its size may be changed from 1.36 on. CPUs, state file and pool stay."""

    def pod(cpus: int) -> Pod:
        return guaranteed_of("a", [exclusive("init", cpus, kind=Kind.INIT), exclusive("c", 1)])

    node.boot_with(pod(1), config=in_cluster(node))
    cpus, pool, text = node.taken("a"), node.view.shared_pool, node.view.state_file
    promise_pending(node, node.resize(pod(2)), INFEASIBLE)
    promise_unmoved(node, "a", cpus, pool)
    node.promise_equal("The state file stays", "state file", text, node.view.state_file)


def _as_a_whole(cpus: int) -> Pod:
    """A pod of so many CPUs as a whole; container ``one`` asks for none itself."""
    return pod_of("a", cpus, shared("one"), Container("two", "100m", "500m"))


@_resize(source=_WHOLE, since="1.36", needs=Needs(free=4), capabilities=(*API_SERVER, *KILLS))
def resized_pod_starves_a_container(node: LockstepNode) -> None:
    """A container without a cpu request loses its weight when its pod is resized as a whole.
    A known defect: it starts with the weight of its pod's limit, which counts as its request.
    At a resize the kubelet sends a request of zero for it, so that it has the least weight there
    is, beside a container of 100m, until it is started again."""
    node.boot_with(_as_a_whole(2), config=in_cluster(node))
    promise_weight(node, "a", 2000, "one")
    promise_granted(node, node.resize(_as_a_whole(3)))
    node.promise_equal("It has the least weight", "CPU shares of a/one", 2, node.shares("a", "one"))
    promise_weight(node, "a", 100, "two")
    node.kill_container("a", "one")
    promise_weight(node, "a", 3000, "one")


@_resize(source=_WHOLE, since="1.36", needs=Needs(free=4), capabilities=(*API_SERVER, *QUOTAS))
def limit_of_the_pod_becomes_quota(node: LockstepNode) -> None:
    """A pod with pod-level resources is resized as a whole, though it is Guaranteed.
    A container without a limit gets the quota of the pod's new one, another keeps its own. None of
    them has exclusive CPUs."""
    node.boot_with(_as_a_whole(2), config=in_cluster(node))
    for cpus in (3, 1):
        promise_granted(node, node.resize(_as_a_whole(cpus)))
        rule = "Without a limit it has the quota of its pod's"
        promise_quota(node, rule, "a/one", cpus * 1000)
        promise_quota(node, "With a limit it has the quota of its own", "a/two", 500)
        promise_no_exclusive_cpus(node, "a")


def _promise_size(
    node: LockstepNode, pod: str, request: int, limit: int, container: str = "c"
) -> None:
    """That a running container has the weight of so many thousandths of a CPU and their quota."""
    promise_running(node, pod)
    promise_weight(node, pod, request, container)
    promise_quota(node, "The quota is the limit's", f"{pod}/{container}", limit)


def promise_weight(node: LockstepNode, pod: str, request: int, container: str = "c") -> None:
    """That a running container has the weight of so many thousandths of a CPU."""
    what = f"CPU shares of {pod}/{container}"
    weight, seen = min(request * 1024 // 1000, _MOST_SHARES), node.shares(pod, container)
    node.promise_equal("The weight is the request's", what, weight, seen)
