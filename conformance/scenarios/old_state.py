"""State files of other releases, and what early releases made of a bad one."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.promises import EVERY_CPU
from conformance.scenario import Capability, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import EDITS
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.cpumanager.state.checkpoint import Layout, encode
from topologies import machine

_state: Final = partial(promised, area="state")


def _start_on(node: LockstepNode, text: str) -> None:
    """Start the kubelet on this state file."""
    node.boot()
    node.stop()
    node.write_state(text)
    node.start()


def _file(layout: Layout, default: str, entries: dict[str, str] | None = None) -> str:
    """A state file of this layout, whose checksum is right."""
    content = {"policyName": "static", "defaultCpuSet": default, "entries": entries or {}}
    return encode(layout, content)


@_state(sources.MIGRATED, until="1.36", capabilities=EDITS)
def version_1_file_is_read(node: LockstepNode) -> None:
    """A state file of 1.17 or before without assignments is read by its successors up to 1.36.
    So a node can be updated in place."""
    _start_on(node, _file(Layout.V1, str(node.cpus)))
    node.promise_running("The kubelet starts")
    node.promise_pool("Its CPUs are shared", node.cpus)


@_state(sources.MIGRATED, since="1.37", capabilities=EDITS)
def version_1_file_is_refused(node: LockstepNode) -> None:
    """From 1.37 on a state file of 1.17 or before keeps the kubelet from starting.
    It counts as damaged."""
    _start_on(node, _file(Layout.V1, str(node.cpus)))
    node.promise_refusal("could not restore state from checkpoint")


@_state(sources.MIGRATED, until="1.36", capabilities=EDITS)
def version_1_file_of_unknown_containers(node: LockstepNode) -> None:
    """A state file of 1.17 or before is refused up to 1.36 where its containers are not known.
    The file names containers by id, and the runtime says which pod an id belongs to."""
    last = CPUSet([max(node.cpus)])
    _start_on(node, _file(Layout.V1, str(node.cpus - last), {"0123456789": str(last)}))
    node.promise_refusal("containerID '0123456789' not found in initial containers list")


@_state(sources.RANGES, since="1.22", capabilities=EDITS)
def backward_range_is_refused(node: LockstepNode) -> None:
    """A state file with a CPU range that runs backwards keeps the kubelet from starting.
    From 1.27 on the error says which number is greater than which."""
    _start_on(node, _file(Layout.V2, f"{node.cpus},3-1"))
    sign = ">" if node.release_has(Behaviour.RANGE_TEXT_GREATER) else ">="
    node.promise_refusal(f"3 {sign} 1")


@_state(sources.BAD_STATE_FORGOTTEN, since="1.9", until="1.9", capabilities=EDITS)
def bad_file_is_forgotten(node: LockstepNode) -> None:
    """In 1.9 a state file that cannot be read is forgotten, and every CPU is shared.
    The fault is in its log alone."""
    _start_on(node, "{")
    node.promise_running("The kubelet starts")
    node.promise_pool("Every CPU is shared", node.cpus)


@_state(sources.BAD_STATE_PANICS, since="1.10", until="1.11", capabilities=EDITS)
def bad_file_panics(node: LockstepNode) -> None:
    """In 1.10 and 1.11 a state file that cannot be read makes the kubelet panic.
    It cannot guarantee the CPUs of containers that run."""
    _start_on(node, "{")
    node.promise_refusal("[cpumanager] state file: unable to restore state from disk")


@_state(sources.CPUS_CHANGED, since="1.12", until="1.17", capabilities=EDITS)
def of_other_cpus_stops_the_managers(node: LockstepNode) -> None:
    """Up to 1.17 a kubelet stays up over a state file of other CPUs, without its managers.
    A known defect: the policy's panic is caught, and stands in the log alone. Without the
    file the kubelet starts with every CPU shared."""
    node.expect_hang()
    more = node.cpus | CPUSet([max(node.topology.details) + 1])
    _start_on(node, _file(Layout.V1, str(more)))
    node.promise_equal("It neither starts nor ends", "it hangs", True, node.hangs)
    node.kill()
    node.remove_state()
    node.start()
    node.promise_pool("Every CPU is shared", node.cpus)


@promised(
    sources.CPUS_CHANGED, area="machine", since="1.9", until="1.11", machine="1s-1n-4c-smt1",
    capabilities=(*EDITS, Capability.REBOOT),
)  # fmt: skip
def added_cpus_are_not_used(node: LockstepNode) -> None:
    """Up to 1.11 a kubelet starts after CPUs were added, and does not use them.
    A known defect: the kubelet takes the machine's CPUs from its state file alone."""
    node.expect_broken(EVERY_CPU)
    node.boot()
    node.kill()
    node.reboot(machine("1s-1n-4c-smt2"))
    node.start()
    node.promise_running("The kubelet starts")
    node.promise_pool("The former CPUs are shared", CPUSet.parse("0-3"))
