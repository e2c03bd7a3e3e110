"""A rehearsed upgrade: what is kept, what is seen to break, and what is no verdict."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import topologies
from conformance.kept_files import STATE, layout_of
from conformance.pods import best_effort, guaranteed, later_pods
from conformance.promises.histories import GOES_ON, KEEPS_CPUS, STARTS_AGAIN
from conformance.promises.views import AS_BOOKED, EXCLUSIVE_TO_ONE
from conformance.subject import (
    NodeUnderTest,
    Subject,
    SubjectLostError,
    SubjectSetupError,
    SubjectUsageError,
)
from conformance.subjects.miniatures import miniature
from conformance.subjects.reference import ReferenceSubject
from conformance.upgrade_matrix import Word, word_of
from conformance.upgrading import Going, Leg, Plan, Rehearsed, rehearse, rehearse_killed
from reference import Checkpoint, CPUSet
from reference.cpumanager.state.checkpoint import Layout
from reference.kubelet.configuration import reserving
from reference.releases import LATEST
from reference.steps import KubeletConfig, Reboot, RemoveState, Start, Tamper, WriteState
from tests.conformance.doctored import TakingOver
from topologies import Machine

MACHINE = topologies.machine("1s-1n-4c-smt2")
THERE, BACK, AGAIN = Leg
CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]))
#: Without the first, which is gone by the upgrade, the second lies where none would put it again.
PODS = (guaranteed("gone", 2), guaranteed("a", 2), best_effort("b"))
#: What each further kubelet is given. For the last of them there is no room.
LATER, SMALL_LATER = (tuple(later_pods(cpus)) for cpus in (2, 1))


def _model(release: str) -> ReferenceSubject:
    return ReferenceSubject(f"the model of {release}", release=release)


def _subject(one: Subject | str) -> Subject:
    """The model of a release, where one is named."""
    return _model(one) if isinstance(one, str) else one


def _rehearsed(old: Subject | str, new: Subject | str, **changes: Any) -> Rehearsed:
    """With these changes of the usual plan."""
    plan = replace(Plan(MACHINE, CONFIG, PODS, LATER, ("gone",)), **changes)
    return rehearse(_subject(old), _subject(new), plan)


def _rules(found: Rehearsed) -> list[tuple[str, Leg]]:
    return [(one.rule, one.leg) for one in found.broken]


def forgetful(release: str) -> Subject:
    """Its kubelet starts without the state file that there was."""
    return TakingOver(release, RemoveState())


def test_there_and_back_and_again_every_container_keeps_its_cpus() -> None:
    """Each further kubelet has its own pod, and writes its own form of the state file with it. It
    leaves the file as it was while it starts."""
    found = _rehearsed("1.36", "1.37")
    assert found.broken == ()
    assert found.notes == ()
    assert found.pinned == 1
    assert [(one.title, one.leg) for one in found.stages] == [
        ("1.36", None), ("1.37", THERE), ("back at 1.36", BACK), ("1.37 again", AGAIN),
    ]  # fmt: skip
    held = [{pod: str(own["c"]) for pod, own in each.view.assignments.items()} for each in
            found.stages]  # fmt: skip
    assert held[:2] == [{"a": "2,6"}, {"a": "2,6", "later": "1,5"}]
    assert held[2:] == [{"a": "2,6", "later": "1,5", "later2": "3,7"}] * 2
    forms = [layout_of(one.files[STATE].left or "") for one in found.stages]
    assert forms == [Layout.V2, Layout.V4, Layout.V2, Layout.V2]  # nothing was written last
    kept = found.stages[1].files[STATE]
    assert kept.found == kept.started == found.stages[0].files[STATE].left


@pytest.mark.parametrize("going", Going)
def test_however_a_kubelet_goes_pods_run_on_the_same_cpus(going: Going) -> None:
    """Drained, they come again in the order in which they came, on CPUs of that moment."""
    plan = Plan(MACHINE, CONFIG, PODS[1:], LATER[:1], going=going)
    found = rehearse(_model("1.36"), _model("1.37"), plan)
    assert found.broken == ()
    assert [one.view.assignments["a"] for one in found.stages] == [{"c": CPUSet([1, 5])}] * 4
    goes_on = going in (Going.STOP, Going.KILL)
    assert plan.stays_up is goes_on
    assert (found.stages[1].restarted == ()) is goes_on


def test_a_kubelet_of_a_model_is_not_killed_at_its_renames() -> None:
    plan = Plan(MACHINE, CONFIG, PODS, LATER)
    with pytest.raises(SubjectUsageError, match=r"the model of 1\.37 cannot "):
        next(rehearse_killed(_model("1.36"), _model("1.37"), plan))


#: Pods that fill a node that gives whole cores alone. 1.36 refuses them when it is started again
#: (kubernetes/kubernetes#129078).
WHOLE_CORES: Final = replace(CONFIG, policy_options={"full-pcpus-only": "true"})
FILLED: Final[dict[str, Any]] = {"config": WHOLE_CORES, "pods": (guaranteed("a", 4),), "gone": ()}
#: With an option that no kubelet knows, the new one never runs.
UNKNOWN: Final[dict[str, Any]] = {
    "to_config": replace(CONFIG, policy_options={"full-pcpu-only": "true"})
}
RESTRICTED: Final[dict[str, Any]] = {
    "to_config": replace(CONFIG, topology_manager_policy="restricted")
}
MOVED: Final = "exclusive CPUs a/c: 1,5, not 2,6"
REFUSED: Final = "Pod was rejected: SMT Alignment Error"
AGAIN_STARTED: Final = "was ended, and started again"


@pytest.mark.parametrize(
    ("old", "new", "changes", "broken", "told"),
    [
        ("1.36", forgetful("1.37"), {}, [(KEEPS_CPUS, THERE)], [MOVED]),
        ("1.36", miniature("allocates-again"), {}, [(KEEPS_CPUS, THERE)], [MOVED]),
        ("1.36", forgetful("1.36"), RESTRICTED, [(KEEPS_CPUS, THERE)], [MOVED]),
        (forgetful("1.36"), "1.36", UNKNOWN, [(KEEPS_CPUS, BACK)], [MOVED]),
        (
            "1.17", "1.37", {}, [(STARTS_AGAIN, THERE), (STARTS_AGAIN, AGAIN)],
            ["kubelet: gave up .*cannot unmarshal string"],
        ),
        (
            "1.17", "1.20", {}, [(STARTS_AGAIN, BACK)],
            ["kubelet: gave up .*cannot unmarshal object"],
        ),
        (
            "1.36", TakingOver("1.37", WriteState("{")), {}, [(STARTS_AGAIN, leg) for leg in Leg],
            ["kubelet: gave up .*unexpected end of JSON input"],
        ),
        (
            "1.36", "1.37", FILLED, [(GOES_ON, BACK)],
            [f"pod a: .*{REFUSED}", f"pod later: .*{REFUSED}"],
        ),
        (
            "1.36", "1.37", FILLED | {"going": Going.REBOOT}, [(GOES_ON, BACK)],
            [f"pod a: .*{REFUSED}", f"pod later: .*{REFUSED}"],
        ),
        (
            "1.36", TakingOver("1.37", Reboot()), {}, [(GOES_ON, THERE), (GOES_ON, AGAIN)],
            [f"container a/c: {AGAIN_STARTED}", f"container b/c: {AGAIN_STARTED}"],
        ),
    ],
    ids=[
        "moves", "hands out again", "moves with other settings", "the way back moves",
        "refuses the file", "the way back is closed", "every leg", "the way back stops pods",
        "over a reboot too", "starts containers again",
    ],
)  # fmt: skip
def test_what_breaks_when_a_kubelet_starts_is_seen(
    old: Subject | str,
    new: Subject | str,
    changes: dict[str, Any],
    broken: list[tuple[str, Leg]],
    told: list[str],
) -> None:
    """On the leg on which it breaks, with the kubelet that breaks it; the others are tried all the
    same."""
    found = _rehearsed(old, new, **changes)
    assert _rules(found) == broken
    rows = [f"{row.what}: {row.seen}, not {row.expected}" for row in found.broken[0].differences]
    assert [bool(re.search(*both)) for both in zip(told, rows, strict=True)] == [True] * len(told)
    assert {one.step for one in found.broken} == {"start the kubelet"}
    for one in found.broken:
        assert one.kubelet.name == _subject(old if one.leg is BACK else new).info.name
    if not found.turns or "to_config" not in changes:
        down = [one.leg for one in found.stages if not one.view.running]
        assert down == [leg for rule, leg in broken if rule == STARTS_AGAIN]


def test_a_kubelet_that_breaks_promises_alone_is_seen() -> None:
    """Each once, though the model differs as well."""
    found = _rehearsed("1.36", miniature("never-updates"))
    assert _rules(found) == [(AS_BOOKED, THERE), (EXCLUSIVE_TO_ONE, THERE)]


def test_a_subject_may_take_over_from_itself() -> None:
    """What it breaks as it starts is told from what it breaks with one pod more, on each leg."""
    same = miniature("never-updates")
    found = _rehearsed(same, same, pods=PODS[1:], gone=())
    legs = [leg for rule, leg in _rules(found) if rule == AS_BOOKED]
    assert legs == [THERE, BACK, BACK, AGAIN]


def test_over_a_reboot_pods_run_again_and_keep_their_entries() -> None:
    """Their containers are others, which is no fault then."""
    found = _rehearsed("1.36", "1.37", going=Going.REBOOT)
    assert found.broken == ()
    assert [one.view.assignments["a"] for one in found.stages] == [{"c": CPUSet([2, 6])}] * 4
    assert len({one.view.asked["a"]["c"].id for one in found.stages}) == 4


def test_what_stays_broken_is_said_once() -> None:
    """Until the kubelet is started again."""
    idle = miniature("never-updates")

    class Widening(ReferenceSubject):
        """Its kubelet leaves a container on every CPU."""

        def take_over(self, node: NodeUnderTest) -> None:
            idle.take_over(node)
            node.do(Tamper("b", "c", CPUSet(range(8))))

    found = _rehearsed("1.36", Widening("widening", release="1.36"))
    rows = [
        (row.what, one.step)
        for one in found.broken
        for row in one.differences
        if one.rule == EXCLUSIVE_TO_ONE and one.leg is THERE
    ]
    assert rows == [
        ("cpuset b/c and exclusive CPUs a/c", "start the kubelet"),
        ("cpuset b/c and exclusive CPUs later/c", "apply Guaranteed pod later (c: 2 CPU)"),
    ]


def test_a_kubelet_that_is_not_as_its_model_is_seen() -> None:
    """Where it breaks no promise; from there on the promises judge alone."""
    found = _rehearsed("1.36", miniature("reads-state-of-any-gate"))
    (broken,) = found.broken
    assert broken.rule.endswith("the node is as the model of 1.36 has it")
    assert broken.witness == "the model of 1.36"
    assert [row.what for row in broken.differences] == ["state file"]
    (note,) = found.notes
    assert note.startswith("from here on the promises alone judge: miniature:reads-state")


def test_an_old_kubelet_that_does_not_run_is_no_verdict() -> None:
    unknown = KubeletConfig(policy_options={"no-such-option": "true"})
    with pytest.raises(SubjectSetupError, match="has to run before it can be upgraded: it gave up"):
        _rehearsed("1.36", "1.37", config=unknown)


def test_a_step_that_cannot_be_taken_is_no_verdict() -> None:
    """A kubelet that takes over, and cannot start."""
    with pytest.raises(SubjectLostError, match="the kubelet runs"):
        _rehearsed("1.36", TakingOver("1.37", Start()))


def test_subjects_of_two_kinds_do_not_follow_one_another() -> None:
    class Other:
        """It takes over nothing."""

        info = ReferenceSubject().info
        capabilities = ReferenceSubject.capabilities

    with pytest.raises(SubjectUsageError, match="cannot take over"):
        _rehearsed("1.36", Other())  # type: ignore[arg-type]


def test_pods_of_the_state_file_run_when_the_old_kubelet_starts() -> None:
    pod = guaranteed("a", 2)
    text = Checkpoint(
        policy_name="static",
        default_cpuset=CPUSet.parse("0-2,4-6"),
        entries={pod.uid: {"c": CPUSet([3, 7])}},
    ).dumps(release="1.36")
    found = _rehearsed("1.36", "1.37", pods=(), gone=(), state=text, known=(pod,))
    assert found.broken == ()
    assert [one.view.assignments["a"]["c"] for one in found.stages] == [CPUSet([3, 7])] * 4


#: What an operator sees of a broken promise.
_EFFECTS: Final = {
    Word.REFUSES: "does not start",
    Word.STOPS: "stops pods",
    Word.RESTARTS: "restarts containers",
    Word.MOVES: "moves pods",
}


def _effect(found: Rehearsed, *, leg: Leg) -> str:
    words = [word_of(one) for one in found.broken if one.leg is leg]
    seen = [_EFFECTS[one] for one in words if one in _EFFECTS]
    return ", ".join(dict.fromkeys(seen)) or "kept"


def _row(old: int, new: int) -> str:
    """Of the usual pods, and of pods that fill the node under full-pcpus-only."""
    releases = (f"1.{old}", f"1.{new}")
    config = reserving(CPUSet([0, 4]), release=releases[0])
    cells = [*releases]
    found = _rehearsed(*releases, config=config)
    cells += [_effect(found, leg=leg) for leg in (THERE, BACK)]
    if old < 23:
        return f"| {' | '.join([*cells, '', ''])} |"
    whole = replace(config, policy_options={"full-pcpus-only": "true"})
    found = _rehearsed(*releases, **FILLED | {"config": whole})
    cells += [_effect(found, leg=leg) for leg in (THERE, BACK)]
    return f"| {' | '.join(cells)} |"


def test_the_page_says_what_becomes_of_every_upgrade_by_one_minor() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/upgrading.md").read_text(encoding="utf-8")
    rows = [_row(minor, minor + 1) for minor in range(9, LATEST)]
    shown = [line for line in page.splitlines() if re.match(r"\| 1\.\d", line)]
    assert shown == rows, "\n".join(rows)


# -- another machine, other settings ---------------------------------------------------------------

SMALL = topologies.machine("1s-1n-4c-smt1")
LISTED: Final = KubeletConfig(reserved_system_cpus=CPUSet([0]))


def _changed(new: Subject | str = "1.36", **changes: Any) -> Rehearsed:
    """Of a pod of half a core and one of a whole core, unless others are named."""
    pods = (guaranteed("half", 1), guaranteed("whole", 2))
    return _rehearsed("1.36", new, **{"pods": pods, "gone": (), "later": SMALL_LATER} | changes)


def test_the_incident_is_rehearsed_with_its_recovery() -> None:
    """CPUs 0-3, then 0-7: the kubelet refuses to start until its state file is removed, and the way
    back is the same."""
    pods = (guaranteed("a", 2),)
    found = _changed(pods=pods, machine=SMALL, config=LISTED, to_machine=MACHINE)
    there, back = found.turns
    assert (there.ended, there.recovered, there.moved) == ({"a": ""}, True, ("a",))
    assert there.refusal == (
        'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-3"'
    )
    assert {*back.ended} == {"a", "later"}
    assert 'CPUs "0-3" doesn\'t match with CPUs in state "0-7"' in back.refusal
    assert found.broken == ()
    assert [(one.title, one.view.running, one.machine) for one in found.stages] == [
        ("1.36", True, SMALL),
        ("1.36, changed", False, MACHINE),
        ("state file removed", True, MACHINE),
        ("back at 1.36", False, SMALL),
        ("state file removed", True, SMALL),
    ]


def test_a_kubelet_that_accepts_another_machine_is_broken() -> None:
    found = _changed(
        miniature("trusts-its-state"), machine=SMALL, config=LISTED, to_machine=MACHINE
    )
    assert found.turns[0].refusal == ""
    assert found.broken[0].leg is THERE
    assert [row.what for row in found.broken[0].differences][:1] == [
        "exclusive CPUs and shared pool"
    ]


def test_a_pod_that_a_new_option_ends_is_told_with_the_kubelets_reason() -> None:
    """kubernetes/kubernetes#129078: pods that run are admitted again at a restart."""
    there, back = _changed(to_config=WHOLE_CORES).turns
    assert (there.refusal, back.ended) == ("", {})
    assert [*there.ended] == ["half"]
    assert there.ended["half"].startswith("rejected, Guaranteed: SMTAlignmentError: ")


