"""Which CPUs, cores, sockets and NUMA nodes a kubelet finds, on machines that releases have read
wrongly. What it found shows in the shared pool and in what it hands out."""

from __future__ import annotations

from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import START_ERROR
from conformance.scenarios.entering import core, refused, row
from conformance.scenarios.outcomes import take
from reference import CPUSet
from reference.steps import KubeletConfig

#: Two sockets share each of two NUMA nodes; core ids repeat in every socket.
_TWO_SOCKETS_A_NODE: Final = "4s-2n-16c-smt2"
#: No CPU has a file ``online``: the kernel cannot take CPUs offline.
_NO_ONLINE_FILES: Final = "4s-1n-8c-smt2-interleaved-xeon7100"
_GAPS: Final = "qemu-1s-1n-4c-smt2-cpustep2"
_S390X: Final = "qemu-4s-4n-4c-smt1-s390x-books4-drawers4"


def _boot(node: LockstepNode, *reserved: int) -> None:
    node.boot(KubeletConfig(reserved_system_cpus=CPUSet(reserved)))


def _takes_half(node: LockstepNode, rule: str, expected: str) -> None:
    """A request for half of the machine, where the first core is reserved."""
    _boot(node, 0, 16)
    node.apply(guaranteed("a", 16))
    node.promise_taken(rule, "a", CPUSet.parse(expected))


@core(sources.CORES_MERGED, area="discovery", since="1.21", machine=_TWO_SOCKETS_A_NODE)
def cores_of_two_packages_differ(node: LockstepNode) -> None:
    """Cores with the same id in two packages of a NUMA node are two physical cores.
    Merged, they would be one core of four threads, and two CPUs would come from two sockets."""
    _boot(node, 0, 16)
    sockets = node.topology.socket_ids(take(node, "a", 2))
    node.promise_equal("Two CPUs are one core", "sockets of a/c", 1, len(sockets))
    first = min(node.taken("a"), default=0)
    node.promise_taken("They are its two threads", "a", CPUSet([first, first + 16]))


row(
    "discovery/numa-node-before-sockets",
    "Where a NUMA node is larger than a socket, a request of its size takes one NUMA node whole",
    "Two free sockets would do by number, but they lie in two NUMA nodes.",
    lambda node: _takes_half(node, "The free NUMA node is taken", "8-15,24-31"),
    enter=core, source=sources.TOPOLOGY_ORDER, since="1.23", machine=_TWO_SOCKETS_A_NODE,
)  # fmt: skip
row(
    "discovery/sockets-before-numa-nodes",
    "Up to 1.22 a request takes the lowest free sockets, though they lie in two NUMA nodes",
    "NUMA nodes do not count when CPUs are taken.",
    lambda node: _takes_half(node, "Two sockets are taken", "4-11,20-27"),
    source=sources.TOPOLOGY_ORDER, since="1.22", until="1.22", machine=_TWO_SOCKETS_A_NODE,
)  # fmt: skip


@core(sources.NO_ONLINE_FILES, area="discovery", since="1.21", machine=_NO_ONLINE_FILES)
def cpus_without_an_online_file(node: LockstepNode) -> None:
    """On a kernel that cannot take CPUs offline every CPU is found.
    There no CPU has a file that says whether it is online."""
    _boot(node, 0)
    node.promise_pool("All CPUs are there", CPUSet.parse("0-15"))


@promised(
    sources.NO_ONLINE_FILES, area="discovery", since="1.19", until="1.20", needs=Needs(free=0),
    machine=_NO_ONLINE_FILES,
)  # fmt: skip
def one_cpu_without_online_files(node: LockstepNode) -> None:
    """Up to 1.20, on a kernel that cannot take CPUs offline, only CPU 0 is found.
    A known defect: a CPU other than CPU 0 counts as online only if its own file in sysfs says
    so. Such a kernel has no such files."""
    _boot(node, 0)
    node.promise_pool("One CPU is there", CPUSet([0]))


@core(sources.RESERVED_CPUS, area="discovery", since="1.22", machine=_GAPS)
def highest_cpu_above_a_gap(node: LockstepNode) -> None:
    """Where CPU ids have gaps, the highest CPU can be reserved.
    Its id is higher than the number of CPUs."""
    highest = CPUSet([14])
    _boot(node, 14)
    node.promise_running("The kubelet starts")
    node.apply(guaranteed("a", 7))
    node.promise_pool("It is reserved", highest)


refused(
    "discovery/reserved-cpu-above-a-gap-is-refused",
    "Up to 1.21 a reserved CPU whose id is not lower than the number of CPUs is refused",
    sources.RESERVED_CPUS,
    "A known defect: the machine has a CPU with this id, because its CPU ids have gaps.",
    lambda node: KubeletConfig(reserved_system_cpus=CPUSet([14])),
    'Invalid cpuset "14" specified by --reserved-cpus',
    since="1.17", until="1.21", machine=_GAPS,
)  # fmt: skip


@promised(sources.RESERVED_CPUS, area="discovery", since="1.17", capabilities=START_ERROR)
def absent_cpu_cannot_be_reserved(node: LockstepNode) -> None:
    """A list of reserved CPUs with one that the machine lacks keeps the kubelet from starting.
    One that is higher than every id, and than the number of CPUs that the kubelet counts."""
    absent = CPUSet([max(max(node.topology.details), node.topology.num_cpus) + 1])
    node.boot(KubeletConfig(reserved_system_cpus=absent))
    node.promise_refusal(str(absent))


@core(sources.S390X, area="discovery", since="1.32", needs=Needs(cores=4), machine=_S390X)
def s390x_has_cores(node: LockstepNode) -> None:
    """On s390x the static policy finds the cores of its drawers and books.
    A pod gets a CPU of its own."""
    _boot(node, 0)
    node.promise_running("The kubelet starts")
    node.apply(guaranteed("a", 3))
    node.promise_taken("It has its CPUs", "a", CPUSet([1, 2, 3]))
