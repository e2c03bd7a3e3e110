"""What a scenario reads of the node that it drives."""

from __future__ import annotations

from typing import Final

from conformance.discovered import architecture_of, first_core
from conformance.lockstep.comparison import Comparison, Offence
from conformance.lockstep.machines import Machines
from conformance.lockstep.outcome import Seen, holdings, moments
from conformance.promises import Situation
from conformance.results import Failure
from conformance.subject import (
    HasLargerMachines,
    HasOwnConfig,
    NodeUnderTest,
    Subject,
    SubjectUnable,
    configured,
)
from conformance.waiting import Waiting
from reference import CPUSet, CPUTopology
from reference.behaviours import Behaviour
from reference.kubelet.configuration import reserved_cpus, reserving
from reference.releases import has
from reference.steps import KubeletConfig, Pod
from reference.view import Asked, Enforced, View
from topologies import Machine

NODE_DOWN: Final = View(running=False)


class Readings:
    """A node under test, as it is after the steps so far.

    ``view`` is what was last seen; ``steps`` are the steps so far, in words; ``history`` has the
    view after each; ``enlarged_to`` names the machine of :meth:`larger`, ``""`` before.
    """

    def __init__(
        self, subject: Subject, machine: Machine, *, release: str, waiting: Waiting | None = None
    ) -> None:
        self.release = release
        built_for = architecture_of(subject.info)
        self._machines = Machines(machine, release=release, architecture=built_for)
        self._subject = subject
        self._node: NodeUnderTest | None = None
        self._comparison = Comparison(subject.capabilities, waiting or Waiting(), self._situation)
        self.view = NODE_DOWN
        self.steps: list[str] = []
        self.history: list[Seen] = []
        self.kubelet_errors: list[str] = []
        self.enlarged_to = ""
        self.config = configured(subject, machine.name, self.default_config())
        self._pods: dict[str, Pod] = {}
        self._tampered: set[tuple[str, str]] = set()
        self._lost = CPUSet()

    @property
    def machine(self) -> Machine:
        """The machine that the node is now."""
        return self._machines.machine

    @property
    def topology(self) -> CPUTopology:
        """The machine's topology, as the last kubelet that was started discovered it."""
        return self._machines.topology

    @property
    def witness(self) -> str:
        """What says what is expected; ``""`` before the node is booted."""
        return self._comparison.witness

    @property
    def by_chance(self) -> bool:
        """Whether chance decided a step otherwise than the oracle had it."""
        return self._comparison.by_chance

    @property
    def cpus(self) -> CPUSet:
        """All CPUs that the kubelet finds on the machine."""
        return CPUSet(self.topology.details)

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """The ids of the NUMA nodes that the Topology Manager counts, those without CPUs too."""
        return self._machines.numa_nodes

    @property
    def reservable(self) -> CPUSet:
        """The CPUs that can be reserved by list: up to 1.21, only those with ids lower than the
        number of CPUs."""
        if self.release_has(Behaviour.RESERVED_CPUS_ARE_ONLINE):
            return self.cpus
        return self.cpus & CPUSet(range(len(self.cpus)))

    @property
    def reserved(self) -> CPUSet:
        """The CPUs reserved by list; empty if only a number is configured. Up to 1.16 only a number
        can be configured: then the CPUs that the kubelet chooses."""
        return reserved_cpus(self.topology, self.config, release=self.release) or CPUSet()

    @property
    def free(self) -> CPUSet:
        """The CPUs that may still become exclusive: shared pool without the reserved ones."""
        return self.view.shared_pool - self.reserved

    def taken(self, pod: str, container: str = "c") -> CPUSet:
        """A container's exclusive CPUs; empty if it has none."""
        return self.view.assignments.get(pod, {}).get(container, CPUSet())

    def cpuset(self, pod: str, container: str = "c") -> CPUSet:
        """The cpuset of a running container; empty if it runs without one or not at all."""
        return self.view.cpusets.get(pod, {}).get(container) or CPUSet()

    def enforced(self, pod: str, container: str = "c") -> Enforced:
        """What the kernel enforces for a running container; empty if it does not run."""
        return self.view.enforced.get(pod, {}).get(container, Enforced(CPUSet(), CPUSet()))

    def quota(self, pod: str, container: str = "c") -> int | None:
        """The CFS quota of a running container in microseconds of each period; ``None`` if it has
        none or does not run."""
        seen = self.view.cfs.get(pod, {}).get(container)
        return seen.quota if seen is not None else None

    def shares(self, pod: str, container: str = "c") -> int | None:
        """The CPU shares of a running container; ``None`` if they cannot be seen."""
        seen = self.view.cfs.get(pod, {}).get(container)
        return seen.shares if seen is not None else None

    def asked(self, pod: str, container: str = "c") -> Asked:
        """What the kubelet asked of the runtime for a running container; empty for any other."""
        return self.view.asked.get(pod, {}).get(container, Asked(None, None))

    @property
    def hangs(self) -> bool:
        """Whether the kubelet hangs, as the scenario has said it may (:meth:`expect_hang`)."""
        return bool(self.view.hangs)

    def pod_resources(self, pod: str, container: str = "c") -> CPUSet | None:
        """The CPUs of a container in the kubelet's last answer at its pod-resources socket; empty
        if it reports the container without a CPU, ``None`` if it has no entry for it."""
        return (self.view.pod_resources or {}).get(pod, {}).get(container)

    def got_pod(self, container: str = "c") -> CPUSet | None:
        """The same for the one pod that was asked for."""
        return (self.view.got_pod or {}).get(container)

    def release_has(self, behaviour: Behaviour) -> bool:
        """Whether the release by which the node is judged has a named behaviour."""
        return has(self.release, behaviour)

    def default_config(self) -> KubeletConfig:
        """The subject's own configuration if it has one (as a node in use); else policy static with
        the physical core of the lowest CPU reserved, or up to 1.16 as many CPUs."""
        if isinstance(self._subject, HasOwnConfig):
            own = self._subject.own_config(self.machine.name)
            if own is not None:
                return own
        core = first_core(self.topology)
        return reserving(core & self.reservable, release=self.release)

    def larger(self) -> Machine:
        """A machine like this one with more CPUs, which the subject can boot. Raises
        :class:`SubjectUnable` if there is none."""
        subject = self._subject
        found = (
            subject.larger(self._machines.first) if isinstance(subject, HasLargerMachines) else None
        )
        if found is None:
            raise SubjectUnable("needs a node that can be booted with more CPUs")
        self.enlarged_to = found.name
        return found

    def totals(self) -> str:
        """The machine's size in words, with its name if it is another one than at first."""
        return self._machines.totals()

    def _failure(self, offence: Offence, expected: View | None) -> Failure:
        """The offence with who holds which CPUs, if it is about CPUs."""
        shown = {"expected_holdings": expected, "seen_holdings": self.view}
        held = {
            side: holdings(view, self.reserved)
            for side, view in shown.items()
            if view is not None and offence.of_cpus
        }
        return Failure(
            rule=f"{offence.rule}{self._comparison.waited}",
            differences=offence.differences,
            moments=moments(self.history, self.reserved) if offence.of_cpus else [],
            machine=self._machines.changed,
            **held,
        )

    def _situation(self) -> Situation:
        return Situation(
            config=self.config,
            pods=self._pods,
            cpus=self.cpus,
            reserved=self.config.reserved_system_cpus,
            can=self._subject.capabilities,
            tampered=frozenset(self._tampered),
            lost=self._lost,
            release=self.release,
            online=self._machines.online,
            topology=self.topology,
        )
