"""An unmodified kubelet's own pod-resources socket, asked as a node's is: by the same script; and
judged by the same scenarios. What answers is google.golang.org/grpc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

import topologies
from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.kubelets.configuration import NODE_NAME
from conformance.oracle import ModelOracle
from conformance.pods import best_effort, exclusive, guaranteed_of
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.inside import STATE_DIR
from conformance.subjects.kubelet.node import KubeletNode
from hil.observation import PodResources
from hil.observation.pod_resources import read_pod_resources
from hil.observation.pod_resources_script import ask
from hil.session.views import cpus_by_pod
from hil.transport.local import LocalShell
from reference import CPUSet, Release
from reference.steps import Apply, Delete, Kind, KubeletConfig, Start

MACHINE = "2s-2n-8c-smt2"
CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))


def reported(node: KubeletNode) -> PodResources:
    """What its kubelet tells the script that asks it on real nodes."""
    # Descriptors of this process are another's to a script.
    root = str(node.sandbox.path(STATE_DIR)).replace("self", str(os.getpid()), 1)
    done = LocalShell().run(ask(root))
    assert done.status == 0, done.stderr
    return read_pod_resources(done.text)


@pytest.fixture(scope="module")
def subject(kubelet_path: str) -> Iterator[KubeletSubject]:
    opened = KubeletSubject.open(kubelet_path)
    if Release.parse(opened.info.release).minor < 20:
        pytest.skip(f"NOT TESTED: a kubelet {opened.info.version} tells of no CPUs")
    yield opened
    opened.close()


def test_a_kubelet_tells_what_it_holds(subject: KubeletSubject) -> None:
    """A socket that is there as soon as its kubelet is up; every container, its init containers
    left out; and nothing of a pod that is gone."""
    node = subject.node(topologies.machine(MACHINE), CONFIG)
    init = exclusive("init", 1, kind=Kind.INIT)
    pods = (
        guaranteed_of("a", [init, exclusive("c1", 2), exclusive("c2", 1)]),
        best_effort("shared"),
    )
    try:
        node.do(Start())
        assert reported(node) == PodResources({})
        for pod in pods:
            node.do(Apply(pod))
        held = node.settle(lambda view: len(view.cpusets) == 2).assignments["a"]
        exclusive_to_one = {name: held[name] for name in ("c1", "c2")}
        pool = node.view().shared_pool
        shares = pool if Release.parse(subject.info.release).minor < 23 else CPUSet()
        told = reported(node)
        assert told == PodResources(
            {
                ("default", f"a-{NODE_NAME}"): exclusive_to_one,
                ("default", f"shared-{NODE_NAME}"): {"c": shares},
            }
        )
        called = {pod.uid: ("default", f"{pod.name}-{NODE_NAME}") for pod in pods}
        seen = {"a": exclusive_to_one, "shared": {"c": shares}}
        assert cpus_by_pod(told, called, pods) == seen
        assert len(exclusive_to_one["c1"]) == 2
        node.do(Delete("a"))
        assert [name for _, name in reported(node).pods] == [f"shared-{NODE_NAME}"]
    finally:
        node.close()
    assert "there is no socket" in reported(node).why


@pytest.mark.parametrize(
    "scenario",
    ["node/pod-resources-report-exclusive-cpus", "node/pod-resources-report-the-shared-pool"],
)
def test_the_promises_are_kept_by_a_kubelet(subject: KubeletSubject, scenario: str) -> None:
    """By any from 1.20 on, as the subject of kubelets asks it: one of the two is of its release."""
    release = subject.info.release
    found = find(scenario)
    assert found is not None
    oracle = partial(ModelOracle, release=release)
    case = Case(found, topologies.machine(MACHINE))
    result = judge(case, subject, oracle=oracle, release=release).result
    of_pool = Release.parse(release).minor < 23
    applies = of_pool == (scenario == "node/pod-resources-report-the-shared-pool")
    assert result.verdict == ("pass" if applies else "skip"), result.explanation
