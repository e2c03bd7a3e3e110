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
        """Start this kubelet in place of the other, and apply one more pod. Returns the view after
        that."""
        before = view
        view = self._replaced(view, kubelet)
        assert self._leg is not None
        turn = Turn(self._kubelet, self._leg, ended(before, view))
        if self._plan.changes and not view.running:
            self._see(title, view)
            turn = replace(turn, refusal=view.error)
            view, title = self._recovered(view), "state file removed"
            elsewhere = moved(before, view) if view.running else ()
            turn = replace(turn, recovered=view.running and not view.hangs, moved=elsewhere)
        if self._plan.changes:
            self._turns.append(turn)
        if later and view.running and not view.hangs:
            view = self._take(Apply(later))
            self._note_files()
        self._see(title, view)
        if later and view.running and not runs(view, later.name) and later.name in self._pods:
            # At the next start it could get the CPUs of a running pod.
            view = self._take(Delete(later.name))
        return view

    def _recovered(self, refused: View) -> View:
        """Start the kubelet without its state file. If that does not help, put the file back."""
        booked = self._before
        self._forget()
        view = self._start()
        if not view.running and refused.state_file is not None:
            self._take(WriteState(refused.state_file))
            self._before = booked
        return view

    def _forget(self) -> None:
        """Remove the state file. Pods need not keep their CPUs after that."""
        self._before = None
        self._take(RemoveState())

    def _begin(self) -> View:
        """Start the old kubelet with its pods. Raises :class:`SubjectSetupError`."""
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
        """The differences between the plan's state file and the view after the first start."""
        text, release = self._plan.state, self._kubelet.release
        if text is None:
            return
        gates, policy = self._config.feature_gates, as_known(self._config, release).policy
        try:
            file = Checkpoint.loads(text, policy=policy, release=release, feature_gates=gates)
        except (CheckpointError, NotModelled):
            # The kubelet has started, so it reads the file in another way.
            yield Difference(what=STATE, expected="(no model reads it)", seen="(the kubelet runs)")
            return
        named = {pod.uid: pod.name for pod in self._plan.known}
        booked = {named.get(uid, uid): held for uid, held in file.entries.items()}
        sets = by_owner(booked), by_owner(view.assignments)
        yield from set_differences("exclusive CPUs", *sets)
        if file.default_cpuset != view.shared_pool and policy == "static":
            yield cpu_difference("shared pool", file.default_cpuset, view.shared_pool)

    def _replaced(self, view: View, kubelet: Subject) -> View:
        """Start this kubelet in place of the other."""
        drained = self._drained(view)
        if view.running:
            self._take(Stop(kill=self._plan.going is Going.KILL))
        back = self._leg is Leg.BACK
        if self._plan.reboots:
            other = self._plan.to_machine or self._machine
            self._machine = self._plan.machine if back else other
            self._take(Reboot(self._machine.name if self._plan.to_machine else ""))
            if self._before is not None:  # pods have to run again, on any CPUs
                self._before = replace(self._before, cpusets={}, asked={})
        self._hand_over(kubelet, back=back)
        if self._plan.emptied is self._leg:
            self._forget()
        self._renew_uids()
        if self._plan.killed and self._leg is Leg.THERE:
            self._kill_on_the_way(self._plan.killed, next(iter(self._plan.later), None))
        before, view = self._before, self._start()
        if before is not None and restarted(before, view):
            self._node.do(AwaitReconcile())  # then it has removed the ended containers
            view = self._before = self._node.settle(lambda view: True)
        for pod in drained if view.running and not view.hangs else ():
            view = self._take(Apply(self._with_its_uid(pod)))
        return view

    def _renew_uids(self) -> None:
        """Give static pods the uids of the next kubelet; the kubelet is down."""
        for pod in [pod for pod in self._pods.values() if self._with_its_uid(pod) != pod]:
            self._take(Delete(pod.name))
            self._take(Apply(self._with_its_uid(pod)))

    def _with_its_uid(self, pod: Pod) -> Pod:
        """The pod with its uid in the kubelet: that of a static pod may differ by release."""
        same = minor_of(self._old.info.release) == minor_of(self._new.info.release)
        if same or pod.name not in self._plan.renewed:
            return pod
        own = next(one for one in self._plan.known if one.name == pod.name)
        return own if self._leg is Leg.BACK else replace(own, uid=f"{own.uid}-renewed")

    def _hand_over(self, kubelet: Subject, *, back: bool) -> None:
        """Use this kubelet from the next start on. If the configuration changes, too, the two
        kubelets share one without gates and options for the moment."""
        if self._plan.to_config is not None:
            self._config = self._plan.config if back else self._plan.to_config
            self._take(Configure(replace(self._config, feature_gates={}, policy_options={})))
        assert isinstance(kubelet, TakesOver)
        kubelet.take_over(self._node)
        self._kubelet, self._takes_over = kubelet.info, kubelet
        self._model.hand_over(kubelet.info.release)
        self._comparison.begin(self._model)
        if self._plan.to_config is not None:  # faults of it show at the start
            self._node.do(Configure(self._config))
            self._model.after(Configure(self._config))

    def _kill_on_the_way(self, at: Killed, later: Pod | None) -> None:
        """Start the kubelet, apply one more pod, and let it be killed in that time; the pod is
        deleted before its next start. No model knows which files were written. A kubelet that makes
        fewer renames is stopped."""
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
        """The view when the kubelet has ended, or has admitted or rejected these pods."""

        def is_decided(view: View, name: str) -> bool:
            return name in view.pods and view.pods[name].phase is not Phase.PENDING

        return self._node.settle(
            lambda view: not view.running or all(is_decided(view, name) for name in pods)
        )

    def _drained(self, view: View) -> list[Pod]:
        """Delete the pods, if the plan says so; returns them in the order of their applying."""
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
        restarts = restarted(self._stages[-1].view, view) if self._stages else ()
        where = (self._machine, self._config, self._leg, self._files, restarts)
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
        """The view when the containers that the model restarts were restarted: they run until the
        kubelet syncs their pods."""
        before = self._before
        if before is None or expected is None or self._expected is None:
            return seen
        wanted = set(restarted(self._expected, expected))
        if wanted <= set(restarted(before, seen)):
            return seen
        ran = [pod for pod in seen.pods if runs(seen, pod)]
        return self._node.settle(
            lambda view: (
                wanted <= set(restarted(before, view)) and all(runs(view, pod) for pod in ran)
            )
        )

    def _judge(self, step: Step, expected: View | None, seen: View) -> None:
        situation, before = self._situation(), self._before
        broken = violations(seen, situation) + broken_in_step(before, step, seen, situation)
        if isinstance(step, Start) and before is not None:
            broken += started_again(before, seen)
        broken = [one for one in broken if promise_of(one.rule).is_made_for(self._kubelet.release)]
        if self._plan.changes and isinstance(step, Start):  # the turn names ended pods
            broken = [one for one in broken if one.rule not in GOING_ON]
        new = broken if isinstance(step, Start) else [x for x in broken if x not in self._last]
        self._last = broken
        new = [one for one in new if one.rule not in self._broken_before]
        differing = [] if expected is None else differences(expected, seen, self._can)
        unlike = self._model.unlike(step, differing, self._kubelet)
        wrong = list(_by_rule(new)) or unlike
        if self._leg is not None:
            where = (step.sentence, self._kubelet, self._leg)
            self._broken += [Broken(*where, *one) for one in wrong]
            return
        self._broken_before |= {one.rule for one in new}
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
    """Each broken promise once: its sentence, its source, and all differences."""
    by_rule: dict[str, list[Difference]] = {}
    for one in found:
        rows = by_rule.setdefault(one.rule, [])
        if one.difference not in rows:
            rows.append(one.difference)
    for rule, rows in by_rule.items():
        yield rule, promise_of(rule).source.url, tuple(rows)
