"""What each real kubelet of the cache tells the runtime of CPUs, and when: docs/facts 5.10,
8.1, 8.3 and 8.4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

import topologies
from conformance.kubelets.releases import POD_CGROUPS_SINCE
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.node import KubeletNode
from reference import CPUSet, Release
from reference.behaviours import Behaviour
from reference.kubelet.cpu_quota import NO_LIMIT, cfs_quota
from reference.releases import has
from reference.steps import (
    Apply,
    AwaitReconcile,
    Configure,
    Container,
    KubeletConfig,
    Pod,
    Reboot,
    Start,
    Step,
    Stop,
)
from reference.view import CFS, Phase, ReservedCgroup, View
from tests.kubelet.conftest import CACHED, NodeMaker, do

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))
#: Whole CPUs, and a fraction beside them; a limit without Guaranteed; less than a thousandth.
WHOLE = Container("whole", "2", "2", "64Mi", "64Mi")
FRACTION = Container("fraction", "1500m", "1500m", "64Mi", "64Mi")
LIMITED = Container("limited", "1", "2")
TINY = Container("tiny", "1m", "5m", "64Mi", "64Mi")
PODS = (Pod("g", (WHOLE, FRACTION)), Pod("b", (LIMITED, TINY, Container("none"))))


@pytest.fixture(scope="module", params=CACHED)
def told(request: pytest.FixtureRequest) -> Iterator[tuple[str, KubeletNode]]:
    """A release, and a node whose kubelet was given one pod after the other; two rounds later."""
    with closing(KubeletSubject.open(request.param)) as subject:
        node = subject.node(topologies.machine("1s-1n-4c-smt2"), CONFIG)
        node.do(Start())
        for pod in PODS:
            node.do(Apply(pod))
            node.settle(partial(_runs, pod))
        do(node, AwaitReconcile(), AwaitReconcile())
        yield subject.info.release, node


def _runs(pod: Pod, view: View) -> bool:
    return view.cpusets.get(pod.name, {}).keys() == {one.name for one in pod.containers}


@pytest.mark.parametrize(("pod", "name"), [("g", "whole"), ("b", "none")])
def test_when_cpus_are_told(told: tuple[str, KubeletNode], pod: str, name: str) -> None:
    """With the request to create the container from 1.21 on; before, with an update between its
    creation and its start. From 1.22 on a round tells a shared container once, and one that has
    its own CPUs never; before, every round tells everybody. Nothing but the cpuset is sent."""
    release, node = told
    cpus = str(node.view().cpusets[pod][name])
    created, *later = (one for one in node.runtime.recent_calls(1000) if one.container == name)
    assert created.method == "CreateContainer"
    start = [one.method for one in later].index("StartContainer")
    before = [one.cpuset for one in later[:start]]
    if has(release, Behaviour.CREATED_WITH_CPUSET):
        assert (created.cpuset, before) == (cpus, [])
    else:
        assert (created.cpuset, before) == ("", [cpus])
    updates = [one.cpuset for one in later[start + 1 :]]
    assert set(updates) <= {cpus}
    if has(release, Behaviour.UPDATED_ON_CHANGE):
        assert len(updates) == (0 if name == "whole" else 1)
    else:
        assert len(updates) >= 2


def test_the_quota_of_every_container(told: tuple[str, KubeletNode]) -> None:
    """By release: none on exclusive CPUs from 1.33 on, the limit everywhere else."""
    release, node = told
    seen = {name: cfs for named in node.runtime.cfs().values() for name, cfs in named.items()}
    asked = {
        one.name: cfs_quota(one, exclusive=one is WHOLE, release=release)
        for pod in PODS
        for one in pod.containers
    }
    assert {name: cfs.quota for name, cfs in seen.items()} == {
        name: quota if quota > 0 else None for name, quota in asked.items()
    }
    assert seen["whole"].quota == (None if Release.parse(release).minor >= 33 else 200_000)
    assert [seen[name] for name in ("fraction", "limited", "tiny", "none")] == [
        CFS(150_000, 1536), CFS(200_000, 1024), CFS(1000, 2), CFS(None, 2),
    ]  # fmt: skip


def test_the_cgroup_of_every_pod(told: tuple[str, KubeletNode]) -> None:
    """The limits and requests of its containers together, where they all have limits."""
    release, node = told
    minor = Release.parse(release).minor
    seen = node.view().pod_cfs
    if minor < POD_CGROUPS_SINCE.minor:
        assert seen == {}
    else:
        quota = 350_000 if minor <= 32 else None
        assert seen == {"g": CFS(quota, weight=137), "b": CFS(None, weight=40)}


def test_the_sandbox_of_every_pod(told: tuple[str, KubeletNode]) -> None:
    """It is created with the limits of its containers together, whichever have one."""
    release, node = told
    lifted = Release.parse(release).minor >= 33
    assert node.view().sandbox_quotas == {"g": None if lifted else 350_000, "b": 200_500}


def test_a_reboot_makes_the_cgroups_of_pods_again(make_node: NodeMaker) -> None:
    """A restart of the kubelet leaves them."""
    lifted = replace(CONFIG, feature_gates={"DisableCPUQuotaWithExclusiveCPUs": False})
    node = make_node(lifted, "1s-1n-4c-smt2")
    seen: list[int | None] = []
    runs: list[list[Step]] = [[Apply(PODS[0])], [Stop(), Configure(CONFIG)], [Stop(), Reboot()]]
    for steps in runs:
        do(node, *steps, Start())
        node.settle(lambda view: _runs(PODS[0], view) and view.pods["g"].phase is Phase.RUNNING)
        seen.append(node.view().pod_cfs["g"].quota)
    assert seen == [350_000, 350_000, None]


def test_cgroups_of_reservations_last_until_a_reboot(make_node: NodeMaker) -> None:
    """Those that the configuration names, of the two that there can be."""
    enforcing = KubeletConfig(
        policy="none",
        kube_reserved="1500m",
        kube_reserved_cgroup="/kube.slice",
        enforce_node_allocatable=("pods", "kube-reserved"),
    )
    node = make_node(enforcing, "1s-1n-4c-smt2")
    assert node.view().reserved_cgroups == {}
    do(node, Start())
    enforced = {"/kube.slice": ReservedCgroup(59, CPUSet(range(8)))}
    assert node.view().reserved_cgroups == enforced
    do(node, Stop(), Configure(CONFIG), Start())
    assert node.view().reserved_cgroups == enforced
    do(node, Stop(), Reboot())
    assert node.view().reserved_cgroups == {}


@pytest.mark.parametrize(
    ("release", "gates", "quota"),
    [
        ("1.32", {}, 200_000), ("1.33", {}, NO_LIMIT), ("1.37", {}, NO_LIMIT),
        ("1.36", {"DisableCPUQuotaWithExclusiveCPUs": False}, 200_000),
    ],
)  # fmt: skip
def test_the_gate_brings_the_quota_back(
    release: str, gates: Mapping[str, bool], quota: int
) -> None:
    """Until 1.36; 1.37 is locked and does not start with it off."""
    assert cfs_quota(WHOLE, exclusive=True, feature_gates=gates, release=release) == quota
    shared = replace(WHOLE, cpu_limit=None)
    assert cfs_quota(shared, exclusive=False, feature_gates=gates, release=release) == 0
