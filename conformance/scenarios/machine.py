"""The machine's CPUs change between two starts of the kubelet."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import guaranteed
from conformance.scenario import Level, scenario
from conformance.scenarios.sources import CPUS_CHANGED
from conformance.subject import Capability
from reference import CPUSet
from reference.view import Phase
from topologies import machine, offline

_CHANGES = (
    Capability.RESTART,
    Capability.REBOOT,
    Capability.EDIT_STATE,
    Capability.START_ERROR,
    Capability.CPUSETS,
    Capability.REJECTIONS,
)


def _promise_mismatch(node: LockstepNode, now: CPUSet, state: CPUSet) -> None:
    node.promise_refusal()
    node.promise_equal(
        "The error names both sets of CPUs",
        "kubelet's error",
        f'current set of available CPUs "{now}" doesn\'t match with CPUs in state "{state}"',
        node.view.error,
    )


def _promise_recovery(node: LockstepNode, count: int) -> None:
    node.remove_state()
    node.start()
    node.promise_running("With the state file removed, the kubelet starts")
    taken = node.taken("a")
    node.promise_equal("The pod has its CPUs again", "CPUs of a/c", count, len(taken))
    node.promise_cpus("It runs on these", "cpuset a/c", taken, node.cpuset("a"))
    node.promise_cpus(
        "Every CPU of the new machine is in the state",
        "exclusive CPUs and shared pool",
        node.cpus,
        node.view.shared_pool | taken,
    )


def _last_core(node: LockstepNode) -> CPUSet:
    """The CPUs of the physical core with the highest CPU."""
    return node.topology.with_siblings(CPUSet([max(node.topology.details)]))


@scenario(
    "machine/cpu-upgrade-incident",
    "After a CPU upgrade from CPUs 0-3 to 0-7 the kubelet refuses to start until its state file "
    "is removed",
    CPUS_CHANGED,
    level=Level.CORE,
    capabilities=_CHANGES,
    machine="1s-1n-4c-smt1",
)
def cpu_upgrade_incident(node: LockstepNode) -> None:
    """The incident that this project began with, and how to recover: remove the state file, start
    the kubelet again."""
    node.boot()
    status = node.apply(guaranteed("a", 2))
    node.promise_equal("The pod runs", "phase of pod a", Phase.RUNNING, status.phase)
    node.kill()
    node.reboot(machine("1s-1n-4c-smt2"))
    node.start()
    _promise_mismatch(node, CPUSet.parse("0-7"), CPUSet.parse("0-3"))
    _promise_recovery(node, 2)


@scenario(
    "machine/added-cpus-are-refused",
    "After CPUs were added the kubelet refuses to start until its state file is removed",
    CPUS_CHANGED,
    level=Level.CORE,
    needs=Needs(free=3, cores=3),
    capabilities=_CHANGES,
)
def added_cpus_are_refused(node: LockstepNode) -> None:
    """The last physical core is there only after the reboot."""
    whole, added = node.machine, _last_core(node)
    node.boot(machine=offline(whole, added))
    before = node.cpus
    node.apply(guaranteed("a", 1))
    node.kill()
    node.reboot(whole)
    node.start()
    _promise_mismatch(node, before | added, before)
    _promise_recovery(node, 1)


@scenario(
    "machine/removed-cpus-are-refused",
    "After CPUs were removed the kubelet refuses to start until its state file is removed",
    CPUS_CHANGED,
    level=Level.CORE,
    needs=Needs(free=3, cores=3),
    capabilities=_CHANGES,
)
def removed_cpus_are_refused(node: LockstepNode) -> None:
    """The last physical core is gone after the reboot."""
    removed = _last_core(node)
    node.boot()
    before = node.cpus
    node.apply(guaranteed("a", 1))
    node.kill()
    node.reboot(offline(node.machine, removed))
    node.start()
    _promise_mismatch(node, before - removed, before)
    _promise_recovery(node, 1)
