"""The machines of a run with their results, and those that are alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from conformance.results import MachineRecord, Result, SubjectRecord
from conformance.verdict import Verdict
from reports.run import Run, verdict_of

#: A kubelet without its node: release, version, digest and facts.
Configuration: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, eq=False)
class Node:
    """A machine and the results on it: the gravest of each scenario, by its id."""

    name: str
    subject: SubjectRecord
    results: Mapping[str, Result]

    @cached_property
    def verdicts(self) -> tuple[tuple[str, Verdict], ...]:
        """Each scenario with its verdict, by id."""
        return tuple((one, verdict_of(self.results[one])) for one in sorted(self.results))

    @cached_property
    def counts(self) -> Counter[Verdict]:
        return Counter(verdict for _, verdict in self.verdicts)

    @cached_property
    def record(self) -> MachineRecord | None:
        """The machine; ``None`` where nothing ran on it."""
        return next((result.machine for result in self.results.values()), None)

    @cached_property
    def kind(self) -> tuple[str, Configuration]:
        """What it has in common with nodes of equal machine and configuration."""
        one = self.subject
        facts = tuple(sorted(one.facts.items()))
        digest = self.record.digest if self.record else f"unknown of {self.name}"
        return digest, (one.release, one.version, one.digest, facts)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of equal machine, configuration and verdicts, at least one. ``others``: how many nodes
    have the same machine and configuration, and other verdicts."""

    nodes: tuple[Node, ...]
    others: int

    @property
    def first(self) -> Node:
        """One that stands for all."""
        return self.nodes[0]


def nodes(run: Run) -> tuple[Node, ...]:
    held: dict[str, dict[str, Result]] = {name: {} for name in run.machines}
    for result in run.ordered:  # the gravest first
        held[result.machine.name].setdefault(result.scenario, result)
    subjects, own = run.subjects, run.header.subject
    return tuple(Node(name, subjects.get(name, own), found) for name, found in held.items())


def groups(run: Run) -> tuple[Group, ...]:
    """The nodes that are alike, together. Of machines that differ the order is the run's; where
    some are alike, those with most broken promises come first, and the smallest groups."""
    everyone = nodes(run)
    alike: dict[object, list[Node]] = defaultdict(list)
    for node in everyone:
        alike[node.kind, node.verdicts].append(node)
    kinds = Counter(node.kind for node in everyone)
    found = [
        Group(tuple(members), kinds[members[0].kind] - len(members)) for members in alike.values()
    ]
    if len(kinds) < len(everyone):
        found.sort(key=_outlying)
    return tuple(found)


def _outlying(group: Group) -> tuple[int, int, int]:
    counts = group.first.counts
    return -counts[Verdict.FAIL], -counts[Verdict.UNKNOWN], len(group.nodes)
