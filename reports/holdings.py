"""Who holds which CPUs, from a failure's records to what a picture is drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from conformance.in_effect import RESERVED_CPUS, differing
from conformance.results import Holding, MachineRecord, Result
from reports.text import cpus, line

#: A machine with more CPUs than this is not drawn; Linux stops at 8192, and such a picture would
#: be no help. The largest machine sold has fewer.
MOST_CPUS: Final = 4096

#: Owners that are no containers.
RESERVED: Final = "reserved"
SHARED_POOL: Final = "shared pool"

Owners: TypeAlias = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Pictures:
    """What the pictures of a failure need: by caption, the owners; and the CPUs to mark."""

    cpus: Mapping[int, tuple[int, int, int, int]]
    sides: Mapping[str, Owners]
    marked: frozenset[int]


def pictures(result: Result) -> Pictures | None:
    """The holdings of a result's failure, or ``None`` where there is nothing to draw.

    Two sides are ``expected`` and ``seen``, and what is marked has changed hands between them. The
    CPUs that the kubelet says it reserves are the reserved ones that were seen.
    Where a promise in words was broken, the holdings that would keep it are not known. Then there
    is one side, and the CPUs that the differences name are marked. Where no CPU is marked the
    failure is about something else, and a picture would not show it.
    """
    failure = result.failure
    machine = drawn_on(result)
    if failure is None or not drawable(machine):
        return None
    sides = {
        "expected": owners(failure.expected_holdings, machine),
        "seen": seen_owners(failure.seen_holdings, result),
    }
    sides = {word: held for word, held in sides.items() if held}
    if len(sides) == 2:
        marked = _changed(*sides.values())
    else:
        named = [text for row in failure.differences for text in (row.missing, row.unexpected)]
        marked = frozenset().union(*(cpus(text, machine.cpus) for text in named))
    return Pictures(machine.cpus, sides, marked) if sides and marked else None


def drawn_on(result: Result) -> MachineRecord:
    """The machine as it was when the failure showed: a scenario may have changed it."""
    if result.failure and result.failure.machine:
        return result.failure.machine
    return result.machine


def drawable(machine: MachineRecord) -> bool:
    """Whether a picture of the machine can be drawn."""
    return 0 < len(machine.cpus) <= MOST_CPUS


def owners(holdings: Iterable[Holding], machine: MachineRecord) -> Owners:
    """By owner, the CPUs it holds that the machine has."""
    held: dict[str, frozenset[int]] = {}
    for holding in holdings:
        owner = line(holding.owner)
        held[owner] = held.get(owner, frozenset()) | cpus(holding.cpus, machine.cpus)
    return held


def seen_owners(holdings: Iterable[Holding], result: Result) -> Owners:
    """By owner, the CPUs it was seen to hold. Reserved CPUs are those of the kubelet's log, where
    the kubelet reserves others than it was given."""
    machine = drawn_on(result)
    held = owners(holdings, machine)
    settings = {name: seen for name, _, seen in differing(result.steps, result.evidence)}
    if not held or RESERVED_CPUS not in settings:
        return held
    containers = {who: had for who, had in held.items() if who not in (RESERVED, SHARED_POOL)}
    shared = held.get(RESERVED, frozenset()) | held.get(SHARED_POOL, frozenset())
    shared -= frozenset().union(*containers.values())
    reserved = cpus(settings[RESERVED_CPUS], machine.cpus)
    return {**containers, RESERVED: reserved, SHARED_POOL: shared - reserved}


def _changed(expected: Owners, seen: Owners) -> frozenset[int]:
    return frozenset().union(
        *(
            expected.get(owner, frozenset()) ^ seen.get(owner, frozenset())
            for owner in expected.keys() | seen.keys()
        )
    )
