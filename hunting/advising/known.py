"""What is known of each defect: its story, how to avoid it, and the smallest node that shows it.

What belongs here: texts, release, machine, settings and story, by the title of the defect, and the
scenario that shows it on a kubelet. What never does: on which other nodes a defect shows; that is
measured (``deciding``), and held by tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from conformance.catalogue import catalogue
from conformance.discovered import topology_named
from conformance.scenario import Scenario
from hunting.advising.stories import BY_NAME, ORDINARY, Story
from hunting.defects import DEFECTS, Defect
from hunting.families import RESIZE
from hunting.scope import POD_LEVEL, Task, config_of
from reference import CPUSet
from reference.releases import LATEST, minor_of
from topologies import Machine

#: How the promise of a scenario begins that states a defect.
MARK: Final = "A known defect"
#: Areas in which every defect breaks a promise.
_DECIDED_BY_PROMISES: Final = ("options", "uneven", "init", "resize")
#: The issue of the CFS quota. Its fix is a behaviour that is not switched to recognise the defect.
_QUOTA: Final = 70585
_FULL, _NUMA, _SOCKET = "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket"
_CORES, _CACHE = "distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache"
_ALPHA: Final = "CPUManagerPolicyAlphaOptions"
_STRICT: Final = "strict-cpu-reservation"
_INIT, _DEVICES = "a pod has an init container", "a pod requests devices"
_WHOLE: Final = "a pod requests CPUs as a whole"
#: Why no story shows a defect.
_OLD: Final = "1.19 and earlier have it: the hunt finds it with longer histories"


@dataclass(frozen=True, slots=True)
class Case:
    """A node that shows a defect in the story that ``happens`` names."""

    task: Task
    happens: str

    @property
    def story(self) -> Story:
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


@dataclass(frozen=True, slots=True)
class Known:
    """``story``: what happens, in about two sentences. ``avoid``: how a user avoids it until a
    release mends it. ``shown``: the smallest node that shows it, or what shows it if no story
    does. ``scenario``: the id of the one that shows it (``""``: none does)."""

    story: str
    avoid: str
    shown: Case | str
    scenario: str = ""


#: By the title of the defect.
KNOWN: Final = {
    "a kubelet that is killed between two writes does not start again": Known(
        "An admission or a deletion writes cpu_manager_state twice. After a kill between the two "
        "writes, the file has CPUs that no container holds, and the kubelet refuses it at every "
        "start.",
        "Drain the node, remove cpu_manager_state, and start the kubelet again.",
        _case("1.37", "1s-1n-2c-smt2",
              happens="the kubelet is killed between two writes of its state file")),
    "a cpuset that was changed outside is never repaired": Known(
        "The kubelet sends a container's cpuset only when it differs from what it sent last. So a "
        "cpuset that another program has changed stays changed.",
        "Keep other programs away from the cpusets of containers; a restart of the kubelet sends "
        "each cpuset once.",
        _case("1.37", "1s-1n-2c-smt2",
              happens="another program changes the cpuset of a container")),
    "a restart refuses pods with devices in init containers": Known(
        "A starting kubelet admits pods before device plugins have registered. It refuses a "
        "running pod whose init container had a device and has ended.",
        "Request devices in app containers only, or drain the node before the kubelet restarts.",
        _case("1.37", "1s-1n-2c-smt2", happens=_DEVICES),
        "devices/restart-refuses-ended-init-container"),
    "the gauges of exclusive CPUs drift": Known(
        "The gauges of exclusive CPUs and of the shared pool count CPUs twice that a pod's app "
        "container takes over from its init container. They stay wrong until the kubelet restarts.",
        "Read the CPUs at the pod-resources socket, not from these metrics.",
        _case("1.37", "1s-1n-2c-smt2", happens=_INIT)),
    "a resize in place is half done": Known(
        "The kubelet grants a Guaranteed pod another number of CPUs, and its exclusive CPUs stay "
        "as they were. After a restart the kubelet may refuse the running pod.",
        "Do not resize pods with exclusive CPUs in place: delete and create them.",
        _case("1.37", "1s-1n-5c-smt1", happens="a pod is resized in place", policy="restricted",
              gates=dict.fromkeys(RESIZE, True)),
        "resize/granted-without-cpus"),
    "align-by-socket splits CPUs and devices over sockets": Known(
        "Under align-by-socket the CPUs of a container and its devices may be of different "
        "sockets. The option compares the NUMA nodes of CPUs alone.",
        "Use Topology Manager policy restricted or single-numa-node without align-by-socket.",
        _case("1.37", "2s-8n-32c-smt1", _SOCKET, happens=_DEVICES, policy="best-effort")),
    "an init container's CPUs pin its pod to a NUMA node": Known(
        "The app container has to reuse the CPUs of its pod's init container. A small init "
        "container in a NUMA node that has no room for the app container has the pod refused.",
        "Give the init container as many CPUs as the app container, or a fraction of one CPU.",
        _case("1.37", "1s-2n-8c-smt1", happens=_INIT, policy="single-numa-node"),
        "topology/init-container-pins-its-pod"),
    "a restart under full-pcpus-only refuses pods that run": Known(
        "A starting kubelet admits running pods again. Under full-pcpus-only it requires as many "
        "free CPUs as a pod requests, although the pod holds its CPUs already. It ends the "
        "containers of each pod that it refuses.",
        "Keep as many CPUs free as the largest pod with exclusive CPUs requests, or drain the node "
        "before the kubelet restarts.",
        _case("1.36", "1s-1n-2c-smt2", _FULL),
        "options/full-pcpus-restart-refuses-what-runs"),
    "on cores of different sizes busy or reserved CPUs are given away": Known(
        "The kubelet compares the free CPUs of a core with the average size of cores. Where cores "
        "differ, it takes a core for free of which a CPU is reserved or another container's.",
        "Switch SMT off on all cores or on none, and take no single CPU offline.",
        _case("1.37", "1s-1n-2c-smt2-off3"),
        "uneven/busy-cpu-is-given-away"),
    "distribute-cpus-across-numa overwrites the combination that it has chosen": Known(
        "While the kubelet searches for NUMA nodes, it overwrites a part of the combination that "
        "it has chosen. So a container may get CPUs of other NUMA nodes than the best ones.",
        "Do not use distribute-cpus-across-numa on machines of eight NUMA nodes.",
        _case("1.37", "2s-8n-32c-smt1", _SOCKET, _NUMA, reserved="15,31"),
        "options/numa-distribution-overwrites-its-choice"),
    "distribute-cpus-across-numa with full-pcpus-only searches for ever": Known(
        "The kubelet gives a share of whole cores to NUMA nodes that have free CPUs and no free "
        "whole core. It searches for ever, and handles no other pod until it is killed.",
        "Reserve whole physical cores, so that no half core is left.",
        _case("1.37", "2s-4n-40c-smt2-interleaved", _FULL, _NUMA, reserved="7,34,44,64"),
        "options/numa-distribution-may-hang"),
    "an odd request is split over uncore caches": Known(
        "The kubelet rounds down the number of cores that it looks for in an uncore cache. So an "
        "odd request is split over two, though one has room.",
        "Request a multiple of the threads of a core.",
        _case("1.33.5", "2s-2n-16c-smt2-l3x4", _CACHE),
        "options/uncore-splits-odd-requests"),
    "a request that fits one uncore cache is split over two": Known(
        "The kubelet does not count the free CPUs of partly used cores. So an uncore cache seems "
        "too small, and a request that fits it is split over two.",
        "Reserve whole physical cores, and request a multiple of the threads of a core.",
        _case("1.37", "2s-2n-2c-smt4", _CACHE),
        "options/uncore-splits-what-fits"),
    "distribute-cpus-across-cores takes neighbouring threads of one core": Known(
        "The kubelet takes CPUs in the order of their numbers. Where the CPUs of a core have "
        "consecutive numbers, a container gets whole cores instead of one CPU of each.",
        "Do not use distribute-cpus-across-cores on such a machine.",
        _case("1.37", "1s-1n-3c-smt2-near", _CORES),
        "options/across-cores-takes-neighbours"),
    "distribute-cpus-across-numa ignores align-by-socket": Known(
        "With both options the kubelet spreads CPUs over NUMA nodes of several sockets, although "
        "one socket has room for the whole request.",
        "Use one of the two options alone.",
        _case("1.36", "2s-4n-56c-smt1", _SOCKET, _NUMA),
        "options/numa-distribution-ignores-sockets"),
    "distribute-cpus-across-numa shrinks the NUMA nodes of the Topology Manager": Known(
        "The Topology Manager chooses the NUMA nodes of a container's devices. The CPU manager "
        "takes CPUs of the fewest of these that hold the request.",
        "Request more CPUs than fewer NUMA nodes have, or do without the option.",
        _case("1.37", "2s-4n-8c-smt1", _NUMA, happens=_DEVICES, policy="best-effort"),
        "devices/distribution-shrinks-the-hint"),
    "full-pcpus-only splits cores of which a CPU is reserved": Known(
        "The kubelet gives out the siblings of reserved CPUs as if they were a core. So a "
        "container may share a core with the system.",
        "Reserve whole physical cores.",
        _case("1.26", "1s-1n-4c-smt2", _FULL, reserved="0-1"),
        "options/full-pcpus-splits-reserved-cores"),
    "app containers are given the CPUs of a sidecar": Known(
        "The kubelet offers the CPUs of a sidecar to the app containers of its pod, as those of an "
        "init container that ends. So both run on the same CPUs.",
        "Request no whole CPUs for a sidecar.",
        _case("1.28", "1s-1n-2c-smt2", happens="a pod has a sidecar")),
    "CPUs that an app container shares with an ended init container are freed": Known(
        "An app container reuses the CPUs of its pod's init container. Once the kubelet removes "
        "the ended init container, these CPUs return to the shared pool.",
        "Request no whole CPUs in init containers.",
        "it needs a kill at one moment after an init container has ended: the hunt finds it"),
    "a kubelet that starts forgets every assignment": Known(
        "The first reconcile round runs before the kubelet knows a pod, and removes every entry. "
        "The next round chooses CPUs for running containers as on an empty machine.",
        "Drain the node before the kubelet restarts.",
        _case("1.16", "1s-1n-2c-smt2"),
        "restart/start-forgets-assignments"),
    "the pod admitted last counts as active when it is gone": Known(
        "The kubelet's clean-up skips the pod that was admitted last, also after its deletion. "
        "Its CPUs stay taken until another pod is admitted.",
        "Admit any other pod, or restart the kubelet.",
        _case("1.26", "1s-1n-2c-smt2"),
        "pool/last-admitted-is-freed-late"),
    "CPUs of an init container are not free for the app container": Known(
        "CPUs of an init container are not offered to the app container of its pod. So a pod may "
        "need more CPUs than it requests, and is refused.",
        "Request no whole CPUs in init containers.",
        _OLD),
    "single-numa-node refuses pods that ask for nothing": Known(
        "Under single-numa-node the kubelet refuses every pod of which a resource has no NUMA "
        "preference, also pods that request nothing.",
        "Use 1.16.2 or newer.",
        _OLD),
    "a container's hint does not count what earlier containers of its pod take": Known(
        "A container takes its CPUs when it starts, after all containers of its pod have their "
        "hints. So two containers are promised the same CPUs of a NUMA node.",
        "Use pods of one container, or 1.18 or newer.",
        _OLD),
    "a hint of one NUMA node loses to one that touches fewer sockets": Known(
        "The kubelet prefers the hint that touches fewer sockets, though another one has fewer "
        "NUMA nodes. So a pod may be refused, or spread over NUMA nodes.",
        "Use 1.19.9, or 1.20 or newer.",
        _OLD),
    "CPUs of containers that went while the kubelet was down stay booked": Known(
        "A kubelet that starts keeps the entries of containers that went while it was down. Their "
        "CPUs stay booked.",
        "Drain the node and remove cpu_manager_state before the kubelet starts.",
        _OLD),
    "the CPUs of whole pods are lost where an older kubelet takes over": Known(
        "An older kubelet does not read the part of cpu_manager_state that has the CPUs of whole "
        "pods. After a downgrade these CPUs are lost.",
        "Drain the node before the downgrade.",
        "another release takes over: pinproof upgrade rehearses it"),
    "after a restart memory of a pod as a whole is taken again": Known(
        "A starting kubelet takes the memory of a pod that has it as a whole once more. The "
        "running pod is refused, or the next start is: the state file of the memory manager "
        "contradicts itself then.",
        "Drain the node before the kubelet restarts, or leave PodLevelResourceManagers off.",
        "stories do not vary the memory manager: a scenario shows it",
        "pod-level/restart-counts-memory-of-a-pod-twice"),
    "after a restart a pod's own pool is allocated again": Known(
        "A starting kubelet admits a pod that holds CPUs as a whole as if it held none. The pod "
        "gets other CPUs and the first ones are lost, or the pod is refused.",
        "Drain the node before the kubelet restarts, or leave PodLevelResourceManagers off.",
        _case("1.37", "1s-1n-5c-smt1", happens=_WHOLE, policy="best-effort", gates=POD_LEVEL),
        "pod-level/restart-takes-another-pool"),
    "a state file with CPUs of whole pods is refused once the gate is off": Known(
        "A kubelet with PodLevelResourceManagers writes CPUs of whole pods to its state file. "
        "Once the gate is off, the kubelet refuses this file and does not start.",
        "Drain the node before the gate is turned off.",
        "a feature gate is turned off: pinproof upgrade --to-config rehearses it"),
    "CPUs that containers of a pod share are reported as a container's own": Known(
        "Containers of a pod that has CPUs as a whole share a part of them. The pod-resources "
        "socket reports these CPUs as exclusive CPUs of each of the containers.",
        "Do not count CPUs of such pods by the answers of the pod-resources socket.",
        _case(
            "1.36", "1s-1n-1c-smt4", happens=_WHOLE, policy="best-effort", gates=POD_LEVEL,
            reserved="0-1", topology_manager_scope="pod")),
    "an init container books CPUs beyond its pod's request": Known(
        "An init container may get CPUs that the app container of its pod does not take over. "
        "These CPUs stay booked until the pod is deleted.",
        "Request no more CPUs in an init container than in the app container, and the same whole "
        "cores.",
        _case("1.37", "1s-1n-2c-smt2", happens=_INIT),
        "init/init-container-adds-cpus-to-its-pod"),
    "full-pcpus-only uses the average size of cores": Known(
        "Each core counts as large as the average core. Where cores differ, two containers may "
        "get CPUs of one core in spite of full-pcpus-only.",
        "Switch SMT off on all cores or on none, and take no single CPU offline.",
        _case("1.37", "1s-1n-3c-smt2-off5", _FULL),
        "uneven/full-pcpus-shares-large-cores"),
    "an init container's spare CPUs stay booked, and a pod that fits is refused": Known(
        "CPUs of an ended init container that the app container did not take over stay booked. "
        "So a later pod is refused that fits by its request.",
        "Request no whole CPUs in init containers.",
        "it follows from the CPUs that an init container books, which a story shows"),
    "under strict-cpu-reservation exclusive CPUs may empty the shared pool": Known(
        "A request may take the last CPU of the shared pool. Running shared containers stay on "
        "CPUs that are another container's, new ones run without a cpuset, and the kubelet does "
        "not start again.",
        "Keep one CPU free that is not reserved: let pods request fewer CPUs than are allocatable.",
        _case("1.37", "1s-1n-1c-smt2", _STRICT),
        "options/strict-empties-the-pool"),
    "a restart refuses pods with memory in init containers": Known(
        "After a restart the memory manager no longer knows an init container that has ended. It "
        "allocates memory for it a second time, and the kubelet refuses the running pod.",
        "Drain the node before the kubelet restarts.",
        "its pods request nearly all memory of a NUMA node: a scenario shows it",
        "memory/restart-refuses-ended-init-container"),
    "containers with exclusive CPUs are throttled by a CFS quota": Known(
        "A container with exclusive CPUs has a CFS quota of as many CPUs as it holds. The kernel "
        "may throttle it, although no other container uses these CPUs.",
        "Set cpuCFSQuota: false on the node, or use 1.33 or newer.",
        _case("1.32", "1s-1n-2c-smt2")),
}  # fmt: skip


def text_of(defect: Defect) -> Known:
    """What is known of a defect. Raises ``KeyError``."""
    return KNOWN[defect.title]


def mended_in(defect: Defect) -> tuple[str, ...]:
    """The first releases with its fix, where the model knows: the minor, and patch releases of
    earlier minors. A minor that has not come out is left out."""
    if defect.number == _QUOTA:
        return ("1.33",)
    behaviour = defect.behaviour
    if behaviour is None:
        return ()
    known = behaviour.value
    if defect.mended:
        first = known.since
    else:
        first = None if known.until is None else f"1.{minor_of(known.until) + 1}"
    if first is None or minor_of(first) > LATEST:
        return known.backports
    return (first, *known.backports)


def undecided(release: str, machine: Machine) -> list[Scenario]:
    """The scenarios for this release and machine that state a defect which no story can show: the
    settings of a node do not decide whether it has that defect."""
    topology = topology_named(machine, release=release)
    decided = {one.scenario for one in KNOWN.values()}
    return [
        one
        for one in catalogue()
        if one.promise.startswith(MARK)
        and one.id not in decided
        and one.area not in _DECIDED_BY_PROMISES
        and minor_of(one.since) <= minor_of(release) <= minor_of(one.until or release)
        and one.machine in ("", machine.name)
        and not one.needs.missing(topology)
    ]


def with_texts() -> list[Defect]:
    """Every known defect, once by its title."""
    return list({one.title: one for one in DEFECTS}.values())
