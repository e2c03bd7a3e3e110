"""Nodes of the model's tests: machines by name or by counts, and steps taken one after the other;
and what tests write of hints and of state files."""

from __future__ import annotations

from collections.abc import Mapping

import topologies
from reference import Checkpoint, CPUSet, CPUTopology, Node
from reference.releases import NEWEST, AnyRelease
from reference.steps import KubeletConfig, Start, Step
from reference.topologymanager.hint import Hint
from reference.view import View

FOUR, EIGHT, TWO_NODES = "1s-1n-4c-smt1", "1s-1n-4c-smt2", "2s-2n-8c-smt2"


def even(cores: int, nodes: int, sockets: int, threads: int = 2, *, caches: int = 1) -> CPUTopology:
    """Cores evenly in NUMA nodes, sockets and L3 caches; thread t of core c is CPU
    ``c + t * cores``."""
    places = {}
    for cpu in range(threads * cores):
        core = cpu % cores
        node, socket, cache = (core * one // cores for one in (nodes, sockets, caches))
        places[cpu] = (node, socket, core, cache)
    return CPUTopology.of(places)


def tree(machine: str) -> Mapping[str, str]:
    """Of a machine of the catalogue or a described one; ``…-128mib``: so much memory by node."""
    return topologies.machine(machine).tree


def do(one: Node, *steps: Step) -> View:
    """Take the steps one after the other; what the node shows then."""
    for step in steps:
        one.do(step)
    return one.view()


def node(
    *steps: Step, config: KubeletConfig, machine: str = EIGHT, release: AnyRelease = NEWEST
) -> Node:
    """A node that has taken these steps."""
    made = Node(tree, machine, config, release=release)
    do(made, *steps)
    return made


def booted(
    *steps: Step, config: KubeletConfig, machine: str = EIGHT, release: AnyRelease = NEWEST
) -> Node:
    """A node that has started and then taken these steps."""
    return node(Start(), *steps, config=config, machine=machine, release=release)


def hint_text(hint: Hint | None) -> str:
    """``01 P``: the NUMA nodes of a hint, or ``any``; P where it is preferred."""
    if hint is None:
        return "None"
    nodes = "any" if hint.nodes is None else "".join(map(str, CPUSet.of_mask(hint.nodes)))
    return f"{nodes} P" if hint.preferred else nodes


def state_file(default: str, entries: Mapping[str, Mapping[str, str]]) -> str:
    """Of policy static: the shared pool, and who holds what by pod and container."""
    held = {uid: {n: CPUSet.parse(c) for n, c in named.items()} for uid, named in entries.items()}
    return Checkpoint("static", CPUSet.parse(default), held).dumps()
