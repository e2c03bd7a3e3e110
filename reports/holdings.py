"""Who holds which CPUs, from a failure's records to what a picture is drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from conformance.results import Holding, MachineRecord, Result
from reports.text import cpus, line

#: A machine with more CPUs than this is not drawn; Linux stops at 8192, and such a picture would
#: be no help. The largest machine sold has fewer.
MOST_CPUS: Final = 4096

Owners: TypeAlias = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Pictures:
    """What two pictures side by side need: the owners by what is expected and by what was seen,
    and the CPUs that changed hands between them."""

    cpus: Mapping[int, tuple[int, int, int, int]]
    expected: Owners
    seen: Owners
    differing: frozenset[int]


def pictures(result: Result) -> Pictures | None:
    """The holdings of a result's failure, or ``None`` where there is nothing to draw."""
    failure = result.failure
    if failure is None or not drawable(result.machine):
        return None
    if not failure.expected_holdings and not failure.seen_holdings:
        return None
    expected = owners(failure.expected_holdings, result.machine)
    seen = owners(failure.seen_holdings, result.machine)
    return Pictures(result.machine.cpus, expected, seen, _differing(expected, seen))


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


def _differing(expected: Owners, seen: Owners) -> frozenset[int]:
    return frozenset().union(
        *(
            expected.get(owner, frozenset()) ^ seen.get(owner, frozenset())
            for owner in expected.keys() | seen.keys()
        )
    )
