"""The static memory manager beside the CPU manager: on which NUMA nodes a container's CPUs lie
whose memory fits some NUMA nodes only, and what a restart leaves of it.

Every NUMA node of the machine has 128 MiB here. A NUMA node is *tight* where all but 1 MiB
of it is reserved, so that no pod fits. The *far* NUMA node is the last one that has CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.needs import DoesNotApply
from conformance.pods import burstable, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios import sources
from conformance.scenarios.abilities import (
    CONFIGURES,
    LISTS,
    MEMORY,
    REJECTIONS,
    RESTARTED,
    START_ERROR,
)
from conformance.scenarios.aligning import BEST_EFFORT, RESTRICTED, SINGLE, aligning_alone
from conformance.scenarios.entering import row
from conformance.scenarios.hint_parts import (
    NIC,
    TWO_NODES,
    far_node,
    first_node,
    promise_lies_in,
    promise_phase,
    promise_refused,
    register,
    require_few_nodes,
    run,
    run_in,
)
from conformance.scenarios.outcomes import promise_rejected, restart_with
from conformance.scenarios.sources import POD_LEVEL_MANAGERS
from reference import CPUSet
from reference.steps import AskAllocatable, Container, Device, Kind, Pod
from reference.view import Phase
from topologies import Machine, with_memory

_PAGE: Final = "tasks/administer-cluster/memory-manager/"
MANAGER: Final = sources.documentation("Utilizing the NUMA-aware Memory Manager", _PAGE)
STATIC: Final = sources.documentation(
    "Utilizing the NUMA-aware Memory Manager: Static policy", f"{_PAGE}#policy-static"
)
REUSE: Final = sources.issue(100838, "the memory manager uses memory of init containers again")
RESERVED: Final = sources.documentation(
    "Utilizing the NUMA-aware Memory Manager: reserved memory flag", f"{_PAGE}#reserved-memory-flag"
)
LENT: Final = sources.pull(104788, "what init containers lend is kept as another pod is admitted")
AS_INT64: Final = sources.code(
    "1.36.4",
    "pkg/kubelet/cm/memorymanager/policy_static.go",
    "the memory of a container is read as an int64",
)
INIT_RESTART: Final = sources.issue(
    123971, "a kubelet restart refuses pods with init containers under the memory manager"
)


of_memory: Final = partial(
    promised, area="memory", source=STATIC, since="1.26", needs=TWO_NODES, capabilities=MEMORY
)
_row: Final = partial(row, enter=of_memory)

MIB_OF_A_NODE: Final = 128
_NO_NODES: Final = "[memorymanager] failed to find NUMA nodes to extend the current topology hint"


# -- what a scenario says and reads ----------------------------------------------------------------


def boot_with_free(
    node: LockstepNode,
    policy: str,
    free: Mapping[int, int],
    *,
    scope: str = "container",
    manager: str = "Static",
    gates: Mapping[str, bool] | None = None,
    api_server: bool = False,
    changed: Callable[[Machine], Machine] = lambda machine: machine,
) -> None:
    """Align by the policy. These NUMA nodes have so many MiB for pods, all others have one.
    ``changed``: what else the machine has."""
    require_few_nodes(node)
    machine = with_memory(node.machine, MIB_OF_A_NODE)
    if machine is node.machine:
        raise DoesNotApply("needs NUMA nodes whose memory the kernel tells, the machine has none")
    reserved = {numa: f"{MIB_OF_A_NODE - free.get(numa, 1)}Mi" for numa in node.numa_nodes}
    config = aligning_alone(node, policy, scope=scope)
    config = replace(
        config,
        feature_gates={**config.feature_gates, **(gates or {})},
        memory_manager_policy=manager,
        reserved_memory=reserved,
        api_server=api_server,
    )
    node.boot(config, machine=changed(machine))


def _boot(
    node: LockstepNode,
    policy: str,
    *,
    roomy: Collection[int] | None = None,
    scope: str = "container",
    manager: str = "Static",
) -> None:
    """Align by the policy, with room in these NUMA nodes alone, or in all of them."""
    free = dict.fromkeys(node.numa_nodes if roomy is None else roomy, MIB_OF_A_NODE - 1)
    boot_with_free(node, policy, free, scope=scope, manager=manager)


def with_mebibytes(container: Container, mebibytes: int) -> Container:
    """The container, with this memory requested and as its limit."""
    text = f"{mebibytes}Mi"
    return replace(container, memory_request=text, memory_limit=text)


def with_memory_of(name: str, mebibytes: int, cpus: int | str = 1) -> Pod:
    """A Guaranteed pod of one container with this memory."""
    return guaranteed_of(name, [with_mebibytes(exclusive("c", cpus), mebibytes)])


def _sharing(name: str) -> Pod:
    return with_memory_of(name, 100, "500m")


# -- memory pulls CPUs -----------------------------------------------------------------------------


def _follows(policy: str) -> None:
    """Enter a scenario: under this policy memory decides where CPUs lie."""

    def steps(node: LockstepNode) -> None:
        _boot(node, policy, roomy=[far_node(node)])
        run_in(node, far_node(node), guaranteed("a", 2), 2)

    _row(
        f"memory/{policy}-follows-memory",
        f"Under {policy} a container's CPUs lie in the NUMA node that has room for its memory",
        "The last NUMA node has room; CPUs alone would lie in another.",
        steps,
    )


for _policy in (SINGLE, RESTRICTED, BEST_EFFORT):
    _follows(_policy)


@of_memory(source=MANAGER)
def policy_none_does_not_align(node: LockstepNode) -> None:
    """Under memory manager policy None the memory of NUMA nodes does not decide where CPUs lie.
    The pod's memory fits the last NUMA node alone, and its CPU lies in the first."""
    _boot(node, SINGLE, roomy=[far_node(node)], manager="None")
    run_in(node, first_node(node), guaranteed("a", 1))


