"""One node around a CPU manager that is spoken to over a line.

What belongs here: the node without its CPU manager: manifests, the runtime's containers, the phases
of pods, the state file while the kubelet is down, and when the CPU manager is asked what. What
never does: which CPUs anybody gets, or a pod's admission, as far as the program decides it.

What a kubelet checks of a pod besides is the model's (``reference.kubelet.admission``): the program
has a CPU manager and a Topology Manager, and no more. After every step everything that it sets off
has happened, one reconcile round included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

import topologies
from conformance.discovered import info_of
from conformance.kubelets.configuration import settings_of_cpus
from conformance.kubelets.manifests import manifest
from conformance.subject import SubjectLostError
from conformance.subjects.exec import wire
from conformance.subjects.exec.machineinfo import machine_line
from conformance.subjects.exec.program import Hangs, Panicked, Program
from reference import CPUSet, CPUSetParseError, NotModelled
from reference.behaviours import Behaviour
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.errors import ConfigurationError, InvalidConfiguration
from reference.kubelet.admission import fault_of, lack_of_cpus, refusal
from reference.kubelet.runtime import Runtime
from reference.pods.pod_level_resources import as_decoded
from reference.pods.qos import qos_class
from reference.releases import has
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    Tamper,
    WriteState,
)
from reference.topologymanager.validation import faults_of_settings
from reference.view import Phase, PodView, View
from topologies import Machine

#: A Go program that panics ends with this status.
_PANIC_STATUS: Final = 2


class ExecNode:
    """A node under test (:class:`conformance.subject.NodeUnderTest`). ``name`` is the program's
    for it. ``renew`` gives another program in its place: one that hung was killed, which stands for
    stopping a kubelet that hangs."""

    def __init__(
        self,
        program: Program,
        name: str,
        machine: Machine,
        config: KubeletConfig,
        *,
        machines: Callable[[str], Machine],
        renew: Callable[[], Program],
    ) -> None:
        self._program = program
        self._renew = renew
        self._name = name
        self._release = program.about.release
        self._find_machine = machines
        self._config = config
        self._told_config = self._told_machine = False
        self._set_machine(machine)
        self._manifests: dict[str, Pod] = {}
        self._admitted: dict[str, Pod] = {}
        self._names: dict[str, str] = {}
        self._pods: dict[str, PodView] = {}
        self._runtime = Runtime()
        self._ids: dict[tuple[str, str], str] = {}
        self._created = 0
        self._running = False
        self._error = ""
        self._hangs = ""
        self._exit_status: int | None = None
        self._state_file: str | None = None
        self._closed = False

    # --- steps -------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Carry the step out; see :class:`conformance.subject.NodeUnderTest`."""
        if self._closed:
            raise SubjectLostError("the node is closed")
        if self._hangs and not isinstance(step, Stop):
            self._do_without_kubelet(step)
            return
        try:
            self._do(step)
        except Panicked as panic:
            self._died(panic)
        except Hangs as hang:
            self._hangs = str(hang)

    def _do(self, step: Step) -> None:
        match step:
            case Start():
                self._start()
            case Stop():
                self._stop()
            case Reboot(machine=name):
                self._reboot(step, name)
            case Configure(config=config):
                self._require_down(step)
                self._config, self._told_config = config, False
            case Apply(pod=pod):
                self._apply(pod)
            case Delete(pod=name):
                self._delete(name)
            case RemoveState():
                self._require_down(step)
                self._state_file = None
            case WriteState(text=text):
                self._require_down(step)
                self._state_file = text
            case Tamper(pod=name, container=container, cpus=cpus):
                known = self._manifests.get(name)
                if known is None or not self._runtime.runs(known.uid, container):
                    raise SubjectLostError(
                        f"no running container {name}/{container} to tamper with"
                    )
                self._runtime.update(known.uid, container, cpus)
            case AwaitReconcile():
                if self._running:
                    self._tell(self._round())
            case _:
                raise SubjectLostError(f"the step {type(step).__name__} is not for this subject")

    def _do_without_kubelet(self, step: Step) -> None:
        """Manifests come and go beside a kubelet that hangs; all else waits."""
        match step:
            case Apply(pod=pod):
                self._manifests[pod.name] = pod
                self._names[pod.uid] = pod.name
            case Delete(pod=name):
                self._manifests.pop(name, None)

    def _start(self) -> None:
        if self._running:
            return
        self._require_capacity()
        faults = faults_of_settings(self._config, release=self._release)
        if faults:
            wrapped = has(self._release, Behaviour.SETTINGS_LIST_VALUES)
            self._give_up(str(InvalidConfiguration(faults, wrapped=wrapped)))
            return
        request = wire.Start(
            node=self._name,
            state_file=wire.coded(self._state_file),
            containers=self._containers(),
        )
        if not self._told_machine:
            request.machine = machine_line(self._info)
        if not self._told_config:
            request.config = settings(self._config)
        (answer,) = self._tell([request])
        self._told_machine = self._told_config = True
        refused = cast(wire.StartAnswer, answer).refused
        if refused is not None:
            plain = refused.stage == "start"
            self._give_up(refused.message if plain else f"failed to run Kubelet: {refused.message}")
            return
        self._running, self._error, self._exit_status = True, "", None
        self._admitted.clear()
        self._pods.clear()
        self._take_up([self._manifests[name] for name in self._by_file_name()])

    def _give_up(self, error: str) -> None:
        self._error = error
        self._exit_status = 1 if has(self._release, Behaviour.EXITS_WITH_ONE) else 255

    def _require_capacity(self) -> None:
        """What a kubelet with the policy none trips over outside its CPU manager."""
        capacity = self._info.num_cores * 1000
        if self._config.policy == "none" and self._reserved_milli() > capacity > 0:
            raise SubjectLostError("a reservation above the machine's CPUs is not for this subject")

    def _stop(self) -> None:
        if self._hangs:
            self._program, self._hangs = self._renew(), ""
            self._told_config = self._told_machine = False
            self._down()
        elif self._running:
            self._tell([wire.Stop(node=self._name)])
            self._down()

    def _down(self) -> None:
        self._running = False
        self._pods.clear()
        self._admitted.clear()

    def _died(self, panic: Panicked) -> None:
        self._down()
        self._note_state(panic.state_file)
        self._error, self._exit_status = f"panic: {panic}", _PANIC_STATUS

    def _reboot(self, step: Step, name: str) -> None:
        self._require_down(step)
        if name:
            try:
                self._set_machine(self._find_machine(name))
            except topologies.MachineError as error:
                raise SubjectLostError(str(error)) from error
        self._runtime.clear()

    def _set_machine(self, machine: Machine) -> None:
        try:
            self._info = info_of(machine.tree, release=self._release)
        except NotModelled as error:
            raise SubjectLostError(str(error)) from error
        self._told_machine = False

    def _apply(self, pod: Pod) -> None:
        fault = fault_of(pod)
        if fault:
            raise SubjectLostError(f"pod {pod.name}: {fault}")
        self._manifests[pod.name] = pod
        self._names[pod.uid] = pod.name
        if self._running:
            self._take_up([pod])

    def _delete(self, name: str) -> None:
        pod = self._manifests.pop(name, None)
        if pod is None or not self._running:
            return
        self._pods.pop(name, None)
        self._admitted.pop(name, None)
        removed = [wire.Remove(node=self._name, pod_uid=pod.uid)]
        self._runtime.remove_pod(pod.uid)
        self._tell([*removed, *self._round()])

    def _take_up(self, pods: list[Pod]) -> None:
        """Admit the pods one after the other, create their containers, and reconcile."""
        arrived = [pod for pod in pods if self._admit(pod)]
        wanted = {pod.uid for pod in self._admitted.values()}
        for uid in self._runtime.uids():
            if uid not in wanted:
                self._runtime.remove_pod(uid)
        requests = [request for pod in arrived for request in self._create(pod)]
        answers = self._tell(requests)
        for request, answer in zip(requests, answers, strict=True):
            box = self._runtime.of(request.pod_uid)[request.container]
            box.cpuset = _cpus(cast(wire.CreateAnswer, answer).cpus) or None
        self._tell(self._round())

    def _admit(self, pod: Pod) -> bool:
        asked = wire.Admit(node=self._name, pod=pod_line(pod))
        answer = cast(wire.AdmitAnswer, self._tell([asked])[0])
        # What the manifest says is the program's to read; what follows is the kubelet around it.
        pod = as_decoded(pod, self._config.feature_gates, release=self._release)
        if not answer.admitted:
            why = refusal(answer.reason, answer.message, self._release)
        else:
            lack = lack_of_cpus(
                pod, list(self._admitted.values()), self._allocatable(), self._release
            )
            if lack is None:
                self._admitted[pod.name] = pod
                self._pods[pod.name] = PodView(Phase.RUNNING, qos=qos_class(pod))
                return True
            self._tell([wire.Remove(node=self._name, pod_uid=pod.uid)])
            why = lack
        named = has(self._release, Behaviour.REJECTED_PODS_HAVE_QOS) or self._is_ended(pod)
        self._pods[pod.name] = PodView(Phase.REJECTED, *why, qos_class(pod) if named else "")
        return False

    def _is_ended(self, pod: Pod) -> bool:
        """Whether containers of the refused pod have to be ended, which makes its status whole."""
        return has(self._release, Behaviour.ENDED_PODS_HAVE_QOS) and any(
            self._runtime.runs(pod.uid, one.name) for one in pod.containers
        )

    def _create(self, pod: Pod) -> list[wire.Create]:
        requests = []
        for container in pod.containers:
            if container.name in self._runtime.of(pod.uid):
                continue
            self._created += 1
            own = self._ids[pod.uid, container.name] = f"{self._name}-{self._created}"
            box = self._runtime.create(pod, container, CPUSet())
            # What init containers do here ends at once.
            box.running = container.kind is not Kind.INIT
            requests.append(
                wire.Create(
                    node=self._name, pod_uid=pod.uid, container=container.name, container_id=own
                )
            )
        return requests

    # --- the line ----------------------------------------------------------------------------

    def _round(self) -> list[wire.Request]:
        return [wire.Reconcile(node=self._name, containers=self._containers())]

    def _containers(self) -> list[wire.ContainerState]:
        return [
            wire.ContainerState(
                pod_uid=uid,
                name=name,
                id=self._ids[uid, name],
                state="running" if box.running else "exited",
            )
            for uid in self._runtime.uids()
            for name, box in self._runtime.of(uid).items()
        ]

    def _tell(self, requests: Sequence[wire.Request]) -> list[wire.Answer]:
        """Send requests, and take in what the answers say of the state file and of cpusets."""
        answers = self._program.ask_all(requests)
        for answer in answers:
            self._note_state(answer.state_file)
            if isinstance(answer, wire.ReconcileAnswer):
                for update in answer.updates or ():
                    if update.container in self._runtime.of(update.pod_uid):
                        self._runtime.update(update.pod_uid, update.container, _cpus(update.cpus))
        return answers

    def _note_state(self, state: wire.StateFile | msgspec.UnsetType) -> None:
        if state is not msgspec.UNSET:
            self._state_file = wire.text_of(state)

    # --- views -------------------------------------------------------------------------------

    def view(self) -> View:
        """What can be seen now; it is settled."""
        shared, entries = parse_leniently(self._state_file, release=self._release)
        return View(
            running=self._running,
            error=self._error,
            exit_status=self._exit_status,
            pods=self._shown_pods(),
            assignments={self._called(uid): named for uid, named in entries.items()},
            shared_pool=shared,
            state_file=self._state_file,
            cpusets={self._called(uid): sets for uid, sets in self._runtime.running().items()},
            hangs=self._hangs,
        )

    def _shown_pods(self) -> dict[str, PodView]:
        waiting = self._manifests if self._hangs else ()
        return {**{name: PodView(Phase.PENDING) for name in waiting}, **self._pods}

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """The view: it would not change."""
        return self.view()

    def evidence(self) -> str:
        """The end of what the program said on standard error."""
        return self._program.excerpt()

    def hints(self, pod: Pod, container: str = "") -> dict[str, list[wire.Hint] | None] | None:
        """What the CPU manager suggests to the Topology Manager for a container of ``pod``, or
        for the whole pod. Raises :class:`SubjectLostError`."""
        asked = wire.Hints(node=self._name, pod=pod_line(pod), container=container)
        return cast(wire.HintsAnswer, self._tell([asked])[0]).hints

    def close(self) -> None:
        """Have the program forget the node. May be called twice."""
        if self._closed:
            return
        self._closed = True
        if not self._program.lost and self._told_machine:
            try:
                self._program.ask(wire.Close(node=self._name), wire.Answer)
            except SubjectLostError:
                return  # nothing of it is left

    # --- parts -------------------------------------------------------------------------------

    def _require_down(self, step: Step) -> None:
        if self._running:
            raise SubjectLostError(f"{type(step).__name__} while the kubelet runs")

    def _allocatable(self) -> int:
        return self._info.num_cores * 1000 - self._reserved_milli()

    def _reserved_milli(self) -> int:
        try:
            return reserved_milli_cpus(self._config, release=self._release)
        except (ConfigurationError, NotModelled) as error:
            raise SubjectLostError(str(error)) from error

    def _by_file_name(self) -> list[str]:
        return sorted(self._manifests, key=lambda name: f"{name}.yaml".encode())

    def _called(self, uid: str) -> str:
        return self._names.get(uid, uid)


def _cpus(text: str | None) -> CPUSet:
    try:
        return CPUSet.parse(text or "")
    except CPUSetParseError as error:
        raise SubjectLostError(f"the program calls {text!r} a cpuset: {error}") from error


def settings(config: KubeletConfig) -> dict[str, Any]:
    """The configuration, for the line."""
    shape = settings_of_cpus(config)
    if config.feature_gates:
        shape["featureGates"] = dict(config.feature_gates)
    return shape


def pod_line(pod: Pod) -> msgspec.Raw:
    """The pod's manifest, for the line."""
    return msgspec.Raw(msgspec.json.encode(manifest(pod)))
