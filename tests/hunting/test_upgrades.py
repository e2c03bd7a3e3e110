"""The move ``upgrades``: a kubelet of another release takes over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pytest

import topologies
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.pods import guaranteed
from conformance.promises import promise_of
from conformance.scenario import Scenario
from conformance.subject import Subject, SubjectUnable, SubjectUsageError
from conformance.subjects.reference import ModelNode, ReferenceSubject
from hunting import telling, walk
from hunting.campaign import FILE, read
from hunting.confirming import Witnesses, confirmed
from hunting.defects import DEFECTS
from hunting.finds import Collection, Find
from hunting.replaying import replayed
from hunting.scope import POD_LEVEL, Task, tasks
from hunting.shrinking import shrunk_in_place
from hunting.upgrades import configurations_for, neighbours
from hunting.walk import Ground, Tally, search
from reference import CPUSet
from reference.branching import BranchingNode
from reference.cpumanager.state.state_checkpoint import Checkpoint
from reference.releases import minor_of
from reference.steps import Apply, Delete, KubeletConfig, Start, Step, Stop, TakeOver
from tests.cli.running import here
from tests.conformance.doctored import Doctored
from tests.reference.nodes import EIGHT, do, tree

_RESERVED: Final = KubeletConfig(reserved_system_cpus=CPUSet([0]))
_AMOUNT: Final = KubeletConfig(system_reserved="1.0001")
_FULL: Final = replace(_RESERVED, policy_options={"full-pcpus-only": "true"})
_FILLED: Final = (Start(), Apply(guaranteed("p1", 2)), Stop(), Start())
_UPGRADES: Final = ("upgrades",)
_TINY: Final = "1s-1n-3c-smt1"


def _finds(task: Task, depth: int = 2, ignored: tuple[str, ...] = ()) -> list[Find]:
    finds = Collection()
    for broken in search(task, depth, families=_UPGRADES, ignored=ignored):
        finds.add(broken)
    return list(finds)


def _replacing(release: str) -> tuple[Step, ...]:
    return Stop(), TakeOver(release), Start()


@cache
def _find(*, full: bool = False) -> Find:
    """The one whose last step is the start of another release; searched once."""
    finds = _finds(Task("1.37", _TINY, _FULL if full else _AMOUNT, ("1.36",)))
    return next(one for one in finds if len(one.cast) > 1)


# -- what is found -------------------------------------------------------------------------------


def test_a_kubelet_that_reserves_more_than_the_one_before_it_does_not_start() -> None:
    """1.37 rounds 1.0001 CPUs to one, and 1.36 to two, of which a pod has one."""
    find = _find()
    assert (find.promise, find.issue, find.placed) == ("starts-again", 0, "1.36 after 1.37")
    assert find.history == (Start(), Apply(guaranteed("p1", 1)), *_replacing("1.36"))
    assert "not all reserved cpus" in find.seen


def test_issue_129078_is_found_on_the_way_back() -> None:
    """And is a find of one release where the first one has the defect too."""
    find = _find(full=True)
    assert (find.promise, find.issue) == ("goes-on", 129078)
    assert find.placed == "1.36 after 1.23 to 1.35, 1.37"
    assert "1.36 does so by itself too, when it is started again." in telling.story(find)
    finds = _finds(Task("1.36", _TINY, _FULL, ("1.37",)))
    assert [(one.issue, one.cast) for one in finds] == [(129078, ("1.36",))]


def test_what_a_release_breaks_by_itself_is_no_find_of_an_upgrade() -> None:
    """Whatever ran before, 1.36 refuses the pod when it is started again."""
    history = (Start(), *_replacing("1.36"), Apply(guaranteed("p1", 2)), Stop(), Start())
    broken = replayed(Task("1.37", _TINY, _FULL), history, "goes-on")
    assert broken is not None
    finds = Collection()
    find = finds.add(broken)
    assert find is not None
    assert (find.cast, find.releases[-1]) == (("1.36",), "1.36")


def test_issue_137751_is_named() -> None:
    """1.36 does not read which CPUs a pod has as a whole. The first kubelet keeps them when it is
    started again, as 1.38 does."""
    config = replace(_RESERVED, topology_manager_policy="best-effort", feature_gates=POD_LEVEL,
                     topology_manager_scope="pod")  # fmt: skip
    finds = _finds(Task("1.37+pod-pool-kept", "1s-1n-5c-smt1", config, ("1.36",)))
    assert {one.issue for one in finds if len(one.cast) > 1} == {137751}
    assert 137751 in {one.number for one in DEFECTS}


class _Dropping(Checkpoint):
    """What a kubelet reads that forgets who holds CPUs where it finds another form."""

    @classmethod
    def loads(cls, text: str, **how: Any) -> Checkpoint:
        found = Checkpoint.loads(text, **how)
        if minor_of(how["release"]) != 37 or "dataChecksum" in text:
            return found
        return replace(found, entries={}, default_cpuset=CPUSet(range(3)))


@pytest.mark.parametrize("planted", [False, True])
def test_a_migration_that_drops_entries_is_found(
    planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two pods moves where the kubelet admits it first."""
    if planted:
        monkeypatch.setattr("reference.cpumanager.cpu_manager.Checkpoint", _Dropping)
    finds = _finds(Task("1.36", _TINY, _RESERVED, ("1.37",)), 3, ("goes-on",))
    assert bool(finds) is planted
    for one in finds:
        assert (one.promise, one.issue, one.cast) == ("keeps-cpus", 0, ("1.36", "1.37"))
        assert one.history[-3:] == _replacing("1.37")


