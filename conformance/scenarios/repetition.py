"""Many containers, names that are alike, and what happens again: two ordinary things that meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import API_SERVER, CALLS, KILLS, RESTARTED
from conformance.scenarios.entering import core, row
from reference import CPUSet
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.steps import PRODUCTION_PERIOD, Container, Kind, Pod
from reference.view import Phase

QOS_CLASSES: Final = sources.documentation(
    "Pod Quality of Service Classes: every container of a Guaranteed pod has limits",
    "concepts/workloads/pods/pod-qos/#guaranteed",
)
OBJECT_NAMES: Final = sources.documentation(
    "Object Names and IDs: a uid tells similar entities apart",
    "concepts/overview/working-with-objects/names/#uids",
)
ENDED_ARE_SKIPPED: Final = sources.code(
    "1.36.4",
    "pkg/kubelet/cm/cpumanager/cpu_manager.go",
    "a reconcile round passes over a container that has ended, and goes on",
)

#: 60 characters. What follows makes names of 63, the longest that a container may have.
_LONG: Final = "long-" * 12
_UID: Final = "5c1b7e1a-9f0d-4a2e-8c3b-6d2f4e8a9b0"


# -- a container without limits ------------------------------------------------------------------


def _promise_shared(node: LockstepNode, beside: Container) -> None:
    """That a container with limits is in the shared pool where ``beside`` has none."""
    whole = node.boot().shared_pool
    status = node.run(Pod("a", (beside, exclusive("main", 1))))
    node.promise_equal("The pod is Burstable", "QoS class of pod a", "Burstable", status.qos)
    node.promise_taken("No container has exclusive CPUs", "a", CPUSet(), "main")
    node.promise_pool("The pool keeps all CPUs", whole)
    node.promise_on_pool("It runs in the shared pool", "a", "main")


row(
    "qos/init-container-without-limits-pins-no-container",
    "In a pod whose init container has no limits no container gets exclusive CPUs",
    """The app container's limits equal its requests, and are whole CPUs. The pod is Burstable all
    the same, because init containers count.""",
    lambda node: _promise_shared(node, Container("setup", kind=Kind.INIT)),
    source=QOS_CLASSES, level=Level.CORE, capabilities=[Capability.CPUSETS],
)  # fmt: skip
row(
    "qos/sidecar-without-limits-pins-no-container",
    "In a pod whose sidecar has no limits no container gets exclusive CPUs",
    "As with a sidecar that a service mesh adds to a pod which was Guaranteed without it.",
    lambda node: _promise_shared(node, Container("proxy", kind=Kind.SIDECAR)),
    source=QOS_CLASSES, since="1.29", capabilities=[Capability.CPUSETS],
)  # fmt: skip


# -- names that are alike ------------------------------------------------------------------------


@promised(
    sources.STALE_STATE, area="admission", needs=Needs(free=3),
    capabilities=[Capability.REJECTIONS, Capability.CPUSETS],
)  # fmt: skip
def rejection_spares_equal_names(node: LockstepNode) -> None:
    """The entry of a rejected pod goes, and that of another pod's container of the same name stays.
    Containers c1 of both pods have taken their CPUs when c2 of the second pod finds too few."""
    whole = node.boot().shared_pool
    node.apply(guaranteed("stays", 1, "500m"))
    held = node.taken("stays", "c1")
    status = node.apply(guaranteed("late", 1, len(node.free)))
    node.promise_equal("The pod is rejected", "phase of pod late", Phase.REJECTED, status.phase)
    node.pass_admission()
    node.promise_taken("It leaves no entry", "late", CPUSet(), "c1")
    node.promise_taken("The other's entry stays", "stays", held, "c1")
    node.promise_cpuset("It runs on them", "stays", held, "c1")
    node.promise_pool("The others are shared", whole - held)


def _long(pod: int) -> Pod:
    """A pod whose name, uid and container names differ from another's in their last character
    alone."""
    containers = [exclusive(f"{_LONG}c-{number}", 1) for number in (1, 2)]
    return Pod(f"{_LONG}p-{pod}", tuple(containers), uid=f"{_UID}{pod}")


def _held(node: LockstepNode, pod: Pod) -> dict[str, CPUSet]:
    return {one.name: node.taken(pod.name, one.name) for one in pod.containers}


def _promise_held(node: LockstepNode, pod: Pod, held: dict[str, CPUSet]) -> None:
    for name, cpus in held.items():
        owner = f"{pod.name}/{name}"
        node.promise_cpus("Its entry stays", owner, cpus, node.taken(pod.name, name))
        node.promise_cpus("It stays on them", f"cpuset {owner}", cpus, node.cpuset(pod.name, name))


@core(OBJECT_NAMES, area="restart", needs=Needs(free=4), capabilities=RESTARTED)
def alike_names_keep_apart(node: LockstepNode) -> None:
    """Pods and containers whose names differ in their last character alone keep CPUs of their own.
    Names have 63 characters. Nothing that is shortened tells them apart: not the name of a
    container within its pod, and neither name nor uid of a pod. They keep their CPUs over a restart
    of the kubelet, and the deletion of one pod returns its CPUs and none of the other's."""
    whole = node.boot().shared_pool
    first, second = _long(1), _long(2)
    node.apply(first)
    node.apply(second)
    held = [*_held(node, first).values(), *_held(node, second).values()]
    node.promise_equal("Each has one CPU", "exclusive CPUs", [1] * 4, [len(one) for one in held])
    together = CPUSet(cpu for one in held for cpu in one)
    node.promise_equal("No two share it", "CPUs of all", 4, len(together))
    given, kept = _held(node, first), _held(node, second)
    node.restart()
    _promise_held(node, first, given)
    _promise_held(node, second, kept)
    node.delete(first.name, passing=True)
    _promise_held(node, second, kept)
    left = whole - CPUSet(cpu for one in kept.values() for cpu in one)
    node.promise_pool("The others are shared again", left)