def test_another_policy_takes_the_state_file_away() -> None:
    found = _changed(to_config=KubeletConfig(policy="none"))
    there, *_ = found.turns
    assert all(one.recovered for one in found.turns)
    assert 'configured policy "none" differs from state checkpoint policy "static"' in there.refusal
    after, back = (one.view for one in found.stages if one.title == "state file removed")
    assert after.assignments == {}
    assert back.assignments["whole"]


@pytest.mark.parametrize(("listed", "starts"), [([3, 7], True), ([2, 6], False)])
def test_other_reserved_cpus_must_be_shared_ones(listed: list[int], *, starts: bool) -> None:
    found = _changed(to_config=KubeletConfig(reserved_system_cpus=CPUSet(listed)))
    there = found.turns[0]
    assert found.broken == ()  # without the state file nothing is booked
    assert (there.refusal == "") is starts
    assert [*there.ended] == ([] if starts else ["half", "whole"])
    assert there.recovered is not starts


def test_a_change_that_ends_nobody_is_kept() -> None:
    found = _changed(**RESTRICTED)
    assert [(one.ended, one.refusal) for one in found.turns] == [({}, "")] * 2
    assert found.broken == ()
    held = [one.view.assignments["whole"] for one in found.stages]
    assert held == [{"c": CPUSet([2, 6])}] * 3


