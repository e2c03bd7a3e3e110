"""Settings and pods that are ordinary by themselves, and meet: options and reservations by amount,
options and hints of the Topology Manager, sidecars and CFS quotas, resources that need different
numbers of NUMA nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import DEVICES, MEMORY, QUOTAS, REJECTIONS, RESTARTED
from conformance.scenarios.aligning import aligning, aligning_alone
from conformance.scenarios.containers import QUOTA_GATE
from conformance.scenarios.devices import GPU, INTEGRATION, of_devices, with_devices
from conformance.scenarios.entering import core, row
from conformance.scenarios.hint_parts import (
    NIC,
    boot_aligned,
    far_node,
    first_node,
    promise_phase,
    promise_refused,
    run,
)
from conformance.scenarios.memory import MIB_OF_A_NODE, boot_with_free, of_memory, with_memory_of
from conformance.scenarios.optional import ALPHA, aligning_with, promise_whole_cores, with_options
from conformance.scenarios.outcomes import promise_quota, promise_running, take
from conformance.scenarios.pod_level_parts import managed, of_managers, pod_of, shared
from reference import CPUSet
from reference.steps import Device, Kind, KubeletConfig, Pod, RegisterDevices
from reference.view import Phase
from topologies import offline

_options: Final = partial(promised, area="options")
_core: Final = partial(_options, level=Level.CORE)

HYBRID: Final = sources.issue(
    140495, "on hybrid processors the kubelet counts cores by their average size"
)

_FULL: Final = "full-pcpus-only"
_NUMA: Final = "distribute-cpus-across-numa"
_SOCKET: Final = "align-by-socket"
_CORES: Final = "distribute-cpus-across-cores"
_STRICT: Final = "strict-cpu-reservation"
_UNCORE: Final = "prefer-align-cpus-by-uncorecache"

_NODES: Final = Needs(numa_nodes=2, numa_cores=3, even=True)


# -- reservations by amount ------------------------------------------------------------------------


@_core(sources.STRICT, since="1.32", needs=Needs(free=3, even=True), capabilities=RESTARTED)
def strict_keeps_off_reserved_amounts(node: LockstepNode) -> None:
    """Under strict-cpu-reservation no container runs on CPUs that are reserved by amount.
    600m for the system and 500m for Kubernetes are two CPUs, which the kubelet chooses. They
    stay out of the shared pool while it shrinks, over a restart and while it grows."""
    config = replace(
        with_options(node, _STRICT),
        reserved_system_cpus=None,
        system_reserved="600m",
        kube_reserved="500m",
    )
    node.boot(config)
    kept = node.cpus - node.view.shared_pool
    node.promise_equal("Two CPUs are reserved", "CPUs outside of the pool", 2, len(kept))
    rule = "The shared container is off the reserved CPUs"
    node.apply(best_effort("shared"))
    node.promise_cpuset(rule, "shared", node.cpus - kept)
    node.apply(guaranteed("a", len(node.cpus) - 3))
    taken = node.taken("a")
    node.promise_equal("The pod has its CPUs", "size of a/c", len(node.cpus) - 3, len(taken))
    rest = node.cpus - kept - taken
    node.promise_cpuset(rule, "shared", rest)
    node.restart()
    node.promise_running("The kubelet starts on its state file")
    node.promise_cpuset(rule, "shared", rest)
    node.delete("a", passing=True)
    node.promise_cpuset(rule, "shared", node.cpus - kept)


def _promise_reserves(node: LockstepNode, system: str, kube: str, kept: int) -> None:
    node.boot(KubeletConfig(system_reserved=system, kube_reserved=kube))
    node.apply(guaranteed("a", len(node.cpus) - kept))
    rest, taken, left = len(node.cpus) - kept, len(node.taken("a")), len(node.view.shared_pool)
    node.promise_equal("All others can become exclusive", "size of a/c", rest, taken)
    node.promise_equal("Just the reserved ones stay", "size of the shared pool", kept, left)
    node.apply(guaranteed("b", 1))
    node.promise_cpus("They do not become exclusive", "CPUs of b/c", CPUSet(), node.taken("b"))


row(
    "config/halves-reserve-one-cpu",
    "Of 500m reserved for the system and 500m for Kubernetes the kubelet makes one reserved CPU",
    "Their sum is rounded up to whole CPUs, and not each by itself.",
    lambda node: _promise_reserves(node, "500m", "500m", 1),
    source=sources.TASK_PAGE, level=Level.CORE, needs=Needs(free=2, even=True),
)  # fmt: skip
row(
    "config/fractions-that-make-a-whole",
    "Of 1500m reserved for the system and 500m for Kubernetes the kubelet makes two reserved CPUs",
    "Their sum needs no rounding. Rounded one by one they would be three CPUs, or one.",
    lambda node: _promise_reserves(node, "1500m", "500m", 2),
    source=sources.TASK_PAGE, needs=Needs(free=2, even=True),
)  # fmt: skip


# -- spellings of true and false -------------------------------------------------------------------


def _with_words(
    node: LockstepNode, words: Mapping[str, str], policy: str = "none"
) -> KubeletConfig:
    """The node's configuration with these values of options, under a Topology Manager policy."""
    aligned = aligning(node, policy)
    gates = {**aligned.feature_gates, **ALPHA}
    return replace(aligned, policy_options=dict(words), feature_gates=gates)


