"""The promises: each is seen to be broken, and none by a node that does as it should."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

import topologies
from conformance.discovered import topology_of
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.promises import (
    PROMISES,
    Situation,
    broken_in_step,
    histories,
    placement,
    promise_of,
)
from conformance.subject import Capability
from reference import CPUSet, Node
from reference.steps import Apply, Delete, Kind, KubeletConfig, Start, Step, Stop
from reference.view import Phase, PodView, View

_MACHINE: Final = topologies.machine("1s-1n-4c-smt2")


def situation(
    config: KubeletConfig, *pods: str, machine: str = "", release: str = "1.37"
) -> Situation:
    """Pods ``a`` and ``b`` ask for two CPUs, ``s`` for none; CPU 0 is reserved."""
    kinds = {"a": guaranteed("a", 2), "b": guaranteed("b", 2), "s": best_effort("s")}
    found = topology_of(topologies.machine(machine) if machine else _MACHINE, release=release)
    return Situation(
        config=config,
        pods={name: kinds[name] for name in pods},
        cpus=found.cpus,
        reserved=CPUSet([0]),
        can=frozenset(Capability),
        release=release,
        topology=found,
    )


def config(**settings: object) -> KubeletConfig:
    """CPU 0 is reserved."""
    return replace(KubeletConfig(reserved_system_cpus=CPUSet([0])), **settings)  # type: ignore[arg-type]


def view(pool: str, phase: Phase = Phase.RUNNING, **held: str) -> View:
    """Each pod holds these CPUs in a container ``c``, which runs."""
    sets = {name: {"c": CPUSet.parse(cpus)} for name, cpus in held.items()}
    return View(
        running=True,
        pods={name: PodView(phase, "Why", "because") for name in held},
        assignments=sets if phase is Phase.RUNNING else {},
        cpusets=dict(sets),
        shared_pool=CPUSet.parse(pool),
    )


EMPTY: Final = view("0-7")
HELD: Final = view("0-3,6-7", a="4-5")
A: Final = Apply(guaranteed("a", 2))
APART: Final = view("0-2,5-7", a="3-4")


HALVES: Final = "1s-2n-8c-smt1"


@pytest.mark.parametrize(
    ("machine", "before", "step", "after", "with_", "rule"),
    [
        ("", EMPTY, A, replace(view("0-7"), hangs="it searches"), {}, histories.ANSWERS),
        ("", EMPTY, Start(), View(running=False, error="bad"), {}, histories.STARTS_AGAIN),
        ("", HELD, Start(), view("0-7", Phase.REJECTED, a="4-5"), {}, histories.GOES_ON),
        ("", HELD, Start(), view("0-5", a="6-7"), {}, histories.KEEPS_CPUS),
        ("", EMPTY, Start(), view("0-3,7", a="4-6"), {}, histories.BOOKED_AS_ASKED),
        ("", EMPTY, A, view("0-7", Phase.REJECTED, a="4-5"), {}, histories.ADMITTED),
        (
            "", EMPTY, A, view("0,2-4,6-7", a="1,5"),
            {"policy_options": {"distribute-cpus-across-cores": "true"}}, placement.OVER_CORES,
        ),
        (
            "", EMPTY, A, view("0,3-7", a="1-2"),
            {"policy_options": {"full-pcpus-only": "true"}}, placement.WHOLE_CORES,
        ),
        # CPUs 3 and 4 lie in two NUMA nodes, sockets or uncore caches, of which each has two free.
        (
            HALVES, EMPTY, A, APART,
            {"topology_manager_policy": "single-numa-node"}, placement.ONE_NUMA,
        ),
        (
            HALVES, EMPTY, A, APART,
            {"topology_manager_policy": "best-effort"}, placement.ONE_NUMA_IF_IT_FITS,
        ),
        (
            "2s-2n-8c-smt1", EMPTY, A, APART,
            {
                "topology_manager_policy": "best-effort",
                "policy_options": {"align-by-socket": "true"},
            },
            placement.ONE_SOCKET,
        ),
        (
            "1s-1n-8c-smt1-l3x2", EMPTY, A, APART,
            {"policy_options": {"prefer-align-cpus-by-uncorecache": "true"}}, placement.ONE_CACHE,
        ),
    ],
)  # fmt: skip
def test_a_broken_promise_is_named(
    machine: str, before: View, step: Step, after: View, with_: dict[str, object], rule: str
) -> None:
    """The rule, and the promise that it belongs to."""
    judged = situation(config(**with_), "a", machine=machine)
    assert [one.rule for one in broken_in_step(before, step, after, judged)] == [rule]
    assert promise_of(rule) in PROMISES


def test_an_uneven_share_is_seen() -> None:
    """Five CPUs of one NUMA node and three of the other, where each had room for four."""
    judged = situation(
        config(policy_options={"distribute-cpus-across-numa": "true"}),
        "a",
        machine="2s-2n-12c-smt1",
    )
    wide = replace(judged, pods={"a": guaranteed("a", 8)})
    step = Apply(guaranteed("a", 8))
    found = broken_in_step(view("0-11"), step, view("0,7-8,11", a="1-5,6,9-10"), wide)
    assert [one.rule for one in found] == [placement.EVEN_OVER_NUMA]


def test_a_deleted_pod_holds_nothing() -> None:
    """Nobody is left, and CPUs are."""
    found = broken_in_step(
        view("0-3,6-7", a="4-5"), Delete("a"), view("0-3,6-7", a="4-5"), situation(config())
    )
    assert [one.rule for one in found] == [histories.AS_NEW]


def test_a_pod_that_does_not_fit_may_be_refused() -> None:
    """Four of seven CPUs are taken, and four are asked for."""
    judged = situation(config(), "a", "b")
    full = replace(judged, pods={"b": guaranteed("b", 4), "a": guaranteed("a", 4)})
    before = view("0-3", b="4-7")
    after = replace(view("0-3", b="4-7"), pods={**before.pods, "a": PodView(Phase.REJECTED)})
    assert broken_in_step(before, Apply(guaranteed("a", 4)), after, full) == []


def test_a_released_kubelet_breaks_and_its_fix_keeps_the_promise() -> None:
    """Kubernetes/kubernetes#112228: the model of 1.37 books three CPUs for a pod that asks for
    two at most."""
    parts = [exclusive("i", 1, kind=Kind.INIT), exclusive("c", 2)]
    pod = guaranteed_of("a", parts)
    node = Node(lambda _: _MACHINE.tree, _MACHINE.name, config(), release="1.37")
    node.do(Start())
    before = node.view()
    node.do(Apply(pod))
    judged = replace(situation(config()), pods={"a": pod})
    found = broken_in_step(before, Apply(pod), node.view(), judged)
    assert [one.rule for one in found] == [histories.BOOKED_AS_ASKED]
    plain = guaranteed("b", 2)
    node = Node(lambda _: _MACHINE.tree, _MACHINE.name, config(), release="1.37")
    for step in (Start(), Apply(plain), Stop(), Start()):
        before = node.view()
        node.do(step)
        judged = replace(situation(config()), pods={"b": plain})
        assert broken_in_step(before if before.running else None, step, node.view(), judged) == []


def test_promises_have_ids_of_their_own() -> None:
    """And sentences, and sources."""
    assert len({one.id for one in PROMISES}) == len({one.rule for one in PROMISES}) == len(PROMISES)
    assert all(one.source.url.startswith("https://") for one in PROMISES)


def test_a_promise_is_made_from_one_release_to_another() -> None:
    """Both included; without a last one it still is."""
    made = replace(PROMISES[0], since="1.22", until="1.30")
    releases = ("1.9", "1.21", "1.22", "1.30", "1.31")
    assert [made.is_made_for(one) for one in releases] == [False, False, True, True, False]
    still = replace(made, until="")
    assert [still.is_made_for(one) for one in releases] == [False, False, True, True, True]