@of_memory()
def full_numa_node_is_passed_over(node: LockstepNode) -> None:
    """Under single-numa-node CPUs lie in a NUMA node that has memory left, though others have CPUs.
    The first pod leaves too little memory in the first NUMA node for the second."""
    first, far = first_node(node), far_node(node)
    _boot(node, SINGLE, roomy=[first, far])
    for pod, numa in (("before", first), ("a", far)):
        run_in(node, numa, with_memory_of(pod, 100))


@of_memory()
def burstable_pods_do_not_count(node: LockstepNode) -> None:
    """The memory of a pod that is not Guaranteed does not decide where others lie.
    Two such pods request more memory than the first NUMA node has."""
    _boot(node, SINGLE)
    for name in ("one", "two"):
        run(node, burstable(name, request="500m"))
    run_in(node, first_node(node), with_memory_of("a", 100))


# -- no room ---------------------------------------------------------------------------------------


@of_memory(capabilities=(*MEMORY, *REJECTIONS))
def single_numa_node_refuses_too_large(node: LockstepNode) -> None:
    """Under single-numa-node a container is refused whose memory needs two NUMA nodes.
    Each NUMA node has CPUs. No CPU is taken."""
    _boot(node, SINGLE)
    pool = node.view.shared_pool
    status = node.apply(with_memory_of("a", 150))
    promise_refused(node, status, "TopologyAffinityError", "with Topology locality")
    node.promise_pool("No CPU is taken", pool)


@of_memory()
def best_effort_runs_too_large(node: LockstepNode) -> None:
    """Under best-effort a container runs whose memory needs two NUMA nodes.
    It has its CPU."""
    _boot(node, BEST_EFFORT)
    run(node, with_memory_of("a", 150))
    node.promise_equal("It has its CPU", "number of CPUs of a/c", 1, len(node.taken("a")))


def _refuses_all(node: LockstepNode, policy: str, text: str) -> None:
    _boot(node, policy)
    pool = node.view.shared_pool
    size = MIB_OF_A_NODE * (len(node.numa_nodes) + 1)
    promise_refused(node, node.apply(with_memory_of("a", size)), "UnexpectedAdmissionError", text)
    node.pass_admission()
    node.promise_pool("No CPU stays taken", pool)


_row(
    "memory/more-than-all-is-refused",
    "A container is refused whose memory no NUMA nodes have, and its CPUs return",
    """The memory manager has no hint then, so the Topology Manager does not object; it refuses
    when it is to hand memory out.""",
    lambda node: _refuses_all(node, SINGLE, _NO_NODES),
    capabilities=(*MEMORY, *REJECTIONS),
)
_row(
    "memory/lack-without-alignment-is-refused",
    "Under Topology Manager policy none a container is refused whose memory no NUMA nodes have",
    "The text differs from that under other policies. Its CPUs return.",
    lambda node: _refuses_all(
        node, "none", "[memorymanager] failed to get the default NUMA affinity"
    ),
    capabilities=(*MEMORY, *REJECTIONS),
)


