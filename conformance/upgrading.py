"""An upgrade of the kubelet on one node, the way back, and the upgrade once more, rehearsed.

What belongs here: the steps of a rehearsal, and what may not break in them. What never does: how
one kubelet takes over from another (:class:`conformance.subject.TakesOver`), and how the outcome
is shown.

How it works: the old kubelet starts and is given pods. It is stopped, and the new one starts on the
same root: state file, manifests and running containers stay. The new one is given a pod more, so
that it writes its own form of the state file. Then it is stopped, the old one starts again and is
given a pod more, and so is the new one. After every step from the new kubelet's start on, the node
is judged by :mod:`conformance.promises`, and by the models of the two releases as long as they can
tell. What was broken before the upgrade is no fault of it.

Where a kubelet does not start over the file, the rehearsal is done once more without the file at
that moment, as the kubelet's own error asks for: does it start then, and who holds other CPUs?

The new kubelet may have another machine or another configuration; then the way back is the end. A
kubelet that does not start
then over the state file that it finds is started once more without that file, as its own error
asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeAlias

import topologies
from conformance.accounts import as_expected
from conformance.checks import (
    by_owner,
    cpu_difference,
    differences,
    each,
    kubelet_text,
    pod_state_text,
    set_differences,
)
from conformance.discovered import architecture_of, topology_of
from conformance.kept_files import MEMORY, STATE
from conformance.lockstep import CouldNotTell
from conformance.lockstep.comparison import Comparison
from conformance.lockstep.steps import salted
from conformance.oracle import ModelOracle
from conformance.promises import Situation, Violation, broken_in_step, promise_of, violations
from conformance.promises.histories import GOES_ON, GOING_ON
from conformance.results import Difference
from conformance.subject import (
    Capability,
    HasSalt,
    NamesKilledRename,
    Subject,
    SubjectInfo,
    SubjectLostError,
    SubjectSetupError,
    SubjectUsageError,
    TakesFiles,
    TakesOver,
)
from conformance.waiting import Waiting
from reference import Checkpoint, CheckpointError, CPUSet, NotModelled
from reference.kubelet.configuration import as_known
from reference.releases import minor_of
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Delete,
    KillAtRename,
    KubeletConfig,
    Pod,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    WriteState,
)
from reference.view import Phase, View
from topologies import Machine

#: The promises alone judge.
NO_MODEL: Final = "the promises alone"
#: A rule that was broken, who says so, and where it shows.
_Found: TypeAlias = tuple[str, str, tuple[Difference, ...]]


class Leg(Enum):
    """A part of the way, in words that can be the subject of a sentence."""

    THERE = "the upgrade"
    BACK = "the way back"
    AGAIN = "the second upgrade"

    def __str__(self) -> str:
        return self.value


class Going(Enum):
    """How a kubelet goes, before another one starts: it is stopped, it is killed (SIGKILL), the
    machine boots again, so that no container goes on, or every pod is deleted first and comes again
    afterwards."""

    STOP = "stop"
    KILL = "kill"
    REBOOT = "reboot"
    DRAIN = "drain"


class Killed(NamedTuple):
    """A kubelet is killed at the ``number``-th rename of a file of its own: just before it, or just
    ``after`` it."""

    number: int
    after: bool

    def __str__(self) -> str:
        """As ``before rename 2``."""
        return f"{'after' if self.after else 'before'} rename {self.number}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is rehearsed: a machine, a configuration, ``pods`` that the old kubelet is given, and
    those of ``later``, of which each further kubelet is given the next, as far as there is one.
    ``gone`` are those that are deleted before the upgrade. ``state``: the text of a state file over
    which the old kubelet starts first (``None``: none); ``known`` are the pods that run by then,
    and ``files`` what the other managers keep beside it (:data:`conformance.kept_files.FILES`).
    ``renewed`` are those of ``known`` that are static pods without a uid in their manifest: a
    kubelet of another release gives them another one.
    ``going``: how each kubelet goes. ``killed``: where the new kubelet is killed as it starts for
    the first time and is given a pod more; it is started again then. ``emptied``: on which leg the
    state file is removed before the kubelet starts. ``to_machine`` and ``to_config``: what the new
    kubelet has instead (``None``: the same)."""

    machine: Machine
    config: KubeletConfig
    pods: Sequence[Pod]
    later: Sequence[Pod]
    gone: Sequence[str] = ()
    state: str | None = None
    known: Sequence[Pod] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    renewed: Sequence[str] = ()
    going: Going = Going.STOP
    killed: Killed | None = None
    emptied: Leg | None = None
    to_machine: Machine | None = None
    to_config: KubeletConfig | None = None

    def __post_init__(self) -> None:
        """A node knows a machine by its name. Raises :class:`SubjectUsageError` where two machines
        have the same."""
        other = self.to_machine
        if other and other.name == self.machine.name and other.digest != self.machine.digest:
            raise SubjectUsageError(f"both machines are called {other.name}: rename one of them")

    @property
    def changes(self) -> bool:
        """Whether the new kubelet has another machine or another configuration."""
        return self.to_machine is not None or self.to_config is not None

    @property
    def reboots(self) -> bool:
        """Whether the machine boots again before another kubelet starts."""
        return self.going is Going.REBOOT or self.to_machine is not None

    @property
    def stays_up(self) -> bool:
        """Whether containers may go on all the way."""
        return not self.reboots and self.going is not Going.DRAIN

    def named(self, name: str) -> Machine:
        """The machine of this name: one of the plan's own, which may be a file's, or any other."""
        own = (one for one in (self.machine, self.to_machine) if one and one.name == name)
        return next(own, None) or topologies.machine(name)

    @property
    def every_pod(self) -> tuple[Pod, ...]:
        """Those that stay, in the order in which they come."""
        return (*self.known, *(one for one in self.pods if one.name not in self.gone), *self.later)


