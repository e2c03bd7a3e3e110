"""What a kubelet reports at its pod-resources socket."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from conformance.lockstep import LockstepNode
from conformance.pods import best_effort, exclusive, guaranteed, guaranteed_of
from conformance.scenario import Capability, Needs, Source, promised
from conformance.scenarios.abilities import ASKS, ENDS, LISTS, REJECTIONS, RESTARTED
from conformance.scenarios.sources import address, documentation, pull
from reference import CPUSet
from reference.steps import AskAllocatable, AskPodResources, Kind, KubeletConfig, RestartPolicy

_pod_resources: Final = partial(promised, area="pod-resources")

_PAGE = "concepts/extend-kubernetes/compute-storage-net/device-plugins/"
LIST = documentation("Device Plugins: the List endpoint", f"{_PAGE}#grpc-endpoint-list")
GET = documentation("Device Plugins: the Get endpoint", f"{_PAGE}#grpc-endpoint-get")
ALLOCATABLE = pull(112913, "GetAllocatableResources reports all CPUs but the reserved ones")
ACTIVE = Source(
    "Feature gate KubeletPodResourcesListUseActivePods: List reports active pods",
    address("1.36.4", "pkg/features/kube_features.go"),
)


def _promise_not_listed(node: LockstepNode, rule: str, pod: str, container: str = "c") -> None:
    seen = node.pod_resources(pod, container)
    what = f"CPUs that the kubelet reports for {pod}/{container}"
    node.promise_that(seen is None, rule, what, "(no entry)", f"an entry: {seen or '(none)'}")


def _promise_got(node: LockstepNode, rule: str, owner: str, expected: CPUSet) -> None:
    """The answer to Get, just asked, names these CPUs for container ``c``."""
    seen = node.got_pod()
    shown = "(no entry)" if seen is None else str(seen) or "(none)"
    what, said = f"CPUs that Get reports for {owner}", node.view.pod_resources_error or shown
    node.promise_that(seen == expected, rule, what, str(expected) or "(none)", said)


def _promise_error(node: LockstepNode, rule: str, text: str) -> None:
    seen = node.view.pod_resources_error
    what, said = "the kubelet's answer", seen or "no error"
    node.promise_that(text in seen, rule, what, f"… {text} …", said)


@_pod_resources(GET, since="1.34", needs=Needs(free=3), capabilities=ASKS)
def get_reports_one_pod(node: LockstepNode) -> None:
    """Get reports the exclusive CPUs of one pod, and an error for a pod that is not there.
    A pod that shares is there without a CPU."""
    node.boot_with(guaranteed("a", 2), guaranteed("b", 1), best_effort("shared"))
    for pod in ("a", "b"):
        node.ask(AskPodResources(pod))
        _promise_got(node, "It reports the exclusive CPUs", f"{pod}/c", node.taken(pod))
    node.ask(AskPodResources("shared"))
    _promise_got(node, "It reports no shared CPU", "shared/c", CPUSet())
    node.ask(AskPodResources("absent"))
    _promise_error(node, "A pod that is not there is an error", "not found")


@_pod_resources(GET, since="1.27", until="1.33", needs=Needs(free=2), capabilities=ASKS)
def get_is_off_by_default(node: LockstepNode) -> None:
    """Up to 1.33 the kubelet refuses Get unless a feature gate is on.
    Feature gate KubeletPodResourcesGet, alpha. List answers all the same."""
    node.boot_with(guaranteed("a", 1))
    node.ask(AskPodResources("a"))
    _promise_error(node, "Get is refused", "Get method disabled")
    node.ask()
    node.promise_pod_resources("List answers", "a", node.taken("a"))


@_pod_resources(ALLOCATABLE, since="1.26", needs=Needs(free=3), capabilities=(*ASKS, *RESTARTED))
def allocatable_is_all_but_reserved(node: LockstepNode) -> None:
    """GetAllocatableResources reports all CPUs but the reserved ones, whatever is taken.
    Also by a kubelet that starts while CPUs are taken. Up to 1.25 (before 1.23.17 and 1.24.14)
    it reported those that were free when it started."""
    node.boot()
    expected = node.cpus - node.reserved
    what = "CPUs that GetAllocatableResources reports"
    node.ask(AskAllocatable())
    node.promise_cpus("All are free", what, expected, node.view.allocatable or CPUSet())
    node.apply(guaranteed("a", 2))
    node.restart()
    node.ask(AskAllocatable())
    node.promise_cpus("Two are taken", what, expected, node.view.allocatable or CPUSet())


@_pod_resources(LIST, since="1.26", capabilities=(*ASKS, Capability.CONFIGURE))
def policy_none_reports_no_cpu(node: LockstepNode) -> None:
    """Under policy none the pod-resources socket reports no CPU.
    Neither of a Guaranteed pod, which is listed, nor as allocatable."""
    reserved = node.default_config().reserved_system_cpus
    node.boot(KubeletConfig(policy="none", reserved_system_cpus=reserved))
    node.apply(guaranteed("a", 1))
    node.ask()
    node.promise_pod_resources("It has no CPU of its own", "a", CPUSet())
    node.ask(AskAllocatable())
    seen = node.view.allocatable
    node.promise_equal("No CPU is managed", "allocatable CPUs", "(none)", str(seen) or "(none)")


@_pod_resources(LIST, since="1.23", needs=Needs(free=2), capabilities=LISTS)
def init_containers_are_left_out(node: LockstepNode) -> None:
    """The pod-resources socket reports app containers, and no init container that has ended.
    Though the init container still has an entry in the state file."""
    node.boot_with(guaranteed_of("a", [exclusive("init", 1, kind=Kind.INIT), exclusive("c", 1)]))
    node.ask()
    node.promise_pod_resources("The app container is reported", "a", node.taken("a"))
    _promise_not_listed(node, "The init container is not", "a", "init")


@_pod_resources(LIST, since="1.30", needs=Needs(free=3), capabilities=LISTS)
def sidecars_are_reported(node: LockstepNode) -> None:
    """The pod-resources socket reports the exclusive CPUs of a sidecar.
    Beside those of its pod's app container."""
    sidecar = exclusive("sidecar", 1, kind=Kind.SIDECAR)
    node.boot_with(guaranteed_of("a", [sidecar, exclusive("c", 2)]))
    node.ask()
    held = node.taken("a", "sidecar")
    node.promise_pod_resources("The sidecar is reported", "a", held, "sidecar")
    node.promise_pod_resources("The app container is reported", "a", node.taken("a"))


