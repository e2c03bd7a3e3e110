"""What a change of the machine or of the settings does to the pods that run.

What belongs here: the kubelet that starts over the state file that it left, and the pods that it
ends. What never does: how it is shown (``simulate``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from conformance.checks import each
from pinproof.memory_settings import is_left_out
from pinproof.simulation import Answer, KubeletRefuses, StateFile, answer
from reference import CPUSet, CPUTopology
from reference.steps import KubeletConfig
from reference.view import View
from reports.text import few
from topologies import Machine
from topologies.errors import one_line

_STATE: Final = "cpu_manager_state"

#: A container, as ``pod/container``, and its CPUs before and after.
Held: TypeAlias = tuple[str, CPUSet, CPUSet]


@dataclass(frozen=True, slots=True)
class Change:
    """A node ``before`` and ``after`` a change. ``after`` is ``None`` where the kubelet does not
    start; ``refusal`` says why."""

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

    def held(self) -> list[Held]:
        """Each container that holds CPUs before, as :func:`held_before`."""
        return held_before(self.before.view, self.after.view if self.after else None)

    def notes(self) -> Iterator[str]:
        """As :func:`renumbered`."""
        if self.after is not None:
            yield from renumbered(self.held(), self.before.topology, self.after.topology)


def changed(
    before: Answer, machine: Machine, config: KubeletConfig, notes: Collection[str] = ()
) -> Change:
    """What becomes of the pods that run before, once the kubelet starts again on ``machine`` with
    ``config``, over the state files that it left. ``notes``: on the configuration."""
    running = [pod for pod in before.pods if not before.refused(pod)]
    state = StateFile(_STATE, before.view.state_file or "")
    try:
        after = answer(
            machine, config, running,
            state=state if state.text else None,
            release=before.release,
            notes=notes,
            memory_state=None if is_left_out([*before.notes, *notes]) else before.memory_state,
        )  # fmt: skip
    except KubeletRefuses as refusal:
        return Change(before, None, refusal)
    return Change(before, after)


def held_before(before: View, after: View | None) -> list[Held]:
    """Each container that holds CPUs before, with these CPUs and those that it holds after."""
    found = after.assignments if after else {}
    return [
        (f"{pod}/{container}", cpus, found.get(pod, {}).get(container, CPUSet()))
        for pod, container, cpus in each(before.assignments)
        if cpus
    ]


def renumbered(held: Iterable[Held], before: CPUTopology, after: CPUTopology) -> Iterator[str]:
    """A note for each container that keeps the numbers of its CPUs, where these are on other NUMA
    nodes now."""
    for owner, cpus, cpus_after in held:
        was, now = _nodes_of(before, cpus), _nodes_of(after, cpus_after)
        if cpus == cpus_after and was != now:
            yield f"{owner} keeps CPUs {cpus}, of NUMA node {was} before and {now} after"


def ended_text(pods: Collection[str], where: str = "", end: str = "") -> str:
    """Says that a kubelet would end these pods, which hold CPUs."""
    text = f"{len(pods)} pod{' that holds' if len(pods) == 1 else 's that hold'} CPUs"
    return one_line(f"{text} would be ended{where}: {few(tuple(pods), 5)}{end}")


def _nodes_of(topology: CPUTopology, cpus: CPUSet) -> CPUSet:
    details = topology.details
    return CPUSet(details[cpu].numa for cpu in cpus if cpu in details)