@dataclass(frozen=True, slots=True)
class Kept:
    """The texts of a file that kubelets keep for one another: as it was ``found`` by the kubelet of
    a stage, once that had ``started``, and as it was ``left``; ``None`` where it was not there."""

    found: str | None = None
    started: str | None = None
    left: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The node at a moment that a user would look at it: a kubelet runs, and was given its pods, or
    it gave up. ``leg``: ``None`` before the upgrade. ``files``: by name
    (:data:`conformance.kept_files.FILES`). ``restarted``: the containers (pod and container) of the
    stage before that were ended and started again."""

    title: str
    kubelet: SubjectInfo
    view: View
    machine: Machine
    config: KubeletConfig
    leg: Leg | None = None
    files: Mapping[str, Kept] = field(default_factory=dict)
    restarted: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """What became of the pods where a kubelet started on another machine, or with another
    configuration, than the one before it, or where it did not start. ``ended``: the pods that held
    CPUs and do not run any more, each with the kubelet's reason (``""``: the kubelet does not run).
    ``refusal``: why the kubelet did not start over the state file (``""``: it did); ``recovered``:
    whether it started once that file was removed, and ``moved``: pods that hold other CPUs then."""

    kubelet: SubjectInfo
    leg: Leg
    ended: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ""
    recovered: bool = False
    moved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """What was broken after a step, with which ``kubelet``, on which ``leg``. ``witness``: who says
    so, a page or a model."""

    step: str
    kubelet: SubjectInfo
    leg: Leg
    rule: str
    witness: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What came of a rehearsal. ``notes``: what a person should know of it. ``turns``: one for each
    leg where the machine or the configuration changes; else one where a kubelet did not start.
    ``killed``: the file at whose rename the new kubelet was killed (``""``: it was not).
    ``broken_before``: the rules that the old kubelet breaks by itself. ``unlike_file``: in what the
    node differs from the plan's state file, which is expected, once the old kubelet has started.
    ``silent``: why the models did not judge to the end (``""``: they did). ``drained``: on which
    legs something is broken although every pod is deleted before a kubelet goes (``None``: that was
    not rehearsed)."""

    stages: tuple[Stage, ...]
    broken: tuple[Broken, ...]
    notes: tuple[str, ...]
    turns: tuple[Turn, ...] = ()
    killed: str = ""
    broken_before: frozenset[str] = frozenset()
    unlike_file: tuple[Difference, ...] = ()
    silent: str = ""
    drained: tuple[Leg, ...] | None = None

    @property
    def broken_legs(self) -> tuple[Leg, ...]:
        """On which legs a promise is broken."""
        return tuple(leg for leg in Leg if any(one.leg is leg for one in self.broken))

    @property
    def harmed_legs(self) -> tuple[Leg, ...]:
        """On which legs a promise is broken, or pods that held CPUs would be ended."""
        ended = [one.leg for one in self.turns if one.ended]
        return tuple(leg for leg in Leg if leg in (*self.broken_legs, *ended))

    @property
    def unrehearsed(self) -> tuple[str, ...]:
        """The pods that did not run before the upgrade, of which nothing can be said."""
        first = self.stages[0].view
        return tuple(name for name in first.pods if not _runs(first, name))

    @property
    def pinned(self) -> int:
        """How many containers ran on exclusive CPUs before the upgrade."""
        return sum(1 for _, _, cpus in each(self.stages[0].view.assignments) if cpus)


