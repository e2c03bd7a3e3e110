"""The steps of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from conformance.lockstep.outcome import Divergence, Seen
from conformance.lockstep.reading import Readings
from conformance.oracle import Oracle
from conformance.pods import best_effort
from conformance.subject import HasSalt, ShowsOrigin, Subject, configured
from conformance.waiting import Waiting
from reference import CPUSet, steps
from reference.behaviours import Behaviour
from reference.steps import SIGKILLED, KubeletConfig, Pod, Step, applied
from reference.view import Phase, PodView, View
from topologies import Machine

#: What a running kubelet can be asked.
Question: TypeAlias = (
    steps.AskPodResources | steps.AskAllocatable | steps.FloodPodResources | steps.AskMetrics
)
EVERY_POD: Final = steps.AskPodResources()


class OracleMaker(Protocol):
    """Makes the oracle for a node."""

    def __call__(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> Oracle:
        """The oracle that walks with a node on ``machine``."""


class Steps(Readings):
    """The steps of a scenario. After each the subject's settled view is compared with the oracle's
    and with the invariants; the first difference ends the scenario. ``salt`` is what the uids of
    its pods were made with."""

    def __init__(
        self,
        subject: Subject,
        machine: Machine,
        *,
        oracle: OracleMaker,
        release: str,
        waiting: Waiting | None = None,
    ) -> None:
        super().__init__(subject, machine, release=release, waiting=waiting)
        self.salt = subject.salt() if isinstance(subject, HasSalt) else ""
        self._make_oracle = oracle
        self._origin: ShowsOrigin | None = None

    def boot(self, config: KubeletConfig | None = None, *, machine: Machine | None = None) -> View:
        """Make the node with this configuration (default: :meth:`default_config`), perhaps on a
        variant of the machine, and start the kubelet. The view shows if it refuses."""
        if machine is not None:
            self._machines.move_to(machine)
        if config is not None:
            self.config = configured(self._subject, self._machines.first, config)
        find = self._machines.find
        self._comparison.begin(self._make_oracle(self.machine, self.config, machines=find))
        self._node = self._subject.node(self.machine, self.config, machines=find)
        # Only once: isinstance() of a protocol takes longer than a step of the model.
        self._origin = self._node if isinstance(self._node, ShowsOrigin) else None
        self.steps.append(f"on {self.machine.name}, with {self.config}")
        return self.take(steps.Start())

    def start(self) -> View:
        """Start the kubelet again."""
        return self.take(steps.Start())

    def stop(self) -> View:
        """Stop the kubelet with SIGTERM."""
        return self.take(steps.Stop())

    def kill(self, *, at: steps.KillAtRename | None = None) -> View:
        """End the kubelet with SIGKILL: now, or ``at`` a later rename of its state file."""
        return self.take(at or steps.Stop(kill=True))

    def apply(
        self,
        pod: Pod,
        *more: Pod,
        instead_of: str = "",
        stopping: bool = False,
        slow: str = "",
    ) -> PodView:
        """Apply a pod, together with ``more``; returns the pod's state. ``instead_of``: this pod is
        deleted just before. With ``stopping`` it still stops until the next step, which is
        ``EndStopping``. ``slow``: the call of the runtime that runs while ``more`` are applied, as
        in ``ApplyTogether``."""
        replacing = steps.ReplaceStopping if stopping else steps.Replace
        step: Step = replacing(instead_of, pod) if instead_of else steps.Apply(pod)
        view = self.take(steps.ApplyTogether((pod, *more), slow) if more else step)
        return view.pods.get(pod.name, PodView(Phase.PENDING))

    def delete(self, pod: str, *, force: bool = False, passing: bool = False) -> View:
        """Delete a pod, perhaps by force, and see its CPUs return. ``passing``: then admit another
        pod, where the release needs that to see them return (:meth:`pass_admission`)."""
        view = self.take(steps.Delete(pod, force))
        return self.pass_admission() if passing else view

    def reboot(self, machine: Machine | None = None) -> View:
        """Boot the machine again, perhaps as another one; the kubelet is down."""
        if machine is not None:
            self._machines.move_to(machine)
        return self.take(steps.Reboot(machine.name if machine else ""))

    def configure(self, config: KubeletConfig) -> View:
        """Give the stopped kubelet another configuration."""
        return self.take(steps.Configure(config))

    def remove_state(self) -> View:
        """Remove the state file of the stopped kubelet."""
        return self.take(steps.RemoveState())

    def write_state(self, text: str) -> View:
        """Replace the state file of the stopped kubelet."""
        return self.take(steps.WriteState(text))

    def tamper(self, pod: str, container: str, cpus: CPUSet) -> View:
        """Change a running container's cpuset behind the kubelet's back."""
        return self.take(steps.Tamper(pod, container, cpus))

    def pass_admission(self) -> View:
        """Admit one more BestEffort pod, if the release releases CPUs only then: from 1.22 to 1.31
        the pod admitted last counts as active until another is admitted."""
        if self.release_has(Behaviour.LAST_ADMITTED_STAYS):
            self.apply(best_effort("passing"))
        return self.view

    def await_reconcile(self) -> View:
        """Wait for a whole reconcile round."""
        return self.take(steps.AwaitReconcile())

    def offline(self, cpus: CPUSet) -> View:
        """Take CPUs offline. Only a kubelet that starts later finds another machine."""
        machine = self._machines.switch(self._machines.online - cpus)
        return self.take(steps.OfflineCPUs(cpus, machine.name))

    def online_again(self, cpus: CPUSet) -> View:
        """Bring CPUs back that were taken offline."""
        machine = self._machines.switch(self._machines.online | cpus)
        return self.take(steps.OnlineCPUs(cpus, machine.name))

    def tamper_quota(self, pod: str, container: str, quota: int) -> View:
        """Change a running container's CFS quota behind the kubelet's back."""
        return self.take(steps.TamperQuota(pod, container, quota))

    def kill_container(self, pod: str, container: str = "c", *, exit_code: int = SIGKILLED) -> View:
        """Kill a container, or let it exit with another code; the kubelet starts it again if the
        pod's restart policy says so."""
        return self.take(steps.KillContainer(pod, container, exit_code))

    def spin(self) -> View:
        """Let every container spin, and see where it runs."""
        return self.take(steps.Spin())

    def ask(self, step: Question = EVERY_POD) -> View:
        """Ask the kubelet at its pod-resources socket or for its metrics, as ``step`` says. Raises
        :class:`SubjectUnable` if the subject cannot."""
        return self.take(step)

    def to_runtime(
        self,
        step: steps.RestartRuntime
        | steps.FailUpdates
        | steps.EndStopping
        | steps.RegisterDevices
        | steps.ReportDevices
        | steps.EndDevicePlugin,
    ) -> View:
        """Restart the container runtime, let it refuse updates, end containers that still stop, or
        start a device plugin, let it report other devices, or end it."""
        return self.take(step)

    def daemon_reload(self) -> View:
        """Let systemd read its units again."""
        return self.take(steps.DaemonReload())

    def await_crash_loop(self) -> View:
        """Wait until systemd has once more restarted a kubelet that gives up."""
        return self.take(steps.AwaitCrashLoop())

    def take(self, step: Step) -> View:
        """Let the node take a step; every other method of this class uses it. A subject whose
        kubelet remembers pods of earlier scenarios gives a salt, so that this kubelet has never
        seen the uids."""
        if self._node is None:
            raise RuntimeError("a scenario boots its node first")
        match step:
            case steps.Apply(pod=pod) | steps.Replace(pod=pod) | steps.ReplaceStopping(pod=pod):
                step = replace(step, pod=salted(pod, self.salt))
            case steps.ApplyTogether(pods=pods):
                step = replace(step, pods=tuple(salted(pod, self.salt) for pod in pods))
            case steps.Resize(pod=pod):
                step = replace(step, pod=replace(pod, uid=self._pods[pod.name].uid))
            case steps.Configure(config=config):
                self.config = configured(self._subject, self._machines.first, config)
                step = steps.Configure(self.config)
            case steps.Tamper(pod=name, container=container):
                self._tampered.add((name, container))
            case steps.FailUpdates(container=container):
                self._tampered |= {
                    (pod.name, container)
                    for pod in self._pods.values()
                    if container in (one.name for one in pod.containers)
                }
        self.steps.append(step.sentence)
        self._pods |= {pod.name: pod for pod in applied(step)}
        if isinstance(step, steps.Start):
            self._machines.discover()
        expected, seen = self._comparison.walk(self._node, step)
        self.view = seen
        if isinstance(step, steps.Resize) and _is_granted(step, seen):
            self._pods[step.pod.name] = step.pod
        origin = self._origin.origin() if self._origin is not None else None
        self.history.append(Seen(self.steps[-1], seen, origin))
        if isinstance(step, steps.Start):
            self._started(seen)
        offence = self._comparison.offence(step, expected, seen)
        if offence is not None:
            raise Divergence(self._failure(offence, expected))
        return seen

    def _started(self, seen: View) -> None:
        self._tampered.clear()  # the kubelet sends every container its cpuset again
        if seen.error:
            self.kubelet_errors.append(f"exit status {seen.exit_status}: {seen.error}")


def salted(pod: Pod, salt: str) -> Pod:
    """The pod with another uid for each salt; unchanged for ``""``."""
    return replace(pod, uid=str(uuid5(NAMESPACE_OID, f"{salt}/{pod.uid}"))) if salt else pod


def _is_granted(step: steps.Resize, seen: View) -> bool:
    return seen.running and not seen.pods.get(step.pod.name, PodView(Phase.PENDING)).resize
