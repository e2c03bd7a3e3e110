"""What a node shows beside its CPU manager: its kernel, runtime and service manager.

Promises about kernel and service manager need a real node (``node:…``); what a container runtime
and a whole kubelet show, a kubelet in the loop shows as well. On every other subject they are
skipped with what is missing. How much each does to a node follows from its capabilities
(``pinproof probe`` tells).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, Needs, Source, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import EDITS, KERNEL, KILLS, LISTS, QUOTAS, RESTARTED
from conformance.scenarios.outcomes import promise_pod_quota, promise_quota, restart_with
from reference import CPUSet
from reference.steps import Kind, KubeletConfig, RestartRuntime

_node: Final = partial(promised, area="node")
_core: Final = partial(_node, level=Level.CORE)

_KERNEL = "https://docs.kernel.org/admin-guide"

QUOTA = sources.issue(70585, "a container with exclusive CPUs has no CFS quota")
DAEMON_RELOAD = Source(
    "systemd issue 40438: daemon-reload writes cpusets again",
    "https://github.com/systemd/systemd/issues/40438",
)
HOTPLUG = sources.issue(67500, "CPUs go offline under a running kubelet")
CPUSET_V2 = Source(
    "Linux, control group v2: cpuset.cpus.effective", f"{_KERNEL}/cgroup-v2.html#cpuset"
)
POD_RESOURCES = sources.documentation(
    "Device Plugins: the List endpoint reports exclusive CPUs",
    f"{sources.PLUGINS}#grpc-endpoint-list",
)
POD_RESOURCES_OF_POOL = sources.pull(
    97415, "the pod-resources socket reported the shared pool, up to 1.22"
)

_POD_QUOTAS: Final = (Capability.CPUSETS, Capability.POD_CGROUP)
_MISMATCH = 'current set of available CPUs "{now}" doesn\'t match with CPUs in state "{state}"'


def _promise_kept(node: LockstepNode, pod: str, held: CPUSet) -> None:
    """The pod has its CPUs in the state file, in its cgroup, and for its tasks where the subject
    has a kernel of its own."""
    node.promise_taken("The assignment stays", pod, held)
    node.promise_cpuset("The cpuset stays", pod, held)
    if node.view.enforced:
        _promise_affinity(node, "The kernel keeps the tasks there", pod, held)


def _promise_affinity(node: LockstepNode, rule: str, pod: str, cpus: CPUSet) -> None:
    """Promise that the kernel runs the tasks of a pod on just these CPUs."""
    node.promise_cpus(rule, f"affinity {pod}/c", cpus, node.enforced(pod).allowed)


def _promise_all_in_state(node: LockstepNode, rule: str, cpus: CPUSet) -> None:
    """Promise that the state has just these CPUs, those of pod ``a`` and shared ones."""
    seen = node.view.shared_pool | node.taken("a")
    node.promise_cpus(rule, "exclusive CPUs and shared pool", cpus, seen)


@_core(sources.TASK_PAGE, needs=Needs(free=2), capabilities=KERNEL)
def tasks_run_where_they_are_pinned(node: LockstepNode) -> None:
    """Tasks run on the exclusive CPUs of their container, and all others stay off them.
    Read from the kernel: the effective cpuset of the container's cgroup, the affinity of every
    task in it, and the CPUs on which they were seen to run while they spun."""
    node.boot_with(guaranteed("a", 2), best_effort("shared"))
    node.spin()
    held = node.taken("a")
    kernel, other = node.enforced("a"), node.enforced("shared")
    node.promise_cpus("The kernel pins the container", "effective cpuset a/c", held, kernel.cpus)
    node.promise_cpus("It pins every task", "affinity a/c", held, kernel.allowed)
    rule, ran_on = "The tasks ran there, and nowhere else", kernel.ran_on
    there = bool(ran_on) and ran_on <= held
    node.promise_that(there, rule, "CPUs that a/c ran on", f"some of {held}", ran_on)
    node.promise_cpus("Others run elsewhere", "affinity shared/c", node.cpus - held, other.allowed)
    ran_on = other.ran_on
    node.promise_cpus("They ran elsewhere", "CPUs that shared/c ran on", ran_on - held, ran_on)


@_core(QUOTA, since="1.33", needs=Needs(free=2), capabilities=QUOTAS)
def exclusive_cpus_have_no_quota(node: LockstepNode) -> None:
    """A container with exclusive CPUs has no CFS quota, and one without keeps its own.
    A quota would throttle a container that uses all of its CPUs."""
    node.boot_with(guaranteed("a", 1), burstable("b", request="100m", limit="500m"))
    promise_quota(node, "It has no quota", "a/c", None)
    promise_quota(node, "The other has one", "b/c", 500)


@_node(QUOTA, until="1.32", needs=Needs(free=2), capabilities=QUOTAS)
def exclusive_cpus_keep_their_quota(node: LockstepNode) -> None:
    """Up to 1.32 a container with exclusive CPUs has a CFS quota of just as many CPUs.
    The documentation said otherwise for years."""
    node.boot_with(guaranteed("a", 2))
    promise_quota(node, "It has a quota", "a/c", 2000)


@_node(QUOTA, since="1.33", needs=Needs(free=3), capabilities=_POD_QUOTAS)
def pod_of_exclusive_cpus_has_no_quota(node: LockstepNode) -> None:
    """The cgroup of a pod whose container has exclusive CPUs has no CFS quota either.
    A quota of the pod throttles every container in it, whatever their own cgroups say. A pod
    without exclusive CPUs has a quota of all its limits, which shows that quotas are seen."""
    node.boot_with(
        guaranteed("a", 1), guaranteed("mixed", 1, "500m"), guaranteed("fractions", "300m", "100m")
    )
    promise_pod_quota(node, "It has no quota", "a", None)
    promise_pod_quota(node, "Nor has a pod that shares one more container", "mixed", None)
    promise_pod_quota(node, "A pod without exclusive CPUs has one", "fractions", 400)


@_node(QUOTA, since="1.33", needs=Needs(free=2), capabilities=_POD_QUOTAS)
def pod_of_an_exclusive_sidecar_has_no_quota(node: LockstepNode) -> None:
    """The cgroup of a pod of which a sidecar alone has exclusive CPUs has no CFS quota either.
    Its app container has half a CPU. A quota of the pod would throttle the sidecar."""
    sidecar = exclusive("side", 1, kind=Kind.SIDECAR)
    node.boot_with(guaranteed_of("a", [sidecar, exclusive("c", "500m")]))
    promise_pod_quota(node, "It has no quota", "a", None)


@_node(QUOTA, until="1.32", needs=Needs(free=2), capabilities=_POD_QUOTAS)
def pod_of_exclusive_cpus_keeps_its_quota(node: LockstepNode) -> None:
    """Up to 1.32 the cgroup of a pod with exclusive CPUs has a CFS quota of all its limits.
    As its containers have theirs."""
    node.boot_with(guaranteed("a", 1, "500m"))
    promise_pod_quota(node, "It has a quota", "a", 1500)


@_node(sources.RECONCILE, needs=Needs(free=2), capabilities=(*QUOTAS, Capability.TAMPER))
def quota_changed_by_hand_stays(node: LockstepNode) -> None:
    """No reconcile round removes a CFS quota that was set by hand on a container.
    The kubelet sends cpusets and nothing else, so such a quota throttles the container until its
    pod is made anew."""
    node.boot_with(guaranteed("a", 1))
    held = node.taken("a")
    node.tamper_quota("a", "c", 20_000)
    node.await_reconcile()
    node.promise_equal("The quota stays", "CFS quota of a/c", 20_000, node.quota("a"))
    _promise_kept(node, "a", held)


@_core(sources.RESTARTS, needs=Needs(free=3), capabilities=KILLS)
def killed_container_keeps_its_cpus(node: LockstepNode) -> None:
    """A container that is killed and started again keeps its exclusive CPUs.
    The state is kept by pod and container name, so it holds for the new container too."""
    node.boot_with(guaranteed("a", 2), best_effort("shared"))
    held = node.taken("a")
    node.kill_container("a")
    _promise_kept(node, "a", held)
    node.promise_cpuset("The others stay off", "shared", node.cpus - held)


@_core(sources.STALE_STATE, needs=Needs(free=2), capabilities=KILLS)
def forced_deletion_leaks_nothing(node: LockstepNode) -> None:
    """The CPUs of a pod that is deleted by force return to the shared pool.
    Its sandbox and containers are killed behind the kubelet's back while its manifest goes."""
    node.boot_with(best_effort("shared"))
    whole = node.view.shared_pool
    node.apply(guaranteed("a", 2))
    node.delete("a", force=True, passing=True)
    node.promise_pool("The pool is whole", whole)
    node.promise_cpuset("Shared containers have it", "shared", whole)


