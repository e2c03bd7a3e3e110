"""What failures share and passes lack is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from conformance.results import Difference, Result
from reference.steps import Apply, Container, Pod, PodResources, RestartPolicy
from reports.causes import causes, otherwise
from reports.contrast import explained
from reports.traits import traits
from tests.reports.conftest import HOSTILE, fakes

PLAIN = "on m, with policy static, reservedSystemCPUs 0"
STATIC = f"{PLAIN}, option full-pcpus-only=true, Topology Manager restricted"
START, STOP = "start the kubelet", "stop the kubelet (SIGTERM)"
POD = "apply Guaranteed pod a (c: 2 CPU)"
OVER = "the kubelet starts over an existing state file"
#: The kubelet is stopped and started again.
AGAIN = (PLAIN, START, POD, STOP, START)
OTHERWISE = "The kubelet ran with other settings than it was given: "


def with_steps(verdict: str, *steps: str, rule: str = "", **changes: object) -> Result:
    what = Difference(what=rule or "kubelet", expected="gave up", seen="runs")
    failure = fakes.failure(rule=rule or "any", differences=[what]) if verdict == "fail" else None
    return fakes.result(verdict, failure=failure, steps=list(steps), **changes)


def failures(rules: Iterable[str], *steps: str, **changes: object) -> list[Result]:
    """A failure for each promise; after the same steps."""
    return [with_steps("fail", *steps, rule=rule, **changes) for rule in rules]


def passes(count: int, *steps: str) -> list[Result]:
    return [with_steps("pass", *steps) for _ in range(count)]


def found(*steps: str) -> frozenset[str]:
    return traits(with_steps("pass", *steps))


def test_a_history_is_told_by_what_decides() -> None:
    assert OVER not in found(PLAIN, START, POD)
    assert OVER in found(PLAIN, START, POD, STOP, START)
    assert OVER in found(PLAIN, 'write the state file: {"policyName":"none"}', START)
    assert OVER not in found(PLAIN, START, STOP, "remove the state file", START)
    assert "the machine's CPUs change" in found(PLAIN, START, "reboot the machine as n")


def test_configuration_and_pods_are_told() -> None:
    pod = "apply Burstable pod a (init setup: 2 CPU; sidecar s: 500m CPU; main: 1 CPU)"
    assert found(STATIC, START, pod) >= {
        "the option full-pcpus-only is set",
        "the Topology Manager's policy is restricted",
        "a Burstable pod is applied",
        "a pod has an init container",
        "a pod has a sidecar",
        "a pod has several containers",
        "a container asks for a part of a CPU",
    }


def test_four_looks_of_one_fault_are_one_cause() -> None:
    """The shortest history shows it, and the figures say how sure it is."""
    failed = failures("abcd", *AGAIN)
    failed += failures("e", PLAIN, "write the state file: x", START)
    passed = passes(20, PLAIN, START, POD) + passes(2, *AGAIN)
    [cause] = causes(failed, passed)
    assert cause.headline == f"It fails where {OVER}"
    assert cause.example is failed[-1]
    assert cause.detail.startswith("5 of 7 such results failed, and none of 20 others.")
    assert "Broken promise: b (1)" in cause.detail


def test_two_faults_stay_two_causes() -> None:
    failed = failures(["one"] * 4, *AGAIN) + failures(["two"] * 3, STATIC, START, POD)
    passed = passes(30, PLAIN, START, POD)
    first, second = causes(failed, passed)
    assert first.headline == "Broken promise: one"
    stopped = "the kubelet is stopped (SIGTERM)"
    assert f"It fails where {stopped}, and {OVER}: 4 of 4 such results failed" in first.detail
    # The two always come together: either may be the cause.
    both = "the Topology Manager's policy is restricted, and the option full-pcpus-only is set"
    assert f"It fails where {both}: 3 of 3 such results failed" in second.detail


def test_what_passes_share_as_well_explains_nothing() -> None:
    failed = failures([""] * 5, *AGAIN)
    assert explained([failed], passes(30, *AGAIN)) == []
    assert explained([failed], []) == []


def test_two_failures_have_too_much_in_common_by_chance() -> None:
    failed = failures([""] * 2, STATIC, START)
    assert explained([failed], passes(30, PLAIN, START)) == []


def test_another_setting_in_effect_is_the_cause() -> None:
    """Whatever it makes fail."""
    evidence = "in effect: policy static, reservedSystemCPUs 1\nlast"
    [cause] = causes(failures("abc", PLAIN, START, evidence=evidence))
    assert cause.headline == f"{OTHERWISE}reservedSystemCPUs 1 (given: 0)"


def test_hostile_steps_do_no_harm() -> None:
    odd = f"on {HOSTILE}, with policy {HOSTILE}, option {HOSTILE}"
    for cause in causes(failures("abc", odd, START), passes(30, PLAIN, START)):
        assert cause.headline.isprintable()
        assert cause.detail.isprintable()
        assert len(cause.detail) <= 1200


def test_a_pass_without_its_story_has_that_of_its_scenario() -> None:
    """A stream tells the story of a scenario's first pass, and none of the other passes."""
    failed = [
        with_steps("fail", *AGAIN, rule=rule, machine=fakes.machine(f"m{n}"))
        for n, rule in enumerate("abcdefgh")
    ]
    passed = []
    for scenario, count, steps in ("restart", 9, AGAIN), ("pod", 29, (PLAIN, START, POD)):
        passed.append(with_steps("pass", *steps, scenario=scenario))
        passed += [
            with_steps("pass", scenario=scenario, machine=fakes.machine(f"m{n}"))
            for n in range(count)
        ]
    [(contrast, _)] = explained([failed], passed)
    assert OVER in contrast.trait
    assert contrast.figures == "8 of 18 such results failed, and none of 30 others"


