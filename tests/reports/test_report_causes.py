"""Failures of one cause are one."""

from __future__ import annotations

from functools import partial

import pytest

from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.oracle import ModelOracle
from conformance.results import Difference, Result
from conformance.subjects.miniatures import miniature
from reference import NEWEST
from reports.causes import Cause, causes
from tests.reports.conftest import HOSTILE, fakes
from topologies import machine

MODEL = "After the step “{}” the node is as the model of 1.36 has it"
DIFFERS = "The node differs from the model of 1.36"


def broken(rule: str, *differences: Difference, **changes: object) -> Result:
    failure = fakes.failure(rule=rule, differences=list(differences))
    return fakes.result("fail", failure=failure, **changes)


def sets(what: str, missing: str, unexpected: str) -> Difference:
    return Difference(what=what, expected="1", seen="2", missing=missing, unexpected=unexpected)


def states(what: str, expected: str, seen: str) -> Difference:
    return Difference(what=what, expected=expected, seen=seen)


def only(found: tuple[Cause, ...]) -> Cause:
    [cause] = found
    return cause


def test_pods_cpus_steps_and_machines_make_no_other_cause() -> None:
    results = [
        broken(
            MODEL.format(f"apply Guaranteed pod {pod} (c: {n} CPU)"),
            sets(f"exclusive CPUs {pod}/c", str(n), str(n + 1)),
            scenario=f"area/{pod}",
            machine=fakes.machine(name),
            steps=["one"] * (9 - n),
        )
        for n, (pod, name) in enumerate([("a", "m1"), ("b", "m2"), ("a", "m2")])
    ]
    cause = only(causes(results))
    assert cause.headline == f"{DIFFERS}: exclusive CPUs: not the CPUs expected"
    assert cause.detail == "exclusive CPUs a/c: expected 1, seen 2"
    assert cause.example is results[2]  # the one of the fewest steps
    assert cause.machines == ("m1", "m2")
    assert cause.scenarios == ("area/a", "area/b")


def test_another_promise_another_thing_or_another_direction_is_another_cause() -> None:
    step = MODEL.format("start the kubelet")
    found = causes(
        [
            broken(step, sets("shared pool", "1", "")),
            broken(step, sets("shared pool", "", "1")),
            broken(step, sets("shared pool", "1", "1")),
            broken(step, sets("exclusive CPUs a/c", "1", "1")),
            broken("Reserved CPUs stay in the shared pool", sets("shared pool", "1", "1")),
            broken(step, states("pod a", "running, Guaranteed", "rejected: no room")),
            broken(step, states("pod b", "running, Guaranteed", "pending, Guaranteed")),
            fakes.result("unknown"),
        ]
    )
    assert [cause.headline for cause in found] == [
        "Broken promise: Reserved CPUs stay in the shared pool",
        "the kubelet did not answer within 60 s",
        f"{DIFFERS}: shared pool: CPUs are missing",
        f"{DIFFERS}: shared pool: CPUs too many",
        f"{DIFFERS}: shared pool: not the CPUs expected",
        f"{DIFFERS}: exclusive CPUs: not the CPUs expected",
        f"{DIFFERS}: pod: expected running, seen rejected",
        f"{DIFFERS}: pod: expected running, seen pending",
    ]


@pytest.mark.parametrize(
    ("expected", "seen", "headline"),
    [
        ("gave up: x", "runs", "The kubelet runs, but should have refused to start"),
        ("runs", "gave up with exit status 1: x", "The kubelet does not run, but should"),
        ("answers", "hangs: a pod is pending", "The kubelet hangs"),
        ("down", "ended: signal 9", "The kubelet does not end as it should"),
    ],
)  # fmt: skip
def test_the_kubelet_itself_is_the_headline(expected: str, seen: str, headline: str) -> None:
    """Whatever reason it gives."""
    results = [
        broken("The kubelet refuses to start", states("kubelet", f"{expected}{n}", seen))
        for n in range(2)
    ]
    if expected in ("runs", "answers", "down"):
        results = [broken("any", states("kubelet", expected, seen))]
    assert only(causes(results)).headline == headline


def test_one_text_that_breaks_several_promises_is_one_cause() -> None:
    """A kubelet that sets no quota breaks what every scenario about quotas promises."""
    found = causes(
        [
            broken("The quota is the limit", states("CFS quota of a/c", "150000", "None")),
            broken("It has one", states("CFS quota b/c2", "200000", "None")),
            broken("It has another", states("CFS quota of b/c2", "200000", "100000")),
        ]
    )
    one, other = found
    assert one.headline == ("2 promises are broken by one thing: CFS quota: expected #, seen None")
    assert other.headline == "Broken promise: It has another"


def test_what_was_not_waited_for_in_full_is_the_same_cause() -> None:
    rule = "Reserved CPUs stay in the shared pool"
    waited = " (waited 2 s: 3 full waits before ended with the same differences)"
    found = causes(broken(text) for text in (rule, rule + waited))
    assert only(found).headline == f"Broken promise: {rule}"


def test_what_hits_most_comes_first() -> None:
    found = causes([broken("one"), *(broken("two") for _ in range(3))])
    assert [len(cause.results) for cause in found] == [3, 1]
    assert causes([]) == ()


def test_one_planted_bug_is_one_cause_on_every_machine() -> None:
    """A kubelet that does not look at the CPUs of its state file, in six scenarios."""
    scenarios = (
        "state/of-other-cpus-is-refused", "state/overlap-is-refused",
        "state/reserved-cpus-must-be-shared", "machine/added-cpus-are-refused",
        "machine/removed-cpus-are-refused", "options/strict-refuses-an-older-file",
    )  # fmt: skip
    results = []
    oracle = partial(ModelOracle, release=NEWEST)
    for name in ("1s-1n-8c-smt2", "2s-2n-16c-smt2", "2s-4n-64c-smt2"):
        subject = miniature("trusts-its-state")
        for one in scenarios:
            scenario = find(one)
            assert scenario is not None
            case = Case(scenario, machine(name))
            results.append(judge(case, subject, oracle=oracle, release=NEWEST).result)
    assert {result.verdict for result in results} == {"fail"}
    cause = only(causes(results))
    assert cause.headline == "The kubelet runs, but should have refused to start"
    assert cause.scenarios == scenarios
    assert len(cause.machines) == 3


def test_hostile_text_is_one_bounded_line() -> None:
    what = states(HOSTILE, HOSTILE, HOSTILE * 100)
    cause = only(causes([broken(HOSTILE * 100, what)]))
    for text in (cause.headline, cause.detail):
        assert len(text) <= 240
        assert text.isprintable()


def test_the_shortest_history_shows_it_whatever_its_level() -> None:
    steps = ["start the kubelet", "apply Guaranteed pod a (c: 2 CPU)"]
    long = fakes.result("fail", steps=[*steps, "delete pod a"])
    short = fakes.result("fail", steps=steps, level="extended")
    also = fakes.result("fail", steps=steps)
    assert causes([long, short])[0].example is short
    assert causes([long, short, also])[0].example is also
