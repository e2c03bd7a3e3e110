"""Measuring on a node: a container on exclusive CPUs against one that shares, both spinning.

What belongs here: the pods that are brought for it, and taken away. What never does: a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

import topologies
from conformance.discovered import first_core, topology_of
from conformance.subject import SubjectInfo
from hil.isolation import latency
from hil.isolation.noise import Measured, NotMeasured, read_noise, script
from hil.session.node import RealNode
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


@dataclass(frozen=True, slots=True)
class Measurements:
    """``latency`` and ``period`` are in seconds: how long a shared container kept CPUs that were
    given away, and the kubelet's reconcile period. ``noise`` is by thread."""

    latency: float
    period: float
    noise: tuple[Measured, ...]


def measure(subject: OnNodes, machine: Machine) -> Measurements:
    """Bring a BestEffort pod, then a Guaranteed one with one exclusive CPU; see when the first has
    left that CPU; let both spin at the same time, and say what each had to suffer. Raises what a
    subject raises, and :class:`hil.isolation.NotMeasured`."""
    config = subject.own_config(machine.name)
    if config is None:
        topology = topology_of(machine, release=subject.info.release)
        config = KubeletConfig(reserved_system_cpus=first_core(topology))
    pinned, shared = _pods()
    with closing(subject.node(machine, config, machines=topologies.machine)) as node:
        node.do(Start())
        node.do(Apply(shared))
        node.settle(_runs(shared.name))
        (sharing,) = node.containers() or _none()
        written = node.apply_and_run(pinned, latency.script(node.session.places, sharing))
        node.settle(_runs(pinned.name))
        containers = node.containers()
        noise = read_noise(node.run(script(containers)), [one.name for one in containers])
        period = node.session.reconcile_period
        return Measurements(latency.read_latency(written), period, tuple(noise))


def _none() -> NoReturn:
    raise NotMeasured("no container of this run is running")


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
