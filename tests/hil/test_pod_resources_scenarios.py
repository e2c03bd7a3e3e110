"""The pod-resources socket as a witness: kubelets that tell the truth there, and such as lie.

The node is that of ``test_subject_scenarios.py``, whose kubelet is the model; what it tells is made
of what it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.promises import violations
from conformance.subject import Capability
from hil.inspection import NodeFacts, kubelet_of
from hil.observation import Observation, PodResources
from hil.safety import Risk, risk_of
from hil.session.node_session import Patience
from hil.session.scripts import Act
from hil.session.views import cpus_by_pod
from reference import CPUSet
from reference.steps import Kind
from reference.view import View
from tests.conformance.test_checks import GOOD, cpus
from tests.conformance.test_checks import SITUATION as SOUND
from tests.hil import test_subject_scenarios as made_up
from tests.hil.test_dry_run import walked
from tests.hil.test_subject_scenarios import ModelMember, run

Entries = dict[tuple[str, str], dict[str, CPUSet]]
#: Of the true entries, those of pods that are gone, and what there is.
Tale = Callable[[Entries, Entries, View], Entries]

SAME: Final = "node/pod-resources-report-exclusive-cpus"
POOL: Final = "node/pod-resources-report-the-shared-pool"


def truth(entries: Entries, gone: Entries, view: View) -> Entries:
    return entries


class Telling(ModelMember):
    """A node whose kubelet tells what ``tale`` makes of the truth, of the entries of pods that are
    gone, and of what there is. Pods are called there as static pods are."""

    def __init__(self, tale: Tale = truth, *, why: str = "") -> None:
        super().__init__()
        self.tale = tale
        self.why = why
        self.asked = 0
        self._before: Entries = {}

    def act(self, act: Act, *, spin: bool = False, log: bool = False) -> Observation:
        seen = super().act(act, spin=spin, log=log)
        named = [replace(one, pod=self._called(one.uid)) for one in seen.containers]
        seen = replace(seen, containers=tuple(named))
        if not act.ask:
            return seen
        self.asked += 1
        view = self._node.view()
        entries = {
            ("default", self._called(self._ever[pod].uid)): {
                container: view.assignments.get(pod, {}).get(container, CPUSet())
                for container in containers
            }
            for pod, containers in view.cpusets.items()
        }
        entries["kube-system", "dns"] = {"c": CPUSet([0])}
        gone = {pod: one for pod, one in self._before.items() if pod not in entries}
        self._before |= entries
        pod_resources = (
            PodResources(why=self.why) if self.why else PodResources(self.tale(entries, gone, view))
        )
        return replace(seen, pod_resources=pod_resources)

    def _called(self, uid: str) -> str:
        name = next(pod.name for pod in self._ever.values() if pod.uid == uid)
        return f"pinproof-{name}-{uid[:8]}-fake"


def test_a_kubelet_that_tells_what_it_holds_passes() -> None:
    session = Telling()
    result = run(SAME, session)
    assert result.verdict == "pass", result.explanation
    assert session.asked == 3
    assert "ask the kubelet at its pod-resources socket" in result.steps


def _of(entries: Entries, pod: str) -> tuple[str, str]:
    return next((key for key in entries if key[1].startswith(f"pinproof-{pod}-")), ("", ""))


_ITS_FILE: Final = "The kubelet reports the exclusive CPUs of its state file"
_OF: Final = "CPUs that the kubelet reports for"


def _with(entries: Entries, pod: str, cpus: CPUSet) -> Entries:
    key = _of(entries, pod)
    return {**entries, key: {"c": cpus}} if key in entries else entries


def _without(entries: Entries, pod: str) -> Entries:
    return {key: one for key, one in entries.items() if key != _of(entries, pod)}


def _a_cpu_too_few(entries: Entries, gone: Entries, view: View) -> Entries:
    return {
        key: {name: CPUSet(sorted(cpus)[1:]) for name, cpus in containers.items()}
        for key, containers in entries.items()
    }


def _names_of_the_gone(entries: Entries, gone: Entries, view: View) -> Entries:
    return entries | {key: {name: CPUSet() for name in one} for key, one in gone.items()}


def _cpus_of_another(entries: Entries, gone: Entries, view: View) -> Entries:
    return _with(entries, "b", entries.get(_of(entries, "a"), {}).get("c", CPUSet()))


def _pool(entries: Entries, gone: Entries, view: View) -> Entries:
    return _with(entries, "shared", view.shared_pool)


#: What a kubelet may tell instead of the truth, and words by which it is told.
TALES: Final[dict[str, tuple[Tale, str]]] = {
    "other CPUs": (lambda entries, *_: _with(entries, "a", CPUSet([15])), _ITS_FILE),
    "a CPU too few": (_a_cpu_too_few, _ITS_FILE),
    "all CPUs": (lambda entries, *_: _with(entries, "a", CPUSet.parse("0-15")), _ITS_FILE),
    "nothing of a pod": (lambda entries, *_: _without(entries, "a"), f"{_OF} a/c"),
    "nothing of a container": (
        lambda entries, *_: {
            key: {} if key == _of(entries, "a") else entries[key] for key in entries
        },
        "(no entry)",
    ),
    "the shared pool, as up to 1.22": (_pool, f"{_OF} shared/c"),
    "nothing of who shares": (lambda entries, *_: _without(entries, "shared"), f"{_OF} shared/c"),
    "nothing at all": (lambda *_: {}, _ITS_FILE),
    "pods that are gone": (
        lambda entries, gone, _: entries | gone,
        "The kubelet reports no pod that is gone",
    ),
    "names of pods that are gone": (_names_of_the_gone, "an entry (c: (none))"),
    "one pod's CPUs as another's": (_cpus_of_another, f"{_OF} b/c"),
}


@pytest.mark.parametrize("tale", TALES)
def test_a_kubelet_that_lies_is_caught(tale: str) -> None:
    """Its state file and its cgroups are right all the while; the story says what it told."""
    lie, said = TALES[tale]
    result = run(SAME, Telling(lie))
    assert result.verdict == "fail", result.explanation
    assert said in result.explanation


def _without_the_models_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.lockstep.comparison.answer_differences", lambda *_, **__: [])


@pytest.mark.parametrize("tale", ["other CPUs", "a CPU too few", "nothing of a container"])
def test_the_scenario_catches_it_without_the_invariants(
    tale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It states its promise in words, which counts without the model's answer, too."""
    monkeypatch.setattr("conformance.lockstep.comparison.violations", lambda view, situation: [])
    _without_the_models_answer(monkeypatch)
    result = run(SAME, Telling(TALES[tale][0]))
    assert result.verdict == "fail", result.explanation
    assert result.reason == "It reports the exclusive CPUs"


