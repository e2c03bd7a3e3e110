"""An unmodified kubelet's own pod-resources socket, asked as a node's is: by the same script, and
judged by the same scenarios. What answers is google.golang.org/grpc."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

import topologies
from conformance.catalogue import find
from conformance.judge import Case, judge
from conformance.kubelets.configuration import NODE_NAME
from conformance.oracle import ModelOracle
from conformance.pods import best_effort, exclusive, guaranteed_of
from conformance.subject import Capability, SubjectInfo
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.inside import STATE_DIR
from conformance.subjects.kubelet.node import KubeletNode
from hil.observation import PodResources
from hil.observation.pod_resources import read_pod_resources
from hil.observation.pod_resources_script import ask
from hil.session.views import cpus_by_pod
from hil.transport.local import LocalShell
from reference import CPUSet, Release
from reference.steps import Apply, AskPodResources, Delete, Kind, KubeletConfig, Pod, Start, Step
from reference.view import View
from topologies import Machine

MACHINE = "2s-2n-8c-smt2"
CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0, 8]))


class AskedNode:
    """A node in the loop that can be asked at its socket as well."""

    def __init__(self, inner: KubeletNode) -> None:
        self._inner = inner
        self._shell = LocalShell()
        self._asking = False
        self._pods: dict[str, Pod] = {}
        #: Descriptors of this process are another's to a script.
        self._root = str(inner.sandbox.path(STATE_DIR)).replace("self", str(os.getpid()), 1)

    def reported(self) -> PodResources:
        done = self._shell.run(ask(self._root))
        assert done.status == 0, done.stderr
        return read_pod_resources(done.text)

    def do(self, step: Step) -> None:
        self._asking = isinstance(step, AskPodResources)
        if isinstance(step, Apply):
            self._pods[step.pod.uid] = step.pod
        if not self._asking:
            self._inner.do(step)

    def _with_told(self, view: View) -> View:
        if not self._asking:
            return view
        answer = self.reported()
        assert answer.why == ""
        called = {uid: ("default", f"{pod.name}-{NODE_NAME}") for uid, pod in self._pods.items()}
        return replace(view, pod_resources=cpus_by_pod(answer, called, self._pods.values()))

    def view(self) -> View:
        return self._with_told(self._inner.view())

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        seen: list[View] = []

        def look(view: View) -> bool:
            seen.append(self._with_told(view))
            return satisfied(seen[-1])

        self._inner.settle(look)
        return seen[-1]

    def evidence(self) -> str:
        return self._inner.evidence()

    def close(self) -> None:
        self._inner.close()


class AskedSubject:
    """Kubelets in the loop that can be asked there."""

    def __init__(self, inner: KubeletSubject) -> None:
        self._inner = inner
        self.info: SubjectInfo = inner.info
        self.capabilities = inner.capabilities | {Capability.POD_RESOURCES}

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> AskedNode:
        return AskedNode(self._inner.node(machine, config, machines=machines))

    def close(self) -> None:
        self._inner.close()


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
    inner = subject.node(topologies.machine(MACHINE), CONFIG)
    node = AskedNode(inner)
    init = exclusive("init", 1, kind=Kind.INIT)
    pods = (
        guaranteed_of("a", [init, exclusive("c1", 2), exclusive("c2", 1)]),
        best_effort("shared"),
    )
    try:
        inner.do(Start())
        assert node.reported() == PodResources({})
        for pod in pods:
            inner.do(Apply(pod))
        held = inner.settle(lambda view: len(view.cpusets) == 2).assignments["a"]
        exclusive_to_one = {name: held[name] for name in ("c1", "c2")}
        pool = inner.view().shared_pool
        shares = pool if Release.parse(subject.info.release).minor < 23 else CPUSet()
        assert node.reported() == PodResources(
            {
                ("default", f"a-{NODE_NAME}"): exclusive_to_one,
                ("default", f"shared-{NODE_NAME}"): {"c": shares},
            }
        )
        assert len(exclusive_to_one["c1"]) == 2
        inner.do(Delete("a"))
        assert [name for _, name in node.reported().pods] == [f"shared-{NODE_NAME}"]
    finally:
        inner.close()
    assert "there is no socket" in node.reported().why


@pytest.mark.parametrize(
    "scenario",
    ["node/pod-resources-report-exclusive-cpus", "node/pod-resources-report-the-shared-pool"],
)
def test_the_promises_are_kept_by_a_kubelet(subject: KubeletSubject, scenario: str) -> None:
    """By any from 1.20 on: one of the two is of its release."""
    release = subject.info.release
    found = find(scenario)
    assert found is not None
    oracle = partial(ModelOracle, release=release)
    case = Case(found, topologies.machine(MACHINE))
    result = judge(case, AskedSubject(subject), oracle=oracle, release=release).result
    of_pool = Release.parse(release).minor < 23
    applies = of_pool == (scenario == "node/pod-resources-report-the-shared-pool")
    assert result.verdict == ("pass" if applies else "skip"), result.explanation
