"""The pods of a row.

What belongs here: what the values of factors of ``Part.POD`` mean. What never does: steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import NAMESPACE_OID, uuid5

from hunting.exploring.rows import Row
from hunting.exploring.settings import HUGE_PAGES, MEMORY, PAGE
from hunting.families import DEVICE
from reference.cpuset import CPUSet
from reference.machine.topology import CPUTopology
from reference.pods.pod import Container, Kind, Pod, PodResources, RestartPolicy
from reference.pods.qos import cpu_request, memory_request, pod_milli_cpus, total_request
from reference.pods.quantity import milli_value

#: MiB of memory that a container asks for: little, and more than half of a NUMA node's.
_SMALL: Final = 4
LARGE: Final = MEMORY * 5 // 8
#: The most characters that a container's name may have.
_LONGEST: Final = 63
_PREFIX: Final = "a-name-that-begins-like-the-others-"
#: The exit code after which a restart rule restarts all containers of the pod.
RESTARTS_ALL: Final = 42
#: Classes of pods with pod-level resources: some of the containers request nothing.
_SHARED: Final = ("pod-level and shared", "pod-level without a CPU to share")
#: The same: none of the app containers requests anything.
_SHARING: Final = "pod-level of apps that share"
#: MiB that each init container requests, and each app container that is as large as the row's size.
MEMORY_OF: Final = {
    "small": (_SMALL, _SMALL), "most of a NUMA node": (_SMALL, LARGE),
    "as much for init": (LARGE, LARGE), "more for init": (LARGE, LARGE // 2),
    "more than a NUMA node": (_SMALL, MEMORY + LARGE // 2),
}  # fmt: skip
#: MiB of huge pages that each init container requests, and each app container of the row's size.
HUGE_PAGES_OF: Final = {
    "none": (0, 0), "most of a NUMA node": (0, HUGE_PAGES * 5 // 8),
    "more for init": (HUGE_PAGES * 5 // 8, HUGE_PAGES // 8),
}  # fmt: skip
#: The resources whose resize in place restarts an app container or a sidecar.
RESIZE_POLICIES: Final[dict[str, tuple[str, ...]]] = {
    "none": (), "for cpu": ("cpu",), "for memory": ("memory",)
}  # fmt: skip
#: Thousandths of a CPU of each sidecar after the init containers. One of two comes before them.
SIDECARS: Final[dict[str, tuple[int, ...]]] = {
    "none": (), "one CPU": (1000,), "before init": (), "two": (2000,), "a fraction": (500,),
    "unlimited": (0,),
}  # fmt: skip
_FRACTIONS: Final = {"half a CPU": 500, "one and a half": 1500}


@dataclass(frozen=True, slots=True)
class Room:
    """What sizes are measured by: the machine, how many CPUs it has for pods (``free``), and how
    many CPUs of each NUMA node no pod has (``left``)."""

    topology: CPUTopology
    free: int
    left: tuple[int, ...] = ()

    def where_are_left(self, cpus: CPUSet) -> Room:
        """The same room with these CPUs left."""
        masks = self.topology.numa_masks.values()
        return replace(self, left=tuple((mask & cpus.mask).bit_count() for mask in masks))

    def rest(self, size: str) -> int | None:
        """How many CPUs a pod is to ask for in all, where its size is measured by what is left."""
        left = self.left or (self.free,)
        counts = {
            "what a NUMA node has left": max(left),
            "what a NUMA node has left and one": max(left) + 1,
            "what is left": sum(left),
            "what is left and one": sum(left) + 1,
            "what the fullest NUMA node has left": min(left),
            "what all NUMA nodes but one have left and one": sum(left) - min(left) + 1,
        }
        return counts.get(size)

    def milli_cpus(self, size: str) -> int:
        """A size in thousandths of a CPU: a fraction, or at least one CPU."""
        if size in _FRACTIONS:
            return _FRACTIONS[size]
        if size.isdigit():
            return 1000 * int(size)
        topology = self.topology
        core = max(mask.bit_count() for mask in topology.core_masks.values())
        node = min(mask.bit_count() for mask in topology.numa_masks.values())
        counts = {
            "a core": core,
            "a core and one": core + 1,
            "half a NUMA node": node // 2,
            "a NUMA node": node,
            "a NUMA node and one": node + 1,
            "a socket": max(mask.bit_count() for mask in topology.socket_masks.values()),
            "three quarters": len(topology.cpus) * 3 // 4,
            "all but one": self.free - 1,
            "all": self.free,
            "too many": self.free + 1,
        }
        return 1000 * max(counts[size], 1)


def pod_of(row: Row, room: Room, name: str, *, again: int = 0) -> Pod:
    """The pod of the row; ``again``: a number that gives it a uid of its own (0: none)."""
    rest = room.rest(row["size"])
    if rest is not None:
        return _filling(rest, row, room, name, again)
    containers = tuple(_containers(row, room))
    if row["restart rule"] != "none":
        containers = tuple(
            replace(one, restarts_all_on=(RESTARTS_ALL,)) if one.kind is Kind.APP else one
            for one in containers
        )
    containers = _with_resize_policy(row, containers)
    uid = str(uuid5(NAMESPACE_OID, f"{name}/{again}")) if again else ""
    pod = Pod(name, _with_devices(row["requested devices"], containers), uid)
    pod = _restarting(row["restart policy"], pod)
    return _as_whole(row, pod) if row["class"].startswith("pod-level") else pod


def _filling(rest: int, row: Row, room: Room, name: str, again: int) -> Pod:
    """The largest pod of the row's shape that asks for at most ``rest`` CPUs in all."""
    sizes = range(max(rest, 1), 0, -1)
    pods = (pod_of({**row, "size": f"{one}"}, room, name, again=again) for one in sizes)
    smallest = pod_of({**row, "size": "1"}, room, name, again=again)
    return next((one for one in pods if pod_milli_cpus(one) <= 1000 * rest), smallest)


