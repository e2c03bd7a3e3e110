"""A whole node as a state machine over the steps of :mod:`reference.steps`.

What belongs here: what each step does to machine, manifests, state file, kubelet and containers,
and in which order the kubelet does it. What never does: CPUs (``cpumanager``).

How it works: manifests, state file and containers are the node's own and outlive the kubelet. A
kubelet that runs is one object; it is made by ``Start``, or gives up with an error. After every
step everything that the step sets off has happened, one reconcile round included, so a view is
always the settled one. A step that cannot be taken raises and changes nothing.

A kubelet that hangs while it gives a pod its CPUs does nothing more until it is stopped: manifests
come and go without effect (seen on 1.36.4, which SIGTERM still ends). What was done for the pod
before, such as the CPUs of its first container, stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, TypeAlias

from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import CPUManager, make_policy
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.cpumanager.state.state_mem import Crash, Killed, by_pod
from reference.cpuset import CPUSet
from reference.devicemanager.manager import DeviceManager
from reference.devicemanager.pod_devices import PodDevices
from reference.errors import (
    IllegalStep,
    KubeletError,
    KubeletHangs,
    KubeletPanics,
    ModelError,
    NotModelled,
)
from reference.kubelet.admission import (
    fault_by_release,
    fault_of,
    fault_of_whole,
    require_compared_whole,
    require_huge_pages_alone,
)
from reference.kubelet.configuration import require_modelled
from reference.kubelet.exit import STATUS_OF_PANIC, error_text, panic_is_caught, status
from reference.kubelet.in_cluster import PodsInCluster
from reference.kubelet.in_place_resize import overlooks_requests, require_quota_left_alone
from reference.kubelet.kubelet import Kubelet
from reference.kubelet.limits import (
    end_while_down,
    require_down,
    require_known_outcome,
    require_known_preemption,
    require_known_start,
    require_known_writes,
    require_nothing_new,
    require_pool,
    require_same_pod,
    require_together,
    uid_of_running,
)
from reference.kubelet.outcomes import (
    Branch,
    as_the_pool_emptied,
    assuming_otherwise,
    branch_of,
    branches_of,
    counting_ending,
    require_known_memory,
    require_known_room,
)
from reference.kubelet.pod_resources import answer, counters_of, flood_answers
from reference.kubelet.runtime import Runtime
from reference.kubelet.startup import Maker, PolicyFactory
from reference.kubelet.stopping import active_while_stopping, begin_stopping, require_order
from reference.machine.discovery import discover
from reference.machine.machineinfo import MachineInfo
from reference.memorymanager.policy_static import MemoryManager
from reference.memorymanager.state import State as MemoryState
from reference.pods.pod_level_resources import as_decoded, require_known_requests
from reference.releases import NEWEST, AnyRelease, has, minor_of, require_whole_node
from reference.steps import (
    FOR_EVER,
    AddEphemeral,
    Apply,
    ApplyTogether,
    AskAllocatable,
    AskMetrics,
    AskPodResources,
    AwaitCrashLoop,
    AwaitReconcile,
    Configure,
    DaemonReload,
    Delete,
    EndDevicePlugin,
    EndStopping,
    FailUpdates,
    FailWrites,
    FloodPodResources,
    KillAtRename,
    KillContainer,
    KubeletConfig,
    OfflineCPUs,
    OnlineCPUs,
    Pod,
    Reboot,
    RegisterDevices,
    RemoveState,
    Replace,
    ReplaceStopping,
    ReportDevices,
    Resize,
    RestartRuntime,
    Spin,
    Start,
    Step,
    Stop,
    TakeOver,
    Tamper,
    TamperQuota,
    WriteState,
)
from reference.topologymanager.topology_manager import TopologyManager
from reference.view import Phase, PodView, Version, View

_NO_ANSWER: Final = View(running=False)
#: The first minor that knows a container by the hash of its name and image; before, by that of all
#: its fields (kubernetes/kubernetes#124220, #129385; seen between 1.26.15 and 1.32.2).
_HASHES_NAME_AND_IMAGE_SINCE: Final = 31
#: The first minor in which a NUMA node can serve a device with an empty list of NUMA nodes
#: (kubernetes/kubernetes#112387).
_EMPTY_LISTS_SINCE: Final = 26


Trees: TypeAlias = Callable[[str], Mapping[str, str]]


class Node:
    """One machine with one kubelet; down, without pods or a state file, until it is driven.

    ``trees`` gives the tree of a machine by name; ``machine`` is the first. Deliberately wrong
    variants replace a part: ``policy_factory`` makes the policy (a subclass of ``StaticPolicy``
    with one method overridden), ``manager_factory`` the CPU manager (a subclass of ``CPUManager``,
    whose ``restore``, ``remove_stale_state`` and ``reconcile`` are the kubelet's own steps),
    ``topology_manager_factory`` the Topology Manager, ``device_manager_factory`` the device
    manager, ``memory_manager_factory`` the memory manager.

    ``discovering`` may remember what :func:`reference.discover` found on a tree before.
    ``memory_state``: what the memory manager of the kubelet that ran last has left in its file;
    ``None``: nothing.

    Raises :class:`NotModelled` where release or configuration lie outside the model.
    """

    _active_while_stopping = staticmethod(active_while_stopping)

    def __init__(
        self,
        trees: Trees,
        machine: str,
        config: KubeletConfig,
        *,
        release: AnyRelease = NEWEST,
        policy_factory: PolicyFactory = make_policy,
        manager_factory: Callable[..., CPUManager] = CPUManager,
        topology_manager_factory: Callable[..., TopologyManager] = TopologyManager,
        device_manager_factory: Callable[..., DeviceManager] = DeviceManager,
        memory_manager_factory: Callable[..., MemoryManager] = MemoryManager,
        discovering: Callable[..., MachineInfo] = discover,
        memory_state: MemoryState | None = None,
    ) -> None:
        require_whole_node(release)
        require_modelled(config, release)
        self._trees = trees
        self._machine = machine
        self._discover = discovering
        self._info = discovering(trees(machine), release=release)
        self._config = config
        self._release = release
        self._exit_status = 1
        self._maker = Maker(
            release,
            policy_factory,
            manager_factory,
            topology_manager_factory,
            device_manager_factory,
            memory_manager_factory,
        )
        self._devices = PodDevices()
        self.memory_state = memory_state
        self._perhaps_memory: MemoryState | None = None
        self._manifests: dict[str, Pod] = {}
        self._known: dict[str, Pod] = {}
        self._gone: set[str] = set()
        self._ended: set[str] = set()
        self._ran_at_start: set[str] = set()
        self._perhaps_ended: set[str] = set()
        self._stopping = ""
        self._in_cluster = PodsInCluster(release)
        self._state_file: str | None = None
        self._shown: tuple[CPUSet, dict[str, dict[str, CPUSet]]] = parse_leniently(None)
        self._runtime = Runtime()
        self._kubelet: Kubelet | None = None
        self._errors: tuple[str, ...] = ()
        self._hangs = ""
        self._branches: list[Branch] = []
        #: Outcomes that are possible only in the second after a refusal.
        self._while_pods_end: list[Branch] = []
        self._told = _NO_ANSWER
        self._crash: Crash | None = None
        #: Whether a pod that was deleted as the kubelet was killed may still be on the API server:
        #: the next kubelet admits it once more before it ends it (seen on 1.36.4).
        self._unfinished = False
        self._without_managers = False
        #: Whether the kubelet that made the containers hashes their names and images alone, and
        #: whether this one does.
        self._hashed_by = self._hashes = minor_of(self._release) >= _HASHES_NAME_AND_IMAGE_SINCE
        self._versions: tuple[Version, ...] = ()
        self._unended: Runtime | None = None

    @property
    def possible_errors(self) -> tuple[str, ...]:
        """Every error that the kubelet which gave up may have named; more than one where Go's
        map order decides. The view shows the first."""
        return self._errors

    def do(self, step: Step) -> None:
        """Take a step. Raises :class:`IllegalStep`, :class:`NotModelled`; then nothing changed.

        A kubelet that hangs in a step is no error: the view says so.
        """
        branches, self._branches, self._while_pods_end = self._branches, [], []
        self._told, self._versions, self._unended = _NO_ANSWER, (), None
        try:
            self._do(step)
        except KubeletHangs as error:
            self._branches = branches
            raise NotModelled(f"{type(step).__name__}: the kubelet hangs: {error}") from error
        except ModelError:
            self._branches = branches
            raise

    def _do(self, step: Step) -> None:
        if self._without_managers and not isinstance(step, Stop):
            raise NotModelled(f"{type(step).__name__}: the kubelet goes on without its managers")
        require_order(step, self._stopping, disturbed=bool(self._hangs or self._crash))
        match step:
            case Start():
                self._start()
            case Stop():
                self._keep(self._running(step))
                self._kubelet, self._hangs, self._crash = None, "", None
                self._without_managers = False
            case KillAtRename(number=number, after=after, any_file=any_file):
                if any_file or not has(self._release, Behaviour.KEYED_BY_POD):
                    raise NotModelled(f"KillAtRename by release {self._release}")
                if self._kubelet is not None and self._kubelet.cpu_manager.state.failures:
                    raise NotModelled("KillAtRename while writes fail")
                self._crash = Crash(number, after=after)
                if self._kubelet is not None:
                    self._kubelet.kill_at_write(self._crash)
            case FailWrites(times=times):
                kubelet = self._running(step)
                if self._crash is not None or not has(self._release, Behaviour.KEYED_BY_POD):
                    raise NotModelled(f"FailWrites by release {self._release}, or before a kill")
                kubelet.cpu_manager.state.failures = times
            case Reboot(machine=name):
                self._reboot(step, name)
            case Configure(config=config):
                require_down(self._kubelet, step)
                require_modelled(config, self._release)
                if config.api_server != self._config.api_server:
                    raise IllegalStep("Configure: a node has an API server from its first boot on")
                self._config = config
            case TakeOver(release=release):
                parts, find = self._maker.factories, self._discover
                make = partial(type(self), release=release, discovering=find, **parts)
                vars(self).update(vars(self.handed_over(make)))
            case RemoveState():
                require_down(self._kubelet, step)
                self._write(None)
            case WriteState(text=text):
                require_down(self._kubelet, step)
                self._write(text)
            case AwaitReconcile():
                self._running(step).ended.clear()  # the kubelet is done with them
                self._settle()
            case OfflineCPUs(machine=name) | OnlineCPUs(machine=name):
                # A running kubelet does not notice: the next one finds another machine.
                self._info = self._discover(self._trees(name), release=self._release)
                self._machine = name
            case AwaitCrashLoop():
                require_down(self._kubelet, step)
            case AskMetrics():
                self._told = View(running=True, metrics=self._running(step).metrics())
            case FloodPodResources(times=times):
                self._running(step)
                answers = flood_answers(times, release=self._release)
                self._told = View(running=True, flood_answers=answers)
            case AskPodResources() | AskAllocatable():
                every = _decoded(self._manifests, self._in_cluster, self._config)
                self._told = answer(self._running(step).pod_resources(every), step)
                self._running(step).count(*counters_of(step, self._told))
            case _:
                self._do_to_pods(step)

    def _do_to_pods(self, step: Step) -> None:
        """A step that is about pods, their containers, devices or the runtime."""
        match step:
            case Apply(pod=pod):
                self._apply(pod)
            case ApplyTogether(pods=pods, slow=slow):
                require_together(step, self._running(step), self._config, self._release)
                self._apply(*pods, slow=slow)
            case Delete(pod=name):
                self._delete(name)
            case Replace(gone=name, pod=pod):
                self._delete(name, rounds=False)
                self._apply(pod)
            case ReplaceStopping(gone=name, pod=pod):
                kubelet = self._running(step)
                active = self._active_while_stopping(self._config)
                begin_stopping(kubelet, name, active=active, release=self._release)
                self._gone.add(self._manifests.pop(name).uid)
                self._stopping = name
                self._apply(pod)
            case EndStopping():
                kubelet = self._running(step)
                self._in_cluster.forget(self._stopping)
                self._stopping = ""
                kubelet.end_stopping()
                self._in_cluster.retry(self._manifests, self._config, kubelet)
                self._save()
            case Resize(pod=pod):
                if self._runtime.refusals:
                    raise NotModelled("Resize while the runtime refuses updates")
                self._in_cluster.require(step, pod.name, self._manifests, self._config)
                answering = None if self._hangs else self._kubelet
                self._in_cluster.resize(self._manifests, pod, self._config, answering)
                if answering is not None:
                    self._save()
            case AddEphemeral(pod=name, container=container):
                self._in_cluster.require(step, name, self._manifests, self._config)
                pod, running = self._manifests[name], self._running(step)
                self._in_cluster.add_ephemeral(pod, container, self._config, running)
                self._save()
            case Tamper(container=container, cpus=cpus):
                uid = uid_of_running(self._manifests, self._runtime, step)
                self._runtime.update(uid, container, cpus)
            case KillContainer():
                self._kill(step)
            case TamperQuota(container=container, quota=quota):
                require_quota_left_alone(self._config, self._release)
                uid = uid_of_running(self._manifests, self._runtime, step)
                self._runtime.set_quota(uid, container, quota)
            case EndDevicePlugin(resource=resource):
                manager = self._running(step).device_manager
                _require_plugin(step, manager, self._config)
                manager.end_plugin(resource)
                self._told = View(running=True, offered={resource: manager.offered(resource)})
            case RegisterDevices(devices=devices) | ReportDevices(devices=devices):
                kubelet = self._running(step)
                if not has(self._release, Behaviour.TOPOLOGY_SCOPE):
                    # Nothing but Go's map order decides which devices a container gets.
                    raise NotModelled(f"RegisterDevices: devices of release {self._release}")
                empty = any(one.names_none for one in devices)
                if empty and minor_of(self._release) < _EMPTY_LISTS_SINCE:
                    raise NotModelled(f"RegisterDevices by release {self._release}: an empty list")
                _require_plugin(step, kubelet.device_manager, self._config)
                kubelet.register(step)
                if isinstance(step, ReportDevices) and self._config.api_server:
                    now = kubelet.device_manager.offered(step.resource)
                    self._told = View(running=True, offered={step.resource: now})
            case FailUpdates(times=times, container=container):
                self._runtime.refusals = times if times < FOR_EVER else math.inf
                self._runtime.refuses = container
                if self._kubelet is not None:  # a round tries again what was refused before
                    self._kubelet.settle()
            case Spin() | RestartRuntime() | DaemonReload():
                pass  # nothing that decides CPUs

    def follow(self, seen: View, *, late: bool = True) -> bool:
        """Go on from what was ``seen``, where the step just taken was decided by chance.

        A kubelet that starts admits its pods in one of several orders. Up to 1.17 it also gives
        them CPUs again in any order. :meth:`view` shows the outcome of the first order. Where
        ``seen`` equals the outcome of another order, the node takes that one; of several, the one
        in which containers also have their memory where it was seen. Returns whether ``seen`` is
        now :meth:`view`. Unless it is ``late``, outcomes in which the kubelet forgets something are
        left out.
        """
        if _shows(self.view(), seen):
            return True
        if self.view() != seen and self._unended is not None:
            # Killed while a pod went, it may not have ended the pod's containers yet.
            self._runtime, self._unended = self._unended, self._runtime
            if self.view() == seen:
                return True
            self._runtime, self._unended = self._unended, self._runtime
        before = (self._kubelet, self._runtime, self._state_file, self._shown)
        equal = self.view() == seen
        for branch in (*self._branches, *self._while_pods_end):
            if branch[0].forgets and not late:
                continue
            self._take(branch)
            if _shows(self.view(), seen):
                return True
            if not equal and self.view() == seen:
                before = (self._kubelet, self._runtime, self._state_file, self._shown)
                equal = True
        self._kubelet, self._runtime, self._state_file, self._shown = before
        return equal

    @property
    def outcomes(self) -> int:
        """How many outcomes the step just taken may have; 1 unless chance decides."""
        return max(len(self._branches), 1)

    def handed_over(self, make: Callable[[Trees, str, KubeletConfig], Node]) -> Node:
        """The node with another kubelet, of another release or a variant: ``make`` makes it for
        these trees, this machine and this configuration. Manifests, state file, containers and what
        the other managers have kept stay. This node must not be used afterwards.

        Raises :class:`IllegalStep` while the kubelet runs, :class:`NotModelled` where pods come
        from an API server, and as ``make``.
        """
        if self._kubelet is not None:
            raise IllegalStep("another kubelet: the kubelet runs")
        if self._config.api_server:
            raise NotModelled("another kubelet of a node with an API server")
        heir = make(self._trees, self._machine, self._config)
        heir._manifests, heir._known, heir._ended = self._manifests, self._known, self._ended
        heir._perhaps_ended = self._perhaps_ended
        heir._devices, heir.memory_state, heir._runtime = (
            self._devices,
            self.memory_state,
            self._runtime,
        )
        heir._hashed_by = self._hashed_by
        heir._write(self._state_file)
        return heir

    def view(self) -> View:
        """The node once it has settled."""
        default, entries = self._shown
        return View(
            running=self._kubelet is not None,
            error=self._errors[0] if self._errors else "",
            exit_status=self._exit_status if self._errors else None,
            pods=self._pods(),
            assignments=by_pod(entries, self._runtime.owner, self._name),
            shared_pool=default,
            state_file=self._state_file,
            cpusets={self._name(uid): sets for uid, sets in self._runtime.running().items()},
            asked={self._name(uid): named for uid, named in self._runtime.asked().items()},
            cfs={self._name(uid): named for uid, named in self._runtime.cfs().items()},
            pod_cfs={self._name(uid): cfs for uid, cfs in self._runtime.pod_cfs().items()},
            peak_quotas={
                self._name(uid): peak for uid, peak in self._runtime.peak_quotas().items()
            },
            sandbox_quotas={
                self._name(uid): quota for uid, quota in self._runtime.sandbox_quotas().items()
            },
            pods_weight=self._runtime.pods_weight,
            burstable_weight=self._runtime.burstable_weight,
            pods_cpus=self._runtime.pods_cpus,
            reserved_cgroups=dict(self._runtime.reserved_cgroups),
            pod_resources=self._told.pod_resources,
            got_pod=self._told.got_pod,
            allocatable=self._told.allocatable,
            pod_resources_error=self._told.pod_resources_error,
            flood_answers=self._told.flood_answers,
            devices=self._told.devices,
            allocatable_devices=self._told.allocatable_devices,
            memory=self._told.memory,
            allocatable_memory=self._told.allocatable_memory,
            offered=self._told.offered,
            metrics=self._told.metrics,
            versions=self._versions,
            hangs=self._hangs,
        )

    # -- steps -----------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._kubelet is not None:
            raise IllegalStep("Start: the kubelet runs")
        if self._in_cluster.wanted and not has(self._release, Behaviour.RESIZE_REFUSED_FOR_CPU):
            raise NotModelled(f"Start by release {self._release} with a resize that is pending")
        left_alone = has(self._release, Behaviour.ENDED_PODS_LEFT_ALONE)
        if self._ended and not (self._config.api_server and left_alone):
            raise NotModelled(f"Start beside a pod that has ended: {self._ended}")
        crash, self._crash = self._crash, None
        try:
            fresh = self._maker.started(
                self._info,
                self._config,
                self._state_file,
                self._runtime,
                self._devices,
                self.memory_state,
                crash,
            )
        except Killed as end:
            self._die(end)
            return
        except KubeletError as error:
            if panic_is_caught(error, self._release):
                managers = (self._devices, self.memory_state)
                fresh = self._maker.started(
                    self._info, self._config, None, self._runtime, *managers
                )
                self._hang_at_start(fresh, panic=str(error))
                return
            self._errors = tuple(error_text(error, one, self._release) for one in error.possible)
            self._exit_status = status(error, self._release)
            if error.state_file is not None:
                self._write(error.state_file)
            return
        try:
            left = _left_to_admit(fresh, self._manifests, self._in_cluster.over, self._release)
            pods = _decoded(left, self._in_cluster, self._config)
            fresh.counts_by_chance = self._unfinished or self._in_cluster.counts_by_chance
            fresh.perhaps_memory = self._perhaps_memory
            if overlooks_requests(self._config, self._release):
                require_nothing_new(fresh, pods, self._config)
            if self._hashes is not self._hashed_by:  # it restarts all containers
                fresh.runtime.forget_containers()
                self._hashed_by = self._hashes
            branches = branches_of(fresh, pods, self._state_file)
        except Killed as end:
            self._die(end)
            return
        except KubeletHangs:
            if len(self._manifests) > 1:  # chance decides which pods it admitted
                raise
            self._hang_at_start(fresh)
            return
        except KubeletPanics as error:
            if len(self._manifests) > 1:  # chance decides which pods it admitted
                raise NotModelled(f"a panic over one of several pods: {error}") from error
            self._kubelet, self._runtime = fresh, fresh.runtime
            self._die(Killed(fresh.cpu_manager.state), error)
            return
        require_known_start(branches, self._perhaps_ended)
        self._errors, self._branches, self._unfinished = (), branches, False
        ran = self._runtime.running()
        self._ran_at_start = {
            pod.name for pod in pods if (pod.may_end or pod.may_stay_ended) and pod.uid in ran
        }
        self._gone = set()
        self._take(branches[0])

    def _keep(self, kubelet: Kubelet) -> None:
        """The files of the other managers outlive the kubelet, and so does what it told the API
        server. Containers that it ended may never run again."""
        if self._config.api_server:
            self._in_cluster.note(kubelet.pods)
        else:
            refused = (name for name, pod in kubelet.pods.items() if pod.phase is Phase.REJECTED)
            self._perhaps_ended |= self._ran_at_start.intersection(refused)
        self._devices = kubelet.device_manager.checkpoint
        self._perhaps_memory = kubelet.perhaps_memory
        self.memory_state = kubelet.memory or MemoryState({}, policy="None")

    def _die(self, end: Killed, panic: KubeletPanics | None = None) -> None:
        """The kubelet was killed at a write of the state file, or ended by itself in a ``panic``.
        It does nothing further; containers stay as they are."""
        if self._kubelet is not None:
            self._keep(self._kubelet)
        self._kubelet, self._errors, self._hangs, self._crash = None, (), "", None
        if panic is not None:
            self._errors, self._exit_status = (f"panic: runtime error: {panic}",), STATUS_OF_PANIC
        if end.written is None:
            return
        self._versions = tuple(end.written.versions)
        text = end.written.checkpoint().dumps(
            release=self._release, feature_gates=self._config.feature_gates
        )
        if text != self._state_file:
            self._write(text)

    def _hang_at_start(self, fresh: Kubelet, *, panic: str = "") -> None:
        """The kubelet neither comes up nor ends. After a ``panic`` the state file stays as it is,
        and what becomes of pods is not modelled."""
        self._errors, self._gone = (), set()
        self._kubelet, self._runtime = fresh, fresh.runtime
        if panic:
            self._hangs = f"it goes on without its managers after a panic: {panic}"
            self._without_managers = True
            return
        (pod,) = self._manifests.values()
        self._take_up(pod)
        self._save()

    def _take(self, branch: Branch) -> None:
        self._kubelet, text = branch
        self._versions = self._kubelet.taken_versions()
        self._runtime = self._kubelet.runtime
        if text != self._state_file:
            self._write(text)

    def _reboot(self, step: Step, name: str) -> None:
        require_down(self._kubelet, step)
        if self._in_cluster.has_ephemeral:
            raise NotModelled("Reboot of a node with ephemeral containers")
        if name:
            self._info = self._discover(self._trees(name), release=self._release)
            self._machine = name
        if self._config.api_server:
            ran = self._runtime.running()
            self._perhaps_ended |= {
                name
                for name, pod in self._manifests.items()
                if pod.uid in ran and pod.may_stay_ended
            }
        self._runtime.clear()

    def _apply(self, *pods: Pod, slow: str = "") -> None:
        there = dict(self._manifests)
        for pod in pods:
            if pod.name in there:
                raise IllegalStep(f"Apply: pod {pod.name} is in place")
            if any(pod.uid == other.uid for other in there.values()):
                raise IllegalStep(f"Apply: another pod has the uid {pod.uid}")
            api_server = self._config.api_server
            require_known_requests(pod, api_server=api_server, release=self._release)
            decoded = as_decoded(pod, self._config.feature_gates, release=self._release)
            if not api_server:
                require_compared_whole(decoded, self._release)
            require_huge_pages_alone(decoded)
            fault = fault_of(pod) or fault_by_release(pod, self._release) or fault_of_whole(decoded)
            if fault:
                raise IllegalStep(f"Apply: pod {pod.name}: {fault}")
            require_same_pod(self._known.get(pod.uid), pod)
            there[pod.name] = pod
        self._take_up(*pods, slow=slow)
        self._manifests |= there
        self._known |= {pod.uid: pod for pod in pods}
        if self._kubelet is not None:
            self._save()

    def _take_up(self, *pods: Pod, slow: str = "") -> None:
        if self._kubelet is None or self._hangs:
            return
        kubelet = self._kubelet.copy()
        if any(pod.uid in self._gone for pod in pods):
            kubelet.note_return()
        gates = self._config.feature_gates
        decoded = [as_decoded(pod, gates, release=self._release) for pod in pods]
        require_known_room(kubelet, decoded)
        if self._crash is not None:
            require_known_writes(kubelet)
            require_known_memory(kubelet)
        before = kubelet.copy() if kubelet.ending and self._crash is None else None
        pool = kubelet.cpu_manager.state.default
        try:
            kubelet.take_up(decoded, slow=slow)
        except Killed as end:
            self._kubelet, self._runtime = kubelet, kubelet.runtime
            self._die(end)
            return
        except KubeletPanics as error:
            self._kubelet, self._runtime = kubelet, kubelet.runtime
            self._die(Killed(kubelet.cpu_manager.state), error)
            return
        except KubeletHangs as error:
            if len(pods) > 1:
                raise
            self._hangs = str(error)
        else:
            require_known_outcome(kubelet, pods, self._gone)
            if slow:
                require_pool(kubelet)
            require_known_preemption(self._kubelet, kubelet, self._in_cluster, self._crash)
            if before is not None:
                self._while_pods_end = counting_ending(before, kubelet, decoded, self._state_file)
            if self._crash is None:
                left = as_the_pool_emptied(pool, kubelet, decoded, self._state_file)
                self._while_pods_end += left
            if any(kubelet.pods[pod.name].phase is Phase.REJECTED for pod in pods):
                self._in_cluster.retry_at_end(self._manifests, self._config, kubelet)
        self._kubelet, self._runtime = kubelet, kubelet.runtime

    def _settle(self) -> None:
        if self._kubelet is not None and not self._hangs:
            try:
                self._kubelet.settle()
            except Killed as end:
                self._die(end)
                return
            self._save()

    def _delete(self, name: str, *, rounds: bool = True) -> None:
        if name not in self._manifests:
            raise IllegalStep(f"Delete: no pod {name}")
        kubelet, state_file = self._kubelet, self._state_file
        if kubelet and self._in_cluster.may_try_again(name):
            _leave_counts_to_chance(kubelet.cpu_manager)
        other = assuming_otherwise(kubelet, self._manifests[name]) if kubelet and rounds else None
        if self._crash is not None and kubelet is not None:
            if other is not None:
                raise NotModelled(f"Delete: pod {name} may be the one that was admitted last")
            require_known_writes(kubelet, self._manifests[name].uid)
        pod = self._manifests.pop(name)
        self._gone.add(pod.uid)
        self._ended.discard(name)
        self._ran_at_start.discard(name)
        self._perhaps_ended.discard(name)
        self._in_cluster.forget(name)
        if self._kubelet is not None and not self._hangs:
            before = self._runtime.copy()
            try:
                self._kubelet.drop(name, rounds=rounds)
            except Killed as end:
                self._die(end)
                self._unended = before
                self._unfinished = self._config.api_server
                return
            self._in_cluster.retry(self._manifests, self._config, self._kubelet)
            self._save()
            if other is not None:
                other.drop(name)
                outcome = branch_of(other, state_file)
                self._branches = [(self._kubelet, self._state_file), outcome]

    def _kill(self, step: KillContainer) -> None:
        """Raises :class:`NotModelled` up to 1.17, where the new container has another id, so the
        CPUs of both are in the state for a while (kubernetes/kubernetes#106549)."""
        name, container = step.pod, step.container
        uid_of_running(self._manifests, self._runtime, step)
        if self._hangs or not has(self._release, Behaviour.KEYED_BY_POD):
            raise NotModelled(f"KillContainer: {name}/{container} by release {self._release}")
        pod = self._in_cluster.decoded(self._manifests[name], self._config)
        if self._kubelet is None:
            end_while_down(pod, step, self._runtime)
            return
        kubelet = self._kubelet
        if self._in_cluster.is_ephemeral(name, container):
            kubelet.end_ephemeral(pod.uid, container)
            return
        (ended,) = (one for one in pod.containers if one.name == container)
        kubelet.end_container(pod, ended, step.exit_code)
        if kubelet.pods[name].phase is Phase.ENDED:
            self._ended.add(name)
            self._in_cluster.retry_at_end(self._manifests, self._config, kubelet)
        self._save()

    # -- parts -----------------------------------------------------------------------------------

    def _pods(self) -> dict[str, PodView]:
        """What a running kubelet shows; one that hangs has not taken up the other manifests."""
        if self._kubelet is None:
            return {}
        waiting = self._manifests if self._hangs else ()
        pods = {**{name: PodView(Phase.PENDING) for name in waiting}, **self._kubelet.pods}
        return self._in_cluster.shown(pods) if self._config.api_server else pods

    def _running(self, step: Step) -> Kubelet:
        if self._kubelet is None:
            raise IllegalStep(f"{type(step).__name__}: the kubelet does not run")
        return self._kubelet

    def _name(self, uid: str) -> str:
        known = self._known.get(uid)
        return uid if known is None else known.name

    def _save(self) -> None:
        assert self._kubelet is not None
        text = self._kubelet.unsaved_state()
        self._versions = self._kubelet.taken_versions()
        if text is not None:
            self._write(text)

    def _write(self, text: str | None) -> None:
        self._state_file = text
        kept = has(self._release, Behaviour.STATE_FILE)
        self._shown = parse_leniently(text if kept else None, release=self._release)


def _shows(view: View, seen: View) -> bool:
    """Whether ``seen`` is the view, also in where containers have their memory."""
    return view == seen and all(
        own.mems == other.mems
        for pod, asked in view.asked.items()
        for name, own in asked.items()
        if (other := seen.asked.get(pod, {}).get(name)) is not None
    )


def _left_to_admit(
    fresh: Kubelet, manifests: Mapping[str, Pod], over: Mapping[str, PodView], release: AnyRelease
) -> Mapping[str, Pod]:
    """The pods that a starting kubelet admits. It knows already what the API server says of those
    that are ``over``."""
    fresh.over = dict(over)
    if not over or not has(release, Behaviour.ENDED_PODS_LEFT_ALONE):
        return manifests
    fresh.pods |= over
    return {name: pod for name, pod in manifests.items() if name not in over}


def _decoded(
    manifests: Mapping[str, Pod], in_cluster: PodsInCluster, config: KubeletConfig
) -> list[Pod]:
    """The pods as the kubelet reads them: from an API server the oldest first, else in the order of
    their manifests."""
    names = [*manifests] if config.api_server else _in_order(manifests)
    return [in_cluster.decoded(manifests[name], config) for name in names]


def _in_order(names: Collection[str]) -> Collection[str]:
    """Pods by the names of their files."""
    return names if len(names) == 1 else sorted(names, key=lambda name: f"{name}.yaml".encode())


def _leave_counts_to_chance(manager: CPUManager) -> None:
    """A pod is deleted that waits for a larger size. If its CPUs are removed before the kubelet
    tries that size again, it has that size for a moment, and NUMA nodes that are empty then keep
    the count (seen on 1.36.4)."""
    manager.metrics = manager.metrics._replace(per_numa={})


def _require_plugin(
    step: RegisterDevices | ReportDevices | EndDevicePlugin,
    manager: DeviceManager,
    config: KubeletConfig,
) -> None:
    """Raise :class:`IllegalStep` where a plugin that is not there is to report or to end, and
    :class:`NotModelled` where nothing shows that the kubelet knows of the end."""
    if isinstance(step, RegisterDevices):
        return
    if not manager.has_plugin(step.resource):
        raise IllegalStep(f"{type(step).__name__}: no device plugin serves {step.resource}")
    if isinstance(step, EndDevicePlugin) and not config.api_server:
        raise NotModelled("EndDevicePlugin: only an API server shows when the kubelet knows of it")
