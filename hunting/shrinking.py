"""A broken promise is shrunk: to a shorter history, a plainer configuration, a smaller machine.

How it works: greedily. A part is left out if the rest still breaks the same promise. That is tried
again until every part is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

import topologies
from conformance.discovered import topology_of
from conformance.pods import guaranteed
from hunting.replaying import replayed
from hunting.scope import Task, regular, uneven
from hunting.walk import Broken
from reference import CPUSet
from reference.behaviours import Behaviour
from reference.pods.qos import whole_cpus
from reference.releases import LATEST, has
from reference.steps import (
    Apply,
    ApplyTogether,
    Configure,
    KubeletConfig,
    Pod,
    Reboot,
    Start,
    Step,
    Stop,
    TakeOver,
)

_MOST_CPUS: Final = 8
_PLAIN: Final = KubeletConfig()
#: Settings that are mappings: one of their names is left out at a time.
_BY_NAME: Final = ("policy_options", "topology_manager_policy_options", "feature_gates")
#: Settings that are left out, each with what has no meaning without it.
_TOGETHER: Final = (
    ("topology_manager_policy",), ("topology_manager_scope",), ("api_server",),
    ("memory_manager_policy", "reserved_memory", "memory_reservation"), ("cpu_cfs_quota",),
    ("cpu_cfs_quota_period",), ("kube_reserved",),
    ("reconcile_period",),
    ("enforce_node_allocatable", "kube_reserved_cgroup", "system_reserved_cgroup"),
)  # fmt: skip

#: A setting: a field and one of its names, or fields that are left out together.
Setting: TypeAlias = tuple[str, ...]
#: A task and a history that may break the promise as well.
_Tried: TypeAlias = tuple[Task, tuple[Step, ...]]


def shrunk(broken: Broken) -> Broken:
    """The smallest history that is found to break the promise."""
    return _shrunk(broken, _smaller)


def shrunk_in_place(broken: Broken) -> Broken:
    """As :func:`shrunk`, on the same machine and with the same pods: much quicker."""
    return _shrunk(broken, _fewer)


def _shrunk(broken: Broken, smaller: Callable[[Broken], Iterator[_Tried]]) -> Broken:
    while True:
        tried = (replayed(task, steps, broken.promise) for task, steps in smaller(broken))
        found = next(filter(None, tried), None)
        if found is None:
            return broken
        broken = found


def _fewer(broken: Broken) -> Iterator[_Tried]:
    for fewer in _shorter(broken.steps):
        yield broken.task, fewer
    yield from _of_one_release(broken)
    if any(isinstance(one, Configure) for one in broken.steps):
        return  # such a step has a whole configuration of its own
    config, release = broken.task.config, broken.task.release
    if config.system_reserved and has(release, Behaviour.RESERVED_CPU_LIST):
        listed = replace(config, system_reserved=None, reserved_system_cpus=CPUSet([0]))
        yield replace(broken.task, config=listed), broken.steps
    for plain in plainer(config):
        yield replace(broken.task, config=plain), broken.steps


def _smaller(broken: Broken) -> Iterator[_Tried]:
    task, steps = broken.task, broken.steps
    yield from _fewer(broken)
    changes_machine = any(isinstance(one, Reboot) and one.machine for one in steps)
    for machine in () if changes_machine else _machines_below(task.machine):
        below = Task(task.release, machine, task.config)
        yield below, steps
        for fewer in _with_less(steps, _cpus(task.machine) - _cpus(machine)):
            yield below, fewer
    for fewer in simpler(steps):
        yield task, fewer


def _of_one_release(broken: Broken) -> Iterator[_Tried]:
    """The history that has the release that takes over from its first start on."""
    task, steps = broken.task, broken.steps
    for at, step in enumerate(steps):
        if isinstance(step, Stop):
            end = _next_start(steps, at)
            for one in steps[at:end]:
                if isinstance(one, TakeOver):
                    yield replace(task, release=one.release), steps[:at] + steps[end + 1 :]


def _next_start(steps: tuple[Step, ...], at: int) -> int:
    later = (n for n in range(at, len(steps)) if isinstance(steps[n], Start))
    return next(later, len(steps) - 1)


def _shorter(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The steps without one of them; a stop goes with all steps up to the next start."""
    for at, step in enumerate(steps):
        if isinstance(step, Stop):
            yield steps[:at] + steps[_next_start(steps, at) + 1 :]
        elif at and not isinstance(step, Start):
            yield steps[:at] + steps[at + 1 :]