def _restarting(value: str, pod: Pod) -> Pod:
    """The pod with this restart policy. Its first app container may have another one."""
    policy, _, but = value.partition(" but ")
    pod = replace(pod, restart_policy=RestartPolicy(policy))
    if not but:
        return pod
    other = RestartPolicy.ALWAYS if policy == "Never" else RestartPolicy.NEVER
    first = next(at for at, one in enumerate(pod.containers) if one.kind is Kind.APP)
    own = replace(pod.containers[first], restart_policy=other)
    return replace(pod, containers=(*pod.containers[:first], own, *pod.containers[first + 1 :]))


def pod_name(row: Row) -> str:
    match row["names"]:
        case "63 characters":
            return "pod-" + "x" * 46  # to which the kubelet adds the node's name
        case "one prefix":
            return f"{_PREFIX}pod"
        case _:
            return "pod"


def _containers(row: Row, room: Room) -> Iterator[Container]:
    name_of = _naming(row["names"])
    size = room.milli_cpus(row["size"])
    if row["sidecar"] in ("before init", "two"):
        yield _container(row, name_of("side"), 1000, Kind.SIDECAR)
    memory, pages = MEMORY_OF[row["memory"]], HUGE_PAGES_OF[row["huge pages"]]
    for number, milli in enumerate(_inits(row, room), start=1):
        one = _container(row, name_of(f"init{number}"), milli, Kind.INIT, memory[0])
        yield _with_huge_pages(one, pages[0])
    for number, milli in enumerate(SIDECARS[row["sidecar"]], start=1):
        yield _container(row, name_of(f"side{number}"), milli, Kind.SIDECAR)
    for number, milli in enumerate(_apps(row, size), start=1):
        large = milli == size
        one = _container(
            row, name_of(f"app{number}"), milli, Kind.APP, memory[1] if large else _SMALL
        )
        yield _with_huge_pages(one, pages[1] if large else 0)


