"""What a change of the machine or of the settings does to the pods that run.

What belongs here: the kubelet that starts over the state file that it left, and whom that ends.
What never does: how it is shown (``simulate``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from conformance.checks import each
from pinproof.simulation import Answer, KubeletRefuses, StateFile, answer
from reference import CPUSet, CPUTopology
from reference.steps import KubeletConfig
from topologies import Machine

_STATE: Final = "cpu_manager_state"


@dataclass(frozen=True, slots=True)
class Change:
    """A node ``before``, and ``after``: ``None`` where the kubelet does not start, as ``refusal``
    says."""

    before: Answer
    after: Answer | None
    refusal: KubeletRefuses | None = None

    @property
    def ended(self) -> tuple[str, ...]:
        """The pods that hold CPUs before and are not running afterwards: the kubelet rejects them,
        or does not start until the node is drained."""
        holding = dict.fromkeys(pod for pod, _, cpus in each(self.before.view.assignments) if cpus)
        after = self.after
        if after is None:
            return tuple(holding)
        rejected = {pod.name for pod in after.pods if after.refused(pod)}
        return tuple(pod for pod in holding if pod in rejected)

    def held(self) -> Iterator[tuple[str, CPUSet, CPUSet]]:
        """Each container that holds CPUs before, with these, and those that it holds after."""
        found = self.after.view.assignments if self.after else {}
        for pod, container, cpus in each(self.before.view.assignments):
            if cpus:
                yield f"{pod}/{container}", cpus, found.get(pod, {}).get(container, CPUSet())

    def notes(self) -> Iterator[str]:
        """Containers that keep the numbers of their CPUs, which are on other NUMA nodes now."""
        if self.after is None:
            return
        for owner, before, after in self.held():
            was, now = nodes_of(self.before.topology, before), nodes_of(self.after.topology, after)
            if before == after and was != now:
                yield kept_numbers(owner, before, was, now)


def changed(before: Answer, machine: Machine, config: KubeletConfig) -> Change:
    """What becomes of the pods that run before, once the kubelet starts again on ``machine`` with
    ``config``, over the state file that it left."""
    running = [pod for pod in before.pods if not before.refused(pod)]
    state = StateFile(_STATE, before.view.state_file or "")
    try:
        after = answer(
            machine, config, running, state=state if state.text else None, release=before.release
        )
    except KubeletRefuses as refusal:
        return Change(before, None, refusal)
    return Change(before, after)


def kept_numbers(owner: str, cpus: CPUSet, was: CPUSet, now: CPUSet) -> str:
    """That a container keeps the numbers of its CPUs, which are on other NUMA nodes now."""
    return f"{owner} keeps CPUs {cpus}, of NUMA node {was} before and {now} after"


def nodes_of(topology: CPUTopology, cpus: CPUSet) -> CPUSet:
    """The NUMA nodes of these CPUs."""
    details = topology.details
    return CPUSet(details[cpu].numa for cpu in cpus if cpu in details)
