"""One node of a run, held from the run's beginning to its end.

What belongs here: what is kept between scenarios (which configuration lies on the node, whether its
kubelet is as a new one), what a user allowed, and the round trip itself. What never does: the steps
of one scenario (:mod:`hil.session.node`).

A kubelet is as a new one when it runs with the wanted configuration, knows no pod of pinproof, and
its state file has no entry. Scenarios that follow one another then share it, which saves its
restart; their pods have uids of their own (:attr:`conformance.lockstep.LockstepNode`), because a
kubelet remembers what a uid had requested.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote

import topologies
from conformance.discovered import info_of
from conformance.kubelets.durations import seconds
from conformance.subject import SubjectLostError, SubjectSetupError, SubjectUnable
from hil.distributions import Distribution
from hil.inspection import NodeFacts, kubelet_of
from hil.observation import Observation, Places, Process, look, marker, read_observation
from hil.pods import Image, PodSource, StaticPods, refuse_if_crowded
from hil.safety import Change, Risk, SetOnline, WriteFile
from hil.session import scripts
from hil.session.booting import Boot, larger_spec, was_booted
from hil.session.executor import Executor
from hil.session.others import BOOTED, Others
from hil.session.scripts import Act
from hil.session.waiting import Waiting
from hil.shell import NodeError, NodeUnreachable
from reference import NEWEST, CPUSet
from reference.cpumanager.cpu_manager import reserved_milli_cpus
from reference.cpumanager.state.state_checkpoint import parse_leniently
from reference.steps import KubeletConfig, Pod
from topologies import Machine


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a node is waited for, in seconds: ``start`` for a kubelet to come up or give up,
    ``effect`` for what a step sets off, ``late`` for what comes after a step has waited for its
    effect in vain, ``rest`` for a kubelet that is down to come to rest, ``watch`` for a change in
    one round trip, and ``cut`` for a node whose connection broke, once a run."""

    start: float = 200.0
    effect: float = 120.0
    late: float = 30.0
    rest: float = 3.0
    watch: float = 20.0
    cut: float = 60.0


