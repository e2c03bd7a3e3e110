"""When each real kubelet of the cache tells the runtime of CPUs: docs/facts 8.1, 8.3 and 8.4."""

from __future__ import annotations

import pytest

import topologies
from conformance.kubelets import cached
from conformance.subjects.kubelet import KubeletSubject
from conformance.subjects.kubelet.cri.containers import Call
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.releases import has
from reference.steps import Apply, AwaitReconcile, Container, KubeletConfig, Pod, Start
from reference.view import View
from tests.support import lacking

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))
OWN = Pod("own", (Container("c", "2", "2", "64Mi", "64Mi"),))
SHARED = Pod("shared", (Container("c"),))

_CACHED = [pytest.param(str(one.path), id=one.version) for one in cached()] or [
    pytest.param(
        "",
        id="no kubelet",
        marks=pytest.mark.skip(lacking.reason("kubelet")),
    )
]


def _told(path: str, pod: Pod) -> tuple[str, CPUSet, list[Call]]:
    """The release, the pod's CPUs, and the calls for its container until two rounds have passed."""
    subject = KubeletSubject.open(path)
    try:
        node = subject.node(topologies.machine("1s-1n-4c-smt2"), CONFIG)
        for step in (Start(), Apply(pod)):
            node.do(step)

        def runs(view: View) -> bool:
            return bool(view.cpusets.get(pod.name))

        node.settle(runs)
        node.do(AwaitReconcile())
        node.do(AwaitReconcile())
        cpus = node.view().cpusets[pod.name]["c"] or CPUSet()
        calls = [one for one in node.runtime.recent_calls(1000) if one.container == "c"]
    finally:
        subject.close()
    return subject.info.release, cpus, calls


@pytest.mark.parametrize("pod", [OWN, SHARED], ids=["exclusive", "shared"])
@pytest.mark.parametrize("path", _CACHED)
def test_when_cpus_are_told(path: str, pod: Pod) -> None:
    """With the request to create the container from 1.21 on; before, with an update between its
    creation and its start. From 1.22 on a round tells a shared container once, and one that has
    its own CPUs never; before, every round tells everybody. Nothing but the cpuset is sent."""
    release, cpus, calls = _told(path, pod)
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