@_core(sources.KEP, needs=Needs(free=3), capabilities=[Capability.CPUSETS, Capability.RUNTIME])
def runtime_restart_keeps_cpus(node: LockstepNode) -> None:
    """Exclusive CPUs outlive a restart of the container runtime.
    Containers keep running, and later pods get their CPUs as before."""
    node.boot_with(guaranteed("a", 1))
    held = node.taken("a")
    node.to_runtime(RestartRuntime())
    _promise_kept(node, "a", held)
    node.apply(guaranteed("b", 1))
    node.promise_equal("The next pod is pinned", "CPUs of b/c", 1, len(node.taken("b")))
    _promise_kept(node, "a", held)


@_core(DAEMON_RELOAD, needs=Needs(free=2), capabilities=(*KERNEL, Capability.SERVICES))
def daemon_reload_keeps_cpusets(node: LockstepNode) -> None:
    """Pinned and shared containers keep their cpusets when systemd reads its units again.
    Systemd writes the cpusets of its units again: those that the runtime set last, also for
    shared containers whose cpuset has changed since they started."""
    node.boot_with(best_effort("shared"), guaranteed("a", 2))
    held = node.taken("a")
    node.daemon_reload()
    _promise_kept(node, "a", held)
    _promise_affinity(node, "Shared containers stay off", "shared", node.cpus - held)


