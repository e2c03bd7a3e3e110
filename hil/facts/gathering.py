"""Gathering: two round trips, and what they brought as :class:`hil.facts.node.NodeFacts`."""

from __future__ import annotations

from hil.facts.node import KubeletFacts, NodeFacts
from hil.shell import NodeUnfit, Shell


def gather(shell: Shell, *, root: str = "") -> NodeFacts:
    """Ask the node what it is. ``root`` is where its ``/`` lies (a mounted image, a test).

    ``kubelet`` is ``None`` where there is none. Raises :class:`hil.shell.NodeUnfit` where what
    came back is no answer, and what the shell raises.
    """
    raise NotImplementedError


def kubelet_of(facts: NodeFacts) -> KubeletFacts:
    """The kubelet of a node that must have one; raises :class:`hil.shell.NodeUnfit`."""
    if facts.kubelet is None:
        raise NodeUnfit(f"{facts.name}: there is no kubelet on it")
    return facts.kubelet
