"""Results of driving a node: what was seen, who holds which CPUs, and how a scenario ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.holders import holders
from conformance.results import Failure, Holding, MachineRecord, Moment
from conformance.subject import Origin, WithEvidence
from reference import CPUSet, CPUTopology
from reference.view import View
from topologies import Machine


class Divergence(Exception):
    """The subject broke a promise or an invariant, or differs from the oracle."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.rule)
        self.failure = failure


class CouldNotTell(WithEvidence):
    """No verdict is possible; ``str()`` says why."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One step and the settled view after it, as recordings keep it. ``origin`` is what a view of a
    real node was made from."""

    step: str
    view: View
    origin: Origin | None = None


def machine_record(machine: Machine, topology: CPUTopology | None) -> MachineRecord:
    """The machine as the result stream has it; without CPUs if they cannot be discovered."""
    return MachineRecord(
        name=machine.name,
        shape=machine.shape,
        digest=machine.digest,
        cpus=dict(topology.details) if topology else {},
    )


def holdings(view: View, reserved: CPUSet) -> list[Holding]:
    """Who holds which CPUs in a view, reserved CPUs and the rest of the shared pool last."""
    held = holders(view, reserved).items()
    return [Holding(owner=owner, cpus=str(cpus)) for owner, cpus in held]


def moments(history: Iterable[Seen], reserved: CPUSet) -> list[Moment]:
    """Who held which CPUs after each step that changed it, in order."""
    found: list[Moment] = []
    for one in history:
        held = holdings(one.view, reserved)
        if not found or held != found[-1].holdings:
            found.append(Moment(step=one.step, holdings=held))
    return found
