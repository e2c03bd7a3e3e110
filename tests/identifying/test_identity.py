"""What a binary is: found on models that lie about themselves, and on real kubelets."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import pytest
from typer.testing import CliRunner

import topologies
from conformance import processes
from conformance.identifying import identify as asking
from conformance.identifying import telling
from conformance.identifying.history import History, from_plain, to_plain
from conformance.identifying.identify import _Job
from conformance.identifying.identity import Identity, chosen, stated
from conformance.identifying.telling import KEPT, SEARCHED, kept, read, switched, written
from conformance.identifying.walking import tells, unlike, views, walker
from conformance.identifying.watching import Watched, watch
from conformance.identifying.witnesses import witnesses
from conformance.kubelets import cached
from conformance.lockstep.steps import Question
from conformance.pods import best_effort, exclusive, guaranteed_of
from conformance.processes import Processes
from conformance.subject import (
    OF_WHOLE_KUBELETS,
    Capability,
    Subject,
    SubjectError,
    SubjectInfo,
    SubjectLostError,
    judging_release,
)
from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ModelNode, right_node
from differential.telling.asked_behaviours import asking as asking_for
from differential.telling.page import PAGE, with_list
from differential.telling.search import few
from differential.telling.seeds import of_explore
from differential.telling.shrinking import shrunk
from pinproof.cli import app
from pinproof.identify import lines
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.cpumanager.metrics import ADMISSION_MS
from reference.releases import ANNOUNCED
from reference.steps import (
    PRODUCTION_PERIOD,
    Apply,
    AwaitReconcile,
    Container,
    Delete,
    Kind,
    KubeletConfig,
    Pod,
    Start,
    Step,
    Stop,
    Tamper,
)
from tests.cli.running import here
from tests.conformance.doctored import Change, Doctored, ShownAs
from tests.support import lacking
from topologies import Machine

#: Behaviours of each area that a release may lack or have; all of them are told in 1.36, and the
#: last one in 1.32 too.
SWITCHED: Final = (
    "cfs-period-gated",
    "distribution-ends",
    "init-containers-decide-qos",
    "numbers-in-refusal",
    "pod-resources-get",
    "shared-cpus-stay-taken",
    "strict-reservation-stable",
    "uncore-rounded-up",
    "held-cpus-kept-first",
    "topology-refusal-one-word",
    "rejection-text-was-rejected",
    "updated-on-change",
    "no-quota-on-exclusive-cpus",
)


def _quiet(text: str) -> None:
    """Nobody listens."""


def _identity(subject: Subject) -> Identity:
    """However busy the host is."""
    return asking.identify(subject.info.name, subject, seconds=3_600.0, say=_quiet)


class Liar(Doctored):
    """A model of one release that says that it is another; its nodes may be changed."""

    def __init__(
        self, is_: str = "1.36", says: str = "1.36", change: Change = lambda node, *_: node
    ) -> None:
        super().__init__(change, release=is_)
        self._make = lambda trees, machine, config, _: right_node(trees, machine, config, is_)
        self.info = SubjectInfo(name="liar", release=says, version=f"v{says}.0")


# -- histories -----------------------------------------------------------------------------------


@pytest.mark.parametrize("release", SEARCHED)
def test_each_history_tells(release: str) -> None:
    """Every behaviour that is said to be told in a release, by the shortest of its histories."""
    shortest: dict[str, History] = {}
    for one in kept():
        for name in one.tells.get(release, ()):
            shortest.setdefault(name, one.history)
    assert len(shortest) > 30
    wrong = [
        name
        for name, history in shortest.items()
        if not tells(history, release, switched(release, Behaviour.named(name)))
    ]
    assert not wrong


def test_histories_are_short() -> None:
    """None has more steps than it needs: all were made smaller."""
    steps = [len(one.history.steps) for one in kept()]
    assert sorted(steps)[len(steps) // 2] <= 3
    assert all(1 <= count <= 12 for count in steps)


def test_a_history_is_read_as_it_was_written() -> None:
    """With sets of CPUs, pods and other configurations inside."""
    config = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]), reserved_memory={1: "1Gi"})
    pod = Pod("a", (Container("c", "2", "2", "1Gi", "1Gi"),))
    steps = (Start(), Apply(pod), Tamper("a", "c", CPUSet([3])), Stop(kill=True))
    history = History("1s-1n-4c-smt2", config, steps)
    assert from_plain(json.loads(json.dumps(to_plain(history)))) == history
    assert history.needs == {Capability.TAMPER, Capability.RESTART}
    every = read(KEPT.read_bytes())
    assert read(written(every.tellings, every.untold)) == every


def test_what_is_no_history_or_no_file_of_them_is_refused() -> None:
    """As of another version; in one line."""
    for plain in ({}, {"machine": "m", "config": {}, "steps": [{"Fly": {}}]}):
        with pytest.raises(ValueError, match="not a history"):
            from_plain(plain)
    with pytest.raises(ValueError, match="not telling histories"):
        read(b"x")


@pytest.mark.parametrize("release", SEARCHED)
def test_what_is_not_told_has_a_reason(release: str) -> None:
    """Each behaviour of a release is told, or it is said why not."""
    told = {name for one in kept() for name in one.of(release)}
    untold = read(KEPT.read_bytes()).untold[release]
    assert told.isdisjoint(untold)
    assert told | {*untold} == {one.title for one in Behaviour}


def test_what_is_not_told_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_list(page, read(KEPT.read_bytes())) == page


def test_of_many_histories_few_are_kept() -> None:
    """The shortest, as many as were asked for of each behaviour of each release."""
    chosen = few(kept(), 1)
    names = {(release, name) for one in kept() for release in one.tells for name in one.of(release)}
    assert {(release, name) for one in chosen for release in one.tells
            for name in one.of(release)} == names  # fmt: skip
    assert len(chosen) < len(kept())
    assert few(kept()[::-1], 1) == chosen  # a search must not hang on the order of a set


def test_what_explore_draws_is_the_same_each_time() -> None:
    """On two machines, and without questions."""
    made = list(of_explore("1.36", rows=8))
    assert len({one.machine.partition("-128mib")[0] for one in made}) == 2
    assert made == list(of_explore("1.36", rows=8))
    assert not any(isinstance(step, Question) for one in made for step in one.steps)


def test_a_history_is_made_smaller() -> None:
    """What says nothing of the behaviour is left out: settings, memory, pods and steps."""
    config = KubeletConfig(
        system_reserved="1",
        memory_manager_policy="Static",
        reserved_memory={0: "8Mi"},
        cpu_cfs_quota_period=10_000,
        reconcile_period=PRODUCTION_PERIOD,
    )
    large = Apply(guaranteed_of("large", [exclusive("c", 9)]))
    history = History("1s-1n-4c-smt2-128mib", config, (Start(), Apply(best_effort("a")), large))
    small = History("1s-1n-4c-smt2", KubeletConfig(system_reserved="1"), (Start(), large))
    other = switched("1.36", Behaviour.NUMBERS_IN_REFUSAL)
    assert shrunk(history, lambda one: tells(one, "1.36", other)) == small


def test_a_pod_with_devices_needs_them() -> None:
    """Whether or not a plugin registers them."""
    pod = Pod("a", (Container("c", devices=(("pinproof.invalid/device", 1),)),))
    history = History("1s-1n-4c-smt2", KubeletConfig(), (Start(), Apply(pod)))
    assert history.needs == {Capability.DEVICES}


def test_a_model_that_remembers_asks_all_the_same() -> None:
    """The second time as the first: where it takes CPUs and merges hints."""
    config = KubeletConfig(
        reserved_system_cpus=CPUSet([0, 64]),
        policy_options={"distribute-cpus-across-numa": "true"},
        topology_manager_policy="best-effort",
    )
    history = History(
        "2s-4n-64c-smt2", config, (Start(), Apply(guaranteed_of("a", [exclusive("c", 80)])))
    )
    for _ in range(2):
        with asking_for() as asked:
            views(history, "1.36")
        assert {Behaviour.COMBINATIONS_KEPT, Behaviour.UNEQUAL_HINTS_NOT_PREFERRED} <= asked


def test_few_histories_ask_for_everything() -> None:
    """Each that is chosen tells something that no earlier one did; what a subject cannot do is not
    chosen."""
    every = chosen(kept(), "1.36", frozenset(Capability))
    union = {name for one in kept() for name in one.of("1.36")}
    assert {name for one in every for name in one.of("1.36")} == union
    assert len(every) < len(union)
    less = chosen(kept(), "1.36", frozenset(Capability) - OF_WHOLE_KUBELETS)
    assert not any(one.history.needs & OF_WHOLE_KUBELETS for one in less)


@pytest.mark.parametrize(
    ("release", "freed"), [("1.21.14", True), ("1.22.17", True), ("1.23.17", True), ("1.24", False)]
)
def test_a_removed_container_frees_cpus_that_another_of_its_pod_holds(
    release: str, *, freed: bool
) -> None:
    """Up to 1.23, seen on 1.22.17: a version of the state file has them both shared and exclusive,
    which the next start refuses. The last patch releases were not given the fix."""
    pod = guaranteed_of("a", [exclusive("init", 2, kind=Kind.INIT), exclusive("main", 2)])
    steps = (Start(), Apply(pod), Delete("a"), Apply(best_effort("b")), AwaitReconcile())
    seen = views(History("1s-1n-4c-smt2", KubeletConfig(system_reserved="1"), steps), release)
    assert seen is not None
    versions = [one for view in seen for one in view.versions or ()]
    assert any(one.shared_pool & one.exclusive for one in versions) is freed


# -- what a subject is ---------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["1.17", "1.29", "1.37"])
def test_a_release_is_what_it_says(release: str) -> None:
    """Nothing contradicts it; what was not asked is named. The last patch release of 1.29 has a
    back-port that the first has not."""
    found = _identity(Liar(f"{release}.0", release))
    assert found.fits == f"{release}.0" or found.release == release
    assert found.as_stated
    assert not found.lost
    assert len(found.asked) > 30
    assert not set(found.asked) & set(found.not_asked)


@pytest.mark.parametrize(
    ("release", "titles"),
    [
        *(("1.36", SWITCHED[at : at + 4]) for at in range(0, 12, 4)),
        # Though a quota is no part of what makes two views equal.
        ("1.32", SWITCHED[-1:]),
    ],
)
def test_switched_behaviours_are_found(release: str, titles: Sequence[str]) -> None:
    """What it has and what it lacks is told apart, and nothing else is found. Several at once,
    since every identification takes seconds."""
    switches = {one: switched(release, Behaviour.named(one)) for one in titles}
    has = {Behaviour.named(one): not made.endswith("=off") for one, made in switches.items()}
    overrides = (made.removeprefix(release) for made in switches.values())
    found = _identity(Liar(release + "".join(overrides), release))
    assert dict(found.contradictions) == has
    assert {**dict.fromkeys(found.gained, True), **dict.fromkeys(found.lacking, False)} == has
    assert found.release in (release, f"{release}.0")
    assert not found.unexplained
    assert not found.doubtful
    assert all(len(found.witnesses[one]) > 1 for one in has)


def test_another_release_than_stated_is_found() -> None:
    """A 1.35 that says 1.36."""
    found = _identity(Liar("1.35"))
    assert found.release == "1.35"
    assert not found.as_stated
    assert "uncore-alignment-stable" in {one.title for one, _ in found.contradictions}


def test_what_no_release_does_is_shown() -> None:
    """A kubelet that is wrong in a way that has no name."""
    found = _identity(miniature("reports-the-shared-pool", release="1.37"))
    assert not found.as_stated or found.not_asked
    wrong = _identity(miniature("loses-a-cpu-at-restarts"))
    assert wrong.unexplained
    assert not wrong.as_stated


def _lookalike(title: str, where: str) -> Liar:
    """A model of 1.36 with a fault on one machine, where it looks like a behaviour."""
    wrong = Liar(switched("1.36", Behaviour.named(title)))

    def change(node: ModelNode, machine: Machine, config: KubeletConfig) -> ModelNode:
        if machine.name != where:
            return node
        return wrong.node(machine, config, machines=topologies.machine)

    return Liar(change=change)


def _one_that_tells(title: str) -> History:
    (found,) = [one.history for one in kept() if title in one.of("1.36")]
    return found


def test_a_fault_that_looks_like_a_behaviour_in_one_history_is_told_first() -> None:
    """Other histories that would show the behaviour do not: that comes before any claim."""
    title = "held-cpus-kept-first"
    found = _identity(_lookalike(title, _one_that_tells(title).machine))
    assert found.unexplained
    assert not found.as_stated
    said = lines(found, "fork", "")
    assert said[0].startswith("fork: no known release behaves as it does in ")
    assert said[1].startswith("No known release does this: on ")
    claims = [at for at, line in enumerate(said) if line.startswith("It is not 1.36")]
    assert all(at > 1 for at in claims)


def test_a_claim_with_one_witness_is_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told with what shows it, and no run judges a fork by it."""
    monkeypatch.setattr(asking, "witnesses", lambda *_: iter(()))
    title = "held-cpus-kept-first"
    found = _identity(Liar(switched("1.36", Behaviour.named(title))))
    assert [one.title for one in found.doubtful] == [title]
    assert not found.as_stated
    assert found.sure.overrides == ()
    said = lines(found, "fork", "")
    assert said[0].startswith(f"fork: 1.36.0, perhaps with {title}; ")
    place = said.index("Only one history shows each of these, so each may be another fault:")
    assert said[place + 1].startswith(f"  has {title}: ")
    assert said[place + 2] == f"    shown by: {_one_that_tells(title)}"
    assert not any(line.startswith("It is not 1.36") for line in said)


