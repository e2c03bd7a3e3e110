"""Why a container has CPUs of its own, or none: docs/facts 5.2 and 5.7."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conformance import strategies
from conformance.discovered import info_of
from reference import CPUSet, Node, NotModelled
from reference.kubelet.admission import fault_of, fault_of_whole
from reference.kubelet.configuration import reserving
from reference.kubelet.reasons import Rule, reason_for, reason_of_refusal
from reference.pods.pod_level_resources import as_decoded
from reference.steps import Apply, Container, Kind, KubeletConfig, Pod, PodResources, Start
from reference.view import Phase, PodView, View
from tests.reference.nodes import do, tree

CONFIG: Final = KubeletConfig(reserved_system_cpus=CPUSet([0]))
ON: Final = {"PodLevelResourceManagers": True}
OFF: Final = replace(CONFIG, feature_gates={"PodLevelResources": False})
WHOLE_CORES: Final = replace(CONFIG, policy_options={"full-pcpus-only": "true"})
ONE_NODE: Final = replace(CONFIG, topology_manager_policy="single-numa-node")
#: The last minor in which the CPUs of an init container return when it has ended.
INIT_CPUS_RETURN_UNTIL: Final = 17


def like(name: str, cpu: str, kind: Kind = Kind.APP) -> Container:
    """A container whose limits are its requests."""
    return Container(name, cpu, cpu, "1Mi", "1Mi", kind)


def text_of(pod: Pod, config: KubeletConfig = CONFIG, release: str = "1.36") -> str:
    """The reason of its last container."""
    return reason_for(pod, pod.containers[-1], config, release=release).text


TWO: Final = Pod("p", (like("c", "2"),))
WHOLE: Final = replace(TWO, resources=PodResources("4", "4", "1Gi", "1Gi"))
AFTER_INIT: Final = Pod("p", (Container("i", kind=Kind.INIT), like("c", "2")))
TWO_CPUS: Final = "the pod is Guaranteed and asks for 2 CPUs here"


def of(*containers: Container) -> Pod:
    return Pod("p", containers)


@pytest.mark.parametrize(
    ("pod", "config", "release", "rule", "text"),
    [
        (TWO, CONFIG, "1.36", Rule.WHOLE_CPUS, TWO_CPUS),
        (of(like("c", "1.5")), CONFIG, "1.36", Rule.WHOLE_CPUS, "1.5 CPUs is not a whole number"),
        (of(Container("c")), CONFIG, "1.36", Rule.GUARANTEED_POD,
         "the pod is BestEffort: no container has a request or a limit"),
        (of(Container("c", "2", "2")), CONFIG, "1.36", Rule.GUARANTEED_POD,
         "the pod is Burstable: container c has no memory limit"),
        (of(Container("c", "2", None, "1Mi", "1Mi")), CONFIG, "1.36", Rule.GUARANTEED_POD,
         "the pod is Burstable: container c has no cpu limit"),
        (of(Container("c", "1", "2", "1Mi", "1Mi")), CONFIG, "1.36", Rule.GUARANTEED_POD,
         "the pod is Burstable: container c has cpu limit 2 and request 1"),
        (of(Container("i", "1", "1", kind=Kind.INIT), like("c", "2")), CONFIG, "1.36",
         Rule.GUARANTEED_POD, "the pod is Burstable: init container i has no memory limit"),
        (of(Container("a"), Container("c", "2", "2")), CONFIG, "1.36", Rule.GUARANTEED_POD,
         "the pod is Burstable: container c has no memory limit"),
        # Up to 1.15 init containers do not count.
        (AFTER_INIT, CONFIG, "1.15", Rule.WHOLE_CPUS, TWO_CPUS),
        (TWO, KubeletConfig("none"), "1.36", Rule.POLICY_NONE,
         "the CPU manager's policy is none"),
        # Pod-level resources
        (WHOLE, CONFIG, "1.31", Rule.WHOLE_CPUS, TWO_CPUS),
        (WHOLE, CONFIG, "1.34", Rule.POD_LEVEL,
         "the pod has pod-level resources, and 1.34 pins no such pod"),
        (WHOLE, CONFIG, "1.36", Rule.POD_LEVEL,
         "the pod has pod-level resources, and feature gate PodLevelResourceManagers is off"),
        (WHOLE, replace(CONFIG, feature_gates=ON), "1.36", Rule.WHOLE_CPUS, TWO_CPUS),
    ],
)  # fmt: skip
def test_the_reason_in_words(
    pod: Pod, config: KubeletConfig, release: str, rule: Rule, text: str
) -> None:
    reason = reason_for(pod, pod.containers[-1], config, release=release)
    assert (reason.rule, reason.text) == (rule, text)
    if rule is Rule.POLICY_NONE:
        assert reason.cpus == 0


def test_since_1_16_init_containers_count() -> None:
    for release, cpus in (("1.15", 2), ("1.16", 0)):
        assert reason_for(AFTER_INIT, like("c", "2"), CONFIG, release=release).cpus == cpus


def test_a_pool_of_the_pods_own() -> None:
    """Topology Manager scope pod, with the gate on."""
    config = replace(CONFIG, feature_gates=ON, topology_manager_policy="restricted",
                     topology_manager_scope="pod")  # fmt: skip
    whole = PodResources("4", "4", "1Gi", "1Gi")
    pod = Pod("p", (like("c", "2"), Container("d")), resources=whole)
    assert text_of(pod, config) == "shares what is left of the 4 CPUs of the pod"
    assert reason_for(pod, pod.containers[0], config).text == "2 of the 4 CPUs of the pod"
    unaligned = replace(config, topology_manager_policy="none")  # which has no scope
    assert text_of(pod, unaligned) == "it has no cpu limit"
    uneven = replace(pod, resources=replace(whole, cpu_request="3.5", cpu_limit="3.5"))
    assert text_of(uneven, config) == "the pod-level cpu request 3.5 is not a whole number"
    loose = replace(pod, resources=replace(whole, memory_limit=None))
    assert text_of(loose, config) == "the pod is Burstable: as a whole it has no memory limit"


# -- held against the model --------------------------------------------------------------------

amounts = st.sampled_from([None, "0", "1", "2", "500m", "2000m", "1500m"])
resources = st.tuples(amounts, amounts, amounts, amounts)


@st.composite
def any_pods(draw: st.DrawFn) -> Pod:
    """Pods with any mixture of requests and limits that a kubelet takes up."""
    kinds = [*draw(st.lists(st.sampled_from([Kind.INIT, Kind.SIDECAR]), max_size=2)), Kind.APP]
    kinds += [Kind.APP] * draw(st.integers(0, 1))
    parts = [Container(f"c{at}", *draw(resources), kind) for at, kind in enumerate(kinds)]
    whole = draw(st.none() | st.builds(PodResources, amounts, amounts, amounts, amounts))
    pod = Pod("p", tuple(parts), resources=whole)
    assume(not fault_of(pod))
    return pod


def every_pod() -> SearchStrategy[Pod]:
    name = st.just("p")
    return any_pods() | strategies.pods(names=name) | strategies.pod_level_pods(names=name)


configs = st.builds(
    KubeletConfig,
    policy=st.sampled_from(["static", "static", "static", "none"]),
    topology_manager_policy=st.sampled_from(["none", "best-effort"]),
    topology_manager_scope=st.sampled_from(["container", "pod"]),
)


def settings(config: KubeletConfig, release: str, managers: bool) -> KubeletConfig:
    """The configuration with one CPU reserved, without what the release does not know."""
    known = int(release.removeprefix("1."))
    return replace(
        reserving(CPUSet([0]), release=release),
        policy=config.policy,
        topology_manager_policy=config.topology_manager_policy if known >= 18 else "none",
        topology_manager_scope=config.topology_manager_scope if known >= 20 else "container",
        feature_gates=ON if managers and known >= 36 else {},
    )


def after(pod: Pod, config: KubeletConfig, release: str) -> View:
    node = Node(tree, "4s-4n-48c-smt2", config, release=release, discovering=info_of)
    started = do(node, Start())
    assert started.running, started.error
    return do(node, Apply(pod))


#: Every release, and often those in which pods with pod-level resources may have CPUs.
releases = strategies.releases(first=9) | st.sampled_from(["1.36", "1.37"])


@given(every_pod(), configs, releases, st.booleans())
def test_the_reason_says_exclusive_where_the_model_gives_cpus(
    pod: Pod, config: KubeletConfig, release: str, managers: bool
) -> None:
    """Over all releases: who has CPUs in the state file has as many as the reason says, or a share
    of its pod's; everybody else has none by the reason too."""
    config = settings(config, release, managers)
    assume(not fault_of_whole(as_decoded(pod, config.feature_gates, release=release)))
    view = after(pod, config, release)
    if view.pods["p"].phase is Phase.REJECTED:
        assert reason_of_refusal(view.pods["p"]).rule is Rule.POD_LEVEL_MANAGERS
        return
    held = view.assignments.get("p", {})
    for one in pod.containers:
        reason = reason_for(pod, one, config, release=release)
        if one.name not in held:
            ended = one.kind is not Kind.APP and int(release[2:]) <= INIT_CPUS_RETURN_UNTIL
            assert reason.cpus == 0 or ended, reason
            assert not reason.text.startswith("shares what is left of the ")
        elif reason.cpus:
            assert len(held[one.name]) == reason.cpus
        else:
            assert reason.text.startswith("shares what is left of the ")