# -- several containers ----------------------------------------------------------------------------


def _sized(name: str, mebibytes: int, kind: Kind = Kind.APP) -> Container:
    return with_mebibytes(exclusive(name, 1, kind=kind), mebibytes)


def _part(name: str, mebibytes: int, kind: Kind = Kind.APP) -> Container:
    return with_mebibytes(exclusive(name, "100m", kind=kind), mebibytes)


#: Two containers of 64 MiB each: one MiB more than a NUMA node has.
_TWO_OF_64_MIB: Final = guaranteed("a", 1, 1)
_WITH_INIT: Final = guaranteed_of("a", [_sized("init", 100, Kind.INIT), _sized("c", 100)])


@of_memory(capabilities=(*MEMORY, *REJECTIONS))
def pod_scope_counts_every_container(node: LockstepNode) -> None:
    """Under scope pod a pod is refused whose containers together need more memory than a NUMA node.
    Each of them alone would fit."""
    _boot(node, SINGLE, scope="pod")
    promise_refused(node, node.apply(_TWO_OF_64_MIB), "TopologyAffinityError")


@of_memory()
def pod_scope_counts_the_largest_init(node: LockstepNode) -> None:
    """Under scope pod init containers share the memory that a pod needs at once.
    Two of 80 MiB and an app container of 40 MiB run in a NUMA node with 127 MiB."""
    _boot(node, SINGLE, scope="pod", roomy=[far_node(node)])
    inits = [_sized(name, 80, Kind.INIT) for name in ("init1", "init2")]
    run_in(node, far_node(node), guaranteed_of("a", [*inits, _sized("c", 40)]))


@of_memory(since="1.29", capabilities=(*MEMORY, *REJECTIONS))
def pod_scope_counts_sidecars(node: LockstepNode) -> None:
    """Under scope pod a pod is refused whose sidecar and app container need more than a NUMA node.
    They run at the same time, and each of them alone would fit."""
    _boot(node, SINGLE, scope="pod")
    pod = guaranteed_of("a", [_sized("side", 80, Kind.SIDECAR), _sized("c", 80)])
    promise_refused(node, node.apply(pod), "TopologyAffinityError")


@of_memory()
def container_scope_parts_containers(node: LockstepNode) -> None:
    """Under scope container each container lies in a NUMA node that has room for its memory.
    The first NUMA node has room for one of two."""
    first, far = first_node(node), far_node(node)
    _boot(node, SINGLE, roomy=[first, far])
    run(node, _TWO_OF_64_MIB)
    promise_lies_in(node, first, "a", 1, "c1")
    promise_lies_in(node, far, "a", 1, "c2")


@of_memory(source=REUSE)
def init_memory_is_used_again(node: LockstepNode) -> None:
    """An app container uses the memory of its pod's init container again, and the CPUs beside it.
    No NUMA node has room for both."""
    _boot(node, SINGLE, roomy=[far_node(node)])
    run_in(node, far_node(node), _WITH_INIT)
    node.promise_cpus("It has its CPU", "a/c", node.taken("a", "init"), node.taken("a"))


@of_memory(source=REUSE, capabilities=(*MEMORY, *REJECTIONS))
def init_containers_lend_the_same_memory(node: LockstepNode) -> None:
    """Two init containers use the same memory, and what their app container needs beyond is taken.
    Half of its memory is theirs. The next pod is refused, for which too little is left."""
    _boot(node, SINGLE, roomy=[far_node(node)])
    lent = [_sized(name, 50, Kind.INIT) for name in ("init1", "init2")]
    run_in(node, far_node(node), guaranteed_of("a", [*lent, _sized("c", 100)]))
    refused = node.apply(with_memory_of("b", 50))
    promise_refused(node, refused, "UnexpectedAdmissionError", _NO_NODES)


@of_memory(source=LENT, capabilities=(*MEMORY, *RESTARTED))
def init_containers_lend_beside_another_pod(node: LockstepNode) -> None:
    """Init containers lend their memory where an earlier pod's init container has lent some, too.
    A large one, a small one and the app container use the same 50 MiB. What is left serves another
    pod, and the kubelet starts again on what it has written."""
    _boot(node, SINGLE, roomy=[far_node(node)])
    run(node, guaranteed_of("early", [_part("init", 10, Kind.INIT), _part("c", 10)]))
    lent = [_part("init1", 50, Kind.INIT), _part("init2", 20, Kind.INIT)]
    run(node, guaranteed_of("a", [*lent, _part("c", 50)]))
    run(node, guaranteed_of("b", [_part("c", 60)]))
    node.restart()
    node.promise_running("The kubelet starts on its memory file")


