"""What each architecture shows of a CPU: which files of ``topology/`` and ``cache/`` it has.

Compared with real trees of each: an x86 hybrid processor (i7-1370P), Kunpeng 920, POWER7,
zEnterprise 196, and Debian's Linux 6.1 of each architecture in QEMU.

=======  =========================================================================================
x86      dies; caches with ids; ``cpu0`` has no switch. Cores of two kinds have clusters (5.16) that
         share an L2, and core ids in steps of four where a core is large
arm64    no dies; clusters, here of one core and without an id; caches without ids
ppc64    core ids are the lowest CPU of the core; an L3 for each core; caches without ids
s390x    books and drawers; neither caches nor NUMA nodes
=======  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from topologies.spec import Spec

#: A set of CPUs as the kernel shows it twice: mask and list, each with its newline.
Texts = tuple[str, str]

_THREADS: Final = (("thread_siblings", "core"), ("core_cpus", "core"))
_PACKAGES: Final = (("core_siblings", "package"), ("package_cpus", "package"))
_CLUSTERS: Final = (("cluster_cpus", "cluster"),)
_SETS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "": (*_THREADS, *_PACKAGES, ("die_cpus", "package")),
    "arm64": (*_THREADS, *_CLUSTERS, *_PACKAGES),
    "ppc64": (*_THREADS, *_PACKAGES),
    "s390x": (*_THREADS, *_PACKAGES, ("book_siblings", "book"), ("drawer_siblings", "drawer")),
}
#: Level, type, KiB, ways of associativity, and which CPUs share it.
_Cache = tuple[int, str, int, int, str]
_CACHES: Final[Mapping[str, tuple[_Cache, ...]]] = {
    "": (
        (1, "Data", 48, 12, "core"),
        (1, "Instruction", 32, 8, "core"),
        (2, "Unified", 2048, 16, "cluster"),
        (3, "Unified", 32768, 16, "l3"),
    ),
    "arm64": (
        (1, "Data", 64, 4, "core"),
        (1, "Instruction", 64, 4, "core"),
        (2, "Unified", 1024, 8, "core"),
        (3, "Unified", 32768, 16, "l3"),
    ),
    "ppc64": (
        (1, "Data", 32, 8, "core"),
        (1, "Instruction", 48, 6, "core"),
        (2, "Unified", 2048, 8, "core"),
        (3, "Unified", 8192, 16, "core"),
    ),
    "s390x": (),
}
_LARGE_STEP: Final = 4
#: kHz of a large and of a small core: their highest, and what is guaranteed.
_SPEEDS: Final = {False: (5000000, 1900000), True: (3700000, 1400000)}


@dataclass(frozen=True, slots=True)
class Core:
    """One physical core: the ids of its places, and its CPUs as a set and in thread order.
    ``place`` counts it in its package and ``number`` in the machine; ``cluster`` and ``cache`` are
    counted over the machine."""

    package: int
    node: int
    place: int
    number: int
    cluster: int
    cache: int
    book: int
    drawer: int
    small: bool
    cpus: tuple[int, ...]
    mask: int


def core_id(spec: Spec, core: Core) -> int:
    """The core's id, as the architecture numbers cores."""
    if spec.architecture == "ppc64":
        return min(core.cpus)
    if spec.architecture == "s390x":
        return core.number
    large = spec.cores - spec.small
    if not 0 < large < spec.cores:
        return core.place
    return core.place * _LARGE_STEP if not core.small else core.place + large * (_LARGE_STEP - 1)


def files(spec: Spec, core: Core, shared: Mapping[str, Texts]) -> list[tuple[str, str]]:
    """The files of ``cpuN/topology``, ``cache``, and others that each CPU of ``core`` has.
    ``shared`` says which CPUs lie with it in its core, cluster, package, L3, book and drawer."""
    found = [*_ids(spec, core), *_sets(spec, shared), *_caches(spec, core, shared)]
    if spec.small:
        highest, base = _SPEEDS[core.small]
        found += [("acpi_cppc/highest_perf", f"{highest // 100000}\n")]
        found += [("acpi_cppc/nominal_freq", f"{base // 1000}\n")]
        found += [
            ("cpufreq/cpuinfo_max_freq", f"{highest}\n"),
            ("cpufreq/base_frequency", f"{base}\n"),
        ]
    if spec.architecture == "arm64":
        found.append(("cpu_capacity", "1024\n"))
    if spec.architecture == "s390x":
        found += [("configure", "1\n"), ("polarization", "horizontal\n")]
    return found


def _ids(spec: Spec, core: Core) -> Iterator[tuple[str, str]]:
    own = core_id(spec, core)
    yield "topology/core_id", f"{own}\n"
    if not spec.architecture:
        yield "topology/die_id", "0\n"
    yield "topology/physical_package_id", f"{core.package}\n"
    if spec.small:
        yield "topology/cluster_id", f"{(own & -_LARGE_STEP) * 2}\n"
    if spec.architecture == "arm64":
        yield "topology/cluster_id", "-1\n"
    if spec.architecture == "s390x":
        yield "topology/book_id", f"{core.book}\n"
        yield "topology/drawer_id", f"{core.drawer}\n"


def _sets(spec: Spec, shared: Mapping[str, Texts]) -> Iterator[tuple[str, str]]:
    for name, level in (*_SETS[spec.architecture], *(_CLUSTERS if spec.small else ())):
        mask, cpus = shared[level]
        yield f"topology/{name}", mask
        yield f"topology/{name}_list", cpus


def _caches(spec: Spec, core: Core, shared: Mapping[str, Texts]) -> Iterator[tuple[str, str]]:
    """Ids are unique for each level and type over the machine."""
    numbers = {"core": core.number, "cluster": core.cluster, "l3": core.cache}
    for index, (level, kind, size, ways, sharers) in enumerate(_CACHES[spec.architecture]):
        mask, cpus = shared[sharers]
        facts: tuple[tuple[str, int | str], ...] = (
            ("coherency_line_size", _line(spec)),
            ("id", numbers[sharers]),
            ("level", level),
            ("number_of_sets", size * 1024 // (_line(spec) * ways)),
            ("physical_line_partition", 1),
            ("shared_cpu_list", cpus[:-1]),
            ("shared_cpu_map", mask[:-1]),
            ("size", f"{size}K"),
            ("type", kind),
            ("ways_of_associativity", ways),
        )
        x86_alone = ("id", "physical_line_partition") if spec.architecture else ()
        for name, value in facts:
            if name not in x86_alone:
                yield f"cache/index{index}/{name}", f"{value}\n"


def _line(spec: Spec) -> int:
    return 128 if spec.architecture == "ppc64" else 64