@_core(
    sources.OPTION_STAGES, since="1.32", needs=Needs(free=2),
    capabilities=[Capability.START_ERROR, Capability.RESTART, Capability.CONFIGURE],
)  # fmt: skip
def other_words_for_true_switch_on(node: LockstepNode) -> None:
    """Each option of the static policy is on whichever of Go's words for true is its value.
    strict-cpu-reservation keeps its CPUs out of the pool. Each of the others is known to be on
    by what it excludes: another option, or policy single-numa-node."""
    node.boot(_with_words(node, {_STRICT: "1"}))
    node.promise_pool("“1” reserves strictly", node.cpus - node.reserved)
    node.stop()
    for first, word, second, other in (
        (_FULL, "t", _CORES, "T"),
        (_NUMA, "True", _CORES, "1"),
        (_UNCORE, "TRUE", _NUMA, "t"),
    ):
        node.configure(_with_words(node, {first: word, second: other}))
        node.start()
        both = f"static policy options {first} and {second}"
        node.promise_refusal(f"{both} can not be used at the same time")
    node.configure(_with_words(node, {_SOCKET: "T"}, "single-numa-node"))
    node.start()
    node.promise_refusal("policy is incompatible with CPUManager align-by-socket policy option")


@_core(
    sources.OPTION_STAGES, since="1.32", needs=Needs(free=2), capabilities=[Capability.CONFIGURE]
)
def other_words_for_false_switch_nothing_on(node: LockstepNode) -> None:
    """An option of the static policy is off whichever of Go's words for false is its value.
    All six options at once, each with another word. Switched on, they would exclude one another
    and policy single-numa-node."""
    words = {_FULL: "0", _NUMA: "f", _SOCKET: "F", _CORES: "FALSE", _STRICT: "False",
             _UNCORE: "false"}  # fmt: skip
    node.boot(_with_words(node, words, "single-numa-node"))
    node.promise_running("No option is on that excludes another")
    node.promise_pool("Reserved CPUs are in the shared pool", node.cpus)
    run(node, guaranteed("a", 1))
    node.promise_equal("A part of a core is given", "size of a/c", 1, len(node.taken("a")))


# -- CFS quotas of sidecars ------------------------------------------------------------------------


@core(QUOTA_GATE, area="quotas", since="1.33", needs=Needs(free=4), capabilities=QUOTAS)
def sidecars_with_exclusive_cpus_have_none(node: LockstepNode) -> None:
    """A sidecar with exclusive CPUs has no CFS quota, and one with a fraction has that of its
    limit.
    As app containers. A fraction in another pod keeps its quota, too."""
    node.boot()
    proxy = exclusive("proxy", 1, kind=Kind.SIDECAR)
    part = exclusive("part", "500m", kind=Kind.SIDECAR)
    node.apply(guaranteed_of("a", [proxy, part, exclusive("main", 1)]))
    node.apply(guaranteed("b", "1500m"))
    expected = {"a/proxy": None, "a/part": 500, "a/main": None, "b/c": 1500}
    for owner, milli in expected.items():
        promise_running(node, owner.partition("/")[0])
        promise_quota(node, "None beside exclusive CPUs", owner, milli)