def test_a_kubelet_that_never_starts_with_these_settings_breaks_no_promise() -> None:
    """On this machine 1.36 reserves every CPU, and 1.37 does not."""
    config = replace(_AMOUNT, system_reserved="1.9999")
    config = replace(config, kube_reserved="0.0001")
    assert Ground(Task("1.36", "1s-1n-2c-smt1", config)).free == 0
    assert _finds(Task("1.37", "1s-1n-2c-smt1", config, ("1.36",))) == []


def test_an_amount_that_does_not_matter_is_a_list() -> None:
    """A pod of two CPUs is refused under full-pcpus-only at any restart of 1.36."""
    config = replace(_FULL, reserved_system_cpus=None, system_reserved="1.0001")
    broken = replayed(Task("1.36", "1s-1n-4c-smt1", config), _FILLED, "goes-on")
    assert broken is not None
    assert shrunk_in_place(broken).task.config == _FULL


# -- how it is searched --------------------------------------------------------------------------


def test_neighbours_are_minors_that_the_model_knows() -> None:
    assert neighbours("1.36") == ("1.35", "1.37")
    assert neighbours("1.37") == ("1.36",)
    assert neighbours("1.8") == ("1.9",)


def test_feature_gates_that_a_release_does_not_know_are_left_out() -> None:
    """And another configuration is without any."""
    config = replace(_RESERVED, feature_gates=POD_LEVEL)
    bare = replace(config, feature_gates={})
    assert configurations_for("1.37", config) == [config, bare]
    known = replace(config, feature_gates={"PodLevelResources": True})
    assert configurations_for("1.35", config) == [known, bare]
    assert configurations_for("1.31", config) == [bare]
    strict = replace(_RESERVED, policy_options={"strict-cpu-reservation": "true"})
    assert configurations_for("1.31", strict) == []


def test_kubelets_take_over_there_and_back() -> None:
    """From each release to each other one."""
    (task, *_) = tasks("1.36", (_TINY,), others=("1.35", "1.37"))
    assert task.taken_over("1.37").others == ("1.35", "1.36")
    assert task.taken_over("1.37").taken_over("1.36") == task
    taken = {one.release for one in _takers(Ground(task))}
    assert taken == {"1.35", "1.37"}


def _takers(ground: Ground) -> Iterator[TakeOver]:
    ((state, _),) = ground.taken(ground.first(), (Start(),), Tally())
    for move in walk.moves_from(state, ground, _UPGRADES):
        yield from (one for one in move if isinstance(one, TakeOver))


def _node(*steps: Step) -> BranchingNode:
    node = BranchingNode(tree, EIGHT, _RESERVED, release="1.36")
    do(node, Start(), *steps)
    return node


def test_nodes_are_told_apart_by_release_and_by_the_form_of_the_file() -> None:
    """The same pod, with the same CPUs."""
    pod = Apply(guaranteed("a", 1))
    there = _node(pod, *_replacing("1.37"))
    back = _node(pod, *_replacing("1.37"), *_replacing("1.36"))
    other = [pod, *_replacing("1.37"), Apply(guaranteed("b", 2)), Delete("b")]
    rewritten = _node(*other, *_replacing("1.36"))
    nodes = (_node(pod), there, _node(*other), back, rewritten)
    assert len({one.key() for one in nodes}) == 1
    assert len({one.beside() for one in nodes}) == len(nodes)
    assert rewritten.beside() == _node(*other, *_replacing("1.36")).beside()


