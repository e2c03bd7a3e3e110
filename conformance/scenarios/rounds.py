"""What reconcile rounds send to containers and free, and what they leave as it is."""

from __future__ import annotations

from dataclasses import replace

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, guaranteed
from conformance.scenario import Needs, promised
from conformance.scenarios.abilities import CALLS, ENDS
from conformance.scenarios.containers import REFUSED_UPDATE
from conformance.scenarios.sources import RESTARTS, TASK_PAGE
from reference import CPUSet
from reference.steps import CREATE, FOR_EVER, UPDATE, Container, FailUpdates, Pod, RestartPolicy


@promised(RESTARTS, area="containers", needs=Needs(free=4), capabilities=ENDS)
def rounds_free_no_cpus_of_a_pod_that_runs(node: LockstepNode) -> None:
    """Reconcile rounds free no CPUs of a container that has ended while its pod runs on.
    A kubelet that frees them at once may give them to another pod, and start the container on
    the shared pool. This is looked at after two rounds: they come later than the end."""
    node.boot_with(replace(guaranteed("a", 2, 1), restart_policy=RestartPolicy.NEVER))
    held, pool = node.taken("a", "c1"), node.view.shared_pool
    node.kill_container("a", "c1", exit_code=0)
    node.await_reconcile()
    node.await_reconcile()
    node.promise_taken("The entry stays", "a", held, "c1")
    node.promise_pool("The pool is the same", pool)


@promised(REFUSED_UPDATE, area="containers", since="1.22", needs=Needs(free=3), capabilities=CALLS)
def pod_that_comes_back_follows_the_pool(node: LockstepNode) -> None:
    """A shared container of a pod that is applied again follows the pool as at its first time.
    A static pod comes back with the uid of before. It starts on a smaller pool, and the runtime
    refuses the first updates; then the pool is what it was in the pod's first time. What was sent
    to its container then counts no more."""
    node.boot_with(best_effort("shared"))
    node.await_reconcile()
    node.delete("shared")
    node.apply(guaranteed("a", 2))
    node.to_runtime(FailUpdates(2))
    node.apply(best_effort("shared"))
    # A kubelet that still knows the first pod of that uid does not admit the second one
    # (``HandlePodAdditions``), so up to 1.31 pod a would go on to be the one admitted last.
    node.pass_admission()
    node.delete("a")
    node.await_reconcile()
    node.await_reconcile()
    node.promise_cpuset("It ends on the pool", "shared", node.view.shared_pool)


@promised(REFUSED_UPDATE, area="containers", since="1.22", needs=Needs(free=3), capabilities=CALLS)
def refused_update_leaves_the_others_alone(node: LockstepNode) -> None:
    """A container follows the shared pool though the runtime refuses each update of another one.
    The other one is the first container of the same pod, so each reconcile round comes to it
    first."""
    node.boot_with(guaranteed("a", 2), Pod("shared", (Container("c1"), Container("c2"))))
    node.to_runtime(FailUpdates(FOR_EVER, "c1"))
    node.delete("a")
    node.await_reconcile()
    node.promise_on_pool("It has the CPUs that are free again", "shared", "c2")


@promised(TASK_PAGE, area="containers", since="1.26", needs=Needs(free=3), capabilities=CALLS)
def slow_creation_ends_on_the_pool(node: LockstepNode) -> None:
    """A container whose creation takes long leaves the CPUs that became exclusive meanwhile.
    The kubelet states the cpuset when it asks the runtime to create the container. A pod that is
    admitted before the container starts gets CPUs of that cpuset. So the next reconcile round has
    to send the smaller pool, though the container has only just started."""
    node.boot()
    node.apply(best_effort("shared"), guaranteed("a", 2), slow=CREATE)
    node.await_reconcile()
    shared = node.cpuset("shared") & node.taken("a")
    node.promise_cpus("It has left them", "CPUs of shared/c and a/c", CPUSet(), shared)


@promised(TASK_PAGE, area="containers", since="1.26", needs=Needs(free=4), capabilities=CALLS)
def slow_update_is_the_last_of_its_pool(node: LockstepNode) -> None:
    """A container that a slow reconcile round reaches late gets the pool of that moment.
    The runtime takes its time to update the first container, and a pod is admitted meanwhile. Of
    all that is then sent, only this one update may have CPUs of that pod in it. Otherwise the
    other container would run on them until the next round, ten seconds later by default."""
    names = ("c1", "c2")
    node.boot_with(Pod("shared", (Container("c1"), Container("c2"))))
    node.await_reconcile()
    before = {name: len(node.asked("shared", name).sent) for name in names}
    node.apply(guaranteed("a", 1), guaranteed("b", 2), slow=UPDATE)
    node.await_reconcile()
    sent = [cpus for name in names for cpus in node.asked("shared", name).sent[before[name] :]]
    stale = [str(cpus) for cpus in sent if cpus & node.taken("b")]
    what = "updates of pod shared that have CPUs of b/c"
    node.promise_that(len(stale) <= 1, "Only the slow update has them", what, "at most 1", stale)