def test_how_the_kubelet_ended_is_told() -> None:
    """A fork may go wrong where it ends in good order, and only there."""
    kill = "kill the kubelet (SIGKILL)"
    ends = {"the kubelet is stopped (SIGTERM)": STOP, "the kubelet is killed (SIGKILL)": kill}
    for trait, step in ends.items():
        assert ends.keys() & found(PLAIN, START, POD, step) == {trait}


def test_an_option_is_told_by_its_name() -> None:
    """Whichever value it is set to: a kubelet that loses an option loses it with each."""
    for word in ("true", "TRUE", "on"):
        told = found(f"{PLAIN}, option full-pcpus-only={word}")
        assert "the option full-pcpus-only is set" in told
    more = "Topology Manager option closest=true, gate One=True, gate Other=False"
    assert found(f"{PLAIN}, option full-pcpus-only=false, {more}") >= {
        "the option full-pcpus-only is set to false",
        "the Topology Manager's option closest is set",
        "the feature gate One is on",
        "the feature gate Other is off",
    }


def test_what_other_settings_make_fail_is_counted_by_how_it_looks() -> None:
    """One that looks otherwise lends its look to no other, and what else they share is told."""
    scoped = f"{PLAIN}, Topology Manager scope pod"
    evidence = "in effect: policy static, Topology Manager scope container"
    (refused,) = failures([""], scoped.replace("pod", "node"), START, evidence=evidence)
    other = failures("abcd", scoped, START, POD, evidence=evidence)
    [cause] = causes([refused, *other], passes(30, PLAIN, START, POD))
    assert cause.looks == {
        "The kubelet runs, but should have refused to start": 1,
        **{f"Broken promise: {n}": 1 for n in "abcd"},
    }
    assert cause.example is refused  # the shortest history
    assert cause.headline == f"{OTHERWISE}Topology Manager scope container (given: pod or node)"
    assert cause.detail.startswith("It looks like this: ")


def test_another_setting_and_a_trait_are_both_told() -> None:
    evidence = "in effect: policy static, Topology Manager scope container"
    scoped = f"{PLAIN}, Topology Manager scope pod"
    failed = failures("abcd", scoped, START, POD, evidence=evidence)
    [cause] = causes(failed, passes(30, PLAIN, START, POD))
    assert cause.headline.startswith(OTHERWISE)
    assert cause.detail.startswith(
        "It fails where the Topology Manager's scope is pod: "
        "4 of 4 such results failed, and none of 30 others. It looks like this: "
    )