@of_memory(source=sources.SIDECARS, since="1.29", capabilities=(*MEMORY, *REJECTIONS, *RESTARTED))
def sidecar_keeps_its_memory(node: LockstepNode) -> None:
    """An app container does not use the memory of its pod's sidecar again.
    Sidecar and app container have 60 MiB each. The next pod is refused, for which too little is
    left, and so it is after a restart of the kubelet."""
    _boot(node, SINGLE, roomy=[far_node(node)])
    run(node, guaranteed_of("s", [_sized("side", 60, Kind.SIDECAR), _sized("c", 60)]))
    for name in ("a", "b"):
        refused = node.apply(with_memory_of(name, 20))
        promise_rejected(node, refused, "UnexpectedAdmissionError", name)
        node.restart()


@of_memory(source=REUSE, since="1.29")
def init_memory_behind_a_sidecar_returns(node: LockstepNode) -> None:
    """What only an init container needed is free once it has ended, also if it followed a sidecar.
    Sidecar and app container have 20 MiB each, the init container had 80 MiB. Another pod of
    60 MiB runs in the same NUMA node, the only one that has room."""
    _boot(node, SINGLE, roomy=[far_node(node)])
    setup = _sized("setup", 80, Kind.INIT)
    run(node, guaranteed_of("a", [_sized("side", 20, Kind.SIDECAR), setup, _sized("c", 20)]))
    run(node, with_memory_of("b", 60, "100m"))


@of_memory(source=MANAGER, capabilities=(*MEMORY, *REJECTIONS, Capability.DEVICES))
def device_elsewhere_is_refused(node: LockstepNode) -> None:
    """Under single-numa-node a container is refused whose memory and device lie in two NUMA nodes.
    Each NUMA node has CPUs. The same pod without a device runs where its memory fits."""
    first, far = first_node(node), far_node(node)
    _boot(node, SINGLE, roomy=[first])
    register(node, Device("nic-0", (far,)))
    pod = guaranteed_of("a", [replace(exclusive("c", 1), devices=((NIC, 1),))])
    promise_refused(node, node.apply(pod), "TopologyAffinityError")
    run_in(node, first, guaranteed("plain", 1))


# -- reservations ----------------------------------------------------------------------------------


def _boot_reserving(node: LockstepNode, numa: int, whole: str | None = None) -> None:
    """With 64 MiB reserved in this NUMA node, and ``whole`` as the reservation of the node."""
    config = replace(
        aligning_alone(node, "none"),
        memory_manager_policy="Static",
        reserved_memory={numa: "64Mi"},
        memory_reservation=whole,
    )
    node.boot(config)


@of_memory(needs=Needs(), source=RESERVED, capabilities=(*MEMORY, *START_ERROR))
def reservation_of_a_missing_node_is_refused(node: LockstepNode) -> None:
    """The kubelet does not start if reservedMemory names a NUMA node that the machine lacks.
    As after a move of the settings to a smaller machine. Its error names the NUMA node."""
    missing = max(node.numa_nodes) + 1
    _boot_reserving(node, missing)
    node.promise_refusal(
        f"the reserved memory configuration references a NUMA node {missing} that does not exist"
    )


@of_memory(needs=Needs(), source=RESERVED, capabilities=(*MEMORY, *START_ERROR))
def reservations_that_do_not_add_up_are_refused(node: LockstepNode) -> None:
    """The kubelet does not start if reservedMemory is less than what the node reserves.
    The NUMA nodes reserve 64 MiB, and systemReserved and the eviction threshold 65 MiB together: a
    threshold that was left out of the sum is the usual cause."""
    _boot_reserving(node, first_node(node), "65Mi")
    node.promise_refusal(
        'the total amount "67108864" of type "memory" is not equal to the value "68157440"'
    )


# -- coming and going ------------------------------------------------------------------------------


@of_memory()
def deletion_returns_memory(node: LockstepNode) -> None:
    """The memory of a deleted pod serves the next pod, with CPUs beside it.
    One NUMA node has room for one of them."""
    _boot(node, SINGLE, roomy=[far_node(node)])
    node.apply(with_memory_of("before", 100))
    node.delete("before", passing=True)
    run_in(node, far_node(node), with_memory_of("a", 100))


