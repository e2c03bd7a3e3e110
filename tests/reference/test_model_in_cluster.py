"""The model of pods that come through an API server: resizes in place, ephemeral containers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from conformance.pods import burstable, exclusive, guaranteed
from reference import CPUSet, IllegalStep, NotModelled
from reference.cpumanager.metrics import ADMISSIONS
from reference.steps import (
    AddEphemeral,
    Apply,
    AskMetrics,
    Configure,
    Container,
    KillContainer,
    KubeletConfig,
    Pod,
    PodResources,
    Reboot,
    Resize,
    RestartPolicy,
    Step,
    Stop,
)
from reference.view import Phase
from tests.reference import nodes
from tests.reference.nodes import do

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]), api_server=True)
EXCLUSIVE = {"InPlacePodVerticalScalingExclusiveCPUs": True}
UNALIGNED = "Resources cannot be allocated with Topology locality"
STATIC = (
    'Infeasible: Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
)


node = partial(nodes.booted, config=CONFIG)


def test_an_infeasible_resize_changes_nothing_but_the_answer() -> None:
    """And a resize back clears the answer."""
    made = node(Apply(guaranteed("a", 2)))
    before = made.view()
    after = do(made, Resize(guaranteed("a", 3)))
    assert after.pods["a"].resize == STATIC
    assert replace(after, pods=before.pods) == before
    assert after.cfs == before.cfs
    assert do(made, Resize(guaranteed("a", 2))).pods["a"].resize == ""


def test_up_to_1_32_no_message_is_shown() -> None:
    on = replace(CONFIG, feature_gates={"InPlacePodVerticalScaling": True})
    made = node(Apply(guaranteed("a", 2)), Resize(guaranteed("a", 3)), config=on, release="1.32")
    assert made.view().pods["a"].resize == "Infeasible"


@pytest.mark.parametrize("gates", [{}, EXCLUSIVE])
@pytest.mark.parametrize("sizes", [["2"], ["2000m"], ["3", "2"]])
def test_a_pod_that_asks_for_what_it_has_is_not_admitted_again(
    sizes: list[str], gates: dict[str, bool]
) -> None:
    """Seen of 1.36.4: it counts no admission more, however the size is spelled."""
    pods = [replace(guaranteed("a", 2), containers=(_sized(one),)) for one in sizes]
    steps: list[Step] = [Apply(guaranteed("a", 2)), *map(Resize, pods), AskMetrics()]
    made = node(*steps, config=replace(CONFIG, feature_gates=gates))
    counted = made.view().metrics or {}
    granted = 1 if len(sizes) == 2 and gates else 0
    assert counted["kubelet_topology_manager_admission_requests_total"] == 1 + 2 * granted
    assert made.view().pods["a"].resize == ""


def _sized(cpu: str) -> Container:
    (one,) = guaranteed("a", 2).containers
    return replace(one, cpu_request=cpu, cpu_limit=cpu)


def test_a_pod_that_has_ended_waits_for_no_size() -> None:
    """Its status does not say any more why a resize was not granted (seen on 1.36.4)."""
    never, larger = (
        replace(burstable("b", request=cpus, limit="6"), restart_policy=RestartPolicy.NEVER)
        for cpus in ("1", "5")
    )
    made = node(Apply(guaranteed("a", 2)), Apply(never), Resize(larger))
    assert made.view().pods["b"].resize
    ended = do(made, KillContainer("b", "c")).pods["b"]
    assert (ended.phase, ended.resize) == (Phase.ENDED, "")


@pytest.mark.parametrize(("release", "known"), [("1.34", True), ("1.36", False), ("1.37", False)])
def test_since_1_35_a_kubelet_tries_a_deferred_resize_again_whenever_a_status_changes(
    release: str, known: bool
) -> None:
    """Each time is an admission that it counts."""
    large = Resize(burstable("b", request="7", limit="7"))
    small = Apply(burstable("b", request="1", limit="6"))
    view = node(small, large, AskMetrics(), release=release).view()
    assert (ADMISSIONS in (view.metrics or {})) is known


def test_a_pod_from_an_api_server_is_not_critical() -> None:
    """So it is refused in plain words where the node has no CPUs left."""
    pods = (burstable(name, request=cpus, limit="6") for name, cpus in (("a", "5"), ("b", "2")))
    view = node(*map(Apply, pods)).view().pods["b"]
    assert (view.phase, view.reason) == (Phase.REJECTED, "OutOfcpu")
    assert view.message.endswith("requested: 2000, used: 5000, capacity: 6000")


@pytest.mark.parametrize(
    ("release", "answer"), [("1.34", ""), ("1.36", f"Deferred: {UNALIGNED}"), ("1.37", "")]
)
def test_who_asks_the_topology_manager_about_a_resize(release: str, answer: str) -> None:
    """1.35 and 1.36 do, with the size that is asked for."""
    config = replace(CONFIG, topology_manager_policy="restricted", feature_gates=EXCLUSIVE)
    steps = (Apply(guaranteed("a", 2)), Resize(guaranteed("a", 3)))
    view = node(*steps, config=config, release=release).view()
    assert view.pods["a"].resize == answer
    assert len(view.assignments["a"]["c"]) == 2


@pytest.mark.parametrize(
    ("steps", "error", "text"),
    [
        ([Resize(guaranteed("x", 1))], IllegalStep, "Resize: no pod x"),
        ([Resize(burstable("a", request="1"))], IllegalStep, "would be of another QoS class"),
        ([Resize(guaranteed("a", 1, 1))], IllegalStep, "differs in more than its resources"),
        ([AddEphemeral("a", "c")], IllegalStep, "pod a has a container c"),
        ([AddEphemeral("a", "d"), AddEphemeral("a", "d")], IllegalStep, "has a container d"),
        ([Stop(), AddEphemeral("a", "d")], IllegalStep, "the kubelet does not run"),
        ([Stop(), Configure(KubeletConfig())], IllegalStep, "from its first boot on"),
        ([AddEphemeral("a", "d"), Stop(), Reboot()], NotModelled, "ephemeral containers"),
    ],
)
def test_what_cannot_be_asked_for(steps: list[Step], error: type[Exception], text: str) -> None:
    made = node(Apply(guaranteed("a", 2)), *steps[:-1])
    with pytest.raises(error, match=text):
        made.do(steps[-1])


@pytest.mark.parametrize("step", [Resize(guaranteed("a", 3)), AddEphemeral("a", "debug")])
def test_manifests_have_neither(step: Step) -> None:
    made = node(Apply(guaranteed("a", 2)), config=replace(CONFIG, api_server=False))
    with pytest.raises(IllegalStep, match="the pods of this node are manifests"):
        made.do(step)


def test_a_release_without_the_gate_is_not_modelled() -> None:
    made = node(Apply(guaranteed("a", 2)), release="1.32")
    with pytest.raises(NotModelled, match="without feature gate InPlacePodVerticalScaling"):
        made.do(Resize(guaranteed("a", 3)))


def test_limits_as_a_whole_make_a_pod_guaranteed_whose_cpus_cannot_change() -> None:
    """The API server fills the requests in (seen on 1.36.4)."""
    whole = PodResources(cpu_limit="3", memory_limit="128Mi")  # what the containers request
    before, after = (
        Pod("a", (exclusive("c", cpu), exclusive("d", 1)), resources=whole) for cpu in (2, 1)
    )
    made = node(Apply(before), Resize(after))
    assert made.view().pods["a"].resize.startswith("Infeasible: Resize is infeasible")


def test_a_size_above_what_the_api_server_filled_in_as_a_whole_is_refused() -> None:
    """The API server adds the requests up when the pod is created, and never again (seen on
    1.36.4)."""
    whole = PodResources(cpu_limit="4", memory_limit="128Mi")
    before, after = (replace(burstable("a", request=cpu), resources=whole) for cpu in "23")
    made = node(Apply(before))
    with pytest.raises(IllegalStep, match=r"request .* is below that of its containers"):
        made.do(Resize(after))
