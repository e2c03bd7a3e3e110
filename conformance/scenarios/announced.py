"""What 1.38 mends, as its changelog announces it: the right behaviour, where earlier releases have
a defect. No kubelet of 1.38 was seen yet; the CPU manager's code of 1.38.0-beta.0 was."""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed
from conformance.scenario import Level, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import RESTARTED
from conformance.scenarios.entering import core
from conformance.scenarios.optional import promise_whole_cores, with_options
from conformance.scenarios.outcomes import promise_running
from conformance.scenarios.pod_level_parts import ROOM, managed, pod_of, shared
from conformance.scenarios.uneven import promise_only_free
from reference import CPUSet

_options: Final = partial(promised, area="options")

_SINCE: Final = "1.38"
_ACROSS_NUMA: Final = "distribute-cpus-across-numa"


@core(sources.UNEVEN_CORES, area="uneven", since=_SINCE, machine="1s-1n-4c-smt2-off7")
def sizes_of_cores_are_respected(node: LockstepNode) -> None:
    """From 1.38 on exclusive CPUs are taken from what is free on cores of any size.
    Whether a core is free is judged by its own size. No CPU twice, and no reserved one."""
    promise_only_free(node, {"a": 2, "b": 1, "c": 1})


@_options(
    sources.ENDLESS_SEARCH, level=Level.CORE, since=_SINCE, machine="2s-4n-40c-smt2-interleaved"
)
def numa_distribution_always_answers(node: LockstepNode) -> None:
    """From 1.38 on a request that is spread over NUMA nodes is answered where half cores are left.
    Whole cores are counted, where earlier releases count CPUs and search for ever. One thread of
    each of four cores is reserved."""
    reserved = CPUSet([7, 34, 44, 64])
    node.boot(with_options(node, _ACROSS_NUMA, "full-pcpus-only", reserved=reserved))
    node.apply(guaranteed("large", 70))
    node.promise_equal("As many as requested", "size of large/c", 70, len(node.taken("large")))
    promise_whole_cores(node, node.taken("large"))
    node.delete("large")
    node.apply(guaranteed("small", 2))
    node.promise_equal("The next is answered too", "size of small/c", 2, len(node.taken("small")))


@_options(sources.OVERWRITTEN_COMBINATION, since=_SINCE, machine="8s-8n-32c-smt4-near")
def numa_distribution_keeps_its_choice(node: LockstepNode) -> None:
    """From 1.38 on distribute-cpus-across-numa takes the NUMA nodes that it has chosen.
    Of combinations that balance equally well, the first."""
    node.boot(with_options(node, _ACROSS_NUMA))
    node.apply(guaranteed("a", len(node.cpus) // 2))
    seen = node.topology.numa_node_ids(node.taken("a"))
    node.promise_equal("The first four that are free", "NUMA nodes of a/c", [1, 2, 3, 4], seen)


@_options(sources.NEIGHBOURING_THREADS, since=_SINCE, machine="1s-1n-4c-smt2-near")
def across_cores_spreads_whatever_the_numbers(node: LockstepNode) -> None:
    """From 1.38 on distribute-cpus-across-cores takes CPUs of different cores in any numbering.
    A CPU of each core in turn."""
    node.boot(with_options(node, "distribute-cpus-across-cores", reserved=CPUSet([0, 1])))
    node.apply(guaranteed("a", 2))
    cores = len(node.topology.core_ids(node.taken("a")))
    node.promise_equal("Each CPU is of another core", "cores of a/c", 2, cores)


@promised(sources.POD_POOL_KEPT, area="pod-level", since=_SINCE, needs=ROOM, capabilities=RESTARTED)
def restart_keeps_the_pool(node: LockstepNode) -> None:
    """From 1.38 on a pod keeps the CPUs that it holds as a whole over a restart of the kubelet.
    Exclusive containers keep theirs, the others the rest, over two restarts."""
    node.boot_with(pod_of("a", 4, exclusive("main", 2), shared("side")), config=managed(node))
    main, rest = node.cpuset("a", "main"), node.cpuset("a", "side")
    for _ in range(2):
        node.restart()
        promise_running(node, "a")
        node.promise_cpuset("It never moved", "a", main, "main")
        node.promise_cpuset("The rest is the same", "a", rest, "side")
