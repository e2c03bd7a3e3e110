"""The grammar in which a machine is described by its totals.

::

    spec    = S "s-" N "n-" C "c-smt" T  *( "-" suffix )
    suffix  = "arm64" | "ppc64" | "s390x" | "near" | "interleaved" | "l3x" K | "l3s" | "e" E
            | "books" B | "drawers" D
            | "cpustep" I | "pkgstep" I | "nodestep" I | "mem" M | "off" LIST

``2s-4n-64c-smt2`` has in total 2 sockets, 4 NUMA nodes, 64 physical cores, and 2 threads in each
core: 128 CPUs. Of sockets and NUMA nodes one number must divide the other. Cores spread over the
sockets, and those of a socket over its NUMA nodes, as evenly as they can, the larger parts first:
the 128 of ``1s-3n-128c-smt2`` are 43, 43 and 42. So do those of a node over its L3s. With more
sockets than NUMA nodes, neighbouring sockets share a node.

Suffixes say what departs from the defaults, each at most once, in any order; the order above is
the canonical one, in which names are written.

=============  ===================================================================================
arm64, ppc64,  the files of that architecture; its threads are neighbours. Default: x86.
s390x          :mod:`topologies.flavours` says what is different
near           the threads of a core have neighbouring ids. Default, as x86 kernels number them:
               far, thread ``t`` of core ``i`` is CPU ``i + t * C``
interleaved    consecutive cores go round the sockets (inside a socket they fill its NUMA nodes
               one after the other). Default, blocked: they fill one socket after the other
l3xK           K uncore caches (L3) in each NUMA node; in each socket where sockets share a node.
               Default: 1
l3s            one L3 for each whole socket, across its NUMA nodes (Intel's sub-NUMA clustering)
eE             the last E cores are small (x86 hybrid): one thread each, four share an L2
booksB         the sockets lie in B books (s390x). Default: 1
drawersD       the books lie in D drawers (s390x). Default: 1
cpustepI       CPU ids are multiples of I
pkgstepI       package ids are multiples of I
nodestepI      NUMA node ids are multiples of I
memM           M more NUMA nodes have memory and no CPU (CXL, HBM); their ids follow the others
offLIST        these CPUs, a Linux CPU list such as ``3,7-9``, are offline
=============  ===================================================================================

A suffix that changes nothing on its machine (``near`` without SMT) is legal and dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from topologies.cpulist import format_list, parse_list
from topologies.errors import BadSpec

#: Linux on x86 stops here (``NR_CPUS``).
MAX_CPUS: Final = 8192
MAX_NODES: Final = 1024

_TOTALS: Final = re.compile(
    r"(?P<sockets>[0-9]{1,5})s-(?P<nodes>[0-9]{1,5})n-(?P<cores>[0-9]{1,5})c"
    r"-smt(?P<threads>[0-9]{1,5})(?P<suffixes>(-.*)?)",
    re.ASCII,
)
_SUFFIX: Final = re.compile(
    r"-(?:(?P<flag>near|interleaved|l3s)|(?P<architecture>arm64|ppc64|s390x)"
    r"|(?P<name>l3x|e|books|drawers|cpustep|pkgstep|nodestep|mem)(?P<number>[0-9]{1,5})"
    r"|off(?P<offline>[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*))"
    r"(?=-[a-z]|$)",
    re.ASCII,
)
_FIELDS: Final = {
    "l3x": "caches",
    "e": "small",
    "books": "books",
    "drawers": "drawers",
    "cpustep": "cpu_step",
    "pkgstep": "package_step",
    "nodestep": "node_step",
    "mem": "memory_nodes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A described machine: totals, and departures from the defaults. ``caches`` counts L3s in
    each NUMA node (or socket, whichever is the smaller part), 0 for one L3 a whole socket;
    ``small`` counts cores of the other kind, ``offline`` is a set of CPU ids as an int;
    ``architecture`` is ``""`` for x86. ``str()`` is the canonical spec."""

    sockets: int
    nodes: int
    cores: int
    threads: int
    architecture: str = ""
    near: bool = False
    interleaved: bool = False
    caches: int = 1
    small: int = 0
    books: int = 1
    drawers: int = 1
    cpu_step: int = 1
    package_step: int = 1
    node_step: int = 1
    memory_nodes: int = 0
    offline: int = 0

    @property
    def units(self) -> int:
        """How many parts belong to one socket and one NUMA node."""
        return max(self.sockets, self.nodes)

    @property
    def cpus(self) -> int:
        """How many CPUs there are, online or not."""
        return self.cores * self.threads - self.small * (self.threads - 1)

    @property
    def present(self) -> int:
        """The CPUs there are, online or not, as a set."""
        count, step = self.cpus, self.cpu_step
        if step == 1:
            return (1 << count) - 1
        return sum(1 << cpu for cpu in range(0, count * step, step))

    @property
    def parts(self) -> list[list[int]]:
        """How many cores each NUMA node of each socket has; a socket that shares its node counts
        as one part."""
        each = max(1, self.nodes // self.sockets)
        return [shares(cores, each) for cores in shares(self.cores, self.sockets)]

    def __str__(self) -> str:
        pieces = [f"{self.sockets}s", f"{self.nodes}n", f"{self.cores}c", f"smt{self.threads}"]
        if self.architecture:
            pieces.append(self.architecture)
        if self.near:
            pieces.append("near")
        if self.interleaved:
            pieces.append("interleaved")
        if self.caches != 1:
            pieces.append(f"l3x{self.caches}" if self.caches else "l3s")
        if self.small:
            pieces.append(f"e{self.small}")
        for name in ("books", "drawers", "cpustep", "pkgstep", "nodestep"):
            if (step := getattr(self, _FIELDS[name])) != 1:
                pieces.append(f"{name}{step}")
        if self.memory_nodes:
            pieces.append(f"mem{self.memory_nodes}")
        if self.offline:
            pieces.append(f"off{format_list(self.offline)}")
        return "-".join(pieces)


def shares(total: int, parts: int) -> list[int]:
    """``total`` in ``parts`` parts, as even as they can be, the larger ones first."""
    least, more = divmod(total, parts)
    return [least + (part < more) for part in range(parts)]


def looks_like_spec(text: str) -> bool:
    """Whether ``text`` starts as a spec does, so that an error in it is reported as a spec's."""
    return _TOTALS.fullmatch(text) is not None


def parse(text: str) -> Spec:
    """Read a spec; raises :class:`BadSpec`, which says why."""
    found = _TOTALS.fullmatch(text)
    if found is None:
        raise BadSpec(text, "a spec starts like 2s-4n-64c-smt2")
    values = {name: int(found[name]) for name in ("sockets", "nodes", "cores", "threads")}
    spec = Spec(**values, **_suffixes(text, found["suffixes"]))  # type: ignore[arg-type]
    reason = _impossible(spec)
    if reason:
        raise BadSpec(text, reason)
    return _canonical(spec)


def _suffixes(text: str, rest: str) -> dict[str, int | str]:
    values: dict[str, int | str] = {}
    at = 0
    while at < len(rest):
        found = _SUFFIX.match(rest, at)
        if found is None:
            raise BadSpec(text, f"{rest[at + 1 :]!r} is not a suffix of the grammar")
        try:
            field, value = _suffix(found)
        except ValueError as error:
            raise BadSpec(text, str(error)) from error
        if field in values:
            raise BadSpec(text, f"{found[0][1:]!r} repeats what another suffix says")
        values[field] = value
        at = found.end()
    return values


def _suffix(found: re.Match[str]) -> tuple[str, int | str]:
    if found["offline"]:
        return "offline", parse_list(found["offline"])
    if found["flag"] == "l3s":
        return "caches", 0
    if found["flag"]:
        return found["flag"], True
    if found["architecture"]:
        return "architecture", found["architecture"]
    number = int(found["number"])
    if number == 0 and found["name"] not in ("mem", "e"):
        raise ValueError(f"{found['name']}0 means nothing")
    return _FIELDS[found["name"]], number


def _impossible(spec: Spec) -> str:
    """Why there is no such machine, or ``""``."""
    if not (spec.sockets and spec.nodes and spec.cores and spec.threads):
        return "sockets, NUMA nodes, cores and threads are at least 1"
    if spec.nodes % spec.sockets and spec.sockets % spec.nodes:
        return f"{spec.nodes} NUMA nodes do not spread evenly over {spec.sockets} sockets"
    if spec.cores < spec.units:
        what = "NUMA nodes" if spec.nodes >= spec.sockets else "sockets"
        return f"{spec.cores} cores are too few for {spec.units} {what}"
    least = min(cores for part in spec.parts for cores in part)
    if least < spec.caches:
        return f"{least} cores are too few for {spec.caches} L3 caches"
    if reason := _impossible_kinds(spec) or _impossible_mainframe(spec):
        return reason
    if spec.cpus * spec.cpu_step > MAX_CPUS:
        return f"Linux stops at CPU {MAX_CPUS - 1}"
    if spec.sockets * spec.package_step > MAX_CPUS:
        return f"package ids stop at {MAX_CPUS - 1}"
    if (spec.nodes + spec.memory_nodes) * spec.node_step > MAX_NODES:
        return f"Linux stops at NUMA node {MAX_NODES - 1}"
    if spec.offline & ~spec.present:
        return f"it has no CPU {format_list(spec.offline & ~spec.present)} to take offline"
    if spec.offline == spec.present:
        return "no CPU would be online"
    return ""


def _impossible_kinds(spec: Spec) -> str:
    if not spec.small:
        return ""
    if spec.architecture:
        return f"only descriptions of x86 have small cores, not of {spec.architecture}"
    if spec.small > spec.cores:
        return f"{spec.small} of {spec.cores} cores cannot be small"
    if spec.small == spec.cores and spec.threads > 1:
        return "small cores have one thread: smt1"
    if spec.small < spec.cores and spec.sockets > 1:
        return "cores of two kinds are described in one socket"
    return ""


def _impossible_mainframe(spec: Spec) -> str:
    if spec.architecture == "ppc64" and spec.caches != 1:
        return "on ppc64 each core has an L3 of its own"
    if spec.architecture != "s390x":
        return "" if spec.books == spec.drawers == 1 else "books and drawers are of s390x"
    if spec.nodes != spec.sockets or spec.memory_nodes or spec.node_step > 1:
        return "s390x shows no NUMA nodes, a kubelet takes its sockets for them: write as many"
    if spec.caches != 1 or spec.offline:
        return "neither caches nor offline CPUs are described on s390x"
    if not spec.drawers <= spec.books <= spec.sockets:
        return "there are at least as many sockets as books, and as many books as drawers"
    return ""


def _canonical(spec: Spec) -> Spec:
    """The same machine without the departures that change nothing on it."""
    caches = 1 if not spec.caches and spec.nodes <= spec.sockets else spec.caches
    return replace(
        spec,
        near=spec.near and not spec.architecture and spec.threads > 1 and spec.cores > 1,
        interleaved=spec.interleaved and 1 < spec.sockets < spec.cores,
        caches=caches,
        cpu_step=spec.cpu_step if spec.cpus > 1 else 1,
        package_step=spec.package_step if spec.sockets > 1 else 1,
        node_step=spec.node_step if spec.nodes + spec.memory_nodes > 1 else 1,
    )