@pytest.mark.parametrize("title", SWITCHED)
def test_a_witness_tells_as_its_history_does(title: str) -> None:
    """Two variants of each history: one with a pod more, one on another machine."""
    history = next(one.history for one in kept() if title in one.of("1.36"))
    other = switched("1.36", Behaviour.named(title))
    found = list(witnesses(history, "1.36", other, frozenset(Capability)))
    assert history not in found
    assert found
    assert all(tells(one, "1.36", other) for one in found)


def test_the_stated_release_has_its_patch() -> None:
    """A newer one than is known counts as the newest known."""
    assert stated(SubjectInfo(name="s", release="1.26", version="v1.26.3-fork+abc")) == "1.26.3"
    assert stated(SubjectInfo(name="s", release="1.36")) == "1.36"
    assert stated(SubjectInfo(name="s", release="1.99", version="v1.99.0")) == f"1.{ANNOUNCED}"
    assert telling.RELEASES[0] == "1.17"


# -- subjects that go wrong ----------------------------------------------------------------------


def _dying(lives: int) -> Liar:
    """It can do so many steps in all."""
    steps = iter(range(lives))
    return Liar(change=lambda node, *_: _Mortal(node, steps))


class _Mortal(ModelNode):
    def __init__(self, node: ModelNode, steps: Iterator[int]) -> None:
        super().__init__(node._node)
        self._steps = steps

    def do(self, step: Step) -> None:
        if next(self._steps, None) is None:
            raise SubjectLostError("the program ended")
        super().do(step)


