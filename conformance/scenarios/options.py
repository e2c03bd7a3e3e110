"""The static policy's options: what each promises, and which the kubelet refuses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, burstable, guaranteed
from conformance.promises import EXCLUSIVE_TO_ONE
from conformance.scenario import Capability, Level, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import REJECTIONS, RESTARTED, START_ERROR
from conformance.scenarios.entering import core, refused
from conformance.scenarios.optional import NO_GATES, promise_whole_cores, with_options
from conformance.scenarios.outcomes import (
    promise_count,
    promise_rejected,
    restart_with,
    status_of,
    take,
)
from reference import CPUSet
from reference.view import Phase

_NO_BETA: Final = {"CPUManagerPolicyBetaOptions": False}

#: Three whole cores in every NUMA node let two nodes share what one cannot give, though a core of
#: one of them is reserved.
_SHARED_BY_TWO: Final = Needs(numa_nodes=2, numa_cores=3, even=True)


_full_pcpus: Final = partial(
    promised,
    area="options",
    source=sources.FULL_PCPUS,
    since="1.22",
    needs=Needs(smt=2, cores=3, even=True),
)
_strict: Final = partial(promised, area="options", source=sources.STRICT, since="1.32")


def _boot_full_pcpus(node: LockstepNode, reserved: CPUSet | None = None) -> int:
    """Boot under full-pcpus-only; how many CPUs a core has."""
    node.boot(with_options(node, "full-pcpus-only", gates=NO_GATES, reserved=reserved))
    return node.topology.cpus_per_core


def _promise_smt_error(node: LockstepNode, text: str) -> None:
    status = node.view.pods["a"]
    promise_rejected(node, status, "SMTAlignmentError")
    rule, said = "The message has the numbers", status.message
    node.promise_that(text in said, rule, "message", f"… {text}", said)
    node.promise_taken("It holds no CPU", "a", CPUSet())


def _shared_by_two(node: LockstepNode) -> int:
    """A number of whole cores' CPUs that no NUMA node can give and any two can, half each."""
    per_core = node.topology.cpus_per_core
    cores = node.topology.num_cores // node.topology.num_numa_nodes
    return 2 * per_core * (cores // 2 + 1)


def _promise_even(node: LockstepNode, cpus: CPUSet) -> None:
    topology = node.topology
    given = {
        numa: len(cpus & topology.cpus_in_numa_nodes(numa)) for numa in topology.numa_node_ids(cpus)
    }
    half, rule = len(cpus) // 2, "Two NUMA nodes give half each"
    what, expected = f"CPUs of each NUMA node, of {cpus}", f"{half} of each of two"
    seen = ", ".join(f"{share} of {numa}" for numa, share in given.items())
    node.promise_that(sorted(given.values()) == [half] * 2, rule, what, expected, seen)


# -- full-pcpus-only -----------------------------------------------------------------------------


@_full_pcpus(level=Level.CORE, needs=Needs(smt=2, even=True), capabilities=REJECTIONS)
def full_pcpus_partial_core_is_rejected(node: LockstepNode) -> None:
    """Under full-pcpus-only a request that is not a multiple of a core is rejected.
    One thread alone would leave its sibling to another container."""
    per_core = _boot_full_pcpus(node)
    node.apply(guaranteed("a", 1))
    _promise_smt_error(
        node, f"SMT Alignment Error: requested 1 cpus not multiple cpus per core = {per_core}"
    )


@_full_pcpus(level=Level.CORE)
def full_pcpus_gives_whole_cores(node: LockstepNode) -> None:
    """Under full-pcpus-only a container has its cores for itself.
    The sibling of a single reserved CPU is free, and still no part of a request."""
    per_core = _boot_full_pcpus(node, reserved=CPUSet([min(node.cpus)]))
    for name in ("a", "b"):
        taken = take(node, name, per_core)
        promise_whole_cores(node, taken)
        node.promise_equal("The pod has a core", f"size of {name}/c", per_core, len(taken))


@_full_pcpus(since="1.27", capabilities=REJECTIONS)
def full_pcpus_splits_no_core(node: LockstepNode) -> None:
    """Under full-pcpus-only a request that fits only by splitting a core is rejected.
    One thread of each of two cores is reserved, so their siblings do not count as free."""
    first, second, *_ = node.topology.core_masks.values()
    reserved = CPUSet(min(CPUSet.of_mask(mask)) for mask in (first, second))
    per_core = _boot_full_pcpus(node, reserved)
    free = len(node.cpus) - 2 * per_core
    node.apply(guaranteed("a", free + per_core))
    _promise_smt_error(
        node,
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
        f"{free}, requested CPUs = {free + per_core}, CPUs per core = {per_core}",
    )
    status = node.apply(guaranteed("b", free))
    node.promise_equal("The rest is assigned", "phase of pod b", Phase.RUNNING, status.phase)
    promise_whole_cores(node, node.taken("b"))


@_full_pcpus(capabilities=REJECTIONS)
def full_pcpus_judges_each_container(node: LockstepNode) -> None:
    """Under full-pcpus-only one container that would share a core has its whole pod rejected.
    The first container asks for a whole core, the second for one CPU more. What the first was
    given returns."""
    per_core, whole = _boot_full_pcpus(node), node.view.shared_pool
    promise_rejected(node, node.apply(guaranteed("a", per_core, per_core + 1)), "SMTAlignmentError")
    node.pass_admission()
    node.promise_pool("Every CPU returns", whole)


@_full_pcpus(capabilities=[Capability.CPUSETS])
def full_pcpus_ignores_shared_containers(node: LockstepNode) -> None:
    """Under full-pcpus-only a container without exclusive CPUs may ask for any amount.
    A Burstable pod with one CPU, and a fraction beside a whole core."""
    per_core = _boot_full_pcpus(node)
    for pod in (burstable("b", request="1", limit="2"), guaranteed("a", per_core, "1500m")):
        status = node.apply(pod)
        node.promise_equal("It runs", f"phase of pod {pod.name}", Phase.RUNNING, status.phase)
    promise_whole_cores(node, node.taken("a", "c1"))
    for pod_name, name in (("b", "c"), ("a", "c2")):
        node.promise_on_pool("It runs on the shared pool", pod_name, name)


@_full_pcpus(source=sources.SPLIT_CORES, until="1.26")
def full_pcpus_splits_reserved_cores(node: LockstepNode) -> None:
    """Up to 1.26 full-pcpus-only gives out the siblings of reserved CPUs as if they were a core.
    A known defect: of several cores one CPU each is reserved. A request for as many CPUs as a
    core has gets CPUs of more than one core."""
    per_core = node.topology.cpus_per_core
    cores = [CPUSet.of_mask(mask) for mask in node.topology.core_masks.values()][:per_core]
    reserved = CPUSet(cpu for core in cores for cpu in list(core)[: per_core - 1])
    _boot_full_pcpus(node, reserved)
    node.apply(guaranteed("fills", len(node.cpus) - per_core * per_core))
    touched = node.topology.core_ids(take(node, "a", per_core))
    promise_count(node, per_core)
    node.promise_equal("of as many cores", "cores of a/c", per_core, len(touched))


@_full_pcpus(
    source=sources.SMT_AFTER_RESTART, since="1.27", until="1.36",
    capabilities=[Capability.REJECTIONS, Capability.RESTART],
)  # fmt: skip
def full_pcpus_restart_refuses_what_runs(node: LockstepNode) -> None:
    """Under full-pcpus-only a full node's pods are refused after a restart of the kubelet.
    A known defect: for a pod that already holds its CPUs, the kubelet requires the same number
    of free CPUs again. It ends the containers of a pod that it refuses."""
    for name in _fill_and_restart(node):
        status = status_of(node, name)
        node.promise_equal("It is rejected", f"phase of {name}", Phase.REJECTED, status.phase)
        node.promise_equal("The reason is named", "reason", "SMTAlignmentError", status.reason)


@_full_pcpus(
    source=sources.SMT_AFTER_RESTART, level=Level.CORE, since="1.37", capabilities=RESTARTED
)
def full_pcpus_restart_keeps_what_runs(node: LockstepNode) -> None:
    """Under full-pcpus-only a full node's pods keep their CPUs over a restart of the kubelet.
    What a container holds needs no free CPUs."""
    for name, held in _fill_and_restart(node).items():
        node.promise_cpus("Its entry is as before", f"CPUs of {name}/c", held, node.taken(name))
        node.promise_cpuset("It never moved", name, held)


def _fill_and_restart(node: LockstepNode) -> dict[str, CPUSet]:
    """Fill the node with two pods of whole cores, and start the kubelet again; what they held."""
    held = {"a": take(node, "a", _boot_full_pcpus(node))}
    held["b"] = take(node, "b", len(node.free))
    node.restart()
    return held


# -- distribute-cpus-across-numa -----------------------------------------------------------------


@core(sources.ACROSS_NUMA, area="options", since="1.23", needs=_SHARED_BY_TWO)
def numa_distribution_is_even(node: LockstepNode) -> None:
    """A request that needs two NUMA nodes is spread over them evenly.
    Rather than filling one and taking the rest from the other."""
    node.boot(with_options(node, "distribute-cpus-across-numa"))
    _promise_even(node, take(node, "a", _shared_by_two(node)))


@promised(sources.ACROSS_NUMA, area="options", since="1.23", needs=_SHARED_BY_TWO)
def numa_distribution_spares_what_fits_one(node: LockstepNode) -> None:
    """Under distribute-cpus-across-numa a request that fits one NUMA node has CPUs of it alone.
    Also where half of another NUMA node is taken, so that the request is more than half of all
    that is free. It asks for as many CPUs as are free in the first one."""
    node.boot(with_options(node, "distribute-cpus-across-numa"))
    parts = [node.free & node.topology.cpus_in_numa_nodes(one) for one in node.numa_nodes]
    sizes = sorted(map(len, filter(None, parts)))
    take(node, "before", sizes[-1] // 2 + 1)
    later = take(node, "later", sizes[0])
    numa = node.topology.numa_node_ids(later)
    node.promise_equal("It lies in one NUMA node", "NUMA nodes of later", 1, len(numa))


@promised(sources.ACROSS_NUMA, area="options", since="1.23", needs=replace(_SHARED_BY_TWO, smt=2))
def numa_distribution_of_whole_cores(node: LockstepNode) -> None:
    """Spread over NUMA nodes under full-pcpus-only, a request is still made of whole cores.
    Both options together: half of each node, and no core shared."""
    node.boot(with_options(node, "distribute-cpus-across-numa", "full-pcpus-only"))
    _promise_even(node, take(node, "a", _shared_by_two(node)))
    promise_whole_cores(node, node.taken("a"))


#: One thread of each of four cores of :data:`_INTERLEAVED`, in NUMA nodes of two sockets.
_HALF_CORES: Final = CPUSet([7, 34, 44, 64])
_INTERLEAVED: Final = "2s-4n-40c-smt2-interleaved"


@promised(
    sources.ENDLESS_SEARCH, area="options", since="1.23", until="1.37", machine=_INTERLEAVED,
    capabilities=[Capability.RESTART],
)  # fmt: skip
def numa_distribution_may_hang(node: LockstepNode) -> None:
    """Where half cores are left over, a request that is spread over NUMA nodes may hang the
    kubelet.
    A known defect: the kubelet gives NUMA nodes with free CPUs a share of whole cores, even if
    they have no free whole core, and searches for ever. It handles no other pod until it is stopped
    and the pod's manifest is removed. After that it runs as before. A kubelet that finishes gives
    the pod whole cores without a reserved CPU."""
    node.expect_hang()
    options = ("distribute-cpus-across-numa", "full-pcpus-only")
    node.boot(with_options(node, *options, reserved=_HALF_CORES))
    node.apply(guaranteed("small", "1500m"))
    large = take(node, "large", 70)
    if not node.hangs:
        node.promise_equal("As many as requested", "size of large/c", 70, len(large))
        promise_whole_cores(node, large)
        return
    node.kill()
    node.delete("large")
    node.start()
    node.promise_running("The kubelet runs without the pod")
    node.promise_cpus("Every CPU is free again", "small/c", node.cpus, node.cpuset("small"))


# -- distribute-cpus-across-cores ----------------------------------------------------------------


@core(
    sources.ACROSS_CORES, area="options", since="1.31",
    needs=Needs(smt=2, numa_cores=3, even=True, far_siblings=True),
)  # fmt: skip
def across_cores_takes_one_thread_each(node: LockstepNode) -> None:
    """Under distribute-cpus-across-cores CPUs are taken from as many cores as possible.
    The kubelet chooses by CPU number, so the promise is stated for machines that number the
    first thread of every core before the second of any."""
    node.boot(with_options(node, "distribute-cpus-across-cores"))
    sockets = len(node.topology.socket_masks)
    # The first socket has a core less; a whole NUMA node or socket would be taken as such.
    request = max(1, node.topology.num_cores // max(node.topology.num_numa_nodes, sockets) - 1)
    cores = node.topology.core_ids(take(node, "a", request))
    node.promise_equal("Each CPU is of another core", "cores touched", request, len(cores))


@core(sources.ACROSS_CORES, area="options", since="1.31", machine="2s-2n-16c-smt2")
def across_cores_leaves_no_core_out(node: LockstepNode) -> None:
    """Under distribute-cpus-across-cores a second CPU of a core is given once each core gave one.
    The request is for a CPU more than a socket has cores. One CPU is reserved, and no core."""
    node.boot(with_options(node, "distribute-cpus-across-cores", reserved=CPUSet([0])))
    taken = take(node, "a", 9)
    cores = len(node.topology.core_ids(taken))
    node.promise_equal("Each core of a NUMA node gives one", "cores touched", 8, cores)


# -- prefer-align-cpus-by-uncorecache ------------------------------------------------------------


@core(
    sources.UNCORE_CACHE, area="options", since="1.32",
    needs=Needs(uncore_caches=2, cores=4, even=True, caches_in_nodes=True),
)  # fmt: skip
def uncore_alignment(node: LockstepNode) -> None:
    """A request that fits one uncore cache is kept within one.
    First a request as large as a cache, while the first cache is partly reserved; then a request
    as large as a core."""
    topology = node.topology
    node.boot(with_options(node, "prefer-align-cpus-by-uncorecache"))
    for name, request in (("a", topology.cpus_per_uncore), ("b", topology.cpus_per_core)):
        taken = take(node, name, request)
        caches = topology.uncore_cache_ids(taken)
        rule, what = "The CPUs share one uncore cache", f"uncore caches of {name}/c ({taken})"
        seen = ", ".join(map(str, sorted(caches))) or "none"
        node.promise_that(len(caches) == 1, rule, what, "one", seen)


# -- strict-cpu-reservation ----------------------------------------------------------------------


@_strict(level=Level.CORE, needs=Needs(free=2), capabilities=[Capability.CPUSETS])
def strict_keeps_shared_containers_off(node: LockstepNode) -> None:
    """Under strict-cpu-reservation no container runs on reserved CPUs.
    Shared containers run on what is neither reserved nor exclusive."""
    node.boot(with_options(node, "strict-cpu-reservation"))
    rule = "The shared container is off the reserved CPUs"
    node.apply(best_effort("shared"))
    node.promise_cpuset(rule, "shared", node.cpus - node.reserved)
    node.apply(guaranteed("a", 1))
    node.promise_cpuset(rule, "shared", node.cpus - node.reserved - node.taken("a"))
    node.delete("a")
    node.promise_cpuset(rule, "shared", node.cpus - node.reserved)


@_strict(level=Level.CORE, needs=Needs(free=2))
def strict_starts_again(node: LockstepNode) -> None:
    """Under strict-cpu-reservation the kubelet starts on the state file it left.
    The CPUs that the file leaves out are the reserved ones, and nothing has changed."""
    node.boot(with_options(node, "strict-cpu-reservation"))
    held = take(node, "a", 1)
    node.stop()
    node.promise_equal("The kubelet runs", "whether it runs", True, node.start().running)
    node.promise_taken("The container keeps its CPU", "a", held)


@_strict(source=sources.EMPTY_POOL, needs=Needs(free=2), capabilities=(*RESTARTED, *START_ERROR))
def strict_empties_the_pool(node: LockstepNode) -> None:
    """Under strict-cpu-reservation exclusive CPUs may leave shared containers none of their own.
    A known defect: it breaks the promise that exclusive CPUs belong to one container alone. A
    request may take the last CPU of the shared pool. Running shared containers then stay on CPUs
    that are exclusive to another container. New shared containers run without a cpuset, and the
    kubelet does not start again."""
    node.expect_broken(EXCLUSIVE_TO_ONE)
    node.boot_with(best_effort("early"), config=with_options(node, "strict-cpu-reservation"))
    before = node.cpuset("early")
    taken = take(node, "a", len(node.free))
    node.promise_cpus("All CPUs of the pool are taken", "exclusive CPUs a/c", before, taken)
    node.promise_pool("The pool is empty", CPUSet())
    node.promise_cpuset("A shared container that runs stays on them", "early", before)
    node.apply(best_effort("late"))
    node.promise_cpuset("A new one runs without a cpuset", "late", CPUSet())
    node.restart()
    node.promise_refusal("default cpuset cannot be empty")


@_strict(capabilities=START_ERROR)
def strict_refuses_an_older_file(node: LockstepNode) -> None:
    """After strict-cpu-reservation is switched on the kubelet does not start on its old state file.
    The file says that shared containers run on reserved CPUs. Without it the kubelet starts."""
    node.boot()
    restart_with(node, with_options(node, "strict-cpu-reservation"))
    node.promise_refusal(
        f'some of strictly reserved cpus: "{node.reserved}" are present in '
        f'defaultCpuSet: "{node.cpus}"'
    )
    node.remove_state()
    node.promise_equal("Without the file it runs", "whether it runs", True, node.start().running)
    node.promise_pool("The pool is without the reserved CPUs", node.cpus - node.reserved)


@_strict(capabilities=START_ERROR)
def strict_switched_off_refuses_its_file(node: LockstepNode) -> None:
    """After strict-cpu-reservation is switched off the kubelet does not start on its old state
    file.
    To switch it off, the node has to be drained too."""
    node.boot(with_options(node, "strict-cpu-reservation"))
    restart_with(node, node.default_config())
    node.promise_refusal(
        f'not all reserved cpus: "{node.reserved}" are present in '
        f'defaultCpuSet: "{node.cpus - node.reserved}"'
    )


# -- what is refused -----------------------------------------------------------------------------

_NEW_STATIC: Final = "new static policy error: "

refused(
    "options/unknown-is-refused",
    "A policy option that does not exist keeps the kubelet from starting",
    sources.FULL_PCPUS,
    "Otherwise a typing error would leave a node without the option.",
    lambda node: with_options(node, "full-pcpu-only"),
    f'{_NEW_STATIC}unknown CPU Manager Policy option: "full-pcpu-only"',
    level=Level.CORE, since="1.23",
)  # fmt: skip
refused(
    "options/need-their-own-gate",
    "Without feature gate CPUManagerPolicyOptions any policy option keeps the kubelet down",
    sources.FULL_PCPUS,
    "The gate is off by default in 1.22, and locked on from 1.33.",
    lambda node: replace(
        node.config,
        policy_options={"full-pcpus-only": "true"},
        feature_gates={"CPUManagerPolicyOptions": False},
    ),
    "CPUManagerPolicyOptions",
    since="1.22", until="1.32",
)  # fmt: skip
refused(
    "options/alpha-needs-its-gate",
    "An alpha policy option without its feature gate keeps the kubelet from starting",
    sources.BY_SOCKET,
    "Even where the option is only named, to say that it is off.",
    lambda node: with_options(node, "align-by-socket", value="false", gates=NO_GATES),
    f"{_NEW_STATIC}CPU Manager Policy Alpha-level Options not enabled, "
    'but option "align-by-socket" provided',
    level=Level.CORE, since="1.25",
)  # fmt: skip
refused(
    "options/beta-needs-its-gate",
    "A beta policy option keeps the kubelet from starting where its feature gate is off",
    sources.ACROSS_NUMA,
    "The gate is on unless it is switched off.",
    lambda node: with_options(node, "distribute-cpus-across-numa", gates=_NO_BETA),
    f"{_NEW_STATIC}CPU Manager Policy Beta-level Options not enabled, "
    'but option "distribute-cpus-across-numa" provided',
    level=Level.CORE, since="1.33",
)  # fmt: skip
refused(
    "options/bad-value-is-refused",
    "A policy option whose value is not a boolean keeps the kubelet from starting",
    sources.FULL_PCPUS,
    "“yes” is not one of the twelve words that Go parses as a boolean.",
    lambda node: with_options(node, "full-pcpus-only", value="yes"),
    f'{_NEW_STATIC}bad value for option "full-pcpus-only": '
    'strconv.ParseBool: parsing "yes": invalid syntax',
    level=Level.CORE, since="1.23",
)  # fmt: skip
refused(
    "options/incompatible-pair-is-refused",
    "With both full-pcpus-only and distribute-cpus-across-cores the kubelet does not start",
    sources.ACROSS_CORES,
    "One takes whole physical cores, the other one CPU of each.",
    lambda node: with_options(node, "full-pcpus-only", "distribute-cpus-across-cores"),
    f"{_NEW_STATIC}static policy options full-pcpus-only and "
    "distribute-cpus-across-cores can not be used at the same time",
    level=Level.CORE, since="1.31",
)  # fmt: skip
refused(
    "options/align-by-socket-needs-large-sockets",
    "Under align-by-socket the kubelet does not start on more sockets than NUMA nodes",
    sources.BY_SOCKET,
    "There a NUMA node is the larger unit, and alignment by socket would promise less.",
    lambda node: with_options(node, "align-by-socket"),
    f"{_NEW_STATIC}Align by socket is not compatible with hardware where number "
    "of sockets are more than number of NUMA",
    since="1.25", machine="4s-1n-4c-smt1",
)  # fmt: skip
refused(
    "options/none-policy-takes-no-options",
    "A policy option under the none policy keeps the kubelet from starting",
    sources.FULL_PCPUS,
    "An option without effect is an error.",
    lambda node: replace(with_options(node, "full-pcpus-only", gates=NO_GATES), policy="none"),
    "new none policy error: None policy: received unsupported options=map[full-pcpus-only:true]",
    level=Level.CORE, since="1.23",
)  # fmt: skip
