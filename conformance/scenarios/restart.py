"""What outlives the kubelet."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, guaranteed
from conformance.scenario import Level, Needs, scenario
from conformance.scenarios.sources import KEP, RECONCILE, STALE_STATE
from conformance.subject import Capability
from reference import CPUSet

_RESTART = (Capability.RESTART, Capability.CPUSETS)


def _keeps(node: LockstepNode, *, kill: bool) -> None:
    node.boot()
    node.apply(guaranteed("a", 1))
    node.apply(best_effort("shared"))
    node.apply(guaranteed("b", 2))
    before = node.view
    if kill:
        node.kill()
    else:
        node.stop()
    node.start()
    for name in ("a", "b"):
        held = before.assignments[name]["c"]
        node.promise_cpus(
            "The assignment is as before", f"exclusive CPUs {name}/c", held, node.taken(name)
        )
        node.promise_cpus("The container never moved", f"cpuset {name}/c", held, node.cpuset(name))
    node.promise_equal(
        "The state file is the same to the byte",
        "state file",
        before.state_file,
        node.view.state_file,
    )


@scenario(
    "restart/stop-keeps-assignments",
    "Exclusive CPUs outlive a stop and start of the kubelet",
    KEP,
    needs=Needs(free=3),
    capabilities=_RESTART,
)
def stop_keeps_assignments(node: LockstepNode) -> None:
    """The kubelet reads its state file and admits its pods with the CPUs they have."""
    _keeps(node, kill=False)


@scenario(
    "restart/sigkill-keeps-assignments",
    "Exclusive CPUs outlive a kill -9 of the kubelet",
    KEP,
    needs=Needs(free=3),
    capabilities=_RESTART,
)
def sigkill_keeps_assignments(node: LockstepNode) -> None:
    """Every change was on disk before it took effect."""
    _keeps(node, kill=True)


@scenario(
    "restart/deleted-while-down-is-freed",
    "The CPUs of a pod deleted while the kubelet is down return after its start",
    STALE_STATE,
    needs=Needs(free=2),
    capabilities=_RESTART,
)
def deleted_while_down_is_freed(node: LockstepNode) -> None:
    """The entry is stale, and goes with the first clean-up."""
    node.boot()
    whole = node.view.shared_pool
    node.apply(guaranteed("a", 1))
    node.apply(guaranteed("b", 1))
    kept = node.taken("b")
    node.stop()
    node.delete("a")
    node.start()
    node.promise_cpus("The entry is gone", "exclusive CPUs a/c", CPUSet(), node.taken("a"))
    node.promise_cpus("The other stays", "exclusive CPUs b/c", kept, node.taken("b"))
    node.promise_cpus("The CPUs are back", "shared pool", whole - kept, node.view.shared_pool)


@scenario(
    "restart/reboot-keeps-assignments",
    "Exclusive CPUs outlive a reboot of an unchanged machine",
    KEP,
    needs=Needs(free=2),
    capabilities=[*_RESTART, Capability.REBOOT],
)
def reboot_keeps_assignments(node: LockstepNode) -> None:
    """The containers are made anew, on the CPUs that the state file has for them."""
    node.boot()
    node.apply(guaranteed("a", 2))
    held = node.taken("a")
    node.kill()
    node.reboot()
    node.start()
    node.promise_cpus("The assignment stays", "exclusive CPUs a/c", held, node.taken("a"))
    node.promise_cpus("The new container has it", "cpuset a/c", held, node.cpuset("a"))


@scenario(
    "reconcile/restart-repairs-a-changed-cpuset",
    "A cpuset changed behind the kubelet's back is set right when the kubelet starts again",
    RECONCILE,
    level=Level.EXTENDED,
    since="1.22",
    needs=Needs(free=2),
    capabilities=[*_RESTART, Capability.TAMPER],
)
def restart_repairs_a_changed_cpuset(node: LockstepNode) -> None:
    """Between its starts the kubelet sends an update only when the wanted set changes, so until
    then the container runs where it was put."""
    node.boot()
    node.apply(guaranteed("a", 1))
    held = node.taken("a")
    node.tamper("a", "c", node.cpus)
    node.await_reconcile()
    node.promise_cpus("No round repairs it", "cpuset a/c", node.cpus, node.cpuset("a"))
    node.kill()
    node.start()
    node.promise_cpus("The start does", "cpuset a/c", held, node.cpuset("a"))
