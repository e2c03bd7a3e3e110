"""A telling history is made as short as possible by leaving things out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import topologies
from conformance.discovered import topology_of
from conformance.identifying.history import History
from differential.kill_matrix import MACHINES, WITH_CACHES, WITH_NODES
from hunting.shrinking import plainer
from reference import DiscoveryError
from reference.steps import Apply, Configure, Resize


def shrunk(history: History, still: Callable[[History], bool]) -> History:
    """The smallest history that is reached by leaving out one thing after another, as long as it
    ``still`` tells."""
    while True:
        smaller = next((one for one in _smaller(history) if still(one)), None)
        if smaller is None:
            return history
        history = smaller


def _smaller(history: History) -> Iterator[History]:
    steps = history.steps
    for number in range(len(steps) - 1, -1, -1):
        yield replace(history, steps=steps[:number] + steps[number + 1 :])
    for name in (*MACHINES, WITH_CACHES, WITH_NODES):
        if _cpus(name) < _cpus(history.machine):
            yield replace(history, machine=name)
    base, _, memory = history.machine.rpartition("-")
    if memory.endswith("mib"):
        yield replace(history, machine=base)
    for config in plainer(history.config):
        yield replace(history, config=config)
    for number, step in enumerate(steps):
        for less in _less(step):
            yield replace(history, steps=(*steps[:number], less, *steps[number + 1 :]))


def _less(step: object) -> Iterator[Apply | Configure | Resize]:
    if isinstance(step, Configure):
        yield from (Configure(one) for one in plainer(step.config))
    if isinstance(step, Apply) and len(step.pod.containers) > 1:
        for number in range(len(step.pod.containers)):
            rest = step.pod.containers[:number] + step.pod.containers[number + 1 :]
            yield Apply(replace(step.pod, containers=rest))


def _cpus(name: str) -> int:
    try:
        return len(topology_of(topologies.machine(name), release="1.37").details)
    except DiscoveryError:
        return 0