@_node(
    sources.RECONCILE, since="1.22", needs=Needs(free=2),
    capabilities=(*KERNEL, *RESTARTED, Capability.SERVICES, Capability.TAMPER),
)  # fmt: skip
def restart_repairs_a_cpuset_changed_by_hand(node: LockstepNode) -> None:
    """The kubelet's next start repairs a cpuset that was written into the cgroup by hand.
    Until then the container runs on the CPUs that were written by hand. A daemon-reload may
    repair it earlier, since systemd writes the cpuset that the runtime set last."""
    node.boot_with(guaranteed("a", 1))
    held = node.taken("a")
    node.tamper("a", "c", node.cpus)
    _promise_affinity(node, "The tasks follow it", "a", node.cpus)
    node.daemon_reload()
    rule, seen = "A daemon-reload repairs the cpuset or leaves it", node.cpuset("a")
    either = f"{held} or {node.cpus}"
    node.promise_that(seen in (held, node.cpus), rule, "cpuset a/c", either, seen)
    node.restart()
    _promise_kept(node, "a", held)


@_core(sources.CHANGING_POLICY, capabilities=(*EDITS, Capability.CONFIGURE, Capability.SERVICES))
def policy_change_crash_loops(node: LockstepNode) -> None:
    """Changed from policy none to static, the kubelet crash-loops until its state file is removed.
    The service manager starts the kubelet again and again, and each start logs the reason."""
    static = node.default_config()
    node.boot(KubeletConfig(policy="none", reserved_system_cpus=static.reserved_system_cpus))
    restart_with(node, static)
    text = 'configured policy "static" differs from state checkpoint policy "none"'
    node.promise_refusal(text)
    node.await_crash_loop()
    node.promise_refusal(text)
    node.remove_state()
    node.start()
    node.promise_running("Without the file it starts")


def _spare(node: LockstepNode) -> CPUSet:
    """The highest CPU that is neither exclusive nor reserved, and not CPU 0."""
    return CPUSet([max(node.free - CPUSet([0]))])


@_core(
    sources.CPUS_CHANGED, needs=Needs(free=3),
    capabilities=(*KERNEL, *RESTARTED, Capability.HOTPLUG, Capability.START_ERROR),
)  # fmt: skip
def start_with_a_cpu_offline_is_refused(node: LockstepNode) -> None:
    """With a CPU offline the kubelet does not start; with the CPU back it starts and loses nothing.
    The state file names the CPU, and the machine lacks it."""
    node.boot_with(guaranteed("a", 1))
    held, whole = node.taken("a"), node.cpus
    spare = _spare(node)
    node.offline(spare)
    node.restart()
    node.promise_refusal(_MISMATCH.format(now=whole - spare, state=whole))
    node.online_again(spare)
    node.start()
    node.promise_running("With the CPU back it starts")
    _promise_kept(node, "a", held)


@_node(
    sources.CPUS_CHANGED, needs=Needs(free=3, cores=3),
    capabilities=(*KERNEL, *EDITS, Capability.HOTPLUG),
)  # fmt: skip
def offline_cpu_and_recovery(node: LockstepNode) -> None:
    """With a CPU permanently offline the kubelet starts once its state file is removed.
    Remove the file, start the kubelet: the pod is pinned again, on CPUs that are there. The
    whole last physical core goes, so that the others stay of one size."""
    node.boot_with(guaranteed("a", 1))
    gone = node.topology.with_siblings(CPUSet([max(node.topology.details)]))
    whole = node.cpus
    node.offline(gone)
    node.restart()
    node.promise_refusal(_MISMATCH.format(now=whole - gone, state=whole))
    node.remove_state()
    node.start()
    node.promise_running("Without the file it starts")
    _promise_all_in_state(node, "Every CPU that is left is in the state", whole - gone)
    _promise_kept(node, "a", node.taken("a"))