@promised(OBJECT_NAMES, area="pool", since="1.22", needs=Needs(free=4), capabilities=API_SERVER)
def new_uid_is_another_pod(node: LockstepNode) -> None:
    """A pod that comes back under another uid has CPUs of its own, and the former one's entry goes.
    As when a StatefulSet replaces its pod by one of the same name. Each pod requests one CPU
    more than the former one. The state file has the entry of the last one alone. (A static pod
    would have to wait until the kubelet has forgotten the former one of its name.)"""
    whole = node.boot(replace(node.default_config(), api_server=True)).shared_pool
    for number in (1, 2, 3):
        if number > 1:
            node.delete("a")
        node.run(Pod("a", (exclusive("c", number),), uid=f"{_UID}{number}"))
        held = node.taken("a")
        node.promise_equal("It has its CPUs", "number of CPUs of a/c", number, len(held))
        node.promise_cpuset("It runs on them", "a", held)
        node.promise_pool("The others are shared", whole - held)
        _, entries = parse_leniently(node.view.state_file, release=node.release)
        node.promise_equal("No other pod is entered", "pods in the state file", 1, len(entries))


# -- many containers -----------------------------------------------------------------------------


@core(sources.TASK_PAGE, area="pool", needs=Needs(free=2), capabilities=[Capability.CPUSETS])
def many_shared_containers_follow(node: LockstepNode) -> None:
    """Each of many shared containers follows the shared pool, whether of one pod or of several.
    Six of one Guaranteed pod, which request fractions of a CPU, and one of each of six
    BestEffort pods. A kubelet that sends its changes to some of them leaves the others on exclusive
    CPUs."""
    whole = node.boot().shared_pool
    node.apply(guaranteed("many", *["100m"] * 6))
    single = [f"single-{number}" for number in range(1, 7)]
    for name in single:
        node.apply(best_effort(name))
    node.apply(guaranteed("a", 1))
    _promise_pool(node, whole - node.taken("a"), single)
    node.delete("a", passing=True)
    _promise_pool(node, whole, single)


@promised(
    sources.TASK_PAGE, area="pool", needs=Needs(free=2),
    capabilities=[Capability.CPUSETS, Capability.CONFIGURE],
)  # fmt: skip
def one_round_reaches_every_pod(node: LockstepNode) -> None:
    """With a reconcile round every ten seconds all shared containers follow the pool in one round.
    One of each of eight BestEffort pods. A kubelet that updates one pod a round leaves the last
    of them on CPUs of another for more than a minute."""
    node.boot(replace(node.default_config(), reconcile_period=PRODUCTION_PERIOD))
    single = [f"single-{number}" for number in range(1, 9)]
    for name in single:
        node.apply(best_effort(name))
    node.apply(guaranteed("a", 1))
    for name in single:
        node.promise_on_pool("It follows the pool", name, "c")


def _promise_pool(node: LockstepNode, pool: CPUSet, single: list[str]) -> None:
    node.promise_pool("The pool is what is not exclusive", pool)
    node.promise_on_pool("It follows the pool", "many", *(f"c{one}" for one in range(1, 7)))
    for pod in single:
        node.promise_on_pool("It follows the pool", pod, "c")