def test_equal_states_are_met_once_and_no_find_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a search finds that goes on from every state."""
    task = Task("1.37", "1s-1n-2c-smt1", _AMOUNT, ("1.36",))
    few, every = Tally(), Tally()
    found = {_told(one) for one in search(task, 3, families=_UPGRADES, tally=few)}
    monkeypatch.setattr(walk, "key_of", lambda state, families: object())
    assert {_told(one) for one in search(task, 3, families=_UPGRADES, tally=every)} == found
    assert found
    assert few.again > 0
    assert few.states < every.states


def _told(broken: walk.Broken) -> tuple[str, str]:
    return broken.promise, broken.violation.difference.seen


# -- what becomes of a find ----------------------------------------------------------------------


def test_a_find_is_told_with_both_releases() -> None:
    """In the story, the report, and a scenario, which the model takes."""
    find = _find()
    assert "4. Replace the kubelet by one of 1.36." in telling.story(find)
    assert "1.36 after 1.37" in telling.report(find)
    source = telling.scenario(find)
    assert "node.take(TakeOver(release='1.36'))" in source
    assert telling.script(find).count("TakeOver") == 1


@pytest.mark.parametrize(("alone", "verdict"), [(False, "pass"), (True, "skip")])
def test_a_scenario_of_a_find_is_run_where_a_kubelet_can_be_replaced(
    alone: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the model, and not by a subject that is one kubelet."""
    registered: dict[str, Scenario] = {}
    monkeypatch.setattr("conformance.scenario._REGISTRY", registered)
    find = _find(full=True)
    exec(compile(telling.scenario(find), "found.py", "exec"), {"__name__": "found"})
    (made,) = registered.values()
    subject = Doctored(lambda node, *_: _OfOne(node._node) if alone else node, release="1.37")
    oracle = partial(ModelOracle, release="1.37")
    case = Case(made, topologies.machine(find.machine))
    assert judge(case, subject, oracle=oracle, release="1.37").result.verdict == verdict


class _OfOne(ModelNode):
    def do(self, step: Step) -> None:
        if isinstance(step, TakeOver):
            raise SubjectUnable("a kubelet of another release is another subject")
        super().do(step)


def _opened(name: str) -> Subject:
    return ReferenceSubject(name, release=name.rpartition(":")[2])


def test_a_find_is_shown_on_a_subject_of_each_release() -> None:
    """By whatever names they are given."""
    find = _find()
    for names in (["kubelet"], ["a:1.36", "b:1.37"], ["a:1.36", "kubelet"]):
        ((name, subjects),) = Witnesses(names, _opened).of(find)
        assert name.count(" then ") == 1
        assert [one.info.release for one in subjects] == ["1.37", "1.36"]
        broken = confirmed(find, subjects)
        assert broken is not None
        assert promise_of(broken.rule).id == find.promise
    alone = Witnesses(["a:1.37"], _opened)
    with pytest.raises(SubjectUsageError, match=r"--confirm: a kubelet of 1\.36 is needed as well"):
        list(alone.of(find))
    assert list(Witnesses([], _opened).of(find)) == []


def test_a_find_of_one_release_is_shown_on_each_subject_by_itself() -> None:
    find = _finds(Task("1.36", _TINY, _FULL))[0]
    names = [name for name, _ in Witnesses(["kubelet", "a:1.26"], _opened).of(find)]
    assert names == ["kubelet:1.36", "a:1.26"]


def test_subjects_that_keep_the_promise_do_not_show_the_find() -> None:
    """1.37 in the place of 1.36."""
    find = _find()
    assert confirmed(find, (_opened("a:1.37"), _opened("b:1.37"))) is None


# -- the command ---------------------------------------------------------------------------------


def test_the_command_searches_the_neighbours_or_the_releases_that_are_named(
    tmp_path: Path,
) -> None:
    small = ("hunt", "--release", "1.37", "--machine", "1s-1n-2c-smt1", "--depth", "1")
    here(*small, "--moves", "upgrades", "--report", "near", cwd=tmp_path)
    assert read(tmp_path / "near" / FILE)[0].others == ["1.36"]
    far = (*small, "--upgrade-to", "1.26")
    here(*far, "--report", "far", cwd=tmp_path)
    header, _, _ = read(tmp_path / "far" / FILE)
    assert (header.others, header.moves) == (["1.26"], ["upgrades"])
    here(*far, "--resume", "far", cwd=tmp_path)
    done = here(*small, "--moves", "upgrades", "--resume", "far", cwd=tmp_path, status=2)
    assert "other options" in done.stderr


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("1.36", "--upgrade-to 1.36: every history begins with it"),
        ("1.99", "--upgrade-to 1.99: the model knows 1.8 to 1.37"),
        ("new", "--upgrade-to: not a Kubernetes release"),
    ],
)
def test_a_release_that_cannot_take_over_is_refused(
    release: str, said: str, tmp_path: Path
) -> None:
    done = here("hunt", "--release", "1.36", "--upgrade-to", release, cwd=tmp_path, status=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
