"""The machine of a scenario, and how it changes."""

from __future__ import annotations

import topologies
from conformance.describe import topology_text
from conformance.discovered import info_of, topology_of
from conformance.lockstep.outcome import machine_record
from conformance.results import MachineRecord
from reference import CPUSet, CPUTopology
from topologies import Machine


class Machines:
    """The machines that a scenario's node is, one after another. ``machine`` is the current one,
    ``topology`` what its kubelet found when it started, ``online`` the CPUs that are online."""

    def __init__(self, machine: Machine, *, release: str, architecture: str | None) -> None:
        self._release = release
        self._architecture = architecture
        self._derived: dict[str, Machine] = {machine.name: machine}
        self.first = machine.name
        self._next_topology: CPUTopology | None = None
        self.machine = machine
        self.topology = self._topology_of(machine)
        self.online = CPUSet(self.topology.details)

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """The ids of the NUMA nodes that the Topology Manager counts."""
        tree, built_for = self.machine.tree, self._architecture
        return info_of(tree, release=self._release, architecture=built_for).numa_node_ids

    @property
    def changed(self) -> MachineRecord | None:
        """The machine, if it is another one than at first."""
        if self.machine.name == self.first:
            return None
        return machine_record(self.machine, self.topology)

    def find(self, name: str) -> Machine:
        """A machine of this scenario, or of the catalogue."""
        return self._derived.get(name) or topologies.machine(name)

    def move_to(self, machine: Machine) -> None:
        """Make the node this machine from now on."""
        self._derived[machine.name] = machine
        self.machine = machine
        self.topology = self._topology_of(machine)
        self._next_topology, self.online = None, CPUSet(self.topology.details)

    def switch(self, online: CPUSet) -> Machine:
        """Make these CPUs of the first machine the online ones. Only a kubelet that starts later
        discovers the change."""
        whole = self._derived[self.first]
        gone = CPUSet(self._topology_of(whole).details) - online
        machine = topologies.offline(whole, gone) if gone else whole
        self._derived[machine.name] = self.machine = machine
        self._next_topology = self._topology_of(machine)
        self.online = online
        return machine

    def discover(self) -> None:
        """Let a kubelet that starts find the machine as it is."""
        if self._next_topology is not None:
            self.topology, self._next_topology = self._next_topology, None

    def totals(self) -> str:
        """The machine's size in words, with its name if it is another one than at first."""
        text = topology_text(self.topology)
        return text if self.machine.name == self.first else f"by now {self.machine.name}, {text}"

    def _topology_of(self, machine: Machine) -> CPUTopology:
        return topology_of(machine, release=self._release, architecture=self._architecture)
