"""Which files a capture holds: one table, from which both the script on the node and the check of
what it sent are made.

They are the files that the kubelet (through cAdvisor's ``utils/sysfs`` and ``machine``), lscpu
(util-linux ``sys-utils/lscpu*.c``) and hwloc (``topology-linux.c``) read below the three places of
a tree, and ``smt/``, which says why siblings are offline. What is not named here is never read on a
node: ``topology/ppin`` (a CPU's serial number), ``crash_notes`` (kernel addresses),
``numastat``, the memory blocks, and whatever the next kernel adds.
"""

from __future__ import annotations

import re
from typing import Final

from topologies.paths import CPU, CPUINFO, NODE

_SETS: Final = ("thread", "core", "book", "drawer")  # …_siblings
_CPUS: Final = ("core", "cluster", "die", "package")  # …_cpus

#: File names of each folder; ``#`` stands for a number, ``*`` for a part of a path.
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    CPU: ("kernel_max", "offline", "online", "possible", "present", "dispatching"),
    f"{CPU}/smt": ("active", "control"),
    f"{CPU}/vulnerabilities": ("*",),
    f"{CPU}/types/*": ("cpulist", "cpumap"),
    f"{CPU}/cpufreq/policy#": ("base_frequency", "cpuinfo_max_freq", "cpuinfo_min_freq"),
    f"{CPU}/cpu#": ("online", "cpu_capacity", "address", "configure", "polarization"),
    f"{CPU}/cpu#/topology": (
        "core_id", "physical_package_id", "die_id", "cluster_id", "book_id", "drawer_id",
        *(f"{name}_siblings{form}" for name in _SETS for form in ("", "_list")),
        *(f"{name}_cpus{form}" for name in _CPUS for form in ("", "_list")),
    ),
    f"{CPU}/cpu#/cache/index#": (
        "id", "level", "type", "size", "shared_cpu_list", "shared_cpu_map",
        "coherency_line_size", "number_of_sets", "physical_line_partition",
        "ways_of_associativity",
    ),
    f"{CPU}/cpu#/acpi_cppc": (
        "highest_perf", "lowest_perf", "nominal_perf", "nominal_freq", "lowest_freq",
    ),
    # Kernels that give each CPU a folder instead of a link to its policy.
    f"{CPU}/cpu#/cpufreq": ("base_frequency", "cpuinfo_max_freq", "cpuinfo_min_freq"),
    NODE: (
        "online", "possible", "has_cpu", "has_memory", "has_normal_memory",
        "has_generic_initiator",
    ),
    f"{NODE}/node#": ("cpulist", "cpumap", "distance", "meminfo"),
    f"{NODE}/node#/hugepages/hugepages-#kB": (
        "nr_hugepages", "free_hugepages", "surplus_hugepages",
    ),
    f"{NODE}/node#/memory_side_cache/index#": (
        "indexing", "line_size", "size", "write_policy",
    ),
    f"{NODE}/node#/access#/initiators": (
        "read_bandwidth", "read_latency", "write_bandwidth", "write_latency",
    ),
}  # fmt: skip

#: Links, by the folder that holds them.
_LINKS: Final[dict[str, tuple[str, ...]]] = {
    f"{CPU}/cpu#": ("node#", "cpufreq"),
    f"{NODE}/node#": ("cpu#",),
    f"{NODE}/node#/access#/initiators": ("node#",),
    f"{NODE}/node#/access#/targets": ("node#",),
}

FILES: Final = (
    *(f"{folder}/{name}" for folder, names in _NAMES.items() for name in names),
    CPUINFO,
)
LINKS: Final = tuple(f"{folder}/{name}" for folder, names in _LINKS.items() for name in names)


def glob(pattern: str) -> str:
    """A pattern of the table as the shell expands it. It matches a little more than was meant
    (``cpu0x`` for ``cpu#``), which :func:`is_file` and :func:`is_link` drop."""
    return pattern.replace("#", "[0-9]*")


def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    texts = (
        re.escape(pattern).replace(r"\#", "[0-9]{1,10}").replace(r"\*", "[A-Za-z0-9_.-]{1,64}")
        for pattern in patterns
    )
    return re.compile("|".join(texts), re.ASCII)


_IS_FILE: Final = _expression(FILES)
_IS_LINK: Final = _expression(LINKS)


def is_file(path: str) -> bool:
    """Whether a capture may hold a file of this path."""
    return _IS_FILE.fullmatch(path) is not None


def is_link(path: str) -> bool:
    """Whether a capture may hold a link of this path."""
    return _IS_LINK.fullmatch(path) is not None
