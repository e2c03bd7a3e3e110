"""The machine's CPUs change between two starts of the kubelet."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Capability, Needs
from conformance.scenarios.abilities import EDITS, REJECTIONS, RESTARTED
from conformance.scenarios.entering import core
from conformance.scenarios.sources import CPUS_CHANGED
from reference import CPUSet
from topologies import Machine, machine, offline

#: All but the last physical core are enough.
_LAST_CORE_SPARE: Final = Needs(free=3, cores=3)
_RECOVERS: Final = (*EDITS, *RESTARTED, *REJECTIONS, Capability.REBOOT)
_changed: Final = partial(core, area="machine", source=CPUS_CHANGED, capabilities=_RECOVERS)


def _reboot_and_recover(
    node: LockstepNode, as_one: Machine, count: int, *, now: CPUSet, state: CPUSet
) -> None:
    """Boot as a machine with CPUs ``now``, where the state file has others, and recover: the pod
    has so many CPUs again."""
    node.kill()
    node.reboot(as_one)
    node.start()
    node.promise_refusal()
    text = f'current set of available CPUs "{now}" doesn\'t match with CPUs in state "{state}"'
    rule, error = "The error names both sets of CPUs", node.view.error
    node.promise_equal(rule, "kubelet's error", text, error)
    node.remove_state()
    node.start()
    node.promise_running("With the state file removed, the kubelet starts")
    taken = node.taken("a")
    node.promise_equal("The pod has its CPUs again", "CPUs of a/c", count, len(taken))
    node.promise_cpuset("It runs on these", "a", taken)
    rule, seen = "Every CPU of the new machine is in the state", node.view.shared_pool | taken
    node.promise_cpus(rule, "exclusive CPUs and shared pool", node.cpus, seen)


def _last_core(node: LockstepNode) -> CPUSet:
    """The CPUs of the physical core with the highest CPU."""
    return node.topology.with_siblings(CPUSet([max(node.topology.details)]))


@_changed(machine="1s-1n-4c-smt1")
def cpu_upgrade_incident(node: LockstepNode) -> None:
    """After a CPU upgrade from CPUs 0-3 to 0-7 the kubelet refuses to start until its state file is
    removed.
    The incident that this project began with, and how to recover: remove the state file, start
    the kubelet again."""
    node.boot()
    node.run(guaranteed("a", 2))
    now, before = CPUSet.parse("0-7"), CPUSet.parse("0-3")
    _reboot_and_recover(node, machine("1s-1n-4c-smt2"), 2, now=now, state=before)


@_changed(needs=_LAST_CORE_SPARE)
def added_cpus_are_refused(node: LockstepNode) -> None:
    """After CPUs were added the kubelet refuses to start until its state file is removed.
    The last physical core is there only after the reboot."""
    whole, added = node.machine, _last_core(node)
    node.boot(machine=offline(whole, added))
    node.apply(guaranteed("a", 1))
    _reboot_and_recover(node, whole, 1, now=node.cpus | added, state=node.cpus)


@_changed(needs=_LAST_CORE_SPARE)
def removed_cpus_are_refused(node: LockstepNode) -> None:
    """After CPUs were removed the kubelet refuses to start until its state file is removed.
    The last physical core is gone after the reboot."""
    removed = _last_core(node)
    node.boot_with(guaranteed("a", 1))
    smaller = offline(node.machine, removed)
    _reboot_and_recover(node, smaller, 1, now=node.cpus - removed, state=node.cpus)
