"""A whole node as a state machine over the steps of :mod:`reference.steps`.

What belongs here: what each step does to machine, manifests, state file, kubelet and containers,
and in which order the kubelet goes about it. What never does: CPUs (``manager``, ``policy``).

How it works: manifests, state file and containers are the node's own and outlive the kubelet. A
kubelet that runs is one object; it is made by ``Start``, or gives up with an error. After every
step everything that the step sets off has happened, one reconcile round included, so a view is
always the settled one. A step that cannot be taken raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from reference.admission import UNEXPECTED, allocation_refusal, fault_of, lack_of_cpus
from reference.checkpoint import glance
from reference.cpuset import CPUSet
from reference.discovery import MachineInfo, discover
from reference.errors import (
    AllocationError,
    CheckpointError,
    IllegalStep,
    KubeletError,
    NotModelled,
)
from reference.manager import CPUManager
from reference.policy import Policy, make_policy, reserved_milli_cpus
from reference.qos import qos_class
from reference.releases import NEWEST, AnyRelease, require_whole_node
from reference.runtime import Runtime
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
from reference.topology import CPUTopology
from reference.view import Phase, PodView, View

__all__ = ["Node"]

STATE_FILE: Final = "/var/lib/kubelet/cpu_manager_state"

#: Feature gates that change nothing which the model shows, at the values they may have here.
_HARMLESS_GATES: Final = frozenset(
    {"CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions", "KubeletInUserNamespace"}
)

Trees: TypeAlias = Callable[[str], Mapping[str, str]]


class PolicyFactory(Protocol):
    """Makes the policy of a kubelet that starts (:func:`reference.policy.make_policy`)."""

    def __call__(
        self, topology: CPUTopology, config: KubeletConfig, *, release: AnyRelease
    ) -> Policy: ...


class Node:
    """One machine with one kubelet; down, without pods or a state file, until it is driven.

    ``trees`` gives the tree of a machine by name; ``machine`` is the first. Deliberately wrong
    variants replace a part: ``policy_factory`` makes the policy (a subclass of ``StaticPolicy``
    with one method overridden), ``manager_factory`` the CPU manager (a subclass of ``CPUManager``,
    whose ``restore``, ``remove_stale_state`` and ``reconcile`` are the kubelet's own steps).

    Raises :class:`NotModelled` where release or configuration lie outside the model.
    """

    def __init__(
        self,
        trees: Trees,
        machine: str,
        config: KubeletConfig,
        *,
        release: AnyRelease = NEWEST,
        policy_factory: PolicyFactory = make_policy,
        manager_factory: Callable[..., CPUManager] = CPUManager,
    ) -> None:
        require_whole_node(release)
        _require_modelled(config)
        self._trees = trees
        self._info = discover(trees(machine), release=release)
        self._config = config
        self._release = release
        self._policy_factory = policy_factory
        self._manager_factory = manager_factory
        self._manifests: dict[str, Pod] = {}
        self._names: dict[str, str] = {}
        self._state_file: str | None = None
        self._shown: tuple[CPUSet, dict[str, dict[str, CPUSet]]] = glance(None)
        self._runtime = Runtime()
        self._kubelet: _Kubelet | None = None
        self._errors: tuple[str, ...] = ()

    @property
    def possible_errors(self) -> tuple[str, ...]:
        """Every error that the kubelet which gave up may have named; more than one where Go's
        map order decides. The view shows the first."""
        return self._errors

    def do(self, step: Step) -> None:
        """Take a step. Raises :class:`IllegalStep`, :class:`NotModelled`; then nothing changed."""
        match step:
            case Start():
                self._start()
            case Stop():
                self._running(step)
                self._kubelet = None
            case Reboot(machine=name):
                self._reboot(step, name)
            case Configure(config=config):
                self._require_down(step)
                _require_modelled(config)
                self._config = config
            case Apply(pod=pod):
                self._apply(pod)
            case Delete(pod=name):
                self._delete(name)
            case RemoveState():
                self._require_down(step)
                self._write(None)
            case WriteState(text=text):
                self._require_down(step)
                self._write(text)
            case Tamper(pod=name, container=container, cpus=cpus):
                self._tamper(name, container, cpus)
            case AwaitReconcile():
                self._running(step).settle()
                self._save()

    def view(self) -> View:
        """The node as it is once everything has come to rest."""
        default, entries = self._shown
        return View(
            running=self._kubelet is not None,
            error=self._errors[0] if self._errors else "",
            exit_status=1 if self._errors else None,
            pods=dict(self._kubelet.pods) if self._kubelet else {},
            assignments={self._name(uid): dict(named) for uid, named in entries.items()},
            shared_pool=default,
            state_file=self._state_file,
            cpusets={self._name(uid): sets for uid, sets in self._runtime.running().items()},
        )

    # -- steps -----------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._kubelet is not None:
            raise IllegalStep("Start: the kubelet runs")
        self._errors = ()
        try:
            topology = self._info.cpu_topology()
            policy = self._policy_factory(topology, self._config, release=self._release)
            manager = self._manager_factory(
                policy, release=self._release, feature_gates=self._config.feature_gates
            )
            manager.start(self._state_file)
        except KubeletError as error:
            self._errors = tuple(_as_reported(error, one) for one in error.possible)
            return
        self._kubelet = _Kubelet(manager, self._runtime, self._info, self._config)
        self._kubelet.take_up([self._manifests[name] for name in self._by_file_name()])
        self._save()

    def _reboot(self, step: Step, name: str) -> None:
        self._require_down(step)
        if name:
            self._info = discover(self._trees(name), release=self._release)
        self._runtime.clear()

    def _apply(self, pod: Pod) -> None:
        if pod.name in self._manifests:
            raise IllegalStep(f"Apply: pod {pod.name} is in place")
        if any(pod.uid == other.uid for other in self._manifests.values()):
            raise IllegalStep(f"Apply: another pod has the uid {pod.uid}")
        fault = fault_of(pod)
        if fault:
            raise IllegalStep(f"Apply: pod {pod.name}: {fault}")
        self._require_same_containers(pod)
        self._manifests[pod.name] = pod
        self._names[pod.uid] = pod.name
        if self._kubelet is not None:
            self._kubelet.take_up([pod])
            self._save()

    def _require_same_containers(self, pod: Pod) -> None:
        """A pod that comes back under its uid while its old containers run must be the same."""
        boxes = self._runtime.of(pod.uid)
        if boxes and [box.spec for box in boxes.values()] != list(pod.containers):
            raise NotModelled(f"Apply: pod {pod.name} has other containers than those that run")

    def _delete(self, name: str) -> None:
        if name not in self._manifests:
            raise IllegalStep(f"Delete: no pod {name}")
        del self._manifests[name]
        if self._kubelet is not None:
            self._kubelet.drop(name)
            self._save()

    def _tamper(self, name: str, container: str, cpus: CPUSet) -> None:
        pod = self._manifests.get(name)
        if pod is None or not self._runtime.runs(pod.uid, container):
            raise IllegalStep(f"Tamper: no container {name}/{container} runs")
        self._runtime.update(pod.uid, container, cpus)

    # -- parts -----------------------------------------------------------------------------------

    def _running(self, step: Step) -> _Kubelet:
        if self._kubelet is None:
            raise IllegalStep(f"{type(step).__name__}: the kubelet does not run")
        return self._kubelet

    def _require_down(self, step: Step) -> None:
        if self._kubelet is not None:
            raise IllegalStep(f"{type(step).__name__}: the kubelet runs")

    def _by_file_name(self) -> list[str]:
        return sorted(self._manifests, key=lambda name: f"{name}.yaml".encode())

    def _name(self, uid: str) -> str:
        return self._names.get(uid, uid)

    def _save(self) -> None:
        assert self._kubelet is not None
        text = self._kubelet.unsaved_state()
        if text is not None:
            self._write(text)

    def _write(self, text: str | None) -> None:
        self._state_file = text
        self._shown = glance(text)


class _Kubelet:
    """A kubelet that runs: its pods, and everything it does to the runtime."""

    def __init__(
        self, manager: CPUManager, runtime: Runtime, info: MachineInfo, config: KubeletConfig
    ) -> None:
        self.pods: dict[str, PodView] = {}
        self._manager = manager
        self._runtime = runtime
        self._admitted: dict[str, Pod] = {}
        self._allocatable = info.num_cores * 1000 - reserved_milli_cpus(config)
        self._saved = 0

    def take_up(self, pods: list[Pod]) -> None:
        """Admit the pods one after the other, start what is admitted, and settle."""
        for pod in pods:
            refusal = self._admit(pod)
            if refusal:
                self.pods[pod.name] = PodView(Phase.REJECTED, UNEXPECTED, refusal, qos_class(pod))
            else:
                self._admitted[pod.name] = pod
                self.pods[pod.name] = PodView(Phase.RUNNING, qos=qos_class(pod))
        for pod in pods:
            if pod.name in self._admitted:
                self._run(pod)
        self.settle()

    def drop(self, name: str) -> None:
        """The pod's manifest is gone: end its containers and forget it."""
        del self.pods[name]
        self._admitted.pop(name, None)
        self.settle()

    def settle(self) -> None:
        """End the containers of pods that are not there, and go through a reconcile round."""
        wanted = {pod.uid for pod in self._admitted.values()}
        for uid in self._runtime.uids():
            if uid not in wanted:
                self._runtime.remove_pod(uid)
        self._manager.sources_ready = True
        active = list(self._admitted.values())
        for uid, container, cpus in self._manager.reconcile(active, self._runtime.runs):
            self._runtime.update(uid, container, cpus)

    def unsaved_state(self) -> str | None:
        """The text of the state file, if it has changed since this was asked last."""
        changes = self._manager.state.changes
        if changes == self._saved:
            return None
        self._saved = changes
        return self._manager.state_file()

    def _admit(self, pod: Pod) -> str:
        """Why the pod is refused; ``""`` if it is not. CPUs come before the node predicates, so a
        pod that these refuse has held CPUs for a moment."""
        others = list(self._admitted.values())
        try:
            for container in pod.containers:
                self._manager.allocate(pod, container, [*others, pod])
        except AllocationError as error:
            return allocation_refusal(error)
        return lack_of_cpus(pod, others, self._allocatable)

    def _run(self, pod: Pod) -> None:
        boxes = self._runtime.of(pod.uid)
        for container in pod.containers:
            if container.name in boxes:
                continue
            cpus = self._manager.affinity(pod.uid, container.name)
            self._manager.add_container(pod.uid, container.name)
            box = self._runtime.create(pod, container, cpus)
            # What init containers do here ends at once.
            box.running = container.kind is not Kind.INIT
            boxes = self._runtime.of(pod.uid)


def _require_modelled(config: KubeletConfig) -> None:
    gates = {
        gate
        for gate, on in config.feature_gates.items()
        if gate not in _HARMLESS_GATES and (on or gate != "PodLevelResourceManagers")
    }
    if gates:
        raise NotModelled(f"feature gates {', '.join(sorted(gates))}")
    if config.policy == "static" and config.policy_options:
        raise NotModelled(f"policy options {', '.join(sorted(config.policy_options))}")
    reserved_milli_cpus(config)


def _as_reported(error: KubeletError, text: str) -> str:
    """The error as the kubelet gives up with it (``start cpu manager error: …``)."""
    if not isinstance(error, CheckpointError):
        return text
    return (
        f"could not restore state from checkpoint: {text}, please drain this node and delete the "
        f'CPU manager checkpoint file "{STATE_FILE}" before restarting Kubelet'
    )
