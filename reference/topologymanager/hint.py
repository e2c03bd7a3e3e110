"""One topology hint: a set of NUMA nodes on which a request can be met.

What belongs here: the hint (``TopologyHint``). What never does: which manager gives it
(``cpumanager``), and how several are merged (``policy``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from reference.cpuset import CPUSet

#: ``nodes`` of a hint that says nothing about NUMA nodes (the kubelet's nil affinity).
ANY: Final = None


class Hint(NamedTuple):
    """``TopologyHint``. ``nodes``: a bit for each NUMA node by its id, or :data:`ANY`.
    ``preferred``: whether no fewer nodes could do."""

    nodes: int | None
    preferred: bool

    def __str__(self) -> str:
        return f"{_nodes_text(self.nodes)}{' preferred' if self.preferred else ''}"


def _nodes_text(nodes: int | None) -> str:
    return "any" if nodes is None else str(CPUSet.of_mask(nodes))
