"""The container manager of a node whose CPU manager and Topology Manager are a program.

What belongs here: which requests go to the program when a kubelet starts, admits a pod, creates a
container and reconciles, and the state file in its answers. What never does: the life cycle of pods
(``reference.kubelet.kubelet``), and what a step does to the node (``node``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import msgspec

from conformance.kubelets.manifests import manifest
from conformance.kubelets.settings import settings_of
from conformance.subject import SubjectLostError
from conformance.subjects.exec import wire
from conformance.subjects.exec.machineinfo import machine_line
from conformance.subjects.exec.program import Panicked, Program
from reference import CPUSet, CPUSetParseError, MachineInfo
from reference.errors import ConfigurationError, StateError, TopologyAffinityError
from reference.kubelet.runtime import Runtime
from reference.steps import Container, KubeletConfig, Pod
from reference.view import CFS


class RemoteContainerManager:
    """The managers of every kubelet that runs on one node
    (:class:`reference.kubelet.kubelet.Managers`). The program calls the node ``name``.

    ``written``: the pods by uid, which the program reads as manifests. ``state_file``: its text as
    the program left it; it may be changed while no kubelet runs.

    Every method that asks the program raises :class:`SubjectLostError`, :class:`Hangs` (both of
    ``program``) and :class:`Panicked`.
    """

    def __init__(
        self, program: Program, name: str, runtime: Runtime, written: Mapping[str, Pod]
    ) -> None:
        self.state_file: str | None = None
        self._program = program
        self._name = name
        self._runtime = runtime
        self._written = written
        self._sent_machine: MachineInfo | None = None
        self._sent_config: KubeletConfig | None = None
        self._active_pods: Callable[[], Iterable[Pod]] = tuple
        self._admitted: list[str] = []
        self._ids: dict[tuple[str, str], str] = {}
        self._created = 0

    # --- the kubelet comes and goes ----------------------------------------------------------

    def start(self, info: MachineInfo, config: KubeletConfig) -> None:
        """Start a kubelet. Raises :class:`ConfigurationError` if it gives up while its managers are
        made, and :class:`StateError` if it does when its CPU manager starts."""
        request = wire.Start(
            node=self._name, state_file=wire.coded(self.state_file), containers=self._containers()
        )
        if self._sent_machine is not info:
            request.machine = machine_line(info)
        if self._sent_config is not config:
            request.config = settings_of(config)
        self._admitted.clear()
        (answer,) = self._ask([request])
        self._sent_machine, self._sent_config = info, config
        refused = cast(wire.StartAnswer, answer).refused
        if refused is not None:
            raise (StateError if refused.stage == "start" else ConfigurationError)(refused.message)

    def stop(self) -> None:
        """End the kubelet."""
        self._ask([wire.Stop(node=self._name)])

    def renew(self, program: Program) -> None:
        """Go on with another program, which knows nothing of the node."""
        self._program, self._sent_machine, self._sent_config = program, None, None

    def close(self) -> None:
        """Have the program forget the node."""
        if not self._program.lost and self._sent_machine is not None:
            self._program.ask(wire.Close(node=self._name), wire.Answer)

    # --- what a running kubelet asks ---------------------------------------------------------

    def use_active_pods(self, active_pods: Callable[[], Iterable[Pod]]) -> None:
        """From now on ask ``active_pods`` which pods are active."""
        self._active_pods = active_pods

    def admit(self, pod: Pod) -> None:
        """Ask both managers to admit a pod. Raises :class:`TopologyAffinityError` with the reason
        and the text of any refusal."""
        request = wire.Admit(node=self._name, pod=pod_line(self._written[pod.uid]))
        answer = cast(wire.AdmitAnswer, self._ask([*self._removals(), request])[-1])
        if not answer.admitted:
            raise TopologyAffinityError(answer.message, reason=answer.reason)
        self._admitted.append(pod.uid)

    def affinity(self, uid: str, container: str) -> None:
        """No program is asked for it."""

    def start_container(self, uid: str, container: str) -> CPUSet:
        """The CPUs that a container is created with; the empty set stands for no cpuset."""
        self._created += 1
        own = self._ids[uid, container] = f"{self._name}-{self._created}"
        request = wire.Create(node=self._name, pod_uid=uid, container=container, container_id=own)
        return _cpus(cast(wire.CreateAnswer, self._ask([request])[0]).cpus)

    def update_failed(self, uid: str, container: str) -> None:
        """Updates are never refused here."""

    def entry(self, uid: str, container: str) -> CPUSet | None:
        """No program is asked for it."""
        return None

    def memory_nodes(self, uid: str, container: str) -> CPUSet:
        """No program is asked for them."""
        return CPUSet()

    def pod_cfs(self, pod: Pod) -> None:
        """No pod has a cgroup."""

    def sandbox_quota(self, pod: Pod) -> None:
        """No pod has a sandbox."""

    def cfs(self, pod: Pod, container: Container) -> CFS | None:
        """No program is asked for it."""
        return None

    def reconcile(self, running: Callable[[str, str], bool]) -> list[tuple[str, str, CPUSet]]:
        """One reconcile round: the (pod uid, container, CPUs) that the program sends to the
        runtime. It gets every container of the runtime; updates of others are ignored."""
        request = wire.Reconcile(node=self._name, containers=self._containers())
        answer = cast(wire.ReconcileAnswer, self._ask([*self._removals(), request])[-1])
        return [
            (each.pod_uid, each.container, _cpus(each.cpus))
            for each in answer.updates or ()
            if each.container in self._runtime.of(each.pod_uid)
        ]

    def hints(self, pod: Pod, container: str) -> dict[str, list[wire.Hint] | None] | None:
        """The hints of the CPU manager for a container of ``pod``, or for the whole pod
        (``""``)."""
        request = wire.Hints(node=self._name, pod=pod_line(pod), container=container)
        return cast(wire.HintsAnswer, self._ask([request])[0]).hints

    # --- parts -------------------------------------------------------------------------------

    def _removals(self) -> list[wire.Request]:
        """Requests that remove the pods that are no longer active from the program."""
        active = {pod.uid for pod in self._active_pods()}
        gone = [uid for uid in self._admitted if uid not in active]
        self._admitted = [uid for uid in self._admitted if uid in active]
        return [wire.Remove(node=self._name, pod_uid=uid) for uid in gone]

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

    def _ask(self, requests: Sequence[wire.Request]) -> list[wire.Answer]:
        """The program's answers. Their state file becomes ``state_file``."""
        try:
            answers = self._program.ask_all(requests)
        except Panicked as panic:
            self._note_state(panic.state_file)
            raise
        for answer in answers:
            self._note_state(answer.state_file)
        return answers

    def _note_state(self, state: wire.StateFile | msgspec.UnsetType) -> None:
        if state is not msgspec.UNSET:
            self.state_file = wire.text_of(state)


def _cpus(text: str | None) -> CPUSet:
    try:
        return CPUSet.parse(text or "")
    except CPUSetParseError as error:
        raise SubjectLostError(f"the program calls {text!r} a cpuset: {error}") from error


def pod_line(pod: Pod) -> msgspec.Raw:
    """The pod's manifest, for the line."""
    return msgspec.Raw(msgspec.json.encode(manifest(pod)))
