"""Pod-level resources in the static policy: CPUs of a whole pod.

What belongs here: how many CPUs a pod asks for as a whole, and how its containers share them. What
never does: what a manifest says of them (``reference.pods``), or choosing CPUs on the machine
(``policy_static``). Source: ``policy_static.go`` (``AllocatePod``), 1.36 to 1.38; KEP-5526.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from reference.behaviours import Behaviour
from reference.cpumanager.state.state_mem import State
from reference.cpuset import CPUSet
from reference.errors import AllocationError
from reference.pods.pod import Kind, Pod
from reference.pods.qos import whole_cpus
from reference.releases import AnyRelease, has

_NOTHING: Final[Mapping[str, CPUSet]] = {}


def pod_total(pod: Pod) -> int:
    """How many CPUs a Guaranteed pod with pod-level resources asks for; 0 if that is no whole
    number (``podGuaranteedCPUs``)."""
    return whole_cpus(pod.resources.cpu_request) if pod.resources else 0


def partition(
    pod: Pod,
    cpus: CPUSet,
    counts: Mapping[str, int],
    take: Callable[[CPUSet, int], CPUSet],
    restored: Mapping[str, CPUSet] = _NOTHING,
) -> dict[str, CPUSet]:
    """What each container of the pod gets out of the pod's ``cpus``, by name
    (``partitionPodCPUs``).

    ``take`` chooses a number of CPUs out of some. Init containers come one at a time and may have
    all that sidecars have not taken so far. Then app containers take theirs in turn. Containers
    without CPUs of their own share what is left. ``restored``: what containers have already, which
    stays theirs. Raises what ``take`` raises.
    """
    given: dict[str, CPUSet] = {}
    left = cpus
    for container in pod.containers:
        name, count = container.name, counts.get(container.name, 0)
        if container.kind is not Kind.INIT and not count:
            continue
        own = restored.get(name)
        if own is None:
            own = take(left, count) if count else left
        given[name] = own
        if container.kind is not Kind.INIT:
            left -= own
    return {one.name: given.get(one.name, left) for one in pod.containers}


def is_stale(state: State, pod: Pod, held: CPUSet) -> bool:
    """Whether the CPUs that a pod ``held`` as a whole are left over from a release that was
    interrupted: some are shared already, or the containers with an entry are not the first of the
    pod (``podAllocationStaleness``, 1.38)."""
    entries = state.entries.get(pod.uid, {})
    first = {one.name for one in pod.containers[: len(entries)]}
    return not held.isdisjoint(state.default) or first != entries.keys()


def held_whole(state: State, uid: str, release: AnyRelease) -> CPUSet:
    """The CPUs that a pod has as a whole, where they count when it is admitted again."""
    kept = has(release, Behaviour.POD_POOL_KEPT)
    return state.pod_entries.get(uid, CPUSet()) if kept else CPUSet()


def restore_pod(
    state: State,
    pod: Pod,
    held: CPUSet,
    counts: Mapping[str, int],
    take: Callable[[CPUSet, int], CPUSet],
    release: AnyRelease,
) -> None:
    """``restorePodAllocation``, 1.38: the containers without an entry get a part of what the pod
    holds. Raises what ``take`` raises; then the pod holds nothing."""
    restored = dict(state.entries.get(pod.uid, {}))
    with rolling_back(state, pod.uid, held, release):
        given = partition(pod, held, counts, take, restored)
    if given.keys() != restored.keys():
        for name, cpus in given.items():
            state.set(pod.uid, name, cpus)


@contextmanager
def rolling_back(state: State, uid: str, held: CPUSet, release: AnyRelease) -> Iterator[None]:
    """From 1.38 on a pod that cannot be given all that it needs holds nothing afterwards."""
    try:
        yield
    except AllocationError:
        if has(release, Behaviour.POD_POOL_KEPT):
            _release_pod(state, uid, held)
        raise


def release_stale(state: State, uid: str, held: CPUSet) -> None:
    """Let a pod go of CPUs that are stale (:func:`is_stale`)."""
    if held.isdisjoint(state.default):
        _release_pod(state, uid, held)
    else:
        state.delete_pod(uid)


def _release_pod(state: State, uid: str, held: CPUSet) -> None:
    """``releasePodAllocation``."""
    for name in list(state.entries.get(uid, {})):
        state.delete(uid, name)
    state.set_default(state.default | held)
    state.delete_pod(uid)