def _inits(row: Row, room: Room) -> tuple[int, ...]:
    """Thousandths of a CPU of each init container; 0 asks for none."""
    size = room.milli_cpus(row["size"])
    smaller, larger = max(1000, size // 2000 * 1000), size + 1000
    found: dict[str, tuple[int, ...]] = {
        "none": (), "smaller": (smaller,), "as large": (size,), "larger": (larger,),
        "small then large": (1000, larger), "large then small": (larger, 1000),
        "a NUMA node": (room.milli_cpus("a NUMA node"),),
        "a NUMA node and one": (room.milli_cpus("a NUMA node and one"),),
        "a fraction": (500,), "unlimited": (0,),
    }  # fmt: skip
    return found[row["init"]]


def _apps(row: Row, size: int) -> tuple[int, ...]:
    more = int(row["apps"]) - 1
    match row["other apps"]:
        case "one CPU":
            return (size, *[1000] * more)
        case "as large":
            return (size, *[size] * more)
        case "fractions":
            return (size, *[250] * more)
        case _:
            return (*[250] * more, size)


def _naming(value: str) -> Callable[[str], str]:
    match value:
        case "63 characters":
            return lambda name: f"{name}-".ljust(_LONGEST, "x")
        case "one prefix":
            return lambda name: f"{_PREFIX}{name}"
        case "as in other pods":
            return lambda name: "c" if name == "app1" else name
        case _:
            return lambda name: name


def _container(row: Row, name: str, milli: int, kind: Kind, memory: int = _SMALL) -> Container:
    """A container of the pod's class; one that asks for no CPU asks for nothing."""
    value = row["class"]
    shares = kind is Kind.APP and (value == _SHARING or (value in _SHARED and milli < 1000))
    if milli == 0 or value == "BestEffort" or shares:
        return Container(name, kind=kind)
    cpu, amount = _quantity(milli, row["quantity"]), f"{memory}Mi"
    match value:
        case "Guaranteed by limits":
            return Container(name, cpu_limit=cpu, memory_limit=amount, kind=kind)
        case "Burstable by memory" | "pod-level of unequal containers":
            return Container(name, cpu, cpu, amount, f"{memory + _SMALL // 2}Mi", kind)
        case "Burstable by CPU":
            more = _quantity(milli + 1000, row["quantity"])
            return Container(name, cpu, more, amount, amount, kind)
        case "Burstable without limits":
            return Container(name, cpu_request=cpu, kind=kind)
        case _:
            return Container(name, cpu, cpu, amount, amount, kind)


def _with_huge_pages(container: Container, mebibytes: int) -> Container:
    """The container with huge pages. The API allows these only beside cpu or memory."""
    if not mebibytes or container.requested_cpu is None:
        return container
    return replace(container, huge_pages=((PAGE, f"{mebibytes}Mi"),))


def _quantity(milli: int, form: str) -> str:
    if form == "milli" or milli % 1000:
        return f"{milli}m"
    return f"{milli // 1000}e0" if form == "exponent" else str(milli // 1000)


def _with_devices(value: str, containers: tuple[Container, ...]) -> tuple[Container, ...]:
    if value == "none":
        return containers
    first = next(at for at, one in enumerate(containers) if one.kind is Kind.APP)
    wanted = {first: 2 if value == "two" else 1}
    if value == "by each app":
        wanted = {at: 1 for at, one in enumerate(containers) if one.kind is Kind.APP}
    beside = {
        "by init and app": (Kind.INIT, 1), "more by init": (Kind.INIT, 2),
        "by sidecar and app": (Kind.SIDECAR, 1),
    }.get(value)  # fmt: skip
    if beside is not None:
        kind, count = beside
        of_kind = [at for at, one in enumerate(containers) if one.kind is kind]
        wanted |= dict.fromkeys(of_kind[:1], count)
    return tuple(
        replace(one, devices=((DEVICE, wanted[at]),)) if at in wanted else one
        for at, one in enumerate(containers)
    )


def _with_resize_policy(row: Row, containers: tuple[Container, ...]) -> tuple[Container, ...]:
    """The containers with the row's resize policy. Init containers have none, nor do containers
    that are not restarted once they have ended."""
    if row["restart policy"] != "Always":
        return containers
    restarts = RESIZE_POLICIES[row["resize policy"]]
    return tuple(
        one if one.kind is Kind.INIT else replace(one, resize_restarts=restarts)
        for one in containers
    )


def _as_whole(row: Row, pod: Pod) -> Pod:
    """The pod with pod-level resources: those of its containers, and a CPU more where some of them
    share what is left."""
    if row["class"] == "pod-level of nothing":
        return replace(pod, resources=PodResources())
    more = 1000 if row["class"] == "pod-level and shared" else 0
    most = total_request(pod, lambda one: milli_value(cpu_request(one)))
    mib = int(total_request(pod, memory_request)) >> 20
    if row["class"] == "pod-level by limits":
        # What its containers ask for together, so that requests which are filled in equal them.
        return replace(pod, resources=PodResources(cpu_limit=f"{most}m", memory_limit=f"{mib}Mi"))
    whole = max(-(-most // 1000) * 1000, 1000) + more
    cpu, memory = _quantity(whole, "plain"), f"{mib + _SMALL}Mi"
    return replace(pod, resources=PodResources(cpu, cpu, memory, memory))
