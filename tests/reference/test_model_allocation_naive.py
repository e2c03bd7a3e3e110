"""The allocators against a second implementation: slow, plain, with sets, and written apart.

It follows ``cpu_assignment.go`` of 1.23 to 1.37 step by step, combination by combination, with the
memory of Go slices spelled out. It shares no code with the model, so a mistake would have to be
made twice.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from reference import AllocationError, AllocationHangs, CPUSet, CPUTopology, Place, take_by_topology

NUMA, SOCKET, CORE, UNCORE = range(4)


class Refused(Exception):
    """What the kubelet says."""


class Hang(Exception):
    """The kubelet never comes back."""


@dataclass
class Gathering:
    """One call of the packed allocator: its table of CPUs is filtered anew for every question."""

    machine: CPUTopology
    free: set[int]
    need: int
    result: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.free &= set(self.machine.details)

    def cpus(self, column: int, owner: int, among: set[int] | None = None) -> set[int]:
        table = self.machine.details
        return {cpu for cpu in (table if among is None else among) if table[cpu][column] == owner}

    def average(self, objects: int) -> int:
        return self.machine.num_cpus // objects if objects else 0

    def ids(self, column: int, within: set[int]) -> list[int]:
        found = {self.machine.details[cpu][column] for cpu in within}
        return sorted(found, key=lambda owner: (len(self.cpus(column, owner, self.free)), owner))

    def numa_first(self) -> bool:
        nodes = {place.numa for place in self.machine.details.values()}
        return self.machine.num_sockets >= len(nodes)

    def nested(self, outer: list[int], column: int, inner: int) -> list[int]:
        return [
            one for owner in outer for one in self.ids(inner, self.cpus(column, owner, self.free))
        ]

    def numa_nodes(self) -> list[int]:
        if self.numa_first():
            return self.ids(NUMA, self.free)
        return self.nested(self.ids(SOCKET, self.free), SOCKET, NUMA)

    def sockets(self) -> list[int]:
        if self.numa_first():
            return self.nested(self.ids(NUMA, self.free), NUMA, SOCKET)
        return self.ids(SOCKET, self.free)

    def cores(self) -> list[int]:
        if self.numa_first():
            return self.nested(self.sockets(), SOCKET, CORE)
        return self.nested(self.numa_nodes(), NUMA, CORE)

    def uncores(self) -> list[int]:
        return self.nested(self.numa_nodes(), NUMA, UNCORE)

    def take(self, cpus: set[int]) -> None:
        self.result |= cpus
        self.free -= cpus
        self.need -= len(cpus)

    def take_whole(self, column: int, owners: list[int], size: int | None) -> bool:
        """``size``: the number of free CPUs that makes an object free, ``None``: its own."""
        whole = [
            owner
            for owner in owners
            if len(self.cpus(column, owner, self.free))
            == (len(self.cpus(column, owner)) if size is None else size)
        ]
        for owner in whole:
            cpus = self.cpus(column, owner)
            if len(cpus) <= self.need:
                self.take(cpus)
                if not self.need:
                    return True
        return False

    def take_uncore(self, rounded_up: bool) -> bool:
        per_core = self.average(self.machine.num_cores)
        uncores = {place.uncore for place in self.machine.details.values()}
        for uncore in self.uncores():
            enough = self.need >= self.average(len(uncores))
            if enough and self.take_whole(UNCORE, self.uncores(), None):
                return True
            number = math.ceil(self.need / per_core) if rounded_up else self.need // per_core
            cores = sorted(
                {self.machine.details[cpu].core for cpu in self.cpus(UNCORE, uncore, self.free)}
            )
            found = sorted(
                cpu for core in cores[:number] for cpu in self.cpus(CORE, core, self.free)
            )
            if rounded_up and self.need % 2 and per_core > 1 and len(found) > self.need:
                found = found[:-1]
            if len(found) == self.need:
                self.take(set(found))
                return True
        return False


def require_enough(run: Gathering, available: int) -> None:
    if run.need > len(run.free):
        raise Refused(
            "not enough cpus available to satisfy request: "
            f"requested={run.need}, available={available}"
        )


def packed(
    machine: CPUTopology, free: set[int], number: int, strategy: str, rounded_up: bool
) -> set[int]:
    if number < 1:
        return set()
    run = Gathering(machine, set(free), number)
    require_enough(run, len(free))
    whole = [(NUMA, run.numa_nodes, None), (SOCKET, run.sockets, run.average(machine.num_sockets))]
    for column, owners, size in whole if run.numa_first() else reversed(whole):
        if run.take_whole(column, owners(), size):
            return run.result
    if strategy == "uncore" and run.take_uncore(rounded_up):
        return run.result
    if strategy == "spread":
        order = [cpu for one in run.sockets() for cpu in sorted(run.cpus(SOCKET, one, run.free))]
    else:
        if run.take_whole(CORE, run.cores(), run.average(machine.num_cores)):
            return run.result
        order = [cpu for one in run.cores() for cpu in sorted(run.cpus(CORE, one, run.free))]
    for cpu in order:
        if run.need:
            run.take({cpu})
        if not run.need:
            return run.result
    raise Refused("failed to allocate cpus")


class GoSlice:
    """``append`` writes into the array that others see, unless it is full."""

    def __init__(self, array: list[int] | None = None, length: int = 0) -> None:
        self.array = array if array is not None else []
        self.length = length

    def append(self, value: int) -> GoSlice:
        array = self.array
        if self.length == len(array):
            array = array + [0] * max(1, len(array))
        array[self.length] = value
        return GoSlice(array, self.length + 1)

    def items(self) -> list[int]:
        return self.array[: self.length]


def go_combinations(
    values: list[int], size: int, start: int = 0, so_far: GoSlice | None = None
) -> Iterator[GoSlice]:
    so_far = so_far or GoSlice()
    if size == 0:
        yield so_far
    else:
        for at in range(start, len(values) - size + 1):
            yield from go_combinations(values, size - 1, at + 1, so_far.append(values[at]))


def deviation(left: dict[int, int]) -> float:
    def rounded(value: float) -> float:
        return math.floor(value * 1000 + 0.5) / 1000

    mean = rounded(sum(left.values()) / len(left))
    return rounded(math.sqrt(sum((each - mean) ** 2 for each in left.values()) / len(left)))


def distributed(
    machine: CPUTopology, free: set[int], number: int, group: int, *, new: bool, align: bool
) -> set[int]:
    """``new``: 1.37; ``align``: align-by-socket is on."""
    align = align and new
    run = Gathering(machine, set(free), number)
    require_enough(run, len(free))
    numas = run.numa_nodes()
    held = {node: len(run.cpus(NUMA, node, run.free)) for node in numas}
    all_nodes = len({place.numa for place in machine.details.values()})
    per_node = math.ceil(math.ceil(len(machine.details) / group) / all_nodes)
    wanted = math.ceil(number / group)
    for size in range(math.ceil(wanted / per_node), min(wanted, len(held)) + 1):
        best: float = math.inf
        best_combo: GoSlice | None = None
        best_rest: GoSlice | None = None
        best_inside = False
        for combo in go_combinations(numas, size):
            if best == 0 and (not align or best_inside):
                break
            nodes = combo.items()
            if sum(held[node] for node in set(nodes)) < number:
                continue
            if group * sum(held[node] // group for node in nodes) < number:
                continue
            each = number // size // group * group
            if align:
                each = min([each, *(held[node] // group * group for node in nodes)])
            if any(held[node] < each for node in nodes):
                continue
            after = dict(held)
            for node in nodes:
                after[node] -= each
            rest = number - each * size
            local: float = deviation(after) if rest == 0 else math.inf
            local_rest: GoSlice | None = None
            able = [node for node in nodes if after[node] >= group]
            for few in range(len(able), 0, -1) if rest else ():
                for subset in go_combinations(able, few):
                    dealt = deal_out(after, subset.items(), rest, group)
                    if dealt is not None and deviation(dealt) < local:
                        local, local_rest = deviation(dealt), subset
            sockets = {place.socket for place in machine.details.values() if place.numa in nodes}
            inside = align and len(sockets) <= 1
            if inside if align and inside != best_inside else local < best:
                best, best_combo, best_rest, best_inside = local, combo, local_rest, inside
        if best_combo is not None:
            rest_nodes = best_rest.items() if best_rest else []
            return hand_out(run, best_combo.items(), rest_nodes, number, group, new)
    return packed(machine, free, number, "packed", True)


def deal_out(
    after: dict[int, int], nodes: list[int], rest: int, group: int
) -> dict[int, int] | None:
    left = dict(after)
    if sum(left[node] for node in nodes) < rest:
        return None
    while rest > 0:
        before = rest
        for node in nodes:
            if rest and left[node] >= group:
                left[node] -= group
                rest -= group
        if before == rest:
            raise Hang
    return left


def hand_out(
    run: Gathering, nodes: list[int], rest_nodes: list[int], number: int, group: int, new: bool
) -> set[int]:
    def give(node: int, amount: int) -> None:
        try:
            inside = run.cpus(NUMA, node, run.free)
            run.take(packed(run.machine, inside, amount, "packed", True))
        except Refused:
            pass

    each = number // len(nodes) // group * group
    if new:
        fits = [len(run.cpus(NUMA, node, run.free)) // group * group for node in nodes]
        each = min([each, *fits])
    for node in nodes:
        give(node, each)
    rest = number - each * len(nodes)
    while rest > 0:
        before = rest
        for node in rest_nodes:
            if rest and len(run.cpus(NUMA, node, run.free)) >= group:
                give(node, group)
                rest -= group
        if before == rest:
            raise Hang
    if run.need:
        which = "not enough" if run.need > 0 else "too many"
        raise Refused(f"accounting error, {which} CPUs allocated, remaining: {run.need}")
    return run.result


class Case(NamedTuple):
    """One question to an allocator, in the words of the model."""

    topology: CPUTopology
    available: CPUSet
    cpus: int
    strategy: str
    group_size: int
    align_by_socket: bool
    release: str


def random_machine(dice: random.Random) -> CPUTopology:
    nodes = dice.choice([1, 2, 2, 3, 4, 4, 5, 6, 7])
    sockets = dice.choice([1, 2, nodes, nodes * 2])
    threads, uncore = dice.choice([1, 2, 2, 3, 4]), dice.choice([1, 2, 4])
    cores = max(nodes, sockets) * dice.choice([1, 2, 3])
    near = dice.random() < 0.5
    places = {}
    for core in range(cores):
        for thread in range(threads):
            cpu = core * threads + thread if near else thread * cores + core
            where = (core * nodes // cores, core * sockets // cores)
            places[cpu] = Place(*where, core, core // uncore)
    if dice.random() < 0.3:
        for cpu in dice.sample(sorted(places), len(places) // 4):
            del places[cpu]
    return CPUTopology.of(places)


def random_case(dice: random.Random) -> Case:
    machine = random_machine(dice)
    free = set(machine.details)
    for _ in range(dice.choice([0, 1, 2, len(free) // 3, len(free) // 2])):
        free.discard(dice.choice(sorted(machine.details)))
    strategy = dice.choice(["packed", "spread", "uncore", "distributed", "distributed"])
    group = max(1, dice.choice([1, machine.cpus_per_core]))
    number = dice.randint(0, len(free) + 1)
    if dice.random() < 0.8:
        number -= number % group
    release = dice.choice(["1.33.5", "1.36", "1.37", "1.37"])
    return Case(machine, CPUSet(free), number, strategy, group, dice.random() < 0.5, release)


def said(answer: Callable[[], Iterable[int]]) -> str:
    try:
        return f"takes {CPUSet(answer())}"
    except (AllocationHangs, Hang):
        return "hangs"
    except (AllocationError, Refused) as error:
        return str(error)


def told_by_the_model(case: Case) -> str:
    return said(lambda: take_by_topology(**case._asdict()))


def told_by_the_naive(case: Case) -> str:
    machine, available, number, strategy, group, align, release = case
    free, new = set(available), release == "1.37"
    if strategy == "distributed" and number % group == 0 and number > 0:
        return said(lambda: distributed(machine, free, number, group, new=new, align=align))
    return said(lambda: packed(machine, free, number, strategy, release != "1.33.5"))


@pytest.mark.parametrize("seed", range(8))
def test_both_implementations_say_the_same(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(400):
        case = random_case(dice)
        assert told_by_the_model(case) == told_by_the_naive(case), case


def test_the_random_cases_reach_every_kind_of_answer() -> None:
    dice = random.Random(4)  # as above
    texts = [told_by_the_naive(random_case(dice)) for _ in range(400)]
    for kind in ("takes ", "not enough cpus", "hangs"):
        assert any(text.startswith(kind) for text in texts), kind
