"""CFS quotas, as every real kubelet of the cache asks the runtime for them: docs/facts 5.10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import topologies
from conformance.subjects.kubelet.node import KubeletNode
from reference import CPUSet, Release
from reference.kubelet.cpu_quota import NO_LIMIT, cfs_quota
from reference.steps import Apply, Container, KubeletConfig, Pod, Start
from reference.view import CFS
from tests.kubelet.conftest import CACHED, Open

CONFIG = KubeletConfig(reserved_system_cpus=CPUSet([0]))
#: Whole CPUs, and a fraction beside them; a limit without Guaranteed; less than a thousandth.
WHOLE = Container("whole", "2", "2", "64Mi", "64Mi")
FRACTION = Container("fraction", "1500m", "1500m", "64Mi", "64Mi")
LIMITED = Container("limited", "1", "2")
TINY = Container("tiny", "1m", "5m", "64Mi", "64Mi")
PODS = (Pod("g", (WHOLE, FRACTION)), Pod("b", (LIMITED, TINY, Container("none"))))


def _seen(node: KubeletNode) -> dict[str, CFS]:
    node.do(Start())
    for pod in PODS:
        node.do(Apply(pod))
    names = {one.name for pod in PODS for one in pod.containers}

    def seen() -> dict[str, CFS]:
        return {name: cfs for named in node.runtime.cfs().values() for name, cfs in named.items()}

    node.settle(lambda _: seen().keys() == names)
    return seen()


@pytest.mark.parametrize("path", CACHED)
def test_the_quota_of_every_container(path: str, open_kubelet: Open) -> None:
    """By release: none on exclusive CPUs from 1.33 on, the limit everywhere else."""
    subject = open_kubelet(path)
    release = subject.info.release
    seen = _seen(subject.node(topologies.machine("1s-1n-4c-smt2"), CONFIG))
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
