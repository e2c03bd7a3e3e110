"""One node whose CPU manager and Topology Manager are a program that is spoken to over a line.

What belongs here: what each step does to machine, manifests, state file and kubelet. What never
does: the life cycle of pods, which is the model's own (``reference.kubelet.kubelet``), and what the
program is asked (``container_manager``). Which CPUs a container gets, and whether the two managers
admit a pod, only the program decides.

After every step everything that it sets off has happened, one reconcile round included.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import topologies
from conformance.discovered import info_of
from conformance.subject import SubjectLostError
from conformance.subjects.exec import wire
from conformance.subjects.exec.container_manager import RemoteContainerManager
from conformance.subjects.exec.program import Hangs, Panicked, Program
from reference import ConfigurationError, KubeletError, MachineInfo, NotModelled
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.kubelet.admission import fault_of
from reference.kubelet.exit import error_text, status
from reference.kubelet.kubelet import PodLifecycle
from reference.kubelet.runtime import Runtime
from reference.kubelet.startup import allocatable, require_capacity, require_valid
from reference.pods.pod_level_resources import as_decoded
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Delete,
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
        self._release = program.about.release
        self._find_machine = machines
        self._config = config
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
                self._config = config
            case Apply(pod=pod):
                self._apply(pod)
            case Delete(pod=name):
                self._delete(name)
            case RemoveState():
                self._require_down(step)
                self._managers.state_file = None
            case WriteState(text=text):
                self._require_down(step)
                self._managers.state_file = text
            case Tamper(pod=name, container=container, cpus=cpus):
                known = self._manifests.get(name)
                if known is None or not self._runtime.runs(known.uid, container):
                    raise SubjectLostError(
                        f"no running container {name}/{container} to tamper with"
                    )
                self._runtime.update(known.uid, container, cpus)
            case AwaitReconcile():
                if self._kubelet is not None:
                    self._kubelet.settle()
            case _:
                raise SubjectLostError(f"the step {type(step).__name__} is not for this subject")

    def _do_without_kubelet(self, step: Step) -> None:
        """Manifests come and go beside a kubelet that hangs; all else waits."""
        match step:
            case Apply(pod=pod):
                self._write(pod)
            case Delete(pod=name):
                self._manifests.pop(name, None)

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
        self._take_up([self._manifests[name] for name in self._by_file_name()])

    def _started(self) -> PodLifecycle:
        """A kubelet that knows of no pod. Raises :class:`KubeletError` where it gives up."""
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
            # The program has started over a reservation that is no quantity: none is made.
            return self._info.num_cores * 1000
        except NotModelled as error:
            raise SubjectLostError(str(error)) from error

    def _stop(self) -> None:
        if self._hangs:
            self._program, self._hangs = self._renew(), ""
            self._managers.renew(self._program)
        elif self._kubelet is not None:
            self._managers.stop()
        self._kubelet = None

    def _died(self, panic: Panicked) -> None:
        self._kubelet = None
        self._error, self._exit_status = f"panic: {panic}", _PANIC_STATUS

    def _reboot(self, step: Step, name: str) -> None:
        self._require_down(step)
        if name:
            try:
                self._info = self._found_on(self._find_machine(name))
            except topologies.MachineError as error:
                raise SubjectLostError(str(error)) from error
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

    def _delete(self, name: str) -> None:
        if self._manifests.pop(name, None) is not None and self._kubelet is not None:
            self._kubelet.drop(name)

    def _take_up(self, pods: list[Pod]) -> None:
        if self._kubelet is not None:
            gates = self._config.feature_gates
            self._kubelet.take_up([as_decoded(pod, gates, release=self._release) for pod in pods])

    # --- views -------------------------------------------------------------------------------

    def view(self) -> View:
        """What can be seen now; it is settled."""
        state_file = self._managers.state_file
        shared, entries = parse_leniently(state_file, release=self._release)
        return View(
            running=self._kubelet is not None,
            error=self._error,
            exit_status=self._exit_status,
            pods=self._pods(),
            assignments={self._called(uid): named for uid, named in entries.items()},
            shared_pool=shared,
            state_file=state_file,
            cpusets={self._called(uid): sets for uid, sets in self._runtime.running().items()},
            hangs=self._hangs,
        )

    def _pods(self) -> dict[str, PodView]:
        waiting = self._manifests if self._hangs else ()
        known = {} if self._kubelet is None else self._kubelet.pods
        return {**{name: PodView(Phase.PENDING) for name in waiting}, **known}

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """The view: it would not change."""
        return self.view()

    def evidence(self) -> str:
        """The end of what the program said on standard error."""
        return self._program.excerpt()

    def hints(self, pod: Pod, container: str = "") -> dict[str, list[wire.Hint] | None] | None:
        """What the CPU manager suggests to the Topology Manager for a container of ``pod``, or
        for the whole pod. Raises :class:`SubjectLostError`."""
        return self._managers.hints(pod, container)

    def close(self) -> None:
        """Have the program forget the node. May be called twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(SubjectLostError):  # where it is lost, nothing of the node is left
            self._managers.close()

    # --- parts -------------------------------------------------------------------------------

    def _require_down(self, step: Step) -> None:
        if self._kubelet is not None:
            raise SubjectLostError(f"{type(step).__name__} while the kubelet runs")

    def _by_file_name(self) -> list[str]:
        return sorted(self._manifests, key=lambda name: f"{name}.yaml".encode())

    def _called(self, uid: str) -> str:
        return self._known[uid].name if uid in self._known else uid


@contextlib.contextmanager
def _outside_the_managers() -> Iterator[None]:
    """What a kubelet trips over outside its two managers is not for this subject."""
    try:
        yield
    except (ConfigurationError, NotModelled) as error:
        raise SubjectLostError(str(error)) from error
