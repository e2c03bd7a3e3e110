"""What a kubelet does from its start until it learns of its first pod.

What belongs here: which of its refusals comes first, and what its managers are made of. What never
does: pods (``kubelet``), and how a refusal is reported (``exit``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from reference.behaviours import Behaviour
from reference.cpumanager.before_1_18 import ManagerByContainer
from reference.cpumanager.cpu_manager import (
    CPUManager,
    require_settings,
    reserved_amount,
    reserved_milli_cpus,
)
from reference.cpumanager.policy import Policy
from reference.cpumanager.state.state_mem import Crash
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.pod_devices import PodDevices
from reference.errors import (
    DiscoveryError,
    InvalidConfiguration,
    KubeletError,
    NotModelled,
    StartupError,
)
from reference.kubelet.before_1_18 import ContainerManagerByContainer, KubeletByContainer
from reference.kubelet.configuration import as_known
from reference.kubelet.container_manager import ContainerManager, models_pod_cgroups
from reference.kubelet.cpu_quota import cpu_weight, faults_of_period, quota_period, shares_of
from reference.kubelet.kubelet import Kubelet
from reference.kubelet.reserved_cgroups import enforce_reservations
from reference.kubelet.runtime import Runtime
from reference.machine.machineinfo import MachineInfo
from reference.machine.topology import CPUTopology
from reference.memorymanager.policy_static import (
    MemoryManager,
    default_machine_state,
    require_reserved_memory,
)
from reference.memorymanager.state import State as MemoryState
from reference.memorymanager.state import validate
from reference.pods.pod_level_resources import pod_managers_on
from reference.pods.quantity import milli_value
from reference.releases import AnyRelease, has
from reference.steps import KubeletConfig
from reference.topologymanager.topology_manager import TopologyManager
from reference.topologymanager.validation import faults_of_settings


class PolicyFactory(Protocol):
    """Makes the policy of a kubelet that starts (:func:`reference.make_policy`)."""

    def __call__(
        self, topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease
    ) -> Policy: ...


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the kubelets of one release; variants of it replace a part
    (:class:`reference.node.Node`)."""

    release: AnyRelease
    policy_factory: PolicyFactory
    manager_factory: Callable[..., CPUManager]
    topology_manager_factory: Callable[..., TopologyManager] = TopologyManager
    device_manager_factory: Callable[..., DeviceManager] = DeviceManager
    memory_manager_factory: Callable[..., MemoryManager] = MemoryManager

    @property
    def factories(self) -> dict[str, Any]:
        """The factory of each part, by the names of :class:`reference.node.Node`."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "release"}

    def started(
        self,
        info: MachineInfo,
        config: KubeletConfig,
        state_file: str | None,
        runtime: Runtime,
        devices: PodDevices | None = None,
        memory: MemoryState | None = None,
        crash: Crash | None = None,
    ) -> Kubelet:
        """A kubelet that has started on this machine, over this state file and what its device
        manager and its memory manager have kept, and knows of no pod. ``crash``: the write at which
        it is killed; raises :class:`Killed`.

        Raises :class:`reference.errors.KubeletError` where it gives up, and :class:`NotModelled`.
        """
        config = as_known(config, self.release)
        require_valid(config, self.release)
        require_capacity(info, config, self.release)
        manager = self._manager(info, config)
        if config.memory_manager_policy != "None":
            reserved, whole = config.reserved_memory, config.memory_reservation
            require_reserved_memory([node.node_id for node in info.nodes], reserved, whole)
        manager.cpu_manager.state.crash = crash
        manager.cpu_manager.start(state_file, runtime.owners())
        manager.device_manager = self.device_manager_factory(
            info.numa_node_ids,
            release=self.release,
            kept=devices,
            running={(uid, name) for uid, boxes in runtime.running().items() for name in boxes},
            doubtful=runtime.restarted,
        )
        try:
            manager.memory_manager = self._memory_manager(info, config, memory)
        except KubeletError as error:  # the CPU manager starts first (seen on 1.36.4)
            if manager.cpu_manager.state.changes:
                error.state_file = manager.cpu_manager.state_file()
            raise
        left = allocatable(info, config, self.release)
        runtime.pods_weight = cpu_weight(shares_of(left))
        if not manager.cpu_manager.allocatable_cpus and models_pod_cgroups(self.release):
            runtime.pods_cpus = info.cpu_topology().cpus
        try:
            enforce_reservations(config, runtime, runtime.pods_cpus)
        except StartupError as error:  # the CPU manager starts first
            error.state_file = manager.cpu_manager.state_file()
            raise
        kind = Kubelet if self._knows_pods else KubeletByContainer
        kubelet = kind(
            manager, runtime, left, release=self.release, static_pods=not config.api_server
        )
        kubelet.huge_pages = info.huge_pages
        kubelet.begin()
        return kubelet

    def _memory_manager(
        self, info: MachineInfo, config: KubeletConfig, kept: MemoryState | None
    ) -> MemoryManager | None:
        """``None`` under policy None. Raises :class:`StateError` where its file cannot be read, is
        not valid, or was written under another policy."""
        if kept is not None:
            kept.require_policy(config.memory_manager_policy)
        if config.memory_manager_policy == "None":
            return None
        memory = {node.node_id: node.memory for node in info.nodes}
        pages = {node.node_id: dict(node.huge_pages) for node in info.nodes}
        fresh = default_machine_state(memory, config.reserved_memory, pages)
        whole = pod_managers_on(config.feature_gates, release=self.release)
        fresh.of_pods = whole  # a file that is not there is written at once
        state = (kept or fresh).taken_up(writes_pods=whole, release=self.release)
        validate(state, fresh, release=self.release)
        return self.memory_manager_factory(
            state, release=self.release, pod_managers=whole, from_server=config.api_server
        )

    @property
    def _knows_pods(self) -> bool:
        return has(self.release, Behaviour.KEYED_BY_POD)

    def _manager(self, info: MachineInfo, config: KubeletConfig) -> ContainerManager:
        topology = self._topology(info, config)
        require_settings(topology, config, release=self.release)
        topology_manager = self.topology_manager_factory(info, config, release=self.release)
        policy = self.policy_factory(topology, config, release=self.release)
        make = self.manager_factory
        if make is CPUManager and not self._knows_pods:
            make = ManagerByContainer
        cpu_manager = make(policy, release=self.release, feature_gates=config.feature_gates)
        kind = ContainerManager if self._knows_pods else ContainerManagerByContainer
        period = quota_period(config, release=self.release)
        return kind(topology_manager, cpu_manager, release=self.release, period=period)

    def _topology(self, info: MachineInfo, config: KubeletConfig) -> CPUTopology:
        """The machine's topology; an empty one where it is not needed, up to 1.31 under policy
        none."""
        asked = has(self.release, Behaviour.DISCOVERY_UNDER_NONE) or info.refusal
        if asked or config.policy != "none" or config.reserved_system_cpus:
            return info.cpu_topology()
        try:
            return info.cpu_topology()
        except DiscoveryError:
            return CPUTopology.of({})


def require_valid(config: KubeletConfig, release: AnyRelease) -> None:
    """Refuse what the kubelet refuses from its settings alone. Raises
    :class:`InvalidConfiguration`."""
    faults = faults_of_period(config, release=release)
    faults += faults_of_settings(config, release=release)
    if faults:
        raise InvalidConfiguration(faults, wrapped=has(release, Behaviour.SETTINGS_LIST_VALUES))


def require_capacity(info: MachineInfo, config: KubeletConfig, release: AnyRelease) -> None:
    """A reservation above the capacity is refused by the static policy. Without it the kubelet
    fails later, with a text that shows Go's internals. Raises :class:`NotModelled`, and as
    :func:`reserved_milli_cpus`."""
    if config.policy != "none":
        return
    reserved, capacity = reserved_milli_cpus(config, release=release), info.num_cores * 1000
    if reserved > capacity > 0:
        raise NotModelled(f"a reservation of {reserved}m cpu on a machine of {capacity}m")


def allocatable(info: MachineInfo, config: KubeletConfig, release: AnyRelease) -> int:
    """The cpu that pods may ask for, in thousandths: what is not reserved, rounded up (seen on
    1.26.15, 1.32.2, 1.36.4 and 1.37.0). Raises as :func:`reserved_amount`."""
    return milli_value(info.num_cores - reserved_amount(config, release=release))
