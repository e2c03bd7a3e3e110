"""How distribute-cpus-across-numa shares a request where align-by-socket is on as well, on two
sockets of two NUMA nodes each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import promised
from conformance.scenarios.optional import with_options
from conformance.scenarios.outcomes import promise_count
from conformance.scenarios.sources import DISTRIBUTED_BY_SOCKET

#: 32 CPUs in each NUMA node, two of which are reserved in the first one.
_FOUR_NODES: Final = "2s-4n-64c-smt2"
_distributed: Final = partial(
    promised, area="options", source=DISTRIBUTED_BY_SOCKET, since="1.37", machine=_FOUR_NODES
)


def _promise_numa_nodes(node: LockstepNode, pod: str, expected: Iterable[int]) -> None:
    cpus = node.taken(pod)
    seen = node.topology.numa_node_ids(cpus)
    node.promise_equal(f"NUMA nodes of {cpus}", f"NUMA nodes of {pod}/c", sorted(expected), seen)


def _boot(node: LockstepNode) -> None:
    options = ("distribute-cpus-across-numa", "align-by-socket", "full-pcpus-only")
    node.boot(with_options(node, *options))


@_distributed()
def numa_distribution_spans_as_few_nodes(node: LockstepNode) -> None:
    """With align-by-socket distribute-cpus-across-numa takes unequal shares of two NUMA nodes.
    Rather than equal ones of three. No NUMA node has room for the whole request, and two that
    have it together are in different sockets. One of them has less than half of it."""
    _boot(node)
    node.apply(guaranteed("one-node", 32))
    node.apply(guaranteed("one-socket", 42))
    _promise_numa_nodes(node, "one-socket", [2, 3])
    node.apply(guaranteed("a", 32))
    _promise_numa_nodes(node, "a", [0, 3])
    promise_count(node, 32)


@_distributed()
def numa_distribution_keeps_the_first_of_equals(node: LockstepNode) -> None:
    """With align-by-socket distribute-cpus-across-numa takes the first of NUMA nodes that are
    equal.
    Two NUMA nodes are empty. Either leaves the machine as even as the other, and more so than
    the one that has reserved CPUs."""
    _boot(node)
    node.apply(guaranteed("one-node", 32))
    _promise_numa_nodes(node, "one-node", [1])
    node.apply(guaranteed("a", 6))
    _promise_numa_nodes(node, "a", [2])
