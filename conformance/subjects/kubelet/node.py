"""One node: a sandbox with a machine, a runtime, and a kubelet that comes and goes.

What belongs here: how each step of :mod:`reference.steps` is carried out, and how a
:class:`~reference.view.View` is put together. What never does: what ought to come of a step.

Waiting is done on a :class:`~conformance.subjects.kubelet.bell.Bell`, which rings when the kubelet
calls its runtime or ends, and otherwise by looking again after a few milliseconds: the kubelet's
own view of its pods gives no sign when it changes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import topologies
from conformance.kubelets import configuration as kubelet_config
from conformance.kubelets import manifests, releases
from conformance.kubelets.klog import Log
from conformance.kubelets.releases import Minor
from conformance.subject import SubjectLostError, SubjectSetupError
from conformance.subjects.kubelet.clock import with_clock
from conformance.subjects.kubelet.docker import FakeDocker
from conformance.subjects.kubelet.endpoint import Endpoint, NoAnswer, PodStatus
from conformance.subjects.kubelet.runtime import FakeRuntime
from conformance.subjects.kubelet.sandbox import AREA, STATE_DIR, Sandbox
from conformance.subjects.kubelet.sandboxes import Sandboxes
from conformance.subjects.processor import ProcessorTime, processor_time
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.cpumanager.state.state_mem import by_pod
from reference.cpuset import CPUSet
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
from reference.view import Phase, PodView, View
from topologies import Machine

STATE_FILE: Final = f"{STATE_DIR}/cpu_manager_state"
#: The device manager makes this socket; it is started after the CPU manager, in every release
#: (``cm/container_manager_linux.go``, ``Start``). So the socket tells that the CPU manager is up.
DEVICE_SOCKET: Final = f"{STATE_DIR}/device-plugins/kubelet.sock"

_FIRST_LOOK, _LAST_LOOK = 0.002, 0.03
#: A start is looked at more often than anything else, since a look at a file that is not there yet
#: costs little; every 2 ms would cost a third more processor time.
_START_LOOK: Final = 0.005


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a node is waited for, in seconds: for a kubelet to come up or to end, and for the
    effect of any other step. Long, because a busy machine is no verdict; a hang costs this."""

    start: float = 60.0
    effect: float = 15.0


PATIENT: Final = Patience()


@dataclass(frozen=True, slots=True)
class Binary:
    """The kubelet to start: an absolute path, and the release that it says it is."""

    path: Path
    release: Minor


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


