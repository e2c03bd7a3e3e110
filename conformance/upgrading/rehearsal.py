"""The steps of a rehearsal, each judged by the promises and by the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from conformance.checks import by_owner, cpu_difference, differences, kubelet_text, set_differences
from conformance.discovered import architecture_of, topology_of
from conformance.kept_files import MEMORY, STATE
from conformance.lockstep.comparison import Comparison
from conformance.promises import Situation, Violation, broken_in_step, promise_of, violations
from conformance.promises.histories import GOING_ON
from conformance.results import Difference
from conformance.subject import (
    Capability,
    NamesKilledRename,
    Subject,
    SubjectSetupError,
    SubjectUsageError,
    TakesFiles,
    TakesOver,
)
from conformance.upgrading.model import Found, Model
from conformance.upgrading.outcome import Broken, Kept, Rehearsed, Stage, Turn
from conformance.upgrading.plan import Going, Killed, Leg, Plan
from conformance.upgrading.pods import ended, moved, restarted, runs, started_again
from conformance.waiting import Waiting
from reference import Checkpoint, CheckpointError, NotModelled
from reference.kubelet.configuration import as_known
from reference.releases import minor_of
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Delete,
    KillAtRename,
    Pod,
    Reboot,
    RemoveState,
    Start,
    Step,
    Stop,
    WriteState,
)
from reference.view import Phase, View


class Rehearsal:
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
        self._model = Model(plan, old.info)
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
        turn = Turn(self._kubelet, self._leg_taken, ended(before, view))
        if self._plan.changes and not view.running:
            self._see(title, view)
            turn = replace(turn, refusal=view.error)
            view, title = self._recovered(view), "state file removed"
            elsewhere = moved(before, view) if view.running else ()
            turn = replace(turn, recovered=view.running and not view.hangs, moved=elsewhere)
        if self._plan.changes:
            self._turns.append(turn)
        if later and view.running and not view.hangs:
            view = self._given(later)
        self._see(title, view)
        if later and view.running and not runs(view, later.name) and later.name in self._pods:
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
        if before is not None and restarted(before, view):
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
        running = [name for name in self._pods if self._before and runs(self._before, name)]
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
        again = restarted(self._stages[-1].view, view) if self._stages else ()
        where = (self._machine, self._config, self._leg, self._files, again)
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
        again = set(restarted(self._expected, expected))
        if again <= set(restarted(before, seen)):
            return seen
        ran = [pod for pod in seen.pods if runs(seen, pod)]
        return self._node.settle(
            lambda view: (
                again <= set(restarted(before, view)) and all(runs(view, pod) for pod in ran)
            )
        )

    def _judge(self, step: Step, expected: View | None, seen: View) -> None:
        situation, before = self._situation(), self._before
        found = violations(seen, situation) + broken_in_step(before, step, seen, situation)
        if isinstance(step, Start) and before is not None:
            found += started_again(before, seen)
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


def _version(subject: Subject) -> str:
    return subject.info.version or subject.info.release


def _by_rule(found: Iterable[Violation]) -> Iterator[Found]:
    """Each broken promise once: its sentence, where it is made, and all differences."""
    by_rule: dict[str, list[Difference]] = {}
    for one in found:
        rows = by_rule.setdefault(one.rule, [])
        if one.difference not in rows:
            rows.append(one.difference)
    for rule, rows in by_rule.items():
        yield rule, promise_of(rule).source.url, tuple(rows)
