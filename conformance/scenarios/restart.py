"""What outlives the kubelet."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import REJECTIONS, RESIZES, RESTARTED
from conformance.scenarios.entering import row
from conformance.scenarios.outcomes import promise_rejected, promise_running
from reference import CPUSet
from reference.steps import Kind

_BY_AGE: Final = sources.code(
    "1.36.4", "pkg/kubelet/kubelet.go", "pods are admitted by their age (HandlePodAdditions)"
)
_restart: Final = partial(promised, area="restart")
_core: Final = partial(_restart, level=Level.CORE)


def _keeps(node: LockstepNode, *, kill: bool) -> None:
    node.boot_with(guaranteed("a", 1), best_effort("shared"), guaranteed("b", 2))
    before = node.view
    node.restart(kill=kill)
    for name in ("a", "b"):
        held = before.assignments[name]["c"]
        node.promise_taken("The assignment is as before", name, held)
        node.promise_cpuset("The container never moved", name, held)
    rule, seen = "The state file is the same to the byte", node.view.state_file
    node.promise_equal(rule, "state file", before.state_file, seen)


row(
    "restart/stop-keeps-assignments",
    "Exclusive CPUs outlive a stop and start of the kubelet",
    "The kubelet reads its state file and admits its pods with the CPUs they have.",
    lambda node: _keeps(node, kill=False),
    source=sources.KEP, since="1.17", needs=Needs(free=3), capabilities=RESTARTED,
)  # fmt: skip
row(
    "restart/sigkill-keeps-assignments",
    "Exclusive CPUs outlive a kill -9 of the kubelet",
    "The kubelet writes each change to disk before the change takes effect.",
    lambda node: _keeps(node, kill=True),
    source=sources.KEP, level=Level.CORE, since="1.17", needs=Needs(free=3), capabilities=RESTARTED,
)  # fmt: skip
row(
    "restart/early-releases-keep-assignments",
    "Up to 1.13 exclusive CPUs outlive a restart of the kubelet while their containers run",
    """The state file has them by container id, and only a container that is stopped gives them
    back. From 1.14 to 1.16 a start forgets them; from 1.17 on they outlive it again.""",
    lambda node: _keeps(node, kill=True),
    source=sources.KEP, since="1.9", until="1.13", needs=Needs(free=3), capabilities=RESTARTED,
)  # fmt: skip


@_restart(
    sources.FORGOTTEN, since="1.14", until="1.16", needs=Needs(free=4), capabilities=RESTARTED
)
def start_forgets_assignments(node: LockstepNode) -> None:
    """From 1.14 to 1.16 a kubelet that starts forgets who holds which CPUs, and gives out others.
    A known defect: the first reconcile round runs before the kubelet knows any pod, and removes
    the entry of every container that it did not meet. The next round chooses CPUs for the running
    containers as on an empty machine."""
    node.boot_with(guaranteed("first", 1), guaranteed("a", 1))
    held = node.taken("a")
    node.kill()
    node.delete("first")
    node.start()
    node.promise_equal("It has as many CPUs", "number of CPUs of a/c", 1, len(node.taken("a")))
    node.promise_cpus("They are others", "CPUs of a/c", CPUSet(), node.taken("a") & held)
    node.promise_cpuset("The container was moved", "a", node.taken("a"))


@_core(sources.STALE_STATE, since="1.17", needs=Needs(free=2), capabilities=RESTARTED)
def deleted_while_down_is_freed(node: LockstepNode) -> None:
    """The CPUs of a pod deleted while the kubelet is down return after its start.
    The first clean-up removes the stale entry."""
    whole = node.boot().shared_pool
    node.apply(guaranteed("a", 1))
    node.apply(guaranteed("b", 1))
    kept = node.taken("b")
    node.stop()
    node.delete("a")
    node.start()
    node.promise_taken("The entry is gone", "a", CPUSet())
    node.promise_taken("The other stays", "b", kept)
    node.promise_pool("The CPUs are back", whole - kept)


@_core(sources.KEP, needs=Needs(free=2), capabilities=(*RESTARTED, Capability.REBOOT))
def reboot_keeps_assignments(node: LockstepNode) -> None:
    """Exclusive CPUs outlive a reboot of an unchanged machine.
    The containers are made anew, on the CPUs that the state file has for them."""
    node.boot_with(guaranteed("a", 2))
    held = node.taken("a")
    node.kill()
    node.reboot()
    node.start()
    node.promise_taken("The assignment stays", "a", held)
    node.promise_cpuset("The new container has it", "a", held)


@_restart(sources.KEP, needs=Needs(free=3), capabilities=(*RESTARTED, Capability.REBOOT))
def reboot_keeps_cpus_above_free_ones(node: LockstepNode) -> None:
    """Exclusive CPUs outlive a reboot where a kubelet without state would choose others.
    A pod that came first is gone, and its CPUs are free. A kubelet that has lost its state file
    would give them to the pod that is left."""
    node.boot_with(guaranteed("first", 1), guaranteed("second", 1))
    held = node.taken("second")
    node.delete("first")
    node.kill()
    node.reboot()
    node.start()
    node.promise_taken("The assignment stays", "second", held)
    node.promise_cpuset("The new container has it", "second", held)


@promised(
    sources.RECONCILE, area="reconcile", since="1.22", needs=Needs(free=2),
    capabilities=(*RESTARTED, Capability.TAMPER),
)  # fmt: skip
def restart_repairs_a_changed_cpuset(node: LockstepNode) -> None:
    """When the kubelet starts again it repairs a cpuset that was changed behind its back.
    While it runs, the kubelet has to send an update only when the wanted set changes. Until then
    the container may run on the CPUs that it was put on. A kubelet that sends more updates repairs
    the cpuset earlier, which is conformant too."""
    node.boot_with(guaranteed("a", 1))
    held = node.taken("a")
    node.tamper("a", "c", node.cpus)
    node.await_reconcile()
    node.restart()
    node.promise_cpuset("The start repairs the cpuset", "a", held)


@promised(
    sources.EVERY_ROUND, area="reconcile", since="1.9", until="1.21", needs=Needs(free=2),
    capabilities=[Capability.CPUSETS, Capability.TAMPER],
)  # fmt: skip
def every_round_repairs_a_changed_cpuset(node: LockstepNode) -> None:
    """The next reconcile round repairs a cpuset that was changed behind the kubelet's back.
    Exclusive and shared containers alike are sent their CPUs in every round."""
    node.boot_with(guaranteed("a", 1), best_effort("b"))
    held, pool = node.taken("a"), node.view.shared_pool
    node.tamper("a", "c", node.cpus)
    node.tamper("b", "c", held)
    node.await_reconcile()
    node.promise_cpuset("The round repairs the exclusive one", "a", held)
    node.promise_cpuset("It repairs the shared one", "b", pool)


@_restart(
    sources.BY_CONTAINER, since="1.14", until="1.17", needs=Needs(free=4),
    capabilities=(*RESTARTED, Capability.REBOOT),
)  # fmt: skip
def reboot_may_move_pods(node: LockstepNode) -> None:
    """After a reboot a pod is given CPUs as if it were new.
    Its container has another id. What the former one held is free again once the kubelet knows
    the ids of all containers."""
    node.boot_with(guaranteed("a", 2))
    whole = node.view.shared_pool | node.taken("a")
    node.kill()
    node.reboot()
    node.start()
    held = node.taken("a")
    node.promise_equal("The pod has its CPUs", "number of CPUs of a/c", 2, len(held))
    node.promise_pool("Nothing else is held", whole - held)


@promised(sources.BY_CONTAINER, area="init", since="1.16", until="1.17", needs=Needs(free=4))
def ended_container_is_given_cpus_again(node: LockstepNode) -> None:
    """An init container that has ended is given exclusive CPUs again while its pod runs.
    A known defect: the CPUs of the init container return when the app container takes CPUs. The
    next reconcile round then takes other CPUs for the init container, as for any container without
    an entry."""
    node.boot()
    node.apply(guaranteed_of("a", [exclusive("setup", 2, kind=Kind.INIT), exclusive("main", 2)]))
    setup, main = node.taken("a", "setup"), node.taken("a", "main")
    node.promise_equal("The app has its CPUs", "number of CPUs of a/main", 2, len(main))
    node.promise_equal("The ended one has CPUs too", "number of CPUs of a/setup", 2, len(setup))
    node.promise_cpus("They are others", "CPUs of both", CPUSet(), setup & main)


@_core(sources.KEP, since="1.17", needs=Needs(free=3), capabilities=RESTARTED)
def keeps_assignments_beside_a_gap(node: LockstepNode) -> None:
    """A pod keeps its exclusive CPUs over a restart, though lower ones have become free.
    A kubelet that allocates anew at its start would give the pod the CPUs that a deleted pod
    has left, and so move a container that runs."""
    node.boot_with(guaranteed("first", 1), guaranteed("a", 1), best_effort("shared"))
    held = node.taken("a")
    node.delete("first")
    before = node.view.state_file
    node.restart()
    node.promise_taken("Its entry is as before", "a", held)
    node.promise_cpuset("The container never moved", "a", held)
    node.promise_equal("Nothing was rewritten", "state file", before, node.view.state_file)


@_restart(sources.KEP, needs=Needs(free=5), capabilities=RESTARTED)
def keeps_several_containers(node: LockstepNode) -> None:
    """All containers of a pod keep their exclusive CPUs over a restart, each its own.
    The pod before it is deleted while the kubelet is down."""
    node.boot_with(guaranteed("first", 1), guaranteed("a", 1, "500m", 2), best_effort("last"))
    before = {name: node.taken("a", name) for name in ("c1", "c2", "c3")}
    node.stop()
    node.delete("first")
    node.start()
    for name, held in before.items():
        node.promise_cpus("Its CPUs are as before", f"a/{name}", held, node.taken("a", name))
    node.promise_cpuset("The shared container is on the pool", "a", node.view.shared_pool, "c2")


@_core(
    sources.RESTARTS,
    since="1.18",
    needs=Needs(free=4),
    capabilities=(*RESTARTED, Capability.CONTAINERS),
)
def ended_container_comes_back_on_its_cpus(node: LockstepNode) -> None:
    """A container that ends while the kubelet is down comes back on its exclusive CPUs.
    The kubelet that starts next creates it, and finds its CPUs in the state file, though lower ones
    are free by then."""
    node.boot_with(guaranteed("first", 1), guaranteed("a", 2), best_effort("shared"))
    held = node.taken("a")
    node.stop()
    node.kill_container("a")
    node.kill_container("shared")
    node.delete("first")
    node.start()
    node.promise_taken("Its entry is as before", "a", held)
    node.promise_cpuset("It runs on them again", "a", held)
    node.promise_on_pool("The shared container runs on the pool", "shared", "c")


@_restart(
    _BY_AGE, since="1.26", needs=Needs(free=3, counted_once=True),
    capabilities=(*RESIZES, *REJECTIONS),
)  # fmt: skip
def older_pods_are_admitted_first(node: LockstepNode) -> None:
    """A pod that comes while the kubelet is down does not put one out that ran before.
    Each requests more than half of the CPUs that the node gives to pods. The kubelet that starts
    admits them in the order in which they were created: the older one runs on, and the newer one
    is refused."""
    node.boot(replace(node.default_config(), api_server=True))
    most = str(len(node.free) - 1)
    node.apply(burstable("older", request=most))
    node.stop()
    node.apply(burstable("newer", request=most))
    node.start()
    promise_running(node, "older")
    promise_rejected(node, node.view.pods["newer"], "OutOfcpu", "newer")
