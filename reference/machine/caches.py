"""The caches of CPUs, and which of them are uncore caches.

What belongs here: reading ``cpuN/cache/index*``, and to which unit a cache belongs. What never
does: what the allocator makes of an uncore cache.

Only the first CPU of a core is looked at, and of the CPUs that share a cache only their number
counts: a cache belongs to the unit that has as many. Source: cAdvisor,
``utils/sysfs.GetCacheInfo`` and ``utils/sysinfo.addCacheInfo``, v0.37.0 to v0.56.2;
``machine.GetTopology``, v0.35.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from reference.behaviours import Behaviour
from reference.golang.strconv import NotANumber, parse_uint, scan_int, scan_uint, trim
from reference.machine.machineinfo import Cache, Core
from reference.machine.online import SYSTEM_CPUS
from reference.machine.sysfs import SysFS, Unreadable
from reference.releases import Release, has

_PRIVATE_LEVELS: Final = 2
_SIZE_UNIT: Final = 1024
_PLAIN_MAP: Final = re.compile(r"[0-9a-f]{1,16}(?:,[0-9a-f]{1,16})*\n?", re.ASCII)


class _Shared(NamedTuple):
    cache: Cache
    cpus: int


class _Unknown(Exception):
    """A file of a cache is missing or makes no sense."""


class CacheReader:
    """Reads caches as ``release`` does. ``with_ids``: whether it reads their ids, which a kernel
    may not show; on s390x it never does."""

    __slots__ = ("_counts", "_numbers", "_sizes", "_sysfs", "_uncore", "_with_ids")

    def __init__(self, sysfs: SysFS, release: Release, *, with_ids: bool) -> None:
        self._sysfs = sysfs
        self._uncore = has(release, Behaviour.CACHE_IDS)
        self._with_ids = with_ids and self._uncore
        # The files of all caches have few different texts.
        self._numbers = _Known(scan_int)
        self._sizes = _Known(lambda text: scan_uint(text, suffix="K") * _SIZE_UNIT)
        self._counts = _Known(_count_bits)

    def of_node(self, cores: tuple[Core, ...]) -> tuple[tuple[Core, ...], tuple[Cache, ...]]:
        """The cores of a node with their caches, and the caches of the node. After the first file
        that cannot be read the rest of the node has none."""
        done: list[Core] = []
        of_node: dict[Cache, None] = {}
        try:
            for core in cores:
                own, uncore, shared = self._sorted(core, len(cores) * len(core.thread_ids))
                of_node.update(dict.fromkeys(shared))
                done.append(core._replace(caches=tuple(own), uncore_caches=tuple(uncore)))
        except (_Unknown, Unreadable):
            pass
        return (*done, *cores[len(done) :]), tuple(of_node)

    def of_first_core(self, cores: tuple[Core, ...]) -> tuple[tuple[Core, ...], tuple[Cache, ...]]:
        """The same up to 1.18: what the first CPU of the node shows holds for all its cores."""
        try:
            own, _, shared = self._sorted(cores[0], len(cores) * len(cores[0].thread_ids))
        except (_Unknown, Unreadable):
            return cores, ()
        return tuple(core._replace(caches=tuple(own)) for core in cores), tuple(shared)

    def _sorted(
        self, core: Core, of_node: int
    ) -> tuple[list[Cache], dict[Cache, None], list[Cache]]:
        """A core's own caches, its uncore caches, and those that span the node, by the number of
        CPUs that share them."""
        own: list[Cache] = []
        uncore: dict[Cache, None] = {}
        shared: list[Cache] = []
        for cache, cpus in list(self._of_cpu(core.thread_ids[0])):
            if cache.level > _PRIVATE_LEVELS and cpus == of_node:
                shared.append(cache)
            elif cache.level > _PRIVATE_LEVELS and self._uncore:
                uncore[cache] = None
            elif cpus == len(core.thread_ids):
                own.append(cache)
        return own, uncore, shared

    def _of_cpu(self, cpu: int) -> Iterator[_Shared]:
        folder = self._sysfs.folder(f"{SYSTEM_CPUS}/cpu{cpu}/cache")
        names = self._sysfs.names(folder)
        if names is None:
            raise _Unknown
        for name in names:
            if name.startswith("index"):
                yield self._cache(f"{folder}/{name}")

    def _cache(self, folder: str) -> _Shared:
        numbers, read = self._numbers, self._sysfs.read
        try:
            number = numbers[read(f"{folder}/id")] if self._with_ids else 0
            size = self._sizes[read(f"{folder}/size")]
            level = numbers[read(f"{folder}/level")]
            kind = read(f"{folder}/type")
            cpus = self._counts[read(f"{folder}/shared_cpu_map")]
        except NotANumber:
            raise _Unknown from None
        if kind is None:
            raise _Unknown
        return _Shared(Cache(number, size, level, trim(kind)), cpus)


class _Known(dict[str | None, int]):
    """The numbers that a function makes of texts, each made once; ``None`` raises
    :class:`_Unknown`."""

    __slots__ = ("_parse",)

    def __init__(self, parse: Callable[[str], int]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, text: str | None) -> int:
        if text is None:
            raise _Unknown
        number = self[text] = self._parse(text)
        return number


def _count_bits(cpu_map: str) -> int:
    if _PLAIN_MAP.fullmatch(cpu_map):  # as kernels write it: the words can be read at once
        return int(cpu_map.replace(",", ""), 16).bit_count()
    return sum(parse_uint(trim(word), base=16).bit_count() for word in cpu_map.split(","))