class KubeletNode:
    """A node under test (:class:`conformance.subject.NodeUnderTest`) around a real kubelet.

    ``machines`` finds the machine that a reboot names. ``sandboxes`` has the sandbox, and gets it
    back when the node is closed. ``certificates`` is filled with those that
    the first kubelet makes for itself, and given to the next one: making an RSA key is a third of
    a kubelet's start.
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
    ) -> None:
        self._binary = binary
        self._config = config
        self._find_machine = machines
        self._certificates = {} if certificates is None else certificates
        self._patience = patience
        self._names: dict[str, str] = {}
        self._applied: dict[str, Pod] = {}
        self._machines = 0
        self._gave_up = ""
        self._hangs = ""
        self._used = ProcessorTime()
        self._stopped = True
        self._closed = False
        self._silence = ""
        self._sandboxes = sandboxes
        self._sandbox = sandboxes.take()
        self._bell = self._sandbox.bell
        self._endpoint = Endpoint(self._sandbox.socket, kubelet_config.PORT)
        try:
            self._runtime = FakeRuntime(
                self._sandbox.path(kubelet_config.CRI_SOCKET), self._bell
            )  # fmt: skip
        except OSError as error:
            sandboxes.give_back(self._sandbox)
            raise SubjectSetupError(f"no container runtime: {error}") from error
        self._docker: FakeDocker | None = None
        if releases.asks_for_docker(binary.release):
            self._start_docker()
        try:
            self._bind(machine)
        except SubjectLostError as error:
            self.close()
            raise SubjectSetupError(str(error)) from error

    def _start_docker(self) -> None:
        try:
            self._docker = FakeDocker(self._sandbox.path(kubelet_config.DOCKER_SOCKET))
        except OSError as error:
            self.close()
            raise SubjectSetupError(f"no Docker: {error}") from error

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox it lives in."""
        return self._sandbox

    @property
    def runtime(self) -> FakeRuntime:
        """Its container runtime."""
        return self._runtime

    # --- steps -------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Carry the step out; see :class:`conformance.subject.NodeUnderTest`."""
        self._require_alive()
        self._used = processor_time(self._sandbox.pid)
        match step:
            case Start():
                self._start()
            case Stop(kill=kill):
                self._stop(kill)
            case Reboot(machine=name):
                self._reboot(name)
            case Configure(config=config):
                self._require_down(step)
                self._config = config
            case Apply(pod=pod):
                self._apply(pod)
            case Delete(pod=name):
                self._delete(name)
            case RemoveState():
                self._require_down(step)
                self._sandbox.path(STATE_FILE).unlink(missing_ok=True)
            case WriteState(text=text):
                self._require_down(step)
                self._write_state(text)
            case Tamper(pod=name, container=container, cpus=cpus):
                self._tamper(name, container, cpus)
            case AwaitReconcile():
                self._await_reconcile()
            case _:
                raise SubjectLostError(f"the step {type(step).__name__} is not for this subject")

    def _start(self) -> None:
        if self._sandbox.running:
            return
        self._sandbox.path(DEVICE_SOCKET).unlink(missing_ok=True)
        self._give_certificates()
        settings = kubelet_config.configuration(
            self._binary.release,
            self._config,
            user_namespace=self._sandbox.user_namespace,
            own_cgroups=self._sandbox.own_cgroups,
        )
        self._write(kubelet_config.CONFIG_FILE, kubelet_config.file_text(settings))
        argv = kubelet_config.arguments(self._binary.release, str(self._binary.path))
        self._gave_up, self._hangs, self._stopped = "", "", False
        self._runtime.called = False
        self._runtime.not_served_paths.clear()
        self._sandbox.start(argv, {**os.environ, "TMPDIR": kubelet_config.TEMPORARY})
        if not self._wait(self._up_or_down, self._patience.start, slowest=_START_LOOK):
            self._hang()
        self._keep_certificates()

    def _give_certificates(self) -> None:
        folder = self._sandbox.path(kubelet_config.CERTIFICATES)
        if self._certificates and not folder.exists():
            folder.mkdir()
            for name, content in self._certificates.items():
                (folder / name).write_bytes(content)
                (folder / name).chmod(0o600)

    def _keep_certificates(self) -> None:
        folder = self._sandbox.path(kubelet_config.CERTIFICATES)
        if self._sandbox.running and not self._hangs and not self._certificates:
            self._certificates.update({each.name: each.read_bytes() for each in folder.iterdir()})

    def _up_or_down(self) -> bool:
        if not self._sandbox.running:
            return True
        if not self._sandbox.path(DEVICE_SOCKET).exists():
            return False
        try:
            self._endpoint.pods()
        except NoAnswer:
            return False
        return True

    def _hang(self) -> None:
        """Note that the kubelet did not come up. Raises :class:`SubjectLostError` where it could
        not: it was refused an answer or a processor."""
        missing = self._runtime.not_served_paths
        if missing:
            self._lose(f"it asks the runtime for {sorted(missing)[0]}, which is not served here")
        if not self._runtime.called:
            said = "it never called the container runtime"
        else:
            said = "it neither started its managers nor gave up"
        self._note_hang(f"not up after {self._patience.start:g} s: {said}", self._patience.start)

    def _note_hang(self, what: str, seconds: float) -> None:
        """Note that the kubelet did nothing for ``seconds``. Raises :class:`SubjectLostError` where
        it was not let do anything."""
        spent = self._require_processor(seconds)
        self._hangs = f"{what}; it used {spent.used:.1f} s of processor time meanwhile"

    def _require_processor(self, seconds: float) -> ProcessorTime:
        spent = processor_time(self._sandbox.pid).since(self._used)
        if spent.is_starved(seconds):
            self._lose(
                f"this host is too busy: in {seconds:g} s the kubelet had a processor for "
                f"{spent.used:.1f} s, and waited {spent.waited:.1f} s for one"
            )
        return spent

    def _lose(self, why: str) -> NoReturn:
        evidence = self.evidence()
        self._sandbox.kill()
        raise SubjectLostError(why, evidence=evidence)

    def _stop(self, kill: bool) -> None:
        if not self._sandbox.running:
            return
        self._stopped = True
        self._endpoint.close()
        if kill:
            self._sandbox.kill()
        else:
            self._sandbox.terminate()
        if self._ended_in(self._patience.effect):
            self._hangs = ""
            return
        sign = "SIGKILL" if kill else "SIGTERM"
        what = f"not ended {self._patience.effect:g} s after {sign}"
        if kill:  # what the kernel does not kill is no matter of the kubelet
            self._lose(f"the kubelet is {what}")
        self._note_hang(what, self._patience.effect)
        self._sandbox.kill()
        self._ended_in(self._patience.effect)

    def _ended_in(self, seconds: float) -> bool:
        return self._wait(lambda: not self._sandbox.running, seconds)

    def _reboot(self, name: str) -> None:
        self._require_down(Reboot(name))
        if name:
            try:
                machine = self._find_machine(name)
            except topologies.MachineError as error:
                raise SubjectLostError(str(error)) from error
            self._bind(machine)
        self._runtime.drop_everything()
        boot_id = Path("/proc/sys/kernel/random/uuid").read_text()
        self._write(f"{AREA}/settings/kernel/random/boot_id", boot_id)

    def _bind(self, machine: Machine) -> None:
        self._machines += 1
        folder = f"{AREA}/machines/{self._machines}"
        try:
            topologies.write(with_clock(machine.tree), self._sandbox.path(folder))
        except topologies.MachineError as error:
            raise SubjectLostError(f"machine {machine.name}: {error}") from error
        self._sandbox.bind_machine(folder)

    def _apply(self, pod: Pod) -> None:
        self._names[pod.uid] = pod.name
        self._applied[pod.name] = pod
        self._write(self._manifest(pod.name), manifests.text(pod))

    def _delete(self, name: str) -> None:
        pod = self._applied.pop(name, None)
        self._sandbox.path(self._manifest(name)).unlink(missing_ok=True)
        if pod is not None:
            self._wait(lambda: self._is_gone(pod), self._patience.effect)

    def _is_gone(self, pod: Pod) -> bool:
        """Also true where the kubelet is down: then nobody takes the containers away. That it
        still lists the pod means that it has not seen the manifest go, and may yet start it."""
        if not self._sandbox.running:
            return True
        if pod.uid in self._runtime.running_ids().values():
            return False
        return all(status.uid != pod.uid for status in self._ask_for_pods())

    def _manifest(self, pod: str) -> str:
        return f"{kubelet_config.MANIFESTS}/{manifests.file_name(pod)}"

    def _write_state(self, text: str) -> None:
        self._sandbox.path(STATE_DIR).mkdir(parents=True, exist_ok=True)
        self._write(STATE_FILE, text, mode=0o600)

    def _tamper(self, name: str, container: str, cpus: CPUSet) -> None:
        uid = self._applied[name].uid if name in self._applied else ""
        if not self._runtime.set_cpuset(uid, container, cpus):
            raise SubjectLostError(f"no running container {name}/{container} to tamper with")

    def _await_reconcile(self) -> None:
        """A round visits the containers that the kubelet knows to run, so it has to know them
        first. A round leaves no trace when nothing is to be done; it begins one period after the
        last one ended. So after two periods (and as much again as a round takes) one has begun
        and ended after this moment, whatever the kubelet was doing in it. An answer at the end
        shows that the kubelet had the processor meanwhile."""
        if not self._sandbox.running or self._config.policy == "none":
            return
        self._wait(self._knows_what_runs, self._patience.effect)
        deadline = time.monotonic() + 2 * kubelet_config.RECONCILE_PERIOD + 0.1
        self._wait(lambda: time.monotonic() >= deadline or not self._sandbox.running, 1.0)
        self._ask_for_pods()

    def _knows_what_runs(self) -> bool:
        if not self._sandbox.running:
            return True
        known = {each for status in self._ask_for_pods() for each in status.running}
        return self._runtime.running_ids().keys() <= known

    def _require_alive(self) -> None:
        if self._closed or self._sandbox.lost:
            raise SubjectLostError(f"the node {'is closed' if self._closed else 'was lost'}")

    def _require_down(self, step: Step) -> None:
        if self._sandbox.running:
            raise SubjectLostError(f"{type(step).__name__} while the kubelet runs")

    def _write(self, inside: str, text: str, *, mode: int = 0o644) -> None:
        """Put a file in place at once, so that nobody reads half of it. The name it has before
        begins with a dot: the kubelet overlooks such manifests."""
        path = self._sandbox.path(inside)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(text.encode("utf-8", "surrogateescape"))
        draft.chmod(mode)
        draft.replace(path)

    # --- views -------------------------------------------------------------------------------

    def view(self) -> View:
        """What can be seen now; see :class:`reference.view.View`.

        An exit status of 128 and more is 128 + the signal that the kubelet died of. A kubelet that
        does not answer shows its pods as pending. Raises :class:`SubjectLostError` where the
        sandbox ended.
        """
        self._require_alive()
        running = self._sandbox.running
        # The kubelet writes its state file, then speaks to the runtime, then tells of the pod.
        # Looked at the other way round, whatever has an effect here is here itself.
        pods = self._pods() if running else {}
        cpusets = self._runtime.cpusets()
        text = self._state_text()
        shared, entries = parse_leniently(text, release=str(self._binary.release))
        return View(
            running=running,
            error="" if running else self._error(),
            exit_status=None if running or self._stopped else self._exit_status(),
            pods=pods,
            assignments=by_pod(entries, self._runtime.owner, self._name),
            shared_pool=shared,
            state_file=text,
            cpusets={self._name(uid): sets for uid, sets in cpusets.items()},
            hangs=self._hangs,
        )

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """Look until ``satisfied``, or until nothing more can come: the kubelet is down or known to
        hang, or the patience for an effect is at its end.

        Then a kubelet hangs that does not answer, or has begun nothing for a pod. Raises
        :class:`SubjectLostError` where it was not given a processor.
        """
        last: list[View] = []

        def look() -> bool:
            down = not self._sandbox.running
            last[:] = [self.view()]
            return satisfied(last[0]) or down or bool(self._hangs)

        if not self._wait(look, self._patience.effect):
            self._require_processor(self._patience.effect)
            idle = self._nothing_done(last[0])
            if idle:
                self._note_hang(
                    f"no effect in {self._patience.effect:g} s: {idle}", self._patience.effect
                )
                return self.view()
        return last[0]

    def _nothing_done(self, view: View) -> str:
        """What a kubelet that runs owes an answer to, and has not even begun."""
        if self._silence:
            return f"it does not answer ({self._silence})"
        begun = self._runtime.pods()
        for name, pod in self._applied.items():
            if view.pods[name].phase is Phase.PENDING and pod.uid not in begun:
                return f"it has begun nothing for pod {name}"
        return ""

    def _wait(
        self, done: Callable[[], bool], seconds: float, *, slowest: float = _LAST_LOOK
    ) -> bool:
        deadline = time.monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            rings = self._bell.rings
            if done():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._bell.wait(rings, min(pause, left))
            pause = min(pause * 1.5, slowest)

    def _name(self, uid: str) -> str:
        return self._names.get(uid, uid)

    def _state_text(self) -> str | None:
        try:
            data = self._sandbox.path(STATE_FILE).read_bytes()
        except FileNotFoundError:
            return None
        return data.decode("utf-8", "surrogateescape")

    def _error(self) -> str:
        if self._stopped or self._sandbox.log is None:
            return ""
        if not self._gave_up:
            self._gave_up = self._why_it_ended(self._sandbox.log)
        return self._gave_up

    def _why_it_ended(self, log: Log) -> str:
        """Who was killed gave no reason: what its log says last is of something else."""
        status = self._sandbox.exit_status
        if status is not None and status < 0:
            return f"killed by {_signal_name(-status)}"
        return log.gave_up_because() or "its log does not say why"

    def _exit_status(self) -> int | None:
        status = self._sandbox.exit_status
        return 128 - status if status is not None and status < 0 else status

    def _ask_for_pods(self) -> list[PodStatus]:
        try:
            answer = self._endpoint.pods()
        except NoAnswer as error:
            self._silence = str(error)
            return []
        self._silence = ""
        return answer

    def _pods(self) -> dict[str, PodView]:
        seen = {status.uid: status for status in self._ask_for_pods()}
        names = {pod.uid: pod.name for pod in self._applied.values()}
        names |= {uid: self._name(uid) for uid in seen}
        started = self._runtime.cpusets()
        return {
            name: self._pod(seen.get(uid), started.get(uid, {}), self._applied.get(name))
            for uid, name in names.items()
        }

    def _pod(
        self, status: PodStatus | None, started: Mapping[str, object], pod: Pod | None
    ) -> PodView:
        """The kubelet's own phase follows the runtime by up to a second (its PLEG), so a pod runs
        as soon as the runtime runs all of it."""
        if status is None:
            return PodView(Phase.PENDING)
        if status.phase == "Failed":
            return PodView(Phase.REJECTED, status.reason, status.message, status.qos)
        wanted = {each.name for each in pod.containers if each.kind is not Kind.INIT} if pod else ()
        runs = all(name in started for name in wanted) if wanted else status.phase == "Running"
        return PodView(Phase.RUNNING if runs else Phase.PENDING, qos=status.qos)

    def evidence(self) -> str:
        """The kubelet's error lines and last lines, its last calls to the runtime, and whether it
        does not answer."""
        parts = []
        if self._silence and self._sandbox.running:
            parts.append(f"the kubelet does not answer: {self._silence}")
        if self._sandbox.log is not None:
            parts.append(self._sandbox.log.excerpt())
        calls = self._runtime.recent_calls(20)
        if calls:
            parts.append("last calls to the container runtime:")
            parts.extend(f"  {call}" for call in calls)
        return "\n".join(parts)

    def close(self) -> None:
        """Leave nothing behind; see :class:`~conformance.subjects.kubelet.sandboxes.Sandboxes` for
        when the sandbox is gone. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._endpoint.close()
        self._sandbox.end()
        self._runtime.close()
        if self._docker is not None:
            self._docker.close()
        self._sandboxes.give_back(self._sandbox)
