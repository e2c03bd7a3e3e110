"""A machine as QEMU's arguments. Nothing is started here.

QEMU's Intel models show sockets, dies, cores and threads, and one L3 for each die (its AMD models
do not under TCG: that needs ``topoext``). Linux numbers the CPUs that are there at boot in the
order of the firmware's table (MADT), which QEMU writes by APIC id: socket, die, core, thread, so
that threads of a core are neighbours. A machine with another numbering gets a table of its own
(:mod:`topologies.capturing.acpi`). A table cannot leave gaps between ids. A gap is a CPU of a
further socket that is plugged in after the boot, takes the next free id, and is unplugged again.
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

#: MiB: the least for a guest to boot, for each of its CPUs, and for each NUMA node.
_LEAST_MEMORY: Final = 512
_MEMORY_PER_CPU: Final = 8
_LEAST_NODE: Final = 64

#: The options of QEMU that shape a machine, and reach no file and no network of the host.
_RAW: Final[dict[str, re.Pattern[str]]] = {
    "-smp": re.compile(r"[a-z0-9=,]{1,200}"),
    "-m": re.compile(r"[A-Za-z0-9=,]{1,60}"),
    "-numa": re.compile(r"[A-Za-z0-9_=,.:-]{1,400}"),
    "-object": re.compile(r"memory-backend-ram,[A-Za-z0-9_=,.-]{1,200}"),
    "-cpu": re.compile(r"[A-Za-z0-9_]{1,40}(-[A-Za-z0-9_]+)*(,[+-]?[a-z0-9_.-]+(=[a-z0-9]+)?)*"),
    "-device": re.compile(r"[A-Za-z0-9_-]{1,60}-x86_64-cpu(,(socket|die|core|thread)-id=[0-9]+)*"),
    "-machine": re.compile(r"(smp-cache\.[0-9]+\.[a-z]+=[a-z0-9]+|hmat=(on|off)|,){1,20}"),
}
#: Options that are carried out inside the guest.
_IN_GUEST: Final = ("-offline", "-nosmt")


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
    """A machine to boot. ``arguments`` are QEMU's. ``table`` has the CPUs in the firmware's order,
    as (processor uid, APIC id); it is empty for QEMU's own order. ``plug`` are the CPUs to plug in
    after the boot, in runs that may go in at once; ``unplug`` are the ids of those to unplug when
    all are in; ``offline`` are the ids to take offline. ``kernel`` is appended to the kernel's
    command line. ``spec`` is what the guest's tree must agree with, or ``""``; ``text`` is what the
    user asked for. ``cpus`` counts all CPUs that are ever in."""

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
    :class:`BadTarget`, whose text says why."""
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
    at_boot = min(_ascending(ranks), gaps[0]) if gaps else len(order)
    all_at_boot = at_boot == total
    in_qemus_order = ranks == list(range(total))
    offline = tuple(ids(spec.offline))
    return Layout(
        text=name,
        arguments=(
            *_shape(spec, total, booted=total if all_at_boot else 1),
            *_memory(spec, ranks, total),
            *_devices(() if all_at_boot else order[1:at_boot]),
        ),
        cpus=len(order),
        table=() if gaps or in_qemus_order else tuple(_table(spec, order)),
        plug=tuple(_runs(order[at_boot:], ranks[at_boot:])),
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
    """One place for each id up to the last: an id in a gap gets a CPU of a further socket."""
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
    """The number of sockets, with and without CPUs."""
    return 1 + max((spec.sockets - 1) * spec.package_step, *(place.socket for place in order))


def _dies(spec: Spec) -> int:
    """L3 caches of one socket."""
    return spec.caches * spec.units // spec.sockets if spec.caches else 1


def _cores_per_die(spec: Spec) -> int:
    return spec.cores // spec.sockets // _dies(spec)


def _rank(spec: Spec, place: Place) -> int:
    """QEMU's index of the CPU, which counts places without a CPU too."""
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
    """The length of the ascending run at the start."""
    count = 1
    while count < len(ranks) and ranks[count] > ranks[count - 1]:
        count += 1
    return count


def _runs(places: Sequence[Place], ranks: Sequence[int]) -> Iterator[tuple[Place, ...]]:
    """``places`` in pieces of ascending rank: the guest looks for new CPUs in that order."""
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
    """NUMA nodes with their memory, CPUs and distances. Node 0 also gets the places that stay empty
    and those of gaps: QEMU wants every place in a node."""
    tree = describe(str(spec).partition("-off")[0]).tree
    nodes = spec.nodes + spec.memory_nodes
    wanted = max(_LEAST_MEMORY, _MEMORY_PER_CPU * len(ranks))
    unused = (1 << total) - 1 & ~bits(ranks[cpu] for cpu in ids(spec.present))
    each = max(_LEAST_NODE, -(-wanted // nodes // 32) * 32)
    yield from ("-m", f"{each * nodes}M")
    for node in range(nodes):
        members = parse_list(tree[f"{NODE}/node{node}/cpulist"])
        own = bits(ranks[cpu] for cpu in ids(members))
        own |= 0 if node else unused
        cpus = "".join(f",cpus={piece}" for piece in format_list(own).split(",") if piece)
        yield from ("-object", f"memory-backend-ram,id=m{node},size={each}M")
        yield from ("-numa", f"node,nodeid={node}{cpus},memdev=m{node}")
    for node in range(nodes):
        for other, value in enumerate(tree[f"{NODE}/node{node}/distance"].split()):
            if other != node:
                yield from ("-numa", f"dist,src={node},dst={other},val={value}")


# --- from QEMU's own options -------------------------------------------------------------------


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
            allowed = ", ".join([*_RAW, *_IN_GUEST])
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
    """``arguments`` with memory, and a CPU model that shows SMT, where they lack these."""
    if "-cpu" not in arguments:
        yield from ("-cpu", board.cpu)
    if "-m" not in arguments:
        sizes = re.findall(r"size=([0-9]+)([MG])", " ".join(arguments))
        total = sum(int(size) * (1024 if unit == "G" else 1) for size, unit in sizes)
        yield from ("-m", f"{total or 1024}M")
    yield from arguments
