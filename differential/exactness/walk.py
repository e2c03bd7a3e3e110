"""One case on the model, request by request.

What belongs here: what is asked, and what the model says to it. What never does: how cases are
drawn, or made smaller, and what the Go code says (``script``).

The model goes first, and says which requests there are to make. They are sent together, because
nothing in them depends on an answer. A case ends early where the model does not know, and where it
says that the kubelet hangs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

from conformance.kubelets.settings import settings_of
from conformance.subjects.exec import wire
from conformance.subjects.exec.container_manager import pod_line
from conformance.subjects.exec.machineinfo import machine_line
from differential.exactness import cases
from differential.exactness.answers import ADMITTED, REFUSED, RUNS, giving_up, hints_text
from differential.exactness.cases import Action, Case
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
from reference.kubelet.admission import allocation_refusal, refusal_of
from reference.kubelet.container_manager import ContainerManager
from reference.pods.pod_level_resources import as_decoded
from reference.pods.qos import pod_text
from reference.steps import Container, Kind, Pod
from reference.topologymanager.topology_manager import TopologyManager
from reference.topologymanager.validation import faults_of_settings

_nodes: Final = itertools.count(1)


class Containers:
    """The containers that the runtime has: ``states`` by pod uid and name, ``ids`` of these and of
    those before them."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, str], str] = {}
        self.ids: dict[tuple[str, str], str] = {}
        self._created = 0

    def create(self, pod: Pod, container: Container) -> str:
        """The id of a new container. An init container exits at once."""
        key = (pod.uid, container.name)
        self._created += 1
        self.ids[key] = f"{'/'.join(key)}/{self._created}"
        self.states[key] = "exited" if container.kind is Kind.INIT else "running"
        return self.ids[key]

    def end(self, uid: str) -> None:
        """The containers of a pod exit."""
        self.states.update({key: "exited" for key in self.states if key[0] == uid})

    def remove(self, uid: str) -> None:
        """The containers of a pod are gone."""
        self.states = {key: state for key, state in self.states.items() if key[0] != uid}

    def runs(self, uid: str, name: str) -> bool:
        return self.states.get((uid, name)) == "running"

    def lines(self) -> list[wire.ContainerState]:
        """All containers, for the Go code."""
        return [
            wire.ContainerState(pod_uid=uid, name=name, id=self.ids[uid, name], state=state)
            for (uid, name), state in self.states.items()
        ]


