"""One case on the model, request by request.

What belongs here: what is asked, and what the model says to it. What never does: how cases are
drawn, or made smaller, and what the Go code says (``script``).

The model goes first, and says which requests there are to make; they are sent together, because
nothing in them hangs on an answer. A case ends early where the model does not know, and where it
says that the kubelet hangs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from conformance.describe import config_text, pod_text
from conformance.kubelets.configuration import settings_of
from conformance.subjects.exec import wire
from conformance.subjects.exec.container_manager import pod_line
from conformance.subjects.exec.machineinfo import machine_line
from differential.exactness import checks
from differential.exactness.cases import (
    Action,
    Again,
    Arrive,
    Ask,
    Case,
    Drain,
    Exit,
    Leave,
    Resize,
    Restart,
    Round,
)
from differential.exactness.files import Now
from differential.exactness.machines import topology_of
from differential.exactness.script import Asked, End, Script
from reference import (
    AllocationError,
    CPUManager,
    CPUSet,
    KubeletError,
    KubeletHangs,
    NotModelled,
    make_policy,
)
from reference.cpumanager.cpu_manager import require_settings
from reference.errors import TopologyAffinityError
from reference.kubelet.admission import Refusal, allocation_refusal, refusal_of
from reference.kubelet.container_manager import ContainerManager
from reference.pods.pod_level_resources import as_decoded
from reference.steps import Container, Kind, Pod
from reference.topologymanager.topology_manager import TopologyManager
from reference.topologymanager.validation import faults_of_settings

_nodes: Final = itertools.count(1)


class Model:
    """The model's side of one case; :meth:`script` walks it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._release = case.release
        self._node = f"x{next(_nodes)}"
        self._config = case.config
        self._manager: CPUManager | None = None
        self._container_manager: ContainerManager | None = None
        self._state_file: str | None = None
        self._saved = 0
        self._active: dict[str, Pod] = {}
        self._arriving: tuple[Pod, ...] = ()
        self._boxes: dict[tuple[str, str], str] = {}
        self._ids: dict[tuple[str, str], str] = {}
        self._created = 0
        self._machine = case.machine
        self._told_machine = False
        self._script = Script()

    def script(self) -> Script:
        """Everything that is asked, and what the model says to it."""
        try:
            self._start()
            for action in self._case.actions:
                self._act(action)
        except NotModelled as error:
            self._script.end, self._script.outside = End.OUTSIDE, str(error)
        except KubeletHangs:
            self._script.end = End.HANGS
        return self._script

    def _act(self, action: Action) -> None:
        if isinstance(action, Restart):
            self._restart(action)
        elif isinstance(action, Drain):
            self._drain()
        elif self._manager is not None:
            self._act_on(self._manager, action)

    def _act_on(self, manager: CPUManager, action: Action) -> None:
        match action:
            case Arrive(pod=pod):
                self._arrive(manager, pod)
            case Resize(pod=pod):
                self._resize(manager, pod)
            case Leave(pod=name):
                self._leave(name)
            case Round():
                self._round(manager)
            case Ask(pod=pod):
                for container in (*pod.containers, None):
                    self._ask(manager, pod, container)
            case Exit(pod=name):
                self._exit(name)
            case Again(pod=name):
                self._again(manager, name)

    # --- the kubelet comes and goes ----------------------------------------------------------

    def _restart(self, action: Restart) -> None:
        if self._manager is not None:
            self._put(wire.Stop(node=self._node), "stop the kubelet", "", checks.nothing)
        self._manager = None
        if action.machine is not None:
            self._machine, self._told_machine = action.machine, False
        if action.rebooted:
            self._boxes.clear()
        self._config = action.config or self._case.config
        if action.file is not None:
            # What is made of the file hangs on who has written it, and who reads it.
            self._start(found=[action.file.of(self._now())])
        else:
            self._start()
        self._admit_again()

    def _drain(self) -> None:
        if self._manager is None:
            self._active.clear()
            self._boxes.clear()
            self._start(found=[None])

    def _now(self) -> Now:
        return Now(
            self._state_file,
            self._release,
            self._config.feature_gates,
            self._config.policy,
            CPUSet(
                cpu
                for node in self._machine.nodes
                for core in node.cores
                for cpu in core.thread_ids
            ),
            self._ids,
        )

    def _admit_again(self) -> None:
        if self._manager is not None:
            pods, self._active = list(self._active.values()), {}
            for pod in pods:
                self._arrive(self._manager, pod)

    def _start(self, found: Sequence[str | None] = ()) -> None:
        """Start the kubelet; ``found``: the state file is this now."""
        request = wire.Start(
            node=self._node, config=settings_of(self._config), containers=self._containers()
        )
        words = f"start the kubelet with {config_text(self._config)}"
        if not self._told_machine:
            request.machine = machine_line(self._machine)
            words += f" on {self._machine.num_cores} CPUs"
        self._told_machine = True
        for text in found:
            self._state_file = text
            request.state_file = wire.coded(text)
            words += f" and the state file {text!a}"
        self._script.hanging = request
        try:
            manager = self._started()
        except KubeletError as error:
            possible = checks.told(error, self._release)
            self._put(request, words, f"gives up: {sorted(possible)}", checks.gives_up(possible))
            return
        self._manager, self._saved = manager, 0
        self._save(manager)
        self._put(request, words, "runs", checks.runs)

    @property
    def _managers(self) -> ContainerManager:
        assert self._container_manager is not None
        return self._container_manager

    def _started(self) -> CPUManager:
        faults = faults_of_settings(self._config, release=self._release)
        if faults:
            raise NotModelled("; ".join(faults))  # not the CPU manager's to judge
        topology = topology_of(self._machine)
        require_settings(topology, self._config, release=self._release)
        topology_manager = TopologyManager(self._machine, self._config, release=self._release)
        manager = CPUManager(
            make_policy(topology, self._config, release=self._release),
            release=self._release,
            feature_gates=self._config.feature_gates,
            active_pods=lambda: [*self._active.values(), *self._arriving],
        )
        self._container_manager = ContainerManager(topology_manager, manager, release=self._release)
        boxes = {one.id: (one.pod_uid, one.name) for one in self._containers()}
        manager.start(self._state_file, boxes)
        return manager

    # --- pods --------------------------------------------------------------------------------

    def _arrive(self, manager: CPUManager, pod: Pod) -> None:
        request = wire.Admit(node=self._node, pod=pod_line(pod))
        self._script.hanging = request
        decoded = self._decoded(pod)
        self._arriving = (pod,)
        why = self._refusal(lambda: self._managers.admit(decoded))
        self._arriving = ()
        self._save(manager)
        self._admission(request, f"admit {pod_text(pod)}", why)
        if why is not None:
            self._forget(pod)
            return
        self._active[pod.name] = pod
        for container in pod.containers:
            self._create(manager, pod, container)

    def _resize(self, manager: CPUManager, pod: Pod) -> None:
        if pod.name not in self._active:
            return
        request = wire.Resize(node=self._node, pod=pod_line(pod))
        self._script.hanging = request
        decoded = self._decoded(pod)
        why = self._refusal(lambda: self._managers.resize(decoded))
        self._save(manager)
        self._admission(request, f"resize to {pod_text(pod)}", why)
        if why is None:
            self._active[pod.name] = pod

    def _refusal(self, ask: Callable[[], None]) -> Refusal | None:
        try:
            ask()
        except TopologyAffinityError as error:
            return refusal_of(error, self._release)
        except AllocationError as error:
            return allocation_refusal(error, self._release)
        return None

    def _admission(self, request: wire.Request, words: str, why: Refusal | None) -> None:
        if why is None:
            self._put(request, words, "admitted", checks.admitted)
        else:
            self._put(request, words, f"refused: {why}", checks.refused(why, self._release))

    def _create(self, manager: CPUManager, pod: Pod, container: Container) -> None:
        key = (pod.uid, container.name)
        if key in self._boxes:
            return
        self._created += 1
        self._ids[key] = f"{'/'.join(key)}/{self._created}"
        cpus = str(manager.affinity(*key))
        manager.add_container(*key)
        # What init containers do here ends at once.
        self._boxes[key] = "exited" if container.kind is Kind.INIT else "running"
        request = wire.Create(
            node=self._node, pod_uid=pod.uid, container=container.name, container_id=self._ids[key]
        )
        self._put(request, f"create {pod.name}/{container.name}", cpus, checks.created(cpus))

    def _exit(self, name: str) -> None:
        """Nobody tells the CPU manager: the next round sees it."""
        pod = self._active.get(name)
        for key in [key for key in self._boxes if pod is not None and key[0] == pod.uid]:
            self._boxes[key] = "exited"

    def _again(self, manager: CPUManager, name: str) -> None:
        pod = self._active.get(name)
        for container in () if pod is None else pod.containers:
            if container.kind is not Kind.INIT and pod is not None:
                self._boxes.pop((pod.uid, container.name), None)
                self._create(manager, pod, container)

    def _leave(self, name: str) -> None:
        pod = self._active.pop(name, None)
        if pod is None:
            return
        self._forget(pod)
        request = wire.Remove(node=self._node, pod_uid=pod.uid)
        self._put(request, f"remove {name}", "", checks.nothing)

    def _forget(self, pod: Pod) -> None:
        for key in [key for key in self._boxes if key[0] == pod.uid]:
            del self._boxes[key]

    def _round(self, manager: CPUManager) -> None:
        manager.sources_ready = True
        sent = [
            (uid, name, str(cpus))
            for uid, name, cpus in manager.reconcile(lambda *key: self._boxes.get(key) == "running")
        ]
        self._save(manager)
        request = wire.Reconcile(node=self._node, containers=self._containers())
        self._put(request, "reconcile", str(sent), checks.sent(sent))

    def _ask(self, manager: CPUManager, pod: Pod, container: Container | None) -> None:
        if pod.name not in self._active:
            self._arriving = (pod,)
        decoded = self._decoded(pod)
        found = (
            manager.pod_hints(decoded) if container is None else manager.hints(decoded, container)
        )
        self._arriving = ()
        self._save(manager)
        name = container.name if container else ""
        request = wire.Hints(node=self._node, pod=pod_line(pod), container=name)
        words = f"hints for {name or 'the whole'} of {pod_text(pod)}"
        shown = checks.hints_text(found)
        self._put(request, words, shown, checks.hinted(shown))

    # --- parts -------------------------------------------------------------------------------

    def _put(self, request: wire.Request, words: str, model: str, check: checks.Check) -> None:
        self._script.asked.append(Asked(request, words, model, check, self._state_file))
        self._script.hanging = None

    def _decoded(self, pod: Pod) -> Pod:
        return as_decoded(pod, self._config.feature_gates, release=self._release)

    def _save(self, manager: CPUManager) -> None:
        if manager.state.changes != self._saved:
            self._saved = manager.state.changes
            self._state_file = manager.state_file()

    def _containers(self) -> list[wire.ContainerState]:
        return [
            wire.ContainerState(pod_uid=uid, name=name, id=self._ids[uid, name], state=state)
            for (uid, name), state in self._boxes.items()
        ]