def plainer(config: KubeletConfig) -> Iterator[KubeletConfig]:
    """The configuration without one of its settings, for each setting."""
    return (without(config, [one]) for one in settings(config))


def settings(config: KubeletConfig) -> Iterator[Setting]:
    """Each setting that is not plain."""
    for field in _BY_NAME:
        yield from ((field, name) for name in getattr(config, field))
    for names in _TOGETHER:
        if any(getattr(config, name) != getattr(_PLAIN, name) for name in names):
            yield names
    if len(config.feature_gates) > 1:  # gates may need one another
        yield ("feature_gates",)


def without(config: KubeletConfig, gone: Iterable[Setting]) -> KubeletConfig:
    """The configuration without these settings."""
    for field, *names in gone:
        if field in _BY_NAME:
            given: Mapping[str, object] = getattr(config, field)
            left = {key: value for key, value in given.items() if names and key not in names}
            config = replace(config, **{field: left})  # type: ignore[arg-type]
        else:
            plain = {name: getattr(_PLAIN, name) for name in (field, *names)}
            config = replace(config, **plain)
    return config


@lru_cache(maxsize=1024)
def _machines_below(machine: str) -> tuple[str, ...]:
    """Smaller regular machines, smallest first, then smaller uneven ones."""
    size = _size(machine)
    every = (*regular(_MOST_CPUS), *uneven(_MOST_CPUS))
    return tuple(name for name in every if _size(name) < size)


@lru_cache(maxsize=1024)
def _size(machine: str) -> tuple[int, int, int]:
    """Regular machines are smaller than others; then fewer CPUs, then a shorter name."""
    known = machine in regular(_MOST_CPUS)
    numbers = [int(part) for part in machine.replace("-", " ").split() if part.isdigit()]
    return (not known, _cpus(machine), len(machine) + sum(numbers))


@lru_cache(maxsize=1024)
def _cpus(machine: str) -> int:
    return len(topology_of(topologies.machine(machine), release=f"1.{LATEST}").cpus)


def _with_less(steps: tuple[Step, ...], less: int) -> Iterator[tuple[Step, ...]]:
    """The steps with ``less`` CPUs fewer for one pod of one container: a pod that took all that was
    left has to shrink with its machine."""
    for at, step in enumerate(steps):
        if isinstance(step, Apply) and len(step.pod.containers) == 1:
            count = whole_cpus(step.pod.containers[0].requested_cpu) - less
            if less and count > 0:
                yield (*steps[:at], Apply(guaranteed(step.pod.name, count)), *steps[at + 1 :])


def simpler(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The steps with one pod in a simpler form: of one container, without devices, or of one CPU
    less. Pods that are applied together are applied one by one, or one of them is left out."""
    for at, step in enumerate(steps):
        if isinstance(step, ApplyTogether):
            for fewer in _not_together(step):
                yield (*steps[:at], *fewer, *steps[at + 1 :])
        if isinstance(step, Apply):
            for pod in _simpler_pods(step.pod):
                yield (*steps[:at], Apply(pod), *steps[at + 1 :])


def _not_together(step: ApplyTogether) -> Iterator[tuple[Step, ...]]:
    yield tuple(map(Apply, step.pods))
    for gone in step.pods if len(step.pods) > 2 else ():
        yield (replace(step, pods=tuple(one for one in step.pods if one != gone)),)


def _simpler_pods(pod: Pod) -> Iterator[Pod]:
    if pod.resources is not None:
        yield guaranteed(pod.name, whole_cpus(pod.resources.cpu_request))
        return
    if len(pod.containers) > 1:
        for one in pod.containers:
            count = whole_cpus(one.requested_cpu)
            if count:
                yield guaranteed(pod.name, count)
    for at, one in enumerate(pod.containers):
        before, behind = pod.containers[:at], pod.containers[at + 1 :]
        if one.devices:
            yield replace(pod, containers=(*before, replace(one, devices=()), *behind))
        count = whole_cpus(one.requested_cpu)
        if count > 1:
            less = replace(one, cpu_request=str(count - 1), cpu_limit=str(count - 1))
            yield replace(pod, containers=(*before, less, *behind))