def test_a_removed_state_file_that_is_no_help_is_put_back() -> None:
    """So that the way back finds what it left."""
    found = _changed(pods=PODS, gone=("gone",), **UNKNOWN)
    there, back = found.turns
    assert (there.recovered, back.refusal) == (False, "")
    assert "unknown CPU Manager Policy option" in there.refusal
    before, after = (
        next(one.view.assignments for one in found.stages if one.leg is leg) for leg in (None, BACK)
    )
    assert before.items() <= after.items()


def test_two_machines_of_one_name_are_refused() -> None:
    other = Machine(SMALL.name, MACHINE.tree)
    with pytest.raises(SubjectUsageError, match="both machines are called 1s-1n-4c-smt1"):
        _changed(machine=SMALL, config=LISTED, to_machine=other)


def test_a_kubelet_that_does_not_start_is_tried_without_the_file() -> None:
    """On the leg on which it did not; the rehearsal itself goes on without that. What 1.17 breaks
    as well, a CFS quota on pinned containers, is no fault of the upgrade."""
    (there,) = _rehearsed("1.17", "1.37").turns
    assert (there.leg, there.recovered, there.moved, there.ended) == (THERE, True, ("a",), {})
    assert "cannot unmarshal string" in there.refusal
    found = _rehearsed("1.17", "1.20")
    (back,) = found.turns
    assert (back.leg, back.recovered, {*back.moved}) == (BACK, True, {"a", "later"})
    assert "cannot unmarshal object" in back.refusal
    assert found.notes == (
        "broken before the upgrade as well: A container with exclusive CPUs has no CFS quota",
    )
    assert _rehearsed("1.36", "1.37").turns == ()