@of_memory(capabilities=(*MEMORY, Capability.CALLS))
def runtime_is_asked_for_the_nodes(node: LockstepNode) -> None:
    """The runtime is asked to bind a container's memory to the NUMA nodes that it was given from.
    As cpuset.mems: one NUMA node of a Guaranteed pod, both that have room where the memory of
    one does not do, and none of a Burstable pod."""
    first, far = first_node(node), far_node(node)
    _boot(node, BEST_EFFORT, roomy=[first, far])
    node.apply(with_memory_of("a", 100))
    node.apply(burstable("b"))
    rule = "The memory is bound to its NUMA nodes"
    for pod, nodes in (("a", CPUSet([first])), ("b", CPUSet())):
        node.promise_cpus(rule, f"cpuset.mems of {pod}/c", nodes, node.asked(pod).mems)
    node.delete("a", passing=True)
    node.apply(with_memory_of("wide", 200))
    nodes, bound = CPUSet([first, far]), node.asked("wide").mems
    what = "NUMA nodes with room among cpuset.mems of wide/c"
    node.promise_cpus("The memory is bound to both", what, nodes, bound & nodes)


@of_memory(capabilities=(*MEMORY, Capability.CALLS))
def init_containers_are_bound_too(node: LockstepNode) -> None:
    """The memory of each init container is bound to the NUMA node of its pod, one after the other.
    Two init containers and an app container follow each other in the same memory. All but the app
    container have ended when this is looked at."""
    far = far_node(node)
    _boot(node, SINGLE, roomy=[far])
    lent = [_sized(name, 50, Kind.INIT) for name in ("init1", "init2")]
    run_in(node, far, guaranteed_of("a", [*lent, _sized("c", 50)]))
    for name in ("init1", "init2", "c"):
        rule, bound = "It is bound to its NUMA node", node.asked("a", name).mems
        node.promise_cpus(rule, f"cpuset.mems of a/{name}", CPUSet([far]), bound)


@of_memory(capabilities=(*MEMORY, *LISTS, Capability.CALLS))
def policy_none_binds_nothing(node: LockstepNode) -> None:
    """Under memory manager policy None no container's memory is bound to NUMA nodes, or reported.
    A pod with exclusive CPUs and memory runs. Its CPUs are reported; the node offers no memory."""
    _boot(node, SINGLE, manager="None")
    node.apply(with_memory_of("a", 100))
    node.apply(burstable("b"))
    for pod in ("a", "b"):
        bound = node.asked(pod).mems
        node.promise_cpus("Bound to no NUMA node", f"cpuset.mems of {pod}/c", CPUSet(), bound)
    node.ask()
    node.promise_pod_resources("Its CPUs are reported", "a", node.taken("a"))
    reported = node.view.memory.get("a", {}).get("c", frozenset())
    node.promise_equal("No memory is reported", "memory of a/c", frozenset(), reported)
    offered = node.ask(AskAllocatable()).allocatable_memory
    node.promise_equal("No memory is offered", "memory of the node", frozenset(), offered)


@of_memory(capabilities=(*MEMORY, *RESTARTED))
def restart_keeps_cpus(node: LockstepNode) -> None:
    """A running pod with memory of its own keeps its CPUs over a restart of the kubelet.
    Another pod was deleted before it, so there is a NUMA node with a lower id and room."""
    first, far = first_node(node), far_node(node)
    _boot(node, SINGLE, roomy=[first, far])
    node.apply(with_memory_of("gap", 100))
    node.apply(with_memory_of("a", 100))
    promise_lies_in(node, far, "a", 1)
    held = node.taken("a")
    node.delete("gap")
    node.kill()
    promise_phase(node, "a", node.start().pods["a"], Phase.RUNNING)
    node.promise_cpus("It has its CPUs", "CPUs of a/c", held, node.taken("a"))


@of_memory(capabilities=(*MEMORY, *RESTARTED))
def restart_keeps_memory(node: LockstepNode) -> None:
    """After a restart of the kubelet a running pod's memory is given to no other pod.
    That pod has no CPUs of its own, and its memory is in the last NUMA node. It could move to
    the first one, where another pod was deleted. The CPUs of the next pod lie there."""
    first, far = first_node(node), far_node(node)
    _boot(node, SINGLE, roomy=[first, far])
    node.apply(with_memory_of("gap", 100))
    node.apply(_sharing("shares"))
    node.delete("gap")
    node.restart()
    run_in(node, first, with_memory_of("a", 100))


