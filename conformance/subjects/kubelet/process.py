"""The kubelet of one node as a process: started, watched, stopped.

What belongs here: whether it is up, hangs, had a processor, answers, and why it ended. What never
does: pods, and what a step does to the node (:mod:`conformance.subjects.kubelet.node`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from conformance.in_effect import LABEL
from conformance.kubelets import configuration as kubelet_config
from conformance.kubelets.klog import Log
from conformance.kubelets.releases import POD_CGROUPS_SINCE, Minor
from conformance.subject import SubjectLostError
from conformance.subjects.kubelet.endpoint import Endpoint, NoAnswer, PodStatus
from conformance.subjects.kubelet.runtime import FakeRuntime
from conformance.subjects.kubelet.sandbox import STATE_DIR, Sandbox
from conformance.subjects.processor import ProcessorTime, processor_time
from reference.steps import KubeletConfig

#: The device manager makes this socket. In every release it starts after the CPU manager
#: (``cm/container_manager_linux.go``, ``Start``), so the CPU manager is up if the socket exists.
DEVICE_SOCKET: Final = f"{STATE_DIR}/device-plugins/kubelet.sock"

#: Seconds between looks at a start. They are frequent, since a look at a missing file takes little
#: time; every 2 ms would take a third more processor time.
_START_LOOK: Final = 0.005
#: A kubelet runs for about a second here. With Go's default garbage collection takes an eighth of
#: the processor time of its start, and saves only 2 MB. So the heap may grow to five times its live
#: size.
_THRIFT: Final = {"GOGC": "400"}
#: The error of a kubelet that cannot watch files: other programs have all inotify instances that
#: Linux gives a user.
_NO_INSTANCE: Final = "inotify_init: too many open files"
#: Seconds after its start in which a kubelet has listed its pods, even on a busy host: manifests at
#: once, those of an API server after a second (``WaitForAPIServerSyncPeriod``). Then the wait ends.
FIRST_LIST: Final = 5.0
#: A kubelet without a processor is waited for at most so many times as long.
_MOST_WAITS: Final = 6


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a node is waited for: for a kubelet to start or to end, and for the effect of
    any other step. They are many, because a busy host must not look like a hang."""

    start: float = 60.0
    effect: float = 15.0

    @property
    def after_progress(self) -> float:
        """Seconds for the effect of a step after the last container has started. They are not
        doubled for a shorter patience: its callers try again with the full one."""
        return self.effect if self.effect < PATIENT.effect else 2 * self.effect


PATIENT: Final = Patience()


@dataclass(frozen=True, slots=True)
class Binary:
    """A kubelet: its absolute path, and the release that it says it is."""

    path: Path
    release: Minor


