"""Machines whose cores are of different sizes, as one with a CPU offline has them.

From 1.22 on the kubelet judges whether a core is free by the average size of cores, and takes it by
its own (kubernetes/kubernetes#140498). So it may hand out CPUs that are not free. These scenarios
say what it does, and that it breaks a promise there; a fork that carries the fix is judged by the
promise (``--behaviour true-sizes=on``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.promises import EXCLUSIVE_TO_ONE, RESERVED_STAY
from conformance.scenario import promised
from conformance.scenarios.outcomes import take
from conformance.scenarios.sources import TASK_PAGE, UNEVEN_CORES
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.steps import KubeletConfig

#: Cores {0,4} {1,5} {2,6} {3}: one CPU each, by the average.
_UNEVEN: Final = "1s-1n-4c-smt2-off7"
_FIRST: Final = CPUSet([0])


def promise_only_free(node: LockstepNode, requests: Mapping[str, int]) -> None:
    """Start with CPU 0 reserved, and promise that each pod gets so many CPUs, all of them free."""
    node.boot(KubeletConfig(reserved_system_cpus=_FIRST))
    free = node.free
    for name, count in requests.items():
        taken = take(node, name, count)
        node.promise_equal("As many as requested", f"size of {name}/c", count, len(taken))
        node.promise_cpus("Only free CPUs are taken", f"{name}/c", CPUSet(), taken - free)
        free -= taken


_defect: Final = partial(
    promised, area="uneven", source=UNEVEN_CORES, since="1.22", until="1.37", machine=_UNEVEN
)


def _is_mended(node: LockstepNode) -> bool:
    return node.release_has(Behaviour.TRUE_SIZES)


@_defect(source=TASK_PAGE, since="1.17", until="1.21")
def only_free_cpus_are_given(node: LockstepNode) -> None:
    """On cores of different sizes exclusive CPUs are taken from what is free.
    No CPU twice, and no reserved one."""
    promise_only_free(node, {"a": 1, "b": 1, "c": 2})


@_defect()
def reserved_cpu_is_given_away(node: LockstepNode) -> None:
    """Where a core lacks a CPU, a request may be given a reserved CPU.
    A known defect: it breaks the promise that reserved CPUs stay in the shared pool. The kubelet
    counts the first core as free, although only one of its two CPUs is free."""
    if not _is_mended(node):
        node.expect_broken(RESERVED_STAY)
    node.boot(KubeletConfig(reserved_system_cpus=_FIRST))
    given = _FIRST & take(node, "a", 2)
    expected = CPUSet() if _is_mended(node) else _FIRST
    node.promise_cpus("The reserved CPU is given away", "reserved CPUs of a/c", expected, given)


@_defect()
def busy_cpu_is_given_away(node: LockstepNode) -> None:
    """Where a core lacks a CPU, a request may be given a CPU that another container has.
    A known defect: it breaks the promise that exclusive CPUs belong to one container alone. The
    first request takes the core with one CPU, and the second takes one CPU of another core. The
    third request then counts that core as free."""
    if not _is_mended(node):
        node.expect_broken(EXCLUSIVE_TO_ONE)
    node.boot(KubeletConfig(reserved_system_cpus=node.topology.with_siblings(_FIRST)))
    for name, count in (("a", 1), ("b", 1), ("c", 2)):
        node.apply(guaranteed(name, count))
    twice = node.taken("b") & node.taken("c")
    expected = CPUSet() if _is_mended(node) else node.taken("b")
    node.promise_cpus("The CPU of b is given away again", "CPUs of b and c", expected, twice)
