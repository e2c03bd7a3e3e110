"""Which pods the model puts out for a critical one. What a kubelet makes of that is held by the
recordings of ``conformance/scenarios/critical_pods.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from conformance.pods import best_effort, burstable, guaranteed
from conformance.step_needs import needed
from conformance.subject import Capability, SubjectUnable
from hil.pods.manifests import Image, manifest
from reference import CPUSet, NotModelled
from reference.kubelet.admission import in_every_order
from reference.kubelet.preemption import NothingToPreemptError, pods_to_preempt
from reference.pods.pod import CLUSTER_CRITICAL, NODE_CRITICAL
from reference.steps import (
    AddEphemeral,
    Apply,
    Container,
    Delete,
    FailUpdates,
    KillAtRename,
    Kind,
    KubeletConfig,
    Pod,
    Resize,
    Start,
    Step,
    Stop,
)
from reference.view import Phase, View
from tests.reference import nodes
from tests.reference.nodes import do

IN_CLUSTER = KubeletConfig(reserved_system_cpus=CPUSet([0, 4]), api_server=True)
CRITICAL = replace(burstable("critical", request="2"), priority=NODE_CRITICAL)
node = partial(nodes.booted, config=IN_CLUSTER)


def shared(name: str, cpus: str) -> Pod:
    return burstable(name, request=cpus)


def with_sidecar(name: str) -> Pod:
    side = Container("side", "2", "2", "64Mi", "64Mi", kind=Kind.SIDECAR)
    return Pod(name, (side, Container("c", "1", "1", "64Mi", "64Mi")))


def devices(name: str, count: int) -> Pod:
    return Pod(name, (Container("c", devices=(("nic", count),)),))


@pytest.mark.parametrize(
    ("pods", "cpus", "chosen"),
    [
        ([shared("a", "1"), shared("b", "3")], 1000, "a"),  # both suffice
        ([shared("a", "1"), shared("b", "3")], 2000, "b"),  # one does
        ([shared("a", "1"), shared("b", "3"), shared("c", "2")], 5000, "b c"),
        ([guaranteed("a", 1), shared("b", "4")], 1000, "b"),
        ([guaranteed("a", 4), shared("b", "1")], 2000, "a"),  # then no Burstable one has to go
        ([guaranteed("a", 2), shared("b", "2")], 3000, "b a"),
        ([best_effort("x"), guaranteed("a", 2)], 1000, "a"),
    ],
)
def test_few_and_small_pods_go(pods: list[Pod], cpus: int, chosen: str) -> None:
    assert [pod.name for pod in pods_to_preempt(pods, {"cpu": cpus}, "1.36")] == chosen.split()


def test_each_resource_weighs_alike() -> None:
    both = replace(devices("both", 1), containers=(Container("c", "1", devices=(("nic", 1),)),))
    pods = [shared("cpus", "1"), devices("devices", 1), both]
    (chosen,) = pods_to_preempt(pods, {"cpu": 1000, "nic": 1}, "1.36")
    assert chosen.name == "both"


@pytest.mark.parametrize(("release", "most"), [("1.33", 2000), ("1.34", 3000), ("1.37", 3000)])
def test_sidecars_count_since_1_34(release: str, most: int) -> None:
    """Source: ``GetResourceRequestQuantity``, ``pkg/api/v1/resource/helpers.go``."""
    pod = with_sidecar("a")
    assert pods_to_preempt([pod], {"cpu": most}, release) == [pod]
    with pytest.raises(NothingToPreemptError):
        pods_to_preempt([pod], {"cpu": most + 1}, release)


def test_too_few_pods_are_named_by_what_is_lacking() -> None:
    with pytest.raises(
        NothingToPreemptError, match=r"reclaim resources: \[\(res: cpu, q: 500\), \]"
    ):
        pods_to_preempt([shared("a", "1500m")], {"cpu": 2000}, "1.36")


def _lacking(config: KubeletConfig) -> tuple[str, str, list[str], list[str]]:
    """The reason and message of a pod that lacks devices and huge pages, then those that the
    kubelet may give instead."""
    init = Container("i", "1", devices=(("nic", 1),), kind=Kind.INIT)
    pod = Pod("a", (init, Container("c", "1", huge_pages=(("2Mi", "4Mi"),))))
    refused = nodes.booted(Apply(pod), config=config, release="1.26").view().pods["a"]
    reasons, messages = zip(*refused.or_else, strict=True)
    return refused.reason, refused.message, [*reasons], [*messages]


def test_which_of_several_missing_resources_is_named_is_chance() -> None:
    """Seen on 1.26.15. Cpu always comes first."""
    reason, message, reasons, messages = _lacking(IN_CLUSTER)
    assert (reason, reasons) == ("OutOfhugepages-2Mi", ["OutOfnic"])
    assert message.endswith("hugepages-2Mi, requested: 4194304, used: 0, capacity: 0")
    assert [one.rpartition(": ")[0] for one in messages] == [
        "Pod was rejected: Node didn't have enough resource: nic, requested: 1, used: 0, capacity"
    ]
    reason, message, reasons, messages = _lacking(replace(IN_CLUSTER, api_server=False))
    assert {reason, *reasons} == {"UnexpectedAdmissionError"}
    assert message.endswith("[(res: hugepages-2Mi, q: 4194304), (res: nic, q: 1), ]")
    (other,) = messages
    assert other.endswith("[(res: nic, q: 1), (res: hugepages-2Mi, q: 4194304), ]")
    assert list(in_every_order(["cpu", "a", "b"])) == [("cpu", "a", "b"), ("cpu", "b", "a")]


def test_which_of_two_equal_pods_goes_is_chance() -> None:
    pods = [shared("a", "1"), shared("b", "1")]
    with pytest.raises(NotModelled, match="which of several equal pods is put out, b among them"):
        pods_to_preempt(pods, {"cpu": 1000}, "1.36")
    assert pods_to_preempt(pods, {"cpu": 2000}, "1.36") == pods


def test_critical_pods_stay() -> None:
    before = replace(guaranteed("a", 6), priority=NODE_CRITICAL)
    view = node(Apply(before), Apply(CRITICAL)).view()
    assert view.pods["a"].phase is Phase.RUNNING
    assert "no set of running pods found" in view.pods["critical"].message
    static = nodes.booted(
        Apply(guaranteed("a", 6)), Apply(CRITICAL), config=replace(IN_CLUSTER, api_server=False)
    ).view()
    assert static.pods["a"].phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("first", "second", "ended"),
    [(CLUSTER_CRITICAL, NODE_CRITICAL, True), (NODE_CRITICAL, CLUSTER_CRITICAL, False)],
)
def test_of_critical_pods_the_higher_priority_wins(first: int, second: int, ended: bool) -> None:
    """Source: ``Preemptable`` (``pkg/kubelet/types/pod_update.go``)."""
    pods = [replace(guaranteed("a", 6), priority=first), replace(CRITICAL, priority=second)]
    view = node(*map(Apply, pods)).view()
    assert (view.pods["a"].phase is Phase.REJECTED) is ended
    assert (view.pods["critical"].phase is Phase.RUNNING) is ended


def test_a_pod_that_was_put_out_can_be_deleted() -> None:
    made = node(Apply(guaranteed("a", 6)), Apply(CRITICAL))
    assert made.view().pods["a"].reason == "Preempting"
    view = do(made, Stop(), Start(), Delete("a"), Delete("critical"), Apply(guaranteed("b", 6)))
    assert view.pods["b"].phase is Phase.RUNNING


def _resize_waits(made: Any) -> View:
    return do(made, Apply(shared("s", "1m")), Resize(shared("s", "2")))


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ((_resize_waits,), Apply(CRITICAL)),
        ((AddEphemeral("a", "e"),), Apply(CRITICAL)),
        ((FailUpdates(1),), Apply(CRITICAL)),
        ((KillAtRename(9),), Apply(CRITICAL)),
        ((Stop(), Apply(CRITICAL)), Start()),
    ],
)
def test_where_it_is_not_modelled(
    before: tuple[Step | Callable[[Any], View], ...], step: Step
) -> None:
    made = node(Apply(guaranteed("a", 5)))
    for one in before:
        if callable(one):
            one(made)
        else:
            made.do(one)
    with pytest.raises(NotModelled, match=r"put out|puts others out"):
        made.do(step)


def test_no_real_node_is_given_a_critical_pod() -> None:
    """It may put out pods of others."""
    assert [*needed(Apply(CRITICAL))] == [Capability.API_SERVER]
    with pytest.raises(SubjectUnable, match="pod critical is critical: it may put out pods"):
        manifest(CRITICAL, Image())
