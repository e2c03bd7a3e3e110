"""A case that shows a difference is made as small as possible.

What belongs here: what may be left out of a case. What never does: how it is judged. A case counts
as long as ``differs`` says so, even with another difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import msgspec

from differential.exactness.cases import Action, Arrive, Ask, Case, Resize, Restart
from reference import MachineInfo
from reference.steps import Pod

_Item = TypeVar("_Item")


def shrink(case: Case, differs: Callable[[Case], bool], *, tries: int = 3000) -> Case:
    """The smallest case found; each step leaves something out and still differs."""
    left = tries
    while True:
        for smaller in _smaller(case):
            left -= 1
            if left < 0:
                return case
            if differs(smaller):
                case = smaller
                break
        else:
            return case


def _without(items: tuple[_Item, ...], at: int, *instead: _Item) -> tuple[_Item, ...]:
    """The items without the one at ``at``, with others in its place."""
    return (*items[:at], *instead, *items[at + 1 :])


def _smaller(case: Case) -> Iterator[Case]:
    actions = case.actions
    size = len(actions)
    for length in (size // 2, size // 4, 2, 1):
        for start in range(0, size, max(length, 1)):
            if length:
                yield replace(case, actions=(*actions[:start], *actions[start + length :]))
    for index, action in enumerate(actions):
        for other in _smaller_actions(action):
            yield replace(case, actions=_without(actions, index, other))
    yield from _plainer(case)
    for machine in _smaller_machines(case.machine):
        if machine.num_cores:
            yield replace(case, machine=machine)


def _smaller_actions(action: Action) -> Iterator[Action]:
    match action:
        case Arrive(pod=pod) | Ask(pod=pod) | Resize(pod=pod):
            for smaller in _smaller_pods(pod):
                yield msgspec.structs.replace(action, pod=smaller)
        case Restart(rebooted=True):
            yield msgspec.structs.replace(action, rebooted=False)


def _smaller_pods(pod: Pod) -> Iterator[Pod]:
    if pod.resources is not None:
        yield replace(pod, resources=None)
    for index in range(len(pod.containers)):
        rest = _without(pod.containers, index)
        if rest:
            yield replace(pod, containers=rest)
    for index, one in enumerate(pod.containers):
        text = one.cpu_request or ""
        if text.isdigit() and int(text) > 1:
            for count in {int(text) // 2, int(text) - 1}:
                fewer = replace(one, cpu_request=str(count), cpu_limit=str(count))
                yield replace(pod, containers=_without(pod.containers, index, fewer))


def _plainer(case: Case) -> Iterator[Case]:
    config = case.config
    for name in config.policy_options:
        rest = {key: value for key, value in config.policy_options.items() if key != name}
        yield replace(case, config=replace(config, policy_options=rest))
    for name in config.feature_gates:
        gates = {key: on for key, on in config.feature_gates.items() if key != name}
        yield replace(case, config=replace(config, feature_gates=gates))
    if config.topology_manager_policy_options:
        yield replace(case, config=replace(config, topology_manager_policy_options={}))
    if config.topology_manager_scope != "container":
        yield replace(case, config=replace(config, topology_manager_scope="container"))
    if config.topology_manager_policy != "none":
        yield replace(case, config=replace(config, topology_manager_policy="none"))


def _smaller_machines(info: MachineInfo) -> Iterator[MachineInfo]:
    for index in range(len(info.nodes)):
        nodes = (
            replace(node, distances=_without(node.distances, index))
            for node in _without(info.nodes, index)
        )
        yield _recounted(replace(info, nodes=tuple(nodes)))
    for index, node in enumerate(info.nodes):
        for core in range(len(node.cores)):
            fewer = replace(node, cores=_without(node.cores, core))
            yield _recounted(replace(info, nodes=_without(info.nodes, index, fewer)))


def _recounted(info: MachineInfo) -> MachineInfo:
    cores = [core for node in info.nodes for core in node.cores]
    return replace(
        info,
        num_cores=sum(len(core.thread_ids) for core in cores),
        num_physical_cores=len(cores),
        num_sockets=len({core.socket_id for core in cores}),
    )
