"""Measuring on a node: a container on exclusive CPUs against one that shares, both spinning.

What belongs here: the pods that are brought for it, and taken away. What never does: a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import topologies
from conformance.discovered import first_core, topology_of
from conformance.subject import SubjectInfo
from hil.isolation.noise import Measured, read_noise, script
from hil.node.node import RealNode
from hil.node.scripts import Act
from reference.steps import Apply, Container, KubeletConfig, Pod, Start
from reference.view import Phase, View
from topologies import Machine

_MEMORY: Final = "64Mi"


class OnNodes(Protocol):
    """What a subject of nodes has (:class:`hil.subject.NodeSubject`)."""

    info: SubjectInfo
    machines: tuple[Machine, ...]

    def own_config(self, machine: str) -> KubeletConfig | None: ...

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> RealNode: ...


def measure(subject: OnNodes, machine: Machine) -> Sequence[Measured]:
    """Bring one Guaranteed pod with one exclusive CPU and one BestEffort pod, let both spin at the
    same time, and say what each had to suffer. Raises what a subject raises."""
    config = subject.own_config(machine.name)
    if config is None:
        topology = topology_of(machine, release=subject.info.release)
        config = KubeletConfig(reserved_system_cpus=first_core(topology))
    node = subject.node(machine, config, machines=topologies.machine)
    try:
        node.do(Start())
        for pod in _pods():
            node.do(Apply(pod))
            node.settle(_runs(pod.name))
        containers = node.containers()
        told = node.run(Act(script(containers)))
        return read_noise(told, [one.name for one in containers])
    finally:
        node.close()


def _pods() -> tuple[Pod, Pod]:
    whole = Container(
        "exclusive", cpu_request="1", cpu_limit="1", memory_request=_MEMORY, memory_limit=_MEMORY
    )
    return Pod("noise-exclusive", (whole,)), Pod("noise-shared", (Container("shared"),))


def _runs(name: str) -> Callable[[View], bool]:
    def runs(view: View) -> bool:
        pod = view.pods.get(name)
        return pod is not None and pod.phase is Phase.RUNNING

    return runs
