"""One node: a sandbox with a machine, a runtime, and a kubelet that is started and stopped.

What belongs here: what each step of :mod:`reference.steps` does to machine, manifests and state
file, and how a :class:`~reference.view.View` is made. What never does: the kubelet's process
(:mod:`conformance.subjects.kubelet.process`), and judging the effect of a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import topologies
from conformance.kubelets import configuration as kubelet_config
from conformance.kubelets import manifests, releases
from conformance.kubelets.pod_resources import NoCPUs, by_own_names
from conformance.subject import SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet import pod_cgroups
from conformance.subjects.kubelet.apiserver import APIPods, APIServer
from conformance.subjects.kubelet.clock import with_clock
from conformance.subjects.kubelet.devices.plugin import DevicePlugins
from conformance.subjects.kubelet.docker import FakeDocker
from conformance.subjects.kubelet.endpoint import NOT_SEEN, PodStatus
from conformance.subjects.kubelet.huge_pages import with_huge_pages_of_all
from conformance.subjects.kubelet.inside import OWN_CGROUPS
from conformance.subjects.kubelet.pod_resources import PodResourcesClient, Refused
from conformance.subjects.kubelet.process import (
    DEVICE_SOCKET,
    FIRST_LIST,
    PATIENT,
    Binary,
    KubeletProcess,
    Patience,
)
from conformance.subjects.kubelet.runtime import FakeRuntime
from conformance.subjects.kubelet.sandbox import AREA, STATE_DIR, Sandbox
from conformance.subjects.kubelet.sandboxes import Sandboxes
from conformance.subjects.stepping import SteppedNode
from reference import steps
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.cpumanager.state.state_mem import assigned, by_pod
from reference.cpuset import CPUSet
from reference.steps import RECONCILE_PERIOD, Kind, KubeletConfig, Pod, Step
from reference.view import Offered, Phase, PodView, Version, View
from topologies import Machine

POD_RESOURCES_SOCKET: Final = f"{STATE_DIR}/pod-resources/kubelet.sock"
_NAMESPACE: Final = "default"
_ENDED: Final = ("Failed", "Succeeded")
_STOP: Final = "StopContainer"
STATE_FILE: Final = f"{STATE_DIR}/cpu_manager_state"


#: Seconds more for effects after a restart of the runtime. A kubelet checks its runtime every 5
#: seconds (``updateRuntimeUp``), and does not sync pods for up to 5 more (``syncLoop``); on a busy
#: host it takes longer.
RUNTIME_RECOVERY: Final = 20.0
#: Seconds more if a container ends for a second time: its kubelet restarts it after 10 to 15
#: seconds (``backOffPeriod``, ``pod_workers.go``).
BACK_OFF: Final = 20.0
#: Seconds until a kubelet has updated its node's status at the API server: every second, as
#: configured (``nodeStatusUpdateFrequency``), and later on a busy host.
NODE_STATUS: Final = 20.0
#: Seconds more if a pod has the name of an earlier one: a kubelet starts a static pod only after
#: the earlier one of its name has ended (``allowPodStart``, ``pod_workers.go``).
RETURN: Final = 10.0
#: Seconds after its first list in which a kubelet admits the pods of an API server and updates
#: their status. Until then the server has the old status: a pod that will be rejected seems to run.
FIRST_ADMISSIONS: Final = 1.5
#: Seconds until the API server has a container's new size: a kubelet checks its containers every
#: second. A resize that takes longer is not waited for.
RESIZE_STATUS: Final = 5.0
_ASKS_EACH: Final = 0.2


class KubeletNode(SteppedNode):
    """A node under test (:class:`conformance.subject.NodeUnderTest`) around a real kubelet.

    ``sandboxes`` gives the sandbox, and gets it back when the node is closed. ``certificates`` are
    those of :class:`~conformance.subjects.kubelet.process.KubeletProcess`. Its pods come from
    ``api_server`` if the configuration says so, else from manifests. ``runtime`` is its container
    runtime, ``name_in_cluster`` its name at the API server (``""`` without one).
    """

    def __init__(
        self,
        binary: Binary,
        machine: Machine,
        config: KubeletConfig,
        *,
        sandboxes: Sandboxes,
        machines: Callable[[str], Machine] = topologies.machine,
        certificates: dict[str, bytes] | None = None,
        patience: Patience = PATIENT,
        api_server: APIServer | None = None,
    ) -> None:
        super().__init__(config, machines)
        self._release = str(binary.release)
        self._patience = patience
        self._names: dict[str, str] = {}
        self._applied: dict[str, Pod] = {}
        self._stopping: Pod | None = None
        self._machines = 0
        self._closed = False
        self._recovery = 0.0
        self._killed: set[tuple[str, str]] = set()
        self._asked: steps.AskPodResources | steps.AskAllocatable | steps.AskMetrics | None = None
        self._flood: dict[str, int] | None = None
        self._offered: dict[str, Offered] = {}
        self._versions_before = 0
        self._sandboxes = sandboxes
        self._sandbox = sandboxes.take()
        self._until = self._sandbox.bell.until
        self._plugins = DevicePlugins(
            lambda: self._sandbox.path(DEVICE_SOCKET).parent, self._until, patience.effect
        )
        self._pod_resources = PodResourcesClient(self._sandbox.path(POD_RESOURCES_SOCKET))
        try:
            self.runtime = FakeRuntime(
                self._sandbox.path(kubelet_config.CRI_SOCKET),
                self._sandbox.bell,
                lambda: _text_at(self._sandbox.path(STATE_FILE)),
            )
        except OSError as error:
            sandboxes.give_back(self._sandbox)
            raise SubjectSetupError(f"no container runtime: {error}") from error
        try:
            self._api = _joined(api_server, self._sandbox) if config.api_server else None
        except SubjectSetupError:
            self.runtime.close()
            sandboxes.give_back(self._sandbox)
            raise
        self.name_in_cluster = "" if self._api is None else self._api.name
        self._process = KubeletProcess(
            binary,
            self._sandbox,
            self.runtime,
            certificates={} if certificates is None else certificates,
            patience=patience,
            node_in_cluster=self.name_in_cluster,
        )
        self._docker: FakeDocker | None = None
        try:
            self.replace_kubelet(binary)
            self._bind(machine)
        except SubjectLostError as error:
            self.close()
            raise SubjectSetupError(str(error)) from error

    @property
    def sandbox(self) -> Sandbox:
        """The node's sandbox."""
        return self._sandbox

    def replace_kubelet(self, binary: Binary) -> None:
        """Use this kubelet from the next start on. Raises :class:`SubjectLostError` if a kubelet
        runs."""
        if self._is_up():
            raise SubjectLostError("another kubelet, while the kubelet runs")
        self._release = str(binary.release)
        self._process.binary = binary
        if self._docker is None and releases.asks_for_docker(binary.release):
            self._docker = _docker_at(self._sandbox.path(kubelet_config.DOCKER_SOCKET))

    # --- steps -------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """See :class:`conformance.subject.NodeUnderTest`."""
        self._require_alive()
        self._process.watch()
        self._asked, self._flood, self._offered = None, None, {}
        self._versions_before = self._sandbox.count_of_versions()
        match step:
            case steps.AskPodResources() | steps.AskAllocatable() | steps.AskMetrics():
                self._asked = step
            case steps.KillAtRename(number=number, after=after, any_file=any_file):
                self._sandbox.kill_at_rename(number, after=after, any_file=any_file)
            case steps.FailWrites(times=times):
                self._sandbox.fail_renames(times)
            case steps.FloodPodResources(times=times):
                self._flood = self._pod_resources.flood(times)
            case steps.RegisterDevices(resource=resource, devices=devices):
                if not self._is_up():
                    raise SubjectLostError("RegisterDevices: the kubelet does not run")
                if self._plugins.register(step) and self._api is not None:
                    number = sum(one.healthy for one in devices)
                    offered = partial(_offers, self._api, resource, number)
                    self._until(lambda: offered() or not self._is_up(), NODE_STATUS)
            case steps.ReportDevices(resource=resource) | steps.EndDevicePlugin(resource=resource):
                if not self._is_up():
                    raise SubjectLostError(f"{type(step).__name__}: the kubelet does not run")
                number = _changed(self._plugins, step, self._api)
                if self._api is not None:
                    offered = partial(_offers, self._api, resource, number)
                    self._until(lambda: offered() or not self._is_up(), NODE_STATUS)
                    now = self._api.offers(resource)
                    self._offered = {} if now is None else {resource: now}
            case steps.ApplyTogether(pods=pods, slow=""):
                for pod in pods:
                    self._apply(pod)
            case steps.ApplyTogether(pods=(first, *others), slow=slow):
                held, effect = self.runtime.held, self._patience.effect
                held.hold(slow, most=1)
                self._apply(first)
                self._until(lambda: held.wait(slow) or not self._is_up(), effect)
                for pod in others:
                    self._apply(pod)
                self._until(lambda: not self._is_up() or _are_done(self.view(), others), effect)
                held.end(slow)
            case steps.ReplaceStopping(gone=name, pod=pod):
                if not self._is_up():
                    raise SubjectLostError(f"pod {name} cannot stop: the kubelet does not run")
                self._stopping = self._applied.get(name)
                held = self.runtime.held
                held.hold(_STOP)
                self._delete(name, force=False, done=lambda _: held.wait(_STOP))
                self._apply(pod)
            case steps.EndStopping():
                self.runtime.held.end(_STOP)
                self._until(lambda: self._is_gone(self._stopping), self._patience.effect)
            case steps.FailUpdates(times=times, container=container):
                self.runtime.refuse_updates(times, container)
            case steps.RestartRuntime():
                self.runtime.restart()
                self._recovery = RUNTIME_RECOVERY
            case steps.Resize(pod=pod):
                api = _required(self._api, step)
                api.resize(pod)
                if any(one.resize_restarts for one in pod.containers):
                    is_known = partial(_server_knows_resizes, api, self._process)
                    self._until(is_known, self._patience.effect, slowest=_ASKS_EACH)
            case steps.AddEphemeral(pod=name, container=container):
                _required(self._api, step).add_ephemeral(name, container)
            case steps.TamperQuota(pod=name, container=container, quota=quota):
                uid = _uid(self._applied.get(name))
                if not self.runtime.set_quota(uid, container, quota):
                    raise SubjectLostError(f"no running container {name}/{container}")
            case _:
                self._carry_out(step)

    def _is_up(self) -> bool:
        return self._sandbox.running

    def _start(self) -> None:
        if not self._is_up():
            # A kubelet that starts forgets its back-off. Only a container that it then starts again
            # counts: one that ended while it was down, or with a rejected pod.
            ended = self.runtime.ended()
            self._killed = {(self._names[uid], name) for uid, name in ended if uid in self._names}
            # Running pods have cgroups on a real node. Here an older kubelet has not made them.
            ready = {uid: one.cgroup for uid, one in self.runtime.sandboxes(ready=True).items()}
            known = {pod_cgroups.path_of(pod) for pod in self._applied.values() if pod.uid in ready}
            known |= {*ready.values()} | pod_cgroups.cgroups_of_reservations(self._config)
            self._process.start(self._config, sorted(known - {""}))
            if self._api is not None and self._applied:
                self._until(lambda: self._process.has_listed("api"), FIRST_LIST)
                self._until(lambda: not self._is_up(), FIRST_ADMISSIONS)

    def _stop(self, kill: bool) -> None:
        if self._is_up():
            is_known = partial(_is_end_known, self._api, self._process, self._applied)
            self._until(is_known, self._patience.effect)
            # A kubelet removes cgroups of rejected pods within two seconds. One that is left would
            # have a wrong quota when the next kubelet admits the pod.
            left = partial(_leaves_a_cgroup, self.runtime, self._sandbox)
            uids = [pod.uid for pod in self._applied.values()]
            self._until(
                lambda: not self._is_up() or not any(map(left, uids)), self._patience.effect
            )
            self._process.stop(kill)
        self._plugins.close()

    def _reboot(self, machine: Machine | None) -> None:
        if machine is not None:
            self._bind(machine)
        self.runtime.drop_everything()
        pod_cgroups.remove_all(self._sandbox)
        boot_id = Path("/proc/sys/kernel/random/uuid").read_text()
        # Written in place: a bind mount shows the kubelet this file in /proc/sys.
        self._sandbox.path(f"{AREA}/settings/kernel/random/boot_id").write_text(boot_id)

    def _bind(self, machine: Machine) -> None:
        self._machines += 1
        folder = f"{AREA}/machines/{self._machines}"
        try:
            tree = with_huge_pages_of_all(with_clock(machine.tree))
            topologies.write(tree, self._sandbox.path(folder), share=True)
        except topologies.MachineError as error:
            raise SubjectLostError(f"machine {machine.name}: {error}") from error
        self._sandbox.bind_machine(folder)

    def _apply(self, pod: Pod) -> None:
        source = "file" if self._api is None else "api"
        self._until(lambda: self._process.has_listed(source), FIRST_LIST)
        if self._api is not None:
            is_known = partial(_server_knows_resizes, self._api, self._process)
            if not self._until(is_known, RESIZE_STATUS, slowest=_ASKS_EACH):
                self._api.give_up_resizes()
            # A kubelet that starts admits pods in the order of their age.
            pod = replace(pod, uid=self._api.create(pod, later=not self._is_up()))
        if pod.name in self._names.values():
            self._recovery = max(self._recovery, RETURN)
        self._names[pod.uid] = pod.name
        self._applied[pod.name] = pod
        if self._api is None:
            self._sandbox.write(_manifest(pod.name), manifests.text(pod))

    def _delete(
        self,
        name: str,
        force: bool,
        *,
        rounds: bool = True,
        done: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Delete a pod, and wait until it is gone, or until ``done``."""
        is_done = done or self._is_gone
        pod = self._applied.pop(name, None)
        if self._api is None:
            self._sandbox.path(_manifest(name)).unlink(missing_ok=True)
        elif pod is not None:  # by force, or the next kubelet would find it being deleted
            self._api.delete(name, force=force or not self._is_up())
        if pod is not None and force:
            forgotten = partial(_has_forgotten, self._process, pod)
            self._until(lambda: not self._is_up() or forgotten(), self._patience.effect)
            self.runtime.drop_pod(pod.uid)
        if pod is not None:
            self._until(lambda: is_done(pod), self._patience.effect)

    def _is_gone(self, pod: Pod | None) -> bool:
        """Whether a pod has ended. It is true if the kubelet is down, since it then ends no
        container. If the kubelet still lists the pod, it may still start it."""
        if not self._is_up() or pod is None:
            return True
        if pod.uid in self.runtime.running_ids().values():
            return False
        return _has_forgotten(self._process, pod)

    def _set_state(self, text: str | None) -> None:
        path = self._sandbox.path(STATE_FILE)
        if text is None:
            path.unlink(missing_ok=True)
            return
        if self._api is not None:
            text = self._api.as_given(text, self._release, self._config.feature_gates)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._sandbox.write(STATE_FILE, text, mode=0o600)

    def _tamper(self, name: str, container: str, cpus: CPUSet) -> bool:
        return self.runtime.set_cpuset(_uid(self._applied.get(name)), container, cpus)

    def _kill_container(self, name: str, container: str, exit_code: int) -> bool:
        if self._is_up():
            if (name, container) in self._killed:
                self._recovery = max(self._recovery, BACK_OFF)
            self._killed.add((name, container))
        return self.runtime.end_container(_uid(self._applied.get(name)), container, exit_code)

    def _await_reconcile(self) -> None:
        """Wait for a reconcile round. It visits the containers that the kubelet knows to run, so it
        has to know them first. A round without updates cannot be seen. It begins one period after
        the last one ended. So after two periods and the time of a round, one has begun and ended
        after this moment. An answer at the end shows that the kubelet had the processor in that
        time."""
        if not self._is_up() or self._config.policy == "none":
            return
        self._until(self._knows_what_runs, self._patience.effect)
        rounds = 2 * self._config.reconcile_period / 1000 + 0.1
        deadline = time.monotonic() + rounds
        self._until(lambda: time.monotonic() >= deadline or not self._is_up(), rounds + 1.0)
        self._process.pods()

    def _knows_what_runs(self) -> bool:
        if not self._is_up():
            return True
        known = {each for status in self._process.pods() for each in status.running}
        return self.runtime.running_ids().keys() <= known

    def _require_alive(self) -> None:
        if self._closed or self._sandbox.lost:
            raise SubjectLostError(f"the node {'is closed' if self._closed else 'was lost'}")

    # --- views -------------------------------------------------------------------------------

    def view(self) -> View:
        """What can be seen now; see :class:`reference.view.View`.

        An exit status of 128 and more is 128 + the signal that the kubelet died of. The pods of a
        kubelet that does not answer are pending. Raises :class:`SubjectLostError` if the sandbox
        ended.
        """
        self._require_alive()
        running = self._is_up()
        # The kubelet writes its state file, then calls the runtime, then shows the pod. Read in
        # reverse order, the view has the cause of every effect in it.
        pods = self._pods() if running else {}
        cpusets, sandboxes = self.runtime.cpusets(), self.runtime.sandboxes(ready=True)
        text = _text_at(self._sandbox.path(STATE_FILE))
        error = "" if running else self._process.error
        shared, entries = parse_leniently(text, release=self._release)
        if self._api is not None:
            text = self._api.as_stated(text, self._release, self._config.feature_gates)
            error = self._api.error_as_stated(error)
        seen = View(
            running=running,
            error=error,
            exit_status=None if running else self._process.exit_status,
            pods=pods,
            assignments=by_pod(entries, self.runtime.owner, self._name),
            shared_pool=shared,
            state_file=text,
            cpusets={self._name(uid): sets for uid, sets in cpusets.items()},
            asked={
                self._name(uid): named for uid, named in self.runtime.asked(self._release).items()
            },
            cfs={self._name(uid): named for uid, named in self.runtime.cfs().items()},
            pod_cfs={
                self._name(uid): cfs
                for uid, one in sandboxes.items()
                if uid in cpusets and (cfs := pod_cgroups.cfs_of(self._sandbox, one.cgroup))
            },
            peak_quotas={
                self._name(uid): one.peak_quota for uid, one in sandboxes.items() if uid in cpusets
            },
            sandbox_quotas={
                self._name(uid): one.quota for uid, one in sandboxes.items() if uid in cpusets
            },
            pods_weight=pod_cgroups.pods_weight(self._sandbox),
            burstable_weight=pod_cgroups.burstable_weight(self._sandbox),
            pods_cpus=pod_cgroups.pods_cpus(self._sandbox),
            reserved_cgroups=pod_cgroups.reserved_cgroups(self._sandbox),
            hangs=self._process.hangs,
            flood_answers=self._flood,
            offered=self._offered,
            versions=_versions(self._sandbox.versions(self._versions_before), self._release),
        )
        if not running or self._asked is None:
            return seen
        if isinstance(self._asked, steps.AskMetrics):
            return replace(seen, metrics=self._process.metrics())
        called = {_name_in_kubelet(self._api, name): name for name in self._names.values()}
        pod = self._asked.pod if isinstance(self._asked, steps.AskPodResources) else ""
        wanted = _name_in_kubelet(self._api, pod)
        return _with_answer(seen, self._asked, self._pod_resources, wanted, called)

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """Look until ``satisfied`` is true, or no effect can come any more: the kubelet is down or
        hangs, or the time for an effect is over, which is longer on a busy host.

        Then a kubelet counts as hanging if it does not answer, or has done nothing for a pod.
        Raises :class:`SubjectLostError` if it had no processor.
        """
        last: list[View] = []

        def look() -> bool:
            down = not self._is_up()
            last[:] = [self.view()]
            return satisfied(last[0]) or down or bool(self._process.hangs)

        # Two reconcile rounds take longer than with the default period.
        late = 2 * (self._config.reconcile_period - RECONCILE_PERIOD) / 1000
        longer = self._recovery + late
        patience, later = self._patience.effect + longer, self._patience.after_progress + longer
        began = time.monotonic()
        if not self._process.shows(look, patience, lambda: set(self.runtime.running_ids()), later):
            seconds = time.monotonic() - began
            self._process.require_processor(seconds)
            idle = _not_begun(self._process, self.runtime, self._applied, last[0])
            if idle:
                self._process.note_hang(f"no effect in {seconds:.2g} s: {idle}", seconds)
                return self.view()
        return last[0]

    def _pods(self) -> dict[str, PodView]:
        seen = {status.uid: _with_resize(self._api, status) for status in self._process.pods()}
        names = {pod.uid: pod.name for pod in self._applied.values()}
        names |= {uid: self._name(uid) for uid in seen}
        started = self.runtime.cpusets()
        return {
            name: PodView(Phase.RUNNING, qos=view.qos)
            if view.phase is Phase.ENDED and _is_being_terminated(self.runtime, self._sandbox, uid)
            else view
            for uid, name in names.items()
            for view in [_pod_view(seen.get(uid), started.get(uid, {}), self._applied.get(name))]
        }

    def _name(self, uid: str) -> str:
        return self._names.get(uid, uid)

    def evidence(self) -> str:
        """See :meth:`~conformance.subjects.kubelet.process.KubeletProcess.evidence`."""
        return self._process.evidence()

    @property
    def killed_at_rename(self) -> str:
        return self._sandbox.killed_at_rename

    def close(self) -> None:
        """Leave nothing behind; :class:`~conformance.subjects.kubelet.sandboxes.Sandboxes` says
        when the sandbox is gone. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._process.close()
        if self._api is not None:
            self._api.close()
        self._sandbox.end()
        self._plugins.close()
        self.runtime.close()
        if self._docker is not None:
            self._docker.close()
        self._sandboxes.give_back(self._sandbox)


def _is_end_known(api: APIPods | None, process: KubeletProcess, applied: Mapping[str, Pod]) -> bool:
    """Whether the API server knows which pods have ended, and which containers have started again.
    A kubelet shows it a moment earlier itself, and the next kubelet reads it from the server. By a
    status that is late it would restart all containers of a pod once more."""
    if api is None or process.hangs:
        return True
    there = {pod.uid for pod in applied.values()}
    ended = {each.uid for each in process.pods() if each.phase in _ENDED} & there
    if ended and not ended <= api.ended():
        return False
    pods = applied.values()
    restart = {pod.uid for pod in pods if any(one.restarts_all_on for one in pod.containers)}
    return not restart or not (restart - ended) & api.restarting_all()


def _has_forgotten(process: KubeletProcess, pod: Pod) -> bool:
    """Whether the kubelet no longer lists the pod. A kubelet that sees containers end before the
    manifest is gone restarts them, perhaps long after both."""
    listed = process.pods()
    return not process.silence and all(status.uid != pod.uid for status in listed)


def _is_being_terminated(runtime: FakeRuntime, sandbox: Sandbox, uid: str) -> bool:
    """Whether a pod is being terminated. It counts as active until that is done, in any phase
    (``filterOutInactivePods``, ``kubelet_pods.go``). Its sandbox is stopped near the end, and its
    cgroup is removed at the end (``SyncTerminatedPod``, ``kubelet.go``)."""
    return uid in runtime.sandboxes(ready=True) or _leaves_a_cgroup(runtime, sandbox, uid)


def _leaves_a_cgroup(runtime: FakeRuntime, sandbox: Sandbox, uid: str) -> bool:
    """Whether a pod still has a cgroup after all its sandboxes were stopped."""
    stopped = runtime.sandboxes(ready=False).get(uid)
    if stopped is None or not stopped.cgroup or uid in runtime.sandboxes(ready=True):
        return False
    return sandbox.path(f"{OWN_CGROUPS}/{stopped.cgroup}").exists()


def _server_knows_resizes(api: APIPods, process: KubeletProcess) -> bool:
    """Whether the API server knows the results of resizes. When the kubelet admits the next pod, it
    reads the sizes of running containers from there."""
    return api.shows_resizes() or not process.running or bool(process.hangs)


def _versions(texts: Iterable[str], release: str) -> tuple[Version, ...]:
    read = (parse_leniently(text, release=release) for text in texts)
    return tuple(Version(pool, assigned(entries)) for pool, entries in read)


def _joined(api_server: APIServer | None, sandbox: Sandbox) -> APIPods:
    """Join the node to the API server. Raises :class:`SubjectSetupError`."""
    if api_server is None:
        raise SubjectSetupError("there is no API server")
    try:
        pods = APIPods(api_server, sandbox)
        sandbox.write(kubelet_config.KUBECONFIG, pods.kubeconfig(), mode=0o600)
    except (SubjectLostError, OSError) as error:
        raise SubjectSetupError(f"no API server: {error}") from error
    return pods


def _offers(api: APIPods, resource: str, number: int) -> bool:
    """Whether the server's status of the node has the devices again. The kubelet admits a pod by
    that status (predicate.go), and may have removed the devices from it at its start. Devices that
    were never in it are ignored (``removeMissingExtendedResources``)."""
    offered = api.offers(resource)
    return offered is not None and offered.allocatable == number


def _changed(
    plugins: DevicePlugins, step: steps.ReportDevices | steps.EndDevicePlugin, api: APIPods | None
) -> int:
    """Let a device plugin report other devices, or end. Returns how many devices are healthy."""
    if isinstance(step, steps.ReportDevices):
        plugins.report(step)
        return sum(one.healthy for one in step.devices)
    _required(api, step)
    plugins.end(step.resource)
    return 0


def _required(api: APIPods | None, step: Step) -> APIPods:
    if api is None:
        raise SubjectLostError(f"{type(step).__name__}: the pods of this node are manifests")
    return api


def _with_resize(api: APIPods | None, status: PodStatus) -> PodStatus:
    """The status, with :data:`NOT_SEEN` if the kubelet does not know the last resize yet."""
    asked = api.asked.get(status.uid) if api is not None else None
    heard = asked is None or asked == status.resources
    return status if heard else replace(status, resize=NOT_SEEN)


def _with_answer(
    seen: View,
    asked: steps.AskPodResources | steps.AskAllocatable,
    client: PodResourcesClient,
    wanted: tuple[str, str],
    called: Mapping[tuple[str, str], str],
) -> View:
    """The view with the kubelet's answer at its pod-resources socket. ``wanted`` is the namespace
    and name of the pod that is asked for, if any; ``called`` has the scenario's name by those of
    each pod."""
    try:
        match asked:
            case steps.AskAllocatable():
                allocatable = client.allocatable()
                return replace(
                    seen,
                    allocatable=allocatable.cpus,
                    allocatable_devices=allocatable.devices,
                    allocatable_memory=allocatable.memory,
                )
            case steps.AskPodResources(pod=""):
                listed = client.listed()
                return replace(
                    seen,
                    pod_resources=by_own_names(listed.cpus, called),
                    devices=by_own_names(listed.devices, called),
                    memory=by_own_names(listed.memory, called),
                )
        (got,) = client.of_pod(*wanted).values()
        return replace(seen, got_pod=got)
    except (Refused, NoCPUs) as error:
        return replace(seen, pod_resources_error=str(error))


def _name_in_kubelet(api: APIPods | None, pod: str) -> tuple[str, str]:
    """A pod's namespace and name in the kubelet, which appends the node's name to that of a static
    pod."""
    if api is not None:
        return api.namespace, pod
    return _NAMESPACE, f"{pod}-{kubelet_config.NODE_NAME}"


def _not_begun(
    process: KubeletProcess, runtime: FakeRuntime, applied: Mapping[str, Pod], view: View
) -> str:
    """What a running kubelet has to do and has not begun, in words; ``""`` if there is nothing."""
    if process.silence:
        return f"it does not answer ({process.silence})"
    begun = runtime.sandboxes(ready=True).keys() | runtime.sandboxes(ready=False).keys()
    for name, pod in applied.items():
        if view.pods[name].phase is Phase.PENDING and pod.uid not in begun:
            return f"it has begun nothing for pod {name}"
    return ""


def _are_done(view: View, pods: Iterable[Pod]) -> bool:
    """Whether each of these pods runs, or is refused or has ended."""
    return all(view.pods[pod.name].phase is not Phase.PENDING for pod in pods)


def _uid(pod: Pod | None) -> str:
    return pod.uid if pod is not None else ""


def _text_at(path: Path) -> str | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return data.decode("utf-8", "surrogateescape")


def _manifest(pod: str) -> str:
    return f"{kubelet_config.MANIFESTS}/{manifests.file_name(pod)}"


def _docker_at(path: Path) -> FakeDocker:
    try:
        return FakeDocker(path)
    except OSError as error:
        raise SubjectLostError(f"no Docker: {error}") from error


def _pod_view(status: PodStatus | None, started: Collection[str], pod: Pod | None) -> PodView:
    """A pod runs as soon as the runtime runs all its containers, since the kubelet's phase is up to
    a second late (its PLEG). If containers may end permanently, the kubelet's phase counts, too."""
    if status is None:
        return PodView(Phase.PENDING)
    if status.phase == "Failed" and status.reason:
        return PodView(Phase.REJECTED, status.reason, status.message, status.qos)
    if status.phase in _ENDED:
        return PodView(Phase.ENDED, qos=status.qos)
    wanted = {each.name for each in pod.containers if each.kind is not Kind.INIT} if pod else ()
    runs = bool(wanted) and all(name in started for name in wanted)
    if pod is None or pod.may_end:
        runs = runs or status.phase == "Running"
    phase = Phase.RUNNING if runs else Phase.PENDING
    return PodView(phase, qos=status.qos, resize=status.resize)