def rehearse(
    old: Subject, new: Subject, plan: Plan, *, say: Callable[[str], None] = lambda stage: None
) -> Rehearsed:
    """Upgrade a node from ``old`` to ``new``, take it back, and upgrade it again. ``say`` gets how
    far it is.

    Raises :class:`SubjectUsageError` where the new one cannot go on on a node of the old one,
    :class:`SubjectSetupError` where the old one does not start, and :class:`SubjectLostError`.
    """
    for one in (old, new):
        if not isinstance(one, TakesOver):
            raise SubjectUsageError(f"{one.info.name} cannot take over from another kubelet")
    found = _rehearsed(old, new, plan, say)
    refused = next((one for one in found.stages if one.leg and one.view.error), None)
    if refused is None or refused.leg is None or plan.changes:
        return found
    leg = refused.leg
    try:
        again = _rehearsed(old, new, replace(plan, emptied=leg, killed=None), say)
    except SubjectLostError:  # what was found stays
        return found
    before, after = _around(again, leg)
    moved = _moved(before, after) if after.running else ()
    turn = Turn(refused.kubelet, leg, {}, refused.view.error, after.running, moved)
    return replace(found, turns=(turn,))


def with_drained(
    found: Rehearsed,
    old: Subject,
    new: Subject,
    plan: Plan,
    *,
    say: Callable[[str], None] = lambda stage: None,
) -> Rehearsed:
    """The same, and whether it helps to delete every pod first, where something is broken while
    pods run. Raises what :func:`rehearse` raises."""
    if not found.harmed_legs or not plan.stays_up:
        return found
    again = _rehearsed(old, new, replace(plan, going=Going.DRAIN, killed=None), say)
    return replace(found, drained=again.harmed_legs)


def _rehearsed(old: Subject, new: Subject, plan: Plan, say: Callable[[str], None]) -> Rehearsed:
    if isinstance(old, HasSalt):
        salt = old.salt()
        pods, later = ([salted(one, salt) for one in each] for each in (plan.pods, plan.later))
        plan = replace(plan, pods=pods, later=later)
    rehearsal = _Rehearsal(old, new, plan, say)
    try:
        return rehearsal.run()
    except CouldNotTell as error:
        raise SubjectLostError(str(error), evidence=error.evidence) from error
    finally:
        rehearsal.close()


def _around(found: Rehearsed, leg: Leg) -> tuple[View, View]:
    """The node before a leg, and at its end."""
    at = next(number for number, one in enumerate(found.stages) if one.leg is leg)
    return found.stages[at - 1].view, found.stages[at].view


def rehearse_killed(
    old: Subject, new: Subject, plan: Plan, *, say: Callable[[str], None] = lambda stage: None
) -> Iterator[tuple[str, Rehearsed]]:
    """The same, with the new kubelet killed at each rename that it makes as it starts and is given
    a pod more: where that was, with the file, and what came of it. Raises what :func:`rehearse`
    raises, and :class:`SubjectUsageError` where a kubelet cannot be killed there."""
    for killed in (Killed(number, after) for number in count(1) for after in (False, True)):
        say(f"{new.info.name} is killed {killed}")
        found = rehearse(old, new, replace(plan, killed=killed), say=say)
        if not found.killed:
            return
        yield f"{killed} ({found.killed})", found


