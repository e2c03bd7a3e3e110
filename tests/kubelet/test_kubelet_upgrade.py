"""One kubelet after the other on one root: what is seen of a wrong one, and that unmodified ones do
what their models do, known faults of upgrades too (docs/how-to/upgrading.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

import topologies
from conformance.kept_files import STATE, layout_of
from conformance.pods import best_effort, guaranteed, later_pods, pooled
from conformance.promises.histories import GOES_ON, KEEPS_CPUS, STARTS_AGAIN
from conformance.subject import Subject, SubjectLostError, SubjectUsageError
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.process import Patience
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrading import (
    Going,
    Leg,
    Plan,
    Rehearsed,
    rehearse,
    rehearse_killed,
    with_drained,
)
from reference import CPUSet
from reference.cpumanager.policy_options import FULL_PCPUS
from reference.cpumanager.state.checkpoint import Layout
from reference.steps import KubeletConfig, Start
from tests.kubelet.conftest import NodeMaker, Open, Script, cached_kubelet

MACHINE = topologies.machine("1s-1n-4c-smt2")
CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))
PODS = (guaranteed("gone", 2), guaranteed("a", 2), best_effort("b"))
#: What each further kubelet is given. For the last of them there is no room.
LATER, SMALL_LATER = (tuple(later_pods(cpus)) for cpus in (2, 1))
THERE, BACK, AGAIN = Leg
PLAN = Plan(MACHINE, CONFIG, PODS, LATER, ("gone",))
FORGETS = "os.unlink('/var/lib/kubelet/cpu_manager_state')"


@pytest.fixture
def hurried(kubelet_path: str, open_kubelet: Open) -> KubeletSubject:
    """For what never becomes right."""
    return open_kubelet(kubelet_path, patience=Patience(effect=4.0))


def _rehearsed(old: KubeletSubject, new: KubeletSubject, **more: Any) -> Rehearsed:
    return rehearse(old, new, replace(PLAN, **more))


def _broken(found: Rehearsed) -> list[tuple[str, Leg]]:
    return [(one.rule, one.leg) for one in found.broken]


def test_another_release_writes_its_own_form_of_the_state_file(
    subject: KubeletSubject, newer: KubeletSubject
) -> None:
    """Which the old one reads. All else is as the models have it."""
    found = _rehearsed(subject, newer)
    old, new = (ReferenceSubject(f"the model of {one}", release=one) for one in ("1.36", "1.37"))
    expected = rehearse(old, new, PLAN)
    assert _summary(found) == _summary(expected)
    assert list(expected.harmed_legs) == []
    assert not found.silent
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


def test_a_kubelet_that_moves_pods_is_seen(
    hurried: KubeletSubject, open_kubelet: Open, wrapped: Script
) -> None:
    found = _rehearsed(hurried, open_kubelet(wrapped(FORGETS)))
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
    hurried: KubeletSubject, open_kubelet: Open, wrapped: Script, change: str
) -> None:
    """Such a kubelet starts, and says nothing."""
    new = open_kubelet(wrapped(_MIGRATED.replace("CHANGE", change)))
    first, *_ = _rehearsed(hurried, new, later=()).broken
    assert (first.rule, first.leg) == (KEEPS_CPUS, THERE)
    assert [row.expected for row in first.differences] == ["2,6"]


def test_a_kubelet_that_refuses_the_state_file_is_seen(
    subject: KubeletSubject, open_kubelet: Open, wrapped: Script
) -> None:
    """On the way back too: the file stays as it is."""
    new = open_kubelet(wrapped("open('/var/lib/kubelet/cpu_manager_state', 'w').write('{')"))
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


def test_a_kubelet_that_runs_is_not_replaced(subject: KubeletSubject, make_node: NodeMaker) -> None:
    node = make_node()
    node.do(Start())
    with pytest.raises(SubjectLostError, match="while the kubelet runs"):
        subject.take_over(node)


def test_kubelets_and_models_do_not_take_over_from_one_another(
    subject: KubeletSubject, make_node: NodeMaker
) -> None:
    model = ReferenceSubject()
    of_model = model.node(MACHINE, CONFIG, machines=topologies.machine)
    with pytest.raises(SubjectUsageError, match="only on nodes of a kubelet"):
        subject.take_over(of_model)
    with pytest.raises(SubjectUsageError, match="reference continues only on nodes of the model"):
        model.take_over(make_node())


def test_a_change_does_not_hide_a_kubelet_that_moves_pods(
    hurried: KubeletSubject, open_kubelet: Open, wrapped: Script
) -> None:
    config = replace(CONFIG, topology_manager_policy="restricted")
    new = open_kubelet(wrapped(FORGETS))
    assert _broken(_rehearsed(hurried, new, to_config=config)) == [(KEEPS_CPUS, THERE)]


# -- kubelets beside their models ------------------------------------------------------------------

_EIGHT: Final = topologies.machine("2s-2n-8c-smt2")
_PLAIN: Final = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))
_WHOLE_CORES: Final = replace(
    _PLAIN, policy_options={FULL_PCPUS: "true"}, topology_manager_policy="best-effort"
)
_OFF: Final = replace(_PLAIN, topology_manager_policy="best-effort", topology_manager_scope="pod")
_ON: Final = replace(_OFF, feature_gates={"PodLevelResourceManagers": True})
_FULL: Final = Plan(_EIGHT, _WHOLE_CORES, [guaranteed("pod1", 12)], LATER)
_V1: Final = Plan(_EIGHT, _PLAIN, [guaranteed("pod1", 2)], LATER)
_POOLED: Final = Plan(_EIGHT, _ON, [pooled("whole", 4)], LATER)
_CHANGED: Final = Plan(
    MACHINE, CONFIG, (guaranteed("half", 1), guaranteed("whole", 2)), SMALL_LATER
)
_SMALL: Final = replace(
    _CHANGED,
    machine=topologies.machine("1s-1n-4c-smt1"),
    config=KubeletConfig(reserved_system_cpus=CPUSet([0])),
)
#: The releases, the plan, the legs on which something breaks or ends pods, and those on which it
#: does if every pod is deleted first (``None``: not asked). 129078, 140989 and 137751 are faults of
#: Kubernetes; 1.37 refuses a file of 1.17.
REHEARSED: Final[dict[str, tuple[str, str, Plan, list[Leg], list[Leg] | None]]] = {
    "the same release": ("1.36", "1.36", PLAN, [], None),
    "over a reboot": ("1.36", "1.36", replace(PLAN, going=Going.REBOOT), [], None),
    "129078": ("1.36", "1.37", _FULL, [BACK], []),
    "a file of 1.17": ("1.17", "1.37", _V1, [THERE, AGAIN], [THERE, AGAIN]),
    "140989": ("1.36", "1.36", _POOLED, [THERE, BACK, AGAIN], []),
    "137751": ("1.37", "1.36", replace(_POOLED, to_config=_OFF), [BACK], []),
    "another machine": ("1.36", "1.36", replace(_SMALL, to_machine=MACHINE), [THERE, BACK], None),
    **{
        name: ("1.36", "1.36", replace(_CHANGED, to_config=config), legs, None)
        for name, config, legs in (
            ("an option", replace(CONFIG, policy_options={FULL_PCPUS: "true"}), [THERE]),
            ("another policy", KubeletConfig(policy="none"), [THERE, BACK]),
            ("reserved in use", KubeletConfig(reserved_system_cpus=CPUSet([2, 6])), [THERE, BACK]),
            ("a wrong option", replace(CONFIG, policy_options={"no-such": "true"}), [THERE]),
        )
    },
}


def _with_drained(row: str, old: Subject, new: Subject) -> Rehearsed:
    """What comes of it; also with every pod deleted first, where the row asks for that."""
    *_, plan, _, drained = REHEARSED[row]
    found = rehearse(old, new, plan)
    return found if drained is None else with_drained(found, old, new, plan)


def _models(row: str) -> Rehearsed:
    models = (ReferenceSubject(f"the model of {one}", release=one) for one in REHEARSED[row][:2])
    return _with_drained(row, *models)


def _summary(found: Rehearsed) -> dict[str, Any]:
    """Which CPUs a pod gets without its state file hangs on the order of a Go map. So does which of
    several is refused at a start, where one was refused before."""
    recovered = any(one.recovered for one in found.turns)
    refused = [any(one.reason for one in stage.view.pods.values()) for stage in found.stages]
    known = [
        stage.view.assignments
        for at, stage in enumerate(found.stages)
        if not (refused[at] and any(refused[:at]))
    ]
    return {
        "broken": [(one.leg, one.rule) for one in found.broken],
        "turns": [
            (one.leg, one.ended, one.refusal.partition("json")[0], one.recovered)
            for one in found.turns
        ],
        "drained": found.drained,
        "files": [
            STATE in one.files and layout_of(one.files[STATE].left or "") for one in found.stages
        ],
        "held": [] if recovered else known,
    }


@pytest.mark.parametrize("row", REHEARSED)
def test_a_rehearsal_comes_to_what_the_models_say(row: str, open_kubelet: Open) -> None:
    """Who is ended, why, what helps, and who holds which CPUs after each start."""
    *releases, _, harmed, drained = REHEARSED[row]
    expected = _models(row)
    assert list(expected.harmed_legs) == harmed
    assert expected.drained is None or list(expected.drained) == drained
    found = _with_drained(row, *(open_kubelet(cached_kubelet(one)) for one in releases))
    assert not found.silent
    assert _summary(found) == _summary(expected)


def test_the_state_file_that_is_in_the_way_is_named_and_removed() -> None:
    """1.37 starts without the file of 1.17."""
    (turn,) = _models("a file of 1.17").turns
    assert "cpu_manager_state" in turn.refusal
    assert turn.recovered
