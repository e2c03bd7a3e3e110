"""One kubelet after the other on one root, and what is seen of a wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

import topologies
from conformance.kept_files import STATE, layout_of
from conformance.pods import best_effort, guaranteed, later_pods
from conformance.promises.histories import ADMITTED, GOES_ON, KEEPS_CPUS, STARTS_AGAIN
from conformance.subject import SubjectLostError, SubjectUsageError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.process import Patience
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrading import Going, Leg, Plan, Rehearsed, rehearse, rehearse_killed
from reference import CPUSet
from reference.cpumanager.policy_options import FULL_PCPUS
from reference.cpumanager.state.checkpoint import Layout
from reference.steps import KubeletConfig, Start
from tests.kubelet.conftest import Open, Script

MACHINE = topologies.machine("1s-1n-4c-smt2")
CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))
PODS = (guaranteed("gone", 2), guaranteed("a", 2), best_effort("b"))
#: What each further kubelet is given. For the last of them there is no room.
LATER, SMALL_LATER = (tuple(later_pods(cpus)) for cpus in (2, 1))
THERE, BACK, AGAIN = Leg
#: Who holds what at each stage.
_WITH_LATER = {"a": "2,6", "later": "1,5"}
HELD = [{"a": "2,6"}, _WITH_LATER, *[{**_WITH_LATER, "later2": "3,7"}] * 2]

#: The kubelet KUBELET, before which BEFORE is done in its sandbox.
WRAPPED = """
import os, sys
if sys.argv[1:] != ["--version"]:
    BEFORE