class _Rehearsal:
    """A node, the model beside it, and what was seen so far."""

    def __init__(self, old: Subject, new: Subject, plan: Plan, say: Callable[[str], None]) -> None:
        assert isinstance(old, TakesOver)
        self._old, self._new = old, new
        self._plan = plan
        self._say = say
        self._kubelet = old.info
        self._takes_over: TakesOver = old
        self._leg: Leg | None = None
        self._files: dict[str, Kept] = {}
        self._killed_at = ""
        self._node = old.node(plan.machine, plan.config, machines=plan.named)
        self._can = old.capabilities & new.capabilities
        self._pods: dict[str, Pod] = {}
        self._before: View | None = None
        self._expected: View | None = None
        self._broken_before: set[str] = set()
        self._unlike_file: tuple[Difference, ...] = ()
        self._last: list[Violation] = []
        self._stages: list[Stage] = []
        self._broken: list[Broken] = []
        self._notes: list[str] = []
        self._turns: list[Turn] = []
        self._machine, self._config = plan.machine, plan.config
        self._model = _Model(plan, old.info)
        self._comparison = Comparison(self._can, Waiting(), self._situation)
        self._comparison.begin(self._model)

    def close(self) -> None:
        self._node.close()

    def run(self) -> Rehearsed:
        first, after = _version(self._old), _version(self._new)
        after += ", changed" if self._plan.changes else ""
        view = self._begin()
        self._files = {name: Kept(left=text) for name, text in self._texts().items()}
        self._see(first, view)
        later = iter(self._plan.later)
        legs = [
            (Leg.THERE, self._new, after),
            (Leg.BACK, self._old, f"back at {first}"),
            (Leg.AGAIN, self._new, f"{after} again"),
        ]
        for leg, kubelet, title in legs[:2] if self._plan.changes else legs:
            self._leg = leg
            view = self._turned(view, kubelet, title, next(later, None))
        notes = [*self._notes, *self._model.notes]
        found = (tuple(self._stages), tuple(self._broken), tuple(notes), tuple(self._turns))
        before = frozenset(self._broken_before)
        unlike, silent = self._unlike_file, self._model.silent
        return Rehearsed(*found, self._killed_at, before, unlike, silent)

    def _turned(self, view: View, kubelet: Subject, title: str, later: Pod | None) -> View:
        """The node once this kubelet runs in place of the other, if it can, and has been given one
        pod more."""
        before = view
        view = self._replaced(view, kubelet)
        turn = Turn(self._kubelet, self._leg_taken, _ended(before, view))
        if self._plan.changes and not view.running:
            self._see(title, view)
            turn = replace(turn, refusal=view.error)
            view, title = self._recovered(view), "state file removed"
            moved = _moved(before, view) if view.running else ()
            turn = replace(turn, recovered=view.running and not view.hangs, moved=moved)
        if self._plan.changes:
            self._turns.append(turn)
        if later and view.running and not view.hangs:
            view = self._given(later)
        self._see(title, view)
        if later and view.running and not _runs(view, later.name) and later.name in self._pods:
            # At the next start it could take the CPUs of a pod that runs.
            view = self._take(Delete(later.name))
        return view

    def _given(self, later: Pod) -> View:
        view = self._take(Apply(later))
        self._note_files()
        return view

    @property
    def _leg_taken(self) -> Leg:
        assert self._leg is not None
        return self._leg

    def _recovered(self, refused: View) -> View:
        """The node once the kubelet has been started without its state file. Where that is no help,
        the file is put back."""
        booked = self._before
        self._forget()
        view = self._start()
        if not view.running and refused.state_file is not None:
            self._take(WriteState(refused.state_file))
            self._before = booked
        return view

    def _forget(self) -> None:
        """Remove the state file. What was booked is no promise any more."""
        self._before = None
        self._take(RemoveState())

    def _begin(self) -> View:
        """The node with the old kubelet and its pods. Raises :class:`SubjectSetupError`."""
        before: list[Step] = [] if self._plan.state is None else [WriteState(self._plan.state)]
        before += map(Apply, self._plan.known)
        for step in before:
            self._take(step)
        if isinstance(self._old, TakesFiles):
            self._old.keep_files(self._node, self._plan.files)
        if MEMORY in self._plan.files and self._config.memory_manager_policy != "None":
            self._model.silence(f"no model starts over {MEMORY}")
        view = self._start()
        if not view.running or view.hangs:
            raise SubjectSetupError(
                f"{self._kubelet.name} has to run before it can be upgraded: it "
                f"{view.hangs or kubelet_text(view)}",
                evidence=self._node.evidence(),
            )
        self._unlike_file = tuple(self._differences_from_file(view))
        for pod in self._plan.pods:
            view = self._take(Apply(pod))
        for gone in self._plan.gone:
            view = self._take(Delete(gone))
        return view

    def _differences_from_file(self, view: View) -> Iterator[Difference]:
        """In what a node whose kubelet has just started differs from the plan's state file."""
        text, release = self._plan.state, self._kubelet.release
        if text is None:
            return
        gates, policy = self._config.feature_gates, as_known(self._config, release).policy
        try:
            file = Checkpoint.loads(text, policy=policy, release=release, feature_gates=gates)
        except (CheckpointError, NotModelled):
            # A kubelet that starts all the same reads it in another way.
            yield Difference(what=STATE, expected="(no model reads it)", seen="(the kubelet runs)")
            return
        named = {pod.uid: pod.name for pod in self._plan.known}
        booked = {named.get(uid, uid): held for uid, held in file.entries.items()}
        sets = by_owner(booked), by_owner(view.assignments)
        yield from set_differences("exclusive CPUs", *sets)
        if file.default_cpuset != view.shared_pool and policy == "static":
            yield cpu_difference("shared pool", file.default_cpuset, view.shared_pool)

    def _replaced(self, view: View, kubelet: Subject) -> View:
        """The node once this kubelet has been started in place of the other."""
        drained = self._drained(view)
        if view.running:
            self._take(Stop(kill=self._plan.going is Going.KILL))
        back = self._leg is Leg.BACK
        if self._plan.reboots:
            other = self._plan.to_machine or self._machine
            self._machine = self._plan.machine if back else other
            self._take(Reboot(self._machine.name if self._plan.to_machine else ""))
            if self._before is not None:  # pods are to run again, on whichever CPUs
                self._before = replace(self._before, cpusets={}, asked={})
        self._hand_over(kubelet, back=back)
        if self._plan.emptied is self._leg:
            self._forget()
        self._renew_uids()
        if self._plan.killed and self._leg is Leg.THERE:
            self._kill_on_the_way(self._plan.killed, next(iter(self._plan.later), None))
        before, view = self._before, self._start()
        if before is not None and _restarted(before, view):
            self._node.do(AwaitReconcile())  # it has forgotten the containers that are gone by then
            view = self._before = self._node.settle(lambda view: True)
        for pod in drained if view.running and not view.hangs else ():
            view = self._take(Apply(self._with_its_uid(pod)))
        return view

    def _renew_uids(self) -> None:
        """Give static pods the uids that the kubelet, which is down, has for them."""
        for pod in [pod for pod in self._pods.values() if self._with_its_uid(pod) != pod]:
            self._take(Delete(pod.name))
            self._take(Apply(self._with_its_uid(pod)))

    def _with_its_uid(self, pod: Pod) -> Pod:
        """A pod as the kubelet knows it: a static one may have another uid for each release."""
        same = minor_of(self._old.info.release) == minor_of(self._new.info.release)
        if same or pod.name not in self._plan.renewed:
            return pod
        own = next(one for one in self._plan.known if one.name == pod.name)
        return own if self._leg is Leg.BACK else replace(own, uid=f"{own.uid}-renewed")

    def _hand_over(self, kubelet: Subject, *, back: bool) -> None:
        """The next kubelet to start is this one. Where the configuration changes as well, it is one
        that both know meanwhile."""
        if self._plan.to_config is not None:
            self._config = self._plan.config if back else self._plan.to_config
            self._take(Configure(replace(self._config, feature_gates={}, policy_options={})))
        assert isinstance(kubelet, TakesOver)
        kubelet.take_over(self._node)
        self._kubelet, self._takes_over = kubelet.info, kubelet
        self._model.hand_over(kubelet.info.release)
        self._comparison.begin(self._model)
        if self._plan.to_config is not None:  # what is wrong by now shows when it starts
            self._node.do(Configure(self._config))
            self._model.after(Configure(self._config))

    def _kill_on_the_way(self, at: Killed, later: Pod | None) -> None:
        """Let the kubelet start, be given one pod more and be killed meanwhile; the pod is gone by
        its next start. No model knows what was written by then. A kubelet that makes fewer renames
        is stopped."""
        node, can = self._node, Capability.RENAMES
        if can not in self._can or not isinstance(node, NamesKilledRename):
            raise SubjectUsageError(f"{self._kubelet.name} cannot {can.value}")
        running = [name for name in self._pods if self._before and _runs(self._before, name)]
        node.do(KillAtRename(at.number, at.after, any_file=True))
        node.do(Start())
        seen = self._settled(running)
        if seen.running and later:
            node.do(Apply(later))
            seen = self._settled([*running, later.name])
            node.do(Delete(later.name))
        if seen.running:
            node.do(Stop())
        else:
            self._killed_at = PurePosixPath(node.killed_at_rename).name
            self._model.silence(f"{self._kubelet.name} was killed before it was done")

    def _settled(self, pods: Sequence[str]) -> View:
        """Once the kubelet has ended, or has decided about these pods."""

        def is_decided(view: View, name: str) -> bool:
            return name in view.pods and view.pods[name].phase is not Phase.PENDING

        return self._node.settle(
            lambda view: not view.running or all(is_decided(view, name) for name in pods)
        )

    def _drained(self, view: View) -> list[Pod]:
        """The pods that are deleted before the kubelet goes, in the order in which they came."""
        is_drained = self._plan.going is Going.DRAIN and view.running and not view.hangs
        pods = list(self._pods.values()) if is_drained else []
        for pod in pods:
            self._take(Delete(pod.name))
        return pods

    def _start(self) -> View:
        self._say(f"{self._kubelet.name} starts")
        found = self._texts()
        view = self._take(Start())
        started = self._texts()
        self._files = {
            name: Kept(found.get(name), started.get(name), started.get(name))
            for name in {**found, **started}
        }
        return view

    def _note_files(self) -> None:
        left = self._texts()
        self._files = {
            name: replace(self._files.get(name, Kept()), left=left.get(name))
            for name in {**self._files, **left}
        }

    def _texts(self) -> dict[str, str]:
        return self._takes_over.kept_files(self._node)

    def _see(self, title: str, view: View) -> None:
        restarted = _restarted(self._stages[-1].view, view) if self._stages else ()
        where = (self._machine, self._config, self._leg, self._files, restarted)
        self._stages.append(Stage(title, self._kubelet, view, *where))

    def _take(self, step: Step) -> View:
        if isinstance(step, Apply):
            self._pods[step.pod.name] = step.pod
        elif isinstance(step, Delete):
            del self._pods[step.pod]
        expected, seen = self._comparison.walk(self._node, step)
        if isinstance(step, Start):
            seen = self._with_restarted(expected, seen)
        self._expected = expected
        self._judge(step, expected, seen)
        self._before = seen if seen.running else self._before
        return seen

    def _with_restarted(self, expected: View | None, seen: View) -> View:
        """The node once the containers are started again that are by the model: they run until the
        kubelet comes to them."""
        before = self._before
        if before is None or expected is None or self._expected is None:
            return seen
        again = set(_restarted(self._expected, expected))
        if again <= set(_restarted(before, seen)):
            return seen
        ran = [pod for pod in seen.pods if _runs(seen, pod)]
        return self._node.settle(
            lambda view: (
                again <= set(_restarted(before, view)) and all(_runs(view, pod) for pod in ran)
            )
        )

    def _judge(self, step: Step, expected: View | None, seen: View) -> None:
        situation, before = self._situation(), self._before
        found = violations(seen, situation) + broken_in_step(before, step, seen, situation)
        if isinstance(step, Start) and before is not None:
            found += _started_again(before, seen)
        found = [one for one in found if promise_of(one.rule).is_made_for(self._kubelet.release)]
        if self._plan.changes and isinstance(step, Start):  # whom that ends is told by the turn
            found = [one for one in found if one.rule not in GOING_ON]
        fresh = found if isinstance(step, Start) else [x for x in found if x not in self._last]
        self._last = found
        fresh = [one for one in fresh if one.rule not in self._broken_before]
        differing = [] if expected is None else differences(expected, seen, self._can)
        unlike = self._model.unlike(step, differing, self._kubelet)
        wrong = list(_by_rule(fresh)) or unlike
        if self._leg is not None:
            where = (step.sentence, self._kubelet, self._leg)
            self._broken += [Broken(*where, *one) for one in wrong]
            return
        self._broken_before |= {one.rule for one in fresh}
        self._notes += [f"broken before the upgrade as well: {rule}" for rule, _, _ in wrong]

    def _situation(self) -> Situation:
        topology = topology_of(
            self._machine,
            release=self._kubelet.release,
            architecture=architecture_of(self._kubelet),
        )
        return Situation(
            config=self._config,
            pods=self._pods,
            cpus=topology.cpus,
            reserved=self._config.reserved_system_cpus,
            can=self._can,
            release=self._kubelet.release,
            topology=topology,
        )


