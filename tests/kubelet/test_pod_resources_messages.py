"""What a kubelet names at its pod-resources socket, and what it cannot mean."""

from __future__ import annotations

import pytest

from conformance.kubelets import pod_resources_pb2 as pb
from conformance.kubelets.pod_resources import NoCPUs, cpus_by_pod, devices_by_pod, memory_by_pod
from reference import CPUSet
from reference.view import HeldDevice, HeldMemory


def _pod(container: str, numa: int) -> pb.PodResources:
    near = pb.TopologyInfo(nodes=[pb.NUMANode(ID=numa)])
    made = pb.ContainerResources(
        name=container,
        cpu_ids=[numa],
        devices=[pb.ContainerDevices(resource_name="a/b", device_ids=["d"], topology=near)],
        memory=[pb.ContainerMemory(memory_type="memory", size=1, topology=near)],
    )
    whole = [pb.ContainerMemory(memory_type="memory", size=7, topology=near)]
    return pb.PodResources(namespace="n", name="p", containers=[made], cpu_ids=[7], memory=whole)


def test_nothing_of_two_pods_of_one_name_is_lost() -> None:
    """A pod that ends and its successor."""
    pods = [_pod("c", 0), _pod("c", 1)]
    assert cpus_by_pod(pods) == {("n", "p"): {"c": CPUSet([0, 1]), "": CPUSet([7])}}
    held = {HeldDevice("a/b", "d", (numa,)) for numa in (0, 1)}
    assert devices_by_pod(pods) == {("n", "p"): {"c": held}}
    sizes = {"c": 1, "": 7}
    memory = {name: {HeldMemory((numa,), size) for numa in (0, 1)} for name, size in sizes.items()}
    assert memory_by_pod(pods) == {("n", "p"): memory}


@pytest.mark.parametrize("numa", [-1, 1 << 16, 1 << 62])
def test_a_numa_node_that_cannot_be_is_no_answer(numa: int) -> None:
    """A set of such ids would take all memory, or none can be made."""
    for read in (devices_by_pod, memory_by_pod):
        with pytest.raises(NoCPUs, match=f"^the kubelet reports a NUMA node {numa}$"):
            read([_pod("c", numa)])
