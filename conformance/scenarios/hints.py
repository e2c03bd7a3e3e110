"""Which of several hints the Topology Manager chooses."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import promised
from conformance.scenarios.optional import aligning_with
from conformance.scenarios.sources import BY_SOCKET
from reference import CPUSet


@promised(BY_SOCKET, area="topology", since="1.25", machine="2s-4n-64c-smt2")
def align_by_socket_prefers_one_socket(node: LockstepNode) -> None:
    """Under align-by-socket two NUMA nodes of one socket go before two of different sockets.
    The lowest two NUMA nodes that have room lie in different sockets. They come first, and a
    later pair in one socket replaces them."""
    kept = {0: 12, 1: 30, 2: 18, 3: 20}
    reserved = CPUSet()
    for numa, count in kept.items():
        reserved |= CPUSet(sorted(node.topology.cpus_in_numa_nodes(numa))[:count])
    node.boot(aligning_with(node, "restricted", "align-by-socket", reserved=reserved))
    node.run(guaranteed("a", 24))
    numas = sorted({node.topology.details[cpu].numa for cpu in node.taken("a")})
    node.promise_equal("It lies in the second socket", "NUMA nodes of a/c", [2, 3], numas)
