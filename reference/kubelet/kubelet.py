"""A kubelet that runs: its pods, and all it does to the runtime.

What belongs here: admission, creating and ending containers, and the reconcile round that follows
every change. What never does: steps (``node``), or choosing CPUs (``cpumanager``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import factorial
from operator import itemgetter
from typing import Final, Protocol

from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import CPUManager
from reference.cpumanager.metrics import is_gauge, known_to
from reference.cpumanager.state.state_mem import Crash
from reference.cpuset import CPUSet
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.pod_devices import Held
from reference.errors import AllocationError, NotModelled, TopologyAffinityError
from reference.golang.maps import SLOTS, turns
from reference.kubelet.admission import (
    REJECTIONS_SINCE,
    Lack,
    Refusal,
    allocation_message,
    allocation_refusal,
    devices_of,
    lack,
    lack_refusal,
    missing_devices,
    preemption_refusal,
    refusal_of,
    rejections,
    shortage,
)
from reference.kubelet.container_manager import ContainerManager
from reference.kubelet.cpu_quota import burstable_weight, resized, size
from reference.kubelet.pod_resources import PodResources
from reference.kubelet.preemption import MESSAGE, REASON, NothingToPreemptError, pods_to_preempt
from reference.kubelet.runtime import PodCgroup, Runtime
from reference.memorymanager.metrics import counts
from reference.memorymanager.state import State as MemoryState
from reference.pods.pod import Container, Kind, Pod, RestartPolicy
from reference.pods.qos import as_judged, huge_pages, pod_milli_cpus, qos_class
from reference.releases import NEWEST, AnyRelease, has, minor_of
from reference.steps import CREATE, UPDATE, RegisterDevices, ReportDevices
from reference.view import CFS, Asked, Phase, PodView, Version

_MAX_ORDERS: Final = 720
#: The last minor whose static policy uses ``status.allocatedResources``, which a resize that is
#: being admitted has not changed yet (``guaranteedCPUs``, ``policy_static.go``; seen on 1.32.2).
_SIZED_BY_STATUS_UNTIL: Final = 34
#: The first minor whose kubelet syncs a pod when its devices become healthy, also one that it
#: refused. While the pod's worker ends, which takes about a second, the pod is active (gate
#: ResourceHealthStatus; ``HandlePodSyncs``, ``isPodInactive``; seen on 1.36.4).
_HEALTH_SYNCS_PODS_SINCE: Final = 36
#: The first minor whose pod workers decide which pods are active (``filterOutInactivePods``).
_WORKERS_DECIDE_SINCE: Final = 22
#: The first minor whose sandboxes are known to be told a quota (seen on 1.26.15).
_SIZES_SANDBOXES_SINCE: Final = 26
#: The first minor that records in ``actuated_pods_state`` which resources a container was started
#: with (``startContainer``).
_RECORDS_RESOURCES_SINCE: Final = 33
#: A running container has no such record if an older kubelet has started it. This minor sets its
#: resources once more, also in static pods; later ones only write the record
#: (``computePodResizeAction``, ``IsInPlacePodVerticalScalingAllowed``, ``InitializeActuatedPod``;
#: seen on 1.36.4 and 1.37.0).
_SETS_UNRECORDED: Final = 36


class Managers(Protocol):
    """What the life cycle of pods asks of the managers of a kubelet
    (:class:`reference.kubelet.container_manager.ContainerManager`)."""

    def use_active_pods(self, active_pods: Callable[[], Iterable[Pod]]) -> None:
        """``active_pods`` says from now on which pods are active."""

    def admit(self, pod: Pod) -> None:
        """Admission of a pod, which is active already. Raises :class:`AllocationError`,
        :class:`TopologyAffinityError`."""

    def affinity(self, uid: str, container: str) -> CPUSet | None:
        """The CPUs that a container would be created with now; ``None`` where it is not known."""

    def start_container(self, uid: str, container: str) -> CPUSet:
        """The CPUs that a container is created with; the empty set asks for nothing."""

    def memory_nodes(self, uid: str, container: str) -> CPUSet:
        """The NUMA nodes that a container's memory is bound to when it is created; empty where it
        is bound to none."""

    def update_failed(self, uid: str, container: str) -> None:
        """The runtime has refused what the last round sent to a container."""

    def entry(self, uid: str, container: str) -> CPUSet | None:
        """The exclusive CPUs of a container in the state; ``None`` without an entry, or where it is
        not known."""

    def cfs(self, pod: Pod, container: Container) -> CFS | None:
        """The processor time that a container is created with; ``None`` where it is not known."""

    def pod_cfs(self, pod: Pod) -> CFS | None:
        """The processor time that the cgroup of a pod is made with; ``None`` where it is not
        known."""

    def sandbox_quota(self, pod: Pod) -> int | None:
        """The CFS quota that the sandbox of a pod is created with; ``None`` without one."""

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        """One reconcile round: the (pod uid, container, CPUs) that are sent to the runtime."""


class PodLifecycle:
    """The pods of one run of the kubelet, from their admission to their end. ``pods``: what it says
    of each, by name. ``allocatable``: the cpu that pods may ask for, in thousandths.
    ``static_pods``: they come from manifests, not from an API server. ``over``: what the API server
    says of pods that were refused before it started, by name. ``woken``: the uids of refused pods
    that it may count as active."""

    pods_to_preempt: Callable[..., list[Pod]] = staticmethod(pods_to_preempt)

    def __init__(
        self,
        managers: Managers,
        runtime: Runtime,
        allocatable: int,
        *,
        release: AnyRelease = NEWEST,
        static_pods: bool = True,
    ) -> None:
        self.pods: dict[str, PodView] = {}
        self.over: Mapping[str, PodView] = {}
        self.runtime = runtime
        self._managers = managers
        managers.use_active_pods(self.active_pods)
        self._admitted: dict[str, Pod] = {}
        self._refused: dict[str, Pod] = {}
        self.woken: frozenset[str] = frozenset()
        #: The uids of refused pods of which containers are known to the runtime, and of pods that
        #: have ended but for a sidecar, which is stopped: their workers end for about a second, and
        #: they are active until then (seen on 1.36.4 and 1.37.0).
        self.ending: frozenset[str] = frozenset()
        #: Those of them that have ended, by name.
        self._outlived: dict[str, Pod] = {}
        #: Those of them that count in the admission of a pod for the managers, and for the node
        #: predicates.
        self.counted: frozenset[str] = frozenset()
        self.weighed: frozenset[str] = frozenset()
        #: Refused pods whose containers had ended before: they have a class if the kubelet learns
        #: of the pod before it learns of these (seen on 1.26.15).
        self.classed_by_chance: tuple[str, ...] = ()
        self._being_admitted: tuple[Pod, ...] = ()
        self._stopping: Pod | None = None
        #: The uids of admitted pods that have ended.
        self.ended: set[str] = set()
        self.allocatable = allocatable
        self.huge_pages: Mapping[str, int] = {}
        self._release = release
        self._static_pods = static_pods
        # The API server gives each pod its class when it is created.
        self._names_qos = not static_pods or has(release, Behaviour.REJECTED_PODS_HAVE_QOS)
        self._names_qos_at_end = has(release, Behaviour.ENDED_PODS_HAVE_QOS)
        self._running_on: dict[str, str] = {}
        #: What happens during the first update of the next round, and whether it happens now.
        self._meanwhile: Callable[[], None] | None = None
        self._in_round = False
        #: The CPUs of containers that the runtime creates slowly, by pod uid and name. It is empty
        #: between two steps.
        self._begun: Mapping[tuple[str, str], CPUSet] = {}
        #: How many pods it has refused, by the name of their counter.
        self.rejections: dict[str, int] = {}

    def active_pods(self) -> list[Pod]:
        """The pods that were admitted, those that end and still count, and the one that is being
        admitted."""
        ending = (*self._refused.values(), *self._outlived.values()) if self.counted else ()
        counted = [one for one in ending if one.uid in self.counted]
        return [*self._admitted.values(), *counted, *self._being_admitted]

    def take_up(
        self, pods: Iterable[Pod], *, running_on: Iterable[Pod] = (), slow: str = ""
    ) -> None:
        """Admit the pods one after the other, start what is admitted, and settle. ``running_on``:
        refused pods whose containers are not ended (see :meth:`Kubelet.may_run_on`). ``slow``:
        that of :class:`reference.steps.ApplyTogether`."""
        if slow == UPDATE:
            first, *others = pods
            self._meanwhile = partial(self.take_up, others)
            self.take_up([first])
            return
        self._running_on |= {pod.name: pod.uid for pod in running_on}
        arrived, several, before = [], False, set(self._admitted)
        for number, pod in enumerate(pods):
            several = number > bool(slow)
            refusal = self._admit(pod)
            if slow == CREATE and number == 0:
                self._begun = _begun(self._managers, pod, refusal)
            self._refused.pop(pod.name, None)
            if refusal:
                counter = rejections(refusal.reason)
                self.rejections[counter] = self.rejections.get(counter, 0) + 1
                self._refused[pod.name] = pod
                qos = self._qos(pod) if self._names_qos or self._is_ended(pod) else ""
                if qos and not self._names_qos and not self._runs(pod):
                    self.classed_by_chance += (pod.name,)
                reason, message, or_else = refusal
                self.pods[pod.name] = PodView(Phase.REJECTED, reason, message, qos, or_else=or_else)
            elif pod.name in self.over:  # it would fit now, but it has ended
                self.pods[pod.name] = self.over[pod.name]
            else:
                self._admitted[pod.name] = pod
                self.pods[pod.name] = PodView(Phase.RUNNING, qos=self._qos(pod))
                arrived.append(pod)
        if self._refused and minor_of(self._release) >= _WORKERS_DECIDE_SINCE:
            known = {*self.runtime.uids(), *self.runtime.removed}
            self.ending |= known.intersection(pod.uid for pod in self._refused.values())
        # Where refused pods ran, their CPUs return a round later (seen on 1.26.15).
        late = several or any(pod.uid in self.runtime.removed for pod in self._refused.values())
        late = late or not before <= self._admitted.keys()  # and where pods were preempted
        for pod in arrived:
            self._run(pod, raced=late)
        self._begun = {}
        self.settle()
        for pod in arrived:
            _note_rounds(self._managers, self.runtime, pod)

    @property
    def forgets(self) -> bool:
        """Whether it has forgotten to end containers of refused pods."""
        return bool(self._running_on)

    def _qos(self, pod: Pod) -> str:
        return qos_class(as_judged(pod, release=self._release))

    def _is_ended(self, pod: Pod) -> bool:
        """Whether containers of the refused pod have to be ended, or have ended before this start
        of the kubelet, so that its status is complete, or may be."""
        if not self._names_qos_at_end or pod.name in self._running_on:
            return False
        return pod.uid in self.runtime.uids() or pod.uid in self.runtime.removed

    def _runs(self, pod: Pod) -> bool:
        return any(self.runtime.runs(pod.uid, one.name) for one in pod.containers)

    def drop(self, name: str, *, rounds: bool = True) -> None:
        """The pod's manifest is gone: end its containers and forget it. Reconcile rounds follow,
        unless ``rounds`` says that something else comes first."""
        del self.pods[name]
        self.over = {each: view for each, view in self.over.items() if each != name}
        self._admitted.pop(name, None)
        self._refused.pop(name, None)
        self._outlived.pop(name, None)
        self._running_on.pop(name, None)
        if rounds:
            self.settle()
        else:
            self.end_gone()

    def begin_stopping(self, name: str, *, active: bool) -> None:
        """A pod that runs is deleted, and its containers take their time to end; whether it is
        ``active`` until then."""
        self._stopping = self._admitted[name]
        if not active:
            del self.pods[name], self._admitted[name]

    def end_stopping(self) -> None:
        """The containers of the pod that stops have ended."""
        stopping, self._stopping = self._stopping, None
        if stopping is not None and stopping.name in self._admitted:
            self.drop(stopping.name)
        else:
            self.settle()

    def end_container(self, pod: Pod, container: Container, exit_code: int) -> None:
        """A container of an admitted pod has ended by itself. It is created again under the same
        name if the pod's restart policy says so. A pod whose app containers have all ended is not
        active any more, so what it holds is stale (``computePodActions``, ``kuberuntime``)."""
        self.runtime.end(pod.uid, container.name)
        if pod.name in self._running_on:  # its worker learns of a refused pod (seen on 1.26.15)
            del self._running_on[pod.name]
        elif exit_code in container.restarts_all_on:
            for one in pod.containers:
                self._create(pod, one)
        elif restarts(pod, container, exit_code):
            self._create(pod, container)
        elif not _has_running_app(self.runtime, pod):
            self.ended.add(pod.uid)
            del self._admitted[pod.name]
            self.pods[pod.name] = PodView(Phase.ENDED, qos=self._qos(pod))
            if self._runs(pod) and minor_of(self._release) >= _WORKERS_DECIDE_SINCE:
                self._outlived[pod.name] = pod
                self.ending |= {pod.uid}
        self.settle()

    def end_gone(self) -> None:
        """End the containers of pods that are not admitted, except while such a pod stops."""
        wanted = {pod.uid for pod in self._admitted.values()}
        wanted.update(self._running_on.values())
        if self._stopping is not None:
            wanted.add(self._stopping.uid)
        for uid in self.runtime.uids():
            if uid not in wanted:
                self.runtime.remove_pod(uid)

    def settle(self) -> None:
        """End the containers of pods that are not admitted, and go through a reconcile round."""
        if self._in_round:
            return
        self.end_gone()
        if self._meanwhile:
            self._in_round, meanwhile = True, self._meanwhile
            sent = _slow_round(self._managers, self.runtime, meanwhile)
            self._in_round, self._meanwhile = False, None
            for one in sent:
                self.runtime.try_update(*one)
        refused = True
        while refused:  # the next round tries again, which changes nothing where all are refused
            refused = False
            for uid, container, cpus in self._managers.reconcile(self.runtime.runs):
                if not self.runtime.try_update(uid, container, cpus):
                    refused = self.runtime.refusals != math.inf
                    self._managers.update_failed(uid, container)

    def _admit(self, pod: Pod) -> Refusal | None:
        """Why the pod is refused; ``None`` if it is not. CPUs come before the node predicates, so a
        pod that these refuse has held CPUs for a moment."""
        others = list(self._admitted.values())
        if any(_share_devices(one, pod) for one in self._woken_besides(pod)):
            raise _may_still_count(pod, self._release)
        try:
            self._being_admitted = (pod,)
            self._managers.admit(pod)
        except TopologyAffinityError as error:
            return refusal_of(error, self._release)
        except AllocationError as error:
            return allocation_refusal(error, self._release)
        finally:
            self._being_admitted = ()
        return self._lack(pod, others)

    def _lack(self, pod: Pod, others: Sequence[Pod]) -> Refusal | None:
        """What the node predicates say, where these ``others`` are active. Raises
        :class:`NotModelled` where it may depend on refused pods that count for about a second."""
        devices, capacity = self._weighed_devices(pod)

        said = partial(lack, pod, allocatable=self.allocatable, devices=devices, capacity=capacity)
        answer = said(others)
        woken = self._woken_besides(pod)
        large = any(len(one.containers) > 1 for one in woken)
        if large or (woken and answer != said([*others, *woken])):
            raise _may_still_count(pod, self._release)
        if weighed := [one for one in self._ending_besides(pod) if one.uid in self.weighed]:
            answer = said([*others, *weighed])
        return self._recovered(pod, others, answer) if answer else None

    def _recovered(self, pod: Pod, others: Sequence[Pod], lacking: Lack) -> Refusal | None:
        """A critical pod is admitted in spite of what the node lacks, once other pods are preempted
        (``HandleAdmissionFailure``, ``pkg/kubelet/preemption``). Static pods are critical, from
        1.16 on. Raises :class:`NotModelled` beside pods that still end."""
        static = self._static_pods and has(self._release, Behaviour.STATIC_PODS_ARE_CRITICAL)
        if not static and not pod.critical:
            return lack_refusal(lacking, self._release)
        candidates = [one for one in others if not static and one.priority < pod.priority]
        try:
            chosen = self.pods_to_preempt(candidates, lacking.needed, self._release)
        except NothingToPreemptError as error:
            return preemption_refusal(error.texts, self._release)
        if self._ending_besides(pod):
            raise NotModelled(f"pod {pod.name} puts other pods out")
        for one in chosen:
            self._preempt(one)
        return None

    def _preempt(self, pod: Pod) -> None:
        """The pod has failed, and its containers have ended, before the critical one starts
        (``killPodNow``)."""
        del self._admitted[pod.name]
        self.pods[pod.name] = PodView(Phase.REJECTED, REASON, MESSAGE, self._qos(pod))
        self.end_gone()

    def _refused_besides(self, pod: Pod) -> list[Pod]:
        return [one for one in self._refused.values() if one.uid != pod.uid]

    def _ending_besides(self, pod: Pod) -> list[Pod]:
        every = [*self._refused_besides(pod), *self._outlived.values()]
        return [one for one in every if one.uid in self.ending]

    def _woken_besides(self, pod: Pod) -> list[Pod]:
        return [one for one in self._refused_besides(pod) if one.uid in self.woken]

    def _weighed_devices(self, pod: Pod) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """How many devices it requests, by resource, where the node predicates may refuse it for
        them, and how many they take the node to have."""
        return {}, {}

    def _run(self, pod: Pod, *, raced: bool) -> None:
        cgroup = self.runtime.pod_cgroups.get(pod.uid)
        if cgroup and cgroup.qos != qos_class(pod):  # it gets another one: not modelled
            self.runtime.pod_cgroups[pod.uid] = PodCgroup(qos_class(pod), None)
        for container in pod.containers:
            box = self.runtime.of(pod.uid).get(container.name)
            if box is None or box.owed:
                self._create(pod, container, raced=raced)
            elif self.runtime.runs(pod.uid, container.name):
                self._go_on(pod, container)

    def _go_on(self, pod: Pod, container: Container) -> None:
        """A container goes on that another kubelet may have started."""
        box, minor = self.runtime.of(pod.uid)[container.name], minor_of(self._release)
        if minor == _SETS_UNRECORDED and not box.recorded:
            box.cfs = self._managers.cfs(pod, container)
            self._resize_cgroup(pod)
        box.recorded = box.recorded or minor >= _SETS_UNRECORDED

    def _resize_cgroup(self, pod: Pod) -> None:
        """Write what the pod asks for to its cgroup (``doPodResizeAction``)."""
        made, now = self.runtime.pod_cgroups.get(pod.uid), self._managers.pod_cfs(pod)
        if made and made.cfs and now:
            self.runtime.pod_cgroups[pod.uid] = made._replace(cfs=resized(made.cfs, now))

    def _create(self, pod: Pod, container: Container, *, raced: bool = False) -> None:
        if pod.uid not in self.runtime.pod_cgroups:
            made = PodCgroup(qos_class(pod), self._managers.pod_cfs(pod))
            self.runtime.pod_cgroups[pod.uid] = made
            self.runtime.burstable_weight = burstable_weight(self.active_pods())
        if not self.runtime.of(pod.uid) and minor_of(self._release) >= _SIZES_SANDBOXES_SINCE:
            self.runtime.sandboxes[pod.uid] = self._managers.sandbox_quota(pod)
        cpus = self._managers.start_container(pod.uid, container.name)
        cpus = self._begun.get((pod.uid, container.name), cpus)
        box = self.runtime.create(pod, container, cpus)
        box.cfs = self._managers.cfs(pod, container)
        box.recorded = box.recorded or minor_of(self._release) >= _RECORDS_RESOURCES_SINCE
        entry = self._managers.entry(pod.uid, container.name)
        box.asked = Asked(
            cpus or None,
            entry,
            id=box.id,
            raced=raced and entry is None,
            mems=self._managers.memory_nodes(pod.uid, container.name),
        )
        # Init containers end at once here.
        box.running = container.kind is not Kind.INIT


def _begun(managers: Managers, pod: Pod, refusal: Refusal | None) -> dict[tuple[str, str], CPUSet]:
    """The CPUs with which the kubelet asks its runtime now to create the pod's first container,
    which is started only later. Raises :class:`NotModelled` for a pod that is refused."""
    if refusal:
        raise NotModelled(f"a slow runtime and pod {pod.name}, which is refused")
    first = min(pod.containers, key=lambda one: one.kind is Kind.APP)
    return {(pod.uid, first.name): managers.affinity(pod.uid, first.name) or CPUSet()}


def _slow_round(
    managers: Managers, runtime: Runtime, meanwhile: Callable[[], None]
) -> list[tuple[str, str, CPUSet]]:
    """A reconcile round whose first update of a shared container takes long enough for
    ``meanwhile``. Raises :class:`NotModelled` for a round without such an update."""
    left, updated = [meanwhile], False

    def runs(uid: str, name: str) -> bool:
        nonlocal updated
        if updated and left:
            left.pop()()
        box, now = runtime.of(uid).get(name), managers.affinity(uid, name)
        updated = updated or (box is not None and box.running and box.cpuset != now)
        return runtime.runs(uid, name)

    sent = managers.reconcile(runs)
    if not updated:
        raise NotModelled("a slow update, and nothing to update")
    for late in left:
        late()
    return sent


def _note_rounds(managers: Managers, runtime: Runtime, pod: Pod) -> None:
    """A container that has another cpuset by now, or that has ended and would get another one,
    was started before a round removed the entry of a pod that is gone, or after it: the kubelet
    starts a pod's containers while rounds go on (seen on 1.36.4, after a reboot)."""
    for name, box in runtime.of(pod.uid).items():
        asked = box.asked
        if asked and asked.started_on and asked.entry is None:
            now = box.cpuset if box.running else managers.affinity(pod.uid, name)
            moved = now is not None and now != asked.started_on
            box.asked = replace(asked, raced=asked.raced or moved)