def test_an_entry_that_goes_a_little_later_is_waited_for() -> None:
    late_by = [1]

    def late(entries: Entries, gone: Entries, view: View) -> Entries:
        if gone and late_by:
            late_by.pop()
            return {**entries, **gone}
        return entries

    session = Telling(late)
    session.patience = Patience()
    result = run(SAME, session)
    assert result.verdict == "pass", result.explanation
    assert session.asked == 4
    again = [act for act in session.acts if act.ask and act.script]
    assert [act.script for act in again] == ["sleep 1"]


@pytest.mark.parametrize(
    "why", ["there is no socket /var/lib/kubelet/pod-resources/kubelet.sock", "cut off"]
)
def test_a_socket_that_cannot_be_read_skips_with_its_reason(why: str) -> None:
    """Before any pod was brought; and it is something that a certificate lacks."""
    session = Telling(why=why)
    result = run(SAME, session)
    assert result.verdict == "skip", result.explanation
    assert result.reason == f"the kubelet's pod-resources socket cannot be read: {why}"
    assert result.unable
    changed = [str(change) for act in session.acts for change in act.changes]
    assert not [one for one in changed if "pinproof-" in one]


def test_up_to_1_22_the_pool_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_the_models_answer(monkeypatch)
    result = run(POOL, Telling())
    assert (result.verdict, result.reason) == ("skip", "promised up to 1.22, this is 1.36")
    monkeypatch.setattr(made_up, "RELEASE", "1.22")
    result = run(POOL, Telling(TALES["the shared pool, as up to 1.22"][0]))
    assert result.verdict == "pass", result.explanation
    result = run(POOL, Telling())
    assert (result.verdict, result.reason) == ("fail", "It reports the shared pool")