# -- the order of containers -----------------------------------------------------------------------


@of_managers(capabilities=[Capability.CPUSETS])
def shared_container_may_come_first(node: LockstepNode) -> None:
    """A shared container before the exclusive one has what that leaves of their pod's CPUs.
    As where it comes after it. A shared container after both has the same."""
    whole = node.boot(managed(node)).shared_pool
    node.run(pod_of("a", 4, shared("early"), exclusive("main", 1), shared("late")))
    main, early = node.taken("a", "main"), node.cpuset("a", "early")
    node.promise_equal("One CPU is exclusive", "number of CPUs of a/main", 1, len(main))
    node.promise_equal("Three are left", "size of cpuset a/early", 3, len(early))
    node.promise_cpus("The exclusive one is not among them", "both", CPUSet(), main & early)
    node.promise_cpuset("Both have the same", "a", early, "late")
    node.promise_pool("No other pod runs on them", whole - main - early)


@of_managers(capabilities=[Capability.CPUSETS])
def container_scope_leaves_the_first_container_shared(node: LockstepNode) -> None:
    """Under scope container a shared container before the exclusive one runs on the node's pool.
    Without the CPUs that the exclusive container takes after it."""
    whole = node.boot(managed(node, scope="container")).shared_pool
    node.run(pod_of("a", 4, shared("early"), exclusive("main", 2)))
    main = node.taken("a", "main")
    node.promise_equal("Two CPUs are exclusive", "number of CPUs of a/main", 2, len(main))
    node.promise_cpuset("The other has the rest of the node", "a", whole - main, "early")


# -- options and hints -----------------------------------------------------------------------------


def _beside_hints(node: LockstepNode, *options: str, reserved: CPUSet | None = None) -> None:
    """Start with these options under best-effort."""
    node.boot(aligning_with(node, "best-effort", *options, reserved=reserved))


def _cores_of_a_node(node: LockstepNode) -> int:
    return node.topology.num_cores // node.topology.num_numa_nodes


def _run_in_nodes(node: LockstepNode, count: int, *numa: int) -> None:
    """Run pod ``a``, and promise that it has so many CPUs, in just these NUMA nodes."""
    run(node, guaranteed("a", count))
    taken = node.taken("a")
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", count, len(taken))
    seen = sorted(node.topology.numa_node_ids(taken))
    node.promise_equal("They lie where its hint says", "NUMA nodes of a/c", sorted(numa), seen)