def _has_running_app(runtime: Runtime, pod: Pod) -> bool:
    """Whether an app container runs; once none does, sidecars are stopped."""
    apps = (one for one in pod.containers if one.kind is Kind.APP)
    return any(runtime.runs(pod.uid, one.name) for one in apps)


def restarts(pod: Pod, container: Container, exit_code: int) -> bool:
    """As ``ContainerShouldRestart`` (pkg/api/v1/pod/util.go) once no rule says otherwise."""
    policy = pod.restart_policy_of(container)
    return policy is RestartPolicy.ALWAYS or (policy is RestartPolicy.ON_FAILURE and exit_code != 0)


class Kubelet(PodLifecycle):
    """One run of the kubelet whose managers are the model's: it can be copied, and says which
    orders of its pods matter."""

    def __init__(
        self,
        container_manager: ContainerManager,
        runtime: Runtime,
        allocatable: int,
        *,
        release: AnyRelease = NEWEST,
        static_pods: bool = True,
    ) -> None:
        super().__init__(
            container_manager, runtime, allocatable, release=release, static_pods=static_pods
        )
        self._container_manager = container_manager
        self._cpu_manager = container_manager.cpu_manager
        self._saved = 0
        self._counted: dict[str, int] = {}
        self.counts_by_chance = False
        #: What its memory manager knows if pods that ended still held their memory when the last
        #: pod was admitted; ``None`` where it would be the same.
        self.perhaps_memory: MemoryState | None = None
        #: The devices that these pods may still have held then, by uid.
        self.perhaps_held: dict[str, dict[str, dict[str, Held]]] = {}

    def count(self, *counters: str) -> None:
        """Count what its managers do not: a call at the pod-resources socket, or a resize that had
        to wait, in these ``counters``."""
        for one in counters:
            self._counted[one] = self._counted.get(one, 0) + 1

    def note_return(self) -> None:
        """A pod comes back under its uid. A kubelet that is not done with the former one does not
        admit it, but starts it all the same (``HandlePodAdditions``, ``HandlePodCleanups``)."""
        self.counts_by_chance = True

    def metrics(self) -> dict[str, float]:
        """Its metrics, by name and labels, without those that chance decides."""
        manager = self._cpu_manager
        counted = {
            name: count
            for name, count in manager.metrics.by_name().items()
            if known_to(name, manager.feature_gates, release=self._release)
            and (is_gauge(name) or not self.counts_by_chance)
        }
        if not self.counts_by_chance:
            memory_manager = self._container_manager.memory_manager
            counted |= counts(memory_manager, release=self._release)
            if minor_of(self._release) >= REJECTIONS_SINCE:
                counted |= self.rejections
        return {**counted, **self._counted}

    def pod_resources(self, every: Sequence[Pod]) -> PodResources:
        """What its pod-resources socket answers; ``every`` pod whose manifest is there."""
        active = [*self._admitted.values()]
        devices = self._container_manager.device_manager
        return PodResources(self._cpu_manager, devices, self.memory, active, every, self._release)

    @property
    def cpu_manager(self) -> CPUManager:
        return self._cpu_manager

    @property
    def device_manager(self) -> DeviceManager:
        return self._container_manager.device_manager

    @property
    def memory(self) -> MemoryState | None:
        """What its memory manager knows; ``None`` under policy None."""
        manager = self._container_manager.memory_manager
        return manager.state if manager else None

    def copy(self) -> Kubelet:
        """An independent copy, with a runtime of its own."""
        twin = type(self)(
            self._container_manager.copy(),
            self.runtime.copy(),
            self.allocatable,
            release=self._release,
            static_pods=self._static_pods,
        )
        twin.huge_pages, twin.pods, twin.over = self.huge_pages, dict(self.pods), self.over
        twin._admitted, twin._refused = dict(self._admitted), dict(self._refused)
        twin.woken, twin.ending, twin._stopping = self.woken, self.ending, self._stopping
        twin.ended = set(self.ended)
        twin._saved = self._saved
        twin._counted, twin.rejections = dict(self._counted), dict(self.rejections)
        twin.counts_by_chance = self.counts_by_chance
        twin.perhaps_memory = self.perhaps_memory  # it is never changed
        twin.perhaps_held = dict(self.perhaps_held)
        twin._running_on = dict(self._running_on)
        twin._outlived = dict(self._outlived)
        return twin

    def resize(self, pod: Pod) -> str:
        """Give an admitted pod other resources in place; why that has to wait, or ``""``.
        ``resize_refusal`` has said before that it is feasible."""
        others = [one for one in self._admitted.values() if one.uid != pod.uid]
        by_status = minor_of(self._release) <= _SIZED_BY_STATUS_UNTIL
        held = self._cpu_manager.state.entries.get(pod.uid, {})
        boxes = self.runtime.of(pod.uid).items()
        again = {name for name, box in boxes if box.again and name in held}
        if by_status and any(one.resize_restarts for one in pod.containers if one.name in again):
            # Its status has no allocated resources for a while.
            raise NotModelled(f"Resize: pod {pod.name}, which a resize has started again")
        before, self._being_admitted = self._admitted.pop(pod.name), (pod,)
        granted = False
        try:
            self._container_manager.resize(before if by_status else pod)
            text = shortage(pod, others, self.allocatable)
            ending = self._ending_besides(pod)
            if ending and text != shortage(pod, [*others, *ending], self.allocatable):
                raise NotModelled(f"Resize: pod {pod.name} beside pods that still end")
            granted = not text
        except AllocationError as error:
            text = allocation_message(error)
        except TopologyAffinityError as error:
            text = str(error)
        finally:
            self._being_admitted = ()
            self._admitted[pod.name] = pod if granted else before
        if granted:
            self._apply_resources(before, pod)
        self.settle()
        return text

    def _apply_resources(self, before: Pod, pod: Pod) -> None:
        """Update the running containers of another size: with their requests, and 0 for none
        (``updatePodContainerResources``), so one that has the limit of its pod loses its weight. A
        container whose resize policy says so is started again instead, and those that grow come
        after the others (``computePodResizeAction``). The cgroup of the pod follows
        (``doPodResizeAction``)."""
        sent: list[tuple[bool, Container]] = []
        for old, one in zip(before.containers, pod.containers, strict=True):
            if not self.runtime.runs(pod.uid, one.name):
                continue
            was, now = size(before, old), size(pod, one)
            if any(was[what] != now[what] for what in one.resize_restarts):
                self.runtime.end(pod.uid, one.name)
                self._create(pod, one)
            elif was != now:
                grows = now["cpu"] > was["cpu"]
                sent.append((grows, replace(one, cpu_request=one.requested_cpu or "0")))
        for _, one in sorted(sent, key=itemgetter(0)):
            self.runtime.set_cfs(pod.uid, one.name, self._container_manager.cfs(pod, one))
        if _resizes_cpu(self.runtime, before, pod):
            self._resize_cgroup(pod)

    def register(self, step: RegisterDevices | ReportDevices) -> None:
        """A device plugin has registered, or reports other devices."""
        manager, resource, devices = self.device_manager, step.resource, step.devices
        held_by = manager.pod_devices.pod_devices
        refused = [pod for pod in self._refused.values() if held_by(pod.uid, resource)]
        if isinstance(step, ReportDevices) and refused:
            raise NotModelled(f"ReportDevices beside a refused pod with devices: {refused[0].name}")
        manager.register(resource, devices)
        if isinstance(step, RegisterDevices):
            manager.failures[resource] = step.failures
            manager.seconds[resource] = step.seconds
        if minor_of(self._release) >= _HEALTH_SYNCS_PODS_SINCE:
            registered = {one.id for one in devices}
            self.woken |= {
                pod.uid for pod in refused if registered & held_by(pod.uid, resource).keys()
            }

    def _weighed_devices(self, pod: Pod) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """The devices of a resource without a plugin, those that no admission has handed out, all
        beside a pod that ends and is counted here alone, and huge pages. Other requests were found
        to fit when they were handed out."""
        manager = self.device_manager
        known = manager.pod_devices.resources
        missing = missing_devices(pod, known, self._release)
        pages = {what: devices_of(pod, what) for one in pod.containers for what in huge_pages(one)}
        missing = {**missing, **pages}
        if not manager.allocates_at_start(pod) and self.weighed == self.counted:
            return missing, self.huge_pages
        later = {what: devices_of(pod, what) for what in known if devices_of(pod, what)}
        capacity = {what: manager.allocatable(pod, what) for what in later}
        return {**missing, **later}, {**self.huge_pages, **capacity}

    def add_ephemeral(self, pod: Pod, container: Container) -> None:
        """Start an ephemeral container in an admitted pod. It is no part of what the managers know
        of the pod: no allocation, and no reconcile round comes to it
        (``policy_static.go``, ``reconcileState``)."""
        self._create(pod, container)
        self.settle()

    def end_ephemeral(self, uid: str, container: str) -> None:
        """An ephemeral container has ended; it is never started again."""
        self.runtime.end(uid, container)
        self.settle()

    def begin(self) -> None:
        """What the kubelet does once it has started, before it learns of any pod: nothing that can
        be seen (but see :mod:`reference.cpumanager.before_1_18`)."""

    def orders(self, pods: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
        """The orders in which a kubelet that starts may admit its pods, as far as the order
        can matter.

        Manifests are read in the order of their names (``extractFromDir``, ``config/file.go``), put
        into a new map and listed from it (``threadSafeMap``, client-go's ``tools/cache``). Sorting
        by the time of creation (``HandlePodAdditions``) changes nothing: no manifest has one. So up
        to 8 static pods come in their order, begun at one of them
        (:func:`reference.golang.maps.turns`). Of more, every order counts; so it does of the pods
        of an API server, which are sorted by the second in which they were created.

        It cannot matter where all pods fit the node by their requests and at most one of them takes
        CPUs that it does not hold yet, unless taking them may cost another pod those that it holds,
        or a memory manager takes memory for the init containers of another pod once more.
        Where the pod admitted last counts as active even when refused, it also matters whether that
        is one that takes CPUs, or one that was refused before and holds some. Raises
        :class:`NotModelled` where there are too many orders.
        """
        if len(pods) < 2:
            yield pods
            return
        movable = [pod for pod in pods if pod_milli_cpus(pod)]
        if sum(map(pod_milli_cpus, pods)) <= self.allocatable:
            taking = [pod for pod in pods if self._wants_cpus(pod)]
            held_counts = self._cpu_manager.policy.can_refuse_holders or self.memory is not None
            movable = movable if taking and held_counts else taking
        if self._cpu_manager.last_admitted_stays:
            held = self._cpu_manager.state.entries
            over = (pod for pod in pods if pod.name in self.over and pod.uid in held)
            movable += [pod for pod in over if pod not in movable]
        if not self._takes_turns or len(pods) > SLOTS:
            yield from self._every_order(pods, movable)
            return
        last_counts = bool(movable) and self._cpu_manager.last_admitted_stays
        orders, met = list(turns(pods)), set[tuple[str, ...]]()
        if last_counts:  # as recorded: first an order that ends with one that takes CPUs
            orders.sort(key=lambda order: order[-1] not in movable)
        for order in orders:
            uids = tuple(pod.uid for pod in order if pod in movable)
            uids += (order[-1].uid,) if last_counts else ()
            if uids not in met:
                met.add(uids)
                yield order

    @property
    def _takes_turns(self) -> bool:
        """Whether CPUs are taken in an order of :func:`reference.golang.maps.turns`."""
        return self._static_pods

    def _every_order(self, pods: Sequence[Pod], movable: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
        fixed = [pod for pod in pods if pod not in movable]
        if factorial(len(movable)) > _MAX_ORDERS:
            raise NotModelled(
                f"Start with {len(movable)} pods whose CPUs depend on the order in which the "
                "kubelet admits them"
            )
        for order in permutations(movable):
            yield [*fixed, *order]
            if fixed and order and self._cpu_manager.last_admitted_stays:
                yield [*order, *fixed]

    def _wants_cpus(self, pod: Pod) -> bool:
        return self._container_manager.wants_cpus(pod)

    def may_run_on(self, pods: Iterable[Pod], before: Runtime) -> list[Pod]:
        """The refused among these pods whose containers ran ``before``, which the release may
        forget to end."""
        if not has(self._release, Behaviour.REFUSED_MAY_RUN_ON):
            return []
        refused = (pod for pod in pods if self.pods[pod.name].phase is Phase.REJECTED)
        return [pod for pod in refused if before.running().get(pod.uid)]

    def kill_at_write(self, crash: Crash) -> None:
        """It is killed at a later write of its state file."""
        self._cpu_manager.state.crash = crash

    def taken_versions(self) -> tuple[Version, ...]:
        """Every version of the state file since this was asked last."""
        state = self._cpu_manager.state
        versions, state.versions = tuple(state.versions), []
        return versions

    def unsaved_state(self) -> str | None:
        """The text of the state file, if it has changed since this was asked last."""
        return self._cpu_manager.state_file() if self.is_unsaved() else None

    def is_unsaved(self) -> bool:
        """Whether the state has changed since this, or :meth:`unsaved_state`, was asked last."""
        changes = self._cpu_manager.state.changes
        if changes == self._saved:
            return False
        self._saved = changes
        return True


def _may_still_count(pod: Pod, release: AnyRelease) -> NotModelled:
    return NotModelled(
        f"pod {pod.name}: release {release} may still count a refused pod whose devices have just "
        "become healthy"
    )


def _share_devices(one: Pod, other: Pod) -> bool:
    """Whether they request devices of one resource."""
    wanted, theirs = (
        {resource for container in pod.containers for resource, _ in container.devices}
        for pod in (one, other)
    )
    return not wanted.isdisjoint(theirs)


def _resizes_cpu(runtime: Runtime, before: Pod, pod: Pod) -> bool:
    """Whether the cpu of a running container changes, or that of the pod as a whole."""
    if before.resources != pod.resources:
        return True
    return any(
        runtime.runs(pod.uid, one.name) and size(before, old)["cpu"] != size(pod, one)["cpu"]
        for old, one in zip(before.containers, pod.containers, strict=True)
    )
