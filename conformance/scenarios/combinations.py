"""Options of the static policy in combination: each keeps its promise beside the others, or the
kubelet refuses the pair.

There are 15 combinations of the stable and beta options. Four of them hold the pair that is
refused, four are one option alone, which has scenarios of its own.
"""

from __future__ import annotations

from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import best_effort, guaranteed
from conformance.scenario import Level, scenario
from conformance.scenarios.optional import promise_whole_cores, with_options
from conformance.scenarios.sources import ACROSS_CORES, ACROSS_NUMA, STRICT, UNCORE_CACHE
from conformance.subject import Capability

_FULL: Final = "full-pcpus-only"
_STRICT: Final = "strict-cpu-reservation"
_UNCORE: Final = "prefer-align-cpus-by-uncorecache"
_NUMA: Final = "distribute-cpus-across-numa"
_CORES: Final = "distribute-cpus-across-cores"

_RESTART: Final = (Capability.RESTART, Capability.CPUSETS)


def _large(node: LockstepNode, options: tuple[str, ...]) -> int:
    """A request that the options decide: half of two NUMA nodes each, a whole uncore cache, or two
    cores."""
    topology = node.topology
    if _NUMA in options:
        cores = topology.num_cores // topology.num_numa_nodes
        return 2 * topology.cpus_per_core * (cores // 2 + 1)
    return topology.cpus_per_uncore if _UNCORE in options else 2 * topology.cpus_per_core


def _promise_each(node: LockstepNode, pod: str, count: int, options: tuple[str, ...]) -> None:
    """What every option promises of a container's CPUs."""
    taken, details = node.taken(pod), node.topology.details
    node.promise_equal("As many as requested", f"number of CPUs of {pod}/c", count, len(taken))
    if _FULL in options:
        promise_whole_cores(node, taken)
    if _UNCORE in options:
        caches = len({details[cpu].uncore for cpu in taken})
        node.promise_equal("They share a cache", f"uncore caches of {pod}/c", 1, caches)
    if _NUMA in options and pod == "large":
        halves = [len([cpu for cpu in taken if details[cpu].numa == one]) for one in
                  {details[cpu].numa for cpu in taken}]  # fmt: skip
        node.promise_equal(
            "Two NUMA nodes give half each", "CPUs of each", [count // 2] * 2, halves
        )
    if _STRICT in options:
        pool = node.cpus - node.reserved - node.taken("large") - node.taken("small")
        node.promise_cpus("No shared container is on a reserved CPU", "cpuset shared/c", pool,
                          node.cpuset("shared"))  # fmt: skip


def _fill_restart_drain(node: LockstepNode, *options: str) -> None:
    node.boot(with_options(node, *options))
    whole, core = node.view.shared_pool, node.topology.cpus_per_core
    node.apply(best_effort("shared"))
    for pod, count in (("large", _large(node, options)), ("small", core)):
        node.apply(guaranteed(pod, count))
        _promise_each(node, pod, count, options)
    held = node.taken("small")
    node.delete("large")
    node.kill()
    node.start()
    node.promise_running("The kubelet starts on its state file")
    node.promise_cpus("The pod keeps its CPUs", "small/c", held, node.taken("small"))
    _promise_each(node, "small", core, options)
    node.delete("small")
    node.pass_admission()
    node.promise_cpus("Every CPU returns", "shared pool", whole, node.view.shared_pool)


def _promise_refused(node: LockstepNode, first: str, second: str) -> None:
    node.boot(with_options(node, first, second))
    node.promise_refusal(
        f"new static policy error: static policy options {first} and {second} can not be used at "
        "the same time"
    )


@scenario(
    "options/full-pcpus-with-strict",
    "Full-pcpus-only and strict-cpu-reservation keep their promises together",
    STRICT,
    since="1.32",
    needs=Needs(smt=2, cores=6, even=True),
    capabilities=_RESTART,
)
def full_pcpus_with_strict(node: LockstepNode) -> None:
    """Whole cores, and no shared container on reserved CPUs.
    The kubelet starts again on its state file, and every CPU returns."""
    _fill_restart_drain(node, _FULL, _STRICT)


@scenario(
    "options/full-pcpus-with-uncore",
    "Full-pcpus-only and prefer-align-cpus-by-uncorecache keep their promises together",
    UNCORE_CACHE,
    since="1.32",
    needs=Needs(smt=2, uncore_caches=2, caches_in_nodes=True, cores=6, even=True),
    capabilities=_RESTART,
)
def full_pcpus_with_uncore(node: LockstepNode) -> None:
    """Whole cores, and all of them in one uncore cache.
    The kubelet starts again on its state file, and every CPU returns."""
    _fill_restart_drain(node, _FULL, _UNCORE)


@scenario(
    "options/full-pcpus-with-numa",
    "Full-pcpus-only and distribute-cpus-across-numa keep their promises together",
    ACROSS_NUMA,
    since="1.23",
    needs=Needs(smt=2, numa_nodes=2, numa_cores=5, cores=6, even=True),
    capabilities=_RESTART,
)
def full_pcpus_with_numa(node: LockstepNode) -> None:
    """Whole cores, and half of them in each of two NUMA nodes.
    The kubelet starts again on its state file, and every CPU returns."""
    _fill_restart_drain(node, _FULL, _NUMA)


@scenario(
    "options/strict-with-uncore",
    "Strict-cpu-reservation and prefer-align-cpus-by-uncorecache keep their promises together",
    UNCORE_CACHE,
    since="1.32",
    needs=Needs(uncore_caches=2, caches_in_nodes=True, cores=6, even=True),
    capabilities=_RESTART,
)
def strict_with_uncore(node: LockstepNode) -> None:
    """One uncore cache, and no shared container on reserved CPUs.
    The kubelet starts again on its state file, and every CPU returns."""
    _fill_restart_drain(node, _STRICT, _UNCORE)


@scenario(
    "options/strict-with-numa",
    "Strict-cpu-reservation and distribute-cpus-across-numa keep their promises together",
    ACROSS_NUMA,
    since="1.32",
    needs=Needs(numa_nodes=2, numa_cores=5, cores=6, even=True),
    capabilities=_RESTART,
)
def strict_with_numa(node: LockstepNode) -> None:
    """Half of the CPUs in each of two NUMA nodes, and no shared container on reserved CPUs.
    The kubelet starts again on its state file, and every CPU returns."""
    _fill_restart_drain(node, _STRICT, _NUMA)


@scenario(
    "options/full-pcpus-and-strict-with-uncore",
    "Full-pcpus-only, strict-cpu-reservation and prefer-align-cpus-by-uncorecache keep their "
    "promises together",
    STRICT,
    since="1.32",
    needs=Needs(smt=2, uncore_caches=2, caches_in_nodes=True, cores=6, even=True),
    capabilities=_RESTART,
)
def full_pcpus_and_strict_with_uncore(node: LockstepNode) -> None:
    """Whole cores of one uncore cache, and no shared container on reserved CPUs.
    The kubelet starts again on its state file, and every CPU returns."""
    _fill_restart_drain(node, _FULL, _STRICT, _UNCORE)


@scenario(
    "options/full-pcpus-and-strict-with-numa",
    "Full-pcpus-only, strict-cpu-reservation and distribute-cpus-across-numa keep their "
    "promises together",
    STRICT,
    since="1.32",
    needs=Needs(smt=2, numa_nodes=2, numa_cores=5, cores=6, even=True),
    capabilities=_RESTART,
)
def full_pcpus_and_strict_with_numa(node: LockstepNode) -> None:
    """Whole cores, half of them in each of two NUMA nodes; no shared container on reserved CPUs.
    The kubelet starts again on its state file, and every CPU returns."""
    _fill_restart_drain(node, _FULL, _STRICT, _NUMA)


@scenario(
    "options/numa-and-cores-are-refused",
    "Options distribute-cpus-across-numa and distribute-cpus-across-cores together keep the "
    "kubelet down",
    ACROSS_CORES,
    level=Level.CORE,
    since="1.31",
    capabilities=[Capability.START_ERROR],
)
def numa_and_cores_are_refused(node: LockstepNode) -> None:
    """One fills cores of few NUMA nodes evenly, the other takes single threads."""
    _promise_refused(node, _NUMA, _CORES)


@scenario(
    "options/uncore-and-cores-are-refused",
    "Options prefer-align-cpus-by-uncorecache and distribute-cpus-across-cores together keep "
    "the kubelet down",
    UNCORE_CACHE,
    level=Level.CORE,
    since="1.32",
    capabilities=[Capability.START_ERROR],
)
def uncore_and_cores_are_refused(node: LockstepNode) -> None:
    """One keeps CPUs together, the other spreads them."""
    _promise_refused(node, _UNCORE, _CORES)


@scenario(
    "options/uncore-and-numa-are-refused",
    "Options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa together keep "
    "the kubelet down",
    UNCORE_CACHE,
    level=Level.CORE,
    since="1.32",
    capabilities=[Capability.START_ERROR],
)
def uncore_and_numa_are_refused(node: LockstepNode) -> None:
    """One keeps CPUs within a cache, the other spreads them over NUMA nodes."""
    _promise_refused(node, _UNCORE, _NUMA)