@_options(sources.ACROSS_NUMA, since="1.23", needs=_NODES)
def numa_distribution_under_best_effort(node: LockstepNode) -> None:
    """Under best-effort distribute-cpus-across-numa takes half of a request from each of two nodes.
    The Topology Manager names the first two NUMA nodes, since no single one has room."""
    _beside_hints(node, _NUMA)
    count = 2 * node.topology.cpus_per_core * (_cores_of_a_node(node) // 2 + 1)
    first, second = sorted(node.topology.numa_masks)[:2]
    _run_in_nodes(node, count, first, second)
    inside = [node.topology.cpus_in_numa_nodes(one) for one in (first, second)]
    shares = [len(node.taken("a") & one) for one in inside]
    node.promise_equal("Each gives half", "CPUs of each NUMA node", [count // 2] * 2, shares)


@_core(sources.ACROSS_NUMA, since="1.23", needs=_NODES)
def numa_distribution_keeps_a_full_node_together(node: LockstepNode) -> None:
    """Distribute-cpus-across-numa gives a request that is as large as a NUMA node one NUMA node.
    All of the others' CPUs are free but the reserved ones."""
    node.boot(with_options(node, _NUMA))
    size = len(node.topology.cpus_in_numa_nodes(max(node.topology.numa_masks)))
    taken = take(node, "a", size)
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", size, len(taken))
    seen = len(node.topology.numa_node_ids(taken))
    node.promise_equal("One NUMA node gives all of them", "NUMA nodes of a/c", 1, seen)


@_options(sources.ACROSS_CORES, since="1.31", needs=replace(_NODES, smt=2, far_siblings=True))
def across_cores_keeps_to_a_numa_node(node: LockstepNode) -> None:
    """Under best-effort distribute-cpus-across-cores takes CPUs of different cores of a NUMA node.
    Of the first NUMA node that has room. Another pod leaves the first one a CPU too few."""
    if len(node.topology.socket_masks) > node.topology.num_numa_nodes:
        raise DoesNotApply("needs NUMA nodes of one socket, the machine's have several")
    _beside_hints(node, _CORES)
    count = _cores_of_a_node(node) - 1
    first, second = sorted(node.topology.numa_masks)[:2]
    room = len(node.free & node.topology.cpus_in_numa_nodes(first))
    node.apply(guaranteed("fills", room - count + 1))
    _run_in_nodes(node, count, second)
    cores = len(node.topology.core_ids(node.taken("a")))
    node.promise_equal("Each CPU is of another core", "cores of a/c", count, cores)


@_options(
    sources.UNCORE_CACHE, since="1.32",
    needs=Needs(numa_nodes=2, uncore_caches=4, cores=8, even=True, caches_in_nodes=True),
)  # fmt: skip
def uncore_cache_under_best_effort(node: LockstepNode) -> None:
    """Under best-effort a request that fits one uncore cache is kept within one of a NUMA node.
    The first cache of the first NUMA node has a reserved core, so that the first free cores lie
    in two caches."""
    topology = node.topology
    if topology.num_uncore_caches < 2 * topology.num_numa_nodes:
        raise DoesNotApply("needs several uncore caches in each NUMA node, the machine has one")
    _beside_hints(node, _UNCORE)
    _run_in_nodes(node, topology.cpus_per_uncore, first_node(node))
    caches = len(topology.uncore_cache_ids(node.taken("a")))
    node.promise_equal("They share an uncore cache", "uncore caches of a/c", 1, caches)


@_options(sources.FULL_PCPUS, since="1.23", needs=replace(_NODES, smt=2), capabilities=REJECTIONS)
def full_pcpus_under_best_effort(node: LockstepNode) -> None:
    """Under best-effort full-pcpus-only gives whole cores of two NUMA nodes, and refuses parts.
    The sibling of a reserved CPU is free, and no part of what is given. Best-effort refuses no
    pod by itself, and lets the CPU manager refuse one."""
    _beside_hints(node, _FULL, reserved=CPUSet([min(node.cpus)]))
    per_core = node.topology.cpus_per_core
    count = per_core * (_cores_of_a_node(node) + 1)
    status = node.apply(guaranteed("odd", count + 1))
    promise_phase(node, "odd", status, Phase.REJECTED)
    node.promise_equal("The reason is named", "reason", "SMTAlignmentError", status.reason)
    _run_in_nodes(node, count, *sorted(node.topology.numa_masks)[:2])
    promise_whole_cores(node, node.taken("a"))


@_options(sources.FULL_PCPUS, since="1.23", needs=replace(_NODES, smt=2))
def full_pcpus_splits_cores_of_its_hint(node: LockstepNode) -> None:
    """Under best-effort full-pcpus-only gives parts of cores in a NUMA node that has no whole one.
    A known defect: it breaks the promise that a container has its cores for itself. The hint
    counts free CPUs and no cores, and the first NUMA node has just as many as are requested: one of
    each of several cores, whose other CPUs are reserved. The next NUMA node has whole cores."""
    per_core, first = node.topology.cpus_per_core, first_node(node)
    if _cores_of_a_node(node) < per_core:
        raise DoesNotApply("needs a NUMA node with as many cores as each of them has CPUs")
    inside = node.topology.cpus_in_numa_nodes(first)
    cores = [CPUSet.of_mask(mask) for mask in node.topology.core_masks.values()]
    parts = CPUSet(max(core) for core in [one for one in cores if one <= inside][:per_core])
    _beside_hints(node, _FULL, reserved=inside - parts)
    run(node, guaranteed("a", per_core))
    node.promise_cpus("It has the parts of cores", "CPUs of a/c", parts, node.taken("a"))


@core(sources.BY_SOCKET, area="topology", since="1.25", machine="2s-4n-64c-smt2")
def best_effort_aligns_by_socket(node: LockstepNode) -> None:
    """Under best-effort and align-by-socket two NUMA nodes of one socket go before two of different
    sockets.
    No NUMA node has room. The lowest two that have it together lie in different sockets, and
    best-effort alone takes these."""
    kept = {0: 12, 1: 30, 2: 18, 3: 20}
    reserved = CPUSet(
        cpu
        for numa, count in kept.items()
        for cpu in sorted(node.topology.cpus_in_numa_nodes(numa))[:count]
    )
    _beside_hints(node, _SOCKET, reserved=reserved)
    _run_in_nodes(node, 24, 2, 3)


# -- resources that need different numbers of NUMA nodes -------------------------------------------


def _register(node: LockstepNode, resource: str, *numa: int) -> None:
    """A device near to each of these NUMA nodes."""
    devices = tuple(Device(f"device-{one}", (one,)) for one in numa)
    node.to_runtime(RegisterDevices(resource, devices))


def _nics_and_gpus(name: str, cpus: int, *, nics: int = 0, gpus: int = 0) -> Pod:
    container = exclusive("c", cpus)
    for resource, count in ((NIC, nics), (GPU, gpus)):
        container = with_devices(container, count, resource=resource) if count else container
    return guaranteed_of(name, [container])


def _more_than_a_node(node: LockstepNode) -> int:
    return len(node.cpus) // node.topology.num_numa_nodes + 1


@of_devices(
    sources.TOPOLOGY_POLICIES, since="1.24", needs=_NODES, capabilities=(*DEVICES, *REJECTIONS)
)
def restricted_refuses_devices_of_two_nodes(node: LockstepNode) -> None:
    """Under restricted a container is refused whose devices need two NUMA nodes and whose CPUs one.
    No set of NUMA nodes is the narrowest for both. It is for a container whose CPUs need two as
    well, which runs. Up to 1.23 the first one runs, too."""
    boot_aligned(node, "restricted")
    first, far = first_node(node), far_node(node)
    _register(node, NIC, first, far)
    promise_refused(node, node.apply(_nics_and_gpus("a", 2, nics=2)), "TopologyAffinityError")
    node.pass_admission()
    count = _more_than_a_node(node)
    run(node, _nics_and_gpus("both", count, nics=2))
    seen = sorted(node.topology.numa_node_ids(node.taken("both")))
    node.promise_equal("It lies with its devices", "NUMA nodes of both/c", [first, far], seen)


@of_devices(INTEGRATION, needs=_NODES, capabilities=(*DEVICES, *REJECTIONS))
def restricted_refuses_two_far_apart(node: LockstepNode) -> None:
    """Under restricted devices of two resources in different NUMA nodes are refused.
    One NUMA node is the fewest for each, and none serves both. A container with devices of one
    resource runs."""
    boot_aligned(node, "restricted")
    _register(node, NIC, first_node(node))
    _register(node, GPU, far_node(node))
    status = node.apply(_nics_and_gpus("a", 1, nics=1, gpus=1))
    promise_refused(node, status, "TopologyAffinityError")
    run(node, _nics_and_gpus("one", 1, gpus=1))


@of_devices(INTEGRATION, needs=_NODES)
def best_effort_runs_with_two_far_apart(node: LockstepNode) -> None:
    """Under best-effort a container runs whose devices of two resources lie in two NUMA nodes.
    With as many CPUs as it requests. Restricted refuses it."""
    boot_aligned(node, "best-effort")
    _register(node, NIC, first_node(node))
    _register(node, GPU, far_node(node))
    run(node, _nics_and_gpus("a", 2, nics=1, gpus=1))
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", 2, len(node.taken("a")))


@of_memory(needs=_NODES, capabilities=(*MEMORY, *REJECTIONS))
def restricted_refuses_memory_of_two_nodes(node: LockstepNode) -> None:
    """Under restricted a container is refused whose memory needs two NUMA nodes and whose CPUs one.
    No set of NUMA nodes is the narrowest for both. It is for a container whose CPUs need two as
    well, which runs. Each NUMA node has 128 MiB, and the containers request 200."""
    boot_with_free(node, "restricted", dict.fromkeys(node.numa_nodes, MIB_OF_A_NODE - 1))
    promise_refused(node, node.apply(with_memory_of("a", 200, 1)), "TopologyAffinityError")
    node.pass_admission()
    count = _more_than_a_node(node)
    run(node, with_memory_of("both", 200, count))
    held = node.taken("both")
    node.promise_equal("It has its CPUs", "number of CPUs of both/c", count, len(held))


# -- cores of different sizes ----------------------------------------------------------------------


def _start_on_uneven_cores(node: LockstepNode) -> list[CPUSet]:
    """Start under full-pcpus-only; the free cores, small ones first. Raises :class:`DoesNotApply`
    unless the kubelet counts one CPU for each core, though some have more."""
    cores = [CPUSet.of_mask(mask) for mask in node.topology.core_masks.values()]
    sizes = {len(core) for core in cores}
    if node.topology.cpus_per_core != 1 or sizes == {1}:
        raise DoesNotApply("needs cores of which some have one CPU and fewer have several")
    node.boot(with_options(node, _FULL))
    return sorted((one for one in cores if one <= node.free), key=len)


@promised(sources.FULL_PCPUS, area="uneven", level=Level.CORE, since="1.23")
def full_pcpus_gives_small_cores(node: LockstepNode) -> None:
    """Where most cores have one CPU full-pcpus-only gives a single CPU, which is a core by itself.
    As on hybrid processors, whose large cores have two. Each core counts as one CPU by the
    average, so no number is odd."""
    small = [one for one in _start_on_uneven_cores(node) if len(one) == 1]
    if not small:
        raise DoesNotApply("needs a free core of one CPU")
    run(node, guaranteed("a", 1))
    node.promise_equal("It has its CPU", "number of CPUs of a/c", 1, len(node.taken("a")))
    promise_whole_cores(node, node.taken("a"))


@promised(HYBRID, area="uneven", since="1.23")
def full_pcpus_shares_large_cores(node: LockstepNode) -> None:
    """Where most cores have one CPU full-pcpus-only gives one large core to two containers.
    A known defect: it breaks the promise that a container has its cores for itself. Each core
    counts as one CPU by the average, so single CPUs are given out, and once the small cores are
    taken they are CPUs of a large one."""
    free = _start_on_uneven_cores(node)
    small = [one for one in free if len(one) == 1]
    if len(small) == len(free):
        raise DoesNotApply("needs a free core of several CPUs")
    for number in range(len(small)):
        node.apply(guaranteed(f"small-{number}", 1))
    for name in ("a", "b"):
        promise_phase(node, name, node.apply(guaranteed(name, 1)), Phase.RUNNING)
    core = node.topology.with_siblings(node.taken("a"))
    rule, seen = "The second container has the sibling of the first one's CPU", node.taken("b")
    node.promise_that(seen <= core, rule, "CPUs of b/c", f"one of {core}", seen)


# -- ids of NUMA nodes with a gap ------------------------------------------------------------------


@core(sources.CLOSEST_NUMA, area="topology", since="1.26", machine="2s-4n-64c-smt2")
def closest_looks_past_a_node_without_cpus(node: LockstepNode) -> None:
    """Under prefer-closest-numa-nodes two NUMA nodes that are close go first where one has no CPU.
    All CPUs of NUMA node 1 are offline, so that 0, 2 and 3 have CPUs. 2 and 3 lie in one socket
    and are close to each other. 0 and 2 have lower ids and are far apart."""
    gone = node.topology.cpus_in_numa_nodes(1)
    config = aligning_alone(node, "restricted", options={"prefer-closest-numa-nodes": "true"})
    node.boot(config, machine=offline(node.machine, gone))
    _run_in_nodes(node, len(gone) + 1, 2, 3)
