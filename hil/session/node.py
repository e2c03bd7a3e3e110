"""A real node for one scenario (:class:`conformance.subject.NodeUnderTest`).

What belongs here: which act a step is, and when its effects are seen. What never does: shell
(:mod:`hil.session.scripts`), and how an observation becomes a view (:mod:`hil.session.views`).

A step is one round trip: changes, a wait on the node for its effect, and an observation. Until that
shows what is wanted, more round trips watch the node, each until something changes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import topologies
from conformance.subject import Origin, SubjectLostError, SubjectUnable
from hil.observation import ContainerObserved, Observation, PodResources
from hil.safety import Change, RemoveFile, SetOnline, WriteFile
from hil.session import scripts
from hil.session.node_session import NodeSession, lost
from hil.session.others import SAME
from hil.session.scripts import Act
from hil.session.views import (
    Refusal,
    another_hand,
    cpus_by_pod,
    end_of,
    refusal,
    view_of,
    without_image,
)
from reference import CPUSet
from reference.steps import (
    Apply,
    AskPodResources,
    AwaitCrashLoop,
    AwaitReconcile,
    Configure,
    DaemonReload,
    Delete,
    KillContainer,
    KubeletConfig,
    OfflineCPUs,
    OnlineCPUs,
    Pod,
    Reboot,
    RemoveState,
    Replace,
    RestartRuntime,
    Spin,
    Start,
    Step,
    Stop,
    Tamper,
    TamperQuota,
    WriteState,
)
from reference.view import View
from topologies import Machine


class RealNode:
    """One scenario's node. It counts as down until the first ``Start``. Where the kubelet runs
    already, fresh and with the wanted configuration, that start only observes it."""

    def __init__(
        self,
        session: NodeSession,
        config: KubeletConfig,
        fresh: Observation | None,
        *,
        machines: Callable[[str], Machine] = topologies.machine,
        shaping: tuple[Change, ...] = (),
    ) -> None:
        """``fresh``: the last observation of a kubelet that is as a new one; ``None``: the first
        start makes the changes ``shaping``, stops the kubelet and removes its state."""
        self._machines = machines
        self._shaping = shaping
        #: The node, beyond this scenario.
        self.session = session
        self._config = config
        self._fresh = fresh
        self._pods: dict[str, Pod] = {}
        self._ever: dict[str, Pod] = {}
        self._called: dict[str, tuple[str, str]] = {}
        self._asking = False
        self._settled = True
        self._up = False
        self._clean_start = fresh is None
        self._refused: Refusal | None = None
        self._invocation = ""
        self._look = fresh
        self._looked_at = _now()
        self._closed = False

    # ---- steps ----------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Carry the step out; see :class:`conformance.subject.NodeUnderTest`."""
        if self._closed:
            raise SubjectLostError("the node is closed")
        self.session.waiting.step = step.sentence
        self._settled = True
        self._asking = isinstance(step, AskPodResources)
        match step:
            case Start():
                self._start()
            case Stop(kill=kill):
                self._stop(kill)
            case Apply(pod=pod):
                self._apply(pod)
            case Delete(pod=name, force=force):
                self._delete(name, force)
            case Replace(gone=name, pod=pod):
                self._delete(name, force=False)
                self._apply(pod)
            case Configure(config=config):
                self._require_down(step)
                self._config = config
            case Reboot(machine=machine):
                self._require_down(step)
                self._reboot(machine)
            case Spin():
                self._act(Act(), spin=True)
            case AskPodResources(pod=""):
                self._act(Act(ask=True))
            case AwaitReconcile():
                self._act(Act(f"sleep {2 * self.session.reconcile_period + 1:g}"))
            case _:
                self._act(self._simple_act(step))
        if isinstance(step, DaemonReload | Reboot):
            self.session.assure()

    def _simple_act(self, step: Step) -> Act:
        session, places = self.session, self.session.places
        match step:
            case RemoveState():
                self._require_down(step)
                return Act(changes=(RemoveFile(places.state_file),))
            case WriteState(text=text):
                self._require_down(step)
                given = session.pod_source.as_given(text, self._config)
                data = given.encode("utf-8", "surrogateescape")
                return Act(changes=(WriteFile(places.state_file, data, mode=0o600),))
            case Tamper(pod=pod, container=container, cpus=cpus):
                return scripts.tamper(places, self._container(pod, container), cpus)
            case TamperQuota(pod=pod, container=container, quota=quota):
                return scripts.tamper_quota(places, self._container(pod, container), quota)
            case KillContainer(pod=pod, container=container):
                found = self._container(pod, container)
                seconds = session.patience.effect
                owner = self._pods[pod]
                return scripts.kill_container(found, owner, seconds, kubelet_runs=self._up)
            case RestartRuntime():
                session.others.restarts_runtime()
                return scripts.restart_runtime(session.runtime_unit, session.patience.start)
            case DaemonReload():
                return Act("systemctl daemon-reload")
            case AwaitCrashLoop():
                restarts = self._look.service.restarts if self._look else 0
                return scripts.crash_loop(restarts, session.patience.start)
            case OfflineCPUs(cpus=cpus):
                return Act(changes=tuple(SetOnline(cpu, False) for cpu in sorted(cpus)[::-1]))
            case OnlineCPUs(cpus=cpus):
                return Act(changes=tuple(SetOnline(cpu, True) for cpu in sorted(cpus)))
        raise SubjectUnable(f"the step {type(step).__name__} is not for a real node")

    def _start(self) -> None:
        if self._up:
            return
        if self._fresh is not None:
            self._look, self._fresh = self._fresh, None
            self._up = True
        else:
            self.session.require_restarts()
            pods = tuple(self._pods.values())
            act = self.session.start(self._config, pods, self._clean_start, self._shaping)
            self._clean_start, self._shaping = False, ()
            self._up, self._refused = True, None
            self._act(act)
            self._note_refusal()
        assert self._look is not None
        self._invocation = self._look.service.invocation

    def _note_refusal(self) -> None:
        look = self._look
        assert look is not None
        if look.service.pid == 0 or look.service.restarts > 0:
            self._up, self._refused = False, refusal(look)
        elif not look.reached:
            raise SubjectLostError(
                f"the kubelet is not up after {self.session.patience.start:g} s, "
                "and has not given up",
                evidence=look.log,
            )

    def _stop(self, kill: bool) -> None:
        self.session.require_restarts()
        self._fresh = None  # a kubelet that was found fresh counts as down, and now it must be
        self._up, self._refused = False, None
        self._act(self.session.stop(kill=kill))

    def _apply(self, pod: Pod, script: str = "") -> None:
        session = self.session
        session.require_room(pod, self._look)
        pod_source = session.pod_source
        with lost(session.name):
            there, changes = pod_source.create(pod)
            self._pods[pod.name] = self._ever[there.uid] = there
            if self._up:
                self._settled = pod_source.await_settled([there])
        awaited, seconds = self._up and pod_source.static, session.patience.effect
        self._act(scripts.apply(there, changes, script, awaited=awaited, seconds=seconds))

    def _delete(self, name: str, force: bool) -> None:
        pod = self._pods.pop(name)
        session = self.session
        with lost(session.name):
            # A kubelet that is down is not asked.
            changes = session.pod_source.delete(pod, force=force or not self._up)
        force, seconds = force and session.pod_source.static, session.patience.effect
        self._act(scripts.delete(pod, changes, up=self._up, force=force, seconds=seconds))

    def _reboot(self, machine: str) -> None:
        self._refused = None
        self._look = self.session.reboot(self._machines(machine) if machine else None)
        self._looked_at = _now()

    def _container(self, pod: str, container: str) -> ContainerObserved:
        uid = self._pods[pod].uid if pod in self._pods else ""
        for found in self._look.containers if self._look else ():
            if (found.uid, found.name) == (uid, container):
                return found
        raise SubjectLostError(f"no running container {pod}/{container}")

    def _require_down(self, step: Step) -> None:
        """A crash loop counts as down; then it is ended first."""
        if self._up:
            raise SubjectLostError(f"{type(step).__name__} while the kubelet runs")
        if self._refused is not None and self._look is not None and self._look.service.active:
            self._act(self.session.stop(kill=False))

    def _act(self, act: Act, *, spin: bool = False) -> None:
        self._look = self.session.act(act, spin=spin)
        self._looked_at = _now()
        for one in self._look.containers:
            self._called[one.uid] = (one.namespace, one.pod)

    # ---- views ----------------------------------------------------------------------------

    def view(self) -> View:
        """What can be seen now; see :class:`reference.view.View`. Raises :class:`SubjectUnable`
        where the last step was to ask at a socket that cannot be read."""
        self._act(Act(ask=self._asking))
        return self._view()

    def _view(self) -> View:
        look = self._look
        if look is None:
            return View(running=False)
        running, refused = self._up, self._refused
        if running:
            meddled = another_hand(look.service, self._invocation)
            if meddled:
                raise SubjectLostError(f"{self.session.name}: {meddled}", evidence=look.log)
            if lacking := without_image(look, [*self._pods.values()]):
                raise SubjectLostError(f"{self.session.name}: {lacking}", evidence=look.log)
            restarted = bool(self._invocation) and look.service.invocation != self._invocation
            if restarted or not look.service.running:
                running, refused = False, end_of(look)
        pods = [*self._pods.values()]
        gone = [pod for uid, pod in self._ever.items() if all(uid != one.uid for one in pods)]
        seen = view_of(look, [*gone, *pods], running=running, refused=refused)
        shown = {name: one for name, one in seen.pods.items() if name in self._pods}
        return replace(
            seen,
            pods=shown,
            state_file=self.session.pod_source.as_stated(seen.state_file, self._config),
            pod_resources=_reported_cpus(look.pod_resources, self._called, [*gone, *pods])
            if running and self._asking
            else None,
        )

    def origin(self) -> Origin:
        """What the last view was made from; see :class:`conformance.subject.Origin`."""
        look = self._look
        if look is None:
            return Origin(self._looked_at, CPUSet())
        names = {pod.uid: pod.name for pod in self._ever.values()}
        return Origin(
            at=self._looked_at,
            online=look.online,
            state_file=_digest(look.state_file),
            containers={
                f"{names[one.uid]}/{one.name}": (one.id, one.levels[0].path if one.levels else "")
                for one in look.containers
                if one.uid in names
            },
        )

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        """Watch until ``satisfied``, or until nothing more can change: the patience for an effect
        is at its end, or the kubelet is down and has come to rest."""
        patience = self.session.patience
        deadline = time.monotonic() + self._patience_left()
        while True:
            view = self._view()
            left = deadline - time.monotonic()
            if self._look is None or satisfied(view) or left <= 0:
                return view
            if self._asking:  # pin_changed does not watch the pod-resources socket
                self._act(Act("sleep 1", ask=True))
                continue
            seconds = max(1.0, min(left, patience.watch))
            goal = f"pin_changed '{self._look.print}'"
            self._act(Act(goal=goal, seconds=seconds))

    def _patience_left(self) -> float:
        """Seconds in which the last step's effects may still come. After a step that itself has
        waited for them in vain, they get less time."""
        patience = self.session.patience
        if not self._up:
            return patience.rest
        waited = not self._settled or (self._look is not None and not self._look.reached)
        return patience.late if waited else patience.effect

    def evidence(self) -> str:
        """The kubelet's last lines, and every container's cgroups as the kernel has them."""
        look = self._look if self._closed else self.session.act(Act(), log=True)
        if look is None:
            return ""
        containers = [*map(_container_text, look.containers)]
        return "\n".join(
            [*look.log.splitlines()[-60:], *containers, *([SAME] if containers else [])]
        )

    def close(self) -> None:
        """Remove the scenario's pods. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self.session.give_back(self._config if self._up else None, [*self._pods.values()])

    def containers(self) -> tuple[ContainerObserved, ...]:
        """The scenario's containers, as last observed."""
        uids = {pod.uid for pod in self._pods.values()}
        seen = self._look.containers if self._look else ()
        return tuple(one for one in seen if one.uid in uids)

    def run(self, script: str) -> str:
        """Run a script that is not a step; what it wrote."""
        self._act(Act(script))
        return self._look.notes.get("before", "") if self._look else ""

    def take_program(self, change: Change, release: str) -> None:
        """The kubelet, which is down, is another program from its next start on, one of this
        release, after this change. Raises :class:`SubjectLostError` while it runs."""
        if self._up:
            raise SubjectLostError("a kubelet's program is replaced while the kubelet is down")
        self.session.require_restarts()
        stop = self.session.stop(kill=False) if self._refused is not None else Act()
        self._act(replace(stop, changes=(change,)))
        self.session.pod_source.expect(release)

    def apply_and_run(self, pod: Pod, script: str) -> str:
        """Put a pod's manifest in place, and run a script at once; what it wrote."""
        self._apply(pod, script)
        return self._look.notes.get("before", "") if self._look else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _reported_cpus(
    found: PodResources | None, called: Mapping[str, tuple[str, str]], pods: list[Pod]
) -> dict[str, dict[str, CPUSet]]:
    """Which container holds which CPUs, as the kubelet reports at its pod-resources socket. Raises
    :class:`SubjectUnable` where it could not be asked."""
    if found is None or found.why:
        why = found.why if found is not None else "it was not asked"
        raise SubjectUnable(f"the kubelet's pod-resources socket cannot be read: {why}")
    return cpus_by_pod(found, called, pods)


def _digest(state_file: str | None) -> str:
    if state_file is None:
        return ""
    data = state_file.encode("utf-8", "surrogateescape")
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _container_text(container: ContainerObserved) -> str:
    levels = "; ".join(
        f"{one.path}: cpuset {one.cpus if one.cpus else '(empty)'}, effective {one.effective}"
        for one in container.levels
    )
    tasks = ", ".join(sorted({str(cpus) for cpus in container.tasks.values()}))
    return f"container {container.name} (pid {container.pid}): {levels}; tasks may run on {tasks}"