@_node(CPUSET_V2, needs=Needs(free=2), capabilities=(*KERNEL, Capability.HOTPLUG))
def offline_cpu_comes_back_to_its_container(node: LockstepNode) -> None:
    """A container runs on fewer CPUs while one of them is offline, and gets it back afterwards.
    The kubelet does not notice. The kernel keeps the configured cpuset, and its effective part
    is what is online."""
    node.boot_with(guaranteed("a", 2))
    held = node.taken("a")
    gone = CPUSet([max(held)])
    node.offline(gone)
    node.promise_cpuset("The cpuset stays", "a", held)
    _promise_affinity(node, "The kernel has what is left", "a", held - gone)
    node.online_again(gone)
    _promise_kept(node, "a", held)


@_node(HOTPLUG, needs=Needs(free=2), capabilities=(*KERNEL, Capability.HOTPLUG))
def all_cpus_offline_lose_exclusivity(node: LockstepNode) -> None:
    """A container whose CPUs are all offline runs on its parent's; the state file is unchanged.
    State file and cpuset.cpus stay as they were. Only the effective cpuset and the affinity of
    the tasks show the change. Once the CPUs are back, the container is pinned again."""
    node.boot_with(guaranteed("a", 1))
    held = node.taken("a")
    node.offline(held)
    kernel = node.enforced("a")
    node.promise_taken("The state file stays", "a", held)
    node.promise_cpuset("The cpuset stays", "a", held)
    rule = "The container runs on its parent's CPUs"
    node.promise_cpus(rule, "effective cpuset a/c", node.cpus - held, kernel.cpus)
    node.online_again(held)
    _promise_kept(node, "a", held)


@_node(sources.CPUS_CHANGED, needs=Needs(free=2), capabilities=(*KERNEL, *EDITS, Capability.REBOOT))
def cpu_upgrade_and_recovery(node: LockstepNode) -> None:
    """Booted with more CPUs the kubelet refuses its old state file, and starts once it is removed.
    The incident that this project began with, on a machine that really has other CPUs after its
    boot, and how to recover."""
    larger = node.larger()
    node.boot()
    node.run(guaranteed("a", 2))
    before = node.cpus
    node.kill()
    node.reboot(larger)
    node.start()
    node.promise_refusal(_MISMATCH.format(now=node.cpus, state=before))
    node.remove_state()
    node.start()
    node.promise_running("Without the file it starts")
    _promise_kept(node, "a", node.taken("a"))
    _promise_all_in_state(node, "Every CPU of the new machine is in the state", node.cpus)


@_node(POD_RESOURCES, since="1.23", needs=Needs(free=3), capabilities=LISTS)
def pod_resources_report_exclusive_cpus(node: LockstepNode) -> None:
    """The pod-resources socket reports the exclusive CPUs of each container, and no others.
    Monitoring and the placement of devices rely on these answers. They equal the state file and
    the cgroup. A container in the shared pool is listed without CPUs, and a deleted pod is not
    listed."""
    node.boot()
    node.ask()  # where it cannot be read, nothing else need be done
    node.apply(best_effort("shared"))
    node.apply(guaranteed("a", 2))
    node.apply(guaranteed("b", 1))
    node.ask()
    for pod in ("a", "b"):
        node.promise_pod_resources("It reports the exclusive CPUs", pod, node.taken(pod))
        node.promise_pod_resources("It reports the cpuset", pod, node.cpuset(pod))
    node.promise_pod_resources("It reports no shared CPU", "shared", CPUSet())
    kept = node.taken("b")
    node.delete("a", passing=True)
    node.ask()
    seen = "(no entry)" if node.pod_resources("a") is None else str(node.pod_resources("a"))
    what = "CPUs that the kubelet reports for a/c"
    node.promise_equal("The entry goes with its pod", what, "(no entry)", seen)
    node.promise_pod_resources("The other stays", "b", kept)


@_node(POD_RESOURCES_OF_POOL, since="1.20", until="1.22", needs=Needs(free=2), capabilities=LISTS)
def pod_resources_report_the_shared_pool(node: LockstepNode) -> None:
    """Up to 1.22 the pod-resources socket reports the shared pool for each shared container.
    A reader could not distinguish exclusive CPUs from shared ones."""
    node.boot()
    node.ask()
    node.apply(best_effort("shared"))
    node.apply(guaranteed("a", 1))
    node.ask()
    node.promise_pod_resources("It reports the exclusive CPUs", "a", node.taken("a"))
    node.promise_pod_resources("It reports the shared pool", "shared", node.view.shared_pool)
