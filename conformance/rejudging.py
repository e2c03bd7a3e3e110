"""Verdicts about real nodes, judged again from the observations in the result stream.

    for one in rejudged(Path("result.jsonl")): print(one.scenario, one.wrong)

Each scenario is driven again, on a node that shows what was seen after each step, with the model of
the stream's release beside it and the same promises and invariants. There are no waits. This finds
a result whose verdict or steps do not follow from its observations, even if the digests of stream
and certificate match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

import topologies
from conformance.aliases import present
from conformance.catalogue import catalogue
from conformance.discovered import architecture_of
from conformance.judge import Case, judge
from conformance.observations import (
    capabilities_of,
    config_of,
    machine_of,
    memory_manager_of,
    views,
)
from conformance.oracle import ModelOracle
from conformance.records import Header, Result
from conformance.results import ResultsError, read
from conformance.scenario import Scenario
from conformance.subject import Capability, SubjectInfo, SubjectLostError, SubjectSetupError
from conformance.verdict import Verdict
from reference.steps import KubeletConfig, Step
from reference.view import View
from topologies import Machine, MachineError
from topologies.archive import BrokenArchive

#: Verdicts about the node.
_SAYING: Final = (Verdict.PASS.value, Verdict.FAIL.value)


@dataclass(frozen=True, slots=True)
class Rejudged:
    """A result that was judged again. ``wrong`` says what does not follow from its observations,
    ``""`` if all of it does."""

    scenario: str
    wrong: str = ""


def machines_of(header: Header) -> dict[str, Machine]:
    """The real nodes of a stream as machines, by name. Raises
    :class:`conformance.results.ResultsError` for one that cannot be read."""
    found = {}
    for name, record in header.nodes.items():
        try:
            found[name] = machine_of(record, name)
        except (BrokenArchive, MachineError, ValueError) as error:
            raise ResultsError(f"the tree of {name} cannot be read: {error}") from error
    return found


def rejudged(stream: Path) -> Iterator[Rejudged]:
    """Judges again every result of a stream that says that a real node kept or broke a promise.
    Raises :class:`conformance.results.ResultsError` for a file that is not a stream."""
    header: Header | None = None
    machines: dict[str, Machine] = {}
    scenarios = {one.id: one for one in catalogue()}
    for record in read(stream):
        if isinstance(record, Header):
            header, machines = record, machines_of(record)
        elif isinstance(record, Result) and record.verdict in _SAYING:
            assert header is not None  # a stream begins with it
            scenario = scenarios.get(present(record.scenario))
            machine = machines.get(record.machine.name)
            yield Rejudged(record.scenario, _wrong(header, record, scenario, machine))


def _wrong(
    header: Header, result: Result, scenario: Scenario | None, machine: Machine | None
) -> str:
    if scenario is None:
        return "the catalogue has no such scenario"
    if machine is None or result.observed is None:
        return "it has no observations"
    if machine.digest != result.machine.digest:
        return "its machine is not that of the header"
    try:
        subject = _Replayed(header, result, machine)
    except ValueError as error:
        return f"its observations cannot be read: {error}"
    release = header.environment.get("judged by release") or header.subject.release
    built_for = architecture_of(subject.info)
    oracle = partial(ModelOracle, release=release, architecture=built_for)
    new = judge(Case(scenario, machine), subject, oracle=oracle, release=release).result
    if new.verdict != result.verdict:
        because = f" ({new.reason})" if new.reason else ""
        return f"what was seen gives {new.verdict}{because}, and the result says {result.verdict}"
    if new.steps != result.steps:
        return "its steps are not those of its scenario"
    return ""


@dataclass(eq=False)
class _Replayed:
    """The subject of one result: its node shows what was seen. Raises ``ValueError`` if the
    observations are not valid (:class:`msgspec.ValidationError` is a subclass)."""

    header: Header
    result: Result
    machine: Machine
    info: SubjectInfo = field(init=False)
    capabilities: frozenset[Capability] = field(init=False)
    _config: KubeletConfig | None = field(init=False)
    _memory_manager: KubeletConfig = field(init=False)
    _views: list[tuple[str, View]] = field(init=False)

    def __post_init__(self) -> None:
        record, observed = self.header.nodes[self.machine.name], self.result.observed
        assert observed is not None  # _wrong has checked it
        self.info = SubjectInfo(**msgspec.structs.asdict(self.header.subject))
        self.capabilities = capabilities_of(record)
        self._config = config_of(record)
        self._memory_manager = memory_manager_of(record)
        self._views = list(views(observed))
        self._salt, self._larger = observed.salt, observed.larger

    def own_config(self, machine: str) -> KubeletConfig | None:
        return self._config

    def memory_manager_of(self, machine: str) -> KubeletConfig:
        return self._memory_manager

    def salt(self) -> str:
        return self._salt

    def larger(self, machine: str) -> Machine | None:
        if not self._larger:
            return None
        try:
            known = self._larger in topologies.names()
            return (topologies.machine if known else topologies.describe)(self._larger)
        except MachineError as error:
            raise SubjectSetupError(str(error)) from error

    def node(
        self, machine: Machine, config: KubeletConfig, *, machines: Callable[[str], Machine]
    ) -> _ReplayedNode:
        return _ReplayedNode(self._views)

    def close(self) -> None:
        """Nothing is open."""


class _ReplayedNode:
    """Shows what was seen after each step; a step that was not taken then raises
    :class:`SubjectLostError`. There are no waits: only the last view of each step was kept."""

    def __init__(self, seen: list[tuple[str, View]]) -> None:
        self._left = iter(seen)
        self._view = View(running=False)

    def do(self, step: Step) -> None:
        taken, self._view = next(self._left, ("", self._view))
        if taken != step.sentence:
            was = f"the step “{taken}”" if taken else "no further step"
            raise SubjectLostError(f"the scenario has “{step.sentence}” where the result has {was}")

    def view(self) -> View:
        return self._view

    def settle(self, satisfied: Callable[[View], bool]) -> View:
        satisfied(self._view)  # the oracle goes on from the view that it accepts
        return self._view

    def evidence(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is open."""