def test_reading_it_is_no_risk() -> None:
    assert risk_of([Capability.POD_RESOURCES]) is Risk.READ_ONLY


@pytest.mark.parametrize(("scenario", "release"), [(SAME, "1.36"), (POOL, "1.22")])
def test_a_dry_run_tells_how_it_would_ask(scenario: str, release: str, facts: NodeFacts) -> None:
    """To the scenario's end, whatever the release tells; asking only looks."""
    facts = replace(facts, kubelet=replace(kubelet_of(facts), release=release))
    ledger, lines = walked(facts, scenario)
    assert not [line for line in lines if "not walked" in line or "not run" in line]
    asks = [
        one for one in ledger.commands if one.step == "ask the kubelet at its pod-resources socket"
    ]
    assert len(asks) == (3 if scenario == SAME else 2)
    assert all(one.looks and "/pod-resources" in one.script for one in asks)
    assert not [one for one in ledger.commands if one not in asks and "perl" in one.script]


# ---- the invariant ----------------------------------------------------------------------------


SITUATION: Final = replace(
    SOUND,
    pods={
        "a": guaranteed_of("a", [exclusive("i", 1, kind=Kind.INIT), exclusive("c", 2)]),
        "s": best_effort("s"),
        "gone": guaranteed("gone", 1),
    },
)
VIEW: Final = replace(GOOD, assignments={"a": {"i": cpus("1"), "c": cpus("1-2")}})


@pytest.mark.parametrize("shares", ["", "0,3"])
def test_init_containers_and_who_shares_are_not_judged(shares: str) -> None:
    """The kubelet does not list the first; of the second releases tell otherwise."""
    entries = {"a": {"c": cpus("1-2")}, "s": {"c": cpus(shares)}}
    assert violations(replace(VIEW, pod_resources=entries), SITUATION) == []
    assert violations(VIEW, SITUATION) == []


@pytest.mark.parametrize(
    ("entries", "what", "expected", "seen"),
    [
        ({"a": {"c": cpus("2-3")}}, f"{_OF} a/c", "1-2", "2-3"),
        ({"a": {"c": CPUSet()}}, f"{_OF} a/c", "1-2", "(none)"),
        ({"a": {}}, f"{_OF} a/c", "1-2", "(no entry)"),
        ({}, f"{_OF} a/c", "1-2", "(no entry)"),
        (
            {"a": {"c": cpus("1-2")}, "gone": {"c": cpus("3")}},
            f"{_OF} pod gone, which is gone",
            "(no entry)",
            "an entry (c: 3)",
        ),
    ],
)
def test_each_lie_breaks_an_invariant(entries: Any, what: str, expected: str, seen: str) -> None:
    (found,) = violations(replace(VIEW, pod_resources=entries), SITUATION)
    difference = found.difference
    assert (difference.what, difference.expected, difference.seen) == (what, expected, seen)


# ---- whose entry is whose ---------------------------------------------------------------------


def test_entries_are_found_by_namespace_and_name() -> None:
    """A pod of our name in another namespace is not ours, unless nobody knows in which ours is."""
    a, b = guaranteed("a", 2), guaranteed("b", 1)
    answer = PodResources(
        {
            ("one", "pinproof-a"): {"c": cpus("1-2")},
            ("two", "pinproof-a"): {"c": cpus("3")},
            ("two", "pinproof-b"): {"c\x1b": cpus("4")},
            ("two", "unknown"): {"c": cpus("5")},
        }
    )
    called = {a.uid: ("one", "pinproof-a"), b.uid: ("", "pinproof-b"), "other": ("two", "unknown")}
    assert cpus_by_pod(answer, called, [a, b]) == {
        "a": {"c": cpus("1-2")},
        "b": {"c\\x1b": cpus("4")},
    }
    assert cpus_by_pod(answer, {}, [a, b]) == {}
