"""More histories that show one behaviour. In a single history a fault may look like the behaviour.

How it works: the same steps are taken on other machines of the catalogue, small ones first, and
with one more pod. If the model shows the two releases differently in such a variant, it is a
witness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

import topologies
from conformance.identifying.history import History
from conformance.identifying.walking import tells
from conformance.pods import guaranteed
from conformance.subject import Capability
from reference import Architecture
from reference.steps import Apply, Pod, Start

#: How many variants of each kind are enough.
_EACH: Final = 1
#: How many machines are tried, by growing number of CPUs; on the largest the model is slow.
_MACHINES: Final = 40
#: A pod that holds a CPU of its own, and one that holds none.
_PODS: Final = (guaranteed("witness", 1), guaranteed("witness", "500m"))


def witnesses(
    history: History,
    one: str,
    other: str,
    can: Collection[Capability],
    architecture: str | None = None,
) -> Iterator[History]:
    """Variants of a history that tell two releases apart, overrides included: one with a pod more,
    and one on another machine of the ``architecture`` that a subject was built for. There are fewer
    if no variant that was tried tells them apart."""
    machines = (replace(history, machine=name) for name in _machines(history.machine, architecture))
    pods = (_with(history, pod) for pod in _PODS)
    for variants in (pods, machines):
        yield from islice((each for each in variants if tells(each, one, other, can)), _EACH)


def _with(history: History, pod: Pod) -> History:
    """The history with this pod applied right after the kubelet's first start."""
    steps = history.steps
    place = next((at for at, step in enumerate(steps, 1) if isinstance(step, Start)), len(steps))
    return replace(history, steps=(*steps[:place], Apply(pod), *steps[place:]))


def _machines(but: str, architecture: str | None) -> Iterator[str]:
    """Small machines that a subject can run on. Without an ``architecture`` they have that of
    machine ``but``."""
    wanted = Architecture.named(architecture) if architecture else built_for(but)
    names = [name for name in topologies.names() if name != but]
    return (name for name in names[:_MACHINES] if built_for(name) is wanted)


def built_for(name: str) -> Architecture:
    """The architecture of a machine of the catalogue."""
    return Architecture.of_cpuinfo(topologies.machine(name).tree.get("proc/cpuinfo", ""))
