"""The static policy's options: what each promises, and which the kubelet refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import Needs
from conformance.pods import best_effort, burstable, guaranteed
from conformance.promises import EXCLUSIVE_TO_ONE
from conformance.results import Difference
from conformance.scenario import Level, scenario
from conformance.scenarios.optional import NO_GATES, promise_whole_cores, with_options
from conformance.scenarios.sources import (
    ACROSS_CORES,
    ACROSS_NUMA,
    BY_SOCKET,
    EMPTY_POOL,
    ENDLESS_SEARCH,
    FULL_PCPUS,
    SMT_AFTER_RESTART,
    SPLIT_CORES,
    STRICT,
    UNCORE_CACHE,
)
from conformance.subject import Capability
from reference import CPUSet
from reference.view import Phase, PodView

_NO_BETA: Final = {"CPUManagerPolicyBetaOptions": False}

#: Three whole cores in every NUMA node let two nodes share what one cannot give, though a core of
#: one of them is reserved.
_SHARED_BY_TWO: Final = Needs(numa_nodes=2, numa_cores=3, even=True)


def _promise_smt_error(node: LockstepNode, pod: str, text: str) -> None:
    status = node.view.pods[pod]
    node.promise_equal("The pod is rejected", f"phase of pod {pod}", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", "SMTAlignmentError", status.reason)
    node.promise(
        text in status.message,
        "The message has the numbers",
        Difference(what="message", expected=f"… {text}", seen=status.message),
    )
    node.promise_cpus("It holds no CPU", f"exclusive CPUs {pod}/c", CPUSet(), node.taken(pod))


def _shared_by_two(node: LockstepNode) -> int:
    """A number of whole cores' CPUs that no NUMA node can give and any two can, half each."""
    per_core = node.topology.cpus_per_core
    cores = node.topology.num_cores // node.topology.num_numa_nodes
    return 2 * per_core * (cores // 2 + 1)


def _promise_even(node: LockstepNode, cpus: CPUSet) -> None:
    topology = node.topology
    shares = {
        numa: len(cpus & topology.cpus_in_numa_nodes(numa)) for numa in topology.numa_masks
    }  # fmt: skip
    given = {numa: share for numa, share in shares.items() if share}
    node.promise(
        sorted(given.values()) == [len(cpus) // 2] * 2,
        "Two NUMA nodes give half each",
        Difference(
            what=f"CPUs of each NUMA node, of {cpus}",
            expected=f"{len(cpus) // 2} of each of two",
            seen=", ".join(f"{share} of {numa}" for numa, share in given.items()),
        ),
    )


# -- full-pcpus-only -----------------------------------------------------------------------------


@scenario(
    "options/full-pcpus-partial-core-is-rejected",
    "Under full-pcpus-only a request that is not a multiple of a core is rejected",
    FULL_PCPUS,
    level=Level.CORE,
    since="1.22",
    needs=Needs(smt=2, even=True),
    capabilities=[Capability.REJECTIONS],
)
def full_pcpus_partial_core_is_rejected(node: LockstepNode) -> None:
    """One thread alone would leave its sibling to another container."""
    per_core = node.topology.cpus_per_core
    node.boot(with_options(node, "full-pcpus-only", gates=NO_GATES))
    node.apply(guaranteed("a", 1))
    _promise_smt_error(
        node,
        "a",
        f"SMT Alignment Error: requested 1 cpus not multiple cpus per core = {per_core}",
    )


@scenario(
    "options/full-pcpus-gives-whole-cores",
    "Under full-pcpus-only a container has its cores for itself",
    FULL_PCPUS,
    level=Level.CORE,
    since="1.22",
    needs=Needs(smt=2, cores=3, even=True),
)
def full_pcpus_gives_whole_cores(node: LockstepNode) -> None:
    """The sibling of a single reserved CPU is free, and still no part of a request."""
    node.boot(
        with_options(node, "full-pcpus-only", gates=NO_GATES, reserved=CPUSet([min(node.cpus)]))
    )  # fmt: skip
    for name in ("a", "b"):
        node.apply(guaranteed(name, node.topology.cpus_per_core))
        promise_whole_cores(node, node.taken(name))
        node.promise_equal(
            "The pod has a core", f"size of {name}/c", node.topology.cpus_per_core,
            len(node.taken(name)),
        )  # fmt: skip


@scenario(
    "options/full-pcpus-splits-no-core",
    "Under full-pcpus-only a request that fits only by splitting a core is rejected",
    FULL_PCPUS,
    since="1.27",
    needs=Needs(smt=2, cores=3, even=True),
    capabilities=[Capability.REJECTIONS],
)
def full_pcpus_splits_no_core(node: LockstepNode) -> None:
    """One thread of each of two cores is reserved, so their siblings do not count as free."""
    per_core = node.topology.cpus_per_core
    cores = list(node.topology.core_masks.values())[:2]
    reserved = CPUSet(min(CPUSet.of_mask(core)) for core in cores)
    node.boot(with_options(node, "full-pcpus-only", gates=NO_GATES, reserved=reserved))
    free = len(node.cpus) - 2 * per_core
    request = free + per_core
    node.apply(guaranteed("a", request))
    _promise_smt_error(
        node,
        "a",
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
        f"{free}, requested CPUs = {request}, CPUs per core = {per_core}",
    )
    status = node.apply(guaranteed("b", free))
    node.promise_equal("The rest is assigned", "phase of pod b", Phase.RUNNING, status.phase)
    promise_whole_cores(node, node.taken("b"))


@scenario(
    "options/full-pcpus-judges-each-container",
    "Under full-pcpus-only one container that would share a core has its whole pod rejected",
    FULL_PCPUS,
    since="1.22",
    needs=Needs(smt=2, cores=3, even=True),
    capabilities=[Capability.REJECTIONS],
)
def full_pcpus_judges_each_container(node: LockstepNode) -> None:
    """The first container asks for a whole core, the second for one CPU more. What the first was
    given returns."""
    per_core = node.topology.cpus_per_core
    node.boot(with_options(node, "full-pcpus-only", gates=NO_GATES))
    whole = node.view.shared_pool
    status = node.apply(guaranteed("a", per_core, per_core + 1))
    node.promise_equal("The pod is rejected", "phase of pod a", Phase.REJECTED, status.phase)
    node.promise_equal("The reason is named", "reason", "SMTAlignmentError", status.reason)
    node.pass_admission()
    node.promise_cpus("Every CPU returns", "shared pool", whole, node.view.shared_pool)


@scenario(
    "options/full-pcpus-ignores-shared-containers",
    "Under full-pcpus-only a container without exclusive CPUs may ask for any amount",
    FULL_PCPUS,
    since="1.22",
    needs=Needs(smt=2, cores=3, even=True),
    capabilities=[Capability.CPUSETS],
)
def full_pcpus_ignores_shared_containers(node: LockstepNode) -> None:
    """A Burstable pod with one CPU, and a fraction beside a whole core."""
    node.boot(with_options(node, "full-pcpus-only", gates=NO_GATES))
    for pod in (burstable("b", request="1", limit="2"),
                guaranteed("a", node.topology.cpus_per_core, "1500m")):  # fmt: skip
        status = node.apply(pod)
        node.promise_equal("It runs", f"phase of pod {pod.name}", Phase.RUNNING, status.phase)
    promise_whole_cores(node, node.taken("a", "c1"))
    for pod_name, name in (("b", "c"), ("a", "c2")):
        node.promise_on_pool("It runs on the shared pool", pod_name, name)


@scenario(
    "options/full-pcpus-splits-reserved-cores",
    "Up to 1.26 full-pcpus-only gives out the siblings of reserved CPUs as if they were a core",
    SPLIT_CORES,
    since="1.22",
    until="1.26",
    needs=Needs(smt=2, cores=3, even=True),
)
def full_pcpus_splits_reserved_cores(node: LockstepNode) -> None:
    """A known defect: of several cores one CPU each is reserved. A request for as many CPUs as a
    core has gets CPUs of more than one core."""
    per_core = node.topology.cpus_per_core
    cores = [CPUSet.of_mask(mask) for mask in node.topology.core_masks.values()][:per_core]
    reserved = CPUSet(cpu for core in cores for cpu in list(core)[: per_core - 1])
    node.boot(with_options(node, "full-pcpus-only", gates=NO_GATES, reserved=reserved))
    node.apply(guaranteed("fills", len(node.cpus) - per_core * per_core))
    node.apply(guaranteed("a", per_core))
    taken = node.taken("a")
    node.promise_equal("It has its CPUs", "number of CPUs of a/c", per_core, len(taken))
    touched = node.topology.core_ids(taken)
    node.promise_equal("of as many cores", "cores of a/c", per_core, len(touched))


@scenario(
    "options/full-pcpus-restart-refuses-what-runs",
    "Under full-pcpus-only a full node's pods are refused after a restart of the kubelet",
    SMT_AFTER_RESTART,
    since="1.27",
    until="1.36",
    needs=Needs(smt=2, cores=3, even=True),
    capabilities=[Capability.REJECTIONS, Capability.RESTART],
)
def full_pcpus_restart_refuses_what_runs(node: LockstepNode) -> None:
    """A known defect: for a pod that already holds its CPUs, the kubelet requires the same number
    of free CPUs again. It ends the containers of a pod that it refuses."""
    for name in _fill_and_restart(node):
        status = node.view.pods.get(name, PodView(Phase.PENDING))
        node.promise_equal("It is rejected", f"phase of {name}", Phase.REJECTED, status.phase)
        node.promise_equal("The reason is named", "reason", "SMTAlignmentError", status.reason)


@scenario(
    "options/full-pcpus-restart-keeps-what-runs",
    "Under full-pcpus-only a full node's pods keep their CPUs over a restart of the kubelet",
    SMT_AFTER_RESTART,
    level=Level.CORE,
    since="1.37",
    needs=Needs(smt=2, cores=3, even=True),
    capabilities=[Capability.RESTART, Capability.CPUSETS],
)
def full_pcpus_restart_keeps_what_runs(node: LockstepNode) -> None:
    """What a container holds needs no free CPUs."""
    for name, held in _fill_and_restart(node).items():
        node.promise_cpus("Its entry is as before", f"CPUs of {name}/c", held, node.taken(name))
        node.promise_cpus("It never moved", f"cpuset {name}/c", held, node.cpuset(name))


def _fill_and_restart(node: LockstepNode) -> dict[str, CPUSet]:
    """Fill the node with two pods of whole cores, and start the kubelet again; what they held."""
    node.boot(with_options(node, "full-pcpus-only", gates=NO_GATES))
    node.apply(guaranteed("a", node.topology.cpus_per_core))
    node.apply(guaranteed("b", len(node.free)))
    held = {name: node.taken(name) for name in ("a", "b")}
    node.kill()
    node.start()
    return held


# -- distribute-cpus-across-numa -----------------------------------------------------------------


@scenario(
    "options/numa-distribution-is-even",
    "A request that needs two NUMA nodes is spread over them evenly",
    ACROSS_NUMA,
    level=Level.CORE,
    since="1.23",
    needs=_SHARED_BY_TWO,
)
def numa_distribution_is_even(node: LockstepNode) -> None:
    """Rather than filling one and taking the rest from the other."""
    node.boot(with_options(node, "distribute-cpus-across-numa"))
    node.apply(guaranteed("a", _shared_by_two(node)))
    _promise_even(node, node.taken("a"))


@scenario(
    "options/numa-distribution-of-whole-cores",
    "Spread over NUMA nodes under full-pcpus-only, a request is still made of whole cores",
    ACROSS_NUMA,
    since="1.23",
    needs=replace(_SHARED_BY_TWO, smt=2),
)
def numa_distribution_of_whole_cores(node: LockstepNode) -> None:
    """Both options together: half of each node, and no core shared."""
    node.boot(with_options(node, "distribute-cpus-across-numa", "full-pcpus-only"))
    node.apply(guaranteed("a", _shared_by_two(node)))
    _promise_even(node, node.taken("a"))
    promise_whole_cores(node, node.taken("a"))


#: One thread of each of four cores of :data:`_INTERLEAVED`, in NUMA nodes of two sockets.
_HALF_CORES: Final = CPUSet([7, 34, 44, 64])
_INTERLEAVED: Final = "2s-4n-40c-smt2-interleaved"


@scenario(
    "options/numa-distribution-may-hang",
    "Where half cores are left over, a request that is spread over NUMA nodes may hang the kubelet",
    ENDLESS_SEARCH,
    since="1.23",
    until="1.37",
    machine=_INTERLEAVED,
    capabilities=[Capability.RESTART],
)
def numa_distribution_may_hang(node: LockstepNode) -> None:
    """A known defect: the kubelet gives NUMA nodes with free CPUs a share of whole cores, even if
    they have no free whole core, and searches for ever. It handles no other pod until it is stopped
    and the pod's manifest is removed. After that it runs as before. A kubelet that finishes gives
    the pod whole cores without a reserved CPU."""
    node.expect_hang()
    options = ("distribute-cpus-across-numa", "full-pcpus-only")
    node.boot(with_options(node, *options, reserved=_HALF_CORES))
    node.apply(guaranteed("small", "1500m"))
    node.apply(guaranteed("large", 70))
    if not node.hangs:
        large = node.taken("large")
        node.promise_equal("As many as requested", "size of large/c", 70, len(large))
        promise_whole_cores(node, large)
        return
    node.kill()
    node.delete("large")
    node.start()
    node.promise_running("The kubelet runs without the pod")
    node.promise_cpus("Every CPU is free again", "small/c", node.cpus, node.cpuset("small"))


# -- distribute-cpus-across-cores ----------------------------------------------------------------


@scenario(
    "options/across-cores-takes-one-thread-each",
    "Under distribute-cpus-across-cores CPUs are taken from as many cores as possible",
    ACROSS_CORES,
    level=Level.CORE,
    since="1.31",
    needs=Needs(smt=2, numa_cores=3, even=True, far_siblings=True),
)
def across_cores_takes_one_thread_each(node: LockstepNode) -> None:
    """The kubelet chooses by CPU number, so the promise is stated for machines that number the
    first thread of every core before the second of any."""
    node.boot(with_options(node, "distribute-cpus-across-cores"))
    sockets = len(node.topology.socket_masks)
    # The first socket has a core less; a whole NUMA node or socket would be taken as such.
    request = max(1, node.topology.num_cores // max(node.topology.num_numa_nodes, sockets) - 1)
    node.apply(guaranteed("a", request))
    cores = node.topology.core_ids(node.taken("a"))
    node.promise_equal("Each CPU is of another core", "cores touched", request, len(cores))


# -- prefer-align-cpus-by-uncorecache ------------------------------------------------------------


@scenario(
    "options/uncore-alignment",
    "A request that fits one uncore cache is kept within one",
    UNCORE_CACHE,
    level=Level.CORE,
    since="1.32",
    needs=Needs(uncore_caches=2, cores=4, even=True, caches_in_nodes=True),
)
def uncore_alignment(node: LockstepNode) -> None:
    """First a request as large as a cache, while the first cache is partly reserved; then a request
    as large as a core."""
    topology = node.topology
    node.boot(with_options(node, "prefer-align-cpus-by-uncorecache"))
    for name, request in (("a", topology.cpus_per_uncore), ("b", topology.cpus_per_core)):
        node.apply(guaranteed(name, request))
        caches = topology.uncore_cache_ids(node.taken(name))
        node.promise(
            len(caches) == 1,
            "The CPUs share one uncore cache",
            Difference(
                what=f"uncore caches of {name}/c ({node.taken(name)})",
                expected="one",
                seen=", ".join(map(str, sorted(caches))) or "none",
            ),
        )


# -- strict-cpu-reservation ----------------------------------------------------------------------


@scenario(
    "options/strict-keeps-shared-containers-off",
    "Under strict-cpu-reservation no container runs on reserved CPUs",
    STRICT,
    level=Level.CORE,
    since="1.32",
    needs=Needs(free=2),
    capabilities=[Capability.CPUSETS],
)
def strict_keeps_shared_containers_off(node: LockstepNode) -> None:
    """Shared containers run on what is neither reserved nor exclusive."""
    node.boot(with_options(node, "strict-cpu-reservation"))
    rule = "The shared container is off the reserved CPUs"
    node.apply(best_effort("shared"))
    node.promise_cpus(rule, "cpuset shared/c", node.cpus - node.reserved, node.cpuset("shared"))
    node.apply(guaranteed("a", 1))
    expected = node.cpus - node.reserved - node.taken("a")
    node.promise_cpus(rule, "cpuset shared/c", expected, node.cpuset("shared"))
    node.delete("a")
    node.promise_cpus(rule, "cpuset shared/c", node.cpus - node.reserved, node.cpuset("shared"))


@scenario(
    "options/strict-starts-again",
    "Under strict-cpu-reservation the kubelet starts on the state file it left",
    STRICT,
    level=Level.CORE,
    since="1.32",
    needs=Needs(free=2),
)
def strict_starts_again(node: LockstepNode) -> None:
    """The CPUs that the file leaves out are the reserved ones, and nothing has changed."""
    node.boot(with_options(node, "strict-cpu-reservation"))
    node.apply(guaranteed("a", 1))
    held = node.taken("a")
    node.stop()
    view = node.start()
    node.promise_equal("The kubelet runs", "whether it runs", True, view.running)
    node.promise_cpus("The container keeps its CPU", "exclusive CPUs a/c", held, node.taken("a"))


@scenario(
    "options/strict-empties-the-pool",
    "Under strict-cpu-reservation exclusive CPUs may leave shared containers none of their own",
    EMPTY_POOL,
    since="1.32",
    needs=Needs(free=2),
    capabilities=[Capability.CPUSETS, Capability.RESTART, Capability.START_ERROR],
)
def strict_empties_the_pool(node: LockstepNode) -> None:
    """A known defect: it breaks the promise that exclusive CPUs belong to one container alone. A
    request may take the last CPU of the shared pool. Running shared containers then stay on CPUs
    that are exclusive to another container. New shared containers run without a cpuset, and the
    kubelet does not start again."""
    node.expect_broken(EXCLUSIVE_TO_ONE)
    node.boot(with_options(node, "strict-cpu-reservation"))
    node.apply(best_effort("early"))
    before = node.cpuset("early")
    node.apply(guaranteed("a", len(node.free)))
    node.promise_cpus(
        "All CPUs of the pool are taken", "exclusive CPUs a/c", before, node.taken("a")
    )
    node.promise_cpus("The pool is empty", "shared pool", CPUSet(), node.view.shared_pool)
    stays = "A shared container that runs stays on them"
    node.promise_cpus(stays, "cpuset early/c", before, node.cpuset("early"))
    node.apply(best_effort("late"))
    bare = "A new one runs without a cpuset"
    node.promise_cpus(bare, "cpuset late/c", CPUSet(), node.cpuset("late"))
    node.kill()
    node.start()
    node.promise_refusal("default cpuset cannot be empty")


@scenario(
    "options/strict-refuses-an-older-file",
    "After strict-cpu-reservation is switched on the kubelet does not start on its old state file",
    STRICT,
    since="1.32",
    capabilities=[Capability.START_ERROR],
)
def strict_refuses_an_older_file(node: LockstepNode) -> None:
    """The file says that shared containers run on reserved CPUs. Without it the kubelet starts."""
    node.boot()
    node.stop()
    node.configure(with_options(node, "strict-cpu-reservation"))
    node.start()
    node.promise_refusal(
        f'some of strictly reserved cpus: "{node.reserved}" are present in '
        f'defaultCpuSet: "{node.cpus}"',
    )
    node.remove_state()
    view = node.start()
    node.promise_equal("Without the file it runs", "whether it runs", True, view.running)
    node.promise_cpus(
        "The pool is without the reserved CPUs",
        "shared pool",
        node.cpus - node.reserved,
        view.shared_pool,
    )


@scenario(
    "options/strict-switched-off-refuses-its-file",
    "After strict-cpu-reservation is switched off the kubelet does not start on its old state file",
    STRICT,
    since="1.32",
    capabilities=[Capability.START_ERROR],
)
def strict_switched_off_refuses_its_file(node: LockstepNode) -> None:
    """To switch it off, the node has to be drained too."""
    node.boot(with_options(node, "strict-cpu-reservation"))
    node.stop()
    node.configure(node.default_config())
    node.start()
    node.promise_refusal(
        f'not all reserved cpus: "{node.reserved}" are present in '
        f'defaultCpuSet: "{node.cpus - node.reserved}"',
    )


# -- what is refused -----------------------------------------------------------------------------


@scenario(
    "options/unknown-is-refused",
    "A policy option that does not exist keeps the kubelet from starting",
    FULL_PCPUS,
    level=Level.CORE,
    since="1.23",
    capabilities=[Capability.START_ERROR],
)
def unknown_is_refused(node: LockstepNode) -> None:
    """Otherwise a typing error would leave a node without the option."""
    node.boot(with_options(node, "full-pcpu-only"))
    node.promise_refusal(
        'new static policy error: unknown CPU Manager Policy option: "full-pcpu-only"'
    )


@scenario(
    "options/need-their-own-gate",
    "Without feature gate CPUManagerPolicyOptions any policy option keeps the kubelet down",
    FULL_PCPUS,
    since="1.22",
    until="1.32",
    capabilities=[Capability.START_ERROR],
)
def need_their_own_gate(node: LockstepNode) -> None:
    """The gate is off by default in 1.22, and locked on from 1.33."""
    gates = {"CPUManagerPolicyOptions": False}
    node.boot(replace(node.config, policy_options={"full-pcpus-only": "true"}, feature_gates=gates))
    node.promise_refusal("CPUManagerPolicyOptions")


@scenario(
    "options/alpha-needs-its-gate",
    "An alpha policy option without its feature gate keeps the kubelet from starting",
    BY_SOCKET,
    level=Level.CORE,
    since="1.25",
    capabilities=[Capability.START_ERROR],
)
def alpha_needs_its_gate(node: LockstepNode) -> None:
    """Even where the option is only named, to say that it is off."""
    node.boot(with_options(node, "align-by-socket", value="false", gates=NO_GATES))
    node.promise_refusal(
        "new static policy error: CPU Manager Policy Alpha-level Options not enabled, "
        'but option "align-by-socket" provided',
    )


@scenario(
    "options/beta-needs-its-gate",
    "A beta policy option keeps the kubelet from starting where its feature gate is off",
    ACROSS_NUMA,
    level=Level.CORE,
    since="1.33",
    capabilities=[Capability.START_ERROR],
)
def beta_needs_its_gate(node: LockstepNode) -> None:
    """The gate is on unless it is switched off."""
    node.boot(with_options(node, "distribute-cpus-across-numa", gates=_NO_BETA))
    node.promise_refusal(
        "new static policy error: CPU Manager Policy Beta-level Options not enabled, "
        'but option "distribute-cpus-across-numa" provided',
    )


@scenario(
    "options/bad-value-is-refused",
    "A policy option whose value is not a boolean keeps the kubelet from starting",
    FULL_PCPUS,
    level=Level.CORE,
    since="1.23",
    capabilities=[Capability.START_ERROR],
)
def bad_value_is_refused(node: LockstepNode) -> None:
    """“yes” is not one of the twelve words that Go parses as a boolean."""
    node.boot(with_options(node, "full-pcpus-only", value="yes"))
    node.promise_refusal(
        'new static policy error: bad value for option "full-pcpus-only": '
        'strconv.ParseBool: parsing "yes": invalid syntax',
    )


@scenario(
    "options/incompatible-pair-is-refused",
    "With both full-pcpus-only and distribute-cpus-across-cores the kubelet does not start",
    ACROSS_CORES,
    level=Level.CORE,
    since="1.31",
    capabilities=[Capability.START_ERROR],
)
def incompatible_pair_is_refused(node: LockstepNode) -> None:
    """One takes whole physical cores, the other one CPU of each."""
    node.boot(with_options(node, "full-pcpus-only", "distribute-cpus-across-cores"))
    node.promise_refusal(
        "new static policy error: static policy options full-pcpus-only and "
        "distribute-cpus-across-cores can not be used at the same time",
    )


@scenario(
    "options/align-by-socket-needs-large-sockets",
    "Under align-by-socket the kubelet does not start on more sockets than NUMA nodes",
    BY_SOCKET,
    since="1.25",
    capabilities=[Capability.START_ERROR],
    machine="4s-1n-4c-smt1",
)
def align_by_socket_needs_large_sockets(node: LockstepNode) -> None:
    """There a NUMA node is the larger unit, and alignment by socket would promise less."""
    node.boot(with_options(node, "align-by-socket"))
    node.promise_refusal(
        "new static policy error: Align by socket is not compatible with hardware where number "
        "of sockets are more than number of NUMA",
    )


@scenario(
    "options/none-policy-takes-no-options",
    "A policy option under the none policy keeps the kubelet from starting",
    FULL_PCPUS,
    level=Level.CORE,
    since="1.23",
    capabilities=[Capability.START_ERROR],
)
def none_policy_takes_no_options(node: LockstepNode) -> None:
    """An option without effect is an error."""
    config = with_options(node, "full-pcpus-only", gates=NO_GATES)
    node.boot(replace(config, policy="none"))
    node.promise_refusal(
        "new none policy error: None policy: received unsupported "
        "options=map[full-pcpus-only:true]",
    )
