"""What is said of each known defect: its story, and how to avoid it.

What belongs here: texts, by the title of the defect, and the scenario that shows it on a kubelet.
What never does: on which releases, settings and machines a defect shows; that is measured
(``deciding``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.catalogue import catalogue
from conformance.discovered import topology_named
from conformance.scenario import Scenario
from hunting.defects import DEFECTS, Defect
from reference.releases import LATEST, minor_of
from topologies import Machine

#: How the promise of a scenario begins that states a defect.
_MARK: Final = "A known defect"
#: Areas of which every defect breaks a promise.
_DECIDED_BY_PROMISES: Final = ("options", "uneven", "init", "resize")
#: Its fix is a behaviour that is not switched to recognise it.
_QUOTA: Final = 70585


@dataclass(frozen=True, slots=True)
class Text:
    """``story``: what happens, in about two sentences. ``avoid``: how a user avoids it until a
    release mends it. ``scenario``: the id of the one that shows it (``""``: none does)."""

    story: str
    avoid: str
    scenario: str = ""


#: By the title of the defect.
TEXTS: Final = {
    "a kubelet that is killed between two writes does not start again": Text(
        "An admission or a deletion writes cpu_manager_state twice. After a kill between the two "
        "writes, the file has CPUs that no container holds, and the kubelet refuses it at every "
        "start.",
        "Drain the node, remove cpu_manager_state, and start the kubelet again."),
    "a cpuset that was changed outside is never repaired": Text(
        "The kubelet sends a container's cpuset only when it differs from what it sent last. So a "
        "cpuset that another program has changed stays changed.",
        "Keep other programs away from the cpusets of containers; a restart of the kubelet sends "
        "each cpuset once.",
        ),
    "a restart refuses pods with devices in init containers": Text(
        "A starting kubelet admits pods before device plugins have registered. It refuses a "
        "running pod whose init container had a device and has ended.",
        "Request devices in app containers only, or drain the node before the kubelet restarts.",
        "devices/restart-refuses-ended-init-container"),
    "the gauges of exclusive CPUs drift": Text(
        "The gauges of exclusive CPUs and of the shared pool count CPUs twice that a pod's app "
        "container takes over from its init container. They stay wrong until the kubelet restarts.",
        "Read the CPUs at the pod-resources socket, not from these metrics."),
    "a resize in place is half done": Text(
        "The kubelet grants a Guaranteed pod another number of CPUs, and its exclusive CPUs stay "
        "as they were. After a restart the kubelet may refuse the running pod.",
        "Do not resize pods with exclusive CPUs in place: delete and create them.",
        "resize/granted-without-cpus"),
    "align-by-socket splits CPUs and devices over sockets": Text(
        "Under align-by-socket the CPUs of a container and its devices may be of different "
        "sockets. The option compares the NUMA nodes of CPUs alone.",
        "Use Topology Manager policy restricted or single-numa-node without align-by-socket."),
    "an init container's CPUs pin its pod to a NUMA node": Text(
        "The app container has to reuse the CPUs of its pod's init container. A small init "
        "container in a NUMA node that has no room for the app container has the pod refused.",
        "Give the init container as many CPUs as the app container, or a fraction of one CPU.",
        "topology/init-container-pins-its-pod"),
    "a restart under full-pcpus-only refuses pods that run": Text(
        "A starting kubelet admits running pods again. Under full-pcpus-only it requires as many "
        "free CPUs as a pod requests, although the pod holds its CPUs already. It ends the "
        "containers of each pod that it refuses.",
        "Keep as many CPUs free as the largest pod with exclusive CPUs requests, or drain the node "
        "before the kubelet restarts.",
        "options/full-pcpus-restart-refuses-what-runs"),
    "on cores of different sizes busy or reserved CPUs are given away": Text(
        "The kubelet compares the free CPUs of a core with the average size of cores. Where cores "
        "differ, it takes a core for free of which a CPU is reserved or another container's.",
        "Switch SMT off on all cores or on none, and take no single CPU offline.",
        "uneven/busy-cpu-is-given-away"),
    "distribute-cpus-across-numa overwrites the combination that it has chosen": Text(
        "While the kubelet searches for NUMA nodes, it overwrites a part of the combination that "
        "it has chosen. So a container may get CPUs of other NUMA nodes than the best ones.",
        "Do not use distribute-cpus-across-numa on machines of eight NUMA nodes.",
        "options/numa-distribution-overwrites-its-choice"),
    "distribute-cpus-across-numa with full-pcpus-only searches for ever": Text(
        "The kubelet gives a share of whole cores to NUMA nodes that have free CPUs and no free "
        "whole core. It searches for ever, and handles no other pod until it is killed.",
        "Reserve whole physical cores, so that no half core is left.",
        "options/numa-distribution-may-hang"),
    "an odd request is split over uncore caches": Text(
        "The kubelet rounds down the number of cores that it looks for in an uncore cache. So an "
        "odd request is split over two, though one has room.",
        "Request a multiple of the threads of a core.",
        "options/uncore-splits-odd-requests"),
    "a request that fits one uncore cache is split over two": Text(
        "The kubelet does not count the free CPUs of partly used cores. So an uncore cache seems "
        "too small, and a request that fits it is split over two.",
        "Reserve whole physical cores, and request a multiple of the threads of a core.",
        "options/uncore-splits-what-fits"),
    "distribute-cpus-across-cores takes neighbouring threads of one core": Text(
        "The kubelet takes CPUs in the order of their numbers. Where the CPUs of a core have "
        "consecutive numbers, a container gets whole cores instead of one CPU of each.",
        "Do not use distribute-cpus-across-cores on such a machine.",
        "options/across-cores-takes-neighbours"),
    "distribute-cpus-across-numa ignores align-by-socket": Text(
        "With both options the kubelet spreads CPUs over NUMA nodes of several sockets, although "
        "one socket has room for the whole request.",
        "Use one of the two options alone.",
        "options/numa-distribution-ignores-sockets"),
    "distribute-cpus-across-numa shrinks the NUMA nodes of the Topology Manager": Text(
        "The Topology Manager chooses the NUMA nodes of a container's devices. The CPU manager "
        "takes CPUs of the fewest of these that hold the request.",
        "Request more CPUs than fewer NUMA nodes have, or do without the option.",
        "devices/distribution-shrinks-the-hint"),
    "full-pcpus-only splits cores of which a CPU is reserved": Text(
        "The kubelet gives out the siblings of reserved CPUs as if they were a core. So a "
        "container may share a core with the system.",
        "Reserve whole physical cores.",
        "options/full-pcpus-splits-reserved-cores"),
    "app containers are given the CPUs of a sidecar": Text(
        "The kubelet offers the CPUs of a sidecar to the app containers of its pod, as those of an "
        "init container that ends. So both run on the same CPUs.",
        "Request no whole CPUs for a sidecar."),
    "CPUs that an app container shares with an ended init container are freed": Text(
        "An app container reuses the CPUs of its pod's init container. Once the kubelet removes "
        "the ended init container, these CPUs return to the shared pool.",
        "Request no whole CPUs in init containers."),
    "a kubelet that starts forgets every assignment": Text(
        "The first reconcile round runs before the kubelet knows a pod, and removes every entry. "
        "The next round chooses CPUs for running containers as on an empty machine.",
        "Drain the node before the kubelet restarts.",
        "restart/start-forgets-assignments"),
    "the pod admitted last counts as active when it is gone": Text(
        "The kubelet's clean-up skips the pod that was admitted last, also after its deletion. "
        "Its CPUs stay taken until another pod is admitted.",
        "Admit any other pod, or restart the kubelet.",
        "pool/last-admitted-is-freed-late"),
    "CPUs of an init container are not free for the app container": Text(
        "CPUs of an init container are not offered to the app container of its pod. So a pod may "
        "need more CPUs than it requests, and is refused.",
        "Request no whole CPUs in init containers."),
    "single-numa-node refuses pods that ask for nothing": Text(
        "Under single-numa-node the kubelet refuses every pod of which a resource has no NUMA "
        "preference, also pods that request nothing.",
        "Use 1.16.2 or newer."),
    "a container's hint does not count what earlier containers of its pod take": Text(
        "A container takes its CPUs when it starts, after all containers of its pod have their "
        "hints. So two containers are promised the same CPUs of a NUMA node.",
        "Use pods of one container, or 1.18 or newer."),
    "a hint of one NUMA node loses to one that touches fewer sockets": Text(
        "The kubelet prefers the hint that touches fewer sockets, though another one has fewer "
        "NUMA nodes. So a pod may be refused, or spread over NUMA nodes.",
        "Use 1.19.9, or 1.20 or newer."),
    "CPUs of containers that went while the kubelet was down stay booked": Text(
        "A kubelet that starts keeps the entries of containers that went while it was down. Their "
        "CPUs stay booked.",
        "Drain the node and remove cpu_manager_state before the kubelet starts."),
    "the CPUs of whole pods are lost where an older kubelet takes over": Text(
        "An older kubelet does not read the part of cpu_manager_state that has the CPUs of whole "
        "pods. After a downgrade these CPUs are lost.",
        "Drain the node before the downgrade."),
    "after a restart a pod's own pool is allocated again": Text(
        "A starting kubelet admits a pod that holds CPUs as a whole as if it held none. The pod "
        "gets other CPUs and the first ones are lost, or the pod is refused.",
        "Drain the node before the kubelet restarts, or leave PodLevelResourceManagers off.",
        "pod-level/restart-takes-another-pool"),
    "a state file with CPUs of whole pods is refused once the gate is off": Text(
        "A kubelet with PodLevelResourceManagers writes CPUs of whole pods to its state file. "
        "Once the gate is off, the kubelet refuses this file and does not start.",
        "Drain the node before the gate is turned off."),
    "CPUs that containers of a pod share are reported as a container's own": Text(
        "Containers of a pod that has CPUs as a whole share a part of them. The pod-resources "
        "socket reports these CPUs as exclusive CPUs of each of the containers.",
        "Do not count CPUs of such pods by the answers of the pod-resources socket."),
    "an init container books CPUs beyond its pod's request": Text(
        "An init container may get CPUs that the app container of its pod does not take over. "
        "These CPUs stay booked until the pod is deleted.",
        "Request no more CPUs in an init container than in the app container, and the same whole "
        "cores.",
        "init/init-container-adds-cpus-to-its-pod"),
    "full-pcpus-only goes by the average size of cores": Text(
        "Each core counts as large as the average core. Where cores differ, two containers may "
        "get CPUs of one core in spite of full-pcpus-only.",
        "Switch SMT off on all cores or on none, and take no single CPU offline.",
        "uneven/full-pcpus-shares-large-cores"),
    "an init container's spare CPUs stay booked, and a pod that fits is refused": Text(
        "CPUs of an ended init container that the app container did not take over stay booked. "
        "So a later pod is refused that fits by its request.",
        "Request no whole CPUs in init containers."),
    "under strict-cpu-reservation exclusive CPUs may empty the shared pool": Text(
        "A request may take the last CPU of the shared pool. Running shared containers stay on "
        "CPUs that are another container's, new ones run without a cpuset, and the kubelet does "
        "not start again.",
        "Keep one CPU free that is not reserved: let pods request fewer CPUs than are allocatable.",
        "options/strict-empties-the-pool"),
    "a restart refuses pods with memory in init containers": Text(
        "After a restart the memory manager no longer knows an init container that has ended. It "
        "allocates memory for it a second time, and the kubelet refuses the running pod.",
        "Drain the node before the kubelet restarts.",
        "memory/restart-refuses-ended-init-container"),
    "containers with exclusive CPUs are throttled by a CFS quota": Text(
        "A container with exclusive CPUs has a CFS quota of as many CPUs as it holds. The kernel "
        "may throttle it, although no other container uses these CPUs.",
        "Set cpuCFSQuota: false on the node, or use 1.33 or newer."),
}  # fmt: skip


def text_of(defect: Defect) -> Text:
    """What is said of a known defect. Raises ``KeyError``."""
    return TEXTS[defect.title]


def mended_in(defect: Defect) -> tuple[str, ...]:
    """The releases that mend it first, where the model knows: the minor, and patch releases of
    earlier minors. A release that has not come out is no answer."""
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
    """The scenarios that state a defect which no story can show, of those that are made for the
    release and apply to the machine: whether a node has it, is not decided by its settings."""
    topology = topology_named(machine, release=release)
    decided = {one.scenario for one in TEXTS.values()}
    return [
        one
        for one in catalogue()
        if one.promise.startswith(_MARK)
        and one.id not in decided
        and one.area not in _DECIDED_BY_PROMISES
        and minor_of(one.since) <= minor_of(release) <= minor_of(one.until or release)
        and one.machine in ("", machine.name)
        and not one.needs.missing(topology)
    ]


def with_texts() -> list[Defect]:
    """Every known defect, once by its title."""
    return list({one.title: one for one in DEFECTS}.values())
