"""Machines in words, as explanations and reports show them."""

from __future__ import annotations

from reference import CPUSet, CPUTopology
from topologies.boxes import Beside


def topology_text(topology: CPUTopology, beside: Beside | None = None) -> str:
    """A machine's totals and its CPU list; ``beside`` is what the CPU topology leaves out."""
    cpus = CPUSet(topology.details)
    more = beside.summary() if beside else []
    totals = (
        f"{_plural(topology.num_cpus, 'CPU')} ({cpus}), "
        f"{_plural(topology.num_cores, 'physical core')}, "
        f"{_plural(topology.num_numa_nodes, 'NUMA node')}, "
        f"{_plural(topology.num_sockets, 'socket')}"
    )
    return ", ".join([totals, *more])


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
