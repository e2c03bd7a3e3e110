"""Kubelets that are killed at a write of their state file, and every version of that file.

A pod that gets CPUs costs two writes: the shared pool without them, then the entry. A pod that goes
costs two as well: without its entry, then the pool with its CPUs. Between the two the file names
neither for these CPUs.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.promises import AS_BOOKED
from conformance.scenario import Capability, Needs, promised
from conformance.scenarios.abilities import CRASHES, EDITS
from conformance.scenarios.outcomes import promise_running
from conformance.scenarios.sources import INIT_CONTAINERS, code, issue, pull
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.cpumanager.state.state_checkpoint import Checkpoint
from reference.errors import CheckpointError
from reference.steps import FOR_EVER, FailWrites, KillAtRename, Kind

_crash: Final = partial(promised, area="crash")

TORN: Final = issue(
    136604, "a kubelet that is killed between two writes of its state file does not start again"
)
ATOMIC: Final = pull(59214, "the state file is a checkpoint, which is renamed into place")
_LOGGED: Final = code(
    "1.36.4",
    "pkg/kubelet/cm/cpumanager/state/state_checkpoint.go",
    "a state that cannot be saved is logged, and the kubelet goes on",
)
SHARED: Final = issue(104837, "the state file had CPUs both in the shared pool and in an entry")

_atomic: Final = partial(_crash, source=ATOMIC, needs=Needs(free=4), capabilities=CRASHES)
_torn: Final = partial(
    _crash, source=TORN, until="1.37", needs=Needs(free=3), capabilities=(*CRASHES, *EDITS)
)
_MISMATCH: Final = "doesn't match with CPUs in state"


def _promise_killed(node: LockstepNode) -> None:
    """The kubelet was killed there, and the file that it left is whole."""
    seen = "runs" if node.view.running else "down"
    node.promise_equal("The kubelet is killed at that write", "kubelet", "down", seen)
    if node.view.state_file is None:
        return
    fault = ""
    try:
        Checkpoint.loads(
            node.view.state_file, release=node.release, feature_gates=node.config.feature_gates
        )
    except CheckpointError as error:
        fault = str(error)
    node.promise_equal("The state file is whole", "fault of the state file", "", fault)


def _promise_all_held(node: LockstepNode, *pods: str) -> None:
    """Every CPU is in the pool or belongs to one of these pods, which run."""
    node.promise_running("The kubelet starts again")
    held = node.view.shared_pool
    for pod in pods:
        promise_running(node, pod)
        held |= node.taken(pod)
    node.promise_cpus("No CPU is lost", "shared pool and exclusive CPUs", node.cpus, held)


def _neighbour(node: LockstepNode) -> CPUSet:
    """A node with two pods, one of which has a CPU of its own, this one."""
    node.boot_with(best_effort("shared"), guaranteed("other", 1))
    return node.taken("other")


def _delete(node: LockstepNode, number: int, *, after: bool = False, pod: str = "a") -> None:
    """Delete a pod; the kubelet is killed at a write of that."""
    node.kill(at=KillAtRename(number, after))
    node.delete(pod)
    if node.view.running:
        _pass_admission(node)
    _promise_killed(node)


def _pass_admission(node: LockstepNode) -> None:
    """As :meth:`LockstepNode.pass_admission`, as often as wanted."""
    if node.release_has(Behaviour.LAST_ADMITTED_STAYS):
        node.apply(best_effort(f"passing-{len(node.steps)}"))


@_atomic()
def before_a_pod_takes_cpus(node: LockstepNode) -> None:
    """A kubelet killed before it writes that CPUs are taken pins the pod when it starts again.
    The file is as before, so the pod is admitted as if it were new."""
    held = _neighbour(node)
    before = node.view.state_file
    node.kill(at=KillAtRename(1))
    node.apply(guaranteed("a", 2))
    _promise_killed(node)
    node.promise_equal("The file is as before", "state file", before, node.view.state_file)
    node.start()
    _promise_all_held(node, "a", "other")
    node.promise_equal("The pod has its CPUs", "size of a/c", 2, len(node.taken("a")))
    node.promise_cpus("The other pod keeps its CPU", "other/c", held, node.taken("other"))


@_atomic()
def after_a_pod_is_entered(node: LockstepNode) -> None:
    """A kubelet killed once it has written a pod's entry gives the pod these CPUs when it starts.
    Though no container of the pod was ever started."""
    held = _neighbour(node)
    node.kill(at=KillAtRename(2, after=True))
    node.apply(guaranteed("a", 2))
    _promise_killed(node)
    entered = node.taken("a")
    node.promise_equal("The entry is in the file", "size of a/c", 2, len(entered))
    node.start()
    _promise_all_held(node, "a", "other")
    node.promise_cpus("The pod has the CPUs of its entry", "a/c", entered, node.taken("a"))
    node.promise_cpus("The other pod keeps its CPU", "other/c", held, node.taken("other"))


@_torn()
def half_taken_cpus_stop_the_kubelet(node: LockstepNode) -> None:
    """Up to 1.37 a kubelet killed between taking a pod's CPUs and its entry does not start again.
    A defect: the file is whole and names all CPUs but the pod's. Once the file is removed the
    kubelet starts and pins the pod."""
    node.boot()
    for pod, number, after in (("a", 1, True), ("b", 2, False)):
        node.kill(at=KillAtRename(number, after))
        node.apply(guaranteed(pod, 2))
        _promise_killed(node)
        lost = node.cpus - node.view.shared_pool
        node.promise_equal("The pool lacks the pod's CPUs", "CPUs in no place", 2, len(lost))
        node.start()
        node.promise_refusal(_MISMATCH)
        node.remove_state()
        node.start()
        _promise_all_held(node, pod)
        node.promise_equal("The pod has its CPUs", f"size of {pod}/c", 2, len(node.taken(pod)))
        if pod == "a":  # later, chance says which pod was admitted last
            node.delete(pod)
            _pass_admission(node)


@_atomic()
def before_cpus_return(node: LockstepNode) -> None:
    """A kubelet killed before it writes that a pod's CPUs return gives them back when it starts.
    The file still has the entry of the pod, which is stale."""
    held = _neighbour(node)
    node.apply(guaranteed("a", 2))
    _delete(node, 1)
    node.promise_equal("The entry is still there", "size of a/c", 2, len(node.taken("a")))
    node.start()
    _promise_all_held(node, "other")
    node.promise_cpus("The other pod keeps its CPU", "other/c", held, node.taken("other"))


@_atomic()
def after_cpus_return(node: LockstepNode) -> None:
    """A kubelet killed once it has written that a pod's CPUs return starts with all of them.
    They serve the next pod."""
    held = _neighbour(node)
    node.apply(guaranteed("a", 2))
    _delete(node, 2, after=True)
    node.start()
    _promise_all_held(node, "other")
    node.promise_cpus("The other pod keeps its CPU", "other/c", held, node.taken("other"))
    node.apply(guaranteed("b", len(node.free)))
    _promise_all_held(node, "b", "other")


@_torn()
def half_returned_cpus_stop_the_kubelet(node: LockstepNode) -> None:
    """Up to 1.37 a kubelet killed between dropping a pod's entry and its CPUs does not start again.
    A defect: the file is whole and names all CPUs but the pod's. Once it is removed the kubelet
    starts with all of them."""
    node.boot()
    for pod, number, after in (("a", 1, True), ("b", 2, False)):
        node.apply(guaranteed(pod, 2))
        _delete(node, number, after=after, pod=pod)
        lost = node.cpus - node.view.shared_pool
        node.promise_equal("The pod's CPUs are in no place", "CPUs in no place", 2, len(lost))
        node.start()
        node.promise_refusal(_MISMATCH)
        node.remove_state()
        node.start()
        _promise_all_held(node)


@_crash(ATOMIC, needs=Needs(free=2), capabilities=(*CRASHES, Capability.EDIT_STATE))
def during_the_first_start(node: LockstepNode) -> None:
    """A kubelet killed at any write of its first state file starts again with all CPUs.
    It writes an empty state, and then the shared pool."""
    node.boot()
    for number, after in ((1, False), (1, True), (2, False), (2, True)):
        node.kill()
        node.remove_state()
        node.kill(at=KillAtRename(number, after))
        node.start()
        _promise_killed(node)
        node.start()
        _promise_all_held(node)
    node.apply(guaranteed("a", 1))
    _promise_all_held(node, "a")


@_crash(SHARED, since="1.24", needs=Needs(free=4), capabilities=[Capability.RENAMES])
def no_version_shares_an_exclusive_cpu(node: LockstepNode) -> None:
    """No version of the state file has a CPU both in the shared pool and in an entry.
    While a pod with an init container and two app containers comes, and while it goes. Whoever
    reads the file in between, such as a kubelet that starts, would give such a CPU away twice."""
    containers = [exclusive("init", 2, kind=Kind.INIT), exclusive("c1", 1), exclusive("c2", 2)]
    node.boot_with(guaranteed_of("a", containers))
    _promise_disjoint(node)
    node.delete("a")
    _pass_admission(node)
    _promise_disjoint(node)


def _promise_disjoint(node: LockstepNode) -> None:
    versions = node.view.versions or ()
    what = "versions of the state file"
    several, rule = len(versions) >= 2, "Each change is written"
    node.promise_that(several, rule, what, "2 or more", len(versions))
    for number, one in enumerate(versions, 1):
        shared = one.shared_pool & one.exclusive
        what = f"shared pool and entries in version {number} of {len(versions)}"
        node.promise_cpus("Pool and entries never meet", what, CPUSet(), shared)


@_crash(INIT_CONTAINERS, since="1.20", needs=Needs(free=6), capabilities=CRASHES)
def between_init_and_app_container(node: LockstepNode) -> None:
    """An app container uses its pod's init CPUs though the kubelet was killed between the two.
    The kubelet is killed once it has written the init container's entry. When it starts again
    the pod needs no more CPUs than without the crash."""
    held = _neighbour(node)
    node.kill(at=KillAtRename(2, after=True))
    node.apply(guaranteed_of("a", [exclusive("setup", 2, kind=Kind.INIT), exclusive("c", 2)]))
    _promise_killed(node)
    entered = node.taken("a", "setup")
    node.promise_equal("The entry is in the file", "size of a/setup", 2, len(entered))
    node.start()
    _promise_all_held(node, "a", "other")
    node.promise_cpus("Both containers have the same CPUs", "a/c", entered, node.taken("a"))
    node.promise_cpus("The other pod keeps its CPU", "other/c", held, node.taken("other"))


@_crash(_LOGGED, since="1.20", needs=Needs(free=5), capabilities=CRASHES)
def pods_are_pinned_while_writes_fail(node: LockstepNode) -> None:
    """A pod has CPUs of its own though the kubelet cannot write its state file.
    The file system is full. No other container gets the CPUs, and the first write that succeeds has
    the entries of all pods."""
    node.boot_with(best_effort("shared"))
    before = node.view.state_file
    node.expect_broken(AS_BOOKED)  # the file is behind
    node.take(FailWrites(FOR_EVER))
    node.run(guaranteed("a", 2))
    node.run(guaranteed("b", 1))
    node.promise_equal("The file is as before", "state file", before, node.view.state_file)
    held = [node.cpuset(pod) for pod in ("a", "b", "shared")]
    both, pool = held[0] | held[1], held[2]
    node.promise_equal("The pods have CPUs of their own", "CPUs of a and b", 3, len(both))
    node.promise_cpus("The others have the rest", "cpuset shared/c", node.cpus - both, pool)
    node.take(FailWrites(0))
    node.run(guaranteed("late", 1))
    node.promise_taken("The file has the CPUs of every pod", "a", held[0])
    node.promise_taken("The file has the CPUs of every pod", "b", held[1])
