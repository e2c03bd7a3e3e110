"""Crash points: what is tried, what counts as broken, and what a release does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from conformance import crash_points
from conformance.crash_points import Tried, histories, walk
from conformance.kubelets import cached
from conformance.subject import Capability, SubjectSetupError, SubjectUnable, SubjectUsageError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.inside import calls
from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ModelNode, ReferenceSubject
from pinproof.cli import app
from reference import Node
from reference.steps import Apply, Delete, KillAtRename, KubeletConfig, Step
from tests.support import lacking
from topologies import Machine

#: What a kubelet that is killed between two writes of its state file says when it starts.
TORN = "doesn't match with CPUs in state"


class OfOneFile(ModelNode):
    """The model's only file is the state file."""

    killed_at_rename = "/var/lib/kubelet/cpu_manager_state"

    def do(self, step: Step) -> None:
        super().do(replace(step, any_file=False) if isinstance(step, KillAtRename) else step)


class Model(ReferenceSubject):
    """A model that can be killed at the renames of its only file."""

    node_of: type[OfOneFile] = OfOneFile

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> OfOneFile:
        made = self._make(lambda name: machines(name).tree, machine.name, config, self.info.release)
        return self.node_of(made)


def _tried(release: str, depth: int = 1) -> list[Tried]:
    return list(walk(Model(release=release), depth=depth))


def test_every_history_is_there_once() -> None:
    """None deletes what is not there; the first is the first start."""
    every = list(histories(3))
    assert every[0] == ()
    assert len(every) == len({str(one) for one in every}) == 74
    for acts in every:
        there: set[str] = set()
        for first, *_ in acts:
            if isinstance(first, Apply):
                there.add(first.pod.name)
            if isinstance(first, Delete):
                assert first.pod in there


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_a_torn_state_file_is_found(release: str) -> None:
    """kubernetes/kubernetes#136604: between the two writes of a pod that comes; nothing else."""
    tried = _tried(release)
    broken = {(one.point.number, one.point.after) for one in tried if one.broken}
    assert broken == {(1, True), (2, False)}
    assert all(TORN in text for one in tried for text in one.broken)
    first_start = [one for one in tried if not one.point.acts]
    assert [(one.point.number, one.point.after) for one in first_start] == [
        (1, False), (1, True), (2, False), (2, True),
    ]  # fmt: skip
    assert not any(one.broken for one in first_start)


def test_a_pod_that_goes_tears_it_too() -> None:
    """Between its entry and the pool."""
    tried = _tried("1.36", depth=2)
    going = [one for one in tried if one.point.acts and isinstance(one.point.acts[-1][0], Delete)]
    assert {(one.point.number, one.point.after) for one in going if one.broken} == {
        (1, True), (2, False),
    }  # fmt: skip


class Forgets(OfOneFile):
    """A pod that comes once more is left alone, and the kubelet is content."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._gone: set[str] = set()

    def do(self, step: Step) -> None:
        if isinstance(step, Apply) and step.pod.name in self._gone:
            return
        if isinstance(step, Delete):
            self._gone.add(step.pod)
        super().do(step)


def test_a_promise_that_is_broken_without_a_kill_is_told_once() -> None:
    """After the points of its history."""
    subject = Model(release="1.36")
    subject.node_of = Forgets
    comes, goes = crash_points._ACTS[0], crash_points._ACTS[3]
    tried = list(walk(subject, chosen=[(comes, goes, comes)]))
    assert [one.point.number for one in tried if one.broken] == [0]
    assert str(tried[-1].point).endswith("not killed")


def test_a_kubelet_that_loses_cpus_is_found_everywhere() -> None:
    """It loses one at each start, and does not start again for that."""
    wrong = miniature("loses-a-cpu-at-restarts")
    subject = Model(release="1.36", make=wrong._make)
    tried = list(walk(subject, chosen=[(crash_points._ACTS[0],)]))
    assert tried
    assert all(one.broken for one in tried)


class Waiting(Model):
    """A model of a subject that mostly waits (:class:`conformance.subject.WaitsMost`). It makes
    nodes while ``allowed`` says so, and until then holds whoever wants one."""

    at_a_time = 3

    def __init__(self, allowed: Callable[[int], bool]) -> None:
        super().__init__(release="1.36")
        self.wanted = 0
        self.interrupted = False
        self._allowed = allowed
        self.changed = threading.Condition()

    def interrupt(self) -> None:
        with self.changed:
            self.interrupted = True
            self.changed.notify_all()

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> OfOneFile:
        with self.changed:
            self.wanted += 1
            self.changed.notify_all()
            assert self.changed.wait_for(self._is_free, timeout=20)
        return super().node(machine, config, machines=machines)

    def _is_free(self) -> bool:
        return self.interrupted or self._allowed(self.wanted)


def test_several_histories_are_tried_at_a_time() -> None:
    """The same comes of them, in the same order."""
    subject = Waiting(lambda wanted: wanted >= 3)
    assert list(walk(subject, depth=1)) == _tried("1.36")
    assert not subject.interrupted


def test_what_runs_ends_with_the_walk() -> None:
    """Whoever interrupts it does not wait for a kubelet that nobody asks any more."""
    of_first = len(_tried("1.36", depth=0)) + 1
    subject = Waiting(lambda wanted: wanted <= of_first)
    subject.at_a_time = 1
    walked = walk(subject, chosen=[(), (crash_points._ACTS[0],)])
    next(walked)
    with subject.changed:
        assert subject.changed.wait_for(lambda: subject.wanted > of_first, timeout=20)
    walked.close()
    assert subject.interrupted


def test_a_subject_without_renames_is_named() -> None:
    """In one line, before anything is done."""
    subject = ReferenceSubject()
    subject.capabilities = subject.capabilities - {Capability.RENAMES}
    with pytest.raises(SubjectUnable, match="reference cannot see every version"):
        next(walk(subject))


def test_a_real_kubelet_of_1_36() -> None:
    """The files of its root are all of them; only the torn state file stops it."""
    found = [one for one in cached() if one.version.startswith("1.36.")]
    if not calls.can_be_heard():
        lacking.skip("seccomp")
    if not found:
        lacking.skip("kubelet")
    subject = KubeletSubject.open("1.36")
    try:
        tried = list(walk(subject, chosen=[(crash_points._ACTS[0],)]))
    except SubjectSetupError as error:
        lacking.skip("sandbox", error)
    finally:
        subject.close()
    files = [(one.point.file, one.point.after) for one in tried if one.broken]
    assert files == [("cpu_manager_state", True), ("cpu_manager_state", False)]
    assert all(TORN in text for one in tried for text in one.broken)
    assert {"cpu_manager_state", "allocated_pods_state"} <= {one.point.file for one in tried}


def test_a_machine_that_is_too_small_is_refused() -> None:
    """Its pods would not fit, which is no broken promise."""
    with pytest.raises(SubjectUsageError, match="smt1: crash points need 3 CPUs beside the first"):
        next(walk(Model(release="1.36"), machine="1s-1n-3c-smt1"))


def test_the_command_names_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each that breaks a promise, and how many there were."""
    monkeypatch.setattr("pinproof.hunt.open_subject", lambda name: Model(release="1.36"))
    shown = CliRunner().invoke(app, ["hunt", "--crash-points", "kubelet:1.36", "--depth", "1"])
    assert shown.exit_code == 1, shown.output
    assert shown.stdout.splitlines()[-1].endswith("points; broken: 4 at cpu_manager_state")
    assert TORN in shown.stdout
