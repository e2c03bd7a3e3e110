"""When each real kubelet of the cache tells the runtime of CPUs: docs/facts 8.1, 8.3 and 8.4."""

from __future__ import annotations

import pytest

import topologies
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.cri.containers import Call
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.releases import has
from reference.steps import Apply, AwaitReconcile, Container, KubeletConfig, Pod, Start
from tests.kubelet.conftest import CACHED, Open, do

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))
OWN = Pod("own", (Container("c", "2", "2", "64Mi", "64Mi"),))
SHARED = Pod("shared", (Container("c"),))


def _told(subject: KubeletSubject, pod: Pod) -> tuple[CPUSet, list[Call]]:
    """The pod's CPUs, and the calls for its container until two rounds have passed."""
    node = subject.node(topologies.machine("1s-1n-4c-smt2"), CONFIG)
    do(node, Start(), Apply(pod))
    node.settle(lambda view: bool(view.cpusets.get(pod.name)))
    do(node, AwaitReconcile(), AwaitReconcile())
    cpus = node.view().cpusets[pod.name]["c"] or CPUSet()
    return cpus, [one for one in node.runtime.recent_calls(1000) if one.container == "c"]


@pytest.mark.parametrize("pod", [OWN, SHARED], ids=["exclusive", "shared"])
@pytest.mark.parametrize("path", CACHED)
def test_when_cpus_are_told(path: str, pod: Pod, open_kubelet: Open) -> None:
    """With the request to create the container from 1.21 on; before, with an update between its
    creation and its start. From 1.22 on a round tells a shared container once, and one that has
    its own CPUs never; before, every round tells everybody. Nothing but the cpuset is sent."""
    subject = open_kubelet(path)
    release = subject.info.release
    cpus, calls = _told(subject, pod)
    created, *later = calls
    assert created.method == "CreateContainer"
    start = [one.method for one in later].index("StartContainer")
    before = [one.cpuset for one in later[:start]]
    if has(release, Behaviour.CREATED_WITH_CPUSET):
        assert (created.cpuset, before) == (str(cpus), [])
    else:
        assert (created.cpuset, before) == ("", [str(cpus)])
    updates = [one.cpuset for one in later[start + 1 :]]
    assert set(updates) <= {str(cpus)}
    if has(release, Behaviour.UPDATED_ON_CHANGE):
        assert len(updates) == (0 if pod is OWN else 1)
    else:
        assert len(updates) >= 2
