"""The promises: one table.

What belongs here: id, sentence, source and releases of each. What never does: how one is judged
(``views``, ``histories``, ``placement``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.promises import answers, histories, placement, views
from conformance.scenarios.sources import (
    ACROSS_CORES,
    ACROSS_NUMA,
    BY_SOCKET,
    DEVICE_PLUGINS,
    DISTRIBUTED_BY_SOCKET,
    EVERY_ROUND,
    FULL_PCPUS,
    KEP,
    METRICS,
    STRICT,
    TASK_PAGE,
    TOPOLOGY_ORDER,
    TOPOLOGY_POLICIES,
    UNCORE_CACHE,
)
from conformance.source import Source
from reference.releases import minor_of


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise. ``rule``: the sentence, as violations name it. ``since`` and ``until``: the first
    and last minor that it is made for (``""``: every later one)."""

    id: str
    rule: str
    source: Source
    since: str = "1.9"
    until: str = ""

    def is_made_for(self, release: str) -> bool:
        """Whether users of this release may rely on it."""
        minor = minor_of(release)
        return minor_of(self.since) <= minor <= minor_of(self.until or release)


#: Every promise.
PROMISES: Final = (
    Promise("keeps-cpus", histories.KEEPS_CPUS, TASK_PAGE, since="1.8"),
    Promise("exclusive-to-one", views.EXCLUSIVE_TO_ONE, TASK_PAGE),
    Promise("pool-apart", views.POOL_APART, TASK_PAGE),
    Promise("no-cpu-lost", views.EVERY_CPU, TASK_PAGE),
    Promise("no-cpu-lost-under-strict", views.EVERY_CPU_UNDER_STRICT, STRICT, since="1.32"),
    Promise("reserved-stay", views.RESERVED_STAY, TASK_PAGE),
    Promise("pool-not-empty", views.POOL_NOT_EMPTY, TASK_PAGE),
    Promise("as-requested", views.AS_REQUESTED, TASK_PAGE),
    Promise("booked-as-asked", histories.BOOKED_AS_ASKED, TASK_PAGE),
    Promise("as-state-file", views.AS_BOOKED, TASK_PAGE),
    Promise("kernel-follows", views.KERNEL_FOLLOWS, TASK_PAGE),
    Promise("starts-again", histories.STARTS_AGAIN, KEP),
    Promise("goes-on", histories.GOES_ON, KEP),
    Promise("admitted", histories.ADMITTED, TASK_PAGE),
    Promise("as-new", histories.AS_NEW, TASK_PAGE),
    Promise("answers", histories.ANSWERS, TASK_PAGE),
    Promise("whole-cores", placement.WHOLE_CORES, FULL_PCPUS, since="1.22"),
    Promise("even-over-numa", placement.EVEN_OVER_NUMA, ACROSS_NUMA, since="1.23"),
    Promise("over-cores", placement.OVER_CORES, ACROSS_CORES, since="1.31"),
    Promise("one-cache", placement.ONE_CACHE, UNCORE_CACHE, since="1.32"),
    Promise("one-socket", placement.ONE_SOCKET, BY_SOCKET, since="1.25"),
    Promise(
        "one-socket-distributed",
        placement.ONE_SOCKET_DISTRIBUTED,
        DISTRIBUTED_BY_SOCKET,
        since="1.37",
    ),
    Promise("one-numa", placement.ONE_NUMA, TOPOLOGY_POLICIES, since="1.16"),
    Promise("one-numa-if-it-fits", placement.ONE_NUMA_IF_IT_FITS, TOPOLOGY_POLICIES, since="1.16"),
    Promise("whole-parts-first", placement.WHOLE_PARTS_FIRST, TOPOLOGY_ORDER),
    Promise("starts", histories.STARTS, TASK_PAGE),
    Promise("true-reason", histories.TRUE_REASON, FULL_PCPUS, since="1.22"),
    Promise("no-quota", histories.NO_QUOTA, TASK_PAGE),
    Promise("left-alone", histories.LEFT_ALONE, EVERY_ROUND),
    Promise("exclusive-alone", answers.EXCLUSIVE_ALONE, DEVICE_PLUGINS, since="1.20"),
    Promise("allocatable", answers.ALLOCATABLE, DEVICE_PLUGINS, since="1.21"),
    Promise("gauges", answers.GAUGES, METRICS, since="1.32"),
    Promise("near-every-device", answers.NEAR_EVERY_DEVICE, ACROSS_NUMA, since="1.23"),
    Promise("socket-of-devices", answers.SOCKET_OF_DEVICES, BY_SOCKET, since="1.25"),
    Promise("reported", views.POD_RESOURCES_AS_STATE_FILE, KEP, since="1.20"),
    Promise("no-deleted-pod", views.NO_DELETED_POD_REPORTED, KEP, since="1.20"),
)

_BY_RULE: Final = {one.rule: one for one in PROMISES}


def promise_of(rule: str) -> Promise:
    """The promise with this sentence. Raises ``KeyError``."""
    return _BY_RULE[rule]