class Model:
    """The model's side of one case; :meth:`script` walks it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._release = case.release
        self._node = f"x{next(_nodes)}"
        self._config = case.config
        self._managers: ContainerManager | None = None
        self._state_file: str | None = None
        self._saved = 0
        self._active: dict[str, Pod] = {}
        self._arriving: tuple[Pod, ...] = ()
        self._containers = Containers()
        self._machine = case.machine
        self._machine_is_known = False
        self._script = Script(case.release)

    def script(self) -> Script:
        """Every request, and what the model says to it."""
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
        match action:
            case cases.Restart():
                self._restart(action)
            case cases.Drain():
                self._drain()
            case _ if self._managers is not None:
                self._act_on(self._managers, action)

    def _act_on(self, managers: ContainerManager, action: Action) -> None:
        match action:
            case cases.Arrive(pod=pod):
                self._arrive(managers, pod)
            case cases.Resize(pod=pod):
                self._resize(managers, pod)
            case cases.Leave(pod=name):
                self._leave(name)
            case cases.Round():
                self._round(managers)
            case cases.Ask(pod=pod):
                for container in (*pod.containers, None):
                    self._ask(managers.cpu_manager, pod, container)
            case cases.Exit(pod=name) if name in self._active:
                # Nothing reports it to the CPU manager: the next round finds it.
                self._containers.end(self._active[name].uid)
            case cases.Again(pod=name) if name in self._active:
                self._create_again(managers, self._active[name])

    # --- the kubelet comes and goes ----------------------------------------------------------

    def _restart(self, action: cases.Restart) -> None:
        if self._managers is not None:
            self._put(wire.Stop(node=self._node), "stop the kubelet", "")
        self._managers = None
        if action.machine is not None:
            self._machine, self._machine_is_known = action.machine, False
        if action.rebooted:
            self._containers.states.clear()
        self._config = action.config or self._case.config
        if action.file is not None:
            # The changed file depends on the kubelet that wrote it, and on the one that reads it.
            managers = self._start(action.file.of(self._now()))
        else:
            managers = self._start()
        if managers is not None:
            pods, self._active = list(self._active.values()), {}
            for pod in pods:
                self._arrive(managers, pod)

    def _drain(self) -> None:
        if self._managers is None:
            self._active.clear()
            self._containers.states.clear()
            self._start(None)

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
            self._containers.ids,
        )

    def _start(self, *found: str | None) -> ContainerManager | None:
        """Start the kubelet, which may give up; ``found``: the text of a changed state file."""
        containers = self._containers.lines()
        request = wire.Start(
            node=self._node, config=settings_of(self._config), containers=containers
        )
        words = f"start the kubelet with {self._config}"
        if not self._machine_is_known:
            request.machine = machine_line(self._machine)
            words += f" on {self._machine.num_cores} CPUs"
        self._machine_is_known = True
        for text in found:
            self._state_file = text
            request.state_file = wire.coded(text)
            words += f" and the state file {text!a}"
        self._script.hanging = request
        try:
            managers = self._started({one.id: (one.pod_uid, one.name) for one in containers})
        except KubeletError as error:
            self._put(request, words, *giving_up(error, self._release))
            return None
        self._managers, self._saved = managers, 0
        self._put(request, words, RUNS)
        return managers

    def _started(self, containers: Mapping[str, tuple[str, str]]) -> ContainerManager:
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
        manager.start(self._state_file, containers)
        return ContainerManager(topology_manager, manager, release=self._release)

    # --- pods --------------------------------------------------------------------------------

    def _arrive(self, managers: ContainerManager, pod: Pod) -> None:
        request = wire.Admit(node=self._node, pod=pod_line(pod))
        self._arriving = (pod,)
        admitted = self._admission(request, f"admit {pod_text(pod)}", pod, managers.admit)
        self._arriving = ()
        if not admitted:
            self._containers.remove(pod.uid)
            return
        self._active[pod.name] = pod
        for container in pod.containers:
            self._create(managers, pod, container)

    def _resize(self, managers: ContainerManager, pod: Pod) -> None:
        if pod.name not in self._active:
            return
        request = wire.Resize(node=self._node, pod=pod_line(pod))
        if self._admission(request, f"resize to {pod_text(pod)}", pod, managers.resize):
            self._active[pod.name] = pod

    def _admission(
        self, request: wire.Request, words: str, pod: Pod, ask: Callable[[Pod], None]
    ) -> bool:
        self._script.hanging = request
        refusal = None
        try:
            ask(self._decoded(pod))
        except TopologyAffinityError as error:
            refusal = refusal_of(error, self._release)
        except AllocationError as error:
            refusal = allocation_refusal(error, self._release)
        self._put(request, words, ADMITTED if refusal is None else REFUSED.format(refusal))
        return refusal is None

    def _create(self, managers: ContainerManager, pod: Pod, container: Container) -> None:
        if (pod.uid, container.name) in self._containers.states:
            return
        request = wire.Create(
            node=self._node,
            pod_uid=pod.uid,
            container=container.name,
            container_id=self._containers.create(pod, container),
        )
        cpus = managers.start_container(pod.uid, container.name)
        self._put(request, f"create {pod.name}/{container.name}", str(cpus))

    def _create_again(self, managers: ContainerManager, pod: Pod) -> None:
        for container in pod.containers:
            if container.kind is not Kind.INIT:
                self._containers.states.pop((pod.uid, container.name), None)
                self._create(managers, pod, container)

    def _leave(self, name: str) -> None:
        pod = self._active.pop(name, None)
        if pod is not None:
            self._containers.remove(pod.uid)
            self._put(wire.Remove(node=self._node, pod_uid=pod.uid), f"remove {name}", "")

    def _round(self, managers: ContainerManager) -> None:
        sent = managers.reconcile(self._containers.runs)
        request = wire.Reconcile(node=self._node, containers=self._containers.lines())
        self._put(request, "reconcile", str([(uid, name, str(cpus)) for uid, name, cpus in sent]))

    def _ask(self, manager: CPUManager, pod: Pod, container: Container | None) -> None:
        if pod.name not in self._active:
            self._arriving = (pod,)
        decoded = self._decoded(pod)
        found = (
            manager.pod_hints(decoded) if container is None else manager.hints(decoded, container)
        )
        self._arriving = ()
        name = container.name if container else ""
        request = wire.Hints(node=self._node, pod=pod_line(pod), container=name)
        words = f"hints for {name or 'the whole'} of {pod_text(pod)}"
        self._put(request, words, hints_text(found))

    # --- parts -------------------------------------------------------------------------------

    def _put(self, request: wire.Request, words: str, *possible: str) -> None:
        """Add a request that the model has answered, with the state file that it has written."""
        manager = self._managers and self._managers.cpu_manager
        if manager and manager.state.changes != self._saved:
            self._saved = manager.state.changes
            self._state_file = manager.state_file()
        self._script.asked.append(Asked(request, words, possible, self._state_file))
        self._script.hanging = None

    def _decoded(self, pod: Pod) -> Pod:
        return as_decoded(pod, self._config.feature_gates, release=self._release)