@core(ENDED_ARE_SKIPPED, area="init", needs=Needs(free=2), capabilities=[Capability.CPUSETS])
def ended_init_container_stops_no_round(node: LockstepNode) -> None:
    """Shared containers follow the shared pool beside an init container that has ended.
    Nothing can be sent to a container that has ended. A reconcile round goes on with the others
    of its pod, and with the next pods."""
    node.boot()
    node.apply(Pod("shared", (Container("setup", kind=Kind.INIT), Container("main"))))
    node.apply(best_effort("next"))
    node.apply(guaranteed("a", 1))
    node.promise_on_pool("It follows the pool", "shared", "main")
    node.promise_on_pool("It follows the pool", "next", "c")
    node.delete("a", passing=True)
    node.promise_on_pool("It follows the pool", "shared", "main")
    node.promise_on_pool("It follows the pool", "next", "c")


@promised(
    sources.SIDECARS, area="init", level=Level.CORE, since="1.29", needs=Needs(free=4),
    capabilities=[Capability.CPUSETS],
)  # fmt: skip
def sidecar_keeps_what_init_lends(node: LockstepNode) -> None:
    """App containers get no CPU that a sidecar has reused of an init container before it.
    The init container has every CPU that the sidecar before it has left. So the sidecar and both
    app containers that follow run on its CPUs, and each on others."""
    node.boot()
    whole, every = node.view.shared_pool, len(node.free)
    containers = [
        exclusive("proxy", 1, kind=Kind.SIDECAR),
        exclusive("setup", every - 1, kind=Kind.INIT),
        exclusive("logs", 1, kind=Kind.SIDECAR),
        exclusive("main", every - 3),
        exclusive("helper", 1),
    ]
    node.run(guaranteed_of("a", containers))
    lent, seen = node.taken("a", "setup"), CPUSet()
    for one in containers:
        if one.kind is Kind.INIT:
            continue
        held, owner = node.taken("a", one.name), f"a/{one.name}"
        wanted = int(one.cpu_request or 0)
        node.promise_equal("It has its CPUs", f"number of CPUs of {owner}", wanted, len(held))
        what = f"CPUs of {owner} that others have"
        node.promise_cpus("It shares none", what, CPUSet(), held & seen)
        node.promise_cpus("It runs on them", f"cpuset {owner}", held, node.cpuset("a", one.name))
        seen |= held
    rule, rest = "Those of the init container were reused", seen - node.taken("a", "proxy")
    node.promise_cpus(rule, "CPUs of a but those of a/proxy", lent, rest)
    node.delete("a", passing=True)
    node.promise_pool("All return", whole)


# -- what happens again --------------------------------------------------------------------------


@promised(
    sources.RESTARTS, area="containers", needs=Needs(free=4),
    capabilities=(*CALLS, *KILLS, *RESTARTED),
)  # fmt: skip
def killed_in_each_run_keeps_its_cpus(node: LockstepNode) -> None:
    """A container that is killed after each start of the kubelet is started on its CPUs every time.
    A kubelet that starts meets a container that another has started, and starts the next one
    itself. Lower CPUs are free, which a kubelet that allocates anew would take. (Within one run the
    kubelet's back-off delays the second start of a container.)"""
    node.boot_with(guaranteed("first", 1), guaranteed("a", 2), best_effort("shared"))
    held = node.taken("a")
    node.delete("first")
    before = node.view.state_file
    for _ in range(3):
        node.kill_container("a")
        started = node.asked("a").started_on or CPUSet()
        node.promise_taken("Its entry stays", "a", held)
        what = "cpuset with which a/c was started"
        node.promise_cpus("It is started on them", what, held, started)
        node.promise_cpuset("It runs on them", "a", held)
        node.restart()
    node.promise_equal("Nothing was rewritten", "state file", before, node.view.state_file)


@core(
    sources.INIT_CONTAINERS, area="init", needs=Needs(free=6),
    capabilities=[Capability.CPUSETS, Capability.CONFIGURE],
)  # fmt: skip
def returning_pod_reuses_nothing_of_before(node: LockstepNode) -> None:
    """A pod that comes back has no CPU that its init container left over in the pod's first time.
    A static pod comes back with its uid. Another pod has those CPUs by then."""
    # A kubelet that still knows the first pod of that uid does not admit the second one. It forgets
    # such a pod every two seconds, and two rounds take four.
    node.boot(replace(node.default_config(), reconcile_period=2000))
    pod = guaranteed_of("a", [exclusive("setup", 3, kind=Kind.INIT), exclusive("c", 1)])
    node.run(pod)
    node.delete("a")
    node.apply(guaranteed("b", 3))
    held = node.taken("b")
    node.await_reconcile()
    node.run(pod)
    for name in ("setup", "c"):
        shared = node.taken("a", name) & held
        node.promise_cpus("It shares none", f"CPUs of a/{name} that b has", CPUSet(), shared)
    node.promise_cpuset("The other runs on its own", "b", held)