class _Model:
    """The model of the kubelet that is on the node, as long as it can tell
    (:class:`conformance.oracle.Oracle`). ``notes`` say why it cannot any more, as does
    ``silent``."""

    def __init__(self, plan: Plan, info: SubjectInfo) -> None:
        self.notes: list[str] = []
        self.silent = ""
        self.name = f"the model of {info.release}"
        self._oracle: ModelOracle | None = None
        try:
            self._oracle = ModelOracle(
                plan.machine,
                plan.config,
                machines=plan.named,
                release=info.release,
                architecture=architecture_of(info),
            )
        except NotModelled as error:
            self.silence(str(error))

    def silence(self, why: str) -> None:
        """From now on it does not know."""
        if self._oracle is not None or not self.notes:
            self.notes.append(f"from here on {NO_MODEL} judge: {why}")
            self.silent = self.silent or why
        self._oracle = None

    def unlike(
        self, step: Step, differing: Sequence[Difference], kubelet: SubjectInfo
    ) -> list[_Found]:
        """What differs after a step, as it is told. A node that differs from the model is not
        compared with it any more."""
        if not differing:
            return []
        self.silence(f"{kubelet.name} differs from {self.name}")
        return [(as_expected(step.sentence, self.name), self.name, tuple(differing))]

    def hand_over(self, release: str) -> None:
        self.name = f"the model of {release}"
        if self._oracle is not None:
            try:
                self._oracle.hand_over(release)
            except NotModelled as error:
                self.silence(str(error))

    def after(self, step: Step) -> View | None:
        if self._oracle is None:
            return None
        try:
            return self._oracle.after(step)
        except NotModelled as error:
            self.silence(str(error))
            return None

    @property
    def outcomes(self) -> int:
        return 1 if self._oracle is None else self._oracle.outcomes

    def follow(self, seen: View, *, late: bool) -> View | None:
        return None if self._oracle is None else self._oracle.follow(seen, late=late)