class NodeSession:
    """A leased node with a kubelet whose policy is static. ``executor`` acts on it; ``boot`` is
    ``None`` where it must not be booted again; ``spec`` is what the lab made it as (``""``: it is
    not a node of the lab). ``say`` gets what the run waits for.
    """

    def __init__(
        self,
        name: str,
        executor: Executor,
        facts: NodeFacts,
        distribution: Distribution,
        *,
        risk: Risk,
        image: Image,
        pod_source: PodSource | None = None,
        patience: Patience | None = None,
        boot: Boot | None = None,
        spec: str = "",
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.waiting = Waiting(name, say)
        self.facts = facts
        self.distribution = distribution
        self.risk = risk
        self.image = image
        self.patience = patience or Patience()
        self.places = Places.of(facts)
        self.pod_source = pod_source or StaticPods(self.places.manifests, image)
        self.machine: Machine = replace(facts.machine, name=name)
        self.own_config = kubelet_of(facts).config
        #: Why the configuration stays as it is; ``""``: it can be changed.
        self._fixed = distribution.cannot_configure(facts)
        #: Why the kubelet is not restarted; ``""``: it may be.
        self._stays_up = distribution.cannot_restart(facts) or (
            "" if risk >= Risk.KUBELET_RESTART else "needs --max-risk kubelet-restart"
        )
        self.scenarios = 0
        #: Seconds that the slowest round trip took.
        self.slowest = 0.0
        self._executor = executor
        self._boot = boot
        self._spec = spec
        self._booted_as = spec
        self._offline = CPUSet()
        self._brought: set[str] = set()
        self._present: KubeletConfig | None = self.own_config
        self._last: Observation | None = None
        self._process: Process | None = None
        self.others = Others(self.places.socket)
        self._was_cut = False
        #: A scenario has written a state file that the kubelet's release might not write so.
        self._state_is_written = False
        self._leaving: tuple[Pod, ...] = ()

    # ---- what is known --------------------------------------------------------------------

    @property
    def trips(self) -> int:
        return self._executor.trips

    @property
    def runtime_unit(self) -> str:
        return "crio.service" if self.facts.runtime.name == "cri-o" else "containerd.service"

    @property
    def reconcile_period(self) -> float:
        """``cpuManagerReconcilePeriod``, in seconds; the kubelet's default is 10."""
        text = kubelet_of(self.facts).settings.get("cpuManagerReconcilePeriod")
        found = seconds(str(text)) if text else None
        return float(found or 10)

    # ---- for a scenario -------------------------------------------------------------------

    def require_restarts(self) -> None:
        """Raise :class:`SubjectUnable` where the kubelet must not be restarted."""
        if self._stays_up:
            raise SubjectUnable(f"restarts the kubelet: {self._stays_up}")

    def require_room(self, pod: Pod, seen: Observation | None) -> None:
        """Raise :class:`SubjectUnable` without room: a static pod would evict others' pods, another
        pod would be rejected."""
        if seen is None:
            return
        capacity = 1000 * len(seen.online) - reserved_milli_cpus(self.own_config)
        try:
            pods_text = self.pod_source.all_pods(seen.pods)
            if pods_text:
                refuse_if_crowded(pod, pods_text, capacity, static=self.pod_source.static)
        except NodeError as error:
            raise SubjectUnable(str(error)) from error

    def fresh(self, config: KubeletConfig) -> Observation | None:
        """The observation of a kubelet that is as a new one with this configuration; ``None`` where
        it has to be stopped and started for that. Raises :class:`SubjectUnable` where it may not
        be, and :class:`SubjectSetupError` where the node holds pinned pods of others."""
        if self._state_is_written:
            return None
        if config != self._present or self._last is None:
            why = self._stays_up or self._fixed
            if why and config != self.own_config:
                raise SubjectUnable(
                    f"takes another kubelet configuration than the node's own: {why}"
                )
            if config != self._present:
                return None
        if self._leaving:
            self._last = self._remove(self._leaving)
        seen = self._last or self.act(Act())
        self._last = None
        if not _why_not_fresh(seen):
            return seen
        if self._stays_up:
            raise SubjectSetupError(f"{self.name}: {_why_not_fresh(seen)}")
        return None

    def start(
        self,
        config: KubeletConfig,
        pods: tuple[Pod, ...],
        clean: bool,
        shaping: tuple[Change, ...] = (),
    ) -> Act:
        """Stop what runs, put the configuration in place, and start. ``clean``: without a state
        file and without manifests that a scenario before left."""
        act = scripts.start(
            self.places,
            self.distribution.start(self.facts),
            pods,
            self.patience.start,
            # Only a kubelet that lists its pods shows one that it rejects.
            awaited=self.pod_source.static or bool(self.places.pods_url),
        )
        stop = self.distribution.stop(self.facts)
        changes: tuple[Change, ...] = shaping
        if clean:
            self._state_is_written = False
            staying = {pod.name for pod in pods}
            going = [pod for pod in self._leaving if pod.name not in staying]
            changes += self._without(going, force=True)
            self._leaving = ()
            stop += scripts.KILL_TASKS
        if config != self._present and not self._fixed:
            changes += self.distribution.configure(self.facts, config)
            self._present = config
        # The guard sweeps what lay there before this run.
        left = [*sorted(self._brought)] if clean and not pods else []
        files = [self.places.state_file, *left] if clean else []
        remove = f"rm -f {' '.join(map(quote, files))}" if files else ""
        return replace(act, script=f"{stop}\n{remove}\n{act.script}", changes=changes)

    def stop(self, *, kill: bool) -> Act:
        stop = self.distribution.stop(self.facts)
        # The service manager would start a killed one again.
        return Act(f"{self.distribution.kill(self.facts)}\n{stop}" if kill else stop)

    def give_back(self, config: KubeletConfig | None, pods: Sequence[Pod]) -> None:
        """End a scenario: its pods are removed, at the latest when the next one begins. ``config``
        is that of the running kubelet."""
        self.scenarios += 1
        self._last = None
        if self._booted_as != self._spec:
            self._boot_as(self._spec)
            config = None
        if self._offline:
            config = None
        if config is not None:
            # The next scenario may restart the kubelet anyway: their end is not waited for.
            self._leaving = tuple(pods)
            return
        self._present = None
        online = (SetOnline(cpu, True) for cpu in self._offline)
        with contextlib.suppress(SubjectLostError):
            self.act(Act(changes=(*self._without(pods, force=True), *online)))

    def _without(self, pods: Iterable[Pod], *, force: bool) -> tuple[Change, ...]:
        """The changes after which the kubelet has these pods no more. Raises
        :class:`SubjectLostError`."""
        with lost(self.name):
            return tuple(one for pod in pods for one in self.pod_source.delete(pod, force=force))

    def _remove(self, pods: tuple[Pod, ...]) -> Observation:
        """Remove pods from a kubelet that runs, and wait until it has forgotten them."""
        self._leaving = ()
        uids = quote("|".join(pod.uid for pod in pods))
        script = (
            'pin_none() { [ -z "$(pin_ours)" ] && pin_empty; }\n'
            f"pin_empty() {{ ! grep -qsE {uids} {quote(self.places.state_file)}; }}"
        )
        changes = self._without(pods, force=False)
        return self.act(Act(script, changes, goal="pin_none", seconds=self.patience.effect))

    def larger(self) -> Machine | None:
        """A machine like this one with more CPUs, which the lab can boot it as."""
        spec = larger_spec(self._spec) if self._boot is not None else ""
        return topologies.machine(spec) if spec else None

    def shaping(self, machine: Machine) -> tuple[Change, ...]:
        """The changes after which the node, its kubelet down, has the CPUs of ``machine``: itself
        without some of its CPUs. Raises :class:`SubjectUnable` for any other machine."""
        wanted = cpus_of(machine)
        whole = cpus_of(self.machine)
        gone = whole - wanted
        like = topologies.offline(self.machine, gone) if gone else self.machine
        if not wanted <= whole or like.digest != machine.digest:
            raise SubjectUnable(f"{machine.name} is not this node, nor this node with CPUs offline")
        if gone and self.places.cgroup != 2:
            raise SubjectUnable("takes CPUs offline, which needs cgroup v2")
        if gone and self.risk < Risk.CPU_OFFLINE:
            raise SubjectUnable("takes CPUs offline: needs --max-risk cpu-offline")
        off = (SetOnline(cpu, False) for cpu in sorted(gone - self._offline, reverse=True))
        on = (SetOnline(cpu, True) for cpu in self._offline - gone)
        return (*on, *off)

    def reboot(self, machine: Machine | None) -> Observation:
        """Boot the node again, as ``machine`` where one is given. The kubelet is down then, and no
        container runs. Raises :class:`SubjectUnable`."""
        if self._boot is None:
            raise SubjectUnable(
                "needs a reboot of the node, which is not allowed or not configured"
            )
        larger = machine is not None and machine.name == larger_spec(self._spec)
        spec = machine.name if machine is not None and larger else ""
        # Without a machine it is itself, as scenarios have left it.
        shape = machine or topologies.offline(self.machine, self._offline)
        self._boot_as(spec or (self._spec if self._booted_as != self._spec else ""))
        changes = () if spec else self.shaping(shape)
        act = self.stop(kill=False)
        script = f"{act.script}{scripts.KILL_TASKS}"
        quiet = 'pin_quiet() { [ -z "$(pin_tasks)" ]; }'
        return self.act(
            Act(f"{script}\n{quiet}", changes, goal="pin_quiet", seconds=self.patience.effect)
        )

    @property
    def in_lab(self) -> bool:
        """Whether the lab can switch it on."""
        return bool(self._spec) and self._boot is not None

    def switch_on(self) -> None:
        """Boot a node of the lab as the machine that it was made as, whatever its state. Raises
        :class:`SubjectLostError`."""
        self._boot_as(self._spec)

    def _boot_as(self, spec: str) -> None:
        assert self._boot is not None
        with lost(self.name):
            self._boot(spec)
        self._booted_as = spec or self._booted_as
        self._process = None  # another process may have its number and start time
        self.others.boots()
        self._offline = CPUSet()  # a boot brings every CPU online

    def assure(self) -> None:
        """Check that the node would restore itself if this run died now: what was just done to it
        may have ended its dead-man timer. Raises :class:`SubjectLostError`."""
        with lost(self.name):
            self._executor.assure()

    # ---- the round trip -------------------------------------------------------------------

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        """Carry an act out, wait for its goal, and observe: one round trip.

        Raises :class:`SubjectLostError` where the node could not be reached or the script failed.
        """
        mark = marker()
        script = look(
            self.places,
            mark,
            known=self._process,
            before=act.script,
            goal=act.waiting,
            spin=spin,
            ask=act.ask,
            log=2 if log else 1,
        )
        # Beyond what the script waits by itself, a slow node needs time for the observation.
        deadline = act.seconds + 120.0
        self.others.will(act.changes)
        for change in act.changes:
            if isinstance(change, WriteFile) and change.path == self.places.state_file:
                self._state_is_written = True
            if isinstance(change, WriteFile) and change.path.startswith(self.places.manifests):
                self._brought.add(change.path)
            if isinstance(change, SetOnline):
                one = CPUSet([change.cpu])
                self._offline = self._offline - one if change.online else self._offline | one
        began = time.monotonic()
        with lost(self.name), self.waiting.at_most(act.seconds):
            try:
                done = self._executor.act(
                    script, *act.changes, deadline=deadline, reads=not act.script.strip()
                )
            except NodeUnreachable as error:
                raise self._connection_error(error) from error
            seen = read_observation(done.text, mark)
            self._process = seen.process
            self.slowest = max(self.slowest, time.monotonic() - began)
            seen = replace(seen, pods=self.pod_source.listed(seen.pods))
        if seen.notes.get("failed"):
            raise SubjectLostError(f"{self.name}: {seen.notes['failed']}")
        if deed := self.others.deed(seen):
            raise SubjectLostError(f"{self.name}: {deed}", evidence=seen.log)
        return seen

    def texts(self, names: Iterable[str]) -> dict[str, str]:
        """The texts of the files of these names below the kubelet's root, those that are there;
        reads only. Raises :class:`SubjectLostError`."""
        with lost(self.name):
            return scripts.read_texts(self._ask(scripts.texts(self.places.root_dir, names)))

    def _connection_error(self, error: NodeUnreachable) -> NodeError:
        """Why the connection broke: a boot of the node is one reason."""
        before, patience = self.others.boot, self.patience.cut
        if not before or self._was_cut:
            return error
        self._was_cut = True
        return NodeError(BOOTED) if was_booted(before, self._ask, patience=patience) else error

    def _ask(self, script: str) -> str:
        return self._executor.act(script, deadline=self.patience.cut, reads=True).text


@contextlib.contextmanager
def lost(name: str) -> Iterator[None]:
    """An error of a node, or of its API server, ends the scenario without a verdict."""
    try:
        yield
    except NodeError as error:
        raise SubjectLostError(f"{name}: {error}", evidence=error.evidence) from error


def _why_not_fresh(seen: Observation) -> str:
    """``""`` where the kubelet is as a new one."""
    shared, entries = parse_leniently(seen.state_file)
    if not seen.service.running:
        return "its kubelet does not run"
    if seen.containers:
        return "pods of an earlier scenario are still there"
    if entries:
        held = CPUSet()
        for containers in entries.values():
            for cpus in containers.values():
                held |= cpus
        return f"pods of others hold exclusive CPUs ({held})"
    if seen.state_file is None or not shared:
        return "its kubelet has no state yet"
    return ""


def cpus_of(machine: Machine) -> CPUSet:
    """The CPUs that are online on a machine."""
    return CPUSet(info_of(machine.tree, release=NEWEST).cpu_topology().details)


def salt() -> str:
    """What makes uids of this scenario its own."""
    return uuid.uuid4().hex