def _gate_tried(node: LockstepNode) -> None:
    """A pod has memory in the last NUMA node since then; the kubelet starts without the gate."""
    _boot(node, SINGLE, roomy=[first_node(node), far_node(node)])
    node.apply(_sharing("gap"))
    restart_with(node, replace(node.config, feature_gates={"PodLevelResourceManagers": True}))
    node.apply(_sharing("shares"))
    node.delete("gap")
    restart_with(node, replace(node.config, feature_gates={}))


def _refuses_file(before: str, after: str) -> None:
    """Enter a scenario: the policy of the memory manager is changed, and its file is not."""

    def steps(node: LockstepNode) -> None:
        _boot(node, "none", manager=before)
        restart_with(node, replace(node.config, memory_manager_policy=after))
        text = f'configured policy "{after}" differs from state checkpoint policy "{before}"'
        node.promise_refusal(text, "/var/lib/kubelet/memory_manager_state")

    _row(
        f"memory/{before.lower()}-to-{after.lower()}-is-refused",
        f"A kubelet with memory manager policy {after} refuses the file of policy {before}",
        """The refusal says which file is to be deleted. A kubelet writes the file under policy None
        as well, so this is what follows when the memory manager is enabled.""",
        steps,
        source=MANAGER,
        capabilities=(*MEMORY, *CONFIGURES, Capability.START_ERROR),
    )


_refuses_file("None", "Static")
_refuses_file("Static", "None")


@of_memory(
    source=POD_LEVEL_MANAGERS, since="1.36", until="1.36",
    capabilities=(*MEMORY, *CONFIGURES, Capability.START_ERROR),
)  # fmt: skip
def gate_off_refuses_the_file(node: LockstepNode) -> None:
    """Once feature gate PodLevelResourceManagers was tried, the kubelet refuses the memory file.
    No pod has exclusive CPUs, so only the memory manager writes its file in between. The refusal
    says which file is to be deleted."""
    _gate_tried(node)
    node.promise_refusal("checkpoint is corrupted", "/var/lib/kubelet/memory_manager_state")


@of_memory(source=POD_LEVEL_MANAGERS, since="1.37", capabilities=(*MEMORY, *CONFIGURES))
def gate_off_keeps_the_file(node: LockstepNode) -> None:
    """Once feature gate PodLevelResourceManagers was tried, the kubelet reads the memory file.
    Memory that the file names is given to no other pod."""
    _gate_tried(node)
    run_in(node, first_node(node), with_memory_of("a", 100))


@of_memory(source=AS_INT64, capabilities=(*MEMORY, *REJECTIONS))
def parts_of_a_byte_are_refused(node: LockstepNode) -> None:
    """The kubelet refuses a Guaranteed container whose memory is no whole number of bytes.
    As ``50.1Mi`` is. The memory manager does not round it up; the CPUs of the pod return. The same
    amount as a whole number is admitted."""
    _boot(node, SINGLE)
    pool = node.view.shared_pool
    part = replace(exclusive("c", 1), memory_request="50.1Mi", memory_limit="50.1Mi")
    text = "[memorymanager] failed to represent quantity as int64"
    refused = node.apply(guaranteed_of("a", [part]))
    promise_refused(node, refused, "UnexpectedAdmissionError", text)
    node.pass_admission()
    node.promise_pool("No CPU stays taken", pool)
    run(node, with_memory_of("b", 50))


@of_memory(source=INIT_RESTART, capabilities=(*MEMORY, *RESTARTED, *REJECTIONS))
def restart_refuses_ended_init_container(node: LockstepNode) -> None:
    """A restarted kubelet refuses a running pod whose init container had memory.
    A known defect: the memory manager no longer knows the init container. It allocates memory
    for it a second time, beside the memory that the app container holds. No release mends it."""
    _boot(node, SINGLE, roomy=[first_node(node)])
    run(node, _WITH_INIT)
    node.kill()
    promise_refused(node, node.start().pods["a"], "UnexpectedAdmissionError", _NO_NODES)
    node.pass_admission()
    node.promise_cpus("Its CPUs return", "CPUs of a/c", CPUSet(), node.taken("a"))
