"""Defects that are known, with their issues.

What belongs here: the title of each, and how a broken promise is recognised as caused by it. What
never does: searching; the failures that the owners of a subject know of (``conformance.known``).

How it works: the fix of most defects is a named behaviour of the model. Such a defect has broken
the promise if the same history keeps it with that behaviour switched. The model knows no fix of the
others: they are recognised by the promise, and by the steps and settings of the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import topologies
from conformance.discovered import topology_of
from hunting.replaying import possible, replayed
from hunting.scope import Task
from hunting.upgrades import releases_of
from hunting.walk import Broken
from reference import Release
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import STRICT
from reference.releases import has
from reference.steps import Apply, KillAtRename, Kind, Resize, Start, Step, TakeOver


@dataclass(frozen=True, slots=True)
class Defect:
    """``number``: of the issue or pull request of kubernetes/kubernetes. ``behaviour``: what its
    fix switches; ``mended``: whether the fix switches it on; ``needs``: whether a history has what
    this takes to show. ``shows``: how the defect is recognised without a behaviour."""

    number: int
    title: str
    behaviour: Behaviour | None = None
    mended: bool = True
    shows: Callable[[Broken], bool] = lambda broken: False
    needs: Callable[[Broken], bool] = lambda broken: True

    @property
    def url(self) -> str:
        """The address of the issue. GitHub redirects it to a pull request of that number."""
        return f"https://github.com/kubernetes/kubernetes/issues/{self.number}"


def _has_init(broken: Broken) -> bool:
    return any(one.kind is Kind.INIT for one in broken.containers)


def _refused_for_init(broken: Broken) -> bool:
    return broken.promise == "admitted" and _has_init(broken)


def _empties_pool(broken: Broken) -> bool:
    if STRICT not in broken.task.config.policy_options:
        return False
    if broken.promise == "starts-again":
        return "default cpuset cannot be empty" in broken.violation.difference.seen
    return broken.promise in ("exclusive-to-one", "as-state-file")


def _splits_uneven_core(broken: Broken) -> bool:
    """The fix of issue 140495 does not change this. The review of that fix names it."""
    if broken.promise != "whole-cores":
        return False
    machine = topologies.machine(broken.task.machine)
    return not topology_of(machine, release=broken.task.release).even_cores


def _readmits_pod(broken: Broken) -> bool:
    """A starting kubelet admits the pod again while its CPUs are booked. The pod moves, is refused,
    or its CPUs are lost."""
    return _has_whole_pods(broken) and any(isinstance(one, Start) for one in broken.steps[1:])


def _loses_whole_pods(broken: Broken) -> bool:
    """Older kubelets do not read the part of the state file that has the CPUs of whole pods."""
    later = (one.release for one in broken.steps if isinstance(one, TakeOver))
    with_data = [has(one, Behaviour.STATE_WITH_DATA) for one in (broken.task.release, *later)]
    return (True, False) in pairwise(with_data) and _has_whole_pods(broken)


def _gives_whole_pods(broken: Broken) -> bool:
    return bool(broken.task.config.feature_gates.get("PodLevelResourceManagers"))


def _has_whole_pods(broken: Broken) -> bool:
    """Whether the kubelet gives a pod CPUs as a whole."""
    return _gives_whole_pods(broken) and any(
        isinstance(one, Apply) and one.pod.resources for one in broken.steps
    )


def _splits_fitting_cache(broken: Broken) -> bool:
    """The model does not know which CPUs of the cache a kubelet with the fix takes, so the history
    is not possible there."""
    if broken.promise != "one-cache" or has(broken.task.release, Behaviour.UNCORE_BEST_FIT):
        return False
    return replayed(*_switched(broken, Behaviour.UNCORE_BEST_FIT), broken.promise) is None


def _switched(
    broken: Broken, behaviour: Behaviour, *, on: bool = True
) -> tuple[Task, tuple[Step, ...]]:
    """The task and the steps, with the behaviour switched on or off in each of their releases."""

    def switch(release: str) -> str:
        return str(Release.parse(release).overridden(f"{behaviour.title}={'on' if on else 'off'}"))

    steps = (
        TakeOver(switch(one.release)) if isinstance(one, TakeOver) else one for one in broken.steps
    )
    return replace(broken.task, release=switch(broken.task.release)), tuple(steps)


def _killed_between_writes(broken: Broken) -> bool:
    killed = any(isinstance(one, KillAtRename) for one in broken.steps)
    return broken.promise == "starts-again" and killed


def _devices_of_init(broken: Broken) -> bool:
    """The init container is admitted again after a restart, when no device is registered."""
    init = any(one.kind is Kind.INIT and one.devices for one in broken.containers)
    return broken.promise == "goes-on" and init


def _memory_of_init(broken: Broken) -> bool:
    """A starting kubelet no longer knows the memory of an ended init container."""
    static = broken.task.config.memory_manager_policy == "Static"
    return broken.promise == "goes-on" and static and _has_init(broken)


def _resized(broken: Broken) -> bool:
    if broken.promise == "goes-on":  # a kubelet that starts sees CPUs of another number
        return any(isinstance(one, Resize) for one in broken.steps)
    return broken.promise in ("as-requested", "booked-as-asked") and isinstance(
        broken.steps[-1], Resize
    )


DEFECTS: Final = (
    Defect(84783, "a kubelet that is killed between two writes does not start again",
           shows=_killed_between_writes),
    Defect(138731, "a cpuset that was changed outside is never repaired",
           Behaviour.UPDATED_ON_CHANGE, mended=False),
    Defect(138446, "a restart refuses pods with devices in init containers",
           shows=_devices_of_init),
    Defect(123971, "a restart refuses pods with memory in init containers", shows=_memory_of_init),
    Defect(70585, "containers with exclusive CPUs are throttled by a CFS quota",
           shows=lambda broken: (broken.promise == "no-quota" and not has(
               broken.task.release, Behaviour.NO_QUOTA_ON_EXCLUSIVE_CPUS))),
    Defect(141262, "the gauges of exclusive CPUs drift",
           shows=lambda broken: broken.promise == "gauges"),
    Defect(127262, "a resize in place is half done", shows=_resized),
    Defect(122295, "align-by-socket splits CPUs and devices over sockets",
           shows=lambda broken: broken.promise == "socket-of-devices"),
    Defect(123816, "an init container's CPUs pin its pod to a NUMA node",
           shows=lambda broken: (_refused_for_init(broken)
                                 and broken.task.config.topology_manager_policy != "none")),
    Defect(129078, "a restart under full-pcpus-only refuses pods that run",
           Behaviour.HELD_CPUS_KEPT_FIRST),
    Defect(140495, "on cores of different sizes busy or reserved CPUs are given away",
           Behaviour.TRUE_SIZES),
    Defect(141237, "distribute-cpus-across-numa overwrites the combination that it has chosen",
           Behaviour.COMBINATIONS_KEPT),
    Defect(140730, "distribute-cpus-across-numa with full-pcpus-only searches for ever",
           Behaviour.DISTRIBUTION_ENDS),
    Defect(131610, "an odd request is split over uncore caches", Behaviour.UNCORE_ROUNDED_UP),
    Defect(137315, "a request that fits one uncore cache is split over two",
           shows=_splits_fitting_cache),
    Defect(140688, "distribute-cpus-across-cores takes neighbouring threads of one core",
           Behaviour.SPREAD_OVER_CORES),
    Defect(114642, "distribute-cpus-across-numa ignores align-by-socket",
           Behaviour.SOCKET_ALIGNED_DISTRIBUTION),
    Defect(139430, "distribute-cpus-across-numa shrinks the NUMA nodes of the Topology Manager",
           Behaviour.NUMA_FLOOR_FROM_HINT),
    Defect(113537, "full-pcpus-only splits cores of which a CPU is reserved",
           Behaviour.WHOLE_CORES_LEFT_CHECKED),
    Defect(119442, "app containers are given the CPUs of a sidecar", Behaviour.SIDECARS_KEEP_CPUS),
    Defect(105114, "CPUs that an app container shares with an ended init container are freed",
           Behaviour.SHARED_CPUS_STAY_TAKEN),
    Defect(81324, "a kubelet that starts forgets every assignment",
           Behaviour.UNMET_CONTAINERS_FORGOTTEN, mended=False),
    Defect(103979, "the pod admitted last counts as active when it is gone",
           Behaviour.LAST_ADMITTED_STAYS, mended=False),
    Defect(86255, "CPUs of an init container are not free for the app container",
           Behaviour.INIT_CPUS_REUSED),
    Defect(83777, "single-numa-node refuses pods that ask for nothing",
           Behaviour.SINGLE_NUMA_SPARES_THE_REST),
    Defect(83476, "a container's hint does not count what earlier containers of its pod take",
           Behaviour.CPUS_TAKEN_AT_ADMISSION),
    Defect(90980, "a hint of one NUMA node loses to one that touches fewer sockets",
           Behaviour.HINTS_BY_NUMA_ALONE),
    Defect(84300, "CPUs of containers that went while the kubelet was down stay booked",
           Behaviour.FREED_WHEN_STALE),
    Defect(137751, "the CPUs of whole pods are lost where an older kubelet takes over",
           shows=_loses_whole_pods),
    Defect(140989, "after a restart a pod's own pool is allocated again", Behaviour.POD_POOL_KEPT),
    Defect(140989, "after a restart a pod's own pool is allocated again", shows=_readmits_pod),
    Defect(140906, "after a restart memory of a pod as a whole is taken again",
           Behaviour.POD_MEMORY_KEPT),
    Defect(140989, "a state file with CPUs of whole pods is refused once the gate is off",
           Behaviour.STATE_WITH_DATA, needs=_gives_whole_pods),
    Defect(138738, "CPUs that containers of a pod share are reported as a container's own",
           Behaviour.POD_POOLS_REPORTED),
    Defect(112228, "an init container books CPUs beyond its pod's request",
           shows=lambda broken: broken.promise == "booked-as-asked" and _has_init(broken)),
    Defect(140498, "full-pcpus-only uses the average size of cores", shows=_splits_uneven_core),
    Defect(112228, "an init container's spare CPUs stay booked, and a pod that fits is refused",
           shows=_refused_for_init),
    Defect(141196, "under strict-cpu-reservation exclusive CPUs may empty the shared pool",
           shows=_empties_pool),
)  # fmt: skip


def defect_of(broken: Broken) -> Defect | None:
    """The known defect that breaks the promise; ``None`` where no known one does."""
    for one in DEFECTS:
        if one.shows(broken) or (one.behaviour and _is_mended_by(broken, one)):
            return one
    return None


def _is_mended_by(broken: Broken, defect: Defect) -> bool:
    behaviour = defect.behaviour
    assert behaviour is not None
    releases = releases_of(broken.task.release, broken.steps)
    if not defect.needs(broken) or all(
        has(release, behaviour) == defect.mended for release in releases
    ):
        return False
    task, steps = _switched(broken, behaviour, on=defect.mended)
    # A history that is not possible breaks no promise either, and shows nothing.
    return replayed(task, steps, broken.promise) is None and possible(task, steps)
