"""Pod-level resources beside the static memory manager: memory of a pod as a whole, how its
containers share it, and what a restart makes of it.

A NUMA node has 127 MiB for pods, or one where only others have room.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive
from conformance.scenarios import sources
from conformance.scenarios.abilities import LISTS, MEMORY, REJECTIONS, RESTARTED, START_ERROR
from conformance.scenarios.aligning import BEST_EFFORT, SINGLE
from conformance.scenarios.entering import row
from conformance.scenarios.hint_parts import far_node, promise_lies_in, promise_refused, run, run_in
from conformance.scenarios.memory import (
    MIB_OF_A_NODE,
    boot_with_free,
    with_mebibytes,
    with_memory_of,
)
from conformance.scenarios.outcomes import promise_running, status_of
from conformance.scenarios.pod_level_parts import of_managers, pod_of, shared
from conformance.scenarios.reported_memory import held, promise_memory
from reference.kubelet.pod_resources import WHOLE_POD
from reference.steps import Container, Kind, Pod

TAKEN_AGAIN: Final = sources.issue(
    140906, "the memory manager takes memory of a pod as a whole again after a restart"
)
KEPT: Final = sources.pull(141077, "the memory manager keeps the memory of pods over a restart")

_of_memory: Final = partial(of_managers, capabilities=MEMORY)
_row: Final = partial(row, enter=_of_memory)


def _boot(node: LockstepNode, policy: str, *, roomy: Collection[int] | None = None) -> None:
    """Align pods by the policy, with room in these NUMA nodes alone, or in all of them."""
    free = dict.fromkeys(node.numa_nodes if roomy is None else roomy, MIB_OF_A_NODE - 1)
    boot_with_free(node, policy, free, scope="pod", gates={"PodLevelResourceManagers": True})


def _own(name: str, mebibytes: int, cpus: int | str = 2, *, kind: Kind = Kind.APP) -> Container:
    return with_mebibytes(exclusive(name, cpus, kind=kind), mebibytes)


def _whole(mebibytes: int, *containers: Container, cpus: int | str = 4) -> Pod:
    """Pod ``a`` of so many MiB and CPUs as a whole."""
    return pod_of("a", cpus, *containers, memory=f"{mebibytes}Mi")


#: A container has 24 MiB to itself, and the other one shares the 40 that are left.
_SHARES: Final = _whole(64, _own("main", 24), shared("side"))


def _promise_memory(node: LockstepNode, name: str, numa: int, mebibytes: int) -> None:
    """Of pod ``a``; none of it where ``mebibytes`` is 0."""
    expected = held(numa, mebibytes) if mebibytes else ()
    promise_memory(node, "Its memory is reported", "a", expected, name)


# -- memory as a whole -----------------------------------------------------------------------------


@_of_memory()
def pod_lies_where_its_memory_is(node: LockstepNode) -> None:
    """Under scope pod the memory of a pod as a whole lies in one NUMA node, with its CPUs.
    Only the far NUMA node has room for the memory; CPUs alone would lie in another."""
    far = far_node(node)
    _boot(node, SINGLE, roomy=[far])
    run(node, _whole(64, _own("main", 24), _own("other", 40)))
    for name in ("main", "other"):
        promise_lies_in(node, far, "a", 2, name)


def _promise_shares(node: LockstepNode, *, side: int, whole: int) -> None:
    """A pod of 64 MiB: a sidecar has 16 of them to itself, an app container 24."""
    far = far_node(node)
    _boot(node, SINGLE, roomy=[far])
    sidecar = _own("sidecar", 16, 1, kind=Kind.SIDECAR)
    run(node, _whole(64, sidecar, _own("main", 24), shared("side")))
    node.ask()
    for name, mebibytes in {"sidecar": 16, "main": 24, "side": side, WHOLE_POD: whole}.items():
        _promise_memory(node, name, far, mebibytes)


_row(
    "pod-level/memory-that-is-left-is-shared",
    "In 1.36 a shared container is reported to have what exclusive ones and sidecars leave of its "
    "pod's memory",
    "Of 64 MiB a sidecar has 16 and an app container 24, so that 24 are left.",
    lambda node: _promise_shares(node, side=24, whole=0),
    until="1.36", capabilities=(*MEMORY, *LISTS),
)  # fmt: skip
_row(
    "pod-level/memory-as-a-whole-is-reported",
    "From 1.37 on memory of a pod as a whole is reported, and none for containers that share it",
    "Those that have memory to themselves are reported with it.",
    lambda node: _promise_shares(node, side=0, whole=64),
    since="1.37", capabilities=(*MEMORY, *LISTS),
)  # fmt: skip


@_of_memory(capabilities=(*MEMORY, *REJECTIONS))
def shared_containers_need_memory(node: LockstepNode) -> None:
    """Under scope pod a pod is refused whose exclusive containers leave its shared ones no memory.
    There are CPUs left for them. The policy is best-effort, which refuses nothing by itself."""
    _boot(node, BEST_EFFORT)
    status = node.apply(_whole(64, _own("main", 64), shared("side")))
    text = "leaving no memory for shared containers"
    promise_refused(node, status, "EmptyPodSharedPoolError", text)


@_of_memory(capabilities=(*MEMORY, *LISTS))
def memory_returns_with_its_pod(node: LockstepNode) -> None:
    """The memory of a pod as a whole serves the next pod, the part that was shared included.
    There is room in one NUMA node, and the next pod needs nearly all of it."""
    far = far_node(node)
    _boot(node, SINGLE, roomy=[far])
    run(node, _SHARES)
    node.delete("a", passing=True)
    run_in(node, far, with_memory_of("b", 120))


@_of_memory(capabilities=(*MEMORY, *LISTS))
def no_memory_by_default(node: LockstepNode) -> None:
    """Without the feature gate a pod with pod-level resources has no memory of its own.
    None of its containers is reported with memory, and all memory is left to others."""
    far = far_node(node)
    boot_with_free(node, SINGLE, {far: MIB_OF_A_NODE - 1})
    run(node, _SHARES)
    node.ask()
    for name in ("main", "side", WHOLE_POD):
        _promise_memory(node, name, far, 0)
    run_in(node, far, with_memory_of("b", 120))


@_of_memory(since="1.37", capabilities=(*MEMORY, *LISTS))
def container_scope_has_no_shared_memory(node: LockstepNode) -> None:
    """From 1.37 on an exclusive container has its memory under scope container, and its pod none.
    The container that shares is reported without memory."""
    far = far_node(node)
    gates = {"PodLevelResourceManagers": True}
    boot_with_free(node, SINGLE, {far: MIB_OF_A_NODE - 1}, gates=gates)
    run(node, _SHARES)
    node.ask()
    for name, mebibytes in {"main": 24, "side": 0, WHOLE_POD: 0}.items():
        _promise_memory(node, name, far, mebibytes)


# -- containers that request no memory -------------------------------------------------------------


def _refuses_shared(node: LockstepNode) -> None:
    _boot(node, "none")
    text = "failed to get the default NUMA affinity"
    promise_refused(node, node.apply(_SHARES), "UnexpectedAdmissionError", text)


def _runs_shared(node: LockstepNode) -> None:
    _boot(node, "none")
    run(node, _SHARES)
    node.promise_equal("It has its CPUs", "CPUs of a/main", 2, len(node.taken("a", "main")))


_row(
    "pod-level/memory-is-wanted-for-none",
    "In 1.36 policy none of the Topology Manager refuses a pod whose containers share memory",
    """A known defect: the memory manager looks for NUMA nodes for the container that requests no
    memory, and finds none, because none is needed.""",
    _refuses_shared,
    until="1.36", capabilities=(*MEMORY, *REJECTIONS),
)  # fmt: skip
_row(
    "pod-level/no-memory-is-wanted-for-none",
    "From 1.37 on policy none of the Topology Manager admits a pod whose containers share memory",
    "The memory manager passes over the container that requests none.",
    _runs_shared,
    since="1.37",
)


# -- restarts --------------------------------------------------------------------------------------

_restarts: Final = partial(
    _of_memory, source=TAKEN_AGAIN, until="1.37", capabilities=(*MEMORY, *RESTARTED, *REJECTIONS)
)
# They have no exclusive CPUs, so that nothing but memory is taken.
_SMALL: Final = _whole(24, _own("main", 24, "500m"), cpus="500m")
#: A NUMA node does not have as much twice.
_LARGE: Final = _whole(80, _own("main", 40, "500m"), _own("other", 40, "500m"), cpus="1500m")


def _run_large(node: LockstepNode) -> int:
    """The NUMA node where it runs."""
    far = far_node(node)
    _boot(node, SINGLE, roomy=[far])
    run(node, _LARGE)
    return far


@_restarts()
def restart_refuses_memory_of_a_pod(node: LockstepNode) -> None:
    """Up to 1.37 a restart refuses a running pod whose memory its NUMA node does not have twice.
    A known defect: the kubelet takes the memory of the pod as a whole once more."""
    _run_large(node)
    node.restart()
    promise_refused(node, status_of(node, "a"), "UnexpectedAdmissionError", "[memorymanager]")


@_restarts(capabilities=(*MEMORY, *RESTARTED, *START_ERROR))
def restart_counts_memory_of_a_pod_twice(node: LockstepNode) -> None:
    """Up to 1.37 the second restart beside a pod that has memory as a whole is refused.
    A known defect: the first restart takes the memory of the pod once more and keeps that, so the
    state file of the memory manager contradicts itself. Until it is deleted the kubelet does not
    start."""
    _boot(node, SINGLE)
    run(node, _SMALL)
    node.restart()
    promise_running(node, "a")
    node.restart()
    node.promise_refusal("the expected machine state is different from the real one")


@_of_memory(source=KEPT, since="1.38", capabilities=(*MEMORY, *RESTARTED, *LISTS))
def restarts_keep_memory_of_a_pod(node: LockstepNode) -> None:
    """From 1.38 on a pod keeps the memory that it has as a whole over restarts of the kubelet.
    On the NUMA node where it lies, which does not have as much a second time."""
    far = _run_large(node)
    for _ in range(2):
        node.restart()
        promise_running(node, "a")
        node.ask()
        _promise_memory(node, "main", far, 40)
        _promise_memory(node, WHOLE_POD, far, 80)
