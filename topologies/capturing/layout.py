"""A machine as QEMU's arguments: pure, printable, and nothing but what was asked for.

QEMU's Intel models show sockets, dies, cores and threads, and one L3 for each die (its AMD models
do not under TCG: that needs ``topoext``). Linux numbers the CPUs that are there at boot in the
order of the firmware's table (MADT), which QEMU writes by APIC id: socket, die, core, thread, so
that threads of a core are neighbours. A machine that is to be numbered in another way gets a table
of its own (:mod:`topologies.capturing.acpi`). No table leaves gaps between ids, but CPUs plugged in
later get the next free ones: gaps are CPUs of further sockets, plugged in and out again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Final

from topologies.capturing.boards import BOARDS, X86, Board
from topologies.capturing.errors import BadTarget
from topologies.cpulist import bits, format_list, ids, parse_list
from topologies.described import describe
from topologies.errors import BadSpec
from topologies.paths import NODE
from topologies.spec import Spec, parse

MODEL: Final = X86.cpu

#: A guest of fewer MiB does not boot; each CPU wants some.
_LEAST_MEMORY: Final = 512
_MEMORY_PER_CPU: Final = 8
_LEAST_NODE: Final = 64

#: QEMU's options that say what a machine looks like, and nothing of the host's files or network.
_RAW: Final[dict[str, re.Pattern[str]]] = {
    "-smp": re.compile(r"[a-z0-9=,]{1,200}"),
    "-m": re.compile(r"[A-Za-z0-9=,]{1,60}"),
    "-numa": re.compile(r"[A-Za-z0-9_=,.:-]{1,400}"),
    "-object": re.compile(r"memory-backend-ram,[A-Za-z0-9_=,.-]{1,200}"),
    "-cpu": re.compile(r"[A-Za-z0-9_]{1,40}(-[A-Za-z0-9_]+)*(,[+-]?[a-z0-9_.-]+(=[a-z0-9]+)?)*"),
    "-device": re.compile(r"[A-Za-z0-9_-]{1,60}-x86_64-cpu(,(socket|die|core|thread)-id=[0-9]+)*"),
    "-machine": re.compile(r"(smp-cache\.[0-9]+\.[a-z]+=[a-z0-9]+|hmat=(on|off)|,){1,20}"),
}
#: What happens inside the guest.
_OURS: Final = ("-offline", "-nosmt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One CPU by its place, as QEMU's ``-device`` and ``device_add`` name it."""

    socket: int
    die: int
    core: int
    thread: int

    def properties(self) -> dict[str, int]:
        return {f"{name}-id": number for name, number in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A machine to boot. ``arguments`` are QEMU's; ``table`` the CPUs in the order in which the
    firmware shall name them, as (processor uid, APIC id), empty for QEMU's own order; ``plug`` the
    CPUs to plug in after the boot, in runs that may go in at once; ``unplug`` the ids of those to
    take out when all are in; ``offline`` of those to switch off; ``kernel`` further words for the
    kernel; ``spec`` the description that the guest's view must agree with, if there is one;
    ``text`` what the user asked for. ``cpus`` counts all that are ever in."""

    text: str
    arguments: tuple[str, ...]
    cpus: int
    table: tuple[tuple[int, int], ...] = ()
    plug: tuple[tuple[Place, ...], ...] = ()
    unplug: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    kernel: tuple[str, ...] = ()
    spec: str = ""
    board: Board = X86

    @property
    def booted(self) -> int:
        """How many CPUs are there at boot."""
        return self.cpus - sum(map(len, self.plug))


def layout(text: str) -> Layout:
    """The layout that ``text`` means: a spec's description, or QEMU's own options when it
    begins with a dash, or with the name of an architecture and a dash. Raises
    :class:`BadTarget`, whose text says what cannot be."""
    architecture, _, options = text.strip().partition(" ")
    if architecture in BOARDS and options.lstrip().startswith("-"):
        return _raw(text, options, BOARDS[architecture])
    if text.lstrip().startswith("-"):
        return _raw(text, text, X86)
    try:
        spec = parse(text)
    except BadSpec as error:
        raise BadTarget(f"qemu:{text}", error.reason) from error
    return _described(spec)


# --- from a description ----------------------------------------------------------------------


def _described(spec: Spec) -> Layout:
    name = str(spec)
    if spec.architecture or spec.small:
        reason = "QEMU boots only descriptions of x86 with cores of one kind"
        raise BadTarget(f"qemu:{name}", reason)
    if len({cores for part in spec.parts for cores in part}) > 1:
        raise BadTarget(f"qemu:{name}", "QEMU's sockets and dies have equally many cores")
    if spec.node_step > 1:
        raise BadTarget(f"qemu:{name}", "Linux on x86 numbers NUMA nodes without gaps")
    order = _with_gaps(spec, list(_in_order(spec)))
    ranks = [_rank(spec, place) for place in order]
    total = _sockets(spec, order) * spec.cores // spec.sockets * spec.threads
    gaps = tuple(ids((1 << len(order)) - 1 & ~spec.present))
    cold = min(_ascending(ranks), gaps[0]) if gaps else len(order)
    whole = cold == total
    natural = ranks == list(range(total))
    offline = tuple(ids(spec.offline))
    return Layout(
        text=name,
        arguments=(
            *_shape(spec, total, booted=total if whole else 1),
            *_memory(spec, ranks, total),
            *_devices(() if whole else order[1:cold]),
        ),
        cpus=len(order),
        table=() if gaps or natural else tuple(_table(spec, order)),
        plug=tuple(_runs(order[cold:], ranks[cold:])),
        unplug=gaps,
        offline=offline,
        kernel=(
            *((f"possible_cpus={len(order)}",) if gaps else ()),
            *(("cpu0_hotplug",) if 0 in offline else ()),
        ),
        spec=name,
    )


def _in_order(spec: Spec) -> Iterator[Place]:
    """The place of each CPU, by ascending id."""
    for cpu in range(spec.cores * spec.threads):
        if spec.near:
            number, thread = divmod(cpu, spec.threads)
        else:
            thread, number = divmod(cpu, spec.cores)
        if spec.interleaved:
            position, socket = divmod(number, spec.sockets)
        else:
            socket, position = divmod(number, spec.cores // spec.sockets)
        die, core = divmod(position, _cores_per_die(spec))
        yield Place(socket=socket * spec.package_step, die=die, core=core, thread=thread)


def _with_gaps(spec: Spec, order: list[Place]) -> list[Place]:
    """One place for each id up to the last: ids that shall be missing are CPUs of further
    sockets."""
    if spec.cpu_step == 1:
        return order
    beyond = (
        Place(socket=socket, die=die, core=core, thread=thread)
        for socket in count((spec.sockets - 1) * spec.package_step + 1)
        for die in range(_dies(spec))
        for core in range(_cores_per_die(spec))
        for thread in range(spec.threads)
    )
    real = iter(order)
    last = spec.present.bit_length()
    return [next(beyond) if cpu % spec.cpu_step else next(real) for cpu in range(last)]


def _sockets(spec: Spec, order: Sequence[Place]) -> int:
    """How many sockets there must be, filled or not."""
    return 1 + max((spec.sockets - 1) * spec.package_step, *(place.socket for place in order))


def _dies(spec: Spec) -> int:
    """L3 caches of one socket."""
    return spec.caches * spec.units // spec.sockets if spec.caches else 1


def _cores_per_die(spec: Spec) -> int:
    return spec.cores // spec.sockets // _dies(spec)


def _rank(spec: Spec, place: Place) -> int:
    """The index that QEMU counts CPUs with, present or not."""
    dies, cores, threads = _dies(spec), _cores_per_die(spec), spec.threads
    return ((place.socket * dies + place.die) * cores + place.core) * threads + place.thread


def _table(spec: Spec, order: Sequence[Place]) -> Iterator[tuple[int, int]]:
    """QEMU's uid of a CPU is its index; an APIC id has a field of whole bits for each level."""
    widths = [(number - 1).bit_length() for number in (_dies(spec), _cores_per_die(spec))]
    thread_width = (spec.threads - 1).bit_length()
    for place in order:
        apic_id = (place.socket << widths[0] | place.die) << widths[1] | place.core
        yield _rank(spec, place), apic_id << thread_width | place.thread


def _ascending(ranks: Sequence[int]) -> int:
    """How many of the first are in order."""
    count = 1
    while count < len(ranks) and ranks[count] > ranks[count - 1]:
        count += 1
    return count


def _runs(places: Sequence[Place], ranks: Sequence[int]) -> Iterator[tuple[Place, ...]]:
    """Pieces of ascending rank: the guest looks for new CPUs in that order."""
    start = 0
    while start < len(places):
        length = _ascending(ranks[start:])
        yield tuple(places[start : start + length])
        start += length


def _shape(spec: Spec, total: int, *, booted: int) -> tuple[str, ...]:
    per_socket = spec.cores // spec.sockets * spec.threads
    smp = (
        f"cpus={booted},maxcpus={total},sockets={total // per_socket},dies={_dies(spec)},"
        f"cores={_cores_per_die(spec)},threads={spec.threads}"
    )
    return "-cpu", MODEL, "-smp", smp


def _devices(places: Sequence[Place]) -> Iterator[str]:
    for place in places:
        where = ",".join(f"{name}={value}" for name, value in place.properties().items())
        yield from ("-device", f"{MODEL}-x86_64-cpu,{where}")


def _memory(spec: Spec, ranks: Sequence[int], total: int) -> Iterator[str]:
    """NUMA nodes with their memory, CPUs and distances. Places that stay empty, and those of gaps,
    are said to be in node 0: QEMU wants every place in some node."""
    tree = describe(str(spec).partition("-off")[0]).tree
    nodes = spec.nodes + spec.memory_nodes
    wanted = max(_LEAST_MEMORY, _MEMORY_PER_CPU * len(ranks))
    elsewhere = (1 << total) - 1 & ~bits(ranks[cpu] for cpu in ids(spec.present))
    each = max(_LEAST_NODE, -(-wanted // nodes // 32) * 32)
    yield from ("-m", f"{each * nodes}M")
    for node in range(nodes):
        members = parse_list(tree[f"{NODE}/node{node}/cpulist"])
        own = bits(ranks[cpu] for cpu in ids(members))
        own |= 0 if node else elsewhere
        cpus = "".join(f",cpus={piece}" for piece in format_list(own).split(",") if piece)
        yield from ("-object", f"memory-backend-ram,id=m{node},size={each}M")
        yield from ("-numa", f"node,nodeid={node}{cpus},memdev=m{node}")
    for node in range(nodes):
        for other, value in enumerate(tree[f"{NODE}/node{node}/distance"].split()):
            if other != node:
                yield from ("-numa", f"dist,src={node},dst={other},val={value}")


# --- in QEMU's own words ---------------------------------------------------------------------


def _raw(text: str, options: str, board: Board) -> Layout:
    where = f"qemu:{text}"
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise BadTarget(where, str(error)) from error
    arguments: list[str] = []
    offline = 0
    kernel: list[str] = []
    while words:
        option = words.pop(0)
        if option == "-nosmt":
            kernel.append("nosmt")
            continue
        if option not in _RAW and option != "-offline":
            allowed = ", ".join([*_RAW, *_OURS])
            raise BadTarget(where, f"{option!r} is not one of {allowed}")
        if not words:
            raise BadTarget(where, f"{option} needs a value")
        value = words.pop(0)
        if option == "-offline":
            offline = _offline(where, value)
        elif not _RAW[option].fullmatch(value):
            raise BadTarget(where, f"{option} does not take {value!r}")
        else:
            arguments += [option, value]
    if board is not X86 and ("-device" in arguments or "-machine" in arguments):
        raise BadTarget(where, "-device and -machine are only for x86")
    name = next(one for one in BOARDS if BOARDS[one] is board)
    said = [*filter(None, [name]), *arguments, *(["-nosmt"] if kernel else [])]
    said += ["-offline", format_list(offline)] if offline else []
    return Layout(
        text=" ".join(said),
        arguments=tuple(_completed(arguments, board)),
        cpus=_count(where, arguments),
        board=board,
        offline=tuple(ids(offline)),
        kernel=(*kernel, *(("cpu0_hotplug",) if offline & 1 else ())),
    )


def _offline(where: str, value: str) -> int:
    try:
        return parse_list(value)
    except ValueError as error:
        raise BadTarget(where, str(error)) from error


def _count(where: str, arguments: Sequence[str]) -> int:
    """How many CPUs there are at boot: of ``-smp``, and one for each ``-device``."""
    if "-smp" not in arguments:
        raise BadTarget(where, "it needs -smp")
    value = arguments[arguments.index("-smp") + 1]
    found = re.match(r"(?:cpus=)?([0-9]{1,5})", value) or re.search(r"\bcpus=([0-9]{1,5})", value)
    if found is None:
        raise BadTarget(where, f"-smp {value} does not say how many CPUs there are: cpus=N")
    return int(found[1]) + arguments.count("-device")


def _completed(arguments: Sequence[str], board: Board) -> Iterator[str]:
    """With a CPU model that shows SMT, and memory, where these were not given."""
    if "-cpu" not in arguments:
        yield from ("-cpu", board.cpu)
    if "-m" not in arguments:
        sizes = re.findall(r"size=([0-9]+)([MG])", " ".join(arguments))
        total = sum(int(size) * (1024 if unit == "G" else 1) for size, unit in sizes)
        yield from ("-m", f"{total or 1024}M")
    yield from arguments