class KubeletProcess:
    """One kubelet at a time in ``sandbox``, which calls ``runtime``; the next one to start is
    ``binary``.

    ``certificates`` gets those that the first kubelet makes for itself, for the next ones: an RSA
    key takes a third of a kubelet's start. ``hangs`` says how the kubelet hangs (``""`` if it is
    not known to). ``node_in_cluster`` is that of
    :func:`~conformance.kubelets.configuration.arguments`. ``silence`` says why it did not answer
    the last request (``""`` if it did).
    """

    def __init__(
        self,
        binary: Binary,
        sandbox: Sandbox,
        runtime: FakeRuntime,
        *,
        certificates: dict[str, bytes],
        patience: Patience,
        node_in_cluster: str = "",
    ) -> None:
        self.hangs = ""
        self.silence = ""
        self.binary = binary
        self._sandbox = sandbox
        self._runtime = runtime
        self._certificates = certificates
        self._patience = patience
        self._node_in_cluster = node_in_cluster
        self._endpoint = Endpoint(sandbox.socket, kubelet_config.PORT)
        self._used = ProcessorTime()
        self._stopped = True
        self._started = 0.0
        self._error = ""

    @property
    def running(self) -> bool:
        """Whether it runs. It is false as soon as the kubelet has ended."""
        return self._sandbox.running

    @property
    def error(self) -> str:
        """Why the kubelet gave up; ``""`` if it was stopped."""
        if self._was_stopped or self._sandbox.log is None:
            return ""
        self._error = self._error or self._why_it_ended(self._sandbox.log)
        return self._error

    @property
    def exit_status(self) -> int | None:
        """The exit status of the kubelet that has ended; 128 + the signal that ended it, as in
        shells. ``None`` if it was stopped."""
        status = self._sandbox.exit_status
        if self._was_stopped or status is None:
            return None
        return 128 - status if status < 0 else status

    @property
    def _was_stopped(self) -> bool:
        return self._stopped or bool(self._sandbox.killed_at_rename)

    # --- start and stop ----------------------------------------------------------------------

    def start(self, config: KubeletConfig, pods: Sequence[str] = ()) -> None:
        """Start it, and wait until it is up, gives up or hangs. ``pods``: the cgroups of running
        pods. Raises :class:`SubjectLostError` if it lacked a served call, a processor or an inotify
        instance."""
        self._sandbox.path(DEVICE_SOCKET).unlink(missing_ok=True)
        self._give_certificates()
        release = self.binary.release
        has_own = self._sandbox.own_cgroups and release >= POD_CGROUPS_SINCE
        cgroups = pods if has_own else None
        settings = kubelet_config.configuration(
            release,
            config,
            user_namespace=self._sandbox.user_namespace,
            own_cgroups=has_own,
        )
        self._sandbox.write(kubelet_config.CONFIG_FILE, kubelet_config.file_text(settings))
        argv = kubelet_config.arguments(
            release, str(self.binary.path), node_in_cluster=self._node_in_cluster
        )
        self._error, self.hangs, self._stopped = "", "", False
        self._runtime.called = False
        self._runtime.not_served_paths.clear()
        env = {**_THRIFT, **os.environ, "TMPDIR": kubelet_config.TEMPORARY}
        self._sandbox.start(argv, env, cgroups=cgroups)
        self._started = time.monotonic()
        seconds = self._patience.start
        if not self._sandbox.bell.until(self._up_or_down, seconds, slowest=_START_LOOK):
            self.note_hang(f"not up after {seconds:g} s: {self._what_is_missing()}", seconds)
        if not self.running and self.error and self._lacks_an_instance():
            self._lose(
                "this host has no inotify instance left, of which a kubelet takes six: run fewer "
                "at a time, or raise fs.inotify.max_user_instances"
            )
        self._keep_certificates()

    def stop(self, kill: bool) -> None:
        """Send SIGTERM or SIGKILL, and wait until it has ended. One that outlives SIGTERM hangs,
        and is killed. Raises :class:`SubjectLostError` if it outlives SIGKILL."""
        self._stopped = True
        self._endpoint.close()
        if kill:
            self._sandbox.kill()
        else:
            self._sandbox.terminate()
        if self._has_ended():
            self.hangs = ""
            return
        sign = "SIGKILL" if kill else "SIGTERM"
        what = f"not ended {self._patience.effect:g} s after {sign}"
        if kill:  # that is the kernel's fault, not the kubelet's
            self._lose(f"the kubelet is {what}")
        self.note_hang(what, self._patience.effect)
        self._sandbox.kill()
        self._has_ended()

    def close(self) -> None:
        """Close the connection to it."""
        self._endpoint.close()

    def _has_ended(self) -> bool:
        return self._sandbox.bell.until(lambda: not self.running, self._patience.effect)

    def _give_certificates(self) -> None:
        folder = self._sandbox.path(kubelet_config.CERTIFICATES)
        if self._certificates and not folder.exists():
            folder.mkdir()
            for name, content in list(self._certificates.items()):  # another node may fill it
                (folder / name).write_bytes(content)
                (folder / name).chmod(0o600)

    def _keep_certificates(self) -> None:
        folder = self._sandbox.path(kubelet_config.CERTIFICATES)
        if self.running and not self.hangs and not self._certificates:
            self._certificates.update({each.name: each.read_bytes() for each in folder.iterdir()})

    def _up_or_down(self) -> bool:
        if not self.running:
            return True
        if not self._sandbox.path(DEVICE_SOCKET).exists():
            return False
        try:
            self._endpoint.pods()
        except NoAnswer:
            return False
        return True

    def _what_is_missing(self) -> str:
        missing = sorted(self._runtime.not_served_paths)
        if missing:
            self._lose(f"it asks the runtime for {missing[0]}, which is not served here")
        if not self._runtime.called:
            return "it never called the container runtime"
        return "it neither started its managers nor gave up"

    # --- watching ----------------------------------------------------------------------------

    def watch(self) -> None:
        """Count its processor time from now on."""
        self._used = processor_time(self._sandbox.pid)

    def pods(self) -> list[PodStatus]:
        """The status of its pods; none if it does not answer, and ``silence`` says why."""
        try:
            answer = self._endpoint.pods()
        except NoAnswer as error:
            self.silence = str(error)
            return []
        self.silence = ""
        return answer

    def has_listed(self, source: str) -> bool:
        """Whether it has listed the pods of ``"api"`` or ``"file"`` since its start, or will not. A
        pod in the first list is admitted before its source counts as ready (``syncLoopIteration``),
        and so before the CPUs of deleted pods are free."""
        log = self._sandbox.log
        is_late = time.monotonic() > self._started + FIRST_LIST
        listed = log is not None and log.has_listed(source)
        return listed or is_late or not self.running or bool(self.hangs)

    def metrics(self) -> dict[str, float]:
        """Its metrics. Raises :class:`SubjectLostError` if it does not answer."""
        try:
            return self._endpoint.metrics()
        except NoAnswer as error:
            raise SubjectLostError(str(error)) from error

    def note_hang(self, what: str, seconds: float) -> None:
        """Note that the kubelet did nothing for ``seconds``. Raises :class:`SubjectLostError` if it
        had no processor."""
        spent = self.require_processor(seconds)
        self.hangs = f"{what}; it used {spent.used:.1f} s of processor time meanwhile"

    def shows(
        self,
        effect: Callable[[], bool],
        seconds: float,
        progress: Callable[[], object],
        after_progress: float,
    ) -> bool:
        """Wait for an effect of a step. Returns whether it came in ``seconds``, or in
        ``after_progress`` seconds after the last change of ``progress``: twelve containers start
        one after the other. If the kubelet was ready to work and others had the processors, wait so
        long again, a few times: with eight NUMA nodes and two kinds of devices a kubelet up to 1.22
        computes for seconds."""
        known, now = progress(), time.monotonic()
        until, latest = now + seconds, now + _MOST_WAITS * seconds

        def look() -> bool:
            nonlocal known, until
            before, known = known, progress()
            if known != before:
                until = max(until, time.monotonic() + after_progress)
            return effect()

        while (left := min(until, latest) - time.monotonic()) > 0:
            if self._sandbox.bell.until(look, left):
                return True
            if processor_time(self._sandbox.pid).since(self._used).is_hindered(seconds):
                until = time.monotonic() + seconds
        return False

    def require_processor(self, seconds: float) -> ProcessorTime:
        """The processor time since :meth:`watch`, ``seconds`` ago. Raises :class:`SubjectLostError`
        if others had the processors all the time."""
        spent = processor_time(self._sandbox.pid).since(self._used)
        if spent.is_starved(seconds):
            self._lose(
                f"this host is too busy: in {seconds:g} s the kubelet had a processor for "
                f"{spent.used:.1f} s, and waited {spent.waited:.1f} s for one"
            )
        return spent

    def evidence(self) -> str:
        """Whether it does not answer, the settings in effect, lines of its managers, error lines
        and last lines, and its last calls to the runtime."""
        parts = []
        if self.silence and self.running:
            parts.append(f"the kubelet does not answer: {self.silence}")
        if self._sandbox.log is not None:
            if settings := self._sandbox.log.in_effect():
                parts.append(f"{LABEL}{settings}")
            parts.append(self._sandbox.log.excerpt())
        calls = self._runtime.recent_calls(20)
        if calls:
            parts.append("last calls to the container runtime:")
            parts.extend(f"  {call}" for call in calls)
        return "\n".join(parts)

    def _lose(self, why: str) -> NoReturn:
        evidence = self.evidence()
        self._sandbox.kill()
        raise SubjectLostError(why, evidence=evidence)

    def _lacks_an_instance(self) -> bool:
        """Whether the log has :data:`_NO_INSTANCE`: the last line is another error, of cAdvisor."""
        return self._sandbox.log is not None and _NO_INSTANCE in self._sandbox.log.excerpt()

    def _why_it_ended(self, log: Log) -> str:
        """The signal, or the reason in the log: a killed kubelet logs none."""
        status = self._sandbox.exit_status
        if status is not None and status < 0:
            return f"killed by {_signal_name(-status)}"
        return log.gave_up_because() or "its log does not say why"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
