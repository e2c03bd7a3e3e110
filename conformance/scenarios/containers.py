"""Containers that end while their kubelet runs: whose CPUs stay, and whose return."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.checks import pod_difference
from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, Needs, Source, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import (
    API_SERVER,
    CALLS,
    ENDS,
    KILLS,
    QUOTAS,
    REJECTIONS,
    RESTARTED,
)
from conformance.scenarios.outcomes import promise_quota
from reference import CPUSet
from reference.steps import PRODUCTION_PERIOD, FailUpdates, Kind, Pod, RestartPolicy
from reference.view import Phase, PodView

_containers: Final = partial(promised, area="containers")
_core: Final = partial(_containers, level=Level.CORE)

ENDED = sources.pull(52363, "a pod that has ended gives its CPUs back")
SHORT_PODS = sources.issue(79159, "pods of a Job fail although CPUs are free")
LIMITS = sources.documentation(
    "Resource Management for Pods and Containers: a cpu limit is a quota",
    "concepts/configuration/manage-resources-containers/#how-pods-with-resource-limits-are-run",
)
QUOTA_GATE = sources.pull(127525, "feature gate DisableCPUQuotaWithExclusiveCPUs")
CREATE_FLOW = sources.code(
    "1.21.4",
    "pkg/kubelet/cm/internal_container_lifecycle_linux.go",
    "a container is created with its cpuset",
)
REFUSED_UPDATE = sources.issue(66614, "the update of a shared container fails with EBUSY")
RESTART_ALL = Source(
    "Feature gate RestartAllContainersOnContainerExits: restart rules for all containers of a pod",
    sources.address("1.36.4", "pkg/features/kube_features.go"),
)
LEFT_ALONE = sources.pull(126343, "a kubelet that starts does not admit pods that have ended")
OWN_RESTARTS = Source(
    "KEP-5307: container restart rules to customize the pod restart policy",
    "https://github.com/kubernetes/enhancements/issues/5307",
)


def _never(pod: Pod) -> Pod:
    return replace(pod, restart_policy=RestartPolicy.NEVER)


def _promise_held(node: LockstepNode, pod: str, container: str, held: CPUSet) -> None:
    node.promise_taken("It keeps its exclusive CPUs", pod, held, container)
    node.promise_cpuset("It runs on them again", pod, held, container)


def _promise_runs(node: LockstepNode, pod: str, seen: PodView) -> None:
    expected = replace(seen, phase=Phase.RUNNING, reason="", message="")
    node.promise(expected == seen, "The next pod runs", pod_difference(pod, expected, seen))


def _promise_returned(node: LockstepNode, pod: str, whole: CPUSet) -> None:
    node.pass_admission()
    phase = node.view.pods[pod].phase
    node.promise_equal("The pod has ended", f"phase of pod {pod}", Phase.ENDED, phase)
    node.promise_pool("Its CPUs are shared again", whole)


@_core(sources.RESTARTS, needs=Needs(free=3), capabilities=KILLS)
def killed_shared_container_gets_the_pool(node: LockstepNode) -> None:
    """A shared container that is killed comes back on the shared pool as it is by then.
    It was created with more CPUs than the pool has now, and the kubelet creates it anew."""
    node.boot_with(best_effort("shared"), guaranteed("a", 2))
    pool = node.view.shared_pool
    node.kill_container("shared")
    node.promise_cpuset("It runs on the pool", "shared", pool)
    node.promise_pool("The pool is the same", pool)


@_containers(sources.SIDECARS, since="1.29", needs=Needs(free=3), capabilities=KILLS)
def killed_sidecar_keeps_its_cpus(node: LockstepNode) -> None:
    """A sidecar that is killed comes back on its exclusive CPUs, and its pod's others keep theirs.
    Its app container goes on running meanwhile."""
    sidecar = exclusive("sidecar", 1, kind=Kind.SIDECAR)
    node.boot_with(guaranteed_of("a", [sidecar, exclusive("c", 1)]))
    held, other = node.taken("a", "sidecar"), node.taken("a")
    node.kill_container("a", "sidecar")
    _promise_held(node, "a", "sidecar", held)
    node.promise_taken("The app container stays", "a", other)


@_containers(sources.RESTARTS, needs=Needs(free=3), capabilities=ENDS)
def failed_container_comes_back_on_its_cpus(node: LockstepNode) -> None:
    """A container that fails comes back on its exclusive CPUs; when it succeeds they are shared.
    Restart policy OnFailure: exit code 1 starts the container again, exit code 0 ends the
    pod."""
    node.boot_with(best_effort("shared"))
    whole = node.view.shared_pool
    node.apply(replace(guaranteed("a", 2), restart_policy=RestartPolicy.ON_FAILURE))
    held = node.taken("a")
    node.kill_container("a", exit_code=1)
    _promise_held(node, "a", "c", held)
    node.kill_container("a", exit_code=0)
    _promise_returned(node, "a", whole)
    node.promise_cpuset("Who shares gets them", "shared", whole)


@_containers(sources.STALE_STATE, needs=Needs(free=4), capabilities=ENDS)
def pod_keeps_its_cpus_until_it_ends(node: LockstepNode) -> None:
    """A container that has ended for good keeps its CPUs until the last one of its pod has ended.
    The kubelet frees what no active pod names, and a pod is active while one of its containers
    may run. So CPUs of a container that has ended stay idle until then."""
    whole = node.boot().shared_pool
    node.apply(_never(guaranteed("a", 2, 1)))
    held = node.taken("a", "c1")
    node.kill_container("a", "c1", exit_code=0)
    node.promise_taken("The entry stays", "a", held, "c1")
    phase = node.view.pods["a"].phase
    node.promise_equal("The pod runs on", "phase of pod a", Phase.RUNNING, phase)
    node.kill_container("a", "c2", exit_code=0)
    _promise_returned(node, "a", whole)


@_containers(
    LEFT_ALONE, since="1.32", needs=Needs(free=2),
    capabilities=(*API_SERVER, *ENDS, Capability.RESTART),
)  # fmt: skip
def ended_pod_is_left_alone(node: LockstepNode) -> None:
    """A kubelet that starts leaves a pod alone that has ended, though another has its CPUs by now.
    The first pod has done its work, and is not deleted. The second one takes all that can be
    exclusive. Admitted again, the first would fail."""
    node.boot(replace(node.default_config(), api_server=True))
    node.apply(_never(guaranteed("a", 2)))
    node.kill_container("a", exit_code=0)
    node.apply(guaranteed("b", len(node.free)))
    held, pool = node.taken("b"), node.view.shared_pool
    for _ in range(2):
        node.restart()
        phase = node.view.pods["a"].phase
        node.promise_equal("It has ended as before", "phase of pod a", Phase.ENDED, phase)
        node.promise_taken("The other keeps its CPUs", "b", held)
        node.promise_pool("The shared pool stays", pool)


@_containers(OWN_RESTARTS, since="1.35", needs=Needs(free=4), capabilities=ENDS)
def own_restart_policy_decides(node: LockstepNode) -> None:
    """Containers come back on their CPUs, or end for good, by their own restart policies.
    The pod's restart policy is Always. One container never starts again, the other only after a
    failure: with the second the pod has ended."""
    whole = node.boot().shared_pool
    once = replace(exclusive("once", 1), restart_policy=RestartPolicy.NEVER)
    again = replace(exclusive("again", 2), restart_policy=RestartPolicy.ON_FAILURE)
    node.apply(guaranteed_of("a", [once, again]))
    held = {name: node.taken("a", name) for name in ("once", "again")}
    node.kill_container("a", "once", exit_code=1)
    node.kill_container("a", "again", exit_code=1)
    _promise_held(node, "a", "again", held["again"])
    node.promise_taken("The entry stays", "a", held["once"], "once")
    node.kill_container("a", "again", exit_code=0)
    _promise_returned(node, "a", whole)


@_core(ENDED, needs=Needs(free=2), capabilities=(*ENDS, *REJECTIONS))
def ended_pod_returns_its_cpus(node: LockstepNode) -> None:
    """CPUs of a pod that has ended for good are free for the next pod.
    Restart policy Never, and exit code 0. The manifest is still there. The next pod requests all
    CPUs that the first one had, and the first one had all that were free."""
    node.boot()
    free = node.free
    node.apply(_never(guaranteed("done", len(free))))
    node.kill_container("done", exit_code=0)
    node.await_reconcile()
    _promise_runs(node, "next", node.apply(guaranteed("next", len(free))))
    node.promise_taken("It has all the CPUs", "next", free)


@_containers(ENDED, needs=Needs(free=2), capabilities=ENDS)
def failed_pod_returns_its_cpus(node: LockstepNode) -> None:
    """CPUs of a pod that was killed for good return to the shared pool.
    Restart policy Never, and SIGKILL, which is exit code 137: the pod's phase is Failed, without
    a reason."""
    whole = node.boot().shared_pool
    node.apply(_never(guaranteed("a", 2)))
    node.kill_container("a")
    _promise_returned(node, "a", whole)


@_containers(SHORT_PODS, needs=Needs(free=3), capabilities=(*ENDS, *REJECTIONS))
def short_pods_follow_one_another(node: LockstepNode) -> None:
    """Short pods that need all free CPUs are admitted one after the other, and none is rejected.
    As the pods of a Job do. Two pods fill the machine; each that ends makes room for the
    next."""
    node.boot()
    total = len(node.free)
    sizes = (total // 2, total - total // 2)
    for round_ in range(1, 3):
        for number, size in enumerate(sizes):
            if round_ > 1:
                node.kill_container(f"job{round_ - 1}-{number}", exit_code=0)
                node.await_reconcile()
            name = f"job{round_}-{number}"
            _promise_runs(node, name, node.apply(_never(guaranteed(name, size))))
            rule, taken = "It has as many CPUs as it requests", len(node.taken(name))
            node.promise_equal(rule, f"CPUs of {name}/c", size, taken)


@_containers(LIMITS, needs=Needs(free=2), capabilities=QUOTAS)
def limits_become_quotas(node: LockstepNode) -> None:
    """A container without exclusive CPUs has the CFS quota of its limit, also beside one that has.
    A fraction in a Guaranteed pod, a limit above the request, and no limit at all."""
    node.boot()
    node.apply(guaranteed("mixed", 1, "1500m"))
    node.apply(burstable("b", request="100m", limit="500m"))
    node.apply(best_effort("shared"))
    for owner, milli in (("mixed/c2", 1500), ("b/c", 500), ("shared/c", None)):
        promise_quota(node, "The quota is the limit", owner, milli)


@_containers(LIMITS, needs=Needs(free=3), capabilities=QUOTAS)
def shares_outlive_pool_changes(node: LockstepNode) -> None:
    """A container keeps its CFS quota and shares when its cpuset changes.
    An update of the cpuset says nothing of quota and shares, so they stay what the container
    was created with."""
    node.boot_with(burstable("b", request="100m", limit="500m"))
    before, cpus = node.view.cfs["b"]["c"], node.cpuset("b")
    node.apply(guaranteed("a", 2))
    node.promise_cpuset("Its cpuset follows", "b", cpus - node.taken("a"))
    node.promise_equal("Quota and shares stay", "CFS of b/c", before, node.view.cfs["b"]["c"])
    promise_quota(node, "The quota is the limit", "b/c", 500)


@_containers(
    QUOTA_GATE, since="1.33", until="1.36", needs=Needs(free=2),
    capabilities=(*QUOTAS, Capability.CONFIGURE),
)  # fmt: skip
def gate_off_brings_quotas_back(node: LockstepNode) -> None:
    """With DisableCPUQuotaWithExclusiveCPUs off a container with exclusive CPUs has a CFS quota.
    As up to 1.32. From 1.37 on the kubelet refuses to start with the gate off."""
    gates = {"DisableCPUQuotaWithExclusiveCPUs": False}
    node.boot_with(guaranteed("a", 2), config=replace(node.default_config(), feature_gates=gates))
    promise_quota(node, "It has one", "a/c", 2000)


@_containers(CREATE_FLOW, needs=Needs(free=4), capabilities=CALLS)
def start_on_their_cpus(node: LockstepNode) -> None:
    """Every container is started on its CPUs, and its entry is in the state file by then.
    A container that is started without a cpuset runs on all CPUs until a reconcile round, ten
    seconds later by default. From 1.21 on the cpuset comes with the request to create the
    container, before in an update between its creation and its start."""
    node.boot_with(guaranteed("a", 2), best_effort("shared"), guaranteed("mixed", 1, "500m"))
    for pod, container in (("a", "c"), ("mixed", "c1")):
        held, asked = node.taken(pod, container), node.asked(pod, container)
        started, entry = asked.started_on or CPUSet(), asked.entry or CPUSet()
        what = f"cpuset with which {pod}/{container} was started"
        node.promise_cpus("It starts on its exclusive CPUs", what, held, started)
        what = f"entry of {pod}/{container} when it was started"
        node.promise_cpus("The state file has them by then", what, held, entry)
    started = node.asked("shared").started_on or CPUSet()
    what = "cpuset with which shared/c was started"
    node.promise_cpus("It starts on the pool", what, node.cpus - node.taken("a"), started)
    started = node.asked("mixed", "c2").started_on or CPUSet()
    pool = node.view.shared_pool
    node.promise_cpus("It starts on the pool", "cpuset of mixed/c2 at its start", pool, started)


@_containers(
    CREATE_FLOW, since="1.21", needs=Needs(free=3),
    capabilities=(*CALLS, *KILLS, Capability.CONFIGURE),
)  # fmt: skip
def every_start_has_its_cpuset(node: LockstepNode) -> None:
    """With a reconcile round every ten seconds each container is started on its CPUs all the same.
    Also where it is started again. No round has put that right by then."""
    node.boot(replace(node.default_config(), reconcile_period=PRODUCTION_PERIOD))
    node.apply(guaranteed("a", 2))
    node.apply(best_effort("shared"))
    node.kill_container("shared")
    node.kill_container("a")
    for pod, cpus in (("a", node.taken("a")), ("shared", node.view.shared_pool)):
        started = node.asked(pod).started_on or CPUSet()
        what = f"cpuset with which {pod}/c was started"
        node.promise_cpus("It starts on its CPUs", what, cpus, started)


@_containers(REFUSED_UPDATE, since="1.22", needs=Needs(free=3), capabilities=CALLS)
def refused_update_is_tried_again(node: LockstepNode) -> None:
    """A shared container ends on the shared pool though the runtime refuses its first updates.
    As with EBUSY, where the container has a cgroup of its own in its cgroup. The next rounds try
    again, and until then it runs on CPUs that are exclusive to another. Up to 1.21 rounds in which
    nothing changed would use the refusals up."""
    node.boot_with(best_effort("shared"))
    node.to_runtime(FailUpdates(3))
    node.apply(guaranteed("a", 2))
    node.promise_on_pool("It ends on the pool", "shared", "c")


@_containers(sources.EVERY_ROUND, since="1.22", needs=Needs(free=3), capabilities=CALLS)
def idle_rounds_update_nothing(node: LockstepNode) -> None:
    """A reconcile round that finds nothing changed updates no container.
    Up to 1.21 every round updated every container."""
    node.boot_with(best_effort("shared"), guaranteed("a", 2))
    node.await_reconcile()
    before = _updates(node)
    node.await_reconcile()
    node.promise_equal("Nothing was sent", "updates by container", before, _updates(node))


@_containers(sources.EVERY_ROUND, until="1.21", needs=Needs(free=3), capabilities=CALLS)
def idle_rounds_update_every_container(node: LockstepNode) -> None:
    """Up to 1.21 every reconcile round updates every container.
    A defect that costs a call of the runtime for each container every ten seconds."""
    node.boot_with(best_effort("shared"), guaranteed("a", 2))
    before = _updates(node)
    node.await_reconcile()
    for owner, updates in _updates(node).items():
        _promise_more(node, "It was updated again", owner, before[owner], updates)


@_containers(
    sources.EVERY_ROUND, since="1.22", needs=Needs(free=3), capabilities=(*CALLS, *RESTARTED)
)
def start_updates_each_container_once(node: LockstepNode) -> None:
    """A kubelet that starts sends each container that runs its CPUs in one round, and moves none.
    It does not know what its predecessor sent last. How often it sends them in that round is its
    own affair: the same CPUs sent twice change nothing."""
    node.boot_with(best_effort("shared"), guaranteed("a", 2))
    node.await_reconcile()
    before, cpus = _updates(node), dict(node.view.cpusets)
    node.restart()
    node.await_reconcile()
    after = _updates(node)
    for owner, updates in before.items():
        _promise_more(node, "It was sent its CPUs", owner, updates, after.get(owner, 0))
    node.await_reconcile()
    node.promise_equal("Nothing was sent again", "updates by container", after, _updates(node))
    node.promise_equal("No container moved", "cpusets", cpus, dict(node.view.cpusets))


def _promise_more(node: LockstepNode, rule: str, owner: str, before: int, after: int) -> None:
    """That there were more updates after than before."""
    node.promise_that(after > before, rule, f"updates of {owner}", f"more than {before}", after)


def _updates(node: LockstepNode) -> dict[str, int]:
    """How often each container's cpuset was updated."""
    return {
        f"{pod}/{name}": asked.updates
        for pod, named in node.view.asked.items()
        for name, asked in named.items()
    }


@_containers(RESTART_ALL, since="1.36", needs=Needs(free=4), capabilities=ENDS)
def restart_rule_keeps_all_cpus(node: LockstepNode) -> None:
    """When a restart rule has all containers of a pod start again, each has the CPUs of before.
    One container exits with the code that the rule names. The pod stays where it is, so its
    entries do as well."""
    main = replace(exclusive("main", 1), restarts_all_on=(42,))
    node.boot_with(guaranteed_of("a", [main, exclusive("side", 2)]))
    held = {name: node.taken("a", name) for name in ("main", "side")}
    node.kill_container("a", "main", exit_code=42)
    for name, cpus in held.items():
        _promise_held(node, "a", name, cpus)