os.execv("KUBELET", ["KUBELET", *sys.argv[1:]])
"""


@pytest.fixture
def hurried(kubelet_path: str, open_kubelet: Open) -> KubeletSubject:
    """For what never becomes right."""
    return open_kubelet(kubelet_path, patience=Patience(effect=4.0))


@pytest.fixture
def wrapped(script: Script, kubelet_path: str, open_kubelet: Open) -> Open:
    """Makes a subject of the real kubelet, before whose start something is done."""
    text = WRAPPED.replace("KUBELET", kubelet_path)
    return lambda before: open_kubelet(script(text.replace("BEFORE", before)))


def _rehearsed(old: KubeletSubject, new: KubeletSubject, **more: Any) -> Rehearsed:
    return rehearse(old, new, Plan(MACHINE, CONFIG, PODS, LATER, ("gone",), **more))


def _assert_all_kept(found: Rehearsed) -> None:
    assert (found.broken, found.notes) == ((), ())
    held = [
        {pod: str(cpus["c"]) for pod, cpus in sorted(one.view.assignments.items())}
        for one in found.stages
    ]
    assert held == HELD


def _broken(found: Rehearsed) -> list[tuple[str, Leg]]:
    return [(one.rule, one.leg) for one in found.broken]


def test_the_same_release_takes_over(subject: KubeletSubject) -> None:
    _assert_all_kept(_rehearsed(subject, subject))


def test_pods_run_again_over_a_reboot(subject: KubeletSubject) -> None:
    _assert_all_kept(_rehearsed(subject, subject, going=Going.REBOOT))


def test_another_release_takes_over_and_gives_back(
    subject: KubeletSubject, newer: KubeletSubject
) -> None:
    """It writes its own form of the state file, which the old one reads."""
    found = _rehearsed(subject, newer)
    _assert_all_kept(found)
    forms = [layout_of(one.files[STATE].left or "") for one in found.stages]
    assert forms == [Layout.V2, Layout.V4, Layout.V2, Layout.V2]
    assert [one.restarted for one in found.stages] == [()] * 4
    grown = [len(one.files["allocated_pods_state"].left or "") for one in found.stages]
    assert grown[0] < grown[1] < grown[2]


def test_a_kubelet_killed_at_its_first_writes_takes_over_all_the_same(
    subject: KubeletSubject, newer: KubeletSubject
) -> None:
    """It is killed before it has a socket, and after it."""
    plan = Plan(MACHINE, CONFIG, PODS[1:], LATER[:1])
    killed = rehearse_killed(subject, newer, plan)
    for place, (where, found) in zip(("before", "after"), killed, strict=False):
        assert where.startswith(f"{place} rename 1 (")
        assert found.broken == ()
        assert [note.partition(": ")[2] for note in found.notes] == [
            f"{newer.info.name} was killed before it was done"
        ]
        assert {*found.stages[1].view.assignments} == {"a", "later"}


def test_pods_that_the_way_back_stops_are_seen(
    subject: KubeletSubject, newer: KubeletSubject
) -> None:
    """1.36 refuses pods that run where too few cores are free (kubernetes/kubernetes#129078)."""
    config = replace(CONFIG, policy_options={FULL_PCPUS: "true"})
    plan = Plan(MACHINE, config, (guaranteed("a", 4),), LATER)
    found = rehearse(subject, newer, plan)
    first, *others = _broken(found)
    assert first == (GOES_ON, BACK)
    # 1.37 counts a refused pod that ran as active for about a second: the pod that it is given
    # meanwhile may find no room.
    assert set(others) <= {(ADMITTED, AGAIN)}
    assert "SMTAlignmentError" in found.broken[0].differences[0].seen


def test_a_kubelet_that_moves_pods_is_seen(hurried: KubeletSubject, wrapped: Open) -> None:
    found = _rehearsed(hurried, wrapped("os.unlink('/var/lib/kubelet/cpu_manager_state')"))
    first, *others = found.broken
    assert (first.rule, first.leg) == (KEEPS_CPUS, THERE)
    # Whether it moves them again depends on the order in which it admits them.
    assert {(one.rule, one.leg) for one in others} <= {(KEEPS_CPUS, AGAIN)}
    (row,) = first.differences
    assert (row.what, row.expected, row.seen) == ("exclusive CPUs a/c", "2,6", "1,5")


#: What a wrong migration makes of the state file of the kubelet before. No kubelet compares a
#: checksum of 0.
_MIGRATED: Final = """import json; path = '/var/lib/kubelet/cpu_manager_state'
    state = json.load(open(path)); entries = state['entries']; first = next(iter(entries))
    CHANGE
    json.dump({**state, 'checksum': 0}, open(path, 'w'))"""


@pytest.mark.parametrize(
    "change",
    [
        "state['defaultCpuSet'] += ',' + entries.pop(first)['c']",
        "entries[first]['c'] = '3,7'; state['defaultCpuSet'] = '0-2,4-6'",
    ],
    ids=["an entry is lost", "another cpuset"],
)
def test_a_migration_that_corrupts_the_file_is_seen(
    hurried: KubeletSubject, wrapped: Open, change: str
) -> None:
    """Such a kubelet starts, and says nothing."""
    first, *_ = _rehearsed(hurried, wrapped(_MIGRATED.replace("CHANGE", change))).broken
    assert (first.rule, first.leg) == (KEEPS_CPUS, THERE)
    assert [row.expected for row in first.differences] == ["2,6"]


def test_a_kubelet_that_refuses_the_state_file_is_seen(
    subject: KubeletSubject, wrapped: Open
) -> None:
    """On the way back too: the file stays as it is."""
    new = wrapped("open('/var/lib/kubelet/cpu_manager_state', 'w').write('{')")
    found = _rehearsed(subject, new)
    assert _broken(found) == [(STARTS_AGAIN, leg) for leg in Leg]
    for one in found.broken:
        assert "could not restore state from checkpoint" in one.differences[0].seen


def test_containers_that_are_started_again_are_seen(
    subject: KubeletSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though they are given the CPUs that they had: the runtime has other containers."""

    class Ending(KubeletSubject):
        def take_over(self, node: object) -> None:
            super().take_over(node)  # type: ignore[arg-type]
            node.runtime.drop_everything()  # type: ignore[attr-defined]

    monkeypatch.setattr(subject, "__class__", Ending)
    found = _rehearsed(subject, subject)
    assert _broken(found) == [(GOES_ON, leg) for leg in Leg]
    assert [row.what for row in found.broken[0].differences] == ["container a/c", "container b/c"]


def test_a_kubelet_that_runs_is_not_replaced(subject: KubeletSubject) -> None:
    node = subject.node(MACHINE, CONFIG)
    try:
        node.do(Start())
        with pytest.raises(SubjectLostError, match="while the kubelet runs"):
            subject.take_over(node)
    finally:
        node.close()


def test_kubelets_and_models_do_not_take_over_from_one_another(subject: KubeletSubject) -> None:
    model = ReferenceSubject()
    of_model = model.node(MACHINE, CONFIG, machines=topologies.machine)
    with pytest.raises(SubjectUsageError, match="only on nodes of a kubelet"):
        subject.take_over(of_model)
    node = subject.node(MACHINE, CONFIG)
    try:
        with pytest.raises(
            SubjectUsageError, match="reference continues only on nodes of the model"
        ):
            model.take_over(node)
    finally:
        node.close()


@pytest.mark.parametrize(
    ("before", "to"),
    [
        ("1s-1n-4c-smt1", {"to_machine": MACHINE}),
        ("1s-1n-4c-smt2", {"to_config": replace(CONFIG, policy_options={FULL_PCPUS: "true"})}),
        ("1s-1n-4c-smt2", {"to_config": KubeletConfig(policy="none")}),
        ("1s-1n-4c-smt2", {"to_config": KubeletConfig(reserved_system_cpus=CPUSet([2, 6]))}),
        ("1s-1n-4c-smt2", {"to_config": replace(CONFIG, policy_options={"no-such": "true"})}),
    ],
    ids=["another machine", "an option", "another policy", "reserved in use", "a wrong option"],
)
def test_a_real_kubelet_does_with_a_change_what_its_model_does(
    before: str, to: Mapping[str, Any], subject: KubeletSubject
) -> None:
    """Which CPUs a pod gets without its state file hangs on the order of a Go map; all else is the
    same: who is ended, why, and what helps."""
    machine = topologies.machine(before)
    config = KubeletConfig(reserved_system_cpus=CPUSet([0])) if "machine" in str(to) else CONFIG
    pods = (guaranteed("half", 1), guaranteed("whole", 2))
    plan = Plan(machine, config, pods, SMALL_LATER, **to)
    model = ReferenceSubject("model", release=subject.info.release)
    seen, expected = rehearse(subject, subject, plan), rehearse(model, model, plan)
    facts, expected_facts = (
        [(one.leg, one.ended, one.refusal, one.recovered) for one in found.turns]
        for found in (seen, expected)
    )
    assert facts == expected_facts
    assert facts[0][1]
    assert _broken(seen) == _broken(expected)


def test_a_change_does_not_hide_a_kubelet_that_moves_pods(
    hurried: KubeletSubject, wrapped: Open
) -> None:
    config = replace(CONFIG, topology_manager_policy="restricted")
    new = wrapped("os.unlink('/var/lib/kubelet/cpu_manager_state')")
    assert _broken(_rehearsed(hurried, new, to_config=config)) == [(KEEPS_CPUS, THERE)]
