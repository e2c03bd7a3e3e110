"""A node for each known defect: the smallest that shows it.

What belongs here: release, machine, settings and story, by the title of the defect. What never
does: what the story shows there; that is measured (``deciding``), and held by tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hunting.advising.stories import BY_NAME, ORDINARY, Story
from hunting.scope import POD_LEVEL, Task, config_of
from reference import CPUSet

_FULL, _NUMA, _SOCKET = "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket"
_CORES, _CACHE = "distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache"
_ALPHA: Final = "CPUManagerPolicyAlphaOptions"
_STRICT: Final = "strict-cpu-reservation"
_INIT, _DEVICES = "a pod has an init container", "a pod requests devices"
_WHOLE: Final = "a pod requests CPUs as a whole"
_RESIZED: Final = {
    "InPlacePodVerticalScaling": True,
    "InPlacePodVerticalScalingExclusiveCPUs": True,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A node that shows a defect in the story that ``happens`` names."""

    task: Task
    happens: str

    @property
    def story(self) -> Story:
        """What is walked there."""
        return BY_NAME[self.happens]


def _case(
    release: str,
    machine: str,
    *options: str,
    happens: str = ORDINARY.happens,
    policy: str = "none",
    reserved: str = "",
    gates: Mapping[str, bool] | None = None,
    **more: Any,
) -> Case:
    config = config_of(release, dict.fromkeys(options, "true"), policy)
    if reserved:
        config = replace(config, reserved_system_cpus=CPUSet.parse(reserved))
    open_to_all = {_ALPHA: True} if options else {}  # alpha in some releases that have the defect
    gates = {**config.feature_gates, **open_to_all, **(gates or {})}
    config = replace(config, feature_gates=gates, **more)
    return Case(Task(release, machine, config), happens)


#: By the title of the defect.
CASES: Final = {
    "a kubelet that is killed between two writes does not start again": _case(
        "1.37", "1s-1n-2c-smt2",
        happens="the kubelet is killed between two writes of its state file"),
    "a cpuset that was changed outside is never repaired": _case(
        "1.37", "1s-1n-2c-smt2", happens="another program changes the cpuset of a container"),
    "a restart refuses pods with devices in init containers": _case(
        "1.37", "1s-1n-2c-smt2", happens=_DEVICES),
    "containers with exclusive CPUs are throttled by a CFS quota": _case("1.32", "1s-1n-2c-smt2"),
    "the gauges of exclusive CPUs drift": _case("1.37", "1s-1n-2c-smt2", happens=_INIT),
    "a resize in place is half done": _case(
        "1.37", "1s-1n-5c-smt1", happens="a pod is resized in place", policy="restricted",
        gates=_RESIZED),
    "align-by-socket splits CPUs and devices over sockets": _case(
        "1.37", "2s-8n-32c-smt1", _SOCKET, happens=_DEVICES, policy="best-effort"),
    "an init container's CPUs pin its pod to a NUMA node": _case(
        "1.37", "1s-2n-8c-smt1", happens=_INIT, policy="single-numa-node"),
    "a restart under full-pcpus-only refuses pods that run": _case("1.36", "1s-1n-2c-smt2", _FULL),
    "on cores of different sizes busy or reserved CPUs are given away": _case(
        "1.37", "1s-1n-2c-smt2-off3"),
    "distribute-cpus-across-numa overwrites the combination that it has chosen": _case(
        "1.37", "2s-8n-32c-smt1", _SOCKET, _NUMA, reserved="15,31"),
    "distribute-cpus-across-numa with full-pcpus-only searches for ever": _case(
        "1.37", "2s-4n-40c-smt2-interleaved", _FULL, _NUMA, reserved="7,34,44,64"),
    "an odd request is split over uncore caches": _case("1.33.5", "2s-2n-16c-smt2-l3x4", _CACHE),
    "a request that fits one uncore cache is split over two": _case(
        "1.37", "2s-2n-2c-smt4", _CACHE),
    "distribute-cpus-across-cores takes neighbouring threads of one core": _case(
        "1.37", "1s-1n-3c-smt2-near", _CORES),
    "distribute-cpus-across-numa ignores align-by-socket": _case(
        "1.36", "2s-4n-56c-smt1", _SOCKET, _NUMA),
    "distribute-cpus-across-numa shrinks the NUMA nodes of the Topology Manager": _case(
        "1.37", "2s-4n-8c-smt1", _NUMA, happens=_DEVICES, policy="best-effort"),
    "full-pcpus-only splits cores of which a CPU is reserved": _case(
        "1.26", "1s-1n-4c-smt2", _FULL, reserved="0-1"),
    "app containers are given the CPUs of a sidecar": _case(
        "1.28", "1s-1n-2c-smt2", happens="a pod has a sidecar"),
    "a kubelet that starts forgets every assignment": _case("1.16", "1s-1n-2c-smt2"),
    "the pod admitted last counts as active when it is gone": _case("1.26", "1s-1n-2c-smt2"),
    "after a restart a pod's own pool is allocated again": _case(
        "1.37", "1s-1n-5c-smt1", happens=_WHOLE, policy="best-effort", gates=POD_LEVEL),
    "CPUs that containers of a pod share are reported as a container's own": _case(
        "1.36", "1s-1n-1c-smt4", happens=_WHOLE, policy="best-effort", gates=POD_LEVEL,
        reserved="0-1", topology_manager_scope="pod"),
    "an init container books CPUs beyond its pod's request": _case(
        "1.37", "1s-1n-2c-smt2", happens=_INIT),
    "full-pcpus-only goes by the average size of cores": _case(
        "1.37", "1s-1n-3c-smt2-off5", _FULL),
    "under strict-cpu-reservation exclusive CPUs may empty the shared pool": _case(
        "1.37", "1s-1n-1c-smt2", _STRICT),
}  # fmt: skip

#: Known defects that the stories do not show, with what does.
NOT_SHOWN: Final = {
    "the CPUs of whole pods are lost where an older kubelet takes over":
        "another release takes over: pinproof upgrade rehearses it",
    "a state file with CPUs of whole pods is refused once the gate is off":
        "a feature gate is turned off: pinproof upgrade --to-config rehearses it",
    "a restart refuses pods with memory in init containers":
        "its pods request nearly all memory of a NUMA node: a scenario shows it",
    "an init container's spare CPUs stay booked, and a pod that fits is refused":
        "it follows from the CPUs that an init container books, which a story shows",
    "CPUs that an app container shares with an ended init container are freed":
        "it needs a kill at one moment after an init container has ended: the hunt finds it",
    **dict.fromkeys((
        "CPUs of an init container are not free for the app container",
        "single-numa-node refuses pods that ask for nothing",
        "a container's hint does not count what earlier containers of its pod take",
        "a hint of one NUMA node loses to one that touches fewer sockets",
        "CPUs of containers that went while the kubelet was down stay booked",
    ), "1.19 and earlier have it: the hunt finds it with longer histories"),
}  # fmt: skip