def _version(subject: Subject) -> str:
    return subject.info.version or subject.info.release


def _holding(view: View) -> dict[str, dict[str, CPUSet]]:
    """The pods that run and hold CPUs."""
    return {
        pod: dict(held)
        for pod, held in view.assignments.items()
        if any(held.values()) and _runs(view, pod)
    }


def _runs(view: View, pod: str) -> bool:
    return pod in view.pods and view.pods[pod].phase is Phase.RUNNING


def _ended(before: View, after: View) -> dict[str, str]:
    if not after.running or after.hangs:
        return dict.fromkeys(_holding(before), "")
    gone = (pod for pod in _holding(before) if not _runs(after, pod))
    return {pod: pod_state_text(after.pods.get(pod)) for pod in gone}


def _moved(before: View, after: View) -> tuple[str, ...]:
    now = _holding(after)
    return tuple(pod for pod, held in _holding(before).items() if now.get(pod, held) != held)


def _started_again(before: View, after: View) -> Iterator[Violation]:
    """Containers that did not go on, though others have taken their places."""
    for pod, container in _restarted(before, after):
        what, seen = f"container {pod}/{container}", "was ended, and started again"
        yield Violation.of(GOES_ON, what, "goes on running", seen)


def _restarted(before: View, after: View) -> tuple[tuple[str, str], ...]:
    """The containers of both that are not the same any more."""
    return tuple(
        (pod, container)
        for pod, container, asked in each(before.asked)
        if (now := after.asked.get(pod, {}).get(container)) is not None and now.id != asked.id
    )


def _by_rule(found: Iterable[Violation]) -> Iterator[_Found]:
    """Each broken promise once: its sentence, where it is made, and all differences."""
    by_rule: dict[str, list[Difference]] = {}
    for one in found:
        rows = by_rule.setdefault(one.rule, [])
        if one.difference not in rows:
            rows.append(one.difference)
    for rule, rows in by_rule.items():
        yield rule, promise_of(rule).source.url, tuple(rows)
