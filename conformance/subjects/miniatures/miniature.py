"""A miniature: the model with a fault in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from conformance.discovered import info_of
from conformance.subjects.miniatures.nodes import Reader
from conformance.subjects.miniatures.settings import Reading
from conformance.subjects.miniatures.switched import switch
from reference import NEWEST, CPUManager, CPUTopology, Node
from reference.cpumanager.cpu_manager import make_policy
from reference.cpumanager.policy import Policy
from reference.cpumanager.policy_static import StaticPolicy
from reference.devicemanager.manager import DeviceManager
from reference.kubelet.startup import PolicyFactory
from reference.memorymanager.policy_static import MemoryManager
from reference.releases import AnyRelease
from reference.steps import KubeletConfig
from reference.topologymanager.topology_manager import TopologyManager

_Part = TypeVar("_Part")

#: A class that takes the place of the model's own part, a reading of the configuration, or the name
#: of a behaviour that is switched: ``true-sizes`` (the release has it), ``true-sizes=off``.
Wrong: TypeAlias = (
    type[StaticPolicy | CPUManager | TopologyManager | DeviceManager | MemoryManager | Reader]
    | Reading
    | str
)


@dataclass(frozen=True, slots=True)
class Miniature:
    """The faults (one, or several), and the scenario that must catch them, on this machine and in
    this release; ``also`` are others that do. ``making`` makes a policy. No scenario must catch a
    switched behaviour."""

    wrong: Wrong | tuple[Wrong, ...]
    caught_by: str
    machine: str = "1s-1n-4c-smt2"
    also: tuple[str, ...] = ()
    making: PolicyFactory = make_policy
    release: str = NEWEST

    @property
    def says(self) -> str:
        """The faults in words, a sentence each."""
        factories = [] if self.making is make_policy else [self.making]
        return " ".join(_said(one) for one in (*self._wrong, *factories))

    @property
    def _wrong(self) -> tuple[Wrong, ...]:
        return self.wrong if isinstance(self.wrong, tuple) else (self.wrong,)

    def _part(self, kind: type[_Part]) -> type[_Part]:
        """The wrong class of this kind, or the kind itself."""
        classes = (one for one in self._wrong if isinstance(one, type))
        return next((one for one in classes if issubclass(one, kind)), kind)

    def node(
        self,
        trees: Callable[[str], Mapping[str, str]],
        machine: str,
        config: KubeletConfig,
        release: str,
    ) -> Node:
        """A node of the model with all faults."""
        switched = [one for one in self._wrong if isinstance(one, str)]
        readings = (one for one in self._wrong if not isinstance(one, type | str))
        reading = next(readings, lambda config: config)
        node = self._part(Reader)(
            trees,
            machine,
            reading(config),
            release="+".join([release, *switched]),
            policy_factory=self._policy,
            manager_factory=self._part(CPUManager),
            topology_manager_factory=self._part(TopologyManager),
            device_manager_factory=self._part(DeviceManager),
            memory_manager_factory=self._part(MemoryManager),
            discovering=info_of,
        )
        node.reading = reading
        return node

    def _policy(
        self, topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease
    ) -> Policy:
        right, wrong = self.making(topology, config, release=release), self._part(StaticPolicy)
        if wrong is StaticPolicy or not isinstance(right, StaticPolicy):
            return right
        return wrong(
            right.topology,
            right.reserved,
            release=release,
            options=right.options,
            pod_managers=right.pod_managers,
        )


def _said(wrong: object) -> str:
    if isinstance(wrong, str):
        return switch(wrong).says
    return " ".join((wrong.__doc__ or "").split("\n\n")[0].split())
