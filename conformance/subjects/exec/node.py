"""One node whose CPU manager and Topology Manager are a program that exchanges lines.

What belongs here: what each step does to machine, manifests, state file and kubelet. What never
does: the life cycle of pods, which is the model's own (``reference.kubelet.kubelet``), and requests
to the program (``container_manager``). Only the program decides which CPUs a container gets, and
whether the two managers admit a pod.

A step is complete when it returns, with one reconcile round.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from conformance.discovered import info_of
from conformance.subject import SubjectLostError
from conformance.subjects.exec import wire
from conformance.subjects.exec.container_manager import RemoteContainerManager
from conformance.subjects.exec.program import Hangs, Panicked, Program
from conformance.subjects.stepping import SteppedNode
from reference import ConfigurationError, CPUSet, KubeletError, MachineInfo, NotModelled
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.kubelet.admission import fault_of
from reference.kubelet.exit import error_text, status
from reference.kubelet.kubelet import PodLifecycle
from reference.kubelet.runtime import Runtime
from reference.kubelet.startup import allocatable, require_capacity, require_valid
from reference.pods.pod_level_resources import as_decoded
from reference.steps import Apply, Delete, KubeletConfig, Pod, Replace, Step, Stop
from reference.view import Phase, PodView, View
from topologies import Machine

#: A Go program that panics ends with this status.
_PANIC_STATUS: Final = 2


class ExecNode(SteppedNode):
    """A node under test (:class:`conformance.subject.NodeUnderTest`). The program calls it
    ``name``. ``renew`` gives another program after one that hung was killed, which stands for
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
        super().__init__(config, machines)
        self._program = program
        self._renew = renew
        self._release = program.about.release
        self._info = self._found_on(machine)
        self._manifests: dict[str, Pod] = {}
        self._known: dict[str, Pod] = {}
        self._runtime = Runtime()
        self._managers = RemoteContainerManager(program, name, self._runtime, self._known)
        self._kubelet: PodLifecycle | None = None
        self._error = ""
        self._hangs = ""
        self._exit_status: int | None = None
        self._closed = False

    # --- steps -------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """See :class:`conformance.subject.NodeUnderTest`."""
        if self._closed:
            raise SubjectLostError("the node is closed")
        if self._hangs and not isinstance(step, Stop):
            self._do_without_kubelet(step)
            return
        try:
            self._carry_out(step)
        except Panicked as panic:
            self._kubelet = None
            self._error, self._exit_status = f"panic: {panic}", _PANIC_STATUS
        except Hangs as hang:
            self._hangs = str(hang)

    def _do_without_kubelet(self, step: Step) -> None:
        """Write or remove manifests while the kubelet hangs; other steps do nothing."""
        match step:
            case Apply(pod=pod):
                self._write(pod)
            case Delete(pod=name):
                self._manifests.pop(name, None)
            case Replace(gone=name, pod=pod):
                self._manifests.pop(name, None)
                self._write(pod)

    def _is_up(self) -> bool:
        return self._kubelet is not None

    def _start(self) -> None:
        if self._kubelet is not None:
            return
        try:
            self._kubelet = self._started()
        except KubeletError as error:
            self._error = error_text(error, str(error), self._release)
            self._exit_status = status(error, self._release)
            return
        self._error, self._exit_status = "", None
        by_file_name = sorted(self._manifests, key=lambda name: f"{name}.yaml".encode())
        self._take_up([self._manifests[name] for name in by_file_name])

    def _started(self) -> PodLifecycle:
        """A fresh kubelet without pods. Raises :class:`KubeletError` if it gives up."""
        require_valid(self._config, self._release)
        with _outside_the_managers():
            require_capacity(self._info, self._config, self._release)
        self._managers.start(self._info, self._config)
        return PodLifecycle(
            self._managers, self._runtime, self._allocatable(), release=self._release
        )

    def _allocatable(self) -> int:
        try:
            return allocatable(self._info, self._config, self._release)
        except ConfigurationError:
            # The program has started although the reservation is not a quantity: nothing is
            # reserved.
            return self._info.num_cores * 1000
        except NotModelled as error:
            raise SubjectLostError(str(error)) from error

    def _stop(self, kill: bool) -> None:
        if self._hangs:
            self._program, self._hangs = self._renew(), ""
            self._managers.renew(self._program)
        elif self._kubelet is not None:
            self._managers.stop()
        self._kubelet = None

    def _reboot(self, machine: Machine | None) -> None:
        if machine is not None:
            self._info = self._found_on(machine)
        self._runtime.clear()

    def _found_on(self, machine: Machine) -> MachineInfo:
        with _outside_the_managers():
            return info_of(machine.tree, release=self._release)

    def _apply(self, pod: Pod) -> None:
        fault = fault_of(pod)
        if fault:
            raise SubjectLostError(f"pod {pod.name}: {fault}")
        self._write(pod)
        self._take_up([pod])

    def _write(self, pod: Pod) -> None:
        self._manifests[pod.name] = pod
        self._known[pod.uid] = pod

    def _delete(self, name: str, force: bool, *, rounds: bool = True) -> None:
        # Containers exist only in this process, so they end with the manifest in both cases.
        if self._manifests.pop(name, None) is not None and self._kubelet is not None:
            self._kubelet.drop(name, rounds=rounds)

    def _set_state(self, text: str | None) -> None:
        self._managers.state_file = text

    def _tamper(self, name: str, container: str, cpus: CPUSet) -> bool:
        pod = self._manifests.get(name)
        if pod is None or not self._runtime.runs(pod.uid, container):
            return False
        self._runtime.update(pod.uid, container, cpus)
        return True

    def _kill_container(self, name: str, container: str, exit_code: int) -> bool:
        pod = self._manifests.get(name)
        if pod is None or not self._runtime.runs(pod.uid, container):
            return False
        if self._kubelet is None:  # the model refuses it if no kubelet would restart it
            self._runtime.end(pod.uid, container, owed=True)
            return True
        (ended,) = (one for one in pod.containers if one.name == container)
        decoded = as_decoded(pod, self._config.feature_gates, release=self._release)
        self._kubelet.end_container(decoded, ended, exit_code)
        return True

    def _await_reconcile(self) -> None:
        if self._kubelet is not None:
            self._kubelet.settle()

    def _take_up(self, pods: list[Pod]) -> None:
        if self._kubelet is not None:
            gates = self._config.feature_gates
            self._kubelet.take_up([as_decoded(pod, gates, release=self._release) for pod in pods])

    # --- views -------------------------------------------------------------------------------

    def view(self) -> View:
        """What can be seen now. It is always settled."""
        state_file = self._managers.state_file
        shared, entries = parse_leniently(state_file, release=self._release)
        return View(
            running=self._kubelet is not None,
            error=self._error,
            exit_status=self._exit_status,
            pods=self._pods(),
            assignments={self._name_of(uid): named for uid, named in entries.items()},
            shared_pool=shared,
            state_file=state_file,
            cpusets={self._name_of(uid): sets for uid, sets in self._runtime.running().items()},
            hangs=self._hangs,
        )

    def _pods(self) -> dict[str, PodView]:
        waiting = self._manifests if self._hangs else ()
        known = {} if self._kubelet is None else self._kubelet.pods
        return {**{name: PodView(Phase.PENDING) for name in waiting}, **known}

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """The view, which does not change without a step."""
        return self.view()

    def evidence(self) -> str:
        """The end of what the program said on standard error."""
        return self._program.excerpt()

    def hints(self, pod: Pod, container: str = "") -> dict[str, list[wire.Hint] | None] | None:
        """The hints of the CPU manager for a container of ``pod``, or for the whole pod. Raises
        :class:`SubjectLostError`."""
        return self._managers.hints(pod, container)

    def close(self) -> None:
        """Have the program forget the node. May be called twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(SubjectLostError):  # a lost program has no nodes
            self._managers.close()

    # --- parts -------------------------------------------------------------------------------

    def _name_of(self, uid: str) -> str:
        return self._known[uid].name if uid in self._known else uid


@contextlib.contextmanager
def _outside_the_managers() -> Iterator[None]:
    """Errors of a kubelet outside its two managers become :class:`SubjectLostError`."""
    try:
        yield
    except (ConfigurationError, NotModelled) as error:
        raise SubjectLostError(str(error)) from error
