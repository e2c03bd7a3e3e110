"""Defects that are known, with their issues.

What belongs here: what each is called, and how a broken promise is recognised as one of it. What
never does: searching.

How it works: most are named behaviours of the model. A broken promise is one of these if the same
history keeps the promise once that behaviour is switched. The others have no fix that the model
knows; these are recognised by the promise and by what the history has in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import topologies
from conformance.discovered import topology_of
from hunting.replaying import replayed
from hunting.scope import Task
from hunting.walk import Broken
from reference import Release
from reference.behaviours import Behaviour
from reference.cpumanager.policy_options import STRICT
from reference.releases import has
from reference.steps import Apply, Kind, Start


@dataclass(frozen=True, slots=True)
class Defect:
    """``number``: of the issue or pull request of kubernetes/kubernetes. ``behaviour``: what its
    fix switches; ``mended``: whether the fix switches it on. ``shows``: how it is recognised
    without one."""

    number: int
    title: str
    behaviour: Behaviour | None = None
    mended: bool = True
    shows: Callable[[Broken], bool] = lambda broken: False

    @property
    def url(self) -> str:
        """Its address; GitHub leads from an issue's to a pull request's."""
        return f"https://github.com/kubernetes/kubernetes/issues/{self.number}"


def _has_init(broken: Broken) -> bool:
    return any(
        one.kind is Kind.INIT
        for step in broken.steps
        if isinstance(step, Apply)
        for one in step.pod.containers
    )


def _books_more(broken: Broken) -> bool:
    return broken.promise == "booked-as-asked" and _has_init(broken)


def _refused_for_init(broken: Broken) -> bool:
    return broken.promise == "admitted" and _has_init(broken)


def _empties_pool(broken: Broken) -> bool:
    if STRICT not in broken.task.config.policy_options:
        return False
    if broken.promise == "starts-again":
        return "default cpuset cannot be empty" in broken.violation.difference.seen
    return broken.promise in ("exclusive-to-one", "as-state-file")


def _splits_uneven_core(broken: Broken) -> bool:
    """The fix of 140495 leaves this as it is; its review names it."""
    if broken.promise != "whole-cores":
        return False
    machine = topologies.machine(broken.task.machine)
    return not topology_of(machine, release=broken.task.release).even_cores


def _pod_level_again(broken: Broken) -> bool:
    """The pod is admitted anew with its CPUs still booked: moved, refused, or its CPUs lost."""
    if not broken.task.config.feature_gates.get("PodLevelResourceManagers"):
        return False
    whole = any(isinstance(one, Apply) and one.pod.resources for one in broken.steps)
    return whole and any(isinstance(one, Start) for one in broken.steps[1:])


DEFECTS: Final = (
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
           Behaviour.UNCORE_BEST_FIT),
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
    Defect(140989, "after a restart a pod's own pool is allocated again", Behaviour.POD_POOL_KEPT),
    Defect(140989, "after a restart a pod's own pool is allocated again", shows=_pod_level_again),
    Defect(112228, "an init container books CPUs beyond its pod's request", shows=_books_more),
    Defect(140498, "full-pcpus-only goes by the average size of cores", shows=_splits_uneven_core),
    Defect(112228, "an init container's spare CPUs stay booked, and a pod that fits is refused",
           shows=_refused_for_init),
    Defect(141196, "under strict-cpu-reservation exclusive CPUs may empty the shared pool",
           shows=_empties_pool),
)  # fmt: skip


def defect_of(broken: Broken) -> Defect | None:
    """The known defect by which the promise is broken; ``None`` where no known one is."""
    for one in DEFECTS:
        if one.shows(broken) or (one.behaviour and _is_mended_by(broken, one)):
            return one
    return None


def _is_mended_by(broken: Broken, defect: Defect) -> bool:
    release, behaviour = broken.task.release, defect.behaviour
    assert behaviour is not None
    if has(release, behaviour) == defect.mended:
        return False
    value = "on" if defect.mended else "off"
    mended = str(Release.parse(release).overridden(f"{behaviour.title}={value}"))
    task = Task(mended, broken.task.machine, broken.task.config)
    # The history must still be possible, so that nothing else has kept the promise.
    return replayed(task, broken.steps, broken.promise) is None