@_pod_resources(GET, since="1.34", needs=Needs(free=3), capabilities=ASKS)
def get_names_sidecars(node: LockstepNode) -> None:
    """Get reports the exclusive CPUs of a pod's sidecar as List does.
    Beside those of its app container, and without the init container that has ended."""
    kinds = {"sidecar": Kind.SIDECAR, "init": Kind.INIT, "c": Kind.APP}
    node.boot_with(guaranteed_of("a", [exclusive(name, 1, kind=kinds[name]) for name in kinds]))
    node.ask(AskPodResources("a"))
    got = {name: str(cpus) for name, cpus in (node.view.got_pod or {}).items()}
    expected = {name: str(node.taken("a", name)) for name in ("sidecar", "c")}
    node.promise_equal("It reports both that run", "CPUs of a", expected, got)


@_pod_resources(LIST, since="1.23", needs=Needs(free=2), capabilities=LISTS)
def fractions_have_no_cpu(node: LockstepNode) -> None:
    """The pod-resources socket reports no CPU for a container that requests a fraction.
    Nor does it for the fraction beside a container with CPUs of its own."""
    node.boot_with(guaranteed("mixed", 1, "500m"))
    node.ask()
    node.promise_pod_resources("Whole CPUs are reported", "mixed", node.taken("mixed", "c1"), "c1")
    node.promise_pod_resources("A fraction has none", "mixed", CPUSet(), "c2")


@_pod_resources(LIST, since="1.23", needs=Needs(free=3), capabilities=(*LISTS, *RESTARTED))
def restart_reports_the_same(node: LockstepNode) -> None:
    """A kubelet that was killed reports the same exclusive CPUs once it runs again.
    It has them from its state file."""
    node.boot_with(guaranteed("a", 1), guaranteed("b", 2))
    held = {pod: node.taken(pod) for pod in ("a", "b")}
    node.restart()
    node.ask()
    for pod, cpus in held.items():
        node.promise_pod_resources("It reports the CPUs of before", pod, cpus)


@_pod_resources(
    ACTIVE, since="1.34", needs=Needs(free=3), capabilities=(*ENDS, *LISTS, *REJECTIONS)
)
def inactive_pods_are_left_out(node: LockstepNode) -> None:
    """The pod-resources socket reports neither a pod that was refused nor one that has ended.
    Their manifests are still there. Up to 1.33 both were reported."""
    node.boot_with(guaranteed("a", 1))
    node.apply(guaranteed("refused", len(node.cpus)))
    node.apply(replace(guaranteed("ended", 1), restart_policy=RestartPolicy.NEVER))
    node.kill_container("ended", exit_code=0)
    node.ask()
    node.promise_pod_resources("The pod that runs is reported", "a", node.taken("a"))
    _promise_not_listed(node, "The pod that was refused is not", "refused")
    _promise_not_listed(node, "The pod that has ended is not", "ended")
