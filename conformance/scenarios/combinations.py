"""Options of the static policy in combination: each keeps its promise beside the others, or the
kubelet refuses the pair.

There are 15 combinations of the stable and beta options. Four of them hold the pair that is
refused, four are one option alone, which has scenarios of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, guaranteed
from conformance.scenario import Level, Needs, Source
from conformance.scenarios.abilities import RESTARTED
from conformance.scenarios.entering import refused, row
from conformance.scenarios.optional import promise_whole_cores, with_options
from conformance.scenarios.sources import ACROSS_CORES, ACROSS_NUMA, STRICT, UNCORE_CACHE

_FULL: Final = "full-pcpus-only"
_STRICT: Final = "strict-cpu-reservation"
_UNCORE: Final = "prefer-align-cpus-by-uncorecache"
_NUMA: Final = "distribute-cpus-across-numa"
_CORES: Final = "distribute-cpus-across-cores"
#: Room for what :func:`_large` requests.
_CACHES: Final = Needs(uncore_caches=2, caches_in_nodes=True, cores=6, even=True)
_NODES: Final = Needs(numa_nodes=2, numa_cores=5, cores=6, even=True)


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
        node.promise_cpuset("No shared container is on a reserved CPU", "shared", pool)


def _fill_restart_drain(node: LockstepNode, *options: str) -> None:
    node.boot(with_options(node, *options))
    whole, core = node.view.shared_pool, node.topology.cpus_per_core
    node.apply(best_effort("shared"))
    for pod, count in (("large", _large(node, options)), ("small", core)):
        node.apply(guaranteed(pod, count))
        _promise_each(node, pod, count, options)
    held = node.taken("small")
    node.delete("large")
    node.restart()
    node.promise_running("The kubelet starts on its state file")
    node.promise_cpus("The pod keeps its CPUs", "small/c", held, node.taken("small"))
    _promise_each(node, "small", core, options)
    node.delete("small", passing=True)
    node.promise_pool("Every CPU returns", whole)


def _together(
    scenario_id: str,
    promise: str,
    options: tuple[str, ...],
    source: Source,
    needs: Needs,
    since: str = "1.32",
) -> None:
    """Enter a scenario: the options keep their promises together."""
    *others, last = options
    title = f"{', '.join(others)} and {last} keep their promises together".capitalize()
    whole = f"{promise}\nThe kubelet starts again on its state file, and every CPU returns."
    row(
        scenario_id, title, whole, lambda node: _fill_restart_drain(node, *options),
        source=source, since=since, needs=needs, capabilities=RESTARTED,
    )  # fmt: skip


_together(
    "options/full-pcpus-with-strict",
    "Whole cores, and no shared container on reserved CPUs.",
    (_FULL, _STRICT), STRICT, Needs(smt=2, cores=6, even=True),
)  # fmt: skip
_together(
    "options/full-pcpus-with-uncore",
    "Whole cores, and all of them in one uncore cache.",
    (_FULL, _UNCORE), UNCORE_CACHE, replace(_CACHES, smt=2),
)  # fmt: skip
_together(
    "options/full-pcpus-with-numa",
    "Whole cores, and half of them in each of two NUMA nodes.",
    (_FULL, _NUMA), ACROSS_NUMA, replace(_NODES, smt=2), since="1.23",
)  # fmt: skip
_together(
    "options/strict-with-uncore",
    "One uncore cache, and no shared container on reserved CPUs.",
    (_STRICT, _UNCORE), UNCORE_CACHE, _CACHES,
)  # fmt: skip
_together(
    "options/strict-with-numa",
    "Half of the CPUs in each of two NUMA nodes, and no shared container on reserved CPUs.",
    (_STRICT, _NUMA), ACROSS_NUMA, _NODES,
)  # fmt: skip
_together(
    "options/full-pcpus-and-strict-with-uncore",
    "Whole cores of one uncore cache, and no shared container on reserved CPUs.",
    (_FULL, _STRICT, _UNCORE), STRICT, replace(_CACHES, smt=2),
)  # fmt: skip
_together(
    "options/full-pcpus-and-strict-with-numa",
    "Whole cores, half of them in each of two NUMA nodes; no shared container on reserved CPUs.",
    (_FULL, _STRICT, _NUMA), STRICT, replace(_NODES, smt=2),
)  # fmt: skip


def _excluding(
    scenario_id: str, promise: str, first: str, second: str, source: Source, since: str
) -> None:
    """Enter a core scenario: the kubelet does not start with both options."""
    both = f"new static policy error: static policy options {first} and {second}"
    refused(
        scenario_id, f"Options {first} and {second} together keep the kubelet down",
        source, promise,
        lambda node: with_options(node, first, second), f"{both} can not be used at the same time",
        level=Level.CORE, since=since,
    )  # fmt: skip


_excluding(
    "options/numa-and-cores-are-refused",
    "One fills cores of few NUMA nodes evenly, the other takes single threads.",
    _NUMA, _CORES, ACROSS_CORES, since="1.31",
)  # fmt: skip
_excluding(
    "options/uncore-and-cores-are-refused",
    "One keeps CPUs together, the other spreads them.",
    _UNCORE, _CORES, UNCORE_CACHE, since="1.32",
)  # fmt: skip
_excluding(
    "options/uncore-and-numa-are-refused",
    "One keeps CPUs within a cache, the other spreads them over NUMA nodes.",
    _UNCORE, _NUMA, UNCORE_CACHE, since="1.32",
)  # fmt: skip


def _odd_cores(node: LockstepNode) -> None:
    topology = node.topology
    cores = topology.num_cores // topology.num_numa_nodes
    count = (cores + 1 + cores % 2) * topology.cpus_per_core
    node.boot(with_options(node, _FULL, _NUMA))
    node.apply(guaranteed("a", count))
    taken = node.taken("a")
    node.promise_equal("As many as requested", "number of CPUs of a/c", count, len(taken))
    promise_whole_cores(node, taken)


row(
    "options/odd-cores-over-numa-nodes",
    "Beside full-pcpus-only distribute-cpus-across-numa splits no core of an odd number",
    """The container requests more cores than a NUMA node has. An odd number of them cannot lie in
    equal parts in two NUMA nodes.""",
    _odd_cores,
    source=ACROSS_NUMA, since="1.23", needs=replace(_NODES, smt=2, numa_cores=3),
)  # fmt: skip