def test_settings_of_a_part_are_not_the_cause_of_all() -> None:
    """Nor do they go untold where the shortest history has no log."""
    evidence = "in effect: policy static, reservedSystemCPUs 1"
    odd = failures(["other"], *AGAIN, evidence=evidence)
    passed = passes(30, PLAIN, START, POD)
    told = causes([*failures("abcdef", *AGAIN), *odd], passed)
    assert "settings" not in told[0].headline
    mostly = failures("abcdef", *AGAIN, evidence=evidence)
    (short,) = failures("z", PLAIN, 'write the state file: {"x":1}', START)
    [cause] = causes([*mostly, short], passed)
    assert cause.example is short
    assert "reservedSystemCPUs 1 (given: 0)" in cause.headline


def test_one_look_of_nearly_all_is_the_headline() -> None:
    failed = failures([*[""] * 9, "another"], *AGAIN)
    passed = passes(30, PLAIN, START, POD) + passes(9, PLAIN, START, POD, STOP)
    [cause] = causes(failed, passed)
    assert cause.headline == (f"The kubelet runs, but should have refused to start, where {OVER}")


def test_a_pool_that_changes_under_a_running_container_is_told() -> None:
    """It is what a kubelet has to follow with the cpusets of running containers."""
    changes = "the shared pool changes while a container runs in it"
    shared = "apply BestEffort pod shared (c: no cpu request)"
    part = "apply Guaranteed pod part (c: 500m CPU)"
    for steps in ([shared, POD], [part, POD], [POD, shared, "delete pod a"]):
        assert changes in found(PLAIN, START, *steps)
    for steps in ([POD, shared], [shared, part], [shared], [POD, "delete pod a"]):
        assert changes not in found(PLAIN, START, *steps)
    gone = [POD, shared, "delete pod shared", "apply Guaranteed pod b (c: 2 CPU)", "delete pod a"]
    assert changes not in found(PLAIN, START, *gone)
    none = PLAIN.replace("static", "none")
    assert changes not in found(none, START, shared, POD)


def test_what_a_pod_is_told_with_is_no_container() -> None:
    """Its own resources and its restart policy stand beside its containers; the words are those
    of a step."""
    several, own = "a pod has several containers", "a pod has resources of its own"
    one = Container("c", cpu_request="1", cpu_limit="1")
    of_pod = PodResources(cpu_request="2", cpu_limit="2")

    def told(*containers: Container, **changes: Any) -> frozenset[str]:
        return found(PLAIN, START, Apply(Pod("a", containers, **changes)).sentence)

    assert told(one) & {several, own} == set()
    assert told(one, replace(one, name="d")) & {several, own} == {several}
    assert told(one, resources=of_pod) & {several, own} == {own}
    assert told(one, resources=PodResources()) & {several, own} == {own}
    never = told(one, restart_policy=RestartPolicy.NEVER)
    assert several not in never
    assert "a pod's restart policy is Never" in never
    marked = told(
        one,
        labels=(("tier", "x"),),
        annotations=(("why", "y"),),
        restart_policy=RestartPolicy.NEVER,
    )
    assert {"a pod has the label tier=x", "a pod has the annotation why=y"} <= marked
    assert several not in marked
    assert "a pod's restart policy is Never" in marked
    assert "a container asks for a device" in told(replace(one, devices=(("a.io/gpu", 2),)))
    assert "a container asks for a device" not in told(one)


def test_what_may_be_chance_is_no_cause() -> None:
    """Three failures share one of many traits that a third of the passes have, too."""
    extras = ("delete pod x", "wait for a reconcile round", "apply Burstable pod b (c: 500m CPU)")
    failed = failures("abc", PLAIN, START, extras[0])
    passed = [one for extra in extras for one in passes(30, PLAIN, START, extra)]
    assert explained([[one] for one in failed], passed) == []
    sure = failures("abcdefghi", PLAIN, START, extras[0])
    [(contrast, places)] = explained([[one] for one in sure], passed)
    assert contrast.trait == "a pod is deleted"
    assert len(places) == 9


def test_settings_that_are_lost_by_turns_are_one_cause() -> None:
    """Each result has lost another option, and none of them is that of most."""

    def lost(*options: str) -> str:
        return otherwise([
            with_steps(
                "fail", f"{PLAIN}, option {name}=true", evidence="in effect: policy static"
            )
            for name in options
        ])  # fmt: skip

    assert lost("one", "one", "two", "two") == (
        f"{OTHERWISE}option one not set (given: true), option two not set (given: true)"
    )
    assert lost(*(f"o{n}" for n in range(9))).endswith(", option o2 not set (given: true)")
