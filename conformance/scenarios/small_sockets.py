"""Machines whose NUMA nodes are made of several sockets."""

from __future__ import annotations

from conformance.lockstep import LockstepNode
from conformance.scenario import promised
from conformance.scenarios.entering import refused
from conformance.scenarios.optional import with_options
from conformance.scenarios.outcomes import take
from conformance.scenarios.sources import BY_SOCKET, TOPOLOGY_ORDER
from reference import CPUSet


@promised(TOPOLOGY_ORDER, area="packing", since="1.20", machine="4s-2n-16c-smt2")
def socket_of_a_numa_node(node: LockstepNode) -> None:
    """A request as large as a socket takes a whole one, also where a NUMA node has two sockets.
    Each socket is free but the first, which has the reserved CPU."""
    node.boot()
    taken = take(node, "a", len(node.cpus) // node.topology.num_sockets)
    touched = {node.topology.details[cpu].socket for cpu in taken}
    whole = [cpu for cpu, where in node.topology.details.items() if where.socket in touched]
    node.promise_cpus("They are one whole socket", "exclusive CPUs", CPUSet(whole), taken)


refused(
    "options/align-by-socket-needs-a-node-each",
    "Under align-by-socket the kubelet does not start where one NUMA node has two sockets",
    BY_SOCKET,
    "One socket more than there are NUMA nodes is too many.",
    lambda node: with_options(node, "align-by-socket"),
    "Align by socket is not compatible with hardware where number of sockets",
    since="1.25", machine="2s-8n-8c-smt1-xeon-e5472-buggynuma",
)  # fmt: skip
