"""The possible outcomes of a kubelet's start, where chance decides.

A kubelet that starts admits its pods in one of several orders, and a release may forget to end the
containers of a pod that it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, combinations_with_replacement, product
from math import comb, prod
from typing import Final, TypeAlias

from reference.cpuset import CPUSet
from reference.errors import NotModelled
from reference.kubelet.kubelet import Kubelet
from reference.pods.pod import Pod
from reference.pods.qos import exclusive_cpus

#: A kubelet after its start, and the state file it leaves.
Branch: TypeAlias = tuple[Kubelet, str | None]

#: The most ending pods that the model counts in every combination.
_MOST_ENDING: Final = 5
#: The most ways in which a round may leave shared containers as the pool empties.
_MOST_LEFT: Final = 250

#: A container, by its pod's uid and its name, and the cpuset that a round gives it.
_Of: TypeAlias = tuple[str, str]
_Update: TypeAlias = tuple[_Of, CPUSet]


def branch_of(kubelet: Kubelet, state_file: str | None) -> Branch:
    """The kubelet, and the state file that it leaves; ``state_file``: the text that is there
    now."""
    text = kubelet.unsaved_state()
    return kubelet, state_file if text is None else text


def branches_of(fresh: Kubelet, pods: Sequence[Pod], state_file: str | None) -> list[Branch]:
    """The kubelets that this start may give, each different from the others. ``state_file``: the
    text that is there now. Where two differ in their counters alone, as a pod that is refused has
    taken other CPUs for a while, these are not known from then on."""
    branches: list[Branch] = []
    known = fresh.perhaps_memory is None
    every = [_outcomes(one, list(pods)) for one in _as_memory_may_be(fresh)]
    for kubelet in chain.from_iterable(every):
        branch = branch_of(kubelet, state_file)
        same = partial(_same, branch, memory=known)
        twin = next((other for other, text in branches if same((other, text))), None)
        if twin is None:
            branches.append(branch)
            continue
        if twin.memory != kubelet.memory:
            twin.perhaps_memory = kubelet.memory
        if twin.metrics() != kubelet.metrics():
            twin.counts_by_chance = True
    return branches


def _as_memory_may_be(fresh: Kubelet) -> list[Kubelet]:
    """The kubelet, and one that reads what pods that ended may still have held as the former
    kubelet admitted its last pod."""
    perhaps, fresh.perhaps_memory = fresh.perhaps_memory, None
    if perhaps is None or fresh.memory is None:
        return [fresh]
    other = fresh.copy()
    if other.memory is not None:
        other.memory.assume(perhaps)
    return [fresh, other]


def _outcomes(fresh: Kubelet, pods: list[Pod]) -> Iterator[Kubelet]:
    for order in fresh.orders(pods):
        kubelet = _admitting(fresh, order)
        twins = list(_without_class(kubelet))  # before its state counts as saved
        yield kubelet
        yield from twins
        forgotten = kubelet.may_run_on(pods, fresh.runtime)
        for count in range(1, len(forgotten) + 1):
            for some in combinations(forgotten, count):
                yield _admitting(fresh, order, running_on=some)


def _without_class(kubelet: Kubelet) -> Iterator[Kubelet]:
    """The kubelets that differ in that some pods have no QoS class, where chance decides."""
    names = kubelet.classed_by_chance
    for count in range(1, len(names) + 1):
        for some in combinations(names, count):
            twin = kubelet.copy()
            twin.pods |= {name: replace(twin.pods[name], qos="") for name in some}
            yield twin


def _admitting(fresh: Kubelet, pods: Sequence[Pod], running_on: Iterable[Pod] = ()) -> Kubelet:
    kubelet = fresh.copy()
    kubelet.take_up(pods, running_on=running_on)
    for manager in (kubelet.cpu_manager, kubelet.device_manager):
        manager.last_by_chance = len(pods) > 1
    return kubelet


def require_known_room(kubelet: Kubelet, pods: Iterable[Pod]) -> None:
    """Where the pod admitted last counts as active, one that has ended does so for about a second
    more, though its CPUs would be free for the next one (seen on 1.26.15). Raises
    :class:`NotModelled`."""
    if not any(pod.uid in kubelet.ended for pod in kubelet.cpu_manager.last_admitted):
        return
    for pod in pods:
        if any(exclusive_cpus(pod, one) for one in pod.containers):
            raise NotModelled(f"pod {pod.name}: CPUs of the pod before it may not be free yet")


def require_known_memory(kubelet: Kubelet) -> None:
    """Before a pod with memory. Raises :class:`NotModelled` where pods that still end may have held
    theirs as the last one was admitted, or not."""
    if kubelet.perhaps_memory is not None:
        raise NotModelled("memory beside that of pods that still end")


def counting_ending(
    before: Kubelet, after: Kubelet, pods: Sequence[Pod], state_file: str | None
) -> list[Branch]:
    """The outcomes besides ``after`` of the admission of these pods by ``before``, where some of
    the pods whose workers still end count as active. If only the counters differ, these are not
    known from then on. If only the memory of the pods that end differs, which no view shows, it is
    not known what memory the next pod finds. Devices that they may still have are noted. Raises
    :class:`NotModelled` for that next pod, and for too many pods that end."""
    counted = _counted(before, before.ending, pods)
    if any(_memory_of(after, pod) for pod in pods):
        require_known_memory(before)
    if _alike(counted, after):
        if counted.memory and counted.memory != after.memory:
            after.perhaps_memory = counted.memory
        after.perhaps_held |= counted.device_manager.pod_devices.held
        if counted.metrics() != after.metrics():
            after.counts_by_chance = True
        return []
    if len(before.ending) > _MOST_ENDING:
        raise NotModelled(f"which of {len(before.ending)} pods that end still count")
    branches: list[Branch] = []
    for count in range(1, len(before.ending) + 1):
        for some in combinations(sorted(before.ending), count):
            for between in (False, True):
                kubelet = _counted(before, some, pods, between=between)
                branches.append(branch_of(kubelet, state_file))
    return branches


def as_the_pool_emptied(
    pool: CPUSet, after: Kubelet, pods: Sequence[Pod], state_file: str | None
) -> list[Branch]:
    """The other outcomes of the admission of these pods, which took the last of the shared
    ``pool``, container by container. A reconcile round meanwhile updates the shared containers of
    each pod in their order, each to what is left at that moment; no later round does (seen on
    1.32.2, 1.36.4 and 1.37.0). If there are too many outcomes, only those are given in which all
    that it updates get the same."""
    if not pool or after.cpu_manager.state.default:
        return []
    pools = [*_pools_on_the_way(pool, after, pods)]
    shared = [*_shared_beside(pods, after)]
    if prod(comb(len(pools) + len(names), len(names)) for names in shared) > _MOST_LEFT:
        ways = _as_a_quick_round_leaves([*chain.from_iterable(shared)], pools)
    else:
        every = product(*(_as_a_round_leaves(names, pools) for names in shared))
        ways = ([*chain.from_iterable(some)] for some in every)
    return [_with_updates(some, after, state_file) for some in ways if some]


def _pools_on_the_way(pool: CPUSet, after: Kubelet, pods: Sequence[Pod]) -> Iterator[CPUSet]:
    """What is left after each container that takes some, until none is."""
    for pod in pods:
        entries = after.cpu_manager.state.entries.get(pod.uid, {})
        for one in pod.containers:
            left = pool - entries.get(one.name, CPUSet())
            if left and left != pool:
                yield left
            pool = left


def _shared_beside(pods: Sequence[Pod], kubelet: Kubelet) -> Iterator[list[_Of]]:
    """The running shared containers of each other pod, in the order of a round."""
    new, running = {pod.uid for pod in pods}, kubelet.runtime.running()
    for pod in kubelet.active_pods():
        if pod.uid not in new:
            names = [one.name for one in pod.containers if one.name in running.get(pod.uid, {})]
            yield [
                (pod.uid, one)
                for one in names
                if kubelet.cpu_manager.state.get(pod.uid, one) is None
            ]


def _as_a_round_leaves(names: Sequence[_Of], pools: Sequence[CPUSet]) -> list[tuple[_Update, ...]]:
    """Each way in which a round may update the first of these containers before the pool is
    empty."""
    return [
        tuple(zip(names, left, strict=False))
        for count in range(len(names) + 1)
        for left in combinations_with_replacement(pools, count)
    ]


def _as_a_quick_round_leaves(
    names: Sequence[_Of], pools: Iterable[CPUSet]
) -> Iterator[list[_Update]]:
    """The same where no pod takes more CPUs while the round goes on."""
    for pool in pools:
        for count in range(1, len(names) + 1):
            yield [(one, pool) for one in names[:count]]


def _with_updates(updates: Iterable[_Update], after: Kubelet, state_file: str | None) -> Branch:
    kubelet = after.copy()
    for (uid, name), pool in updates:
        kubelet.runtime.try_update(uid, name, pool)
    return branch_of(kubelet, state_file)


def _counted(
    before: Kubelet, ending: Iterable[str], pods: Sequence[Pod], *, between: bool = False
) -> Kubelet:
    """The kubelet after the admission of ``pods``, during which pods that are ``ending`` keep what
    they hold. ``between``: they end after the kubelet has listed the active pods for the node
    predicates, and before its managers ask for them (``HandlePodAdditions``; seen on 1.32.2)."""
    kubelet = before.copy()
    held = kubelet.device_manager.pod_devices.held
    held |= {uid: kubelet.perhaps_held[uid] for uid in ending
             if uid in kubelet.perhaps_held and uid not in held}  # fmt: skip
    kubelet.weighed = frozenset(ending)
    kubelet.counted = frozenset() if between else kubelet.weighed
    kubelet.take_up(pods)
    kubelet.counted = kubelet.weighed = frozenset()
    kubelet.settle()
    return kubelet


def _alike(one: Kubelet, other: Kubelet) -> bool:
    """Whether they admitted the same pods and gave them the same. Raises :class:`NotModelled` where
    only devices differ, which no view shows."""
    same = (
        one.pods == other.pods
        and one.runtime.running() == other.runtime.running()
        and one.cpu_manager.state.entries == other.cpu_manager.state.entries
    )
    for pod in one.active_pods() if same else ():
        if one.device_manager.pod_devices.held.get(pod.uid) != (
            other.device_manager.pod_devices.held.get(pod.uid)
        ):
            raise NotModelled(f"devices of pod {pod.name} beside pods that still end")
        if _memory_of(one, pod) != _memory_of(other, pod):
            return False
    return same


def _memory_of(kubelet: Kubelet, pod: Pod) -> object:
    """Where the memory of its containers is, which a view shows."""
    return kubelet.memory and kubelet.memory.blocks.get(pod.uid)


def assuming_otherwise(kubelet: Kubelet, pod: Pod) -> Kubelet | None:
    """A copy of the kubelet that takes this ``pod`` for the one admitted last if the given kubelet
    does not, or else another; ``None`` where that makes no difference. It is not known which pod
    was the last where a kubelet has started beside several, and that one counts as active even when
    it is deleted (seen on 1.26.15). Raises :class:`NotModelled` with a memory manager."""
    manager = kubelet.cpu_manager
    if not (manager.last_by_chance and manager.last_admitted_stays):
        return None
    if pod.uid not in manager.state.entries:
        return None
    if kubelet.memory is not None:
        raise NotModelled(f"Delete: pod {pod.name} may be the one that was admitted last")
    twin = kubelet.copy()
    others = [one for one in kubelet.active_pods() if one.uid != pod.uid]
    is_last = any(pod.uid == one.uid for one in manager.last_admitted)
    last = tuple(others[:1]) if is_last else (pod,)
    twin.cpu_manager.last_admitted = twin.device_manager.last_admitted = last
    (manager if is_last else twin.cpu_manager).last_by_chance = False
    return twin


def _same(one: Branch, other: Branch, *, memory: bool) -> bool:
    """Whether two branches are equal. ``memory``: compare also that of pods that are not active,
    which no view shows."""
    (kubelet, text), (other_kubelet, other_text) = one, other
    return (
        text == other_text
        and kubelet.pods == other_kubelet.pods
        and kubelet.runtime.running() == other_kubelet.runtime.running()
        and (kubelet.memory == other_kubelet.memory or not memory)
        and all(
            _memory_of(kubelet, pod) == _memory_of(other_kubelet, pod)
            for pod in kubelet.active_pods()
        )
    )
