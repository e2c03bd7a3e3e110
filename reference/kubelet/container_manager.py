"""The container manager: it owns the Topology Manager and the managers that give it hints.

What belongs here: who is asked when a pod is admitted or resized, when a container is created, and
in a reconcile round. What never does: what they answer.
Source: ``containerManagerImpl``, ``pkg/kubelet/cm/container_manager_linux.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import CPUManager
from reference.cpumanager.policy_static import StaticPolicy
from reference.cpuset import CPUSet
from reference.devicemanager.manager import DeviceManager
from reference.errors import (
    AllocationError,
    KubeletPanics,
    MemoryManagerError,
    TopologyAffinityError,
)
from reference.kubelet.cpu_quota import cfs_quota, cfs_shares, pod_cfs, sandbox_quota, with_limit_of
from reference.memorymanager.policy_static import MemoryManager, of_huge_pages
from reference.pods.pod import Container, Pod
from reference.releases import AnyRelease, has, minor_of
from reference.topologymanager.topology_manager import HintProvider, TopologyManager
from reference.topologymanager.validation import TopologyPolicy
from reference.view import CFS, CFS_PERIOD

_POD_CGROUPS_SINCE: Final = 32


def models_pod_cgroups(release: AnyRelease) -> bool:
    """Whether the cgroups of pods are modelled. Releases before 1.32 were not looked at."""
    return minor_of(release) >= _POD_CGROUPS_SINCE


class ContainerManager:
    """``containerManagerImpl`` of one run of the kubelet, whose CFS quotas are of each ``period``
    microseconds; ``None``: containers have no quotas."""

    def __init__(
        self,
        topology_manager: TopologyManager,
        cpu_manager: CPUManager,
        device_manager: DeviceManager | None = None,
        memory_manager: MemoryManager | None = None,
        *,
        release: AnyRelease,
        period: int | None = CFS_PERIOD,
    ) -> None:
        self.topology_manager = topology_manager
        self.cpu_manager = cpu_manager
        self.device_manager = device_manager or DeviceManager(release=release)
        self.memory_manager = memory_manager
        self._release = release
        self._period = period

    def copy(self) -> ContainerManager:
        """An independent copy; the Topology Manager remembers nothing."""
        memory = self.memory_manager
        return type(self)(
            self.topology_manager,
            self.cpu_manager.copy(),
            self.device_manager.copy(),
            memory.copy() if memory else None,
            release=self._release,
            period=self._period,
        )

    @property
    def hint_providers(self) -> list[HintProvider]:
        """The managers that give hints and allocate, in this order."""
        providers: list[HintProvider] = [*self.device_manager.of_each_resource(), self.cpu_manager]
        if (memory := self.memory_manager) is None:
            return providers
        return [*providers, memory, *of_huge_pages(memory)]

    def use_active_pods(self, active_pods: Callable[[], Iterable[Pod]]) -> None:
        """``Start`` passes ``ActivePodsFunc`` on, which names the active pods, the one that is
        being admitted among them."""
        self.cpu_manager.active_pods = self.device_manager.active_pods = active_pods
        if self.memory_manager:
            self.memory_manager.active_pods = active_pods

    def admit(self, pod: Pod) -> None:
        """Admission of a pod, which is active already. What earlier containers got before a refusal
        stays theirs until it is stale. Raises :class:`AllocationError`,
        :class:`TopologyAffinityError`."""
        manager = self.cpu_manager
        before, waited = manager.served, self.device_manager.waited
        try:
            self.topology_manager.admit(pod, *self.hint_providers)
        except TopologyAffinityError:
            manager.metrics = manager.metrics.admitted(failed=True)
            self._count_alignment(manager.served - before, missed=True)
            raise
        except AllocationError as error:
            # Under policy none an admission counts no error.
            failed = self.topology_manager.policy is not TopologyPolicy.NONE
            manager.metrics = manager.metrics.admitted(failed=failed)
            if self.topology_manager.scope != "pod":
                # The memory manager comes after the CPU manager.
                late = isinstance(error, MemoryManagerError)
                self._count_alignment(manager.served - before - late, missed=False)
            raise
        finally:
            seconds = self.device_manager.waited - waited
            manager.metrics = manager.metrics.waited(seconds)
        manager.metrics = manager.metrics.admitted(failed=False)
        self._count_alignment(manager.served - before, missed=False)

    def _count_alignment(self, kept: int, *, missed: bool) -> None:
        """``IsAlignmentGuaranteed``: under single-numa-node alone."""
        topology, manager = self.topology_manager, self.cpu_manager
        if topology.policy is TopologyPolicy.SINGLE_NUMA_NODE:
            manager.metrics = manager.metrics.on_one_numa_node(
                scope=topology.scope, kept=kept, missed=missed
            )

    def resize(self, pod: Pod) -> None:
        """Admission of an in-place resize to ``pod``. From 1.37 on nothing is decided or taken, and
        the Topology Manager counts it as an admission (seen on 1.37.0). Before, it went as
        :meth:`admit`, where CPUs of another number than requested are impossible to the Topology
        Manager, and are kept where it does not object."""
        if has(self._release, Behaviour.RESIZE_LEFT_ALONE):
            manager = self.cpu_manager
            manager.begin_admission(pod)
            manager.metrics = manager.metrics.admitted(failed=False)
            self._count_alignment(len(pod.containers), missed=False)
        else:
            self.admit(pod)

    def affinity(self, uid: str, container: str) -> CPUSet:
        """The CPUs that a container would be created with now; the empty set asks for nothing."""
        return self.cpu_manager.affinity(uid, container)

    def start_container(self, uid: str, container: str) -> CPUSet:
        """The CPUs that a container is created with; the empty set asks for nothing
        (``PreCreateContainer`` and ``PreStartContainer``,
        ``pkg/kubelet/cm/internal_container_lifecycle_linux.go``)."""
        cpus = self.affinity(uid, container)
        self.cpu_manager.add_container(uid, container)
        self.device_manager.start_container(uid, container)
        if self.memory_manager:
            self.memory_manager.add_container(uid, container)
        return cpus

    def memory_nodes(self, uid: str, container: str) -> CPUSet:
        """The NUMA nodes that a container's memory is bound to when it is created; empty where it
        is bound to none."""
        return self.memory_manager.numa_nodes(uid, container) if self.memory_manager else CPUSet()

    def update_failed(self, uid: str, container: str) -> None:
        """The runtime has refused what the last round sent to a container."""
        self.cpu_manager.update_failed(uid, container)

    def entry(self, uid: str, container: str) -> CPUSet | None:
        """The exclusive CPUs of a container in the state; ``None`` without an entry."""
        return self.cpu_manager.state.get(uid, container)

    def cfs(self, pod: Pod, container: Container) -> CFS | None:
        """The processor time that a container is created with (``ContainerHasExclusiveCPUs``: one
        that shares CPUs of its pod has none of its own)."""
        manager = self.cpu_manager
        limited = with_limit_of(pod, container)
        shares = cfs_shares(limited)
        if self._period is None:
            return CFS(None, shares)
        quota = cfs_quota(
            limited,
            exclusive=manager.isolates(pod, container),
            feature_gates=manager.feature_gates,
            period=self._period,
            release=self._release,
        )
        return CFS(quota if quota > 0 else None, shares, self._period)

    def pod_cfs(self, pod: Pod) -> CFS | None:
        """The processor time that the cgroup of a pod is made with (``PodHasExclusiveCPUs``);
        ``None`` up to 1.31, where it is not modelled."""
        if not models_pod_cgroups(self._release):
            return None
        return pod_cfs(
            pod,
            exclusive=self._has_exclusive_cpus(pod),
            feature_gates=self.cpu_manager.feature_gates,
            period=self._period,
            release=self._release,
        )

    def sandbox_quota(self, pod: Pod) -> int | None:
        """The CFS quota that the sandbox of a pod is created with; ``None`` without one."""
        return sandbox_quota(
            pod,
            exclusive=self._has_exclusive_cpus(pod),
            feature_gates=self.cpu_manager.feature_gates,
            period=self._period,
            release=self._release,
        )

    def _has_exclusive_cpus(self, pod: Pod) -> bool:
        manager = self.cpu_manager
        policy = manager.policy
        whole = isinstance(policy, StaticPolicy) and policy.serves_whole(pod)
        own = [manager.isolates(pod, one) for one in pod.containers]
        return all(own) if whole else any(own)

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        """One reconcile round once all pod sources are ready: the (pod uid, container, CPUs) that
        are sent to the runtime, in order. ``running``: whether a container of a pod runs."""
        self._note_sources(ready=True)
        return self.cpu_manager.reconcile(running)

    def _note_sources(self, *, ready: bool) -> None:
        """Tell every manager whether all pod sources are ready."""
        self.cpu_manager.sources_ready = self.device_manager.sources_ready = ready
        if self.memory_manager:
            self.memory_manager.sources_ready = ready

    def wants_cpus(self, pod: Pod) -> bool:
        """Whether admitting the pod takes CPUs or memory that it does not hold yet."""
        trial = self.copy()
        trial.cpu_manager.state.crash = None
        before = trial.cpu_manager.state.changes
        memory = trial.memory_manager.state.copy() if trial.memory_manager else None
        trial._note_sources(ready=False)  # so that nothing stale is removed
        try:
            trial.admit(pod)
        except (AllocationError, TopologyAffinityError, KubeletPanics):
            return True
        taken = trial.memory_manager.state if trial.memory_manager else None
        return trial.cpu_manager.state.changes != before or memory != taken
