"""The common part of nodes of different subjects: a method for each kind of step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import topologies
from conformance.subject import SubjectLostError, SubjectUnable
from reference import steps
from reference.cpuset import CPUSet
from reference.steps import KubeletConfig, Pod, Step
from topologies import Machine


class SteppedNode(ABC):
    """A node whose kubelet has this ``config`` from its next start on. ``machines`` finds the
    machine that a reboot names. All methods raise :class:`SubjectLostError` if they fail."""

    def __init__(self, config: KubeletConfig, machines: Callable[[str], Machine]) -> None:
        self._config = config
        self._find_machine = machines

    def _carry_out(self, step: Step) -> None:
        if (
            isinstance(step, steps.Reboot | steps.Configure | steps.RemoveState | steps.WriteState)
            and self._is_up()
        ):
            raise SubjectLostError(f"{type(step).__name__} while the kubelet runs")
        match step:
            case steps.Start():
                self._start()
            case steps.Stop(kill=kill):
                self._stop(kill)
            case steps.Reboot(machine=name):
                self._reboot(self._machine(name) if name else None)
            case steps.Configure(config=config):
                self._config = config
            case steps.Apply(pod=pod):
                self._apply(pod)
            case steps.Delete(pod=name, force=force):
                self._delete(name, force)
            case steps.Replace(gone=name, pod=pod):
                self._delete(name, force=False, rounds=False)
                self._apply(pod)
            case steps.RemoveState():
                self._set_state(None)
            case steps.WriteState(text=text):
                self._set_state(text)
            case steps.Tamper(pod=name, container=container, cpus=cpus):
                if not self._tamper(name, container, cpus):
                    raise SubjectLostError(
                        f"no running container {name}/{container} to tamper with"
                    )
            case steps.AwaitReconcile():
                self._await_reconcile()
            case steps.KillContainer(pod=name, container=container, exit_code=code):
                if not self._kill_container(name, container, code):
                    raise SubjectLostError(f"no running container {name}/{container} to kill")
            case steps.TakeOver(release=release):
                raise SubjectUnable(f"a kubelet of {release} is another subject")
            case _:
                raise SubjectLostError(f"the step {type(step).__name__} is not for this subject")

    def _machine(self, name: str) -> Machine:
        try:
            return self._find_machine(name)
        except topologies.MachineError as error:
            raise SubjectLostError(str(error)) from error

    @abstractmethod
    def _is_up(self) -> bool:
        """Whether a kubelet runs."""

    @abstractmethod
    def _start(self) -> None:
        """Start a kubelet if none runs."""

    @abstractmethod
    def _stop(self, kill: bool) -> None:
        """Stop the kubelet if one runs."""

    @abstractmethod
    def _reboot(self, machine: Machine | None) -> None:
        """End all containers, and boot as ``machine``, if it is given."""

    @abstractmethod
    def _apply(self, pod: Pod) -> None:
        """Write the pod's manifest."""

    @abstractmethod
    def _delete(self, name: str, force: bool, *, rounds: bool = True) -> None:
        """Remove the pod's manifest if there is one; with ``force``, its containers, too. Without
        ``rounds`` no reconcile round is gone through; a kubelet with rounds of its own is not
        waited for."""

    @abstractmethod
    def _set_state(self, text: str | None) -> None:
        """Write the state file, or remove it."""

    @abstractmethod
    def _tamper(self, name: str, container: str, cpus: CPUSet) -> bool:
        """Change a running container's cpuset; returns whether there is one."""

    @abstractmethod
    def _kill_container(self, name: str, container: str, exit_code: int) -> bool:
        """End a running container with this exit code; returns whether there is one."""

    @abstractmethod
    def _await_reconcile(self) -> None:
        """Wait for a reconcile round, if a kubelet runs."""