def test_a_subject_that_dies_at_once_is_named() -> None:
    """After a few tries, in one line."""
    with pytest.raises(SubjectLostError, match="could not be identified: the program ended"):
        _identity(_dying(0))


def test_what_was_found_before_it_died_is_kept() -> None:
    """And what was lost is said."""
    found = _identity(_dying(12))
    assert found.as_stated
    assert found.asked
    assert found.lost[0] == "the program ended"


@contextmanager
def _breaking(release: str, lives: int, *, hangs: bool) -> Iterator[Callable[[_Job], Watched]]:
    """A process that dies, or ``hangs``, after so many histories."""
    watched, subject = iter(range(lives)), Liar(release, release)

    def do(job: _Job) -> Watched:
        if next(watched, None) is None:
            os.kill(os.getpid(), signal.SIGSTOP if hangs else signal.SIGKILL)
        return watch(subject, job.history, job.releases)

    yield do


class _BreakingWorkers(asking._Workers):
    lives, hangs = 0, False

    def __init__(self, name: str, subject: Subject, count: int) -> None:
        super().__init__(name, subject, count)
        begin = partial(_breaking, hangs=self.hangs)
        self._processes = Processes(1, begin, ("1.36", self.lives))


@pytest.mark.parametrize(
    ("lives", "hangs", "why"),
    [
        (0, False, "a process that drives the subject has died"),
        (3, True, "a process that drives the subject has not answered for 6 s"),
    ],
)
def test_what_was_found_before_a_process_died_or_hung_is_kept(
    lives: int, why: str, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    """The rest is lost, which is said."""
    monkeypatch.setattr(_BreakingWorkers, "lives", lives)
    monkeypatch.setattr(_BreakingWorkers, "hangs", hangs)
    monkeypatch.setattr(asking, "_Workers", _BreakingWorkers)
    monkeypatch.setattr(asking, "_PATIENCE", 6.0)
    if not lives:
        with pytest.raises(SubjectLostError, match=why):
            _identity(Liar())
        return
    found = _identity(Liar())
    assert found.as_stated
    assert found.asked
    assert why in found.lost


def test_an_interrupt_ends_a_process_that_hangs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that stops its keeper, so that the process which drives it waits for ever."""
    monkeypatch.setattr(processes, "_ENDS", 0.5)
    program, began = tmp_path / "program", tmp_path / "began"
    program.write_text(f"#!/bin/sh\nkill -STOP $PPID\necho $PPID $$ >{began}\nexec sleep 60\n")
    program.chmod(0o755)

    def interrupt(*_: object) -> None:
        if began.exists() and began.read_text():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    subject = cast("Subject", None)  # it is opened in the process alone
    jobs = [_Job(kept()[0].history, ("1.36",))]
    with pytest.raises(KeyboardInterrupt), asking._Workers(f"exec:{program}", subject, 1) as one:
        list(one.results(jobs, time.monotonic() + 60))
    for pid in began.read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def test_what_an_interrupt_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody takes what was found so far for all."""

    class Interrupted(asking._Workers):
        def results(self, jobs: Sequence[_Job], until: float) -> Iterator[Watched]:
            yield from itertools.islice(super().results(jobs, until), 3)
            raise KeyboardInterrupt

    monkeypatch.setattr(asking, "_Workers", Interrupted)
    found = _identity(Liar())
    assert found.histories == 3
    assert found.out_of_time > 10


def test_a_subject_whose_kubelet_does_nothing_is_no_release() -> None:
    """It is shown what it does not do, and it is not as it says."""
    found = _identity(
        Liar(change=lambda node, *_: _stalled(node, "pods", "cpusets", "assignments"))
    )
    assert not found.as_stated
    assert found.unexplained


def _stalled(node: ModelNode, *hidden: str) -> ModelNode:
    """It shows these as empty, and comes to rest so."""
    empty: dict[str, Any] = {name: {} for name in hidden}
    return ShownAs(node, lambda view: replace(view, **empty))


def _unsteady(where: str, *, until: int = 100) -> Liar:
    """On one machine it shows nothing of its pods the first time, and no CPUs of theirs later; from
    its turn ``until`` on it shows all."""
    met: list[KubeletConfig] = []

    def change(node: ModelNode, machine: Machine, config: KubeletConfig) -> ModelNode:
        if machine.name != where:
            return node
        met.append(config)
        turn = met.count(config)
        if turn >= until:
            return node
        return _stalled(node, *(["pods"] if turn == 1 else []), "cpusets", "assignments")

    return Liar(change=change)


def _asked_once() -> str:
    """A machine on which one history alone runs, with pods."""
    asked = chosen(kept(), "1.36.0", Liar().capabilities)
    used = Counter(one.history.machine for one in asked)
    return next(
        one.history.machine
        for one in asked
        if used[one.history.machine] == 1
        and any(isinstance(step, Apply) for step in one.history.steps)
    )


def test_what_differs_twice_and_not_alike_accuses_nobody() -> None:
    """As a kubelet on a host that is too busy does. What it shows then, a third time odd, neither
    accuses nor tells anything."""
    found = _identity(_unsteady(_asked_once()))
    assert not found.unexplained
    assert asking.UNSTEADY in found.lost
    assert found.asked < _identity(Liar()).asked


def test_what_is_lost_is_watched_once_more() -> None:
    """A busy host leaves no behaviour out that it lets be seen at another time."""
    found = _identity(_unsteady(_asked_once(), until=3))
    assert not found.lost
    assert found.asked == _identity(Liar()).asked


def test_a_kubelet_that_could_not_be_driven_once_is_driven_again() -> None:
    where, met = _asked_once(), list[KubeletConfig]()

    def change(node: ModelNode, machine: Machine, config: KubeletConfig) -> ModelNode:
        if machine.name == where:
            met.append(config)
            if met.count(config) == 1:
                raise SubjectError("the kubelet did not start within 60 s")
        return node

    found = _identity(Liar(change=change))
    assert not found.lost
    assert found.asked == _identity(Liar()).asked


def test_an_admission_that_takes_longer_is_no_difference() -> None:
    """How long it takes depends on the host. One that takes less than a plugin makes it wait is a
    difference."""
    history = History("1s-1n-4c-smt2", KubeletConfig(policy="static"), (Start(),))
    model = walker(history, "1.36")
    expected = replace(model.after(Start()), metrics={ADMISSION_MS: 1000})
    longer, shorter = (replace(expected, metrics={ADMISSION_MS: one}) for one in (1002, 1))
    assert unlike(model, expected, longer, ()) == []
    (found,) = unlike(model, expected, shorter, ())
    assert found.what == f"metric {ADMISSION_MS}"


def test_the_time_ends() -> None:
    """No history is begun then, which is said."""
    with pytest.raises(SubjectLostError, match="no history ran in the given time"):
        asking.identify("liar", Liar(), seconds=-1.0, say=_quiet)


def test_a_subject_that_can_do_little_is_asked_little() -> None:
    """Nothing that it cannot do; what that leaves out is named."""
    subject = Liar()
    subject.capabilities = frozenset({Capability.PODS, Capability.STATE_FILE})
    found = _identity(subject)
    assert found.as_stated
    assert 0 < len(found.asked) < len(found.not_asked)


# -- the command ---------------------------------------------------------------------------------


def test_the_command_says_what_a_subject_is() -> None:
    """As text and as JSON; a contradiction is exit status 1."""
    runner = CliRunner()
    shown = runner.invoke(app, ["identify", "miniature:held-cpus-kept-first"])
    assert shown.exit_code == 1
    assert "with held-cpus-kept-first" in shown.output
    assert "It says that it is 1.36, but it behaves differently:" in shown.output
    asked = runner.invoke(app, ["identify", "reference", "--format", "json"])
    assert asked.exit_code == 0
    found = json.loads(asked.stdout)
    assert found["release"] == "1.36"
    assert found["with"] == found["without"] == []
    assert len(found["asked"]) + len(found["not asked"]) == len(Behaviour)


def test_a_run_judges_a_fork_by_what_it_has() -> None:
    """As the release that it says it is, it fails."""
    fork = ("--subject", "miniature:rejected-pods-have-qos=off", "--machine", "1s-1n-4c-smt2")
    command = ("run", *fork, "-n", "0", "-k", "admission/too-large-is-rejected")
    here(*command, status=1)
    by_itself = here(*command, "--release", "auto", status=0)
    assert "is judged as 1.32, without rejected-pods-have-qos" in by_itself.stderr
    assert "It says that it is 1.32, but it behaves differently:" in by_itself.stderr


@pytest.mark.parametrize("release", ["1.36"])
def test_a_real_kubelet_is_what_it_says(release: str) -> None:
    """Whatever could be asked of it."""
    if not any(one.version.startswith(f"{release}.") for one in cached()):
        lacking.skip("kubelet")
    shown = CliRunner().invoke(app, ["identify", f"kubelet:{release}", "--format", "json"])
    if shown.exit_code == 3 and not shown.stdout:
        lacking.skip("sandbox", shown.stderr)
    found = json.loads(shown.stdout)
    assert found["release"].startswith(release)
    assert found["contradictions"] == {}
    assert found["unexplained"] == []


@pytest.mark.parametrize(
    ("release", "version", "judged"),
    [
        ("1.33", "v1.33.0", "1.33.0"),
        ("1.33", "v1.33.2+k3s1", "1.33.2"),
        ("1.33", "v1.33.6", "1.33"),
        ("1.36", "v1.36.4", "1.36"),
        ("1.36", "", "1.36"),
        ("1.99", "v1.99.0", f"1.{ANNOUNCED}"),
        ("1.31", "4.18.1", "1.31"),
    ],
)
def test_a_patch_release_judges_where_later_ones_do_more(
    release: str, version: str, judged: str
) -> None:
    """1.33 means its newest patch release, which has what 1.33.6 brought."""
    assert str(judging_release(SubjectInfo("a", release, version))) == judged


def test_a_kubelet_that_never_starts_is_no_release_at_all(tmp_path: Path) -> None:
    """As in a run: it cannot be judged."""
    lacking.need("sandbox")
    kubelet = tmp_path / "kubelet"
    kubelet.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo Kubernetes v1.36.4 && exit\n'
        "kill -9 $$\n"
    )  # fmt: skip
    kubelet.chmod(0o755)
    done = here("identify", f"kubelet:{kubelet}", status=3)
    assert done.stdout == ""
    assert "does not start on the simplest machine, so it cannot be judged" in done.stderr
