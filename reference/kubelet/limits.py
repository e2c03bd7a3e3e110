"""Steps that are illegal on a node, and what the model does not know of those that are legal.

What belongs here: what :class:`reference.node.Node` asks as it takes a step. Each function raises
:class:`IllegalStep` or :class:`NotModelled`. What never does: settings that are not modelled
(``configuration``), and what chance decides at a start (``outcomes``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.state.state_mem import Crash
from reference.errors import IllegalStep, NotModelled
from reference.kubelet.in_cluster import PodsInCluster
from reference.kubelet.kubelet import Kubelet, restarts
from reference.kubelet.outcomes import Branch
from reference.kubelet.preemption import REASON
from reference.kubelet.runtime import Runtime
from reference.pods.qos import exclusive_cpus
from reference.releases import AnyRelease, has, minor_of
from reference.steps import (
    CREATE,
    UPDATE,
    ApplyTogether,
    KillContainer,
    KubeletConfig,
    Pod,
    Step,
    Tamper,
    TamperQuota,
)
from reference.view import Phase

#: The oldest release whose kubelets were seen while the runtime took its time.
_SLOW_CALLS_SEEN_SINCE: Final = 26


def require_known_start(branches: Iterable[Branch], perhaps_ended: Set[str]) -> None:
    """Refuse a start that admits a pod whose containers may have ended for good: it was refused
    while it ran, or the machine booted after the API server had heard that it runs (seen on 1.32.2
    and 1.36.4). Refuse also a start that preempts pods."""
    for kubelet, _ in branches:
        if preempted(kubelet) - kubelet.over.keys():
            raise NotModelled("Start beside a critical pod that puts others out")
        for name in perhaps_ended:
            if kubelet.pods[name].phase is Phase.RUNNING:
                raise NotModelled(
                    f"Start with pod {name}, refused while it ran, or gone with a reboot"
                )


def require_down(kubelet: Kubelet | None, step: Step) -> None:
    """Refuse a step for which the kubelet has to be down. Raises :class:`IllegalStep`."""
    if kubelet is not None:
        raise IllegalStep(f"{type(step).__name__}: the kubelet runs")


def uid_of_running(
    manifests: Mapping[str, Pod], runtime: Runtime, step: Tamper | TamperQuota | KillContainer
) -> str:
    """The uid of the pod in which the step's container runs. Raises :class:`IllegalStep`."""
    pod = manifests.get(step.pod)
    if pod is None or not runtime.runs(pod.uid, step.container):
        container = f"{step.pod}/{step.container}"
        raise IllegalStep(f"{type(step).__name__}: no container {container} runs")
    return pod.uid


def end_while_down(pod: Pod, step: KillContainer, runtime: Runtime) -> None:
    """A container ends while the kubelet is down, and the next kubelet creates it again. Raises
    :class:`NotModelled` where the pod's restart policy says otherwise, or more than that."""
    ended = next((one for one in pod.containers if one.name == step.container), None)
    if ended is None or ended.restarts_all_on or not restarts(pod, ended, step.exit_code):
        raise NotModelled(f"KillContainer: {pod.name}/{step.container} while the kubelet is down")
    runtime.end(pod.uid, ended.name, owed=True)


def require_same_pod(known: Pod | None, pod: Pod) -> None:
    """Refuse a uid that comes back with other resources than those ``known`` by it: the kubelet
    keeps those of a pod by uid (``allocated_pods_state``) and takes the former pod's (seen on
    1.36.4)."""
    if known is not None and (known.containers, known.resources) != (pod.containers, pod.resources):
        raise NotModelled(f"Apply: uid {pod.uid} was another pod's; give the pod a new one")


def require_nothing_new(fresh: Kubelet, pods: Collection[Pod], config: KubeletConfig) -> None:
    """A kubelet that overlooks what these pods request counts no request, but those of sidecars.
    Raises :class:`NotModelled` where one does not have its CPUs yet, or may be refused though it
    has."""
    refuses = fresh.cpu_manager.policy.can_refuse_holders
    of_pods = config.topology_manager_scope == "pod" and config.topology_manager_policy != "none"
    for pod in pods:
        wants = {one.name for one in pod.containers if exclusive_cpus(pod, one)}
        held = fresh.cpu_manager.state.entries.get(pod.uid, {})
        if wants and (refuses or of_pods or not wants <= held.keys()):
            raise NotModelled(f"Start: pod {pod.name} needs CPUs, and its request is overlooked")
    fresh.counts_by_chance = fresh.counts_by_chance or bool(pods)


def require_known_writes(kubelet: Kubelet, gone: str = "") -> None:
    """Before a step that removes entries, also those of the pod with the uid ``gone``, of a kubelet
    that will be killed at a write. Raises :class:`NotModelled` where it removes several, in the
    order of a map (``removeStaleState``)."""
    stays = {pod.uid for pod in kubelet.active_pods()} - {gone}
    entries = kubelet.cpu_manager.state.entries.items()
    if sum(len(named) for uid, named in entries if uid not in stays) > 1:
        raise NotModelled("which of several entries goes at which write")


def require_together(
    step: ApplyTogether, kubelet: Kubelet, config: KubeletConfig, release: AnyRelease
) -> None:
    """Raises :class:`NotModelled` where it is not known in which order the kubelet admits the pods,
    or what a slow runtime changes, and :class:`IllegalStep` for fewer than two pods."""
    if len(step.pods) < 2:
        raise IllegalStep(f"ApplyTogether: {len(step.pods)} pods")
    if config.api_server or not has(release, Behaviour.KEYED_BY_POD):
        raise NotModelled(f"ApplyTogether by release {release}, or from an API server")
    if not step.slow:
        return
    if step.slow not in (CREATE, UPDATE):
        raise IllegalStep(f"ApplyTogether: a slow {step.slow}")
    unknown = kubelet.ending or kubelet.runtime.refusals
    if minor_of(release) < _SLOW_CALLS_SEEN_SINCE or unknown:
        raise NotModelled(f"ApplyTogether: a slow {step.slow} by release {release}")


def require_pool(kubelet: Kubelet) -> None:
    """After pods were applied beside a slow call. Raises :class:`NotModelled` where the shared pool
    is empty: it is not known what the call then leaves behind."""
    if not kubelet.cpu_manager.state.default:
        raise NotModelled("a slow runtime, and an empty shared pool")


def require_known_preemption(
    before: Kubelet, after: Kubelet, cluster: PodsInCluster, crash: Crash | None
) -> None:
    """After pods were applied. Raises :class:`NotModelled` where pods were preempted beside a
    resize that waits, ephemeral containers, updates that the runtime refuses, or a kill to come."""
    disturbed = cluster.wanted or cluster.has_ephemeral or before.runtime.refusals or crash
    if disturbed and preempted(after) != preempted(before):
        raise NotModelled(f"pods {', '.join(sorted(preempted(after)))} are put out")


def preempted(kubelet: Kubelet) -> set[str]:
    """The names of the pods that it preempted for critical ones."""
    return {name for name, view in kubelet.pods.items() if view.reason == REASON}


def require_known_outcome(kubelet: Kubelet, pods: Iterable[Pod], gone: Set[str]) -> None:
    """Refuse pods that were just applied, if one is refused under a uid of those that are just
    ``gone``. Raises :class:`NotModelled`."""
    for pod in pods:
        if pod.uid in gone and kubelet.pods[pod.name].phase is Phase.REJECTED:
            # The kubelet starts it all the same, without CPUs (seen on 1.36.4).
            raise NotModelled(
                f"Apply: pod {pod.name} is refused under the uid of a pod just deleted; "
                "give the pod a new one"
            )