@given(every_pod(), configs, strategies.releases(first=8))
def test_every_reason_is_said_in_one_line(pod: Pod, config: KubeletConfig, release: str) -> None:
    for one in pod.containers:
        reason = reason_for(pod, one, config, release=release)
        assert reason.text.isprintable()
        assert reason.rule.url.startswith("https://")
        assert "its requests are not its limits" not in reason.text


@pytest.mark.parametrize(
    ("cpu", "config", "release", "rule", "text"),
    [
        ("96", CONFIG, "1.36", Rule.FREE_CPUS, "a container asks for more CPUs than are free"),
        ("1", WHOLE_CORES, "1.36", Rule.WHOLE_CORES,
         "a request is not a whole number of physical cores"),
        ("96", WHOLE_CORES, "1.36", Rule.WHOLE_CORES, "too few whole physical cores are free"),
        ("30", ONE_NODE, "1.36", Rule.ALIGNMENT,
         "what it requests cannot lie on the NUMA nodes that it must lie on"),
        ("30", ONE_NODE, "1.20", Rule.ALIGNMENT,
         "what it requests cannot lie on the NUMA nodes that it must lie on"),
        ("95.5", CONFIG, "1.36", Rule.NODE_CPUS,
         "the pod asks for more cpu than the node has left"),
        ("95.5", KubeletConfig(system_reserved="1"), "1.15", Rule.NODE_CPUS,
         "the pod asks for more cpu than the node has left"),
    ],
)  # fmt: skip
def test_why_a_pod_is_refused(
    cpu: str, config: KubeletConfig, release: str, rule: Rule, text: str
) -> None:
    view = after(Pod("p", (like("c", cpu),)), config, release)
    assert view.pods["p"].phase is Phase.REJECTED
    reason = reason_of_refusal(view.pods["p"])
    assert (reason.rule, reason.text) == (rule, text)


def test_a_pod_with_pod_level_resources_is_refused_in_words_of_its_own() -> None:
    """By the Topology Manager."""
    resources = PodResources("30", "30", "1Gi", "1Gi")
    pod = Pod("p", (like("c", "30"),), resources=resources)
    view = after(pod, replace(ONE_NODE, feature_gates=ON), "1.36")
    assert "pod-level resources" in view.pods["p"].message
    assert reason_of_refusal(view.pods["p"]).rule is Rule.ALIGNMENT


def test_cpus_that_are_free_and_cannot_be_given() -> None:
    """As on uneven machines."""
    view = PodView(Phase.REJECTED, "UnexpectedAdmissionError",
                   "Pod was rejected: Allocate failed due to failed to allocate cpus, which is "
                   "unexpected")  # fmt: skip
    assert reason_of_refusal(view).text == "the free CPUs cannot be handed out in this number"


def test_what_the_model_does_not_know_it_does_not_explain() -> None:
    pod = Pod("p", (like("c", "2"),), resources=PodResources("4", "4"))
    with pytest.raises(NotModelled):
        reason_for(pod, pod.containers[0], OFF)
