"""What a kubelet reports at its pod-resources socket of pods that are not active, of pods with
pod-level resources, and to a client that asks too often."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import exclusive, guaranteed
from conformance.scenario import Capability, Needs, Source, promised
from conformance.scenarios.abilities import ASKS, ENDS, LISTS, REJECTIONS
from conformance.scenarios.pod_level_parts import ROOM, managed, pod_of, shared
from conformance.scenarios.sources import address, pull, tests
from reference import CPUSet
from reference.kubelet.pod_resources import BURST, OVER_THE_LIMIT, WHOLE_POD
from reference.steps import AskPodResources, FloodPodResources, KubeletConfig, Pod, RestartPolicy

_pod_resources: Final = partial(promised, area="pod-resources")

EVERY_POD: Final = tests(
    "podresources_test.go#L1681", "List with feature gate KubeletPodResourcesListUseActivePods off"
)
RATE_LIMIT: Final = pull(116459, "the pod-resources socket has a limit on calls a second")
POD_LEVEL: Final = tests(
    "podresources_test.go#L2547", "the pod resources of pods with pod-level resources"
)
OUTLIVES: Final = Source(
    "Upstream's own test: a pod's shared pool stays while one of its containers runs",
    address("1.37.0", "test/e2e_node/cpu_manager_test.go#L2717"),
)

_CALLS: Final = 200


def _of_every_pod(node: LockstepNode) -> KubeletConfig:
    config = node.default_config()
    gates = {**config.feature_gates, "KubeletPodResourcesListUseActivePods": False}
    return replace(config, feature_gates=gates)


def _short(name: str, cpus: int | str) -> Pod:
    """A Guaranteed pod that is not started again when it has ended."""
    return replace(guaranteed(name, cpus), restart_policy=RestartPolicy.NEVER)


@_pod_resources(
    EVERY_POD, since="1.34", needs=Needs(free=3),
    capabilities=(*ENDS, *LISTS, Capability.CONFIGURE, *REJECTIONS),
)  # fmt: skip
def every_pod_is_listed_on_request(node: LockstepNode) -> None:
    """With KubeletPodResourcesListUseActivePods off List names refused and ended pods too.
    As up to 1.33. Only the pod that runs has CPUs there."""
    node.boot_with(guaranteed("a", 1), guaranteed("fraction", "500m"), config=_of_every_pod(node))
    node.apply(guaranteed("refused", len(node.cpus)))
    node.apply(_short("ended", 1))
    node.kill_container("ended", exit_code=0)
    node.ask()
    node.promise_pod_resources("The pod that runs has its CPUs", "a", node.taken("a"))
    for pod in ("fraction", "refused", "ended"):
        node.promise_pod_resources("It is listed without a CPU", pod, CPUSet())


@_pod_resources(
    EVERY_POD, since="1.34", needs=Needs(free=4), capabilities=(*ENDS, *LISTS, Capability.CONFIGURE)
)
def ended_pods_are_listed_on_request(node: LockstepNode) -> None:
    """With KubeletPodResourcesListUseActivePods off List names pods that have ended, without CPUs.
    One pod, then three more; one of them had a fraction of a CPU. All have ended."""
    node.boot(_of_every_pod(node))
    ended: list[str] = []
    for pods in ([_short("one", 1)], [_short("two", 1), _short("b", 1), _short("c", "200m")]):
        for pod in pods:
            node.apply(pod)
        for pod in pods:
            node.kill_container(pod.name, exit_code=0)
        ended += [pod.name for pod in pods]
        node.ask()
        for name in ended:
            node.promise_pod_resources("It is listed without a CPU", name, CPUSet())


@_pod_resources(RATE_LIMIT, since="1.27", capabilities=ASKS)
def too_many_calls_are_refused(node: LockstepNode) -> None:
    """The pod-resources socket refuses most of two hundred calls at once.
    Ten at once and a hundred a second are answered. It answers again when the client waits."""
    node.boot()
    answers = node.ask(FloodPodResources(_CALLS)).flood_answers or {}
    answered, refused = answers.get("", 0), answers.get(OVER_THE_LIMIT, 0)
    rule, what = "The first calls are answered", "calls that are answered"
    node.promise_that(answered >= BURST, rule, what, f"{BURST} or more", answered)
    rule, what = "A limit on calls is kept", f"calls refused: {OVER_THE_LIMIT}"
    node.promise_that(refused > 0, rule, what, "some", "none")
    node.promise_equal("Nothing else is answered", "answers", _CALLS, answered + refused)


@_pod_resources(POD_LEVEL, since="1.36", needs=ROOM, capabilities=ASKS)
def container_scope_reports_own_cpus(node: LockstepNode) -> None:
    """Under scope container a pod with pod-level resources is reported by its containers' CPUs.
    The pod as a whole has none, and a container that shares has none. Get and List agree."""
    node.boot(managed(node, scope="container"))
    node.run(pod_of("a", 2, exclusive("main", 1), shared("side")))
    node.ask(AskPodResources("a"))
    got = {name: str(cpus) for name, cpus in (node.view.got_pod or {}).items()}
    expected = {"main": str(node.taken("a", "main")), "side": ""}
    node.promise_equal("Get reports the exclusive container's", "CPUs of a", expected, got)
    node.ask()
    node.promise_pod_resources("List reports the same", "a", node.taken("a", "main"), "main")
    node.promise_pod_resources("List reports the same", "a", CPUSet(), "side")
    whole = node.pod_resources("a", WHOLE_POD)
    node.promise_equal("The pod as a whole has none", "CPUs of the whole pod", None, whole)


@promised(OUTLIVES, area="pod-level", since="1.36", needs=ROOM, capabilities=ENDS)
def pool_outlives_one_container(node: LockstepNode) -> None:
    """A pod keeps its shared pool while one of its containers runs.
    Another pod is given none of these CPUs. They return with the last container."""
    whole = node.boot(managed(node)).shared_pool
    pod = pod_of("a", 2, shared("short"), shared("long"))
    node.apply(replace(pod, restart_policy=RestartPolicy.NEVER))
    held = node.taken("a", "long")
    node.kill_container("a", "short", exit_code=0)
    node.await_reconcile()
    node.apply(pod_of("b", 1, exclusive("c", 1)))
    node.promise_equal("The pool has its size", "CPUs of a/long", 2, len(node.cpuset("a", "long")))
    node.promise_cpus("The container stays on the pool", "a/long", held, node.cpuset("a", "long"))
    node.promise_cpus("No other pod has them", "a and b", CPUSet(), held & node.taken("b"))
    node.delete("b")
    node.kill_container("a", "long", exit_code=0)
    node.promise_pool("They return", whole)
