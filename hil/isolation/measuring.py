"""Measuring on a node: a container on exclusive CPUs against one that shares, both spinning."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

import topologies
from conformance.discovered import first_core, topology_of
from conformance.subject import SubjectInfo
from hil.isolation import cyclictest, judging, latency
from hil.isolation.disturbance import Disturbance, mask_of, read_disturbance
from hil.isolation.disturbance import script as watch
from hil.isolation.judging import IRQ_ANNOTATION, Held
from hil.isolation.noise import Measured, NotMeasured, read_noise, script
from hil.session.node import RealNode
from reference import CPUSet
from reference.steps import Apply, Container, Delete, KubeletConfig, Pod, Start
from reference.view import Phase, View
from topologies import Machine

_MEMORY: Final = "64Mi"
_EXCLUSIVE: Final = "exclusive"
_SHARED: Final = "noise-shared"
_PINNED: Final = "noise-exclusive"
_AGAIN: Final = "noise-again"


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
    given away, and the kubelet's reconcile period. ``noise`` is by thread; ``disturbance`` is of
    the exclusive CPU. ``churn`` is what interrupts may do while pods come and go, where the runtime
    promises something of that. ``wakeups`` are cyclictest's, where the node has it."""

    latency: float
    period: float
    noise: tuple[Measured, ...]
    disturbance: Disturbance
    isolated: CPUSet
    churn: tuple[Held, ...] = ()
    wakeups: cyclictest.Wakeups | None = None

    def judged(self, most: float) -> list[judging.Judged]:
        """What was promised, and whether it was so; ``most`` is a bound for the longest gap on
        exclusive CPUs, in microseconds, 0 for none."""
        pinned = [one for one in self.noise if one.name == _EXCLUSIVE]
        bounded = judging.latency(pinned, self.wakeups, most) if most else []
        promised = (
            judging.tasks(self.disturbance, self.isolated),
            judging.interrupts(self.churn, self.disturbance.promised),
        )
        return [*bounded, *(one for one in promised if one)]


def measure(subject: OnNodes, machine: Machine) -> Measurements:
    """Create a BestEffort pod, then a Guaranteed one with one exclusive CPU. Measure when the first
    leaves that CPU; then let both spin at the same time, and measure the noise of each. Raises what
    a subject raises, and :class:`hil.isolation.NotMeasured`."""
    config = subject.own_config(machine.name)
    if config is None:
        topology = topology_of(machine, release=subject.info.release)
        config = KubeletConfig(reserved_system_cpus=first_core(topology))
    pinned, shared = _pods()
    with closing(subject.node(machine, config, machines=topologies.machine)) as node:
        node.do(Start())
        node.do(Apply(shared))
        node.settle(_runs(shared.name))
        (sharing,) = node.containers() or _no_container()
        before = _default_affinity(node)
        written = node.apply_and_run(pinned, latency.script(node.session.places, sharing))
        node.settle(_runs(pinned.name))
        containers = node.containers()
        noise = read_noise(node.run(script(containers)), [one.name for one in containers])
        own = next(one for one in containers if one.name == _EXCLUSIVE)
        facts = node.session.facts
        found = read_disturbance(
            node.run(watch(node.session.places, own, facts.online)), own.effective
        )
        return Measurements(
            latency.read_latency(written),
            node.session.reconcile_period,
            tuple(noise),
            found,
            facts.isolated,
            wakeups=cyclictest.read_wakeups(node.run(cyclictest.script(found.cpus)), found.cpus),
            churn=_churn(node, before, found) if found.promised else (),
        )


def _churn(node: RealNode, before: CPUSet, found: Disturbance) -> tuple[Held, ...]:
    """Delete the pod, then create and delete another: CRI-O once gave a pod's CPUs back after the
    next one had them (https://github.com/cri-o/cri-o/issues/9227)."""
    none = CPUSet()
    seen = [Held(none, before), Held(found.cpus, found.default)]
    node.do(Delete(_PINNED))
    node.settle(_gone(_PINNED))
    seen.append(Held(none, _default_affinity(node)))
    node.do(Apply(_pods(_AGAIN)[0]))
    node.settle(_runs(_AGAIN))
    own = next(one for one in node.containers() if one.name == _EXCLUSIVE)
    seen.append(Held(own.effective, _default_affinity(node)))
    node.do(Delete(_AGAIN))
    node.settle(_gone(_AGAIN))
    return (*seen, Held(none, _default_affinity(node)))


def _default_affinity(node: RealNode) -> CPUSet:
    return mask_of(node.run("cat /proc/irq/default_smp_affinity 2>/dev/null || :").strip())


def _no_container() -> NoReturn:
    raise NotMeasured("no container of this run is running")


def _pods(name: str = _PINNED) -> tuple[Pod, Pod]:
    whole = Container(
        _EXCLUSIVE, cpu_request="1", cpu_limit="1", memory_request=_MEMORY, memory_limit=_MEMORY
    )
    # A runtime that does not know the annotation ignores it.
    pinned = Pod(name, (whole,), annotations=((IRQ_ANNOTATION, "disable"),))
    return pinned, Pod(_SHARED, (Container("shared"),))


def _gone(name: str) -> Callable[[View], bool]:
    return lambda view: name not in view.pods


def _runs(name: str) -> Callable[[View], bool]:
    def runs(view: View) -> bool:
        pod = view.pods.get(name)
        return pod is not None and pod.phase is Phase.RUNNING

    return runs
