"""What becomes of the hints of CPUs and devices where no set of NUMA nodes suits all of them, or
where one suits better than another.

The Topology Manager tries every combination of hints. Where none of them is preferred, it takes the
NUMA nodes that are as many as the resource needs that needs most of them, or else the nearest
number below that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed_of
from conformance.scenario import Needs
from conformance.scenarios.abilities import DEVICES, REJECTIONS
from conformance.scenarios.aligning import aligning_alone
from conformance.scenarios.devices import of_devices
from conformance.scenarios.entering import row
from conformance.scenarios.hint_parts import (
    NIC,
    far_node,
    first_node,
    promise_lies_in,
    promise_refused,
    register,
    require_few_nodes,
    run,
    run_in,
)
from conformance.scenarios.sources import TOPOLOGY_POLICIES, code
from reference import CPUSet
from reference.steps import Container, Device, Pod

_MERGED: Final = code(
    "1.36.4",
    "pkg/kubelet/cm/topologymanager/policy.go",
    "the choice of the Topology Manager where no hint is preferred",
)
#: Four NUMA nodes of 32 CPUs each, two of which are reserved in the first one.
_four: Final = partial(
    of_devices, source=_MERGED, since="1.36", needs=Needs(), machine="2s-4n-64c-smt2"
)
_row: Final = partial(row, enter=_four)


def _boot(node: LockstepNode, policy: str, devices: Mapping[int, int]) -> None:
    """Align by the policy. ``devices``: how many are near to which NUMA node."""
    node.boot(aligning_alone(node, policy))
    near = [
        Device(f"nic-{numa}-{number}", (numa,))
        for numa, count in devices.items()
        for number in range(count)
    ]
    register(node, *near)


def _apply(node: LockstepNode, cpus: int, devices: int) -> None:
    wanted = replace(exclusive("c", cpus), devices=((NIC, devices),))
    run(node, guaranteed_of("a", [wanted]))
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", cpus, len(node.taken("a")))


def _promise_all_of(node: LockstepNode, *numa: int) -> None:
    """Promise that the pod has every free CPU of these NUMA nodes."""
    inside = node.topology.cpus_in_numa_nodes(*numa) - node.reserved
    missing = inside - node.taken("a")
    rule = "It has every CPU of the NUMA nodes that were chosen for it"
    what = f"CPUs of NUMA nodes {CPUSet(numa)} that it has not"
    node.promise_that(not missing, rule, what, "(none)", missing)


@of_devices(TOPOLOGY_POLICIES)
def node_with_enough_of_them_is_taken(node: LockstepNode) -> None:
    """Under restricted CPUs lie in the NUMA node that has all devices that their container
    requests.
    The first NUMA node has one device and the last one has two. Both together could serve as
    well, and are not preferred."""
    require_few_nodes(node)
    far = far_node(node)
    _boot(node, "restricted", {first_node(node): 1, far: 2})
    _apply(node, 2, devices=2)
    promise_lies_in(node, far, "a", 2)


@of_devices(TOPOLOGY_POLICIES)
def shared_container_uses_two_nodes(node: LockstepNode) -> None:
    """Under restricted a container without CPUs of its own gets devices of two NUMA nodes.
    Each of them has one, so both are the fewest that can serve. The CPU manager has no
    preference for such a container, and runs it on the shared pool."""
    require_few_nodes(node)
    _boot(node, "restricted", {first_node(node): 1, far_node(node): 1})
    run(node, Pod("a", (Container("c", devices=((NIC, 2),)),)))
    pool = node.view.shared_pool
    node.promise_cpuset("It runs on the shared pool", "a", pool)


@of_devices(TOPOLOGY_POLICIES, capabilities=(*DEVICES, *REJECTIONS))
def taken_ones_count_for_the_fewest_nodes(node: LockstepNode) -> None:
    """Under restricted a container is refused devices of two NUMA nodes where each has as many.
    Both NUMA nodes have two devices, and one of each is taken. How few NUMA nodes can serve is
    counted by all devices that there are, and not by those that are free."""
    require_few_nodes(node)
    first, far = first_node(node), far_node(node)
    _boot(node, "restricted", {first: 2, far: 2})
    room = len(node.free & node.topology.cpus_in_numa_nodes(first))
    for name, numa, cpus in (("fills", first, room), ("beside", far, 1)):
        beside = replace(exclusive("c", cpus), devices=((NIC, 1),))
        run_in(node, numa, guaranteed_of(name, [beside]), cpus)
    shared = Container("c", devices=((NIC, 2),))
    promise_refused(node, node.apply(Pod("a", (shared,))), "TopologyAffinityError")


def _fills(
    node: LockstepNode, near: Mapping[int, int], *, cpus: int, devices: int, numa: tuple[int, ...]
) -> None:
    """Where so many devices are near to which NUMA node, a pod for so many CPUs and devices has
    every CPU of the NUMA nodes ``numa``."""
    _boot(node, "best-effort", near)
    _apply(node, cpus, devices=devices)
    _promise_all_of(node, *numa)


_row(
    "devices/best-effort-fills-both-nodes-of-them",
    "Best-effort takes every CPU near to the devices where the container requests more CPUs",
    """The CPUs need three NUMA nodes, and two have devices: two are nearer to three than one. The
    two are of different sockets.""",
    lambda node: _fills(node, {1: 1, 3: 1}, cpus=80, devices=2, numa=(1, 3)),
)
_row(
    "devices/best-effort-fills-the-one-node-of-them",
    "Best-effort takes every CPU near to the one device where the container requests more CPUs",
    "CPUs of two NUMA nodes could be those of one socket, in which the device is not.",
    lambda node: _fills(node, {1: 1}, cpus=64, devices=1, numa=(1,)),
)
_row(
    "devices/best-effort-keeps-to-the-first-nodes",
    "Of several choices that are not preferred best-effort takes the one with the lowest nodes",
    """The CPUs need two NUMA nodes, and each has a device. The first two lack two CPUs, which are
    reserved, and are chosen all the same: their other CPUs are all taken.""",
    lambda node: _fills(node, {0: 1, 1: 1, 2: 1, 3: 1}, cpus=64, devices=1, numa=(0, 1)),
)


@_four()
def best_effort_needs_two_nodes_of_them(node: LockstepNode) -> None:
    """Where devices need two NUMA nodes best-effort takes CPUs of the first two that will do.
    Three devices, of which NUMA nodes 0 and 2 have one each and NUMA node 3 has two. NUMA nodes
    0 and 2 are the first of as many as are needed. NUMA node 0 alone has a CPU too few, since two
    are reserved."""
    _boot(node, "best-effort", {0: 1, 2: 1, 3: 2})
    _apply(node, 31, devices=3)
    elsewhere = node.taken("a") - node.topology.cpus_in_numa_nodes(0, 2)
    node.promise_cpus(
        "It has CPUs of these NUMA nodes alone", "CPUs of others", CPUSet(), elsewhere
    )
